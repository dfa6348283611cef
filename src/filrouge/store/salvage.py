"""Salvage: what can still be read of a damaged database goes into a new one, row by row.

Rows are taken from the pages that each table's root leads to, and then from leaves that nothing leads to any more,
where their shape fits one table alone. The new database's own rules judge every row: types, keys, checks. What refers
to a row that is lost loses the reference, or goes too where it cannot be without. Full text is made anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import apsw

from filrouge.ports import Analyser
from filrouge.store.pages import ROWS_LEAF, TABLE_LEAF, Leaf, Pages, Row, Value
from filrouge.store.sqlite import Connection, Database
from filrouge.store.words import Owner, Words

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
