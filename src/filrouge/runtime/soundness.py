"""Looking at a database file without touching it: its schema, its seals, and one hash of all rows."""

from __future__ import annotations

import hashlib
import json
import marshal
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import apsw

from filrouge.capture import repository as event_repository
from filrouge.capture import repository as turn_repository
from filrouge.core.errors import Busy
from filrouge.core.protocols import Tx
from filrouge.memories import repository
from filrouge.runtime.journal import Journal
from filrouge.runtime.sqlite import translated

# Looking at a database file without touching it: its schema, its journal, and whether somebody holds it.
#
# For the doctor, who may meet a file that is damaged, of another version, or in the hands of another program.


def schema_number(path: str) -> int:
    """The number of the last migration; 0 where there is none."""
    with _opened(path) as connection:
        known = connection.execute("select 1 from sqlite_schema where name = 'schema_migrations'").fetchone()
        if not known:
            return 0
        (number,) = connection.execute("select ifnull(max(number), 0) from schema_migrations").fetchone()
        return int(number)


def journal_mode(path: str) -> str:
    """How changes are kept safe: `wal`, `delete`, ..."""
    with _opened(path) as connection:
        return str(connection.execute("pragma journal_mode").fetchone()[0])


def complaints(path: str, *, quick: bool) -> list[str]:
    """What SQLite's own check complains of; `quick`: without holding the indexes against their tables."""
    with _opened(path) as connection:
        found = [str(row[0]) for row in connection.execute(f"pragma {'quick' if quick else 'integrity'}_check")]
        return [] if found == ["ok"] else found


def may_be_written(path: str, *, milliseconds: int) -> bool:
    """Whether somebody who wants to write gets his turn within that time; nothing is written."""
    try:
        with _opened(path, apsw.SQLITE_OPEN_READWRITE) as connection:
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)  # what is in the log stays there
            connection.set_busy_timeout(milliseconds)
            connection.execute("begin immediate")
            connection.execute("rollback")
    except Busy:
        return False
    return True


@contextmanager
def _opened(path: str, flags: int = apsw.SQLITE_OPEN_READONLY) -> Generator[Any]:
    with translated():
        connection: Any = apsw.Connection(path, flags=flags)
        connection.set_busy_timeout(1000)
        with closing(connection):
            yield connection


# One hash of all rows of a database: two databases that hold the same rows have the same, wherever their pages lie.
#
# Every table with rows of its own is read in the order of its key, the derived ones too, so that a copy which answers
# otherwise than its source is not called equal. Text is read as bytes: what is damaged must be hashed as well.

#: apsw's own stubs leave the types of its bindings open.
Connection = Any
_ROWS_AT_ONCE = 256
#: Version 2 of the format has no references, so equal rows have equal bytes.
_FORMAT = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class TableHash:
    """A table's number of rows, and SHA-256 over them in hexadecimal digits."""

    rows: int
    hash: str


def row_hashes(connection: Connection) -> dict[str, TableHash]:
    """The hash of each table, by its name."""
    return {name: _hash_of(connection, query) for name, query in _tables(connection)}


def whole(tables: Mapping[str, TableHash]) -> str:
    """The hash of all tables together."""
    listed = {name: [one.rows, one.hash] for name, one in tables.items()}
    return hashlib.sha256(json.dumps(listed, sort_keys=True).encode()).hexdigest()


def _tables(connection: Connection) -> list[tuple[str, str]]:
    """Every table that holds rows, with the query that reads them in the order of their key."""
    found = list(
        connection.execute(
            "select name, wr from pragma_table_list where schema = 'main' and type in ('table', 'shadow')"
            " and name not in ('sqlite_schema', 'sqlite_stat1', 'sqlite_stat4') order by name"
        )
    )
    return [(name, _query(connection, name, without_rowid=bool(wr))) for name, wr in found]


def _query(connection: Connection, table: str, *, without_rowid: bool) -> str:
    columns = list(connection.execute("select name, type, pk from pragma_table_info(?)", (table,)))
    key = [f'"{name}"' for _, name in sorted((pk, name) for name, _, pk in columns if pk)]
    read = ", ".join(_read(name, kind) for name, kind, _ in columns)
    # The names of columns are our own schema's; a number and a BLOB are read as they are.
    own, order = ("", ", ".join(key)) if without_rowid else ("rowid, ", "rowid")
    return f'select {own}{read} from "{table}" order by {order}'  # noqa: S608


def _read(name: str, kind: str) -> str:
    quoted = f'"{name}"'
    if kind.upper() in ("INTEGER", "REAL", "BLOB"):
        return quoted
    return f"iif(typeof({quoted}) = 'text', cast({quoted} as blob), {quoted})"


def _hash_of(connection: Connection, query: str) -> TableHash:
    digest, rows = hashlib.sha256(), 0
    for batch in _batches(connection.execute(query)):
        digest.update(b"".join(marshal.dumps(row, _FORMAT) for row in batch))
        rows += len(batch)
    return TableHash(rows=rows, hash=digest.hexdigest())


def _batches(cursor: Iterator[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    while batch := list(islice(cursor, _ROWS_AT_ONCE)):
        yield batch


# Whether rows are what was stored: every seal of turns, memories and events, and the journal's chain.
#
# Rows are read a page at a time, so that a large memory is looked through in little room.

_SOUNDNESS_ROWS_AT_ONCE = 1000


def broken_seals(tx: Tx) -> list[str]:
    """The ids of rows that are not what was stored."""
    return [id_ for ids in broken_by_table(tx).values() for id_ in ids]


def broken_by_table(tx: Tx) -> dict[str, list[str]]:
    """The same by the table in which they are."""
    return {
        "turns": [row["id"] for row in _paged(tx, "turns.sealed") if not _holds(turn_repository.turn_intact, row)],
        "memories": [row["id"] for row in tx.all("memories.sealed") if not _holds(repository.intact, row)],
        "events": [row["id"] for row in _paged(tx, "events.sealed") if not _holds(event_repository.event_intact, row)],
    }


def faults(tx: Tx) -> list[str]:
    """What is wrong with the seals and with the journal, a line for each; empty when all holds."""
    broken = broken_seals(tx)
    found = [f"{len(broken)} rows are not what was stored"] if broken else []
    verdict = Journal(tx).verify()
    return found if verdict.sound else [*found, f"entry {verdict.broken_at} of the journal: {verdict.reason}"]


def progress(tx: Tx) -> str:
    """How far the memory has come; it changes with everything that is worth a backup."""
    row = tx.one("journal.progress") or {}
    return " ".join(str(value) for value in row.values())


def _paged(tx: Tx, query: str) -> Iterator[dict[str, Any]]:
    after = 0
    while rows := tx.all(query, {"after": after, "limit": _SOUNDNESS_ROWS_AT_ONCE}):
        yield from rows
        after = rows[-1]["seq"]


def _holds(intact: Callable[[dict[str, Any]], bool], row: dict[str, Any]) -> bool:
    """A row whose values cannot even be read as what they stand for is not what was stored."""
    try:
        return intact(row)
    except (ValueError, TypeError, KeyError):
        return False
