"""Lists on their way into a query, and short ids."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Literal

from filrouge.core.errors import BadInput
from filrouge.core.protocols import Tx
from filrouge.extraction.repository import Session

# Lists on their way into a query and out of it: as JSON, each value once, by table.


def by_table(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """The ids of rows, by their tables."""
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row["place"], []).append(row["id"])
    return found


def pairs(sessions: Collection[Session]) -> list[list[str]]:
    """Host and id of each session."""
    return [[one.host, one.id] for one in sessions]


def as_json(**lists: Collection[object]) -> dict[str, object]:
    """Lists as the parameters of a query."""
    return {name: json.dumps(list(values)) for name, values in lists.items()}


def once(ids: Sequence[str]) -> tuple[str, ...]:
    """Each id once."""
    return tuple(dict.fromkeys(ids))


# Short ids: the beginning of an id stands for it where one row alone begins so.

Kind = Literal["memory", "turn", "thread", "bridge", "garden", "receipt", "recall", "token", "job"]
#: Characters. Ids of one hour have the first six in common, so a person rarely needs fewer.
SHORTEST: Final = 4
_LENGTH: Final = 26
_MOST_SHOWN: Final = 5


def whole_id(tx: Tx, given: str, kinds: Sequence[Kind]) -> str:
    """The id that begins so; what is given where none does, or where it is whole.

    Raises:
        BadInput: several begin so; it lists them.
    """
    begin = given.strip().lower()
    if not SHORTEST <= len(begin) < _LENGTH or not begin.isalnum():
        return given
    asked = {"prefix": begin, "limit": _MOST_SHOWN + 1}
    found = {str(row["id"]): str(row["what"]) for kind in kinds for row in tx.all(f"ids.{kind}", asked)}
    if begin in found or given in found or not found:
        return given
    if len(found) == 1:
        return next(iter(found))
    shown = "; ".join(f"{id_} ({what})" for id_, what in list(found.items())[:_MOST_SHOWN])
    more = " and more" if len(found) > _MOST_SHOWN else ""
    raise BadInput(f"Several ids begin with {given!r}: {shown}{more}.", remedy="Give more of the id.")
