"""Have a model read what a conversation says anew (EXT-2, EXT-11), and write what it understood.

A conversation is read in stretches, from where the last one ended. The user's prompts were understood by the rules
already, as they came; the model adds what rules cannot read, and sees what they made. What it reads is embedded and
compared as ever, and applied in one transaction with the mark of how far it has read.

An answer that nobody can read is set aside with the turns that it was about, and reading goes on behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from filrouge.app import understanding
from filrouge.app.analysis import gather, keep, prepare
from filrouge.app.answering import Answering
from filrouge.app.informing import worth_reading
from filrouge.app.meaning import Meaning
from filrouge.app.parts import Parts
from filrouge.app.understanding import Considered, Reading, vectors_at_once
from filrouge.app.worker import Outcome, Payload
from filrouge.config import Settings
from filrouge.errors import BadConfig, ModelUnavailable, Unreadable
from filrouge.extraction.heuristics import written_by_host
from filrouge.extraction.model_answers import Judged, Understood, boot_texts, overview, stretch
from filrouge.extraction.model_answers import understanding as understanding_of
from filrouge.extraction.summaries import vote
from filrouge.model.turn import Turn
from filrouge.ports import Tx, Vectors
from filrouge.store.analyses import Session
from filrouge.store.memories import Action, Origin
from filrouge.store.readings import Readings, Unread

_TURNS = 60


def extract(parts: Parts, payload: Payload) -> Outcome:
    """The job: read the next stretch of a conversation.

    Raises:
        ModelUnavailable: nobody answers, or the budget is spent; nothing is marked as read.
    """
    session = Session(host=str(payload["host"]), id=str(payload["session"]))
    settings = parts.readers.here(lambda tx: parts.settings(tx))
    unread, given, asked_in = parts.readers.here(lambda tx: _found(parts, tx, session))
    if _nobody(parts, settings) or not unread.turns:
        return Outcome(write=lambda _: None)
    count = stretch(unread.turns)
    turns = sorted(unread.turns[:count], key=lambda turn: (turn.at, turn.id))
    left: list[Turn] = []

    def end(tx: Tx) -> None:
        Readings(tx).read_up_to(session.host, session.id, unread.places[count - 1], parts.clock.now())
        left[:] = Readings(tx).unread(session.host, session.id, 1).turns  # others may have come meanwhile

    def outcome(write: Callable[[Tx], None], afterwards: Callable[[], None] = lambda: None) -> Outcome:
        delay = 0.0 if len(unread.turns) > count else parts.models.pace.after_reply
        return Outcome(write=write, afterwards=afterwards, again=lambda: payload if left else None, delay=delay)

    readable = [turn for turn in turns if turn.source != "summary" and not written_by_host(turn.text)]
    if not any(turn.role != "tool" and not turn.skipped for turn in readable):
        return outcome(end)
    answering = Answering(parts, parts.meaning, settings)
    language = vote(asked_in, settings.language if settings.language != "auto" else "en")
    material = parts.readers.here(lambda tx: gather(parts, tx, session))
    try:
        found = answering.run(
            understanding_of(
                worth_reading(parts, readable, answering.judge(language)),
                parts.models.prompts,
                language,
                given=given,
                most_tokens=settings.llm_max_tokens,
                decides={"auto": None, "yes": True, "no": False}[settings.llm_decides],
                before=material.former.summary,
                isolated=settings.isolation,
            )
        )
    except Unreadable as error:
        unreadable = error

        def give_up(tx: Tx) -> None:
            _set_aside(parts, tx, turns, unreadable)
            end(tx)

        return outcome(give_up)
    analysis = overview(prepare(parts, material), found.extraction)
    readings = _readings(answering.meaning, found)
    done: list[tuple[Action, Vectors | None]] = []

    def write(tx: Tx) -> None:
        fresh: understanding.Fresh = {}
        done[:] = [one for reading in readings for one in understanding.settle(parts, tx, reading, fresh)]
        _refuse(parts, tx, turns[-1], found)
        if analysis.summary:
            keep(parts, tx, material, analysis)
        end(tx)

    return outcome(write, lambda: understanding.reflect(parts, answering.meaning, done))


def _found(parts: Parts, tx: Tx, session: Session) -> tuple[Unread, tuple[str, ...], list[str]]:
    """What is unread, what the agent was given (instructions that it read, memories in front of prompts), and the last
    prompts of the conversation, newest last."""
    readings = Readings(tx)
    given = (*readings.injected(session.host, session.id), *boot_texts(readings.files(session.host, session.id)))
    last = parts.turns(tx).last_user_texts(session.host, session.id)
    unread = readings.unread(session.host, session.id, _TURNS)
    return unread, given, last[::-1]


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


def _refuse(parts: Parts, tx: Tx, turn: Turn, found: Understood) -> None:
    """Note what the model decided that cannot be carried out."""
    by = found.extraction.by
    origin = Origin(
        scope=turn.scope,
        trust=turn.trust,
        at=turn.at,
        turn_id=turn.id,
        made_by=f"{by.provider}:{by.model}",
        prompt_version=found.extraction.prompt_version,
    )
    for reason in found.rejected:
        parts.memories(tx).refuse(origin, reason)


def _set_aside(parts: Parts, tx: Tx, turns: Sequence[Turn], error: Unreadable) -> None:
    Readings(tx).keep_unreadable(
        turns,
        operation=error.operation,
        prompt_version=error.prompt,
        reason=error.message,
        answer=error.text,
        at=parts.clock.now(),
    )
