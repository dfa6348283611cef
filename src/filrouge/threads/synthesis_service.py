"""Where the work stands, kept up to date and corrected by a model where there is one (GARD-3, THR-10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from filrouge.capture.events import Event
from filrouge.capture.intake import turns_of
from filrouge.capture.models import Turn
from filrouge.core.clock import new_id
from filrouge.core.errors import BadConfig, Busy, ModelUnavailable, Unreadable
from filrouge.core.protocols import Tx
from filrouge.extraction.repository import Analyses, Readings, Session
from filrouge.extraction.summaries import vote
from filrouge.extraction.understanding import Answering
from filrouge.memories.models import Memory
from filrouge.providers.service import NO_MODEL
from filrouge.runtime.jobs import Jobs, Outcome, Payload
from filrouge.runtime.services import Parts, StoreContext
from filrouge.threads.assignment import cited, divided, without
from filrouge.threads.model_questions import recounting
from filrouge.threads.models import Occasion, Synthesis
from filrouge.threads.repository import Syntheses, calls_of
from filrouge.threads.synthesis import Step, Stretch, apart, standing_of, step_of, today

# Syntheses: the daemon keeps where the work stands, and knows it at once where somebody asks (GARD-3, THR-10).
#
# They are made when a session is about to be compacted, was compacted, ends, falls silent, or has filled its context.
# A compaction is followed within a second by a start that must already get what is about to be lost, and a session
# may be killed; so whoever asks gets the stored synthesis brought up to date by the rules there and then, with the
# turns behind it and with the events whose turns are not even stored. A model, where there is one, corrects the
# stored one afterwards.

#: The share of the model's context from which on the work is written down (GARD-3).
FULL: Final = 0.95
SYNTHESISE: Final = "synthesise"
RECOUNT: Final = "recount"
#: Prompts of a session are placed together.
_PLACING_SECONDS: Final = 1.0
_OCCASIONS: Final[dict[str, Occasion]] = {
    "pre_compact": "pre_compact",
    "summary": "post_compact",
    "session_end": "session_end",
}
#: Prompts that are read while somebody waits: about 50 ms. What is older is in the stored synthesis.
_AT_ONCE: Final = 60
_NEWEST, _SESSIONS = 2000, 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Material:
    """What a session's syntheses are made of.

    Attributes:
        former: the stored ones.
        turns: those behind them, in their order; all, where what is stored is to be made anew.
        until: the number of the last of them that is stored.
        threads: of the turns that are in one.
    """

    session: Session
    former: tuple[Synthesis, ...]
    turns: tuple[Turn, ...]
    until: int
    threads: dict[str, str]
    steps: dict[str, Step]
    memories: tuple[Memory, ...]
    quoted: tuple[str, ...]


def queue_synthesis(
    parts: StoreContext, tx: Tx, session: Session, occasion: Occasion, *, delay: float = 0.0, again: bool = False
) -> None:
    """Have a session's syntheses made.

    Args:
        again: beside the one that is waiting: something will be known then that is not known now.
    """
    if session.id and parts.settings(tx).extract_provider != "off":
        work = {"host": session.host, "session": session.id, "occasion": occasion}
        name = job_name(SYNTHESISE, session) + (":again" if again else "")
        Jobs(tx).enqueue(SYNTHESISE, work, dedupe=name, at=parts.clock.now(), delay=delay)


def follow_event(parts: Parts, tx: Tx, event: Event, *, transcript_seconds: float) -> None:
    """Queue what an event of a session's life asks for: at once, and again when its transcript has been read."""
    occasion = _OCCASIONS.get(event.kind)
    if occasion:
        session = Session(host=event.host, id=event.session)
        queue_synthesis(parts, tx, session, occasion)
        if event.transcript:
            queue_synthesis(parts, tx, session, occasion, delay=transcript_seconds, again=True)


def queue_quiet(parts: Parts, before: datetime) -> int:
    """Have the syntheses of those sessions made that fell silent before that moment; returns how many."""
    sessions = parts.readers.here(lambda tx: Syntheses(tx).quiet(before, newest=_NEWEST, limit=_SESSIONS))
    if sessions:
        parts.writer.run(lambda tx: [queue_synthesis(parts, tx, session, "quiet") for session in sessions])
        parts.work_waiting.set()
    return len(sessions)


def synthesise(parts: Parts, payload: Payload) -> Outcome:
    """The job: bring a session's syntheses up to date."""
    session = Session(host=payload["host"], id=payload["session"])
    material = parts.readers.here(lambda tx: gather(parts, tx, session))
    if not material.turns or not parts.extracting():
        return Outcome(write=lambda _: None)
    made = brought_up(material, payload["occasion"])

    def write(tx: Tx) -> None:
        if not Analyses(tx, parts.analyser).are_there(material.turns):
            raise Busy("The session was changed while it was read.", remedy="Try again.")
        Syntheses(tx).keep(session, made)
        now, settings = parts.clock.now(), parts.settings(tx)
        place = {"project": material.turns[-1].scope.project, "everywhere": False}
        Jobs(tx).enqueue("brief", place, dedupe=f"brief:{place['project']}", at=now)
        if settings.extract_provider not in NO_MODEL and settings.mode != "light":
            work = {"host": session.host, "session": session.id}
            Jobs(tx).enqueue(RECOUNT, work, dedupe=job_name(RECOUNT, session), at=now)

    return Outcome(write=write)


def follow_placing(parts: Parts, tx: Tx, turn: Turn) -> None:
    """Have a session's syntheses made anew where one cites a prompt that is in a thread only now."""
    session = Session(host=turn.host, id=turn.scope.session)
    former = Syntheses(tx).of_session(session)
    if turn.id in cited(former):
        queue_synthesis(parts, tx, session, former[0].occasion, delay=_PLACING_SECONDS, again=True)


def state_of_session(parts: Parts, tx: Tx, session: Session) -> list[Synthesis]:
    """Where the work of a session stands now, thread by thread, the latest first; nothing is written.

    What is stored is brought up to date by the rules with what was said since, stored or just handed over.
    """
    material = gather(parts, tx, session, at_once=True)
    made = brought_up(material, "pre_compact") if material.turns else list(material.former)
    return of_today(tx, sorted((one for one in made if not is_empty(one)), key=lambda one: one.at, reverse=True))


def state_of_thread(tx: Tx, thread_id: str) -> Synthesis | None:
    """Where the work in a thread stood when it was worked on last (THR-10); None where nothing is known of it."""
    stored = of_today(tx, Syntheses(tx).of_thread(thread_id))
    return next((one for one in stored if not is_empty(one)), None)


def gather(parts: Parts, tx: Tx, session: Session, *, at_once: bool = False) -> Material:
    """What is new in a session since its syntheses were made; all of it, once turns that they cite came into threads.

    Args:
        at_once: somebody waits: what was handed over and is not stored yet counts, and what is old does not.
    """
    store = Syntheses(tx)
    former = tuple(store.of_session(session))
    read = Analyses(tx, parts.analyser)
    behind = former[0].until if former else 0
    turns, until = read.turns(session, behind=behind)
    threads = store.threads([turn.id for turn in turns])
    placed = store.threads(cited(former))
    if placed:
        former = tuple(divided(former, placed))
        if not at_once:
            turns, until = read.turns(session)
            threads, again = store.threads([turn.id for turn in turns]), {turn.id for turn in turns}
            former = tuple(without(one, again) for one in former)
    calls = store.calls({turn.event_id for turn in turns if turn.role == "tool" and turn.event_id})
    if at_once:
        for event, project in store.unread(session):
            known = {turn.key for turn in turns}
            turns += [turn for turn in turns_of(event, project) if turn.key not in known]
            calls |= calls_of(event)
        turns = _last(turns)
    rests_on = {turn.id for turn in turns} | {point.turn_id for one in former for point in one.decisions}
    return Material(
        session=session,
        former=former,
        turns=tuple(turns),
        until=until,
        threads=threads,
        steps=_steps(turns, calls),
        memories=tuple(store.memories(rests_on)),
        quoted=Readings(tx).injected(session.host, session.id),
    )


def brought_up(material: Material, occasion: Occasion) -> list[Synthesis]:
    """The syntheses of a session with what is new in it; a thread of which nothing is new keeps its own."""
    former = {one.thread_id: one for one in material.former if not is_empty(one)}
    made = dict(former)
    for thread, turns in apart(material.turns, material.threads).items():
        stretch = Stretch(turns=turns, steps=material.steps, memories=material.memories, quoted=material.quoted)
        before = former.get(thread)
        standing = standing_of(stretch, before)
        if standing:
            made[thread] = _synthesis(material, thread, turns[-1], occasion, before.id if before else "")
            made[thread] = replace(
                made[thread],
                state=standing.state,
                decisions=standing.decisions,
                questions=standing.questions,
                files=standing.files,
                error=standing.error,
            )
    kept = [replace(one, until=material.until) for one in made.values()]
    return kept or [_synthesis(material, None, material.turns[-1], occasion, "")]


def is_empty(one: Synthesis) -> bool:
    """True for the mark of a session in which nothing was worth a synthesis."""
    return not (one.state or one.decisions or one.questions or one.files or one.error)


def _synthesis(material: Material, thread: str | None, last: Turn, occasion: Occasion, id_: str) -> Synthesis:
    scope = last.scope
    return Synthesis(
        id=id_ or new_id(last.at),
        host=material.session.host,
        session=material.session.id,
        user=scope.user,
        project=scope.project,
        thread_id=thread,
        occasion=occasion,
        at=last.at,
        until=material.until,
        channel=scope.channel,
    )


def _steps(turns: Sequence[Turn], calls: Mapping[str, Mapping[str, Any]]) -> dict[str, Step]:
    """What each turn of a tool did, where the event that brought it is still there."""
    found: dict[str, Step] = {}
    for turn in turns:
        call = calls.get(turn.key.removeprefix("tool:")) if turn.role == "tool" else None
        if call is not None:
            found[turn.id] = step_of(turn.id, call)
    return found


def _last(turns: Sequence[Turn]) -> list[Turn]:
    """As many of the newest turns as can be read while somebody waits."""
    prompts = [place for place, turn in enumerate(turns) if turn.role == "user"]
    return list(turns[prompts[-_AT_ONCE] :] if len(prompts) > _AT_ONCE else turns)


def of_today(tx: Tx, syntheses: Sequence[Synthesis]) -> list[Synthesis]:
    """Stored syntheses without the decisions that no longer hold."""
    rests_on = {point.turn_id for one in syntheses for point in one.decisions}
    memories = Syntheses(tx).memories(rests_on) if rests_on else []
    return [today(one, memories) for one in syntheses]


def job_name(kind: str, session: Session) -> str:
    """The name by which one job of a kind waits for a session."""
    return f"{kind}:{session.host}:{session.id}"


# Recounting: a model corrects what the rules made of a session, afterwards and in the lane of the models (ADR 13).


def recount(parts: Parts, payload: Payload) -> Outcome:
    """The job: have a model correct what the rules made of a session.

    Raises:
        ModelUnavailable: nobody answers, or the budget is spent; what the rules made stands.
    """
    session = Session(host=payload["host"], id=payload["session"])
    settings = parts.readers.here(lambda tx: parts.settings(tx))
    try:
        nobody = parts.models.panel(settings) is None
    except BadConfig as error:
        raise ModelUnavailable(error.message, remedy=error.remedy) from error
    stored = parts.readers.here(lambda tx: Syntheses(tx).of_session(session))
    if nobody or not stored:
        return Outcome(write=lambda _: None)
    turns = parts.readers.here(lambda tx: Analyses(tx, parts.analyser).turns(session)[0])
    threads = parts.readers.here(lambda tx: Syntheses(tx).threads([turn.id for turn in turns]))
    groups = apart(turns, threads)
    answering = Answering(parts, parts.meaning, settings)
    language = vote([turn.text for turn in turns if turn.role == "user"], _plain(settings.language))
    corrected: list[Synthesis] = []
    for one in stored:
        own = groups.get(one.thread_id, [])
        if one.made_by == "rules" and own and (one.state or one.decisions or one.questions):
            try:
                corrected.append(answering.run(recounting(own, one, parts.models.prompts, language)))
            except Unreadable:
                corrected.append(one)
        else:
            corrected.append(one)

    def write(tx: Tx) -> None:
        if Syntheses(tx).of_session(session) == stored and Analyses(tx, parts.analyser).are_there(turns):
            Syntheses(tx).keep(session, corrected)

    return Outcome(write=write)


def _plain(language: str) -> str:
    return "en" if language == "auto" else language
