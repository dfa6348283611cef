"""Repair of a damaged database, and undo of a repair.

A repair reads the rows out of the pages of a copy, writes them into a new database of the same schema, and rebuilds
indexes and full text there. Only a sound result replaces the damaged files, which are kept among the backups. Every
lost row is counted and reported.

The repair runs in its own process, so a crash in native code is reported and does not stop the caller:

    python -m filrouge.maintenance.repair HOME MOMENT [--ask] [--undo] [--dry-run] [--vectors] [--all]

With `--ask` it prints the plan as one line once the new database is made, and continues only if it reads `GO`.
"""

from __future__ import annotations

import json
import os
import struct
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, Final

import apsw
import numpy as np
from msgspec import Struct, field
from msgspec.structs import asdict, replace

from filrouge.core.clock import Clock, from_text, to_text
from filrouge.core.errors import Corrupt, FilrougeError, NotFound
from filrouge.core.paths import DATABASE, inside
from filrouge.core.protocols import Analyser, Tx
from filrouge.maintenance import backup_files, copies
from filrouge.maintenance.backup_files import GO, Manifest
from filrouge.maintenance.copies import differing
from filrouge.maintenance.restore import keep_files, keep_present
from filrouge.runtime.journal import Journal, recompute_chain
from filrouge.runtime.soundness import broken_by_table, problems
from filrouge.runtime.sqlite import Connection, Database, migrations, refuse_older
from filrouge.runtime.wiring import analyser
from filrouge.search.models import IndexedTable
from filrouge.search.repository import FullTextIndex

# Reading rows from database pages without SQLite.

Value = int | float | str | bytes | None

TABLE_LEAF: Final = 0x0D
TABLE_BRANCH: Final = 0x05
ROWS_LEAF: Final = 0x0A
ROWS_BRANCH: Final = 0x02
_LEAVES = (TABLE_LEAF, ROWS_LEAF)
_BRANCHES = (TABLE_BRANCH, ROWS_BRANCH)
_VALUE_LENGTHS: Final = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)


class Unreadable(ValueError):
    """A cell or a page that cannot be decoded."""


class SalvagedRow(Struct, frozen=True, kw_only=True):
    """One record.

    Attributes:
        rowid: None in a table without rowid.
        values: in stored order.
    """

    rowid: int | None
    values: tuple[Value, ...]


class Leaf(Struct, kw_only=True):
    """The result of reading one page.

    Attributes:
        rows: its records, in stored order.
        undecodable: number of cells that could not be decoded.
    """

    rows: list[SalvagedRow]
    undecodable: int


class Pages:
    """The pages of one database file without a log, read without SQLite.

    This reads files that SQLite refuses, following its file format (https://sqlite.org/fileformat2.html). A damaged
    page loses only its unreadable cells. All other leaves are read, including leaves that no intact branch page points
    to. Deleted rows do not reappear, because deleted content is overwritten (`secure_delete`).

    Raises:
        Unreadable: the header is not that of a database.
    """

    def __init__(self, content: bytes) -> None:
        if content[:16] != b"SQLite format 3\0":
            raise Unreadable("the file header is not that of an SQLite database")
        size = int.from_bytes(content[16:18], "big")
        self._size = 65536 if size == 1 else size
        if self._size < 512 or self._size & (self._size - 1):
            raise Unreadable("its page size is invalid")
        self._content = content
        self._usable = self._size - content[20]
        self.count = len(content) // self._size
        #: Pages reached from a root, and overflow pages of long rows.
        self.seen: set[int] = set()

    def kind(self, number: int) -> int:
        """Return the type byte of a page."""
        return self._content[self._start(number) + (100 if number == 1 else 0)]

    def walk(self, root: int) -> Iterator[Leaf]:
        """Yield every page with rows that is reachable from a root; skip pages that cannot be decoded."""
        to_visit = [root]
        while to_visit:
            number = to_visit.pop()
            if not 1 <= number <= self.count or number in self.seen:
                continue
            self.seen.add(number)
            kind = self.kind(number)
            if kind in _BRANCHES:
                to_visit += self._children(number)
            if kind in (*_LEAVES, ROWS_BRANCH):
                yield self.leaf(number)

    def unreached(self, kind: int) -> Iterator[Leaf]:
        """Yield every leaf of that kind that was not reached from any root."""
        for number in range(2, self.count + 1):
            if number not in self.seen and self.kind(number) == kind:
                found = self.leaf(number)
                if found.rows:
                    yield found

    def leaf(self, number: int) -> Leaf:
        """Return the rows of a page."""
        found = Leaf(rows=[], undecodable=0)
        kind = self.kind(number)
        for pointer in self._pointers(number):
            try:
                found.rows.append(self._row(number, kind, pointer))
            except (Unreadable, IndexError, struct.error, UnicodeDecodeError):
                found.undecodable += 1
        return found

    def _start(self, number: int) -> int:
        return (number - 1) * self._size

    def _pointers(self, number: int) -> list[int]:
        start = self._start(number)
        header = start + (100 if number == 1 else 0)
        header_length = 12 if self._content[header] in _BRANCHES else 8
        count = int.from_bytes(self._content[header + 3 : header + 5], "big")
        first = header + header_length
        if first + 2 * count > start + self._usable:  # the count is damaged; the loop below drops impossible pointers
            count = (start + self._usable - first) // 2
        found = list[int]()
        for offset in range(first, first + 2 * count, 2):
            pointer = int.from_bytes(self._content[offset : offset + 2], "big")
            if first - start + 2 <= pointer < self._usable:
                found.append(pointer)
        return found

    def _children(self, number: int) -> list[int]:
        start = self._start(number)
        header = start + (100 if number == 1 else 0)
        cells = [start + pointer for pointer in self._pointers(number)]
        return [int.from_bytes(self._content[offset : offset + 4], "big") for offset in (header + 8, *cells)]

    def _row(self, number: int, kind: int, pointer: int) -> SalvagedRow:
        offset = self._start(number) + pointer + (4 if kind == ROWS_BRANCH else 0)
        length, offset = self._varint(offset)
        rowid = None
        if kind == TABLE_LEAF:
            rowid, offset = self._varint(offset)
            rowid -= (rowid >> 63) << 64
        return SalvagedRow(
            rowid=rowid, values=_record(self._payload(number, offset, length, is_table=kind == TABLE_LEAF))
        )

    def _payload(self, number: int, offset: int, length: int, *, is_table: bool) -> bytes:
        usable, page_end = self._usable, self._start(number) + self._usable
        max_local = usable - 35 if is_table else (usable - 12) * 64 // 255 - 23
        if length <= max_local:
            if offset + length > page_end:
                raise Unreadable("a row beyond its page")
            return self._content[offset : offset + length]
        if length > len(self._content):
            raise Unreadable("a row longer than the file")
        min_local = (usable - 12) * 32 // 255 - 23
        local = min_local + (length - min_local) % (usable - 4)
        local = local if local <= max_local else min_local
        if offset + local + 4 > page_end:
            raise Unreadable("a row beyond its page")
        parts, remaining = [self._content[offset : offset + local]], length - local
        next_page = int.from_bytes(self._content[offset + local : offset + local + 4], "big")
        chain = set[int]()
        while remaining:
            if not 1 < next_page <= self.count or next_page in chain:
                raise Unreadable("an overflow page of a row is missing")
            chain.add(next_page)
            start = self._start(next_page)
            parts.append(self._content[start + 4 : start + 4 + min(remaining, usable - 4)])
            remaining -= len(parts[-1])
            next_page = int.from_bytes(self._content[start : start + 4], "big")
        self.seen |= chain
        return b"".join(parts)

    def _varint(self, offset: int) -> tuple[int, int]:
        return _varint(self._content, offset)


def _varint(content: bytes, offset: int) -> tuple[int, int]:
    """Return the varint at an offset, and the offset after it."""
    value = 0
    for index in range(offset, offset + 8):
        byte = content[index]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, index + 1
    return value << 8 | content[offset + 8], offset + 9


def _record(payload: bytes) -> tuple[Value, ...]:
    header_end, offset = _varint(payload, 0)
    if not 0 < header_end <= len(payload):
        raise Unreadable("a record without a head")
    kinds = list[int]()
    while offset < header_end:
        kind, offset = _varint(payload, offset)
        kinds.append(kind)
    values, offset = list[Value](), header_end
    for kind in kinds:
        length = _VALUE_LENGTHS[kind] if kind < len(_VALUE_LENGTHS) else (kind - 12) // 2
        if kind in (10, 11) or offset + length > len(payload):
            raise Unreadable("a value beyond its record")
        values.append(_value(kind, payload[offset : offset + length]))
        offset += length
    if offset != len(payload):
        raise Unreadable("a record's length does not match its header")
    return tuple(values)


def _value(kind: int, raw: bytes) -> Value:
    if kind == 0:
        return None
    if kind < 7:
        return int.from_bytes(raw, "big", signed=True)
    if kind == 7:
        return float(struct.unpack(">d", raw)[0])
    if kind < 10:
        return kind - 8
    return raw.decode("utf-8") if kind & 1 else raw


# Copying the readable rows into a new database.

#: Tables that the new database fills itself, and tables that are filled again from the user's files.
_TABLES_NOT_COPIED: Final = ("schema_migrations", "sqlite_sequence", "vault_notes", "vault_chunks")
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "TEXT": (str,), "INTEGER": (int,), "REAL": (int, float), "BLOB": (bytes,),
}  # fmt: skip
_MARK_UNANALYSED: Final[Mapping[IndexedTable, str]] = {"turn": "turns.unanalysed", "memory": "memories.unanalysed"}
_ANY_TYPE: Final = (int, float, str, bytes)
_ROWS_PER_BATCH: Final = 500


class Column(Struct, frozen=True, kw_only=True):
    """One column of a table.

    Attributes:
        kind: declared type in capitals, such as `TEXT`.
        required: True if it cannot be null.
        default: for records written before the column was added.
    """

    name: str
    kind: str
    required: bool
    default: Value


class Shape(Struct, frozen=True, kw_only=True):
    """The record format of a table.

    Attributes:
        columns: in stored order.
        rowid_column: the column that is the rowid, or empty.
        foreign_keys: each as column, parent table, parent column.
    """

    name: str
    columns: tuple[Column, ...]
    rowid_column: str
    has_rowid: bool
    foreign_keys: tuple[tuple[str, str, str], ...]


class TableResult(Struct, kw_only=True):
    """The result for one table.

    Attributes:
        rows: rows saved.
        unreadable: cells that could not be decoded.
        refused: rows rejected by the table's constraints or seals, because their content is damaged.
        orphaned: rows dropped because a row that they require is lost.
        remade: lost rows that were rebuilt from other rows.
    """

    rows: int = 0
    unreadable: int = 0
    refused: int = 0
    orphaned: int = 0
    remade: int = 0

    def to_json(self) -> dict[str, int]:
        """Return the counts as the command prints them."""
        counts = asdict(self)
        return {"saved": counts.pop("rows"), **counts}


class Salvage(Struct, kw_only=True):
    """Copies the rows of a damaged file into a new, empty database of the same schema.

    Rows come from the pages that each table's root leads to, then from unreachable leaves whose rows fit exactly one
    table. The new database enforces its types, keys and checks on every row. A reference to a lost row is set to null;
    if the column is required, the referring row is dropped. Full text is rebuilt afterwards (`fill_words`).
    """

    content: bytes
    target: Connection
    at: str
    saved: dict[str, TableResult] = field(default_factory=dict[str, TableResult])

    def run(self) -> None:
        """Copy everything that can be read, in one transaction."""
        pages, shapes = Pages(self.content), shapes_of(self.target)
        roots = _roots(pages)
        self.target.execute("pragma foreign_keys = 0")
        with self.target:
            self._empty_tables(shapes)
            for name, root in roots.items():
                if name in shapes:
                    self._copy_leaves(shapes[name], pages.walk(root), found=True)
                else:
                    for _ in pages.walk(root):
                        pass  # an index or full text; the walk marks its pages as seen
            for leaf in pages.unreached(TABLE_LEAF):
                self._copy_unreached(leaf, [shape for shape in shapes.values() if shape.has_rowid])
            for leaf in pages.unreached(ROWS_LEAF):
                self._copy_unreached(
                    leaf, [shape for shape in shapes.values() if not shape.has_rowid and shape.foreign_keys]
                )
            self._remake_projects(shapes)
            self._resolve_orphans(shapes)
        self.target.execute("pragma foreign_keys = 1")

    def drop(self, table: str, ids: Iterable[str]) -> int:
        """Delete rows whose seal does not match, with the rows that require them; return how many."""
        self.target.execute("pragma foreign_keys = 0")
        with self.target:
            dropped = 0
            for id_ in ids:
                self.target.execute(f'delete from "{table}" where id = ?', (id_,))  # noqa: S608 (our own names)
                dropped += self.target.changes()
            self._resolve_orphans(shapes_of(self.target))
        self.target.execute("pragma foreign_keys = 1")
        self.saved[table].rows -= dropped
        self.saved[table].refused += dropped
        return dropped

    def _empty_tables(self, shapes: Mapping[str, Shape]) -> None:
        for name in shapes:
            self.saved[name] = TableResult()
            self.target.execute(f'delete from "{name}"')  # noqa: S608

    def _copy_leaves(self, shape: Shape, leaves: Iterable[Leaf], *, found: bool) -> None:
        saved = self.saved[shape.name]
        for leaf in leaves:
            saved.unreadable += leaf.undecodable
            for row in leaf.rows:
                if self._insert(shape, row):
                    saved.rows += 1
                elif found:
                    saved.refused += 1

    def _copy_unreached(self, leaf: Leaf, shapes: Iterable[Shape]) -> None:
        """Copy the rows of an unreachable leaf if they fit exactly one table."""
        fitting = [shape for shape in shapes if all(self._fits(shape, row) for row in leaf.rows)]
        if len(fitting) == 1:
            self._copy_leaves(fitting[0], [leaf], found=False)

    def _fits(self, shape: Shape, row: SalvagedRow) -> bool:
        values = _column_values(shape, row)
        if values is None or len(row.values) != len(shape.columns):
            return False
        for column in shape.columns:
            value = values[column.name]
            if (value is None and column.required) or type(value) not in (
                *_TYPES.get(column.kind, _ANY_TYPE),
                type(None),
            ):
                return False
        return shape.has_rowid or all(
            values[column] is None or self._is_there(table, key, values[column])
            for column, table, key in shape.foreign_keys
        )

    def _is_there(self, table: str, key: str, value: Value) -> bool:
        query = f'select 1 from "{table}" where "{key}" = ?'  # noqa: S608
        return self.target.execute(query, (value,)).fetchone() is not None

    def _insert(self, shape: Shape, row: SalvagedRow) -> bool:
        values = _column_values(shape, row)
        if values is None:
            return False
        names, placeholders = ", ".join(f'"{name}"' for name in values), ", ".join("?" * len(values))
        try:
            self.target.execute(
                f'insert into "{shape.name}" ({names}) values ({placeholders})',  # noqa: S608
                tuple(values.values()),
            )
        except (apsw.ConstraintError, apsw.MismatchError, apsw.TooBigError, OverflowError):
            return False
        return True

    def _remake_projects(self, shapes: Mapping[str, Shape]) -> None:
        """Rebuild lost projects from the ids in other rows, which would otherwise be dropped as orphans."""
        for shape in shapes.values():
            for column in (column for column, table, _ in shape.foreign_keys if table == "projects"):
                named = f'select distinct "{column}" from "{shape.name}" where "{column}" is not null'  # noqa: S608
                for (id_,) in list(self.target.execute(f"{named} except select id from projects")):  # noqa: S608
                    name = id_.rpartition("/")[2] or id_
                    self.target.execute(
                        "insert into projects (id, name, created_at) values (?, ?, ?)", (id_, name, self.at)
                    )
                    self.saved["projects"].remade += 1

    def _resolve_orphans(self, shapes: Mapping[str, Shape]) -> None:
        """Clear references to missing rows, or drop the referring rows, until none is left."""
        changed = True
        while changed:
            changed = False
            for shape in shapes.values():
                required = {column.name for column in shape.columns if column.required}
                for column, table, key in shape.foreign_keys:
                    is_orphan = f'"{column}" is not null and "{column}" not in (select "{key}" from "{table}")'  # noqa: S608
                    delete_rows, clear_reference = (
                        f'delete from "{shape.name}"',  # noqa: S608
                        f'update "{shape.name}" set "{column}" = null',  # noqa: S608
                    )
                    statement = delete_rows if column in required else clear_reference
                    self.target.execute(f"{statement} where {is_orphan}")
                    changes = self.target.changes()
                    changed = changed or changes > 0
                    if column in required:
                        self.saved[shape.name].rows -= changes
                        self.saved[shape.name].orphaned += changes


def schema_in(content: bytes) -> int:
    """Return the number of the last migration recorded in a file's pages; 0 if none can be read."""
    pages = Pages(content)
    root = _roots(pages).get("schema_migrations", 0)
    return max((row.rowid or 0 for leaf in pages.walk(root) for row in leaf.rows), default=0)


def shapes_of(connection: Connection) -> dict[str, Shape]:
    """Return every table whose rows are copied; full-text tables are rebuilt instead."""
    tables = list(
        connection.execute(
            "select name, wr from pragma_table_list where schema = 'main' and type = 'table'"
            " and name not like 'sqlite_%' order by name"
        )
    )
    return {name: _shape(connection, name, bool(wr)) for name, wr in tables if name not in _TABLES_NOT_COPIED}


def fill_words(database: Database, analyser: Analyser) -> None:
    """Build the full text of a salvaged database, which starts empty."""
    for owner in ("turn", "memory"):
        with database.transaction() as tx:
            words = FullTextIndex(tx, analyser, owner)
            tx.run(_MARK_UNANALYSED[owner])
            while rows := words.stale(_ROWS_PER_BATCH):
                words.add(rows)


def _shape(connection: Connection, name: str, without_rowid: bool) -> Shape:
    columns: list[tuple[str, str, int, Any, int]] = [
        (column, kind.upper(), notnull, default, pk)
        for column, kind, notnull, default, pk in connection.execute(
            'select name, type, "notnull", dflt_value, pk from pragma_table_info(?)', (name,)
        )
    ]
    key_columns = sorted((column_row for column_row in columns if column_row[4]), key=lambda column_row: column_row[4])
    rowid_column = (
        key_columns[0][0] if len(key_columns) == 1 and key_columns[0][1] == "INTEGER" and not without_rowid else ""
    )
    if without_rowid:  # a table without rowid is stored by its key
        columns = key_columns + [column_row for column_row in columns if not column_row[4]]
    foreign_keys = [
        (column, table, key or "id")
        for column, table, key in connection.execute(
            'select "from", "table", "to" from pragma_foreign_key_list(?)', (name,)
        )
    ]
    return Shape(
        name=name,
        columns=tuple(
            Column(
                name=column,
                kind=kind,
                required=bool(notnull or (pk and without_rowid)),
                default=connection.execute(f"select {default}").fetchone()[0] if default is not None else None,
            )
            for column, kind, notnull, default, pk in columns
        ),
        rowid_column=rowid_column,
        has_rowid=not without_rowid,
        foreign_keys=tuple(foreign_keys),
    )


def _column_values(shape: Shape, row: SalvagedRow) -> dict[str, Value] | None:
    """Return the columns of a record; a column added after the record was written gets its default."""
    if len(row.values) > len(shape.columns) or not row.values:
        return None
    values = {
        column.name: row.values[index] if index < len(row.values) else column.default
        for index, column in enumerate(shape.columns)
    }
    if shape.rowid_column:
        values[shape.rowid_column] = row.rowid
    return values


def _roots(pages: Pages) -> dict[str, int]:
    """Return the root page of each table and index, as far as the schema table can be read."""
    roots: dict[str, int] = {}
    for leaf in pages.walk(1):
        for row in leaf.rows:
            if len(row.values) == 5 and isinstance(row.values[1], str) and isinstance(row.values[3], int):
                roots[row.values[1]] = row.values[3]
    return roots


# Fixing the journal's hash chain and the vectors of a salvaged database.

_VECTORS_PER_BATCH: Final = 2000
#: Half precision changes the length of a unit vector by less than a hundredth of this.
_TOLERANCE: Final = 0.002


def relink(tx: Tx, *, at: datetime, lost: int) -> int:
    """Rebuild the journal's chain unless it verifies; return how many entries lost their payload.

    A journal that lost an entry never verifies again, and later damage would go unnoticed. So the chain is rebuilt over
    the remaining entries, and a new entry records the repair with counts.
    """
    if Journal(tx).verify().sound:
        return 0
    rows = recompute_chain(tx.all("journal.everything"))
    tx.many("journal.relink", rows)
    redacted = sum(bool(row["redact"]) for row in rows)
    payload = {"reason": "repaired after damage", "entries": len(rows), "lost": lost, "redacted": redacted}
    Journal(tx).append(at=at, actor="repair", action="repaired", subject_id="journal", payload=payload)
    return redacted


def wrong_vectors(tx: Tx) -> list[dict[str, Any]]:
    """Return the keys of stored vectors without an owner, of the wrong size, or not of unit length."""
    return tx.all("vectors.ownerless") + [row for rows in _vector_batches(tx) for row in _invalid_keys(rows)]


def drop_vectors(tx: Tx, keys: list[dict[str, Any]]) -> None:
    """Delete all windows of the owners of these vectors, so that all are computed again."""
    tx.many("vectors.drop", [key | {"first": 0, "last": 1 << 31} for key in keys])


def _vector_batches(tx: Tx) -> Iterator[list[dict[str, Any]]]:
    after: dict[str, Any] = {"owner_kind": "", "owner_id": "", "space_id": "", "part": -1}
    while rows := tx.all("vectors.behind", after | {"limit": _VECTORS_PER_BATCH}):
        yield rows
        after = _key(rows[-1])


def _invalid_keys(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    right_size = [row for row in rows if len(row["vector"]) == 2 * row["dimension"]]
    found = [_key(row) for row in rows if len(row["vector"]) != 2 * row["dimension"]]
    for row in right_size:
        vector = np.frombuffer(row["vector"], dtype="<f2").astype(np.float64)
        length = float(np.linalg.norm(vector)) if np.isfinite(vector).all() else np.inf
        if abs(length - 1.0) > _TOLERANCE and length != 0.0:
            found.append(_key(row))
    return found


def _key(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("owner_kind", "owner_id", "space_id", "part")}


# Undo of a repair.

#: Mark in the manifest of the files kept by a repair, until that repair is undone.
REPAIRED: Final = "repaired"
#: Space factor: the copy that is put back, and the memory that is kept.
_UNDO_SPACE_FACTOR: Final = 2


def undo(home: str, clock: Clock, *, dry_run: bool, confirm: Confirm) -> dict[str, Any]:
    """Put back the files that the newest repair kept, and keep the repaired memory as a backup.

    This allows another attempt if a repair lost too much, for example with another recovery tool or an older disk. Only
    the newest repair can be undone, and only once. The caller holds the lock of the home.

    Args:
        dry_run: only return the plan.
        confirm: called with the plan before anything changes; False cancels.

    Returns:
        `undone`, the backup put back; `at`, the time of the repair; `bytes`; `log`, false if its write-ahead log can no
        longer be read; `kept`, the backup of the memory that was replaced.

    Raises:
        NotFound: there is no repair to undo.
        CannotWrite: there is not enough space; nothing was changed.
    """
    backup_files.finish_replacement(home)
    manifest = newest_repair(home)
    path = backup_files.path_of(home, manifest.name)
    backup_files.check_space(
        home,
        _UNDO_SPACE_FACTOR * (backup_files.database_size(path) + backup_files.database_size(inside(home, DATABASE))),
    )
    with _copied(home, path) as (new, has_log):
        plan = {
            "undone": manifest.name,
            "at": manifest.at,
            "bytes": backup_files.database_size(path),
            "log": has_log,
            "kept": None,
        }
        if dry_run or not confirm(plan):
            return plan
        kept = keep_present(home, clock)
        backup_files.replace_database(home, new)
    # A second undo would discard what was learnt since.
    backup_files.write_manifest(path, replace(manifest, mark=""))
    return plan | {"kept": kept}


def newest_repair(home: str) -> Manifest:
    """Return the manifest of the files that the newest repair kept.

    Raises:
        NotFound: there was no repair, it was undone already, or a restore has kept damaged files since.
    """
    last = next((manifest for manifest in backup_files.list_backups(home) if manifest.kind == "damaged"), None)
    if last is None or last.mark != REPAIRED:
        raise NotFound("There is no repair to undo.", remedy="See what is kept in `filrouge backup --list`.")
    return last


@contextmanager
def _copied(home: str, path: str) -> Generator[tuple[str, bool]]:
    """Yield a one-file copy of the damaged files, and whether it includes their log."""
    new = backup_files.new_database_path(home)
    try:
        backup_files.private_copy(path, new)
        has_log = True
        if os.path.exists(f"{path}-wal"):
            backup_files.private_copy(f"{path}-wal", f"{new}-wal")
            try:
                copies.merge_log(new)
            except FilrougeError:  # the log is damaged too; it stays beside the kept file
                has_log = False
                backup_files.remove_database(new)
                backup_files.private_copy(path, new)
        yield new, has_log
    finally:
        backup_files.remove_database(new)


# The repair itself. The damaged files are only read, never written.

_REMEDY: Final = "`filrouge restore latest` puts the newest backup in its place."
#: Space factor: the new database, the copy that is read, and the damaged files that are kept.
_REPAIR_SPACE_FACTOR: Final = 3

Confirm = Callable[[dict[str, Any]], bool]
"""Takes the plan, in the form of the result, and returns True to carry it out."""


def confirm_always(plan: dict[str, Any]) -> bool:
    """Agree to any plan, for a caller that has already confirmed."""
    del plan
    return True


class FixedClock(Struct, frozen=True, kw_only=True):
    """A clock fixed at one moment."""

    moment: datetime

    def now(self) -> datetime:
        """Return the fixed moment."""
        return self.moment


def diagnose(home: str) -> list[str]:
    """Return what is wrong with the home's database; empty if it is sound.

    Raises:
        NotFound: there is no database.
    """
    path = inside(home, DATABASE)
    if not os.path.exists(path):
        raise NotFound("There is no memory to repair.", remedy="It begins with the first hook or `remember`.")

    def check_rows() -> list[str]:
        database = Database(path, readonly=True)
        try:
            invalid = wrong_vectors(database.tx)
            return problems(database.tx) + ([f"{len(invalid)} vectors are invalid"] if invalid else [])
        finally:
            database.close()

    found = list[str]()
    for check in (lambda: copies.integrity_errors(path), lambda: copies.schema_faults(path), check_rows):
        try:
            found += check()
        except FilrougeError as error:
            found.append(error.message)
        except Exception as error:  # a damaged row or column name can raise anything
            found.append(f"a row cannot be read: {type(error).__name__}: {error}")
    try:
        differing = _differing_rows(home)
        found += [f"{rows} rows of {table} differ from the newest backup" for table, rows in differing.items()]
    except FilrougeError:
        pass  # the loop above has already reported it
    return found


def _differing_rows(home: str) -> dict[str, int]:
    """Count by table the rows that never change but differ from the newest backup; empty if no backup is comparable."""
    path, last = inside(home, DATABASE), backup_files.newest(home)
    if last is None or last.schema != copies.schema_of(path):
        return {}
    return differing(path, backup_files.path_of(home, last.name))


def repair(
    home: str,
    at: datetime,
    *,
    dry_run: bool = False,
    vectors: bool = False,
    rebuild_sound: bool = False,
    confirm: Confirm = confirm_always,
) -> dict[str, Any]:
    """Rebuild the home's database from what can be read. The caller holds the lock of the home.

    Args:
        dry_run: do all of it on copies and replace nothing.
        vectors: make every vector again, including those that look right.
        rebuild_sound: rebuild even if nothing is found to be wrong.
        confirm: called with what was found, saved and lost, before anything is replaced; False cancels.

    Returns:
        `found`, what was wrong; `tables`, what was saved and lost per table; `vectors`, how many are computed again;
        `redacted`, journal entries that lost their payload; `kept`, the backup that holds the damaged files.

    Raises:
        Corrupt: even the first page cannot be read; nothing was changed.
        WrongEngine: its schema is older than the baseline; nothing was changed.
    """
    backup_files.finish_replacement(home)
    path, found = inside(home, DATABASE), diagnose(home)
    if not found and not vectors and not rebuild_sound:
        return {"found": [], "tables": {}, "vectors": 0, "redacted": 0, "kept": None}
    backup_files.check_space(home, _REPAIR_SPACE_FACTOR * backup_files.database_size(path))
    clock, vectors = FixedClock(moment=at), vectors or _vectors_differ(home)
    with _temporary(home, clear=True) as copy, _temporary(home) as new:
        content = _content_of(path, copy)
        salvage, vectors_to_remake, redacted = _rebuild(content, new, clock, vectors=vectors)
        if errors := copies.integrity_errors(new):
            raise Corrupt(f"What was saved is not sound: {errors[0]}.", remedy=_REMEDY)
        tables = {name: result.to_json() for name, result in salvage.saved.items()}
        plan = {"found": found, "tables": tables, "vectors": vectors_to_remake, "redacted": redacted, "kept": None}
        if dry_run or not confirm(plan):
            return plan
        kept = keep_files(home, clock, mark=REPAIRED)
        backup_files.replace_database(home, new)
    return plan | {"kept": kept}


def _vectors_differ(home: str) -> bool:
    """Return True if any vector differs from the backup.

    Which of the two is damaged is unknown, so all vectors are computed again.
    """
    try:
        return "vectors" in _differing_rows(home)
    except FilrougeError:
        return False


def _content_of(path: str, copy: str) -> bytes:
    """Return the bytes of a copy of the database, with its log merged if that is possible."""
    backup_files.private_copy(path, copy)
    if os.path.exists(f"{path}-wal"):
        backup_files.private_copy(f"{path}-wal", f"{copy}-wal")
        with suppress(FilrougeError):
            copies.merge_log(copy)
    with open(copy, "rb") as file:
        return file.read()


def _rebuild(content: bytes, path: str, clock: Clock, *, vectors: bool) -> tuple[Salvage, int, int]:
    """Fill a new database with the salvaged rows; return also how many vectors and payloads were dropped."""
    database = Database(path)
    try:
        try:
            schema = schema_in(content)
            refuse_older(schema)
            is_known = 0 < schema <= migrations("sqlite")[-1].number
            database.migrate(clock, upto=schema if is_known else None)
            salvage = Salvage(content=content, target=database.raw_connection, at=to_text(clock.now()))
            salvage.run()
        except Unreadable as error:
            raise Corrupt(f"The memory database cannot be read any more: {error}.", remedy=_REMEDY) from error
        database.migrate(clock)
        for table, broken in broken_by_table(database.tx).items():
            salvage.drop(table, broken)
        entries = salvage.saved["journal"]
        vectors_to_remake = _drop_vectors_to_remake(database, everything=vectors)
        with database.transaction() as tx:
            redacted = relink(tx, at=clock.now(), lost=entries.unreadable + entries.refused)
        fill_words(database, analyser())
    finally:
        database.close()
    copies.merge_log(path)
    return salvage, vectors_to_remake, redacted


def _drop_vectors_to_remake(database: Database, *, everything: bool) -> int:
    """Delete the vectors to make again; the next daemon makes the missing ones."""
    with database.transaction() as tx:
        if everything:
            return tx.run("vectors.clear")
        invalid = wrong_vectors(tx)
        drop_vectors(tx, invalid)
        return len(invalid)


@contextmanager
def _temporary(home: str, *, clear: bool = False) -> Generator[str]:
    path = backup_files.new_database_path(home) if clear else backup_files.temporary_path(home)
    try:
        yield path
    finally:
        backup_files.remove_database(path)


def _ask_parent(plan: dict[str, Any]) -> bool:
    """Send the plan to the parent process and wait for its answer; a parent that has exited counts as a refusal."""
    sys.stdout.write(json.dumps({"plan": plan}) + "\n")
    sys.stdout.flush()
    return sys.stdin.readline().strip() == GO


def main(arguments: list[str]) -> int:
    """Repair one home, or undo its repair, and print the result or the error as JSON."""
    home, at, *options = arguments
    os.umask(0o077)
    confirm, dry_run = _ask_parent if "--ask" in options else confirm_always, "--dry-run" in options
    result: dict[str, Any]
    try:
        if "--undo" in options:
            result = undo(home, FixedClock(moment=from_text(at)), dry_run=dry_run, confirm=confirm)
        else:
            result = repair(
                home,
                from_text(at),
                dry_run=dry_run,
                vectors="--vectors" in options,
                rebuild_sound="--all" in options,
                confirm=confirm,
            )
    except FilrougeError as error:
        result = {"error": type(error).__name__, "message": error.message, "remedy": error.remedy}
    sys.stdout.write(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
