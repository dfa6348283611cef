"""Short ids: the beginning of an id stands for it where one row alone begins so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from filrouge.errors import BadInput
from filrouge.ports import Tx

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
