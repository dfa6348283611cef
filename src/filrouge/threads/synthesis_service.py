"""Keeps the syntheses of sessions up to date; a model corrects them if there is one.

A synthesis is made when a session is about to be compacted, was compacted, ends, is quiet, or has filled its context.
After a compaction, a new session start follows within a second and needs the state that is about to be lost; and a
session may be killed at any time. So `state_of_session` updates the stored synthesis by rules on read, with the turns
since, and with events whose turns are not stored yet. The model corrects the stored synthesis afterwards (`recount`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from filrouge.capture.events import Event
from filrouge.capture.intake import turns_from_event
from filrouge.capture.models import Turn
from filrouge.core.clock import new_id
from filrouge.core.errors import BadConfig, Busy, ModelUnavailable, Unreadable
from filrouge.core.protocols import Analyser, Tx
from filrouge.extraction.repository import Analyses, Readings, Session
from filrouge.extraction.understanding import RequestRunner
from filrouge.extraction.vocabulary import detect_language
from filrouge.memories.models import Memory
from filrouge.providers.service import PROVIDERS_WITHOUT_MODEL
from filrouge.runtime.jobs import JobResult, Jobs, Payload
from filrouge.runtime.services import Parts, StoreContext
from filrouge.threads.assignment import cited_turns, drop_turns, split_by_thread
from filrouge.threads.models import Occasion, Synthesis
from filrouge.threads.repository import Syntheses, calls_of
from filrouge.threads.synthesis import (
    Step,
    SynthesisInput,
    build_work_state,
    drop_ended_decisions,
    group_by_thread,
    step_of,
)
from filrouge.threads.upkeep import correct_synthesis

#: Share of the model's context from which the state of the work is written.
FULL_CONTEXT_SHARE: Final = 0.95
SYNTHESISE: Final = "synthesise"
RECOUNT: Final = "recount"
#: Delay, so that the prompts of a session are placed together first.
_PLACING_SECONDS: Final = 1.0
_OCCASIONS: Final[dict[str, Occasion]] = {
    "pre_compact": "pre_compact",
    "summary": "post_compact",
    "session_end": "session_end",
}
#: Maximum number of prompts read while a caller waits: about 50 ms. Older ones are in the stored synthesis.
_MAX_PROMPTS_AT_ONCE: Final = 60
_MAX_NEWEST_TURNS, _MAX_SESSIONS = 2000, 20


class Material(Struct, frozen=True, kw_only=True):
    """Input for the syntheses of a session.

    Attributes:
        former: the stored syntheses.
        turns: the turns after them, in order; all turns if the syntheses are to be remade.
        until: sequence number of the last stored turn among them.
        threads: threads by turn, for turns that are in one.
    """

    session: Session
    former: tuple[Synthesis, ...]
    turns: tuple[Turn, ...]
    until: int
    threads: dict[str, str]
    steps: dict[str, Step]
    memories: tuple[Memory, ...]
    injected: tuple[str, ...]


def queue_synthesis(
    parts: StoreContext, tx: Tx, session: Session, occasion: Occasion, *, delay: float = 0.0, again: bool = False
) -> None:
    """Queue the syntheses of a session.

    Args:
        again: queue another job even if one is waiting, because more will be known by then.
    """
    if session.id and parts.settings(tx).extract_provider != "off":
        work = {"host": session.host, "session": session.id, "occasion": occasion}
        name = job_name(SYNTHESISE, session) + (":again" if again else "")
        Jobs(tx).enqueue(SYNTHESISE, work, dedupe=name, at=parts.clock.now(), delay=delay)


def follow_event(parts: StoreContext, tx: Tx, event: Event, *, transcript_seconds: float) -> None:
    """Queue what a session event requires: a synthesis now, and another once its transcript has been read."""
    occasion = _OCCASIONS.get(event.kind)
    if occasion:
        session = Session(host=event.host, id=event.session)
        queue_synthesis(parts, tx, session, occasion)
        if event.transcript:
            queue_synthesis(parts, tx, session, occasion, delay=transcript_seconds, again=True)


def queue_quiet(parts: Parts, before: datetime) -> int:
    """Queue the syntheses of sessions that have been quiet since `before`; return how many."""
    sessions = parts.readers.here(
        lambda tx: Syntheses(tx).quiet_sessions(before, newest=_MAX_NEWEST_TURNS, limit=_MAX_SESSIONS)
    )
    if sessions:
        parts.writer.run(lambda tx: [queue_synthesis(parts, tx, session, "quiet") for session in sessions])
        parts.work_waiting.set()
    return len(sessions)


def synthesise(parts: Parts, payload: Payload) -> JobResult:
    """Run the job that brings a session's syntheses up to date."""
    session = Session(host=payload["host"], id=payload["session"])
    material = parts.readers.here(lambda tx: read_material(parts.analyser, tx, session))
    if not material.turns or not parts.extracting():
        return JobResult(write=lambda _: None)
    updated = update_syntheses(material, payload["occasion"])

    def write(tx: Tx) -> None:
        if not Analyses(tx, parts.analyser).all_exist(material.turns):
            raise Busy("The session changed while it was being read.", remedy="Try again.")
        Syntheses(tx).replace_for_session(session, updated)
        now, settings = parts.clock.now(), parts.settings(tx)
        scope = {"project": material.turns[-1].scope.project, "everywhere": False}
        Jobs(tx).enqueue("brief", scope, dedupe=f"brief:{scope['project']}", at=now)
        if settings.extract_provider not in PROVIDERS_WITHOUT_MODEL and settings.mode != "light":
            work = {"host": session.host, "session": session.id}
            Jobs(tx).enqueue(RECOUNT, work, dedupe=job_name(RECOUNT, session), at=now)

    return JobResult(write=write)


def queue_synthesis_after_placing(parts: StoreContext, tx: Tx, turn: Turn) -> None:
    """Queue new syntheses for a session if one of them cites a prompt that was placed only now."""
    session = Session(host=turn.host, id=turn.scope.session)
    former = Syntheses(tx).of_session(session)
    if turn.id in cited_turns(former):
        queue_synthesis(parts, tx, session, former[0].occasion, delay=_PLACING_SECONDS, again=True)


def state_of_session(analyser: Analyser, tx: Tx, session: Session) -> list[Synthesis]:
    """Return the current state of a session's work, one synthesis per thread, latest first; nothing is written.

    The stored syntheses are updated by rules with the turns since, including events whose turns are not stored yet.
    """
    material = read_material(analyser, tx, session, at_once=True)
    updated = update_syntheses(material, "pre_compact") if material.turns else list(material.former)
    return without_ended_decisions(
        tx,
        sorted(
            (synthesis for synthesis in updated if not is_empty(synthesis)),
            key=lambda synthesis: synthesis.at,
            reverse=True,
        ),
    )


def state_of_thread(tx: Tx, thread_id: str) -> Synthesis | None:
    """Return the latest synthesis of a thread; None if there is none."""
    stored = without_ended_decisions(tx, Syntheses(tx).of_thread(thread_id))
    return next((synthesis for synthesis in stored if not is_empty(synthesis)), None)


def read_material(analyser: Analyser, tx: Tx, session: Session, *, at_once: bool = False) -> Material:
    """Read what is new in a session since its syntheses were made.

    If turns that a synthesis cites were placed since, all turns of the session are read again, unless `at_once`. They
    are also read again if a new turn was said before a synthesis was made: it was in the spool until now.

    Args:
        at_once: a caller waits: include events whose turns are not stored yet, and read only the newest turns.
    """
    store = Syntheses(tx)
    former = tuple(store.of_session(session))
    analyses = Analyses(tx, analyser)
    after = former[0].until if former else 0
    turns, until = analyses.turns(session, behind=after)
    threads = store.threads([turn.id for turn in turns])
    placed = store.threads(cited_turns(former))
    if placed:
        former = tuple(split_by_thread(former, placed))
    is_late = bool(turns) and any(turns[0].at < synthesis.at for synthesis in former)
    if is_late or (placed and not at_once):
        turns, until = analyses.turns(session)
        threads, turn_ids = store.threads([turn.id for turn in turns]), {turn.id for turn in turns}
        former = tuple(drop_turns(synthesis, turn_ids) for synthesis in former)
    calls = store.calls({turn.event_id for turn in turns if turn.role == "tool" and turn.event_id})
    if at_once:
        for event, project in store.unread_events(session):
            known_keys = {turn.key for turn in turns}
            turns += [turn for turn in turns_from_event(event, project) if turn.key not in known_keys]
            calls |= calls_of(event)
        turns = _newest_turns(sorted(turns, key=lambda turn: turn.at))
    rests_on = {turn.id for turn in turns} | {point.turn_id for synthesis in former for point in synthesis.decisions}
    return Material(
        session=session,
        former=former,
        turns=tuple(turns),
        until=until,
        threads=threads,
        steps=_steps(turns, calls),
        memories=tuple(store.memories(rests_on)),
        injected=Readings(tx).injected(session.host, session.id),
    )


def update_syntheses(material: Material, occasion: Occasion) -> list[Synthesis]:
    """Return a session's syntheses with the new turns applied; a thread without new turns keeps its synthesis."""
    former = {synthesis.thread_id: synthesis for synthesis in material.former if not is_empty(synthesis)}
    updated = dict(former)
    for thread, turns in group_by_thread(material.turns, material.threads).items():
        work = SynthesisInput(turns=turns, steps=material.steps, memories=material.memories, injected=material.injected)
        before = former.get(thread)
        work_state = build_work_state(work, before)
        if work_state:
            updated[thread] = _synthesis(material, thread, turns[-1], occasion, before.id if before else "")
            updated[thread] = replace(
                updated[thread],
                state=work_state.state,
                decisions=work_state.decisions,
                questions=work_state.questions,
                files=work_state.files,
                error=work_state.error,
            )
    syntheses = [replace(synthesis, until=material.until) for synthesis in updated.values()]
    return syntheses or [_synthesis(material, None, material.turns[-1], occasion, "")]


def is_empty(synthesis: Synthesis) -> bool:
    """Return True for the placeholder of a session in which nothing was worth a synthesis."""
    return not (synthesis.state or synthesis.decisions or synthesis.questions or synthesis.files or synthesis.error)


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
    """Return what each tool turn did, if the event that brought it still exists."""
    found: dict[str, Step] = {}
    for turn in turns:
        call = calls.get(turn.key.removeprefix("tool:")) if turn.role == "tool" else None
        if call is not None:
            found[turn.id] = step_of(turn.id, call)
    return found


def _newest_turns(turns: Sequence[Turn]) -> list[Turn]:
    """Return as many of the newest turns as can be read while a caller waits."""
    prompts = [index for index, turn in enumerate(turns) if turn.role == "user"]
    return list(turns[prompts[-_MAX_PROMPTS_AT_ONCE] :] if len(prompts) > _MAX_PROMPTS_AT_ONCE else turns)


def without_ended_decisions(tx: Tx, syntheses: Sequence[Synthesis]) -> list[Synthesis]:
    """Return stored syntheses without the decisions that no longer hold."""
    rests_on = {point.turn_id for synthesis in syntheses for point in synthesis.decisions}
    memories = Syntheses(tx).memories(rests_on) if rests_on else []
    return [drop_ended_decisions(synthesis, memories) for synthesis in syntheses]


def job_name(kind: str, session: Session) -> str:
    """Return the deduplication key of a job for a session."""
    return f"{kind}:{session.host}:{session.id}"


# Correction by a model, in a background job on the executor for model calls (ADR 13).


def recount(parts: Parts, payload: Payload) -> JobResult:
    """Run the job that lets a model correct a session's syntheses.

    Raises:
        ModelUnavailable: no model answers, or the budget is spent; the syntheses by the rules stand.
    """
    session = Session(host=payload["host"], id=payload["session"])
    settings = parts.readers.here(lambda tx: parts.settings(tx))
    try:
        has_no_model = parts.models.panel(settings) is None
    except BadConfig as error:
        raise ModelUnavailable(error.message, remedy=error.remedy) from error
    stored = parts.readers.here(lambda tx: Syntheses(tx).of_session(session))
    if has_no_model or not stored:
        return JobResult(write=lambda _: None)
    turns = parts.readers.here(lambda tx: Analyses(tx, parts.analyser).turns(session)[0])
    threads = parts.readers.here(lambda tx: Syntheses(tx).threads([turn.id for turn in turns]))
    groups = group_by_thread(turns, threads)
    runner = RequestRunner(parts, parts.vectors, settings)
    language = detect_language(
        [turn.text for turn in turns if turn.role == "user"], _language_or_english(settings.language)
    )
    corrected: list[Synthesis] = []
    for synthesis in stored:
        thread_turns = groups.get(synthesis.thread_id, [])
        if (
            synthesis.made_by == "rules"
            and thread_turns
            and (synthesis.state or synthesis.decisions or synthesis.questions)
        ):
            try:
                corrected.append(runner.run(correct_synthesis(thread_turns, synthesis, parts.models.prompts, language)))
            except Unreadable:
                corrected.append(synthesis)
        else:
            corrected.append(synthesis)

    def write(tx: Tx) -> None:
        if Syntheses(tx).of_session(session) == stored and Analyses(tx, parts.analyser).all_exist(turns):
            Syntheses(tx).replace_for_session(session, corrected)

    return JobResult(write=write)


def _language_or_english(language: str) -> str:
    return "en" if language == "auto" else language
