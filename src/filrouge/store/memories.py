"""Memories: what is believed, what was believed, and the words that prove it.

Nothing is overwritten. Applying a decision writes the memory, its evidence and a journal entry in the
caller's one transaction; an update closes the old memory's validity and links both. Ids in a decision are
checked here again, because the decider may be a model, and models invent ids.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from filrouge.clock import new_id, to_text
from filrouge.errors import BadInput, NotFound
from filrouge.model.decision import Add, Conflict, Decision, Delete, Noop, Update
from filrouge.model.memory import SUMS, Evidence, Memory, Span, Statement
from filrouge.model.scope import Scope
from filrouge.ports import Analyser, Tx
from filrouge.store.journal import Journal
from filrouge.store.memory_rows import memory_from_row, row_of
from filrouge.store.words import Words

ActionName = Literal["add", "update", "delete", "noop", "conflict", "error"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Action:
    """What a decision came to: the memory it made or touched, and those it closed."""

    name: ActionName
    memory_id: str
    closed: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """Where a statement comes from, for the memory's provenance."""

    scope: Scope
    trust: int
    at: datetime
    turn_id: str = ""
    made_by: str = "heuristic"
    actor: str = "understand"


class Memories:
    """The memories of one database."""

    def __init__(self, tx: Tx, analyser: Analyser) -> None:
        self._tx = tx
        self._analyser = analyser
        self._words = Words(tx, analyser, "memory")
        self._journal = Journal(tx)

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

    def rules(self, *, project: str | None, user: str, agent: str | None = None, limit: int = 20) -> list[Memory]:
        """The standing rules that hold in a project (those one agent learned, or all), newest first, without their
        evidence."""
        place = {"project_id": project, "user_id": user, "agent": agent, "limit": limit}
        rows = self._tx.all("memories.rules", place)
        return [memory_from_row(row) for row in rows]

    def worth_knowing(self, *, project: str | None, user: str, agent: str | None = None, limit: int) -> list[Memory]:
        """What a session wants to know first: preferences, constraints, decisions, facts, the user's own before
        the project's, newest first, without their evidence."""
        place = {"project_id": project, "user_id": user, "agent": agent, "limit": limit}
        rows = self._tx.all("memories.worth_knowing", place)
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
        """Store a core fact; the live one with the same scope and key is superseded."""
        row = self._tx.one("memories.core_fact", _place(statement, origin))
        old = self._closable([row["id"]]) if row else []
        return (
            self._update(statement, old, origin, "set by hand") if old else self._add(statement, origin, "set by hand")
        )

    def apply(self, decision: Decision, origin: Origin) -> Action:
        """Carry a decision out, in the caller's transaction."""
        match decision:
            case Add(statement=statement, reason=reason):
                return self._add(statement, origin, reason)
            case Update(statement=statement, old_ids=old_ids, reason=reason):
                return self._update(statement, self._closable(old_ids), origin, reason)
            case Delete(old_ids=old_ids, reason=reason):
                return self._close(self._closable(old_ids), origin, reason)
            case Noop(statement=statement, existing_id=existing_id, reason=reason) if self._is_live(existing_id):
                return self._mention(existing_id, statement, origin, reason)
            case Conflict(statement=statement, existing_id=existing_id, reason=reason) if self._is_live(existing_id):
                payload: dict[str, object] = {"text": statement.text, "reason": reason, "turn": origin.turn_id}
                self._record(origin, "conflict", existing_id, payload)
                return Action(name="conflict", memory_id=existing_id, reason=reason)
            case Noop(statement=statement, reason=reason) | Conflict(statement=statement, reason=reason):
                return self._add(statement, origin, f"{reason}; what it speaks of is not there")

    def quarantine(self, statement: Statement, origin: Origin, reason: str) -> Action:
        """Keep a statement that its evidence does not support out of memory, visibly."""
        memory = self._insert(statement, origin, state="quarantined")
        payload: dict[str, object] = {"text": statement.text, "reason": reason, "turn": origin.turn_id}
        self._record(origin, "quarantine", memory.id, payload)
        return Action(name="error", memory_id=memory.id, reason=reason)

    def bin(self, memory_id: str, origin: Origin, reason: str) -> Action:
        """Close one memory by the user's hand; it stays restorable."""
        memory = self.get(memory_id)
        if memory.state != "live":
            raise BadInput(f"Memory {memory_id} is {memory.state}, not live.", remedy="See `filrouge facts --all`.")
        return self._close([memory], origin, reason)

    def _add(self, statement: Statement, origin: Origin, reason: str) -> Action:
        memory = self._insert(statement, origin)
        self._record(origin, "add", memory.id, {"text": memory.text, "reason": reason, "turn": origin.turn_id})
        return Action(name="add", memory_id=memory.id, reason=reason)

    def _update(self, statement: Statement, old: list[Memory], origin: Origin, reason: str) -> Action:
        if not old:
            return self._add(statement, origin, f"{reason}; what it replaces is no longer there")
        newest = max(old, key=lambda one: one.valid_from)
        if newest.valid_from > origin.at:
            return self._late(statement, newest, origin, reason)
        self._end(old, "superseded", origin)
        memory = self._insert(statement, origin, supersedes=old[0])
        for one in old:
            self._tx.run("memories.link", {"id": one.id, "superseded_by": memory.id})
        payload: dict[str, object] = {
            "text": memory.text,
            "previous_text": old[0].text,
            "closed": [one.id for one in old],
            "reason": reason,
            "turn": origin.turn_id,
        }
        self._record(origin, "update", memory.id, payload)
        return Action(name="update", memory_id=memory.id, closed=tuple(one.id for one in old), reason=reason)

    def _late(self, statement: Statement, newer: Memory, origin: Origin, reason: str) -> Action:
        """Keep as history what was said before, and heard after, what replaced it."""
        memory = self._insert(statement, origin)
        ended = {"id": memory.id, "state": "superseded", "valid_to": to_text(newer.valid_from)}
        self._tx.run("memories.end", ended)
        self._tx.run("memories.link", {"id": memory.id, "superseded_by": newer.id})
        why = f"{reason}, but it was said earlier"
        self._record(origin, "late", memory.id, {"text": memory.text, "reason": why, "turn": origin.turn_id})
        return Action(name="noop", memory_id=newer.id, reason=why)

    def _close(self, old: list[Memory], origin: Origin, reason: str) -> Action:
        self._end(old, "binned", origin)
        for one in old:
            self._record(origin, "delete", one.id, {"text": one.text, "reason": reason, "turn": origin.turn_id})
        closed = tuple(one.id for one in old)
        return Action(name="delete", memory_id=closed[0] if closed else "", closed=closed, reason=reason)

    def _mention(self, memory_id: str, statement: Statement, origin: Origin, reason: str) -> Action:
        self._tx.run("memories.mention", {"id": memory_id, "at": to_text(origin.at)})
        self._cite(memory_id, statement, origin)
        self._record(origin, "noop", memory_id, {"text": statement.text, "reason": reason, "turn": origin.turn_id})
        return Action(name="noop", memory_id=memory_id, reason=reason)

    def _is_live(self, memory_id: str) -> bool:
        found = self.some([memory_id]).get(memory_id)
        return found is not None and found.state == "live"

    def _closable(self, ids: Sequence[str]) -> list[Memory]:
        found = self.some(ids)
        return [found[i] for i in dict.fromkeys(ids) if i in found and _may_close(found[i])]

    def _end(self, old: Sequence[Memory], state: str, origin: Origin) -> None:
        for one in old:
            self._tx.run("memories.end", {"id": one.id, "state": state, "valid_to": to_text(origin.at)})

    def _insert(
        self, statement: Statement, origin: Origin, *, state: str = "live", supersedes: Memory | None = None
    ) -> Memory:
        memory = _memory(self._with_free_key(statement, origin), origin)
        made = {"state": state, "analyser": self._analyser.version}
        replaced = {
            "supersedes": supersedes.id if supersedes else None,
            "previous_text": supersedes.text if supersedes else None,
        }
        self._tx.run("memories.add", row_of(memory) | made | replaced)
        if memory.kind not in SUMS:  # they repeat other rows, and would make their words look common
            self._words.put(memory.id, f"{memory.text} {memory.subject}")
        self._cite(memory.id, statement, origin)
        return memory

    def _with_free_key(self, statement: Statement, origin: Origin) -> Statement:
        """A core fact's key is unique: where a live memory still holds it, the new one goes without."""
        if statement.key is None:
            return statement
        taken = self._tx.one("memories.core_fact", _place(statement, origin))
        return replace(statement, key=None) if taken else statement

    def _cite(self, memory_id: str, statement: Statement, origin: Origin) -> None:
        if origin.turn_id:
            span = statement.span
            row = {"memory_id": memory_id, "turn_id": origin.turn_id, "start": span.start, "stop": span.end}
            self._tx.run("evidence.add", row)

    def _record(self, origin: Origin, action: str, memory_id: str, payload: dict[str, object]) -> None:
        self._journal.append(at=origin.at, actor=origin.actor, action=action, subject_id=memory_id, payload=payload)

    def _cited(self, rows: Sequence[dict[str, Any]]) -> list[Memory]:
        """The memories of these rows, each with its evidence."""
        evidence: dict[str, list[Evidence]] = {row["id"]: [] for row in rows}
        for cited in self._tx.all("evidence.of", {"ids": json.dumps(list(evidence))}):
            span = Span(start=cited["start"], end=cited["stop"])
            evidence[cited["memory_id"]].append(Evidence(turn_id=cited["turn_id"], span=span))
        return [replace(memory_from_row(row), evidence=tuple(evidence[row["id"]])) for row in rows]


def _memory(statement: Statement, origin: Origin) -> Memory:
    return Memory(
        id=new_id(origin.at),
        scope=origin.scope if statement.scope == "project" else replace(origin.scope, project=None),
        scope_name=statement.scope,
        kind=statement.kind,
        text=statement.text,
        trust=origin.trust,
        created_at=origin.at,
        valid_from=origin.at,
        subject=statement.subject,
        key=statement.key,
        value=statement.value,
        confidence=statement.confidence,
        sentiment=statement.sentiment,
        timeframe=statement.timeframe,
        made_by=origin.made_by,
    )


def _place(statement: Statement, origin: Origin) -> dict[str, object]:
    """What makes a core fact unique."""
    return {
        "scope": statement.scope,
        "project_id": origin.scope.project if statement.scope == "project" else None,
        "user_id": origin.scope.user,
        "key": statement.key,
    }


def _may_close(memory: Memory) -> bool:
    return memory.state == "live" and not memory.pinned
