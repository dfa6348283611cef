"""Extract at once: what a program says at the end of its work is understood while it waits, and it is told what of it
was learned.

The words go the way of captured ones: events and turns once each, the same rules, the same decisions, each message in
its place. A message with the role `user` is trusted as a captured prompt is. A string is one message of the program,
whatever labels stand in it: `User:` in a text proves nobody's words. It teaches facts and decisions of its project,
with an agent's trust; no rule, preference or intent comes of it, and it ends nothing that the user said. A model,
where one is set, reads the conversation afterwards, as it reads every other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from filrouge.app.due_readings import queue_reading
from filrouge.app.mirror import write_briefs
from filrouge.app.parts import Parts
from filrouge.app.placing import queue_placing
from filrouge.app.spaces import queue_vectors
from filrouge.app.told import Conversation, Message, telling_of
from filrouge.app.understanding import Fresh, Reading, read, readings_of, reflect, settle
from filrouge.capture.intake import Cut, cleaned, turns_of
from filrouge.errors import ExtractionOff
from filrouge.extraction.heuristics import statements_of, written_by_host
from filrouge.model.event import Event
from filrouge.model.memory import Kind, Statement
from filrouge.model.turn import Turn
from filrouge.ports import Tx, Vectors
from filrouge.store.events import Events
from filrouge.store.memories import Action

#: What only the user's own words make (RELIABILITY 6).
_USERS_ALONE: Final[frozenset[Kind]] = frozenset({"rule", "preference", "intent", "constraint"})
Spoken = str | Message
"""A message, or a text without a speaker."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Extracted:
    """What came of the messages: every decision, in the order in which things were said."""

    actions: tuple[Action, ...]
    extracted: int

    def to_json(self) -> dict[str, Any]:
        """The body of the route, but for the actions."""
        names = [action.name for action in self.actions]
        return {
            "extracted_count": self.extracted,
            "stored_count": names.count("add"),
            "updated_count": names.count("update"),
            "deleted_count": names.count("delete"),
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class _Prepared:
    """An event with its turns, what is read in those that say something, and their words by the ids of the turns."""

    event: Event
    turns: Sequence[Turn]
    readings: Sequence[Reading]
    tokens: Mapping[str, str]


def extract_now(parts: Parts, messages: str | Sequence[Spoken], *, source: str = "", context: str = "") -> Extracted:
    """Understand messages now, and keep them; those that were told before by this source are passed over.

    Args:
        source: `agent/project`, either of which may be missing.
        context: on what occasion; noted with the events, and nothing more.

    Raises:
        ExtractionOff: the user wants nothing to be understood.
    """
    if not parts.extracting():
        raise ExtractionOff
    agent, _, project = source.strip().partition("/")
    where = Conversation(
        channel=agent.strip() or "api",
        session=f"extract:{source.strip() or 'api'}",
        project=(project.strip(),) if project.strip() else (),
    )
    told = [one for part in ([messages] if isinstance(messages, str) else messages) for one in _spoken(part)]
    telling = telling_of(parts, where, [one for one, _ in told])
    prepared = [
        _prepared(parts, _noted(event, context), has_speaker=told[owner][1])
        for event, owner in zip(telling.events, telling.owners, strict=True)
    ]
    fresh: Fresh = {}
    written = [(one, parts.writer.submit(lambda tx, one=one: _store(parts, tx, one, fresh))) for one in prepared]
    done = [(one, future.result()) for one, future in written]
    for one, outcome in done:
        for reading in one.readings:
            reflect(parts, reading.meaning, outcome)
    if any(outcome for _, outcome in done):
        write_briefs(parts, None, everywhere=True)
    parts.work_waiting.set()
    actions = tuple(action for _, outcome in done for action, _ in outcome)
    return Extracted(actions=actions, extracted=len(actions))


def _spoken(part: Spoken) -> list[tuple[Message, bool]]:
    """The message of a part, with whether it has a speaker; a string is the program's own text."""
    if isinstance(part, Message):
        return [(part, True)]
    return [(Message(role="assistant", content=part.strip()), False)] if part.strip() else []


def _noted(event: Event, context: str) -> Event:
    return event._replace(data={**event.data, "context": context}) if context else event


def _prepared(parts: Parts, event: Event, *, has_speaker: bool) -> _Prepared:
    cut = Cut()
    clean = cleaned(event, parts.redact, cut)
    parts.meters.cut(cut)
    turns = turns_of(clean, "")
    if has_speaker:
        readings = read(parts, turns)
    else:
        readings = readings_of(parts.meaning, [(turn, _observed(turn)) for turn in turns])
    tokens = {turn.id: parts.analyser.tokens(turn.text) for turn in turns}
    return _Prepared(event=clean, turns=turns, readings=readings, tokens=tokens)


def _observed(turn: Turn) -> tuple[Statement, ...]:
    """The facts and decisions of its project that a program's own text states."""
    if turn.skipped or written_by_host(turn.text):
        return ()
    return tuple(
        replace(one, scope="project", key=None, value=None)
        for one in statements_of(turn.text)
        if one.kind not in _USERS_ALONE and one.scope == "project"
    )


def _store(parts: Parts, tx: Tx, one: _Prepared, fresh: Fresh) -> list[tuple[Action, Vectors | None]]:
    """Keep an event with its turns and what they state, unless it is here already or was forgotten."""
    now = parts.clock.now()
    passed = parts.gate.passed(tx, one.event)
    if passed is None:
        Events(tx).add_forgotten(one.event, received_at=now)
        return []
    project = Events(tx).add(one.event, received_at=now)
    if project is None:
        return []
    done: list[tuple[Action, Vectors | None]] = []
    turns = [replace(turn, scope=replace(turn.scope, project=project or None)) for turn in one.turns]
    added = {turn.id: turn for turn in turns if parts.turns(tx).add(turn, one.tokens[turn.id])}
    for turn in added.values():
        if turn.role != "tool":
            queue_vectors(tx, "turn", turn.id, now)
    queue_placing(parts, tx, list(added.values()))
    queue_reading(parts, tx, list(added.values()))
    for reading in one.readings:
        if reading.turn.id in added:
            done += settle(parts, tx, replace(reading, turn=added[reading.turn.id]), fresh)
    Events(tx).settle(one.event.id, "done")
    return done
