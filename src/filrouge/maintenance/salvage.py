"""Salvage: what can still be read of a damaged database goes into a new one, row by row or page by page."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final

import apsw
import numpy as np

from filrouge.core.protocols import Analyser, Tx
from filrouge.runtime.journal import Journal, relinked
from filrouge.runtime.sqlite import Connection, Database
from filrouge.search.word_repository import Owner, Words

# The rows in the pages of a database file, read without SQLite: for a file that SQLite will not read any more.
#
# Written after SQLite's own description of its format (https://sqlite.org/fileformat2.html). A damaged page costs the
# cells on it that make no sense, and nothing else: every other leaf is read, also those that no damaged branch leads
# to any more. What was deleted is not found again, because deleted content is overwritten (`secure_delete`).

Value = int | float | str | bytes | None

TABLE_LEAF: Final = 0x0D
TABLE_BRANCH: Final = 0x05
ROWS_LEAF: Final = 0x0A
ROWS_BRANCH: Final = 0x02
_LEAVES = (TABLE_LEAF, ROWS_LEAF)
_BRANCHES = (TABLE_BRANCH, ROWS_BRANCH)
_LENGTHS: Final = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)


class Unreadable(ValueError):
    """A cell or a page that makes no sense."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One record.

    Attributes:
        rowid: None in a table that has none.
        values: in the order in which they are stored.
    """

    rowid: int | None
    values: tuple[Value, ...]


@dataclass(kw_only=True, slots=True)
class Leaf:
    """What was read of a page: its rows, and how many cells made no sense."""

    rows: list[Row]
    bad: int


class Pages:
    """The pages of one file without a log.

    Raises:
        Unreadable: it does not begin as a database does.
    """

    def __init__(self, content: bytes) -> None:
        if content[:16] != b"SQLite format 3\0":
            raise Unreadable("it does not begin as a database does")
        size = int.from_bytes(content[16:18], "big")
        self._size = 65536 if size == 1 else size
        if self._size < 512 or self._size & (self._size - 1):
            raise Unreadable("its page size makes no sense")
        self._content = content
        self._usable = self._size - content[20]
        self.count = len(content) // self._size
        #: Pages that a root led to, or that hold the rest of a long row.
        self.seen: set[int] = set()

    def kind(self, number: int) -> int:
        """What a page says it is."""
        return self._content[self._start(number) + (100 if number == 1 else 0)]

    def walk(self, root: int) -> Iterator[Leaf]:
        """Every page with rows that a root leads to; what makes no sense on the way is passed over."""
        waiting = [root]
        while waiting:
            number = waiting.pop()
            if not 1 <= number <= self.count or number in self.seen:
                continue
            self.seen.add(number)
            kind = self.kind(number)
            if kind in _BRANCHES:
                waiting += self._children(number)
            if kind in (*_LEAVES, ROWS_BRANCH):
                yield self.leaf(number)

    def lost(self, kind: int) -> Iterator[Leaf]:
        """Every leaf of that kind that no root led to."""
        for number in range(2, self.count + 1):
            if number not in self.seen and self.kind(number) == kind:
                found = self.leaf(number)
                if found.rows:
                    yield found

    def leaf(self, number: int) -> Leaf:
        """The rows of a page."""
        found = Leaf(rows=[], bad=0)
        kind = self.kind(number)
        for pointer in self._pointers(number):
            try:
                found.rows.append(self._row(number, kind, pointer))
            except (Unreadable, IndexError, struct.error, UnicodeDecodeError):
                found.bad += 1
        return found

    def _start(self, number: int) -> int:
        return (number - 1) * self._size

    def _pointers(self, number: int) -> list[int]:
        start = self._start(number)
        head = start + (100 if number == 1 else 0)
        wide = 12 if self._content[head] in _BRANCHES else 8
        count = int.from_bytes(self._content[head + 3 : head + 5], "big")
        first = head + wide
        if first + 2 * count > start + self._usable:  # the count was hit: what cannot be a pointer ends the list
            count = (start + self._usable - first) // 2
        found = list[int]()
        for place in range(first, first + 2 * count, 2):
            pointer = int.from_bytes(self._content[place : place + 2], "big")
            if first - start + 2 <= pointer < self._usable:
                found.append(pointer)
        return found

    def _children(self, number: int) -> list[int]:
        start = self._start(number)
        head = start + (100 if number == 1 else 0)
        cells = [start + pointer for pointer in self._pointers(number)]
        return [int.from_bytes(self._content[at : at + 4], "big") for at in (head + 8, *cells)]

    def _row(self, number: int, kind: int, pointer: int) -> Row:
        at = self._start(number) + pointer + (4 if kind == ROWS_BRANCH else 0)
        length, at = self._varint(at)
        rowid = None
        if kind == TABLE_LEAF:
            rowid, at = self._varint(at)
            rowid -= (rowid >> 63) << 64
        return Row(rowid=rowid, values=_record(self._payload(number, at, length, is_table=kind == TABLE_LEAF)))

    def _payload(self, number: int, at: int, length: int, *, is_table: bool) -> bytes:
        usable, ends = self._usable, self._start(number) + self._usable
        most = usable - 35 if is_table else (usable - 12) * 64 // 255 - 23
        if length <= most:
            if at + length > ends:
                raise Unreadable("a row beyond its page")
            return self._content[at : at + length]
        if length > len(self._content):
            raise Unreadable("a row longer than the file")
        least = (usable - 12) * 32 // 255 - 23
        here = least + (length - least) % (usable - 4)
        here = here if here <= most else least
        if at + here + 4 > ends:
            raise Unreadable("a row beyond its page")
        parts, left = [self._content[at : at + here]], length - here
        following = int.from_bytes(self._content[at + here : at + here + 4], "big")
        chain = set[int]()
        while left:
            if not 1 < following <= self.count or following in chain:
                raise Unreadable("the rest of a row is not there")
            chain.add(following)
            start = self._start(following)
            parts.append(self._content[start + 4 : start + 4 + min(left, usable - 4)])
            left -= len(parts[-1])
            following = int.from_bytes(self._content[start : start + 4], "big")
        self.seen |= chain
        return b"".join(parts)

    def _varint(self, at: int) -> tuple[int, int]:
        return _varint(self._content, at)


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """The number at a place, and the place behind it."""
    value = 0
    for place in range(at, at + 8):
        byte = content[place]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, place + 1
    return value << 8 | content[at + 8], at + 9


def _record(payload: bytes) -> tuple[Value, ...]:
    ends, at = _varint(payload, 0)
    if not 0 < ends <= len(payload):
        raise Unreadable("a record without a head")
    kinds = list[int]()
    while at < ends:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    values, at = list[Value](), ends
    for kind in kinds:
        length = _LENGTHS[kind] if kind < len(_LENGTHS) else (kind - 12) // 2
        if kind in (10, 11) or at + length > len(payload):
            raise Unreadable("a value beyond its record")
        values.append(_value(kind, payload[at : at + length]))
        at += length
    if at != len(payload):
        raise Unreadable("a record of another length")
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


# Salvage: what can still be read of a damaged database goes into a new one, row by row.
#
# Rows are taken from the pages that each table's root leads to, and then from leaves that nothing leads to any more,
# where their shape fits one table alone. The new database's own rules judge every row: types, keys, checks. What
# refers to a row that is lost loses the reference, or goes too where it cannot be without. Full text is made anew.

#: Tables that the new database has of itself, and those that are read again from the user's own files.
_OWN: Final = ("schema_migrations", "sqlite_sequence", "vault_notes", "vault_chunks")
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "TEXT": (str,), "INTEGER": (int,), "REAL": (int, float), "BLOB": (bytes,),
}  # fmt: skip
_STALE: Final[Mapping[Owner, str]] = {"turn": "turns.unanalysed", "memory": "memories.unanalysed"}
_ANY: Final = (int, float, str, bytes)
_ROWS_AT_ONCE: Final = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """One column of a table."""

    name: str
    kind: str
    needed: bool
    default: Value


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """What a table's records look like.

    Attributes:
        columns: in the order in which they are stored.
        number: the column that is the rowid, or empty.
        refers: the parents of its rows: column, table, column there.
    """

    name: str
    columns: tuple[Column, ...]
    number: str
    has_rowid: bool
    refers: tuple[tuple[str, str, str], ...]


@dataclass(kw_only=True, slots=True)
class Saved:
    """What became of one table.

    Attributes:
        rows: how many were saved.
        unreadable: cells that made no sense.
        refused: rows that the table's own rules refused: they are not what was stored.
        orphaned: rows that had to go because what they were about is lost.
        remade: rows that are lost, and of which others tell enough to make them again.
    """

    rows: int = 0
    unreadable: int = 0
    refused: int = 0
    orphaned: int = 0
    remade: int = 0

    def to_json(self) -> dict[str, int]:
        """As the command prints it."""
        counts = asdict(self)
        return {"saved": counts.pop("rows"), **counts}


@dataclass(kw_only=True, slots=True)
class Salvage:
    """Takes the rows of a damaged file into a new database, of the same schema and empty."""

    content: bytes
    target: Connection
    at: str
    saved: dict[str, Saved] = field(default_factory=dict[str, Saved])

    def run(self) -> None:
        """Take all that can be taken, in one transaction."""
        pages, shapes = Pages(self.content), shapes_of(self.target)
        roots = _roots(pages)
        self.target.execute("pragma foreign_keys = 0")
        with self.target:
            self._empty(shapes)
            for name, root in roots.items():
                if name in shapes:
                    self._take(shapes[name], pages.walk(root), found=True)
                else:
                    for _ in pages.walk(root):
                        pass  # an index, or full text: its pages are spoken for
            for leaf in pages.lost(TABLE_LEAF):
                self._place(leaf, [one for one in shapes.values() if one.has_rowid])
            for leaf in pages.lost(ROWS_LEAF):
                self._place(leaf, [one for one in shapes.values() if not one.has_rowid and one.refers])
            self._remake_projects(shapes)
            self._orphans(shapes)
        self.target.execute("pragma foreign_keys = 1")

    def drop(self, table: str, ids: Iterable[str]) -> int:
        """Take rows out that are not what was stored, with what refers to them; how many."""
        self.target.execute("pragma foreign_keys = 0")
        with self.target:
            dropped = 0
            for id_ in ids:
                self.target.execute(f'delete from "{table}" where id = ?', (id_,))  # noqa: S608 (our own names)
                dropped += self.target.changes()
            self._orphans(shapes_of(self.target))
        self.target.execute("pragma foreign_keys = 1")
        self.saved[table].rows -= dropped
        self.saved[table].refused += dropped
        return dropped

    def _empty(self, shapes: Mapping[str, Shape]) -> None:
        for name in shapes:
            self.saved[name] = Saved()
            self.target.execute(f'delete from "{name}"')  # noqa: S608

    def _take(self, shape: Shape, leaves: Iterable[Leaf], *, found: bool) -> None:
        saved = self.saved[shape.name]
        for leaf in leaves:
            saved.unreadable += leaf.bad
            for row in leaf.rows:
                if self._put(shape, row):
                    saved.rows += 1
                elif found:
                    saved.refused += 1

    def _place(self, leaf: Leaf, shapes: Iterable[Shape]) -> None:
        """Take the rows of a leaf that nothing leads to, where they fit one table alone."""
        fitting = [shape for shape in shapes if all(self._fits(shape, row) for row in leaf.rows)]
        if len(fitting) == 1:
            self._take(fitting[0], [leaf], found=False)

    def _fits(self, shape: Shape, row: Row) -> bool:
        values = _values(shape, row)
        if values is None or len(row.values) != len(shape.columns):
            return False
        for column in shape.columns:
            value = values[column.name]
            if (value is None and column.needed) or type(value) not in (*_TYPES.get(column.kind, _ANY), type(None)):
                return False
        return shape.has_rowid or all(
            values[column] is None or self._is_there(table, key, values[column]) for column, table, key in shape.refers
        )

    def _is_there(self, table: str, key: str, value: Value) -> bool:
        query = f'select 1 from "{table}" where "{key}" = ?'  # noqa: S608
        return self.target.execute(query, (value,)).fetchone() is not None

    def _put(self, shape: Shape, row: Row) -> bool:
        values = _values(shape, row)
        if values is None:
            return False
        names, places = ", ".join(f'"{name}"' for name in values), ", ".join("?" * len(values))
        try:
            self.target.execute(
                f'insert into "{shape.name}" ({names}) values ({places})',  # noqa: S608
                tuple(values.values()),
            )
        except (apsw.ConstraintError, apsw.MismatchError, apsw.TooBigError, OverflowError):
            return False
        return True

    def _remake_projects(self, shapes: Mapping[str, Shape]) -> None:
        """A project is little more than its id, which all its rows bear; without it every one of them would be lost."""
        for shape in shapes.values():
            for column in (column for column, table, _ in shape.refers if table == "projects"):
                named = f'select distinct "{column}" from "{shape.name}" where "{column}" is not null'  # noqa: S608
                for (id_,) in list(self.target.execute(f"{named} except select id from projects")):  # noqa: S608
                    name = id_.rpartition("/")[2] or id_
                    self.target.execute(
                        "insert into projects (id, name, created_at) values (?, ?, ?)", (id_, name, self.at)
                    )
                    self.saved["projects"].remade += 1

    def _orphans(self, shapes: Mapping[str, Shape]) -> None:
        """Settle what refers to a row that is not there, until nothing does."""
        changed = True
        while changed:
            changed = False
            for shape in shapes.values():
                needed = {column.name for column in shape.columns if column.needed}
                for column, table, key in shape.refers:
                    lost = f'"{column}" is not null and "{column}" not in (select "{key}" from "{table}")'  # noqa: S608
                    gone_too, alone = (
                        f'delete from "{shape.name}"',  # noqa: S608
                        f'update "{shape.name}" set "{column}" = null',  # noqa: S608
                    )
                    what = gone_too if column in needed else alone
                    self.target.execute(f"{what} where {lost}")
                    gone = self.target.changes()
                    changed = changed or gone > 0
                    if column in needed:
                        self.saved[shape.name].rows -= gone
                        self.saved[shape.name].orphaned += gone


def schema_in(content: bytes) -> int:
    """The number of the last migration that a file's pages tell of; 0 where they tell nothing."""
    pages = Pages(content)
    root = _roots(pages).get("schema_migrations", 0)
    return max((row.rowid or 0 for leaf in pages.walk(root) for row in leaf.rows), default=0)


def shapes_of(connection: Connection) -> dict[str, Shape]:
    """Every table whose rows are kept: not those of full text, which is made anew."""
    tables = list(
        connection.execute(
            "select name, wr from pragma_table_list where schema = 'main' and type = 'table'"
            " and name not like 'sqlite_%' order by name"
        )
    )
    return {name: _shape(connection, name, bool(wr)) for name, wr in tables if name not in _OWN}


def fill_words(database: Database, analyser: Analyser) -> None:
    """Make the full text of a salvaged database, whose own is empty."""
    for owner in ("turn", "memory"):
        with database.transaction() as tx:
            words = Words(tx, analyser, owner)
            tx.run(_STALE[owner])
            while rows := words.stale(_ROWS_AT_ONCE):
                words.add(rows)


def _shape(connection: Connection, name: str, without_rowid: bool) -> Shape:
    listed: list[tuple[str, str, int, Any, int]] = [
        (column, kind.upper(), notnull, default, pk)
        for column, kind, notnull, default, pk in connection.execute(
            'select name, type, "notnull", dflt_value, pk from pragma_table_info(?)', (name,)
        )
    ]
    keys = sorted((one for one in listed if one[4]), key=lambda one: one[4])
    number = keys[0][0] if len(keys) == 1 and keys[0][1] == "INTEGER" and not without_rowid else ""
    if without_rowid:  # such a table is stored by its key
        listed = keys + [one for one in listed if not one[4]]
    refers = [
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
                needed=bool(notnull or (pk and without_rowid)),
                default=connection.execute(f"select {default}").fetchone()[0] if default is not None else None,
            )
            for column, kind, notnull, default, pk in listed
        ),
        number=number,
        has_rowid=not without_rowid,
        refers=tuple(refers),
    )


def _values(shape: Shape, row: Row) -> dict[str, Value] | None:
    """The columns of a record; what was added to the table after it was written has its default."""
    if len(row.values) > len(shape.columns) or not row.values:
        return None
    values = {
        column.name: row.values[place] if place < len(row.values) else column.default
        for place, column in enumerate(shape.columns)
    }
    if shape.number:
        values[shape.number] = row.rowid
    return values


def _roots(pages: Pages) -> dict[str, int]:
    """Where each table and index begins, as the first page says, as far as it can be read."""
    roots: dict[str, int] = {}
    for leaf in pages.walk(1):
        for row in leaf.rows:
            if len(row.values) == 5 and isinstance(row.values[1], str) and isinstance(row.values[3], int):
                roots[row.values[1]] = row.values[3]
    return roots


# Mending what a salvaged database says of itself: a chain with a gap is closed, and says so; wrong vectors go.
#
# A journal that lost an entry would never verify again, and no later damage could be told from this one. So the chain
# is linked anew over what is left, and its next entry records that, with counts: whoever reads the history sees where
# it was mended, and that it was.

_MENDING_ROWS_AT_ONCE: Final = 2000
#: Half precision moves the length of a unit vector by less than a hundredth of this.
_TOLERANCE: Final = 0.002


def relink(tx: Tx, *, at: datetime, lost: int) -> int:
    """Close the journal's chain over what is left of it, unless it holds; how many entries lost their payload."""
    if Journal(tx).verify().sound:
        return 0
    rows = relinked(tx.all("journal.everything"))
    tx.many("journal.relink", rows)
    redacted = sum(bool(row["redact"]) for row in rows)
    payload = {"reason": "repaired after damage", "entries": len(rows), "lost": lost, "redacted": redacted}
    Journal(tx).append(at=at, actor="repair", action="repaired", subject_id="journal", payload=payload)
    return redacted


def wrong_vectors(tx: Tx) -> list[dict[str, Any]]:
    """The keys of stored vectors that are no unit vector of their space's dimension, or of nothing that is there."""
    return tx.all("vectors.ownerless") + [row for rows in _vectors(tx) for row in _wrong(rows)]


def drop_vectors(tx: Tx, keys: list[dict[str, Any]]) -> None:
    """Take out every window of the owners of these, so that all of them are made again."""
    tx.many("vectors.drop", [key | {"first": 0, "last": 1 << 31} for key in keys])


def _vectors(tx: Tx) -> Iterator[list[dict[str, Any]]]:
    after: dict[str, Any] = {"owner_kind": "", "owner_id": "", "space_id": "", "part": -1}
    while rows := tx.all("vectors.behind", after | {"limit": _MENDING_ROWS_AT_ONCE}):
        yield rows
        after = _key(rows[-1])


def _wrong(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    whole = [row for row in rows if len(row["vector"]) == 2 * row["dimension"]]
    found = [_key(row) for row in rows if len(row["vector"]) != 2 * row["dimension"]]
    for row in whole:
        vector = np.frombuffer(row["vector"], dtype="<f2").astype(np.float64)
        length = float(np.linalg.norm(vector)) if np.isfinite(vector).all() else np.inf
        if abs(length - 1.0) > _TOLERANCE and length != 0.0:
            found.append(_key(row))
    return found


def _key(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("owner_kind", "owner_id", "space_id", "part")}
