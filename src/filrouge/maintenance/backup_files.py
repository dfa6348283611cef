"""Copies of a database that others are writing, proof that a copy is whole, and what may never differ from a backup."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any, Final, Literal

import apsw
import numpy as np

from filrouge.core import installation
from filrouge.core.clock import SystemClock, from_text
from filrouge.core.errors import Busy, CannotWrite, Corrupt, NotFound, WrongEngine
from filrouge.core.paths import BACKUPS, BRIEFS, DATABASE, WORDS, inside, make_private
from filrouge.runtime.soundness import row_hashes, whole
from filrouge.runtime.sqlite import Connection, Database, check_engine, migrations, translated

# Backups as files: whole or not there, each with its manifest, and how one takes the place of the database.

# Files that are whole or not there: room for them, their bytes on the disk, and errors that say what to do.

#: What a file is called while it is being written.
NEW: Final = ".new-"
#: What SQLite keeps beside a database.
LOGS: Final = ("-wal", "-shm", "-journal")


@contextmanager
def writing(path: str) -> Generator[None]:
    """Say of a file or directory that cannot be written that it cannot."""
    try:
        yield
    except OSError as error:
        raise CannotWrite(f"{error.filename or path} cannot be written: {error.strerror}.") from error


def check_space(directory: str, wanted: int, *, left: int = 0) -> None:
    """Raise `CannotWrite` unless `wanted` bytes fit in a directory and `left` are free afterwards."""
    there = directory
    while not os.path.exists(there):
        there = os.path.dirname(there)
    free = shutil.disk_usage(there).free
    if free < wanted + left:
        raise CannotWrite(
            f"A copy of the memory takes {_megabytes(wanted)} in {directory}, and {_megabytes(free)} are free"
            + (f", of which {_megabytes(left)} are left to capture." if left else "."),
            remedy="Free some space; backups that nobody needs any more are files of the directory backups.",
        )


def bytes_of(database: str) -> int:
    """The size of a database with its log; 0 where there is none."""
    return sum(size_of(f"{database}{suffix}") for suffix in ("", "-wal"))


def remove_database(path: str) -> None:
    """Remove a database with its logs, as far as they are there."""
    for suffix in ("", *LOGS):
        with suppress(FileNotFoundError):
            os.unlink(path + suffix)


def unfinished(directory: str, suffix: str = ".db") -> str:
    """A path in a directory that no backup has; it is removed some time if nobody renames it."""
    return os.path.join(directory, f"{NEW}{secrets.token_hex(8)}{suffix}")


def private_copy(source: str, target: str) -> bytes:
    """Copy a file to one of this user alone, down to the disk; SHA-256 of what was read."""
    digest = hashlib.sha256()
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(source, "rb") as read, os.fdopen(handle, "wb") as write:
        while piece := read.read(1 << 20):
            digest.update(piece)
            write.write(piece)
        write.flush()
        os.fsync(write.fileno())
    return digest.digest()


def sync_directory(directory: str) -> None:
    """Bring the names in a directory to the disk."""
    handle = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def size_of(path: str) -> int:
    """The bytes of a file; 0 where there is none."""
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0


def _megabytes(size: int) -> str:
    return f"{-(-size // (1 << 20))} MB"


# Backups as files: `FILROUGE_HOME/backups/NAME.db`, each a whole database, with its manifest `NAME.json` beside it.
#
# A backup is written under a name that nobody looks for and gets its own once it is verified, so whatever bears the
# name of a backup is one. The manifest says what was verified: version, schema, time, counts and a hash, and no word
# of anybody. What SQLite has to do with it is `maintenance.copies`'s; this module knows files.

Kind = Literal["scheduled", "hand", "before-restore", "before-migration", "damaged"]
#: What a backup leaves free, so that capture goes on.
LEAST_LEFT: Final = 200 << 20
_NAME: Final = re.compile(r"\d{8}T\d{6}Z-(scheduled|hand|before-restore|before-migration|damaged)(-\d+)?")
_LOCK: Final = ".lock"
#: In the home itself: that the directory cannot be written is one of the failures.
_FAILURE: Final = "backup.error"
#: Backups that Filrouge made before it changed something: the newest of each kind.
_KEPT_OF_KIND: Final = 2
_WEEK_SECONDS: Final = 7 * 86_400.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """What a backup holds, and what was verified of it.

    Attributes:
        at: when it was begun.
        rows: how many rows each table has.
        hash: over all rows of all tables.
        mark: how far the memory had come; a later backup with the same mark would hold nothing new.
        verified: what holds: `equal` to its source, `sound` by SQLite's checks, every `seal`, the `journal`'s chain.
    """

    name: str
    kind: Kind
    version: str
    schema: int
    at: str
    bytes: int
    rows: Mapping[str, int]
    hash: str
    mark: str
    verified: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Everything, as the API and the file have it."""
        return asdict(self) | {"verified": list(self.verified)}


def manifest_from_json(about: Mapping[str, Any]) -> Manifest:
    """The manifest that `to_json` gave.

    Raises:
        KeyError, TypeError: it is another document.
    """
    known: dict[str, Any] = {field.name: about[field.name] for field in fields(Manifest)}
    known["verified"] = tuple(about["verified"])
    return Manifest(**known)


def folder(home: str) -> str:
    """Where the backups of a home are."""
    return os.path.join(home, BACKUPS)


def path_of(home: str, name: str) -> str:
    """The database of a backup."""
    return os.path.join(folder(home), f"{name}.db")


def is_name(word: str) -> bool:
    """True for what a backup can be called."""
    return _NAME.fullmatch(word) is not None


def listed(home: str) -> list[Manifest]:
    """Every backup with a manifest, newest first."""
    found = [manifest(home, name) for name in _names(home)]
    return sorted((one for one in found if one), key=lambda one: (one.at, one.name), reverse=True)


def manifest(home: str, name: str) -> Manifest | None:
    """What is known of a backup; None where its file or its manifest is not there or is not what was written."""
    return read_manifest(path_of(home, name))


def read_manifest(path: str) -> Manifest | None:
    """The manifest beside a backup's file, wherever that is."""
    try:
        with open(f"{path.removesuffix('.db')}.json", encoding="utf-8") as file:
            about: dict[str, Any] = json.load(file)
        found = manifest_from_json(about)
        return found if os.path.getsize(path) == found.bytes else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def newest(home: str, *, kinds: Collection[Kind] = ("scheduled", "hand", "before-restore")) -> Manifest | None:
    """The newest backup of which all was verified, or None."""
    return next((one for one in listed(home) if one.kind in kinds and "journal" in one.verified), None)


def find(home: str, what: str) -> str:
    """The file of the backup that a person calls so: a name, `latest`, or a path.

    Raises:
        NotFound: there is none.
    """
    remedy = "See the backups in `filrouge backup --list`."
    if what == "latest":
        last = newest(home)
        if last is None:
            raise NotFound("There is no backup yet.", remedy="Make one with `filrouge backup`.")
        return path_of(home, last.name)
    path = path_of(home, what) if is_name(what) else os.path.abspath(os.path.expanduser(what))
    if not os.path.isfile(path):
        raise NotFound(f"There is no backup {what}.", remedy=remedy)
    return path


@contextmanager
def one_at_a_time(home: str) -> Generator[None]:
    """Hold the lock of the backups; what an earlier one left that was ended in the middle is removed first.

    Raises:
        Busy: a backup is being made.
        CannotWrite: the directory cannot be made or written.
    """
    with writing(folder(home)):
        make_private(home)
        os.makedirs(folder(home), mode=0o700, exist_ok=True)
        os.chmod(folder(home), 0o700)
        handle = os.open(os.path.join(folder(home), _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Busy("A backup is being made.", remedy="See `filrouge backup --list` in a moment.") from error
        _clear(home)
        yield
    finally:
        os.close(handle)


def free_name(home: str, at: datetime, kind: Kind) -> str:
    """A name that no backup has, which sorts by time."""
    plain, number = f"{at:%Y%m%dT%H%M%SZ}-{kind}", 1
    name = plain
    while os.path.exists(path_of(home, name)):
        number += 1
        name = f"{plain}-{number}"
    return name


def publish(temporary: str, path: str, about: Manifest) -> None:
    """Give a verified file its place and its manifest: the manifest first, so that a file in place always has one."""
    with writing(path):
        describe(path, about)
        os.replace(temporary, path)
        sync_directory(os.path.dirname(path))


def describe(path: str, about: Manifest) -> None:
    """Give the file at `path` this manifest.

    Raises:
        CannotWrite: it has the one that it had.
    """
    with writing(path):
        handle, new = tempfile.mkstemp(dir=os.path.dirname(path), prefix=NEW)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(about.to_json(), file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, f"{path.removesuffix('.db')}.json")
        sync_directory(os.path.dirname(path))


def copy_out(home: str, name: str, to: str) -> None:
    """Write a backup and its manifest to a file elsewhere, and hold what was written against what was read.

    Raises:
        CannotWrite: it cannot be written there; nothing of it is left.
    """
    source, target = path_of(home, name), os.path.abspath(to)
    check_space(os.path.dirname(target), size_of(source))
    temporary = unfinished(os.path.dirname(target))
    about = manifest(home, name)
    try:
        with writing(target):
            written = private_copy(source, temporary)
            with open(temporary, "rb") as file:
                if hashlib.file_digest(file, "sha256").digest() != written:
                    raise CannotWrite(f"{target} is not what was written to it.", remedy="Look at that disk.")
        if about is not None:
            publish(temporary, target, about)
    finally:
        with suppress(OSError):
            os.unlink(temporary)


def remove(home: str, name: str) -> None:
    """Remove a backup: the database first, because a manifest alone is nothing."""
    path = path_of(home, name)
    for file in (path, f"{path}-wal", f"{path}-shm", f"{path.removesuffix('.db')}.json"):
        with suppress(FileNotFoundError):
            os.unlink(file)


def rotate(home: str, *, keep: int, weeks: int) -> list[str]:
    """Remove what is too many: of the scheduled, all but the newest and one for each week before them; of those made
    before a change, all but the last two of each kind. What was made by hand stays. The names of what went.
    """
    found = listed(home)
    scheduled = [one for one in found if one.kind == "scheduled"]
    stay = {one.name for one in scheduled[:keep]} | _one_a_week(scheduled[keep:], weeks)
    for kind in ("before-restore", "before-migration"):
        stay |= {one.name for one in [one for one in found if one.kind == kind][:_KEPT_OF_KIND]}
    gone = [one.name for one in found if one.kind not in ("hand", "damaged") and one.name not in stay]
    for name in gone:
        remove(home, name)
    return gone


def note_failure(home: str, at: str, error: str) -> None:
    """Leave word that a backup failed, until one succeeds."""
    with suppress(OSError), open(os.path.join(home, _FAILURE), "w", encoding="utf-8") as file:
        json.dump({"at": at, "error": error}, file)


def forget_failure(home: str) -> None:
    """A backup succeeded."""
    with suppress(OSError):
        os.unlink(os.path.join(home, _FAILURE))


def failure(home: str) -> dict[str, str] | None:
    """When and why the last backup failed; None where none has since the last that succeeded."""
    try:
        with open(os.path.join(home, _FAILURE), encoding="utf-8") as file:
            return dict(json.load(file))
    except (OSError, ValueError):
        return None


def _one_a_week(older: list[Manifest], weeks: int) -> set[str]:
    """The oldest of each of the last weeks: it moves to the next week as time goes by, and is not lost on the way."""
    by_week: dict[int, str] = {}
    for one in older:  # newest first, so the oldest of a week is what stands at last
        by_week[int(from_text(one.at).timestamp() // _WEEK_SECONDS)] = one.name
    return {by_week[week] for week in sorted(by_week, reverse=True)[:weeks]}


def _names(home: str) -> list[str]:
    try:
        found = os.listdir(folder(home))
    except OSError:
        return []
    return [name.removesuffix(".db") for name in found if name.endswith(".db") and is_name(name.removesuffix(".db"))]


def _clear(home: str) -> None:
    """Remove what was begun and not finished, and manifests without a backup. Only for the lock's holder."""
    for name in os.listdir(folder(home)):
        alone = is_name(name.removesuffix(".json")) and not os.path.exists(path_of(home, name.removesuffix(".json")))
        if name.startswith(NEW) or (name.endswith(".json") and alone):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(folder(home), name))


# Another database takes the place of the one that a home has: all of it, or nothing.
#
# A log must never lie beside a database that it was not written for, and two files cannot be exchanged at once. So
# the new database is first made whole under a name of its own: that renaming is the moment at which it holds. From
# then on whoever opens the home, today or after a power cut, does the rest: removes the old log and everything
# derived from the old rows, and renames. Only for the holder of the home's lock.

#: A database that is to take the place of the present one, and is whole.
NEXT: Final = f"{DATABASE}.next"
#: What the process that was shown a plan for it answers, if it may be done.
GO: Final = "go"


def begun(home: str) -> str:
    """A path for the new database while it is being made; what an earlier attempt left there is removed."""
    clear(home)
    return unfinished(home)


def replace(home: str, database: str) -> None:
    """Put a database that is whole, synced and without a log in the place of the home's.

    Raises:
        CannotWrite: nothing was changed, or the next start finishes it.
    """
    with writing(home):
        os.replace(database, inside(home, NEXT))
        sync_directory(home)
    finish(home)


def finish(home: str) -> bool:
    """Do what is left of a replacement that was begun; False where there is none.

    Raises:
        CannotWrite: it cannot be done now; the next start tries again.
    """
    waiting, place = inside(home, NEXT), inside(home, DATABASE)
    if not os.path.exists(waiting):
        return False
    with writing(home):
        for suffix in LOGS:
            with suppress(FileNotFoundError):
                os.unlink(place + suffix)
        for derived in (WORDS, BRIEFS):
            with suppress(FileNotFoundError):
                shutil.rmtree(inside(home, derived))
        sync_directory(home)
        os.replace(waiting, place)
        sync_directory(home)
    return True


def clear(home: str) -> None:
    """Remove what was begun and never became whole."""
    with suppress(FileNotFoundError), os.scandir(home) as found:
        for entry in found:
            if entry.name.startswith(NEW) and ".db" in entry.name:
                with suppress(FileNotFoundError):
                    os.unlink(entry.path)


# Copies of a database that others are writing, and the proof that a copy is what it was made from.
#
# SQLite's backup API copies pages inside one read transaction, and the rows of the source are hashed inside the same
# one: copy and hash are of one moment by construction, whoever commits meanwhile. A reader of a write-ahead log keeps
# no writer waiting; only the log cannot be emptied until it is done. The copy is a single file without a log of its
# own.

_PAGES_AT_ONCE = 1024
_PATIENCE_MS = 5000


@dataclass(frozen=True, kw_only=True, slots=True)
class Content:
    """What a database holds, without a word of it.

    Attributes:
        rows: how many rows each table has.
        hash: over all rows of all tables, as `row_hash` makes it.
        schema: the number of its last migration; 0 where it is no memory database.
    """

    rows: Mapping[str, int]
    hash: str
    schema: int


def copy(source: str, target: str) -> Content:
    """Copy the database at `source` into the new file `target`; what it held, read in the same transaction.

    Raises:
        Corrupt: a page or a row of the source cannot be read.
        CannotWrite: there is no room for the copy.
    """
    check_engine()
    try:
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise CannotWrite(f"{target} cannot be written: {error.strerror}.") from error
    with _reading(source) as origin:
        with translated():
            made: Connection = apsw.Connection(target, flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            with translated():
                # Nobody reads the file before it is whole, and then it is synced.
                list(made.execute("pragma journal_mode = off; pragma synchronous = off"))
                with made.backup("main", origin, "main") as backup:
                    while not backup.done:
                        backup.step(_PAGES_AT_ONCE)
                held = _content(origin)
        finally:
            made.close()
    _without_log(target)
    _sync(target)
    return held


def content(path: str) -> Content:
    """What a database holds.

    Raises:
        Corrupt: it cannot be read.
    """
    with _reading(path) as connection, translated():
        return _content(connection)


def complaints(path: str) -> list[str]:
    """What SQLite's own checks, full-text indexes and foreign keys included, find wrong with a database."""
    with _reading(path) as connection, translated():
        found = [str(row[0]) for row in connection.execute("pragma integrity_check")]
        found = [] if found == ["ok"] else found
        return found + [
            f"a row of {table} names one of {other} that is not there"
            for table, _, other, _ in connection.execute("pragma foreign_key_check")
        ]


def schema_of(path: str) -> int:
    """The number of a database's last migration; 0 where it has none.

    Raises:
        Corrupt: it cannot be read.
    """
    with _reading(path) as connection, translated():
        return _schema(connection)


def check_schema(path: str) -> int:
    """The number of a database's last migration.

    Raises:
        Corrupt: it is no memory database.
        WrongEngine: a newer Filrouge wrote it.
    """
    found, known = schema_of(path), migrations("sqlite")[-1].number
    if not found:
        raise Corrupt(f"{path} is no memory database.", remedy="See the backups in `filrouge backup --list`.")
    if found > known:
        raise WrongEngine(
            f"{path} was written by a newer Filrouge: schema {found}, known here {known}.",
            remedy=f"Upgrade with `{installation.upgrade()}`.",
        )
    return found


def schema_faults(path: str) -> list[str]:
    """What of a database's tables, indexes and triggers is not what its migrations make.

    Raises:
        Corrupt: it cannot be read.
    """
    found, wanted = Database(path, readonly=True), Database(":memory:")
    try:
        wanted.migrate(SystemClock(), upto=schema_of(path))
        here, there = set(found.schema()), set(wanted.schema())
    finally:
        found.close()
        wanted.close()
    return [f"not as it was made: {' '.join(sql.split()[:4])}" for sql in sorted(here ^ there)]


def merge_log(path: str) -> None:
    """Bring what stands in a database's log into its file, and let the log go; for a database nobody else has open."""
    _alone(path, "pragma wal_checkpoint(truncate)")
    _sync(path)


def _content(connection: Connection) -> Content:
    tables = row_hashes(connection)
    return Content(
        rows={name: one.rows for name, one in tables.items()}, hash=whole(tables), schema=_schema(connection)
    )


def _schema(connection: Connection) -> int:
    there = connection.execute("select 1 from sqlite_schema where name = 'schema_migrations'").fetchone()
    return int(connection.execute("select max(number) from schema_migrations").fetchone()[0] or 0) if there else 0


@contextmanager
def _reading(path: str) -> Generator[Connection]:
    """A connection inside one read transaction, which is one moment of the database."""
    with translated():
        connection: Connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    try:
        with translated():
            connection.set_busy_timeout(_PATIENCE_MS)
            connection.execute("begin")
            connection.execute("select count(*) from sqlite_schema").fetchone()
        yield connection
    finally:
        connection.close()


def _without_log(path: str) -> None:
    """A copy of a database with a log says that it has one, too, and could not be opened where nothing may be made."""
    _alone(path, "pragma journal_mode = delete")


def _alone(path: str, statement: str) -> None:
    """Run one statement on a database that nobody else has open."""
    with translated():
        connection: Connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            connection.execute(statement).fetchall()
        finally:
            connection.close()


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# What never changes, held against the newest backup: how damage is noticed in tables whose rows bear no seal.
#
# A vector, what a decision about a turn rested on, and who said something when, are written once. Where the same row
# says something else in the backup, one of the two was changed by nobody. A vector that was made again differs in
# many of its numbers, if at all; damage differs in a few, and what it does to the length of a vector is seen without
# a backup.
#
# A backup may be of another past: a memory that was put away, or one that an older backup took the place of. Its rows
# have the same numbers and nothing else in common with those of here. So a row is the same one where at least one of
# the columns by which it is known is the same.
#
# The project of a row changes where two are put together, and with it the seal of a memory, which is looked at by
# itself. So another project is damage unless the one of the backup is no more and the one of here is there.

_MOST_NUMBERS: Final = 4
_VECTORS: Final = (
    "select here.vector, kept.vector from main.vectors as here join kept.vectors as kept"
    " using (owner_kind, owner_id, space_id, part) where here.vector <> kept.vector"
)
#: By table: its key, the columns that nobody changes once a row is there, and what rows they are that of.
_FIXED: Final[Mapping[str, tuple[str, tuple[str, ...], str]]] = {
    "thread_decisions": ("seq", ("turn_id", "at", "action", "similarity", "reason", "weighed"), "true"),
    "events": (
        "seq",
        ("id", "tenant", "host", "session_id", "kind", "at", "received_at", "row_hash"),
        "here.state <> 'forgotten'",
    ),
    "turns": (
        "seq",
        (
            "id",
            "tenant",
            "host",
            "session_id",
            "user_id",
            "agent",
            "channel",
            "role",
            "source",
            "text_hash",
            "trust",
            "at",
            "row_key",
            "row_hash",
        ),
        "true",
    ),
    "memories": (
        "seq",
        ("id", "tenant", "user_id", "agent", "channel", "session_id", "created_at"),
        "true",
    ),
}


#: Tables whose project no seal covers, and what it is where nobody put it there.
_OF_PROJECTS: Final = ("events", "turns")
_MISPLACED: Final = (
    "here.project_id is not kept.project_id and (kept.project_id is null or here.project_id is null"
    " or kept.project_id in (select id from main.projects)"
    " or here.project_id not in (select id from main.projects))"
)
#: By table: columns of which no two rows have the same values.
_KNOWN_BY: Final[Mapping[str, tuple[str, ...]]] = {
    "thread_decisions": ("turn_id", "at"),
    "events": ("id", "row_hash"),
    "turns": ("id", "row_key", "row_hash"),
    "memories": ("id", "row_key", "row_hash"),
}


def differing(path: str, backup: str) -> dict[str, int]:
    """How many rows that never change differ from those of a backup of the same schema, by table; none are left out.

    Raises:
        Corrupt: one of the two cannot be read.
    """
    with translated():
        connection: Connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
        try:
            connection.execute("attach ? as kept", (backup,))
            pairs = connection.execute(_VECTORS)
            found = {"vectors": sum(_is_damage(here, kept) for here, kept in pairs)}
            for table in _FIXED:
                found[table] = int(connection.execute(_query(table)).fetchone()[0])
        finally:
            connection.close()
    return {table: rows for table, rows in found.items() if rows}


def _query(table: str) -> str:
    key, columns, which = _FIXED[table]
    same = " or ".join(f"here.{column} = kept.{column}" for column in _KNOWN_BY[table])
    here, kept = (", ".join(f"{side}.{column}" for column in columns) for side in ("here", "kept"))
    misplaced = f" or {_MISPLACED}" if table in _OF_PROJECTS else ""
    return (
        f"select count(*) from main.{table} as here join kept.{table} as kept using ({key})"  # noqa: S608
        f" where {which} and ({same}) and (({here}) is not ({kept}){misplaced})"
    )


def _is_damage(here: bytes, kept: bytes) -> bool:
    if len(here) != len(kept) or len(here) % 2:
        return True
    differ = np.frombuffer(here, dtype="<u2") != np.frombuffer(kept, dtype="<u2")
    return int(differ.sum()) <= _MOST_NUMBERS
