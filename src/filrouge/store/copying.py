"""Copies of a database that others are writing, and the proof that a copy is what it was made from.

SQLite's backup API copies pages inside one read transaction, and the rows of the source are hashed inside the same
one: copy and hash are of one moment by construction, whoever commits meanwhile. A reader of a write-ahead log keeps no
writer waiting; only the log cannot be emptied until it is done. The copy is a single file without a log of its own.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import apsw

from filrouge import installation
from filrouge.clock import SystemClock
from filrouge.errors import CannotWrite, Corrupt, WrongEngine
from filrouge.store.row_hash import row_hashes, whole
from filrouge.store.sql import migrations
from filrouge.store.sqlite import Connection, Database, check_engine, translated

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
