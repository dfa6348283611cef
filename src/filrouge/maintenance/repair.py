"""Repairing a damaged memory, and taking a repair back."""

from __future__ import annotations

import json
import os
import struct
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, Final

import apsw
import numpy as np

from filrouge.core.clock import Clock, from_text, to_text
from filrouge.core.errors import Corrupt, FilrougeError, NotFound
from filrouge.core.paths import DATABASE, inside
from filrouge.core.protocols import Analyser, Tx
from filrouge.maintenance import backup_files
from filrouge.maintenance.backup_files import GO, Manifest, differing
from filrouge.maintenance.restore import keep_files, keep_present
from filrouge.runtime.journal import Journal, relinked
from filrouge.runtime.soundness import broken_by_table, faults
from filrouge.runtime.sqlite import Connection, Database, migrations
from filrouge.runtime.wiring import analyser
from filrouge.search.word_repository import Owner, Words

# Salvage: what can still be read of a damaged database goes into a new one, row by row or page by page.

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


# Taking a repair back: the damaged files that it kept are the memory again, and the repaired memory is kept.
#
# A repair that lost too much can so be followed by something better: another program for damaged files, an older
# disk. Only the newest repair can be taken back, and once. For the holder of the home's lock.

#: In the manifest of what a repair kept, until that repair is taken back.
REPAIRED: Final = "repaired"
#: The copy that is put back, and the memory that is kept.
_ROOM: Final = 2


def undo(home: str, clock: Clock, *, dry_run: bool, agreed: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Put the files back that the newest repair kept.

    Args:
        dry_run: only say which.
        agreed: shown what would be done, before anything is.

    Returns:
        `undone`, what is put back; `at`, when it was repaired; `bytes`; `log`, false where what stood in its log can
        no longer be read; `kept`, the backup of the memory that was there.

    Raises:
        NotFound: there is no repair to take back.
        CannotWrite: there is no room; nothing was changed.
    """
    backup_files.finish(home)
    about = newest(home)
    path = backup_files.path_of(home, about.name)
    backup_files.check_space(
        home, _ROOM * (backup_files.bytes_of(path) + backup_files.bytes_of(inside(home, DATABASE)))
    )
    with _copied(home, path) as (new, log):
        plan = {"undone": about.name, "at": about.at, "bytes": backup_files.bytes_of(path), "log": log, "kept": None}
        if dry_run or not agreed(plan):
            return plan
        kept = keep_present(home, clock)
        backup_files.replace(home, new)
    # A second time would throw away what was learnt since.
    backup_files.describe(path, replace(about, mark=""))
    return plan | {"kept": kept}


def newest(home: str) -> Manifest:
    """What the newest repair kept.

    Raises:
        NotFound: none did, it was put back already, or a restore has kept damaged files since.
    """
    last = next((one for one in backup_files.listed(home) if one.kind == "damaged"), None)
    if last is None or last.mark != REPAIRED:
        raise NotFound("There is no repair to take back.", remedy="See what is kept in `filrouge backup --list`.")
    return last


@contextmanager
def _copied(home: str, path: str) -> Generator[tuple[str, bool]]:
    """A copy of the damaged files that is one file, and whether what stood in their log is in it."""
    new = backup_files.begun(home)
    try:
        backup_files.private_copy(path, new)
        log = True
        if os.path.exists(f"{path}-wal"):
            backup_files.private_copy(f"{path}-wal", f"{new}-wal")
            try:
                backup_files.merge_log(new)
            except FilrougeError:  # the log is no better than the file; it stays beside what was kept
                log = False
                backup_files.remove_database(new)
                backup_files.private_copy(path, new)
        yield new, log
    finally:
        backup_files.remove_database(new)


# Repairing: what is still there of a damaged memory becomes a sound one, and what is lost is listed.
#
# The damaged files are never written: their rows are read out of the pages of a copy (`maintenance.salvage`), put into
# a new database whose indexes and full text are made anew, and only when that is sound does it take their place, while
# they are kept among the backups. It runs in a process of its own, so that a crash in native code is told and not
# suffered.
#
#     python -m filrouge.maintenance.repair HOME MOMENT [--ask] [--undo] [--dry-run] [--vectors] [--all]
#
# With `--ask` it prints a line with the plan when the new database is made, and goes on only if it is told `GO`.

_REMEDY: Final = "`filrouge restore latest` puts the newest backup in its place."
#: The new database and the copy that is read, beside the damaged files that are kept.
_REPAIRING_ROOM: Final = 3

Agreed = Callable[[dict[str, Any]], bool]
"""Is shown what would be done, in the form of what is returned, and says whether it may."""


def always(plan: dict[str, Any]) -> bool:
    """Leave was given before."""
    del plan
    return True


@dataclass(frozen=True, kw_only=True, slots=True)
class At:
    """A clock for one moment."""

    moment: datetime

    def now(self) -> datetime:
        """That moment."""
        return self.moment


def diagnose(home: str) -> list[str]:
    """What is wrong with the home's database; empty where it is sound.

    Raises:
        NotFound: there is none.
    """
    path = inside(home, DATABASE)
    if not os.path.exists(path):
        raise NotFound("There is no memory to repair.", remedy="It begins with the first hook or `remember`.")

    def rows() -> list[str]:
        database = Database(path, readonly=True)
        try:
            wrong = wrong_vectors(database.tx)
            return faults(database.tx) + ([f"{len(wrong)} vectors are none"] if wrong else [])
        finally:
            database.close()

    found = list[str]()
    for look in (lambda: backup_files.complaints(path), lambda: backup_files.schema_faults(path), rows):
        try:
            found += look()
        except FilrougeError as error:
            found.append(error.message)
        except Exception as error:  # a damaged row, or a damaged name of a column, can be anything
            found.append(f"a row cannot be read: {type(error).__name__}: {error}")
    try:
        differ = _differing(home)
        found += [f"{rows} rows of {table} are not what the newest backup says" for table, rows in differ.items()]
    except FilrougeError:
        pass  # that it cannot be read is told already
    return found


def _differing(home: str) -> dict[str, int]:
    """Rows that never change and are not what they were, by table; empty where no backup can tell."""
    path, last = inside(home, DATABASE), backup_files.newest(home)
    if last is None or last.schema != backup_files.schema_of(path):
        return {}
    return differing(path, backup_files.path_of(home, last.name))


def repair(
    home: str,
    at: datetime,
    *,
    dry_run: bool = False,
    vectors: bool = False,
    all_anew: bool = False,
    agreed: Agreed = always,
) -> dict[str, Any]:
    """Make a sound database of what is left of the home's. For the holder of the home's lock.

    Args:
        dry_run: do all of it on copies, and replace nothing.
        vectors: have every vector made again, also those that look right.
        all_anew: do it also where nothing is found to be wrong.
        agreed: shown what is found, saved and lost, once that is known and before anything is replaced.

    Returns:
        `found`, what was wrong; `tables`, for each what was saved and lost; `vectors`, how many are made again;
        `redacted`, entries of the journal that lost their payload; `kept`, the backup that holds the damaged files.

    Raises:
        Corrupt: not even its first page can be read; nothing was changed.
    """
    backup_files.finish(home)
    path, found = inside(home, DATABASE), diagnose(home)
    if not found and not vectors and not all_anew:
        return {"found": [], "tables": {}, "vectors": 0, "redacted": 0, "kept": None}
    backup_files.check_space(home, _REPAIRING_ROOM * backup_files.bytes_of(path))
    clock, vectors = At(moment=at), vectors or _vectors_differ(home)
    with _temporary(home, clear=True) as copy, _temporary(home) as new:
        content = _content_of(path, copy)
        salvage, again, redacted = _made_anew(content, new, clock, vectors=vectors)
        if left := backup_files.complaints(new):
            raise Corrupt(f"What was saved is not sound: {left[0]}.", remedy=_REMEDY)
        tables = {name: one.to_json() for name, one in salvage.saved.items()}
        plan = {"found": found, "tables": tables, "vectors": again, "redacted": redacted, "kept": None}
        if dry_run or not agreed(plan):
            return plan
        kept = keep_files(home, clock, mark=REPAIRED)
        backup_files.replace(home, new)
    return plan | {"kept": kept}


def _vectors_differ(home: str) -> bool:
    """True where some vector is not what it was: which of them are right is not known, so all are made again."""
    try:
        return "vectors" in _differing(home)
    except FilrougeError:
        return False


def _content_of(path: str, copy: str) -> bytes:
    """The bytes of a copy of the database, with what stands in its log where that can still be merged."""
    backup_files.private_copy(path, copy)
    if os.path.exists(f"{path}-wal"):
        backup_files.private_copy(f"{path}-wal", f"{copy}-wal")
        with suppress(FilrougeError):
            backup_files.merge_log(copy)
    with open(copy, "rb") as file:
        return file.read()


def _made_anew(content: bytes, path: str, clock: Clock, *, vectors: bool) -> tuple[Salvage, int, int]:
    """Fill a new database with what is left; how many vectors and payloads went."""
    database = Database(path)
    try:
        try:
            known = range(1, migrations("sqlite")[-1].number + 1)
            schema = schema_in(content)
            database.migrate(clock, upto=schema if schema in known else None)
            salvage = Salvage(content=content, target=database.bare, at=to_text(clock.now()))
            salvage.run()
        except Unreadable as error:
            raise Corrupt(f"The memory database cannot be read any more: {error}.", remedy=_REMEDY) from error
        database.migrate(clock)
        for table, broken in broken_by_table(database.tx).items():
            salvage.drop(table, broken)
        entries = salvage.saved["journal"]
        again = _without_vectors(database, everything=vectors)
        with database.transaction() as tx:
            redacted = relink(tx, at=clock.now(), lost=entries.unreadable + entries.refused)
        fill_words(database, analyser())
    finally:
        database.close()
    backup_files.merge_log(path)
    return salvage, again, redacted


def _without_vectors(database: Database, *, everything: bool) -> int:
    """Take out the vectors that are to be made again: the next daemon makes what is missing."""
    with database.transaction() as tx:
        if everything:
            return tx.run("vectors.clear")
        wrong = wrong_vectors(tx)
        drop_vectors(tx, wrong)
        return len(wrong)


@contextmanager
def _temporary(home: str, *, clear: bool = False) -> Generator[str]:
    path = backup_files.begun(home) if clear else backup_files.unfinished(home)
    try:
        yield path
    finally:
        backup_files.remove_database(path)


def _asked(plan: dict[str, Any]) -> bool:
    """Show the plan to the process that started this one; it may be gone, which is no leave."""
    sys.stdout.write(json.dumps({"plan": plan}) + "\n")
    sys.stdout.flush()
    return sys.stdin.readline().strip() == GO


def main(words: list[str]) -> int:
    """Repair one home, or take its repair back, and print what came of it, or what went wrong."""
    home, at, *ways = words
    os.umask(0o077)
    agreed, dry_run = _asked if "--ask" in ways else always, "--dry-run" in ways
    said: dict[str, Any]
    try:
        if "--undo" in ways:
            said = undo(home, At(moment=from_text(at)), dry_run=dry_run, agreed=agreed)
        else:
            said = repair(
                home,
                from_text(at),
                dry_run=dry_run,
                vectors="--vectors" in ways,
                all_anew="--all" in ways,
                agreed=agreed,
            )
    except FilrougeError as error:
        said = {"error": type(error).__name__, "message": error.message, "remedy": error.remedy}
    sys.stdout.write(json.dumps(said))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
