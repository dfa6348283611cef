"""SQLite through apsw: named queries and numbered migrations, read from files, and a database opened safely."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

import apsw

from filrouge.core import installation
from filrouge.core.clock import Clock, to_text
from filrouge.core.errors import Busy, CannotWrite, Corrupt, FilrougeError, StoreError, WrongEngine
from filrouge.memories.models import holds

# SQL as a language of its own: named queries and numbered migrations, read from files.
#
# A query stands in `queries.sql` under a line `-- name: memories.neighbours`, followed by a sentence that says what
# it answers. Python asks for it by that name. A migration is a numbered file; it runs once, in one transaction
# together with the record that says so. `schema.sql` is what all migrations amount to (a test compares them), so that
# a reader sees the whole schema on one page.

_NAME = re.compile(r"^-- name: ([a-z_]+\.[a-z_]+)$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Migration:
    """One numbered step of the schema."""

    number: int
    name: str
    sql: str


@cache
def queries(dialect: str) -> dict[str, str]:
    """Every named query of a dialect (`sqlite`)."""
    text = (files("filrouge.runtime") / "sql" / dialect / "queries.sql").read_text(encoding="utf-8")
    parts = _NAME.split(text)[1:]
    named = {name: body.strip() for name, body in zip(parts[::2], parts[1::2], strict=True)}
    if len(named) * 2 != len(parts):
        raise ValueError(f"queries.sql of {dialect} gives one name to two queries")
    return named


@cache
def migrations(dialect: str) -> tuple[Migration, ...]:
    """Every migration of a dialect, in order."""
    folder = files("filrouge.runtime") / "sql" / dialect / "migrations"
    steps = [
        Migration(number=int(file.name[:4]), name=file.name[:-4], sql=file.read_text(encoding="utf-8"))
        for file in folder.iterdir()
        if file.name.endswith(".sql")
    ]
    return tuple(sorted(steps, key=lambda step: step.number))


# SQLite through apsw: opening a database safely, and speaking to it in named queries.
#
# The standard library's sqlite3 is not used: its build varies from machine to machine, and everything before 3.51.3
# can corrupt a WAL file when a reset races a reader. Every connection asserts its pragmas, because `execute` of
# several statements stops at the first one that returns a row. `Tx` is the only way to the rows: repositories receive
# one and never see a connection.

#: The release that mends the WAL-reset race (https://sqlite.org/wal.html, "walreset").
OLDEST_SQLITE = (3, 51, 3)

#: Patience first: the others may find somebody writing.
_PRAGMAS: Mapping[str, object] = {
    "busy_timeout": 5000,
    "journal_mode": "wal",
    "synchronous": 2,
    "foreign_keys": 1,
    "secure_delete": 1,
}

Row = dict[str, Any]
#: apsw's own stubs leave the types of its array bindings open, so a connection is untyped from here on.
Connection = Any
Parameters = Mapping[str, object]


def check_engine(version: str | None = None) -> None:
    """Refuse a SQLite that may lose data.

    Raises:
        WrongEngine: naming the version found and the oldest one accepted.
    """
    found = version or apsw.sqlite_lib_version()
    if tuple(int(part) for part in found.split(".")[:3]) < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        raise WrongEngine(
            f"SQLite {found} can corrupt its write-ahead log; {oldest} or newer is needed.",
            remedy=f"Run `{installation.reinstall('apsw-sqlite3mc')}`.",
        )


@contextmanager
def translated() -> Generator[None]:
    """Turn apsw's exceptions into Filrouge's, with the cause kept."""
    try:
        yield
    except (apsw.FullError, apsw.ReadOnlyError, apsw.CantOpenError, apsw.IOError) as error:
        raise CannotWrite(f"The memory database cannot be written: {error}.") from error
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise Corrupt(f"The memory database is damaged: {error}.") from error
    except (apsw.BusyError, apsw.LockedError) as error:
        raise Busy("Another process holds the memory database.") from error
    except apsw.Error as error:
        raise StoreError(f"The memory database refused: {error}.") from error


class Tx:
    """Named queries on one connection. Rows come back as dictionaries."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._queries = queries("sqlite")

    def all(self, name: str, parameters: Parameters | None = None) -> list[Row]:
        """Every row that the query gives."""
        with translated():
            cursor = self._connection.execute(self._queries[name], dict(parameters or {}))
            first = next(cursor, None)
            if first is None:
                return []
            columns = [column[0] for column in cursor.get_description()]
            rows: list[Sequence[Any]] = [first, *cursor]
            return [dict(zip(columns, row, strict=True)) for row in rows]

    def one(self, name: str, parameters: Parameters | None = None) -> Row | None:
        """The first row, or None."""
        rows = self.all(name, parameters)
        return rows[0] if rows else None

    def run(self, name: str, parameters: Parameters | None = None) -> int:
        """Run a statement; returns how many rows it changed."""
        with translated():
            list(self._connection.execute(self._queries[name], dict(parameters or {})))
            return self._connection.changes()

    def many(self, name: str, rows: Iterable[Parameters]) -> None:
        """Run a statement once for each set of parameters."""
        with translated():
            self._connection.executemany(self._queries[name], [dict(row) for row in rows])


@lru_cache(maxsize=16)
def _listed(words: str) -> tuple[str, ...]:
    return tuple(json.loads(words))


def _says(words: str, *texts: object) -> bool:
    """In SQL `says(words, text, …)`: does one of the texts hold one of the words (a JSON list)?"""
    return any(isinstance(text, str) and text and holds(text, _listed(words)) for text in texts)


def _create_private(path: str) -> None:
    """Make the file for this user alone before SQLite would make it for all; its log files copy its mode.

    Only a file that was not there is opened: closing one that SQLite has open would drop the locks of this process.
    """
    with suppress(OSError):  # it is there, or SQLite says what is wrong with the place
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


class Database:
    """One connection to the memory database; used by one thread at a time."""

    def __init__(self, path: str, *, readonly: bool = False) -> None:
        check_engine()
        flags = apsw.SQLITE_OPEN_READONLY if readonly else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        if not readonly and path != ":memory:":
            _create_private(path)
        with translated():
            self._connection: Connection = apsw.Connection(path, flags=flags)
            if not readonly:  # before anything else is written; a database that has tables keeps what it has
                list(self._connection.execute("pragma auto_vacuum = incremental"))
            self._set_pragmas(readonly=readonly, memory=path == ":memory:")
            self._connection.create_scalar_function("says", _says, -1, deterministic=True)
        self._tx = Tx(self._connection)

    @property
    def tx(self) -> Tx:
        """Named queries outside an explicit transaction, for reading."""
        return self._tx

    @property
    def bare(self) -> Connection:
        """The connection itself, for salvage alone: it fills tables that it knows by their schema only."""
        return self._connection

    @property
    def in_transaction(self) -> bool:
        """True while a transaction is open; SQLite ends one by itself when the disk is full or fails."""
        return bool(self._connection.in_transaction)

    def _set_pragmas(self, *, readonly: bool, memory: bool) -> None:
        for name, wanted in _PRAGMAS.items():
            if name == "journal_mode" and (readonly or memory):
                continue
            list(self._connection.execute(f"pragma {name} = {wanted}"))
            found = self._connection.execute(f"pragma {name}").fetchone()
            if found is None or str(found[0]).lower() != str(wanted):
                raise StoreError(f"SQLite did not accept `pragma {name} = {wanted}` (it says {found}).")

    @contextmanager
    def transaction(self) -> Generator[Tx]:
        """One immediate transaction: all of it, or nothing."""
        with translated():
            self._connection.execute("begin immediate")
        try:
            yield self._tx
        except BaseException:
            self._undo("rollback")
            raise
        try:
            with translated():
                self._connection.execute("commit")
        except FilrougeError:
            self._undo("rollback")
            raise

    @contextmanager
    def savepoint(self) -> Generator[Tx]:
        """A part of a transaction that can fail alone."""
        with translated():
            self._connection.execute("savepoint part")
        try:
            yield self._tx
        except BaseException:
            self._undo("rollback to part")
            self._undo("release part")
            raise
        with translated():
            self._connection.execute("release part")

    def _undo(self, statement: str) -> None:
        """Roll back, unless SQLite did so itself; what went wrong before is what the caller must hear."""
        if self._connection.in_transaction:
            with suppress(apsw.Error):
                self._connection.execute(statement)

    def migrate(self, clock: Clock, *, upto: int | None = None) -> list[str]:
        """Bring the schema up to date; returns the names of the steps applied.

        Raises:
            WrongEngine: the database was written by a newer Filrouge.
        """
        with translated():
            list(
                self._connection.execute(
                    "create table if not exists schema_migrations"
                    " (number integer primary key, name text not null, applied_at text not null) strict"
                )
            )
            done = {row[0] for row in self._connection.execute("select number from schema_migrations")}
        steps = migrations("sqlite")
        if done and max(done) > steps[-1].number:
            raise WrongEngine(
                f"This database was written by a newer Filrouge: schema {max(done)}, known here {steps[-1].number}.",
                remedy=f"Upgrade with `{installation.upgrade()}`.",
            )
        applied: list[str] = []
        for step in steps:
            if step.number in done or (upto is not None and step.number > upto):
                continue
            with self.transaction(), translated():
                list(self._connection.execute(step.sql))
                self._connection.execute(
                    "insert into schema_migrations values (?, ?, ?)", (step.number, step.name, to_text(clock.now()))
                )
            applied.append(step.name)
        return applied

    def schema(self) -> list[str]:
        """Every object's definition, for comparing two schemas."""
        rows = self._connection.execute(
            "select sql from sqlite_schema where sql is not null and name not like 'sqlite_%' order by type, name"
        )
        return [str(row[0]) for row in rows]

    def check(self) -> list[str]:
        """What SQLite's own integrity check complains of; empty when sound."""
        with translated():
            found = [str(row[0]) for row in self._connection.execute("pragma integrity_check")]
        return [] if found == ["ok"] else found

    def checkpoint(self) -> bool:
        """Move the write-ahead log into the database file and empty it; False if a reader kept it from that."""
        with translated():
            busy, *_ = self._connection.execute("pragma wal_checkpoint(truncate)").fetchone()
        return not busy

    def lay_flat(self) -> None:
        """Leave the write-ahead log for good: the file is all there is of this database."""
        with translated():
            list(self._connection.execute("pragma journal_mode = delete"))

    def close(self) -> None:
        """Close the connection."""
        with translated():
            self._connection.close()
