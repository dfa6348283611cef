"""One hash of all rows of a database: two databases that hold the same rows have the same, wherever their pages lie.

Every table with rows of its own is read in the order of its key, the derived ones too, so that a copy which answers
otherwise than its source is not called equal. Text is read as bytes: what is damaged must be hashed as well.
"""

from __future__ import annotations

import hashlib
import json
import marshal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

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
