"""Lives: the part of a memory that decisions change, and how a change of it is written, noted and taken back.

A memory's words never change; its life does: whether it is live and from when to when, what it replaced and what
replaced it, whether it is pinned or switched off, and what came of its review. An entry of the journal notes each field
that it changed as a pair of before and after, so that an undo puts back exactly this, and sees where something else
came between. A memory that a decision made was, before it, in the bin without ever having held.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from filrouge.clock import to_text
from filrouge.errors import BadInput
from filrouge.model.memory import Memory, State
from filrouge.model.review import Outcome
from filrouge.ports import Tx
from filrouge.store.journal import Entry
from filrouge.store.memory_rows import memory_from_row

Pairs = Mapping[str, Sequence[Any]]
"""By the name of a field of `Life`: its value before and after."""
Changed = Mapping[str, Pairs]
"""By the id of a memory: what of its life an entry of the journal changed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Life:
    """What decisions change of a memory. Times are as stored (`clock.to_text`).

    Attributes:
        superseded_by: set in the state `superseded` alone.
        review: None for a memory that never waited for one.
    """

    state: State
    valid_from: str
    valid_to: str | None = None
    supersedes: str | None = None
    superseded_by: str | None = None
    pinned: bool = False
    disabled: bool = False
    review: Outcome | None = None

    @property
    def unborn(self) -> Life:
        """The life as it was before the decision that made the memory."""
        review: Outcome | None = "undone" if self.review else None
        return replace(self, state="binned", valid_to=self.valid_from, superseded_by=None, review=review)


@dataclass(frozen=True, kw_only=True, slots=True)
class Lived:
    """A memory with its life."""

    memory: Memory
    life: Life


def life_of(memory: Memory, review: Outcome | None = None) -> Life:
    """The life in a memory's fields."""
    return Life(
        state=memory.state,
        valid_from=to_text(memory.valid_from),
        valid_to=to_text(memory.valid_to) if memory.valid_to else None,
        supersedes=memory.supersedes,
        superseded_by=memory.superseded_by,
        pinned=memory.pinned,
        disabled=memory.disabled,
        review=review,
    )


def difference(before: Mapping[str, Life], after: Mapping[str, Life]) -> Changed:
    """What differs between the lives of the same memories."""
    found: dict[str, Pairs] = {}
    for id_, life in after.items():
        was, now = asdict(before[id_]), asdict(life)
        if pairs := {name: [was[name], now[name]] for name in now if was[name] != now[name]}:
            found[id_] = pairs
    return found


def taken_back(life: Life, pairs: Pairs) -> Life | None:
    """The life before these changes; None where it is no longer what they left."""
    if any(getattr(life, name) != after for name, (_, after) in pairs.items()):
        return None
    values: dict[str, Any] = {name: before for name, (before, _) in pairs.items()}
    return replace(life, **values)


def changed_by(entry: Entry) -> Changed:
    """What an entry of the journal changed; what it only made, it made live."""
    if entry.payload is None:
        return {}
    made = {"state": ["binned", "live"], "valid_to": [to_text(entry.at), None]}
    return {**({entry.subject_id: made} if entry.payload.get("made") else {}), **entry.payload.get("changed", {})}


class Lives:
    """The lives of the memories of one database."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def kin(self, ids: Collection[str]) -> dict[str, Lived]:
        """These memories and all that they are linked with, as they replaced one another; unknown ids are left out."""
        rows = self._tx.all("memories.kin", {"ids": json.dumps(list(ids))})
        return {row["id"]: _lived(row) for row in rows}

    def write(self, lives: Mapping[str, Life], at: datetime) -> None:
        """Give memories these lives. Who ends comes first, so that a core fact's key is free for who begins."""
        for id_, life in sorted(lives.items(), key=lambda one: one[1].state == "live"):
            row = asdict(life)
            outcome = row.pop("review")
            self._tx.run("memories.live", row | {"id": id_})
            if outcome:
                self._tx.run("reviews.settle", {"memory_id": id_, "outcome": outcome, "at": to_text(at)})
            if life.state in ("superseded", "binned"):  # what has ended need not be asked about
                self._tx.run("reviews.close", {"memory_id": id_, "at": to_text(at)})

    def check(self, lives: Mapping[str, Life], *, kin: Mapping[str, Lived]) -> None:
        """Refuse lives that would leave two live versions of one memory, or two holders of a core fact's key.

        Args:
            kin: those memories and everything that they are, or would be, linked with.

        Raises:
            BadInput: naming who is in the way.
        """
        after = {id_: lives.get(id_, one.life) for id_, one in kin.items()}
        begin = [id_ for id_, life in lives.items() if life.state == "live" and kin[id_].life.state != "live"]
        for id_ in begin:
            others = [other for other in _linked(id_, after) - {id_} if after[other].state == "live"]
            others += self._holders(kin[id_].memory, kin, after)
            if others:
                raise BadInput(
                    f"Memory {id_} cannot be live beside {others[0]}, another version of it.",
                    remedy=f"Bin {others[0]} first, or see `filrouge history {others[0]}` for what to undo.",
                )

    def _holders(self, memory: Memory, kin: Mapping[str, Lived], after: Mapping[str, Life]) -> list[str]:
        """Who else would hold the memory's key."""
        if memory.kind == "concept":
            row = self._tx.one("memories.concept", place_of(memory) | {"subject": memory.subject})
            is_held = row is not None and row["state"] == "live" and row["id"] != memory.id
            return (
                [row["id"]] if row and is_held and (row["id"] not in after or after[row["id"]].state == "live") else []
            )
        if memory.key is None:
            return []
        row = self._tx.one("memories.core_fact", place_of(memory))
        now = {row["id"]} - after.keys() if row else set[str]()
        then = {
            id_
            for id_, life in after.items()
            if life.state == "live" and kin[id_].memory.key and place_of(kin[id_].memory) == place_of(memory)
        }
        return sorted((now | then) - {memory.id})


def place_of(memory: Memory) -> dict[str, object]:
    """What makes a core fact unique."""
    return {
        "scope": memory.scope_name,
        "project_id": memory.scope.project if memory.scope_name == "project" else None,
        "user_id": memory.scope.user,
        "key": memory.key,
    }


def _linked(id_: str, lives: Mapping[str, Life]) -> set[str]:
    """Everyone in a memory's chain."""
    links: dict[str, set[str]] = {one: set() for one in lives}
    for one, life in lives.items():
        for other in (life.supersedes, life.superseded_by):
            if other in links:
                links[one].add(other)
                links[other].add(one)
    found, todo = {id_}, [id_]
    while todo:
        new = links[todo.pop()] - found
        found |= new
        todo += new
    return found


def _lived(row: Mapping[str, Any]) -> Lived:
    memory = memory_from_row(dict(row))
    return Lived(memory=memory, life=life_of(memory, row["outcome"]))
