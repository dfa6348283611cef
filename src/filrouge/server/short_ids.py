"""Ids in requests may be shortened: each parameter that takes one is marked with its kind, and is made whole before
its route reads it.

The mark stands in the annotation, `MemoryId` for example, of a parameter of the path or the query or of a field of
the body.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, cast, get_args, get_type_hints
from urllib.parse import parse_qsl, urlencode

from fastapi import Request
from pydantic import BaseModel
from starlette.requests import HTTPConnection

from filrouge.ports import Tx
from filrouge.server.access import reading
from filrouge.store.short_ids import Kind, whole_id


@dataclass(frozen=True)
class IdOf:
    """Marks what is the id of a row of these kinds."""

    kinds: tuple[Kind, ...]


MemoryId = Annotated[str, IdOf(("memory",))]
TurnId = Annotated[str, IdOf(("turn",))]
ThreadId = Annotated[str, IdOf(("thread",))]
BridgeId = Annotated[str, IdOf(("bridge",))]
GardenId = Annotated[str, IdOf(("garden",))]
ReceiptId = Annotated[str, IdOf(("receipt",))]
RecallId = Annotated[str, IdOf(("recall",))]
TokenId = Annotated[str, IdOf(("token",))]
JobId = Annotated[str, IdOf(("job",))]
#: What may be forgotten by its id.
RowId = Annotated[str, IdOf(("memory", "turn", "thread"))]


async def whole_ids(connection: HTTPConnection) -> None:
    """Put whole ids in the place of shortened ones in a request.

    Raises:
        BadInput: several rows have an id that begins so; it lists them.
    """
    route: Any = connection.scope.get("route")
    if not isinstance(connection, Request) or not hasattr(route, "dependant"):
        return
    marks = _marks_of(route.dependant)
    places = _places_of(connection, marks, await _body_of(connection) if marks.fields else {})
    if not places:
        return

    def look(tx: Tx) -> list[str]:
        return [whole_id(tx, place.given, place.mark.kinds) for place in places]

    for place, id_ in zip(places, await reading(connection, look), strict=True):
        if id_ != place.given:
            place.put(id_)


@dataclass(frozen=True)
class _Place:
    """An id in a request, and what puts another in its place."""

    given: str
    mark: IdOf
    put: Callable[[str], None]


@dataclass(frozen=True)
class _Marks:
    """The marked names of a route: parameters of path and query, and fields of the body."""

    parameters: Mapping[str, IdOf]
    fields: Mapping[str, IdOf]


def _places_of(request: Request, marks: _Marks, body: dict[str, Any]) -> list[_Place]:
    # A request keeps its path parameters and its parsed body, and the route reads the same objects.
    path: dict[str, Any] = request.path_params
    found = [_in(path, name, mark) for name, mark in marks.parameters.items() if isinstance(path.get(name), str)]
    for name, mark in marks.parameters.items():
        if name in request.query_params and name not in path:
            found.append(
                _Place(request.query_params[name], mark, lambda id_, name=name: _put_query(request, name, id_))
            )
    for name, mark in marks.fields.items():
        value: Any = body.get(name)
        if isinstance(value, str):
            found.append(_in(body, name, mark))
        elif isinstance(value, list):
            listed = cast("list[Any]", value)
            found += [_in(listed, place, mark) for place, one in enumerate(listed) if isinstance(one, str)]
    return found


def _in(holder: Any, key: str | int, mark: IdOf) -> _Place:
    return _Place(holder[key], mark, lambda id_: holder.__setitem__(key, id_))


def _put_query(request: Request, name: str, id_: str) -> None:
    pairs = parse_qsl(request.url.query, keep_blank_values=True)
    request.scope["query_string"] = urlencode([(key, id_ if key == name else value) for key, value in pairs]).encode()
    for kept in ("_query_params", "_url"):  # a request parses its address once
        request.__dict__.pop(kept, None)


async def _body_of(request: Request) -> dict[str, Any]:
    """The object in the body; empty where there is none. The route answers a body that cannot be read."""
    try:
        body: Any = await request.json()
    except ValueError:
        return {}
    return cast("dict[str, Any]", body) if isinstance(body, dict) else {}


def _marks_of(dependant: Any) -> _Marks:
    parameters, fields = dict[str, IdOf](), dict[str, IdOf]()
    waiting = [dependant]
    while waiting:
        one = waiting.pop()
        waiting += one.dependencies
        for name, hint in _hints_of(one.call).items():
            if isinstance(hint, type) and issubclass(hint, BaseModel):
                fields |= {field: mark for field, inner in _hints_of(hint).items() if (mark := _mark_in(inner))}
            elif mark := _mark_in(hint):
                parameters[name] = mark
    return _Marks(parameters, fields)


@cache
def _hints_of(what: Any) -> dict[str, Any]:
    return get_type_hints(what, include_extras=True)


def _mark_in(hint: Any) -> IdOf | None:
    """The mark of an annotation, which may stand inside of a list or of an optional."""
    if isinstance(hint, IdOf):
        return hint
    inside = (*get_args(hint), *getattr(hint, "__metadata__", ()))
    return next((mark for one in inside if (mark := _mark_in(one))), None)
