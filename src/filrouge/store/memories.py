"""Memories: what is believed, what was believed, and the words that prove it.

Nothing is overwritten. Applying a decision writes the memory, its evidence and a journal entry in the
caller's one transaction; an update closes the old memory's validity and links both. Ids in a decision are
checked here again, because the decider may be a model, and models invent ids.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from filrouge.clock import to_text
from filrouge.errors import BadInput, NotFound
from filrouge.model.decision import Add, Conflict, Decision, Delete, Noop, Update
from filrouge.model.memory import LEAST_TO_INJECT, Evidence, Memory, Span, State, Statement
from filrouge.ports import Analyser, Tx
from filrouge.store.lives import Life, life_of, place_of
from filrouge.store.memory_rows import memory_from_row
from filrouge.store.memory_writing import Action as Action
from filrouge.store.memory_writing import MemoryWriter
from filrouge.store.memory_writing import Origin as Origin
from filrouge.store.reviews import Reviews

#: Rules of one scope that stand (RULE-1). More are kept; they wait until the user has sorted them out.
MOST_RULES = 20


class Memories:
    """The memories of one database."""

    def __init__(self, tx: Tx, analyser: Analyser) -> None:
        self._tx = tx
        self._analyser = analyser
        self._writer = MemoryWriter(tx, analyser)
        self._reviews = Reviews(tx, analyser)

    def get(self, memory_id: str) -> Memory:
        """One memory with its evidence.

        Raises:
            NotFound: naming the id.
        """
        row = self._tx.one("memories.get", {"id": memory_id})
        if row is None:
            raise NotFound(f"There is no memory {memory_id!r}.")
        return self._cited([row])[0]

    def within(
        self, *, project: str | None, user: str, everywhere: bool = False, all_states: bool = False
    ) -> list[Memory]:
        """The memories of a project and of its user, newest first; `everywhere` lifts the project."""
        rows = self._tx.all(
            "memories.within",
            {"project_id": project, "user_id": user, "everywhere": everywhere, "all_states": all_states},
        )
        return self._cited(rows)

    def known(self, ids: Sequence[str]) -> list[Memory]:
        """These memories with their evidence, in the order given."""
        rows = {row["id"]: row for row in self._tx.all("memories.some", {"ids": json.dumps(list(ids))})}
        return self._cited([rows[id_] for id_ in ids if id_ in rows])

    def used(self, ids: Collection[str], at: datetime) -> None:
        """Note that these went in front of a prompt; ids of other things are passed over."""
        self._tx.run("memories.used", {"ids": json.dumps(list(ids)), "at": to_text(at)})

    def rules(
        self, *, project: str | None, user: str, agent: str | None = None, limit: int = MOST_RULES
    ) -> list[Memory]:
        """The standing rules that hold in a project (those one agent learned, or all), `limit` of the user's and as
        many of the project's, the pinned first and then the newest, without their evidence."""
        place = {"project_id": project, "user_id": user, "agent": agent, "limit": limit, "least": LEAST_TO_INJECT}
        rows = self._tx.all("memories.rules", place)
        return [memory_from_row(row) for row in rows]

    def rules_standing(self) -> frozenset[str]:
        """The ids of the rules that stand, wherever: those beyond the limit of their scope are not among them."""
        rows = self._tx.all("memories.rules_standing", {"limit": MOST_RULES, "least": LEAST_TO_INJECT})
        return frozenset(row["id"] for row in rows)

    def core_facts(self, *, project: str | None, user: str, agent: str | None = None, limit: int) -> list[Memory]:
        """The facts with a key that hold here, the user's own before the project's, newest first, without their
        evidence."""
        place = {"project_id": project, "user_id": user, "agent": agent, "limit": limit, "least": LEAST_TO_INJECT}
        rows = self._tx.all("memories.core_facts", place)
        return [memory_from_row(row) for row in rows]

    def worth_knowing(self, *, project: str | None, user: str, agent: str | None = None, limit: int) -> list[Memory]:
        """What a session wants to know first: preferences and constraints, then decisions, facts and plans together,
        newest first, without their evidence; core facts are not among them."""
        place = {"project_id": project, "user_id": user, "agent": agent, "limit": limit, "least": LEAST_TO_INJECT}
        rows = self._tx.all("memories.worth_knowing", place)
        return [memory_from_row(row) for row in rows]

    def planned(self, *, project: str | None, user: str, agent: str | None, limit: int) -> list[Memory]:
        """Plans that name a time, newest first, without their evidence."""
        place = {"project_id": project, "user_id": user, "agent": agent, "limit": limit, "least": LEAST_TO_INJECT}
        return [memory_from_row(row) for row in self._tx.all("memories.planned", place)]

    def bounding(
        self, *, project: str | None, user: str, agent: str | None, thread: str | None, limit: int
    ) -> list[Memory]:
        """What binds the work in a thread, newest first, without evidence: its decisions, `limit` of them, and as many
        constraints, those of the thread before the project's."""
        place = {"project_id": project, "user_id": user, "agent": agent, "limit": limit, "least": LEAST_TO_INJECT}
        rows = self._tx.all("memories.bounding", place | {"thread_id": thread, "newest": 10 * limit})
        return [memory_from_row(row) for row in rows]

    def some(self, ids: Sequence[str]) -> dict[str, Memory]:
        """The memories with these ids, whatever their state, without their evidence."""
        rows = self._tx.all("memories.some", {"ids": json.dumps(list(ids))})
        return {row["id"]: memory_from_row(row) for row in rows}

    def tokens(self, ids: Sequence[str]) -> dict[str, frozenset[str]]:
        """The tokens that these memories are indexed under."""
        rows = self._tx.all("memories.searched", {"ids": json.dumps(list(ids))})
        return {row["id"]: frozenset(self._analyser.tokens(row["text"]).split()) for row in rows}

    def add(self, statement: Statement, origin: Origin, reason: str) -> Action:
        """Store a statement without comparing it with anything."""
        return self._add(statement, origin, reason)

    def put_core_fact(self, statement: Statement, origin: Origin) -> Action:
        """Store a core fact; the live one with its scope and key is superseded, pinned or not: the user says so."""
        row = self._tx.one("memories.core_fact", _place(statement, origin) | {"key": statement.key})
        old = list(self.some([row["id"]]).values()) if row else []
        if not old:
            return self._add(statement, origin, "set by hand")
        return self._update(statement, old, _not_before(old[0], origin), "set by hand")

    def supersede(self, memory_id: str, statement: Statement, origin: Origin, reason: str) -> Action:
        """Replace one live memory by the user's hand, pinned or not; the new one is pinned or off as the old was.

        Raises:
            NotFound: naming the id.
            BadInput: it is not live; the remedy names who is.
        """
        memory = self.get(memory_id)
        if memory.state != "live":
            kin = self._writer.lives.kin([memory_id])
            head = next((id_ for id_, one in kin.items() if one.life.state == "live"), None)
            remedy = f"Supersede {head}, its version of today." if head else f"Try `filrouge restore {memory_id}`."
            raise BadInput(f"Memory {memory_id} is {memory.state}, not live.", remedy=remedy)
        if statement.text == memory.text:
            raise BadInput(f"Memory {memory_id} says that already.")
        return self._update(statement, [memory], _not_before(memory, origin), reason, disabled=memory.disabled)

    def apply(self, decision: Decision, origin: Origin) -> Action:
        """Carry a decision out, in the caller's transaction.

        Ids of what is not there, not live, or of another place are passed over. What would change a pinned memory waits
        for the user (`store.reviews`).
        """
        statement, reason = decision.statement, decision.reason
        match decision:
            case Add():
                return self._add(statement, origin, reason)
            case Update(old_ids=old_ids):
                old = self._reached(old_ids, statement, origin)
                if pinned := _pinned(old):
                    return self._dispute(statement, pinned, origin, f"{reason}, but the memory is pinned")
                return self._update(statement, old, origin, reason)
            case Delete(old_ids=old_ids):
                old = [one for one in self._reached(old_ids, statement, origin) if one.valid_from <= origin.at]
                if pinned := _pinned(old):
                    return self._dispute(statement, pinned, origin, f"{reason}, but the memory is pinned")
                return self._close(old, origin, reason)
            case Noop(existing_id=existing_id) if self._reached([existing_id], statement, origin):
                self._writer.mention(existing_id, statement, origin, reason)
                return Action(name="noop", memory_id=existing_id, reason=reason)
            case Conflict(existing_id=existing_id) if found := self._reached([existing_id], statement, origin):
                return self._dispute(statement, found[0], origin, reason)
            case Noop() | Conflict():
                return self._add(statement, origin, f"{reason}; what it speaks of is not there")

    def put_late(
        self, statement: Statement, origin: Origin, reason: str, *, by: Memory, at: datetime, ends: Sequence[str] = ()
    ) -> Action:
        """Keep as history what another statement, said `at` a later time and heard before (`by`), took the place of;
        of `ends`, what is older ends with it, unless it is pinned or of another place."""
        old = [one for one in self._reached(ends, statement, origin) if not one.pinned]
        return self._late(statement, by, at, old, origin, reason)

    def quarantine(self, statement: Statement, origin: Origin, reason: str) -> Action:
        """Keep a statement that its evidence does not support out of memory, visibly."""
        id_ = self._reviews.hold("quarantine", statement, origin, reason)
        return Action(name="error", memory_id=id_, reason=reason, review=id_)

    def refuse(self, origin: Origin, reason: str) -> Action:
        """Note a decision that could not be used and was dropped; `reason` repeats no words of the conversation."""
        self._writer.record(origin, "error", origin.turn_id, {"reason": reason, "turn": origin.turn_id})
        return Action(name="error", memory_id="", reason=reason)

    def bin(self, memory_id: str, origin: Origin, reason: str) -> Action:
        """Close one memory by the user's hand; it stays restorable."""
        memory = self.get(memory_id)
        if memory.state != "live":
            raise BadInput(f"Memory {memory_id} is {memory.state}, not live.", remedy="See `filrouge facts --all`.")
        return self._close([memory], origin, reason)

    def _add(self, statement: Statement, origin: Origin, reason: str) -> Action:
        memory = self._writer.insert(statement, origin)
        self._writer.record_new(origin, "add", memory, self._writer.said(memory.text, reason, origin))
        return Action(name="add", memory_id=memory.id, reason=reason)

    def _update(
        self, statement: Statement, old: list[Memory], origin: Origin, reason: str, *, disabled: bool = False
    ) -> Action:
        if not old:
            return self._add(statement, origin, f"{reason}; what it replaces is no longer there")
        newest = max(old, key=lambda one: one.valid_from)
        if newest.valid_from > origin.at:
            return self._late(statement, newest, newest.valid_from, old, origin, reason)
        before = {one.id: life_of(one) for one in old}
        ended = {id_: _ended(life, "superseded", origin) for id_, life in before.items()}
        self._writer.lives.write(ended, origin.at)
        pinned = any(one.pinned for one in old)
        memory = self._writer.insert(statement, origin, supersedes=old[0], pinned=pinned, disabled=disabled)
        after = {id_: replace(life, superseded_by=memory.id) for id_, life in ended.items()}
        self._writer.lives.write(after, origin.at)
        closed = [one.id for one in old]
        payload = self._writer.said(memory.text, reason, origin) | {"previous_text": old[0].text, "closed": closed}
        life = life_of(memory)
        before, after = before | {memory.id: life.unborn}, after | {memory.id: life}
        self._writer.record(origin, "update", memory.id, payload, before=before, after=after)
        return Action(name="update", memory_id=memory.id, closed=tuple(closed), reason=reason)

    def _late(
        self, statement: Statement, by: Memory, at: datetime, ends: Sequence[Memory], origin: Origin, reason: str
    ) -> Action:
        """Keep as history what was said before, and heard after, what replaced it."""
        earlier = [one for one in ends if one.valid_from <= origin.at and one.id != by.id]
        before = {one.id: life_of(one) for one in earlier}
        after = {id_: _ended(life, "superseded", origin) for id_, life in before.items()}
        self._writer.lives.write(after, origin.at)
        memory = self._writer.insert(statement, origin, state="superseded", supersedes=next(iter(earlier), None))
        life = replace(life_of(memory), valid_to=to_text(at), superseded_by=by.id)
        after = {id_: replace(one, superseded_by=memory.id) for id_, one in after.items()} | {memory.id: life}
        self._writer.lives.write(after, origin.at)
        why = f"{reason}, but it was said earlier"
        payload = self._writer.said(memory.text, why, origin)
        before |= {memory.id: life.unborn}
        self._writer.record(origin, "late", memory.id, payload, before=before, after=after, touches=[by.id])
        return Action(name="noop", memory_id=by.id, closed=tuple(one.id for one in earlier), reason=why)

    def _close(self, old: list[Memory], origin: Origin, reason: str) -> Action:
        if not old:
            payload = {"reason": f"{reason}; nothing held it", "turn": origin.turn_id}
            self._writer.record(origin, "delete", origin.turn_id, payload)
        for one in old:
            life = life_of(one)
            before, after = {one.id: life}, {one.id: _ended(life, "binned", origin)}
            self._writer.lives.write(after, origin.at)
            payload = self._writer.said(one.text, reason, origin)
            self._writer.record(origin, "delete", one.id, payload, before=before, after=after)
        closed = tuple(one.id for one in old)
        return Action(name="delete", memory_id=closed[0] if closed else "", closed=closed, reason=reason)

    def _dispute(self, statement: Statement, against: Memory, origin: Origin, reason: str) -> Action:
        """Nothing changes until a person has settled it."""
        id_ = self._reviews.hold("conflict", statement, origin, reason, against=against)
        return Action(name="conflict", memory_id=against.id, reason=reason, review=id_)

    def _reached(self, ids: Sequence[str], statement: Statement, origin: Origin) -> list[Memory]:
        """Those among these ids that a statement from there may touch."""
        found, place = self.some(ids), _place(statement, origin)
        near = (found[id_] for id_ in dict.fromkeys(ids) if id_ in found)
        return [one for one in near if one.state == "live" and place.items() <= place_of(one).items()]

    def _cited(self, rows: Sequence[dict[str, Any]]) -> list[Memory]:
        """The memories of these rows, each with its evidence."""
        evidence: dict[str, list[Evidence]] = {row["id"]: [] for row in rows}
        for cited in self._tx.all("evidence.of", {"ids": json.dumps(list(evidence))}):
            span = Span(start=cited["start"], end=cited["stop"])
            evidence[cited["memory_id"]].append(Evidence(turn_id=cited["turn_id"], span=span))
        return [replace(memory_from_row(row), evidence=tuple(evidence[row["id"]])) for row in rows]


def _place(statement: Statement, origin: Origin) -> dict[str, object]:
    """Where a statement from there holds."""
    project = origin.scope.project if statement.scope == "project" else None
    return {"scope": statement.scope, "project_id": project, "user_id": origin.scope.user}


def _not_before(memory: Memory, origin: Origin) -> Origin:
    """What the user says by hand is never late, whatever clock the memory had."""
    return replace(origin, at=max(origin.at, memory.valid_from))


def _pinned(memories: Sequence[Memory]) -> Memory | None:
    return next((one for one in memories if one.pinned), None)


def _ended(life: Life, state: State, origin: Origin) -> Life:
    return replace(life, state=state, valid_to=max(life.valid_from, to_text(origin.at)))
