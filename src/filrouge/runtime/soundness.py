"""Integrity checks of a database file: schema version, SQLite's own checks, row seals, journal chain, row hashes.

The first functions open a file by path for the doctor, which may meet a file that is damaged, of another version, or
in use by another program. They write nothing. `row_hashes` hashes all rows: databases with equal rows have equal
hashes, whatever their page layout. `problems` checks every seal of turns, memories and events, and the journal.
"""

from __future__ import annotations

import hashlib
import json
import marshal
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import islice
from typing import Any

import apsw
from msgspec import Struct

from filrouge.capture.repository import event_intact, turn_intact
from filrouge.core.errors import Busy
from filrouge.core.protocols import Tx
from filrouge.memories import repository
from filrouge.runtime.journal import Journal
from filrouge.runtime.sqlite import translated

# Inspecting a database file by path.


def schema_number(path: str) -> int:
    """Return the number of the last applied migration; 0 if there is none."""
    with _open(path) as connection:
        has_table = connection.execute("select 1 from sqlite_schema where name = 'schema_migrations'").fetchone()
        if not has_table:
            return 0
        (number,) = connection.execute("select ifnull(max(number), 0) from schema_migrations").fetchone()
        return int(number)


def journal_mode(path: str) -> str:
    """Return SQLite's journal mode: `wal`, `delete`, ..."""
    with _open(path) as connection:
        return str(connection.execute("pragma journal_mode").fetchone()[0])


def check_problems(path: str, *, quick: bool) -> list[str]:
    """Return the problems found by SQLite's check. `quick` skips the comparison of indexes with their tables."""
    with _open(path) as connection:
        found = [str(row[0]) for row in connection.execute(f"pragma {'quick' if quick else 'integrity'}_check")]
        return [] if found == ["ok"] else found


def can_write(path: str, *, milliseconds: int) -> bool:
    """Return True if a write transaction can begin within that time. Nothing is written."""
    try:
        with _open(path, apsw.SQLITE_OPEN_READWRITE) as connection:
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)  # keep the write-ahead log as it is
            connection.set_busy_timeout(milliseconds)
            connection.execute("begin immediate")
            connection.execute("rollback")
    except Busy:
        return False
    return True


@contextmanager
def _open(path: str, flags: int = apsw.SQLITE_OPEN_READONLY) -> Generator[Any]:
    with translated():
        connection: Any = apsw.Connection(path, flags=flags)
        connection.set_busy_timeout(1000)
        with closing(connection):
            yield connection


# One hash over all rows.
#
# Tables are read in key order, including derived tables: a copy that gives different answers must not count as equal.
# Text is read as bytes, because damaged text must be hashed too.

#: apsw's stubs do not type its bindings.
Connection = Any
_ROWS_PER_BATCH = 256
#: Version 2 of marshal's format has no references, so equal rows give equal bytes.
_MARSHAL_VERSION = 2


class TableHash(Struct, frozen=True, kw_only=True):
    """A table's row count, and the SHA-256 over its rows in hexadecimal."""

    rows: int
    hash: str


def row_hashes(connection: Connection) -> dict[str, TableHash]:
    """Return the hash of each table, by table name."""
    return {name: _hash_of(connection, query) for name, query in _tables(connection)}


def total_hash(tables: Mapping[str, TableHash]) -> str:
    """Return one hash over all tables."""
    hashes = {name: [table.rows, table.hash] for name, table in tables.items()}
    return hashlib.sha256(json.dumps(hashes, sort_keys=True).encode()).hexdigest()


def _tables(connection: Connection) -> list[tuple[str, str]]:
    """Return every table that holds rows, with the query that reads it in key order."""
    rows = list(
        connection.execute(
            "select name, wr from pragma_table_list where schema = 'main' and type in ('table', 'shadow')"
            " and name not in ('sqlite_schema', 'sqlite_stat1', 'sqlite_stat4') order by name"
        )
    )
    return [(name, _build_query(connection, name, without_rowid=bool(wr))) for name, wr in rows]


def _build_query(connection: Connection, table: str, *, without_rowid: bool) -> str:
    columns = list(connection.execute("select name, type, pk from pragma_table_info(?)", (table,)))
    key = [f'"{name}"' for _, name in sorted((pk, name) for name, _, pk in columns if pk)]
    expressions = ", ".join(_column_expression(name, kind) for name, kind, _ in columns)
    # Column names come from our own schema. Numbers and BLOBs are read as they are.
    rowid, order = ("", ", ".join(key)) if without_rowid else ("rowid, ", "rowid")
    return f'select {rowid}{expressions} from "{table}" order by {order}'  # noqa: S608


def _column_expression(name: str, kind: str) -> str:
    quoted = f'"{name}"'
    if kind.upper() in ("INTEGER", "REAL", "BLOB"):
        return quoted
    return f"iif(typeof({quoted}) = 'text', cast({quoted} as blob), {quoted})"


def _hash_of(connection: Connection, query: str) -> TableHash:
    digest, rows = hashlib.sha256(), 0
    for batch in _batches(connection.execute(query)):
        digest.update(b"".join(marshal.dumps(row, _MARSHAL_VERSION) for row in batch))
        rows += len(batch)
    return TableHash(rows=rows, hash=digest.hexdigest())


def _batches(cursor: Iterator[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    while batch := list(islice(cursor, _ROWS_PER_BATCH)):
        yield batch


# Seals and the journal chain. Turns and events are read page by page to limit memory use.

_ROWS_PER_PAGE = 1000


def broken_seals(tx: Tx) -> list[str]:
    """Return the ids of rows whose content does not match their seal."""
    return [id_ for ids in broken_by_table(tx).values() for id_ in ids]


def broken_by_table(tx: Tx) -> dict[str, list[str]]:
    """Return the ids of rows whose content does not match their seal, by table."""
    return {
        "turns": [row["id"] for row in _read_pages(tx, "turns.sealed") if not _is_intact(turn_intact, row)],
        "memories": [row["id"] for row in tx.all("memories.sealed") if not _is_intact(repository.is_intact, row)],
        "events": [row["id"] for row in _read_pages(tx, "events.sealed") if not _is_intact(event_intact, row)],
    }


def problems(tx: Tx) -> list[str]:
    """Return the problems with the seals and the journal, one line each; empty if there are none."""
    broken = broken_seals(tx)
    found = [f"{len(broken)} rows are not what was stored"] if broken else []
    report = Journal(tx).verify()
    return found if report.sound else [*found, f"entry {report.broken_at} of the journal: {report.reason}"]


def progress(tx: Tx) -> str:
    """Return a text that changes with every change worth a backup."""
    row = tx.one("journal.progress") or {}
    return " ".join(str(value) for value in row.values())


def _read_pages(tx: Tx, query: str) -> Iterator[dict[str, Any]]:
    after = 0
    while rows := tx.all(query, {"after": after, "limit": _ROWS_PER_PAGE}):
        yield from rows
        after = rows[-1]["seq"]


def _is_intact(intact: Callable[[dict[str, Any]], bool], row: dict[str, Any]) -> bool:
    """Return False also if the row's values cannot be parsed."""
    try:
        return intact(row)
    except (ValueError, TypeError, KeyError):
        return False
