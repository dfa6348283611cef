"""Restoring a backup, and resetting a home to an empty memory.

A restore works on a copy beside the present database. The copy is verified, migrated to the present schema, and cleaned
of everything that was forgotten since the backup was made. Then the present database is backed up. Only then are the
two exchanged, in a way that leaves the old or the new database complete after any interruption
(`maintenance.backup_files`). A reset replaces the database in the same way, with an empty one. The caller holds the
lock of the home: no daemon runs, and hooks write to the spool, which the next daemon reads.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from filrouge._version import __version__
from filrouge.core.clock import Clock, to_text
from filrouge.core.errors import Corrupt, FilrougeError
from filrouge.core.paths import DATABASE, inside, make_private
from filrouge.core.protocols import Tx
from filrouge.erasure.service import replay
from filrouge.erasure.tombstones import Tombstones
from filrouge.maintenance import backup_files, copies
from filrouge.maintenance.backup_files import Manifest
from filrouge.maintenance.backup_service import back_up, verify
from filrouge.runtime.services import StoreContext, StoredSettings
from filrouge.runtime.sqlite import Database, refuse_older
from filrouge.runtime.wiring import bring_up_to_date
from filrouge.search.analyser import TextAnalyser

# What a reset carries over.

_NO_LIMIT: Final = 1 << 40
#: Rows copied unchanged: the query that reads them, and the query that writes them.
_COPIED_UNCHANGED: Final = (
    ("receipts.all", "receipts.put"),
    ("transcripts.all", "transcripts.put"),
    ("tokens.living", "tokens.put"),
    ("usage.all", "usage.add"),
    ("projects.all", "projects.add"),
    ("projects.names", "projects.alias"),
)


def carry_over(source: Tx, target: Tx, at: datetime) -> None:
    """Copy everything that is not memory into an empty database of the same schema.

    Settings and access tokens belong to the user. Tombstones keep forgotten texts from returning, and receipts prove
    that they were forgotten. Transcript positions keep a continuing session from being read again from its start. Model
    usage counts against the daily limits. Project names are kept because capture can be switched off by name, and
    because the user said which names are one project.
    """
    StoredSettings(target).put(StoredSettings(source).all(), at)
    Tombstones(target).add(Tombstones(source).all())
    for read_query, write_query in _COPIED_UNCHANGED:
        target.many(write_query, source.all(read_query, {"limit": _NO_LIMIT} if read_query == "receipts.all" else None))


# Reset.


class MemoryCounts(Struct, frozen=True, kw_only=True):
    """Counts of what a home remembers.

    Attributes:
        memories: live memories; None if the database cannot be read or has another schema.
        turns: stored turns; None in the same cases.
        since: when the first event was received; empty if unknown.
    """

    bytes: int
    memories: int | None = None
    turns: int | None = None
    since: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the counts as the command prints them."""
        return {"bytes": self.bytes, "memories": self.memories, "turns": self.turns, "since": self.since or None}


def memory_counts(home: str) -> MemoryCounts | None:
    """Return counts of what the home remembers; None if it has no database yet."""
    path = inside(home, DATABASE)
    if not os.path.exists(path):
        return None
    size = backup_files.database_size(path)
    try:
        database = Database(path, readonly=True)
        try:
            memory_rows, turn_row = database.tx.all("memories.count"), database.tx.one("turns.count")
            first_event = database.tx.one("journal.begun")
        finally:
            database.close()
    except FilrougeError:
        return MemoryCounts(bytes=size)
    return MemoryCounts(
        bytes=size,
        memories=sum(row["n"] for row in memory_rows if row["state"] == "live"),
        turns=turn_row["n"] if turn_row else 0,
        since=(first_event["at"] or "") if first_event else "",
    )


def reset(home: str, clock: Clock) -> str:
    """Back up the home's memory and start with an empty one. The caller holds the lock of the home.

    Word lists and briefs are derived from memories and are removed with them.

    Returns:
        The name of the backup, which stays until someone deletes it.

    Raises:
        NotFound: there is no memory.
        Corrupt: it is damaged, so no verified backup is possible; nothing was changed.
        CannotWrite: there is no room for the backup; nothing was changed.
    """
    bring_up_to_date(home, clock)
    backup = back_up(home, "hand", clock.now(), reserved_bytes=0).name
    new = backup_files.new_database_path(home)
    try:
        _make_empty_database(new, backup_files.path_of(home, backup), clock)
        backup_files.replace_database(home, new)
    finally:
        backup_files.remove_database(new)
    return backup


def _make_empty_database(path: str, backup: str, clock: Clock) -> None:
    """Make an empty database and carry over from a backup everything that is not memory."""
    source, target = Database(backup, readonly=True), Database(path)
    try:
        target.migrate(clock)
        with target.transaction() as tx:
            carry_over(source.tx, tx, clock.now())
    finally:
        target.close()
        source.close()
    copies.merge_log(path)
    if errors := copies.integrity_errors(path):
        raise Corrupt(f"The new memory is not sound: {errors[0]}.", remedy="Nothing was changed; check that disk.")


_LOG = logging.getLogger(__name__)
#: Space factor: a copy, its migration, and the replay of tombstones.
_SPACE_FACTOR: Final = 1.2


class Restored(Struct, frozen=True, kw_only=True):
    """The result of a restore.

    Attributes:
        path: the backup's file.
        at: when the backup was made; None without a manifest.
        schema: the backup's schema; the restored memory has the present one.
        verified: the checks that passed; without a manifest, equality to the source is unknown.
        forgotten: rows removed because they were forgotten after the backup was made.
        kept: the backup of the memory that was replaced; None if there was none.
    """

    path: str
    at: str | None
    schema: int
    verified: tuple[str, ...]
    rows: dict[str, int]
    forgotten: int
    kept: str | None

    def to_json(self) -> dict[str, Any]:
        """Return the result as the command prints it."""
        return {
            "path": self.path,
            "at": self.at,
            "schema": self.schema,
            "verified": list(self.verified),
            "rows": self.rows,
            "forgotten": self.forgotten,
            "kept": self.kept,
        }


def restore(home: str, what: str, clock: Clock, *, dry_run: bool = False) -> Restored:
    """Replace the home's memory with a backup.

    Args:
        what: a backup's name, `latest`, or the path of a database.
        dry_run: verify the backup and change nothing; needs no lock.

    Raises:
        NotFound: there is no such backup.
        Corrupt: it is damaged; nothing was changed.
        WrongEngine: a newer Filrouge made it, or one from before the baseline; nothing was changed.
        CannotWrite: there is no room for it and for the memory that is kept; nothing was changed.
    """
    path = backup_files.find(home, what)
    if not dry_run:
        with backup_files.translate_oserror(home):
            make_private(home)
        backup_files.finish_replacement(home)
    schema, manifest = copies.check_schema(path), backup_files.read_manifest(path)
    present = inside(home, DATABASE)
    backup_files.check_space(
        home, int(_SPACE_FACTOR * (backup_files.database_size(path) + backup_files.database_size(present)))
    )
    temporary = backup_files.temporary_path(home) if dry_run else backup_files.new_database_path(home)
    try:
        passed, forgotten = _prepare_verified_copy(
            path,
            temporary,
            manifest,
            StoreContext(home=home, clock=clock, analyser=TextAnalyser(), environ=os.environ),
            present,
        )
        rows = dict(copies.content(temporary).rows)
        replaced = None if dry_run else keep_present(home, clock)
        if not dry_run:
            backup_files.replace_database(home, temporary)
            _LOG.info("the memory of %s was restored", os.path.basename(path))
    finally:
        backup_files.remove_database(temporary)
    at = manifest.at if manifest else None
    return Restored(path=path, at=at, schema=schema, verified=passed, rows=rows, forgotten=forgotten, kept=replaced)


def _prepare_verified_copy(
    path: str, temporary: str, manifest: Manifest | None, context: StoreContext, present: str
) -> tuple[tuple[str, ...], int]:
    """Make and verify the copy to restore; return the passed checks and the number of rows forgotten again."""
    copied = copies.copy(path, temporary)
    if manifest is not None and copied.hash != manifest.hash:
        raise Corrupt(f"{path} differs from its manifest.", remedy="Take another one from `filrouge backup --list`.")
    if errors := copies.integrity_errors(temporary):
        raise Corrupt(f"{path} is damaged: {errors[0]}.", remedy="Take another one from `filrouge backup --list`.")
    database = Database(temporary)
    try:
        database.migrate(context.clock)
        with _open_if_readable(present) as present_database:
            forgotten = replay(context, present_database, database)
    finally:
        database.close()
    copies.merge_log(temporary)
    passed = verify(temporary, None)
    return (("equal", *passed) if manifest is not None else passed), forgotten


@contextmanager
def _open_if_readable(path: str) -> Generator[Database | None]:
    """Yield the present database; None if it does not exist or cannot be read."""
    database: Database | None = None
    if os.path.exists(path):
        try:
            copies.schema_of(path)
            database = Database(path, readonly=True)
        except FilrougeError as error:
            _LOG.warning("the present database cannot be read: %s", error.message)
    try:
        yield database
    finally:
        if database is not None:
            database.close()


def keep_present(home: str, clock: Clock) -> str | None:
    """Back up the present memory, or keep its files unverified if they are damaged.

    Returns:
        The backup's name; None if there is no memory.

    Raises:
        CannotWrite: there is no room for it.
        WrongEngine: its schema is older than the baseline, so the seals of its rows are unknown here.
    """
    path = inside(home, DATABASE)
    if not os.path.exists(path):
        return None
    try:
        refuse_older(copies.schema_of(path), what=path)
        return back_up(home, "before-restore", clock.now(), reserved_bytes=0).name
    except Corrupt as error:
        _LOG.warning("the present database is kept as it is: %s", error.message)
        return keep_files(home, clock)


def keep_files(home: str, clock: Clock, *, mark: str = "") -> str:
    """Keep a damaged database and its log among the backups, unverified.

    Args:
        mark: stored in the manifest; says why the files were kept.

    Raises:
        CannotWrite: there is no room for it.
    """
    database = inside(home, DATABASE)
    with backup_files.backup_lock(home):
        backup_files.check_space(backup_files.backup_directory(home), backup_files.database_size(database))
        at = clock.now()
        name = backup_files.unused_name(home, at, "damaged")
        path = backup_files.path_of(home, name)
        with backup_files.translate_oserror(path):
            if os.path.exists(f"{database}-wal"):
                backup_files.private_copy(f"{database}-wal", f"{path}-wal")
            temporary = backup_files.temporary_path(backup_files.backup_directory(home))
            backup_files.private_copy(database, temporary)
            manifest = Manifest(
                name=name,
                kind="damaged",
                version=__version__,
                schema=0,
                at=to_text(at),
                bytes=os.path.getsize(temporary),
                rows={},
                hash="",
                mark=mark,
                verified=(),
            )
            backup_files.publish(temporary, path, manifest)
    return name
