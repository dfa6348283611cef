"""Have a model read what a conversation says anew (EXT-2, EXT-11), and write what it understood.

A conversation is read in stretches, from where the last one ended. The user's prompts were understood by the rules
already, as they came; the model adds what rules cannot read, and sees what they made. What it reads is embedded and
compared as ever, and applied in one transaction with the mark of how far it has read.

An answer that nobody can read is set aside with the turns that it was about, and reading goes on behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import numpy as np

from filrouge.app import understanding
from filrouge.app.meaning import Meaning
from filrouge.app.models import NO_MODEL
from filrouge.app.parts import Parts
from filrouge.app.understanding import Considered, Reading, neighbours, vectors_at_once
from filrouge.app.worker import Outcome, Payload
from filrouge.clock import after
from filrouge.config import Settings
from filrouge.errors import BadConfig, ModelUnavailable, Unreadable
from filrouge.model.asking import Ask, Completion
from filrouge.model.decision import Neighbour
from filrouge.model.event import Event
from filrouge.model.turn import Turn
from filrouge.ports import Tx, Vectors
from filrouge.store.jobs import Jobs
from filrouge.store.memories import Action
from filrouge.store.readings import Readings, Unread
from filrouge.understand.extraction import Candidate
from filrouge.understand.language import vote
from filrouge.understand.pipeline import Judged, Near, Need, Similar, Understood
from filrouge.understand.pipeline import understanding as understanding_of
from filrouge.understand.transcript import stretch

T = TypeVar("T")

EXTRACT = "extract"
_TURNS = 60


def queue_reading(parts: Parts, tx: Tx, turns: Sequence[Turn]) -> None:
    """Have the conversations of new turns read: soon after the agent's reply, or once they have been quiet."""
    spoken = [turn for turn in turns if turn.scope.session and turn.role != "tool"]
    if not spoken or (settings := parts.settings(tx)).extract_provider in NO_MODEL:
        return
    pace, now = parts.models.pace, parts.clock.now()
    for turn in spoken:
        at_once = turn.role == "assistant" and settings.mode != "light"
        _queue(tx, turn.host, turn.scope.session, now, pace.after_reply if at_once else pace.quiet)


def queue_last_reading(parts: Parts, tx: Tx, event: Event) -> None:
    """Have a conversation read that ends, or is about to be compacted."""
    if event.kind in ("pre_compact", "session_end") and parts.settings(tx).extract_provider not in NO_MODEL:
        _queue(tx, event.host, event.session, parts.clock.now(), parts.models.pace.after_reply)


def _queue(tx: Tx, host: str, session: str, now: datetime, delay: float) -> None:
    """One job a conversation; the earliest moment that anything asks for."""
    name = f"{EXTRACT}:{host}:{session}"
    if not Jobs(tx).enqueue(EXTRACT, {"host": host, "session": session}, dedupe=name, at=now, delay=delay):
        Jobs(tx).sooner(name, after(now, delay))


def extract(parts: Parts, payload: Payload) -> Outcome:
    """The job: read the next stretch of a conversation.

    Raises:
        ModelUnavailable: nobody answers, or the budget is spent; nothing is marked as read.
    """
    host, session = str(payload["host"]), str(payload["session"])
    settings = parts.readers.here(lambda tx: parts.settings(tx))
    unread, injected, asked_in = parts.readers.here(lambda tx: _found(parts, tx, host, session))
    if _nobody(parts, settings) or not unread.turns:
        return Outcome(write=lambda _: None)
    count = stretch(unread.turns)
    turns = sorted(unread.turns[:count], key=lambda turn: (turn.at, turn.id))
    place = unread.places[count - 1]
    left: list[Turn] = []

    def end(tx: Tx) -> None:
        Readings(tx).read_up_to(host, session, place, parts.clock.now())
        left[:] = Readings(tx).unread(host, session, 1).turns  # others may have come while the model was thinking

    def outcome(write: Callable[[Tx], None], afterwards: Callable[[], None] = lambda: None) -> Outcome:
        delay = 0.0 if len(unread.turns) > count else parts.models.pace.after_reply
        return Outcome(write=write, afterwards=afterwards, again=lambda: payload if left else None, delay=delay)

    if not any(turn.role != "tool" and not turn.skipped for turn in turns):
        return outcome(end)
    language = vote(asked_in, settings.language if settings.language != "auto" else "en")
    meaning = parts.meaning
    thought = understanding_of(
        turns,
        parts.models.prompts,
        language,
        injected=injected,
        most_tokens=settings.llm_max_tokens,
        decides={"auto": None, "yes": True, "no": False}[settings.llm_decides],
    )
    try:
        found = _Answering(parts, meaning, settings).run(thought)
    except Unreadable as error:
        unreadable = error

        def give_up(tx: Tx) -> None:
            _set_aside(parts, tx, turns, unreadable)
            end(tx)

        return outcome(give_up)
    readings = _readings(meaning, found)
    done: list[tuple[Action, Vectors | None]] = []

    def write(tx: Tx) -> None:
        fresh: understanding.Fresh = {}
        done[:] = [one for reading in readings for one in understanding.settle(parts, tx, reading, fresh)]
        end(tx)
        if done:
            brief = {"project": turns[0].scope.project, "everywhere": True}
            Jobs(tx).enqueue("brief", brief, dedupe="brief:everywhere", at=parts.clock.now())

    return outcome(write, lambda: understanding.reflect(parts, meaning, done))


@dataclass(frozen=True, slots=True)
class _Answering:
    """Gives a thought what it asks for."""

    parts: Parts
    meaning: Meaning
    settings: Settings

    def run(self, thought: Generator[Need, Any, T]) -> T:
        """Carry a thought to its end; what cannot be had is thrown into it, where it stands."""
        answer: object = None
        failure: Exception | None = None
        try:
            while True:
                need = thought.send(answer) if failure is None else thought.throw(failure)
                answer, failure = None, None
                try:
                    answer = self._answer(need)
                except (ModelUnavailable, Unreadable) as error:
                    failure = error
        except StopIteration as end:
            return end.value

    def _answer(self, need: Need) -> Completion | tuple[float, ...] | tuple[Sequence[Neighbour], ...]:
        match need:
            case Ask():
                return self.parts.models.ask(need, self.settings)
            case Similar(pairs=pairs):
                return self._similarities(pairs)
            case Near(candidates=candidates):
                vectors = vectors_at_once(self.meaning, [one.statement.text for one in candidates])
                return self.parts.readers.here(lambda tx: self._near(tx, candidates, vectors))

    def _similarities(self, pairs: Sequence[tuple[str, str]]) -> tuple[float, ...]:
        vectors = vectors_at_once(self.meaning, [text for pair in pairs for text in pair])
        space = self.meaning.space
        return tuple(
            space.calibrated(float(np.max(one @ other.T))) if one is not None and other is not None else 0.0
            for one, other in zip(vectors[::2], vectors[1::2], strict=True)
        )

    def _near(
        self, tx: Tx, candidates: Sequence[Candidate], vectors: Sequence[Vectors | None]
    ) -> tuple[Sequence[Neighbour], ...]:
        return tuple(
            neighbours(self.parts, tx, one.turn, self.meaning, one.statement, own, {})
            for one, own in zip(candidates, vectors, strict=True)
        )


def _found(parts: Parts, tx: Tx, host: str, session: str) -> tuple[Unread, tuple[str, ...], list[str]]:
    """What is unread, what was put in front of the conversation's prompts, and its last prompts, newest last."""
    readings = Readings(tx)
    last = parts.turns(tx).last_user_texts(host, session)
    return readings.unread(host, session, _TURNS), readings.injected(host, session), last[::-1]


def _nobody(parts: Parts, settings: Settings) -> bool:
    """True where no model is to read; a provider that is set wrongly is one that does not answer.

    Raises:
        ModelUnavailable: the settings name a provider that cannot be built.
    """
    try:
        return parts.models.panel(settings) is None
    except BadConfig as error:
        raise ModelUnavailable(error.message, remedy=error.remedy) from error


def _readings(meaning: Meaning, found: Understood) -> list[Reading]:
    """What was understood, turn by turn in the order they were said, ready to be settled."""
    by = found.extraction.by
    vectors = vectors_at_once(meaning, [one.candidate.statement.text for one in found.facts])
    grouped: dict[str, list[tuple[Judged, Considered]]] = {}
    for judged, own in zip(found.facts, vectors, strict=True):
        considered = Considered(
            statement=judged.candidate.statement,
            vectors=own,
            refusal=judged.refusal,
            decision=judged.decision,
            made_by=f"{by.provider}:{by.model}",
            prompt_version=found.extraction.prompt_version,
            note=judged.note,
        )
        grouped.setdefault(judged.candidate.turn.id, []).append((judged, considered))
    ordered = sorted(grouped.values(), key=lambda group: (group[0][0].candidate.turn.at, group[0][0].candidate.turn.id))
    return [
        Reading(turn=group[0][0].candidate.turn, meaning=meaning, considered=tuple(one for _, one in group))
        for group in ordered
    ]


def _set_aside(parts: Parts, tx: Tx, turns: Sequence[Turn], error: Unreadable) -> None:
    Readings(tx).keep_unreadable(
        turns,
        operation=error.operation,
        prompt_version=error.prompt,
        reason=error.message,
        answer=error.text,
        at=parts.clock.now(),
    )
