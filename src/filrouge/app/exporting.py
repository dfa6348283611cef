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
from filrouge.transfer.exported import COLUMNS, Rows, Table, document, memory_row, message_row, spreadsheet

Format = Literal["json", "csv"]
What = Literal["memories", "messages", "threads", "all"]
T = TypeVar("T")
_PAGE: Final = 500
_ALL: Final[Sequence[Table]] = ("messages", "memories", "threads")


def exported(parts: Parts, form: Format, what: What | None = None) -> Iterator[str]:
    """The export, piece by piece.

    Args:
        what: None = everything in JSON, the memories in CSV.

    Raises:
        BadInput: everything in one CSV table.
    """
    if form == "csv":
        if what == "all":
            raise BadInput("A CSV file is one table.", remedy="Name it: memories, messages or threads.")
        table: Table = what or "memories"
        return spreadsheet(COLUMNS[table], _rows(parts, table))
    head = {"version": __version__, "exported_at": to_text(parts.clock.now())}
    names = _ALL if what in (None, "all") else (what,)
    tables: dict[Table, Rows] = {"projects": _rows(parts, "projects")}
    for name in names:
        tables[name] = _rows(parts, name)
    return document(head, tables)


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
