"""SQLite through apsw: named queries, numbered migrations, and connections with checked settings.

A query is in `queries.sql` under a line such as `-- name: memories.neighbours`; Python refers to it by that name. A
migration is a numbered file. It runs once, in one transaction together with the row that records it. The first one is
the baseline, which creates a whole schema; a database with an older schema is refused. `Tx` is the only access to rows:
repositories receive one and never see a connection.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from importlib.resources import files
from threading import Lock
from typing import Any, Final

import apsw
from msgspec import Struct

from filrouge.core import installation
from filrouge.core.clock import Clock, to_text
from filrouge.core.errors import Busy, CannotWrite, Corrupt, FilrougeError, StoreError, WrongEngine
from filrouge.core.guard import on_failure
from filrouge.memories.models import contains_any

# Named queries and migrations, read from files.

_QUERY_NAME = re.compile(r"^-- name: ([a-z_]+\.[a-z_]+)$", re.MULTILINE)
_COMMENT = re.compile(r"--[^\n]*")
_PUNCTUATION = re.compile(r"([(),])")


class Migration(Struct, frozen=True, kw_only=True):
    """A numbered schema change; the first one, the baseline, creates the schema of its number."""

    number: int
    name: str
    sql: str


@cache
def queries(dialect: str) -> dict[str, str]:
    """Return every named query of a dialect (`sqlite`), by name."""
    text = (files("filrouge.runtime") / "sql" / dialect / "queries.sql").read_text(encoding="utf-8")
    sections = _QUERY_NAME.split(text)[1:]
    named = {name: body.strip() for name, body in zip(sections[::2], sections[1::2], strict=True)}
    if len(named) * 2 != len(sections):
        raise ValueError(f"two queries in queries.sql of {dialect} have the same name")
    return named


@cache
def migrations(dialect: str) -> tuple[Migration, ...]:
    """Return every migration of a dialect, in order, the baseline first."""
    folder = files("filrouge.runtime") / "sql" / dialect / "migrations"
    steps = [
        Migration(number=int(file.name[:4]), name=file.name[:-4], sql=file.read_text(encoding="utf-8"))
        for file in folder.iterdir()
        if file.name.endswith(".sql")
    ]
    return tuple(sorted(steps, key=lambda step: step.number))


def refuse_older(found: int, *, what: str = "This database", steps: Sequence[Migration] | None = None) -> None:
    """Refuse a schema from before the baseline; 0 means that there is no schema yet.

    Raises:
        WrongEngine: names the schema found and how its content can be taken over.
    """
    oldest = (steps or migrations("sqlite"))[0].number
    if 0 < found < oldest:
        raise WrongEngine(
            f"{what} was written by an older Filrouge: schema {found}, the oldest known here is {oldest}.",
            remedy="Run `filrouge export --format jsonl --out all.jsonl` with the Filrouge that wrote it. Then move the"
            " file away and run `filrouge import all.jsonl --mine` with this one.",
        )


def check_schema_number(found: int, *, what: str = "This database", steps: Sequence[Migration] | None = None) -> None:
    """Refuse a schema that is older than the baseline or newer than the last migration.

    Raises:
        WrongEngine: another version of Filrouge wrote it.
    """
    refuse_older(found, what=what, steps=steps)
    newest = (steps or migrations("sqlite"))[-1].number
    if found > newest:
        raise WrongEngine(
            f"{what} was written by a newer Filrouge: schema {found}, known here {newest}.",
            remedy=f"Upgrade with `{installation.upgrade_command()}`.",
        )


# Connections.
#
# The standard library's sqlite3 is not used: its SQLite version differs between machines, and every version before
# 3.51.3 can corrupt a WAL file when a reset races a reader. Every connection checks its pragmas after setting them,
# because `execute` with several statements stops at the first one that returns a row.

#: The release that fixes the WAL-reset race (https://sqlite.org/wal.html, "walreset").
MIN_SQLITE_VERSION = (3, 51, 3)

#: Prepared statements that a connection keeps: more than one message or prompt needs.
_CACHED_STATEMENTS: Final = 256
#: The busy timeout comes first: the other settings may be made while another process writes.
_PRAGMAS: Mapping[str, object] = {
    "busy_timeout": 5000,
    "journal_mode": "wal",
    "synchronous": 2,
    "foreign_keys": 1,
    "secure_delete": 1,
}

Row = dict[str, Any]
#: apsw's stubs do not type its array bindings, so a connection is untyped from here on.
Connection = Any
Parameters = Mapping[str, object]


def check_engine(version: str | None = None) -> None:
    """Refuse a SQLite version that may lose data.

    Raises:
        WrongEngine: names the version found and the oldest accepted one.
    """
    found = version or apsw.sqlite_lib_version()
    if tuple(int(part) for part in found.split(".")[:3]) < MIN_SQLITE_VERSION:
        oldest = ".".join(map(str, MIN_SQLITE_VERSION))
        raise WrongEngine(
            f"SQLite {found} can corrupt its write-ahead log; {oldest} or newer is needed.",
            remedy=f"Run `{installation.reinstall_command('apsw-sqlite3mc')}`.",
        )


@contextmanager
def translated() -> Generator[None]:
    """Convert apsw's exceptions to Filrouge's, keeping the cause."""
    try:
        yield
    except (apsw.FullError, apsw.ReadOnlyError, apsw.CantOpenError, apsw.IOError) as error:
        raise CannotWrite(f"The memory database cannot be written: {error}.") from error
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise Corrupt(f"The memory database is damaged: {error}.") from error
    except (apsw.BusyError, apsw.LockedError) as error:
        raise Busy("Another process has locked the memory database.") from error
    except apsw.Error as error:
        raise StoreError(f"The memory database refused: {error}.") from error


class Tx:
    """Named queries on one connection. Rows are returned as dictionaries."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._queries = queries("sqlite")

    def all(self, name: str, parameters: Parameters | None = None) -> list[Row]:
        """Return all rows of the query."""
        with translated():
            cursor = self._connection.execute(self._queries[name], dict(parameters or {}))
            first = next(cursor, None)
            if first is None:
                return []
            columns = [column[0] for column in cursor.get_description()]
            rows: list[Sequence[Any]] = [first, *cursor]
            return [dict(zip(columns, row, strict=True)) for row in rows]

    def one(self, name: str, parameters: Parameters | None = None) -> Row | None:
        """Return the first row, or None."""
        rows = self.all(name, parameters)
        return rows[0] if rows else None

    def run(self, name: str, parameters: Parameters | None = None) -> int:
        """Run a statement; returns the number of changed rows."""
        with translated():
            list(self._connection.execute(self._queries[name], dict(parameters or {})))
            return self._connection.changes()

    def many(self, name: str, rows: Iterable[Parameters]) -> None:
        """Run a statement once per set of parameters."""
        with translated():
            self._connection.executemany(self._queries[name], [dict(row) for row in rows])


@lru_cache(maxsize=16)
def _parse_words(words: str) -> tuple[str, ...]:
    return tuple(json.loads(words))


def _contains_any_word(words: str, *texts: object) -> bool:
    """Implement the SQL function `says(words, text, …)`: True if any text contains one of the words (a JSON list)."""
    return any(isinstance(text, str) and text and contains_any(text, _parse_words(words)) for text in texts)


def _create_private(path: str) -> None:
    """Create the file with mode 600 before SQLite creates it with a wider one; its log files copy the mode.

    Only a missing file is opened: closing a file that SQLite has open would drop this process's locks on it.
    """
    with suppress(OSError):  # the file exists, or SQLite will report the problem
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


#: Descriptors on files that SQLite has open as well, by path. They stay open as long as the file exists: when a process
#: closes any descriptor of a file, it loses all its locks on it (https://sqlite.org/howtocorrupt.html, section 2.2).
#: Another process would then take the database for unused, and truncate or remove its log under the daemon.
_DESCRIPTORS: Final[dict[str, int]] = {}
_DESCRIPTORS_LOCK: Final = Lock()


def read_raw(path: str, chunk: int) -> Iterator[bytes]:
    """Yield the bytes of a file that SQLite may have open in this process, `chunk` at a time.

    Raises:
        OSError: the file does not exist, or cannot be read.
    """
    descriptor, position = _shared_descriptor(path), 0
    while content := os.pread(descriptor, chunk, position):
        yield content
        position += len(content)


def _shared_descriptor(path: str) -> int:
    with _DESCRIPTORS_LOCK:
        on_disk = os.stat(path)
        descriptor = _DESCRIPTORS.get(path)
        if descriptor is not None:
            opened = os.fstat(descriptor)
            if (opened.st_dev, opened.st_ino) == (on_disk.st_dev, on_disk.st_ino):
                return descriptor
            if opened.st_nlink == 0:  # no connection to the removed file is left
                os.close(descriptor)
        _DESCRIPTORS[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return _DESCRIPTORS[path]


class Database:
    """A connection to the memory database; used by one thread at a time."""

    def __init__(self, path: str, *, readonly: bool = False) -> None:
        check_engine()
        flags = apsw.SQLITE_OPEN_READONLY if readonly else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        if not readonly and path != ":memory:":
            _create_private(path)
        with translated():
            self._connection: Connection = apsw.Connection(path, flags=flags, statementcachesize=_CACHED_STATEMENTS)
            if not readonly:  # has no effect once the database has tables
                list(self._connection.execute("pragma auto_vacuum = incremental"))
            self._set_pragmas(readonly=readonly, memory=path == ":memory:")
            self._connection.create_scalar_function("says", _contains_any_word, -1, deterministic=True)
        self._tx = Tx(self._connection)

    @property
    def tx(self) -> Tx:
        """Named queries for reading, outside an explicit transaction."""
        return self._tx

    @property
    def raw_connection(self) -> Connection:
        """The raw connection. Only salvage and test databases use it."""
        return self._connection

    @property
    def in_transaction(self) -> bool:
        """True while a transaction is open; SQLite rolls one back by itself when the disk is full or fails."""
        return bool(self._connection.in_transaction)

    def _set_pragmas(self, *, readonly: bool, memory: bool) -> None:
        for name, value in _PRAGMAS.items():
            if name == "journal_mode" and (readonly or memory):
                continue
            list(self._connection.execute(f"pragma {name} = {value}"))
            found = self._connection.execute(f"pragma {name}").fetchone()
            if found is None or str(found[0]).lower() != str(value):
                raise StoreError(f"SQLite did not accept `pragma {name} = {value}` (it says {found}).")

    @contextmanager
    def transaction(self) -> Generator[Tx]:
        """Open an immediate transaction: commits on success, rolls back on any exception."""
        with translated():
            self._connection.execute("begin immediate")
        with on_failure(lambda: self._undo("rollback")):
            yield self._tx
        try:
            with translated():
                self._connection.execute("commit")
        except FilrougeError:
            self._undo("rollback")
            raise

    @contextmanager
    def savepoint(self) -> Generator[Tx]:
        """Open a savepoint: a part of a transaction that can fail alone."""
        with translated():
            self._connection.execute("savepoint part")
        with on_failure(lambda: (self._undo("rollback to part"), self._undo("release part"))):
            yield self._tx
        with translated():
            self._connection.execute("release part")

    def _undo(self, statement: str) -> None:
        """Roll back, unless SQLite already did. Errors are suppressed so that the caller sees the original one."""
        if self._connection.in_transaction:
            with suppress(apsw.Error):
                self._connection.execute(statement)

    def migrate(self, clock: Clock, *, upto: int | None = None, steps: Sequence[Migration] | None = None) -> list[str]:
        """Bring the schema up to date; returns the names of the migrations applied.

        Args:
            upto: stop after the migration of this number.
            steps: the migrations, instead of those in the package.

        Raises:
            WrongEngine: the database was written by an older Filrouge than the baseline, or by a newer one.
        """
        steps = steps or migrations("sqlite")
        with translated():
            list(
                self._connection.execute(
                    "create table if not exists schema_migrations"
                    " (number integer primary key, name text not null, applied_at text not null) strict"
                )
            )
            applied_numbers = {row[0] for row in self._connection.execute("select number from schema_migrations")}
        check_schema_number(max(applied_numbers, default=0), steps=steps)
        applied: list[str] = []
        for step in steps:
            if step.number in applied_numbers or (upto is not None and step.number > upto):
                continue
            with self.transaction(), translated():
                list(self._connection.execute(step.sql))
                self._connection.execute(
                    "insert into schema_migrations values (?, ?, ?)", (step.number, step.name, to_text(clock.now()))
                )
            applied.append(step.name)
        return applied

    def schema(self) -> list[str]:
        """Return the SQL definition of every schema object, for comparing two schemas.

        Comments and layout are left out: `ALTER TABLE` writes a column differently than `CREATE TABLE`.
        """
        rows = self._connection.execute(
            "select sql from sqlite_schema where sql is not null and name not like 'sqlite_%' order by type, name"
        )
        return [" ".join(_PUNCTUATION.sub(r" \1 ", _COMMENT.sub("", row[0])).split()) for row in rows]

    def check(self) -> list[str]:
        """Return the problems found by SQLite's integrity check; empty if there are none."""
        with translated():
            found = [str(row[0]) for row in self._connection.execute("pragma integrity_check")]
        return [] if found == ["ok"] else found

    def checkpoint(self) -> bool:
        """Copy the write-ahead log into the database file and empty it; False if a reader prevented it."""
        with translated():
            busy, *_ = self._connection.execute("pragma wal_checkpoint(truncate)").fetchone()
        return not busy

    def disable_wal(self) -> None:
        """Turn off the write-ahead log, so that the database is a single file."""
        with translated():
            list(self._connection.execute("pragma journal_mode = delete"))

    def close(self) -> None:
        """Close the connection."""
        with translated():
            self._connection.close()
