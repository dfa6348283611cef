"""Undo: take a decision back, with what stands on it; the plan says beforehand what that would change.

`store.undoing` says what stands on what. The plan that is carried out is made again within the transaction, so it is
never older than what it changes.
"""

from __future__ import annotations

from collections.abc import Collection

from filrouge.app.by_hand import changing, the_users
from filrouge.app.parts import Parts
from filrouge.errors import BadInput
from filrouge.model.undo import UndoPlan
from filrouge.ports import Tx
from filrouge.store.undoing import Undo, Undoing


def plan(parts: Parts, *, entry: int | None = None, memory_id: str | None = None) -> UndoPlan:
    """What it would take to undo an entry of the journal, or the last decision about a memory that stands.

    Raises:
        NotFound: there is no such entry, or no such memory.
        BadInput: neither or both are named; or it cannot be undone: the message says why.
    """
    return parts.readers.here(lambda tx: _undo(parts, tx, entry, memory_id)).plan


def undo(parts: Parts, *, entry: int | None = None, memory_id: str | None = None) -> UndoPlan:
    """Carry it out; what was done.

    Raises:
        NotFound: there is no such entry, or no such memory.
        BadInput: neither or both are named; or it cannot be undone: the message says why.
    """

    def write(tx: Tx) -> tuple[UndoPlan, Collection[str], Collection[str]]:
        made = _undo(parts, tx, entry, memory_id)
        Undoing(tx, parts.analyser).carry_out(made, the_users(parts))
        begun = [id_ for id_, life in made.after.items() if life.state == "live"]
        return made.plan, begun, made.after.keys() - set(begun)

    return changing(parts, write)


def _undo(parts: Parts, tx: Tx, entry: int | None, memory_id: str | None) -> Undo:
    undoing = Undoing(tx, parts.analyser)
    if (entry is None) == (memory_id is None):
        raise BadInput("An undo needs the number of an entry, or the id of a memory.", remedy="Name one of the two.")
    return undoing.of(undoing.last_about(memory_id or "") if entry is None else entry)
