"""Writing memories: the row with its words and its evidence, and the entry of the journal that says why.

What every decision and every verb of the user's hand is made of. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from filrouge.clock import new_id, to_text
from filrouge.model.memory import SUMS, Memory, State, Statement
from filrouge.model.scope import Scope
from filrouge.ports import Analyser, Tx
from filrouge.store.journal import Journal
from filrouge.store.lives import Life, Lives, difference, place_of
from filrouge.store.memory_rows import row_of
from filrouge.store.words import Words

ActionName = Literal[
    "add", "update", "delete", "noop", "conflict", "error", "pin", "unpin", "enable", "disable", "restore"
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Action:
    """What a decision came to: the memory it made or touched, and those it closed.

    Attributes:
        review: the id under which its statement waits for a person.
    """

    name: ActionName
    memory_id: str
    closed: tuple[str, ...] = ()
    reason: str = ""
    review: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """Where a statement comes from, for the memory's provenance."""

    scope: Scope
    trust: int
    at: datetime
    turn_id: str = ""
    made_by: str = "heuristic"
    prompt_version: str = ""
    actor: str = "understand"


class MemoryWriter:
    """Writes the memories of one database."""

    def __init__(self, tx: Tx, analyser: Analyser) -> None:
        self.lives = Lives(tx)
        self._tx = tx
        self._analyser = analyser
        self._words = Words(tx, analyser, "memory")
        self._journal = Journal(tx)

    def insert(
        self,
        statement: Statement,
        origin: Origin,
        *,
        state: State = "live",
        supersedes: Memory | None = None,
        pinned: bool = False,
        disabled: bool = False,
    ) -> Memory:
        """Store a statement as a memory, with its words and its evidence."""
        memory = replace(
            _memory(statement, origin),
            state=state,
            supersedes=supersedes.id if supersedes else None,
            previous_text=supersedes.text if supersedes else None,
            pinned=pinned,
            disabled=disabled,
        )
        if state == "live":
            memory = self._with_free_key(memory)
        life: dict[str, object] = {
            "state": state,
            "supersedes": memory.supersedes,
            "previous_text": memory.previous_text,
        }
        life |= {"pinned": pinned, "disabled": disabled, "analyser": self._analyser.version}
        self._tx.run("memories.add", row_of(memory) | life)
        if memory.kind not in SUMS:  # they repeat other rows, and would make their words look common
            self._words.put(memory.id, f"{memory.text} {memory.subject}")
        self._cite(memory.id, statement, origin)
        return memory

    def mention(self, memory_id: str, statement: Statement, origin: Origin, reason: str) -> None:
        """A memory is said again: it counts once more, and has one evidence more."""
        self._tx.run("memories.mention", {"id": memory_id, "at": to_text(origin.at), "by": 1})
        span = statement.span
        cited = [origin.turn_id, span.start, span.end] if self._cite(memory_id, statement, origin) else None
        payload = self.said(statement.text, reason, origin) | {"mentions": 1, "cited": cited}
        self.record(origin, "noop", memory_id, payload)

    def said(self, text: str, reason: str, origin: Origin) -> dict[str, object]:
        """What an entry of the journal quotes of a statement."""
        return {"text": text, "reason": reason, "turn": origin.turn_id}

    def record(
        self,
        origin: Origin,
        action: str,
        memory_id: str,
        payload: Mapping[str, object],
        *,
        before: Mapping[str, Life] | None = None,
        after: Mapping[str, Life] | None = None,
        touches: Iterable[str] = (),
    ) -> int:
        """Note a decision with the lives that it changed; the number of its entry."""
        changed = difference(before or {}, after or {})
        return self._journal.append(
            at=origin.at,
            actor=origin.actor,
            action=action,
            subject_id=memory_id,
            payload={**payload, "changed": changed} if changed else payload,
            touches=[*touches, *(after or {})],
        )

    def record_new(self, origin: Origin, action: str, memory: Memory, payload: Mapping[str, object]) -> int:
        """Note a decision that made a live memory and changed no other (`lives.changed_by`)."""
        return self.record(origin, action, memory.id, {**payload, "made": True})

    def _with_free_key(self, memory: Memory) -> Memory:
        """A core fact's key is unique: where a live memory still holds it, the new one goes without."""
        if memory.key is None:
            return memory
        return replace(memory, key=None) if self._tx.one("memories.core_fact", place_of(memory)) else memory

    def _cite(self, memory_id: str, statement: Statement, origin: Origin) -> bool:
        if not origin.turn_id:
            return False
        span = statement.span
        row = {"memory_id": memory_id, "turn_id": origin.turn_id, "start": span.start, "stop": span.end}
        return bool(self._tx.run("evidence.add", row))


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
        prompt_version=origin.prompt_version,
    )
