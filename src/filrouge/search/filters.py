"""Filters from names and values, and what each of the two tables makes of them.

A field of `Filters` needs nothing here unless its value is not a text, or the word index can apply it by itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, cast, get_args

from filrouge.capture.models import Role
from filrouge.core.choices import check_choice
from filrouge.core.clock import parse_datetime, to_text
from filrouge.core.errors import BadInput
from filrouge.memories.models import NO_FILTERS, TURN, Filters, Kind
from filrouge.search.models import IndexedTable

_ATTRIBUTES: Final = Filters.__struct_fields__
#: Names of filters, by the attribute of `Filters`, where they differ.
_NAMES: Final = {"kinds": "kind"}
#: All names; `project` selects where to search, the others are fields of `Filters`.
NAMES: Final = tuple(sorted(("project", *(_NAMES.get(name, name) for name in _ATTRIBUTES))))
#: The attributes that the labels and times of a word index cover.
_INDEXED: Final = frozenset({"user", "agent", "channel", "kinds", "since", "until", "as_of", "trust", "role"})
_FILTERED_KINDS: Final = (*get_args(Kind), TURN)
#: Attributes that rows of one table alone have; if one is set, no row of the other table passes.
_ONLY_TABLE: Final[Mapping[str, IndexedTable]] = {"role": "turn", "language": "memory"}
#: Fields for which a date without a time means the end of that day.
_END_OF_DAY: Final = ("until", "as_of")


def parse_filters(where: Mapping[str, Any] | None) -> tuple[Filters, str | None]:
    """Parse filter fields into `Filters` and the project they name; a field that is None is ignored.

    Raises:
        BadInput: a field does not exist, or its value is invalid.
    """
    set_values = {name: value for name, value in (where or {}).items() if value is not None}
    for name in set_values:
        check_choice("a filter", name, NAMES)
    parsed = {name: _PARSERS.get(name, _parse_text)(name, value) for name, value in set_values.items()}
    project = parsed.pop("project", None)
    return Filters(
        **{name: parsed[filter_name] for name in _ATTRIBUTES if (filter_name := _NAMES.get(name, name)) in parsed}
    ), project


def set_filter_names(filters: Filters) -> tuple[str, ...]:
    """Return the names of the filters that are set."""
    return tuple(_NAMES.get(name, name) for name in _set_attributes(filters))


def _set_attributes(filters: Filters) -> list[str]:
    return [name for name in _ATTRIBUTES if getattr(filters, name) != getattr(NO_FILTERS, name)]


def passes_none(owner: IndexedTable, filters: Filters) -> bool:
    """Return True if the filter applies to the other table only."""
    if owner == "turn" and filters.kinds and TURN not in filters.kinds:
        return True
    return any(_ONLY_TABLE.get(name, owner) != owner for name in _set_attributes(filters))


def is_indexed(filters: Filters) -> bool:
    """Return True if a word index can apply all of the filter by itself; it has no labels for threads and branches."""
    return _INDEXED.issuperset(_set_attributes(filters))


def parameters_of(filters: Filters) -> dict[str, object]:
    """Return the filter as parameters of a query; a filter that is not set is NULL."""
    return {name: _column(getattr(filters, name)) for name in _ATTRIBUTES}


def _column(value: object) -> object:
    if isinstance(value, datetime):
        return to_text(value)
    if isinstance(value, tuple):
        return json.dumps(value) if value else None
    return value


def _parse_text(name: str, value: object) -> str:
    if not (isinstance(value, str) and value):
        raise BadInput(f"The filter {name!r} needs a text, not {value!r}.", remedy="Leave it out to search everywhere.")
    return value


def _role(name: str, value: object) -> Role:
    check_choice(name, _parse_text(name, value), get_args(Role))
    return cast("Role", value)


def _kinds(name: str, value: object) -> tuple[str, ...]:
    kinds = (value,) if isinstance(value, str) or not isinstance(value, Iterable) else cast("Iterable[object]", value)
    names = tuple(str(kind) for kind in kinds)
    for kind in names:
        check_choice(name, kind, _FILTERED_KINDS)
    return names


def _trust(name: str, value: object) -> int:
    if not isinstance(value, int) or not 0 <= value <= 3:
        raise BadInput(
            f"{name} is a whole number from 0 to 3, not {value!r}.",
            remedy="3 is for statements that the user entered.",
        )
    return value


def _moment(name: str, value: object) -> datetime | None:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    return parse_moment(name, value if isinstance(value, str) else repr(value), end=name in _END_OF_DAY)


def parse_moment(name: str, text: str | None, *, end: bool = False) -> datetime | None:
    """Return the time that a field contains; for a day its start, or its end if `end` is true. Blank text is no time.

    Raises:
        BadInput: the text is not a time.
    """
    if text is None or not text.strip():
        return None
    try:
        return parse_datetime(text, end=end)
    except ValueError:
        remedy = "Write 2026-05-01 or 2026-05-01T14:30."
        raise BadInput(f"{name} is not a date or time: {text!r}.", remedy=remedy) from None


#: How the value of each filter is read; any other is a text.
_PARSERS: Final[Mapping[str, Callable[[str, object], Any]]] = {
    "kind": _kinds, "since": _moment, "until": _moment, "as_of": _moment, "trust": _trust, "role": _role,
}  # fmt: skip
