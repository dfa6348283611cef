"""Copies of a database that others are writing, proof that a copy is whole, and what may never differ from a backup."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import apsw
import numpy as np

from filrouge.core import installation
from filrouge.core.clock import SystemClock
from filrouge.core.errors import CannotWrite, Corrupt, WrongEngine
from filrouge.runtime.soundness import row_hashes, whole
from filrouge.runtime.sqlite import Connection, Database, check_engine, migrations, translated

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
