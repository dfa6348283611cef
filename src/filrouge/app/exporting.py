"""Export: everything that is known, page by page, so that a memory of any size leaves in little room.

Pages are read one after the other. What is captured meanwhile may be in it or not; what is in it is whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar

from filrouge._version import __version__
from filrouge.app.parts import Parts
from filrouge.clock import to_text
from filrouge.errors import BadInput
from filrouge.ports import Tx
from filrouge.store.carrying import Carrying
from filrouge.store.events import Projects
from filrouge.store.whole import FIRST, Whole
from filrouge.transfer.exports import (
    COLUMNS,
    MARK,
    VERSION,
    Rows,
    Table,
    document,
    memory_row,
    message_row,
    spreadsheet,
    written,
)

Format = Literal["json", "csv", "jsonl"]
What = Literal["memories", "messages", "threads", "all"]
T = TypeVar("T")
K = TypeVar("K", int, str)
_PAGE: Final = 500
_ALL: Final[Sequence[Table]] = ("messages", "memories", "threads")


def exported(parts: Parts, form: Format, what: What | None = None) -> Iterator[str]:
    """The export, piece by piece.

    Args:
        what: None = everything in JSON, the memories in CSV.

    Raises:
        BadInput: everything in one CSV table, or a part of a whole.
    """
    if form == "jsonl":
        if what not in (None, "all"):
            raise BadInput("JSON Lines hold everything.", remedy="For one table, ask for json or csv.")
        return whole(parts)
    if form == "csv":
        if what == "all":
            raise BadInput("A CSV file is one table.", remedy="Name it: memories, messages or threads.")
        table: Table = what or "memories"
        return spreadsheet(COLUMNS[table], _rows(parts, table))
    head = _head(parts)
    names = _ALL if what in (None, "all") else (what,)
    tables: dict[Table, Rows] = {"projects": _rows(parts, "projects")}
    for name in names:
        tables[name] = _rows(parts, name)
    return document(head, tables)


def whole(parts: Parts) -> Iterator[str]:
    """Everything, so that nothing need be made anew: see `transfer.lines` for its form."""
    counts = _here(parts, Whole.counts)
    return written({MARK: VERSION, **_head(parts), "counts": counts}, _all_rows(parts))


def _all_rows(parts: Parts) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield from (("projects", row) for row in parts.readers.here(_projects))
    ids = _here(parts, Whole.descent)
    for place in range(0, len(ids), _PAGE):
        page = ids[place : place + _PAGE]
        yield from (("threads", row) for row in _here(parts, lambda from_, page=page: from_.threads(page)))
    for turn, more in _whole_pages(parts, Whole.messages, 0):
        yield "messages", message_row(turn) | more
    for memory, more in _whole_pages(parts, Whole.memories, 0):
        yield "memories", memory_row(memory) | more
    yield from (("links", row) for row in _whole_pages(parts, Whole.links, 0))
    for table, first in FIRST.items():
        rows = _whole_pages(parts, lambda from_, behind, limit, table=table: from_.beside(table, behind, limit), first)
        yield from ((table, row) for row in rows)


def _here(parts: Parts, read: Callable[[Whole], T]) -> T:
    return parts.readers.here(lambda tx: read(Whole(tx, parts.analyser)))


def _whole_pages(parts: Parts, page: Callable[[Whole, K, int], Sequence[tuple[K, T]]], first: K) -> Iterator[T]:
    behind = first
    while found := _here(parts, lambda from_, behind=behind: page(from_, behind, _PAGE)):
        yield from (row for _, row in found)
        behind = found[-1][0]


def _head(parts: Parts) -> dict[str, Any]:
    return {"version": __version__, "exported_at": to_text(parts.clock.now())}


def _rows(parts: Parts, table: Table) -> Iterator[Mapping[str, Any]]:
    match table:
        case "projects":
            yield from parts.readers.here(_projects)
        case "messages":
            yield from map(message_row, _paged(parts, Carrying.turns))
        case "memories":
            yield from map(memory_row, _paged(parts, Carrying.memories))
        case "threads":
            yield from _paged(parts, Carrying.threads)


def _projects(tx: Tx) -> list[dict[str, Any]]:
    projects = Projects(tx)
    return [{"id": one["id"], "name": one["name"], "aliases": projects.aliases(one["id"])} for one in projects.all()]


def _paged(parts: Parts, page: Callable[[Carrying, int, int], Sequence[tuple[int, T]]]) -> Iterator[T]:
    behind = 0
    while found := parts.readers.here(lambda tx, behind=behind: page(Carrying(tx, parts.analyser), behind, _PAGE)):
        yield from (row for _, row in found)
        behind = found[-1][0]
