"""JSON objects of the routes as frozen values: each field by its annotation, and nothing by its name alone.

A field that a newer daemon added stays in `raw`; one that has a default may be missing from an older one's answer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from types import UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from filrouge.errors import FilrougeError

T = TypeVar("T")
RAW = "raw"


def read(kind: type[T], value: Any) -> T:
    """The value of that dataclass which a JSON object spells.

    Raises:
        FilrougeError: it does not spell one, so the daemon is of another time.
    """
    try:
        return _object(kind, value)
    except (KeyError, TypeError, ValueError) as error:
        raise FilrougeError(
            f"The daemon's answer is no {kind.__name__}: {error}.",
            remedy="Give the daemon and this program the same version of Filrouge.",
        ) from error


def read_all(kind: type[T], values: Any) -> list[T]:
    """The values that a JSON list spells."""
    return [read(kind, value) for value in values]


def _object(kind: type[T], value: Any) -> T:
    given = cast("Mapping[str, Any]", value)
    hints, must = _fields(kind)
    found: dict[str, Any] = {}
    for name, hint in hints.items():
        if name == RAW:
            found[RAW] = given
        elif name in given or name in must:
            found[name] = _read(hint, given[name])
    return kind(**found)


@cache
def _fields(kind: type[Any]) -> tuple[dict[str, Any], frozenset[str]]:
    """The annotations of a dataclass, and the fields that have no default."""
    missing = dataclasses.MISSING
    must = {
        one.name
        for one in dataclasses.fields(kind)
        if one.default is missing and one.default_factory is missing and one.name != RAW
    }
    return get_type_hints(kind), frozenset(must)


def _read(hint: Any, value: Any) -> Any:
    if isinstance(hint, UnionType):
        return None if value is None else _read(next(one for one in get_args(hint) if one is not type(None)), value)
    if hint is datetime:
        return datetime.fromisoformat(value)
    if get_origin(hint) is tuple:
        return tuple(_read(get_args(hint)[0], one) for one in value)
    return _object(hint, value) if dataclasses.is_dataclass(hint) and isinstance(hint, type) else value
