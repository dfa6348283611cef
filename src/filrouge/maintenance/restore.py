"""Restoring: a backup takes the place of the memory, once it is proven, and the memory that was there is kept.

Everything is done to a copy beside the present database: verified, brought to the present schema, and rid of what was
forgotten since it was made. Then the present database is backed up itself, and only then exchanged, in a way that
leaves the old or the new whole wherever it is interrupted (`maintenance.backup_files`). For the holder of the home's
lock: no daemon runs meanwhile, and hooks write to the spool, which the next daemon reads.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from filrouge._version import __version__
from filrouge.core.clock import Clock, to_text
from filrouge.core.errors import Corrupt, FilrougeError
from filrouge.core.paths import DATABASE, inside, make_private
from filrouge.core.protocols import Tx
from filrouge.erasure.service import replay
from filrouge.erasure.tombstones import Tombstones
from filrouge.maintenance import backup_files
from filrouge.maintenance.backup_files import Manifest
from filrouge.maintenance.backup_service import back_up, verify
from filrouge.runtime.services import StoreContext
from filrouge.runtime.settings_repository import StoredSettings
from filrouge.runtime.sqlite import Database
from filrouge.runtime.wiring import bring_up_to_date
from filrouge.search.analyser import TextAnalyser

# Beginning anew: a verified backup first, then an empty database in its place.

# What a memory that begins anew takes over from the one before it: everything that is no memory.
#
# Settings and access are the user's. Tombstones keep what was forgotten from coming back, and receipts prove that it
# was. How far each transcript was read keeps a session that goes on from being read in again from its beginning. What
# models cost counts against the limits of the day, whichever memory it was spent for. The names of projects go over,
# because capture is switched off by any of them, and because the user said which of them are one.

_EVERY: Final = 1 << 40
#: Rows as they are: what gives them, and what takes them.
_AS_THEY_ARE: Final = (
    ("receipts.all", "receipts.put"),
    ("transcripts.all", "transcripts.put"),
    ("tokens.living", "tokens.put"),
    ("usage.all", "usage.add"),
    ("projects.all", "projects.add"),
    ("projects.names", "projects.alias"),
)


def take_over(before: Tx, anew: Tx, at: datetime) -> None:
    """Take what is no memory from one database into another that is empty and has the same schema."""
    StoredSettings(anew).put(StoredSettings(before).all(), at)
    Tombstones(anew).add(Tombstones(before).all())
    for given, taken in _AS_THEY_ARE:
        anew.many(taken, before.all(given, {"limit": _EVERY} if given == "receipts.all" else None))


# A memory is put away and begins anew: a verified backup first, then an empty database in its place.
#
# What is no memory goes over into the new one (`maintenance.reset`). Ended at any moment it leaves the old memory or
# the new one, whole, as restoring does (`maintenance.backup_files`). Words and briefs, which are made of memories, go
# with them.


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """What a home remembers, in counts.

    Attributes:
        memories: how many live ones; None where the database cannot be read, or is of another schema.
        turns: how many turns; None likewise.
        since: when something was said here for the first time; empty where nobody knows.
    """

    bytes: int
    memories: int | None = None
    turns: int | None = None
    since: str = ""

    def to_json(self) -> dict[str, Any]:
        """As the command prints it."""
        return {"bytes": self.bytes, "memories": self.memories, "turns": self.turns, "since": self.since or None}


def held(home: str) -> Held | None:
    """What the home remembers; None where it has no memory yet."""
    path = inside(home, DATABASE)
    if not os.path.exists(path):
        return None
    size = backup_files.bytes_of(path)
    try:
        database = Database(path, readonly=True)
        try:
            known, said = database.tx.all("memories.count"), database.tx.one("turns.count")
            begun = database.tx.one("journal.begun")
        finally:
            database.close()
    except FilrougeError:
        return Held(bytes=size)
    return Held(
        bytes=size,
        memories=sum(row["n"] for row in known if row["state"] == "live"),
        turns=said["n"] if said else 0,
        since=(begun["at"] or "") if begun else "",
    )


def reset(home: str, clock: Clock) -> str:
    """Put the home's memory away. For the holder of the home's lock.

    Returns:
        The backup that holds it, which stays until somebody deletes it.

    Raises:
        NotFound: there is no memory.
        Corrupt: it is damaged, so that no backup could be proven; nothing was changed.
        CannotWrite: there is no room for the backup; nothing was changed.
    """
    bring_up_to_date(home, clock)
    kept = back_up(home, "hand", clock.now(), left=0).name
    new = backup_files.begun(home)
    try:
        _begin(new, backup_files.path_of(home, kept), clock)
        backup_files.replace(home, new)
    finally:
        backup_files.remove_database(new)
    return kept


def _begin(path: str, before: str, clock: Clock) -> None:
    """Make an empty memory that takes over what is none from the backup of the one before."""
    old, database = Database(before, readonly=True), Database(path)
    try:
        database.migrate(clock)
        with database.transaction() as tx:
            take_over(old.tx, tx, clock.now())
    finally:
        database.close()
        old.close()
    backup_files.merge_log(path)
    if found := backup_files.complaints(path):
        raise Corrupt(f"The new memory is not sound: {found[0]}.", remedy="Nothing was changed; look at that disk.")


_LOG = logging.getLogger(__name__)
#: A copy, its migration and what is forgotten in it.
_ROOM: Final = 1.2


@dataclass(frozen=True, kw_only=True, slots=True)
class Restored:
    """What came of it.

    Attributes:
        path: the backup's file.
        at: when it was made; None where its manifest is not beside it.
        schema: that of the backup; the memory has the present one.
        verified: what was verified of it; without a manifest nobody knows whether it is equal to its source.
        forgotten: rows of it that had been forgotten since, and were taken out again.
        kept: the backup of the memory that was there; None where there was none.
    """

    path: str
    at: str | None
    schema: int
    verified: tuple[str, ...]
    rows: dict[str, int]
    forgotten: int
    kept: str | None

    def to_json(self) -> dict[str, Any]:
        """As the command prints it."""
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
    """Put a backup in the place of the home's memory.

    Args:
        what: a backup's name, `latest`, or the path of a database.
        dry_run: verify it, and change nothing; needs no lock.

    Raises:
        NotFound: there is no such backup.
        Corrupt: it is damaged; nothing was changed.
        WrongEngine: a newer Filrouge made it; nothing was changed.
        CannotWrite: there is no room for it and for what is kept; nothing was changed.
    """
    path = backup_files.find(home, what)
    if not dry_run:
        with backup_files.writing(home):
            make_private(home)
        backup_files.finish(home)
    schema, about = backup_files.check_schema(path), backup_files.read_manifest(path)
    present = inside(home, DATABASE)
    backup_files.check_space(home, int(_ROOM * (backup_files.bytes_of(path) + backup_files.bytes_of(present))))
    temporary = backup_files.unfinished(home) if dry_run else backup_files.begun(home)
    try:
        held, forgotten = _proven(
            path,
            temporary,
            about,
            StoreContext(home=home, clock=clock, analyser=TextAnalyser(), environ=os.environ),
            present,
        )
        rows = dict(backup_files.content(temporary).rows)
        kept = None if dry_run else keep_present(home, clock)
        if not dry_run:
            backup_files.replace(home, temporary)
            _LOG.info("the memory of %s was restored", os.path.basename(path))
    finally:
        backup_files.remove_database(temporary)
    at = about.at if about else None
    return Restored(path=path, at=at, schema=schema, verified=held, rows=rows, forgotten=forgotten, kept=kept)


def _proven(
    path: str, temporary: str, about: Manifest | None, context: StoreContext, present: str
) -> tuple[tuple[str, ...], int]:
    """Make the copy that is to serve; what was verified of it, and how many rows were forgotten in it again."""
    copied = backup_files.copy(path, temporary)
    if about is not None and copied.hash != about.hash:
        raise Corrupt(f"{path} is not what was backed up.", remedy="Take another one from `filrouge backup --list`.")
    if found := backup_files.complaints(temporary):
        raise Corrupt(f"{path} is damaged: {found[0]}.", remedy="Take another one from `filrouge backup --list`.")
    database = Database(temporary)
    try:
        database.migrate(context.clock)
        with _readable(present) as now:
            forgotten = replay(context, now, database)
    finally:
        database.close()
    backup_files.merge_log(temporary)
    sealed = verify(temporary, None)
    return (("equal", *sealed) if about is not None else sealed), forgotten


@contextmanager
def _readable(path: str) -> Generator[Database | None]:
    """The present database, or None where there is none that can be read."""
    database: Database | None = None
    if os.path.exists(path):
        try:
            backup_files.schema_of(path)
            database = Database(path, readonly=True)
        except FilrougeError as error:
            _LOG.warning("the present database cannot be read: %s", error.message)
    try:
        yield database
    finally:
        if database is not None:
            database.close()


def keep_present(home: str, clock: Clock) -> str | None:
    """Back up the memory that is there; where that cannot be verified, keep its files as they are. The backup's name.

    Raises:
        CannotWrite: there is no room for it.
    """
    if not os.path.exists(inside(home, DATABASE)):
        return None
    try:
        return back_up(home, "before-restore", clock.now(), left=0).name
    except Corrupt as error:
        _LOG.warning("the present database is kept as it is: %s", error.message)
        return keep_files(home, clock)


def keep_files(home: str, clock: Clock, *, mark: str = "") -> str:
    """Keep a damaged database, with its log, among the backups: nothing in it is verified.

    Args:
        mark: what its manifest says of how it came there.

    Raises:
        CannotWrite: there is no room for it.
    """
    database = inside(home, DATABASE)
    with backup_files.one_at_a_time(home):
        backup_files.check_space(backup_files.folder(home), backup_files.bytes_of(database))
        at = clock.now()
        name = backup_files.free_name(home, at, "damaged")
        path = backup_files.path_of(home, name)
        with backup_files.writing(path):
            if os.path.exists(f"{database}-wal"):
                backup_files.private_copy(f"{database}-wal", f"{path}-wal")
            temporary = backup_files.unfinished(backup_files.folder(home))
            backup_files.private_copy(database, temporary)
            about = Manifest(
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
            backup_files.publish(temporary, path, about)
    return name
