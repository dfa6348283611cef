"""Extraction with a model in the background, and immediate extraction for a program that waits.

`extract` is the job that reads the next turns of a conversation with a model (EXT-2, EXT-11). `extract_now` stores and
understands a program's messages at once, with the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from filrouge.capture.events import Event
from filrouge.capture.intake import CutCounts, clean_event, turns_from_event
from filrouge.capture.models import Turn
from filrouge.capture.programs import Conversation, Message, message_events
from filrouge.capture.repository import Events
from filrouge.context.hook_files import write_briefs
from filrouge.core.clock import Clock
from filrouge.core.errors import BadConfig, ExtractionOff, ModelUnavailable, Unreadable
from filrouge.core.protocols import Tx, Vectors
from filrouge.core.settings import Settings
from filrouge.extraction import understanding
from filrouge.extraction.heuristics import statements_of
from filrouge.extraction.model_answers import (
    USER_ONLY_KINDS,
    FactOutcome,
    UnderstoodTurns,
    boot_texts,
    merge_into_analysis,
    turns_per_prompt,
)
from filrouge.extraction.model_answers import understand_turns as understanding_of
from filrouge.extraction.own_words import written_by_host
from filrouge.extraction.repository import Readings, Session, Unread
from filrouge.extraction.sessions import analyse_material, load_material, store_analysis
from filrouge.extraction.understanding import (
    PendingStatement,
    PendingVectors,
    Reading,
    RequestRunner,
    apply_reading,
    embed_inline,
    embed_statements,
    queue_reading,
    read_turns,
    trim_tool_output,
    update_index,
)
from filrouge.extraction.vocabulary import detect_language
from filrouge.memories.models import Statement
from filrouge.memories.repository import Action, Origin
from filrouge.providers.service import Models
from filrouge.runtime.jobs import JobResult, Payload
from filrouge.runtime.services import Parts, StoreContext
from filrouge.search.spaces import queue_vectors
from filrouge.search.vector_search import VectorSearch
from filrouge.threads.placing import queue_placing

# Background reading. A conversation is read in ranges of turns, each from where the last one ended. The rules have
# already handled the user's prompts on arrival; the model adds what rules cannot read, and sees the memories they made.
# The results are embedded, compared and applied in one transaction with the mark of how far the model has read. An
# answer that cannot be parsed is stored with its turns, and reading continues after them.

_MAX_TURNS = 60


def extract(parts: Parts, payload: Payload) -> JobResult:
    """Job handler: read the next turns of a conversation with a model.

    Raises:
        ModelUnavailable: no model answers, or the budget is spent; nothing is marked as read.
    """
    session = Session(host=str(payload["host"]), id=str(payload["session"]))
    settings = parts.readers.here(lambda tx: parts.settings(tx))
    unread, agent_texts, asked_in = parts.readers.here(lambda tx: _load_unread(parts, tx, session))
    if _lacks_model(parts.models, settings) or not unread.turns:
        return JobResult(write=lambda _: None)
    count = turns_per_prompt(unread.turns)
    turns = sorted(unread.turns[:count], key=lambda turn: (turn.at, turn.id))
    remaining: list[Turn] = []

    def end(tx: Tx) -> None:
        Readings(tx).read_up_to(session.host, session.id, unread.sequence_numbers[count - 1], parts.clock.now())
        remaining[:] = Readings(tx).unread(session.host, session.id, 1).turns  # more may have arrived meanwhile

    def outcome(write: Callable[[Tx], None], afterwards: Callable[[], None] = lambda: None) -> JobResult:
        delay = 0.0 if len(unread.turns) > count else parts.models.pace.after_reply
        return JobResult(write=write, afterwards=afterwards, again=lambda: payload if remaining else None, delay=delay)

    readable = [turn for turn in turns if turn.source != "summary" and not written_by_host(turn.text)]
    if not any(turn.role != "tool" and not turn.skipped for turn in readable):
        return outcome(end)
    answering = RequestRunner(parts, parts.vectors, settings)
    language = detect_language(asked_in, settings.language if settings.language != "auto" else "en")
    material = parts.readers.here(lambda tx: load_material(parts.analyser, tx, session))
    try:
        found = answering.run(
            understanding_of(
                trim_tool_output(parts, readable, answering.judge(language)),
                parts.models.prompts,
                language,
                agent_texts=agent_texts,
                most_tokens=settings.llm_max_tokens,
                decides={"auto": None, "yes": True, "no": False}[settings.llm_decides],
                before=material.former.summary,
                isolated=settings.isolation,
            )
        )
    except Unreadable as error:
        unreadable = error

        def give_up(tx: Tx) -> None:
            _keep_unreadable(parts.clock, tx, turns, unreadable)
            end(tx)

        return outcome(give_up)
    analysis = merge_into_analysis(analyse_material(parts, material), found.extraction)
    readings = _readings(answering.vectors, found)
    done: list[tuple[Action, Vectors | None]] = []

    def write(tx: Tx) -> None:
        fresh: understanding.PendingVectors = {}
        done[:] = [action for reading in readings for action in understanding.apply_reading(parts, tx, reading, fresh)]
        _journal_rejections(parts, tx, turns[-1], found)
        if analysis.summary:
            store_analysis(parts.clock, parts.analyser, tx, material, analysis)
        end(tx)

    return outcome(write, lambda: understanding.update_index(parts, answering.vectors, done))


def _load_unread(parts: StoreContext, tx: Tx, session: Session) -> tuple[Unread, tuple[str, ...], list[str]]:
    """Return the unread turns, what the agent was given, and the conversation's last prompts, newest last.

    The agent was given instructions that it read and memories injected before prompts.
    """
    readings = Readings(tx)
    agent_texts = (*readings.injected(session.host, session.id), *boot_texts(readings.files(session.host, session.id)))
    last = parts.turns(tx).last_user_texts(session.host, session.id)
    unread = readings.unread(session.host, session.id, _MAX_TURNS)
    return unread, agent_texts, last[::-1]


def _lacks_model(models: Models, settings: Settings) -> bool:
    """Return whether no model is to read.

    Raises:
        ModelUnavailable: the settings name a provider that cannot be built.
    """
    try:
        return models.panel(settings) is None
    except BadConfig as error:
        raise ModelUnavailable(error.message, remedy=error.remedy) from error


def _readings(vectors: VectorSearch, found: UnderstoodTurns) -> list[Reading]:
    """Return the extracted facts grouped by turn, in the order of the turns, ready for `apply_reading`."""
    by = found.extraction.by
    embedded = embed_inline(vectors, [fact.candidate.statement.text for fact in found.facts])
    grouped: dict[str, list[tuple[FactOutcome, PendingStatement]]] = {}
    for outcome, statement_vectors in zip(found.facts, embedded, strict=True):
        pending = PendingStatement(
            statement=outcome.candidate.statement,
            vectors=statement_vectors,
            refusal=outcome.refusal,
            decision=outcome.decision,
            made_by=f"{by.provider}:{by.model}",
            prompt_version=found.extraction.prompt_version,
            note=outcome.note,
        )
        grouped.setdefault(outcome.candidate.turn.id, []).append((outcome, pending))
    ordered = sorted(grouped.values(), key=lambda group: (group[0][0].candidate.turn.at, group[0][0].candidate.turn.id))
    return [
        Reading(
            turn=group[0][0].candidate.turn,
            vectors=vectors,
            pending=tuple(pending for _, pending in group),
        )
        for group in ordered
    ]


def _journal_rejections(parts: StoreContext, tx: Tx, turn: Turn, found: UnderstoodTurns) -> None:
    """Record in the journal which decisions of the model were rejected."""
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


def _keep_unreadable(clock: Clock, tx: Tx, turns: Sequence[Turn], error: Unreadable) -> None:
    Readings(tx).keep_unreadable(
        turns,
        operation=error.operation,
        prompt_version=error.prompt,
        reason=error.message,
        answer=error.text,
        at=clock.now(),
    )


# Immediate extraction. A program's messages go through the same steps as captured events: events and turns once each,
# the same rules, the same decisions. A message with the role `user` has the trust of a captured prompt. A string is a
# message of the program itself, whatever labels it contains: `User:` in a text proves nothing. It can state facts and
# decisions of its project with an agent's trust; no rules, preferences or intents, and it ends nothing that the user
# said. A configured model reads the conversation afterwards, like any other.

TextOrMessage = str | Message
"""A message, or a text without a speaker."""


class ExtractionResult(Struct, frozen=True, kw_only=True):
    """The decisions on all statements, in the order in which they were said, and their number."""

    actions: tuple[Action, ...]
    extracted: int

    def to_json(self) -> dict[str, Any]:
        """Return the counts for the route's response."""
        names = [action.name for action in self.actions]
        return {
            "extracted_count": self.extracted,
            "stored_count": names.count("add"),
            "updated_count": names.count("update"),
            "deleted_count": names.count("delete"),
        }


class _Prepared(Struct, frozen=True, kw_only=True):
    """An event with its turns, the statements of those turns, and the index tokens by turn id."""

    event: Event
    turns: Sequence[Turn]
    readings: Sequence[Reading]
    tokens: Mapping[str, str]


def extract_now(
    parts: Parts, messages: str | Sequence[TextOrMessage], *, source: str = "", context: str = ""
) -> ExtractionResult:
    """Store messages and extract their statements; messages that this source sent before are skipped.

    Args:
        parts: the services.
        messages: one text, or texts and messages with a role.
        source: `agent/project`; either part may be missing.
        context: the occasion; stored with the events and not used otherwise.

    Raises:
        ExtractionOff: the user switched extraction off.
    """
    if not parts.extracting():
        raise ExtractionOff
    agent, _, project = source.strip().partition("/")
    where = Conversation(
        channel=agent.strip() or "api",
        session=f"extract:{source.strip() or 'api'}",
        project=(project.strip(),) if project.strip() else (),
    )
    messages_with_speaker = [
        item for part in ([messages] if isinstance(messages, str) else messages) for item in _split_speaker(part)
    ]
    conversation_events = message_events(parts.clock, parts.readers, where, [item for item, _ in messages_with_speaker])
    prepared = [
        _prepare(parts, _with_context(event, context), has_speaker=messages_with_speaker[owner][1])
        for event, owner in zip(conversation_events.events, conversation_events.owners, strict=True)
    ]
    fresh: PendingVectors = {}
    written = [(item, parts.writer.submit(lambda tx, item=item: _store(parts, tx, item, fresh))) for item in prepared]
    done = [(item, future.result()) for item, future in written]
    for item, outcome in done:
        for reading in item.readings:
            update_index(parts, reading.vectors, outcome)
    if any(outcome for _, outcome in done):
        write_briefs(parts, None, everywhere=True)
    parts.work_waiting.set()
    actions = tuple(action for _, outcome in done for action, _ in outcome)
    return ExtractionResult(actions=actions, extracted=len(actions))


def _split_speaker(part: TextOrMessage) -> list[tuple[Message, bool]]:
    """Return the message of a part, and whether it has a speaker; a string is the program's own text."""
    if isinstance(part, Message):
        return [(part, True)]
    return [(Message(role="assistant", content=part.strip()), False)] if part.strip() else []


def _with_context(event: Event, context: str) -> Event:
    return event._replace(data={**event.data, "context": context}) if context else event


def _prepare(parts: Parts, event: Event, *, has_speaker: bool) -> _Prepared:
    cut = CutCounts()
    clean = clean_event(event, parts.redact, cut)
    parts.metrics.count_cut(cut)
    turns = turns_from_event(clean, "")
    if has_speaker:
        readings = read_turns(parts, turns)
    else:
        readings = embed_statements(parts, [(turn, _permitted_statements(turn)) for turn in turns])
    tokens = {turn.id: parts.analyser.tokens(turn.text) for turn in turns}
    return _Prepared(event=clean, turns=turns, readings=readings, tokens=tokens)


def _permitted_statements(turn: Turn) -> tuple[Statement, ...]:
    """Return the project's facts and decisions that a program's own text states."""
    if turn.skipped or written_by_host(turn.text):
        return ()
    return tuple(
        replace(statement, scope="project", key=None, value=None)
        for statement in statements_of(turn.text)
        if statement.kind not in USER_ONLY_KINDS and statement.scope == "project"
    )


def _store(parts: Parts, tx: Tx, prepared: _Prepared, fresh: PendingVectors) -> list[tuple[Action, Vectors | None]]:
    """Store an event with its turns and apply their statements, unless it is stored already or was forgotten."""
    now = parts.clock.now()
    passed = parts.tombstones.without_forgotten(tx, prepared.event)
    if passed is None:
        Events(tx).add_forgotten(prepared.event, received_at=now)
        return []
    project = Events(tx).add(prepared.event, received_at=now)
    if project is None:
        return []
    done: list[tuple[Action, Vectors | None]] = []
    turns = [replace(turn, scope=replace(turn.scope, project=project or None)) for turn in prepared.turns]
    added = {turn.id: turn for turn in turns if parts.turns(tx).add(turn, prepared.tokens[turn.id])}
    for turn in added.values():
        if turn.role != "tool":
            queue_vectors(tx, "turn", turn.id, now)
    queue_placing(parts.clock, tx, list(added.values()))
    queue_reading(parts, tx, list(added.values()))
    for reading in prepared.readings:
        if reading.turn.id in added:
            done += apply_reading(parts, tx, replace(reading, turn=added[reading.turn.id]), fresh)
    Events(tx).settle(prepared.event.id, "done")
    return done
