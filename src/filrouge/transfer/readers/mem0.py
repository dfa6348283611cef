"""mem0: what `get_all` answers, `{"results": [{"id", "memory", ...}]}`, or the bare list."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from filrouge.errors import BadInput
from filrouge.model.imported import ImportedMemory, Item, Trouble
from filrouge.transfer.readers.opening import as_list, as_object, elements, opened, seconds, text_of


def read(path: str) -> Iterator[Item]:
    """Every memory, as a fact."""
    with opened(path) as file:
        for place, value in enumerate(elements(file, path)):
            rows = as_object(value).get("results", as_object(value).get("memories"))
            if rows is None:
                yield _memory(value, f"{path}, memory {place + 1}")
                continue
            if not isinstance(rows, list):
                raise BadInput(f"{path} has no list `results`.", remedy="Save what `get_all` answers, as it is.")
            yield from (_memory(row, f"{path}, memory {n}") for n, row in enumerate(as_list(rows), 1))


def _memory(row: object, place: str) -> Item:
    text = text_of(row, "memory", "text", "data", "content")
    if not text.strip():
        return Trouble(place, "it has no field `memory`")
    fields = as_object(row)
    id_ = text_of(row, "id", "hash") or hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    topics = [one for one in as_list(fields.get("categories")) if isinstance(one, str)]
    at = seconds(fields.get("updated_at")) or seconds(fields.get("created_at"))
    return ImportedMemory(key=id_, text=text, at=at, place=id_, subject=", ".join(topics))
