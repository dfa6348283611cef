"""The memory server of MCP: a graph of entities and relations, a line each; before that, one JSON document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from filrouge.model.imported import ImportedMemory, Item, Trouble
from filrouge.transfer.readers.opening import as_list, as_object, lines, opened, text_of, whole


def read(path: str) -> Iterator[Item]:
    """Every observation of an entity and every relation, as a fact."""
    with opened(path) as file:
        if path.endswith(".json"):
            graph = as_object(whole(file, path))
            rows = [("entity", as_object(one)) for one in as_list(graph.get("entities"))]
            rows += [("relation", as_object(one)) for one in as_list(graph.get("relations"))]
            for number, (kind, row) in enumerate(rows, 1):
                yield from _row({**row, "type": kind}, f"{path}, {kind} {number}")
            return
        for number, row in lines(file, path):
            if isinstance(row, Trouble):
                yield row
            else:
                yield from _row(as_object(row), f"{path}:{number}")


def _row(row: dict[str, Any], place: str) -> Iterator[Item]:
    match row.get("type"):
        case "entity" if text_of(row, "name"):
            name = text_of(row, "name")
            for said in as_list(row.get("observations")):
                if isinstance(said, str) and said.strip():
                    yield ImportedMemory(key=f"{name}\0{said}", text=f"{name}: {said}", place=place, subject=name)
        case "relation" if text_of(row, "from") and text_of(row, "to"):
            begins, ends = text_of(row, "from"), text_of(row, "to")
            tie = text_of(row, "relationType").replace("_", " ") or "relates to"
            key = f"{begins}\0{tie}\0{ends}"
            yield ImportedMemory(key=key, text=f"{begins} {tie} {ends}", place=place, subject=begins)
        case _:
            yield Trouble(place, "it is neither an entity with a name nor a relation")
