"""The review queue: statements that wait for a person, who keeps the old, takes the new, keeps both, or drops it.

A waiting statement is a memory in the state `quarantined`: stored with its words and its evidence, so that nothing is
lost and erasing takes it along, but served to nobody. What is said again while it waits is one more mention of it.
Where two memories are live that cannot both hold, the newer waits as it is: both are served until the user has decided.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from filrouge.clock import from_text, to_text
from filrouge.errors import BadInput, NotFound
from filrouge.model.memory import Memory, Statement
from filrouge.model.review import Review, ReviewKind, Settlement
from filrouge.ports import Analyser, Tx
from filrouge.store.lives import Life, Lived, life_of
from filrouge.store.memory_rows import memory_from_row
from filrouge.store.memory_writing import MemoryWriter, Origin

#: How each kind can be settled.
_WAYS: Final[Mapping[ReviewKind, Mapping[str, Settlement]]] = {
    "conflict": {"old": "old", "new": "new", "both": "both"},
    "quarantine": {"accept": "accept", "dismiss": "dismiss"},
}


class Reviews:
    """The queue of one database."""

    def __init__(self, tx: Tx, analyser: Analyser) -> None:
        self._tx = tx
        self._writer = MemoryWriter(tx, analyser)

    def get(self, memory_id: str) -> Review:
        """One entry.

        Raises:
            NotFound: naming the id.
        """
        row = self._tx.one("reviews.get", {"memory_id": memory_id})
        if row is None:
            raise NotFound(f"Nothing waits for review as {memory_id!r}.", remedy="List what does: `filrouge review`.")
        return self._review(row)

    def all(self, *, settled: bool = False, limit: int = 200) -> list[Review]:
        """What waits, newest first; with `settled` also what no longer does."""
        return [self._review(row) for row in self._tx.all("reviews.all", {"all": settled, "limit": limit})]

    def hold(
        self, kind: ReviewKind, statement: Statement, origin: Origin, reason: str, *, against: Memory | None = None
    ) -> str:
        """Keep a statement for a person to settle; the id of its memory, which may wait already."""
        said = _folded(statement.text)
        for row in self._tx.all("reviews.waiting", _beside(statement, origin, against)):
            if _folded(row["text"]) == said:
                self._writer.mention(row["id"], statement, origin, reason)
                return str(row["id"])
        memory = self._writer.insert(statement, origin, state="quarantined")
        row = {"memory_id": memory.id, "kind": kind, "reason": reason, "at": to_text(origin.at)}
        self._tx.run("reviews.add", row | {"against": against.id if against else None})
        life = life_of(memory, "open")
        self._writer.record(
            origin,
            kind,
            memory.id,
            self._writer.said(memory.text, reason, origin),
            before={memory.id: life.unborn},
            after={memory.id: life},
            touches=[against.id] if against else [],
        )
        return memory.id

    def contest(self, memory_id: str, against: str, origin: Origin, reason: str) -> bool:
        """Ask the user which of two live memories holds; False where not both are live, or the first was asked about
        before: nobody is asked twice."""
        kin = self._writer.lives.kin([memory_id, against])
        both = [kin[id_] for id_ in (memory_id, against) if id_ in kin and kin[id_].life.state == "live"]
        if len(both) < 2 or self._tx.one("reviews.get", {"memory_id": memory_id}):
            return False
        row = {"memory_id": memory_id, "kind": "conflict", "reason": reason, "at": to_text(origin.at)}
        self._tx.run("reviews.add", row | {"against": against})
        life = both[0].life
        self._writer.record(
            origin,
            "contest",
            memory_id,
            self._writer.said(both[0].memory.text, reason, origin),
            before={memory_id: replace(life, review="undone")},
            after={memory_id: replace(life, review="open")},
            touches=[against],
        )
        return True

    def settle(self, memory_id: str, how: str, origin: Origin) -> tuple[Review, dict[str, Life]]:
        """Settle what waits, as the user says; the entry as it is now, and the lives that changed.

        The new takes the place of the live version of what it speaks against, pinned or not, and its pin.

        Raises:
            NotFound: nothing waits under this id.
            BadInput: it is settled already, or cannot be settled so.
        """
        review = self.get(memory_id)
        if review.outcome != "open":
            raise BadInput(
                f"What {memory_id} says was settled: {review.outcome}.",
                remedy=f"See `filrouge history {memory_id}`, and undo the settlement to decide again.",
            )
        settlement = _WAYS[review.kind].get(how)
        if settlement is None:
            ways = ", ".join(_WAYS[review.kind])
            raise BadInput(f"A {review.kind} cannot be settled with {how!r}.", remedy=f"It is one of: {ways}.")
        against = [review.against.id] if review.against else []
        kin = self._writer.lives.kin([memory_id, *against])
        after = _settled(settlement, kin, memory_id, self._chain(against), origin)
        self._writer.lives.check(after, kin=kin)
        self._writer.lives.write(after, origin.at)
        payload = {"settled": settlement, "reason": f"settled: {settlement}"}
        before = {id_: kin[id_].life for id_ in after}
        self._writer.record(origin, "settle", memory_id, payload, before=before, after=after, touches=kin)
        return self.get(memory_id), after

    def _chain(self, ids: list[str]) -> dict[str, Lived]:
        return self._writer.lives.kin(ids) if ids else {}

    def _review(self, row: Mapping[str, Any]) -> Review:
        ids = [row["memory_id"], row["against"]]
        found = {id_: self._memory(id_) for id_ in ids if id_}
        return Review(
            memory=found[row["memory_id"]],
            kind=row["kind"],
            against=found.get(row["against"]),
            reason=row["reason"],
            outcome=row["outcome"],
            at=from_text(row["at"]),
            settled_at=from_text(row["settled_at"]) if row["settled_at"] else None,
        )

    def _memory(self, memory_id: str) -> Memory:
        row = self._tx.one("memories.get", {"id": memory_id})
        if row is None:
            raise NotFound(f"There is no memory {memory_id!r}.")
        return memory_from_row(row)


def _settled(
    how: Settlement, kin: Mapping[str, Lived], memory_id: str, chain: Mapping[str, Lived], origin: Origin
) -> dict[str, Life]:
    """The lives after the settlement. What is taken is believed from that moment on, not from when it was said; what
    was believed while it waited, from when it was."""
    life, now = replace(kin[memory_id].life, review=how), to_text(origin.at)
    waited = life.state == "quarantined"
    if how in ("old", "dismiss"):
        return {
            memory_id: replace(life, state="binned", valid_to=life.valid_from if waited else max(life.valid_from, now))
        }
    taken = replace(life, state="live", valid_from=now if waited else life.valid_from)
    others = [one for one in chain.values() if one.life.state == "live" and one.memory.id != memory_id]
    old = next(iter(others), None) if how == "new" else None
    if old is None:
        return {memory_id: taken}
    ended = replace(old.life, state="superseded", valid_to=max(old.life.valid_from, now), superseded_by=memory_id)
    pinned = old.life.pinned or taken.pinned
    return {
        old.memory.id: ended,
        memory_id: replace(taken, supersedes=taken.supersedes or old.memory.id, pinned=pinned),
    }


def _beside(statement: Statement, origin: Origin, against: Memory | None) -> dict[str, object]:
    return {
        "against": against.id if against else None,
        "user_id": origin.scope.user,
        "scope": statement.scope,
        "project_id": origin.scope.project if statement.scope == "project" else None,
    }


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
