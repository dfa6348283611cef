"""Injection: builds the text that goes before a prompt or a session start.

A request (`ContextRequest`) is built from the event. The sources for that occasion run in one read transaction, their
candidates are selected and rendered together, and the result is logged. Injection is automatic, so it only sees the
current project and the user's own memories. A source that fails is left out with a notice; the others continue.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from filrouge.capture.events import Event
from filrouge.capture.intake import clean_event
from filrouge.capture.service import drain_spool_quickly
from filrouge.context.block import (
    MAX_ITEM,
    MIN_PROMPT,
    Block,
    RenderOptions,
    Verdict,
    build_block,
    neutralise,
    shortened,
)
from filrouge.context.candidates import may_be_shown, shown_text
from filrouge.context.log import Recalls
from filrouge.context.models import USER_TRUST, Candidate
from filrouge.context.request import ContextRequest
from filrouge.context.sources import ASKED_BACK, AT_START, BEFORE_PROMPT, SourceTable
from filrouge.core.clock import Language, monotonic, new_id, relative_date, text_or_none, to_text
from filrouge.core.guard import logged
from filrouge.core.protocols import Tx
from filrouge.core.scope import LOCAL_USER
from filrouge.core.settings import Settings
from filrouge.extraction.intents import asked_period
from filrouge.extraction.vocabulary import detect_language
from filrouge.memories.models import Memory
from filrouge.memories.repository import DOUBTED, Doubts
from filrouge.providers.usage_repository import LlmUsage
from filrouge.runtime.feed import Bus
from filrouge.runtime.feed_messages import RecallInjected
from filrouge.runtime.journal import log_decision
from filrouge.runtime.metrics import Metrics
from filrouge.runtime.services import Parts, StoreContext
from filrouge.search.models import START_PREVIEW, DeliveryOutcome, Recall
from filrouge.search.ranking import topic_words

_LOG = logging.getLogger(__name__)
#: A dummy query. Embedding it loads the model, so that the first real query need not wait for that.
WARM_UP_QUERY: Final = "ready?"
#: Share of the caller's waiting time within which the prompt's vector must be ready.
_VECTOR_WAIT_SHARE: Final = 0.5
#: Maximum characters of a candidate's text in an explanation.
_MAX_EXPLAINED_CHARS: Final = 200


class ContextResult(Struct, frozen=True, kw_only=True):
    """The block for a request, and how it was made.

    Attributes:
        request: None if retrieval is switched off.
        block: the text with the verdict on each candidate; empty if nothing is injected.
        notices: what a source could not do.
        milliseconds: time from the request to the text.
    """

    request: ContextRequest | None
    block: Block
    notices: tuple[str, ...] = ()
    milliseconds: float = 0.0


def build_and_log_text(parts: Parts, event: Event, project: str) -> str:
    """The block for this event; logged unless retrieval is switched off."""
    return build_and_log(parts, event, project).block.text


def build_and_log(parts: Parts, event: Event, project: str) -> ContextResult:
    """Build the block and log it as delivered; returns it with how it was made."""
    result = build_for_hook(parts, event, project)
    log(parts, result, delivered=True)
    return result


def build_for_hook(parts: Parts, event: Event, project: str, *, seconds: float | None = None) -> ContextResult:
    """Build the block without logging it.

    Args:
        seconds: how long the caller waits. If the prompt's vector is not ready after half of that, only keywords are
            searched.
    """
    if event.kind == "session_start":
        drain_spool_quickly(parts)
    limited = parts if seconds is None else parts.within(monotonic() + seconds * _VECTOR_WAIT_SHARE)
    result = preview(limited, event, project)
    if event.kind == "session_start":  # loads the model while the user is still typing
        parts.readers.submit(lambda _: parts.vectors.question(WARM_UP_QUERY))
    return result


def log(parts: Parts, result: ContextResult, *, delivered: bool) -> str:
    """Log a block built for a prompt or a start; returns the recall's id, empty if nothing is logged.

    Args:
        delivered: the caller is known to have the block. Otherwise it is logged as late and may be confirmed later.
    """
    request = result.request
    if request is None or not (request.occasion == "prompt" or result.block.text):
        return ""
    outcome: DeliveryOutcome = "empty" if not result.block.text else "delivered" if delivered else "late"
    if request.occasion == "prompt":
        parts.metrics.record_recall(result.block.items, result.milliseconds / 1000)
    row = _recall_row(result, request, new_id(parts.clock.now()), outcome)
    if outcome == "late":
        parts.writer.submit(lambda tx: Recalls(tx).add(row))
    else:
        written = parts.writer.submit(lambda tx: _write_log(parts, tx, row))
        written.add_done_callback(
            lambda future: None if future.exception() else _publish(parts.metrics, parts.bus, row)
        )
    return row.id


def confirm(parts: Parts, recall_id: str) -> None:
    """Mark a recall that was logged as late as delivered; any other id has no effect."""

    def write(tx: Tx) -> Recall | None:
        recalls = Recalls(tx)
        row = recalls.read(recall_id)
        if row is None or row.outcome != "late":
            return None
        recalls.deliver(recall_id)
        _record_usage(parts, tx, row)
        return row

    def publish(future: Future[Recall | None]) -> None:
        if not future.exception() and (row := future.result()) is not None:
            _publish(parts.metrics, parts.bus, row)

    parts.writer.submit(write).add_done_callback(publish)


def preview(parts: Parts, event: Event, project: str, *, overrides: Mapping[str, Any] | None = None) -> ContextResult:
    """What would be injected; nothing is stored or logged.

    Args:
        overrides: valid values of settings, used instead of those in effect.
    """
    started = monotonic()
    cleaned = clean_event(event, parts.redact)
    result = parts.readers.here(lambda tx: _build_in_tx(parts, tx, cleaned, project, overrides))
    return replace(result, milliseconds=(monotonic() - started) * 1000)


def collect_candidates(parts: Parts, tx: Tx, request: ContextRequest, table: SourceTable) -> list[Candidate]:
    """The candidates of all sources in a table; a failing source is left out with a notice."""
    for name, source in table.items():
        # A failing source must not stop the others.
        with logged(_LOG, "The source %r failed and was left out.", name) as attempt:
            request.offered.extend(source(parts, tx, request))
        if attempt.failed:
            request.notices.append(f"{name} failed and was left out")
    return request.offered


def render_options_for(request: ContextRequest, *, dated: bool = False) -> RenderOptions:
    """The selection and rendering options for a request."""
    settings = request.settings
    return RenderOptions(
        occasion=request.occasion,
        language=request.language,
        budget=settings.budget,
        limits={"memories": settings.auto_retrieve_max_results} if request.occasion == "prompt" else {},
        minimum=settings.auto_retrieve_min_score,
        now=request.now,
        dated=dated,
    )


def result_json(result: ContextResult, *, explained: bool = False) -> dict[str, Any]:
    """The response body: the text and its items; with `explained`, also every candidate with its reason."""
    injected = [verdict for verdict in result.block.verdicts if verdict.injected]
    body: dict[str, Any] = {
        "context": result.block.text,
        "memories": [_item_json(verdict, result.request) for verdict in injected if verdict.candidate.kind != "note"],
        "notes": [
            {"path": verdict.candidate.id, "content": verdict.candidate.text}
            for verdict in injected
            if verdict.candidate.kind == "note"
        ],
        "notices": list(result.notices),
    }
    if explained:
        body["enabled"] = result.request is not None
        body["language"] = result.request.language if result.request else ""
        body["tokens"] = result.block.tokens
        body["latency_ms"] = round(result.milliseconds, 3)
        body["candidates"] = [
            verdict.recall_item().to_json()
            | {
                "content": shortened(neutralise(verdict.candidate.text[:MAX_ITEM]), _MAX_EXPLAINED_CHARS),
                "channel": verdict.candidate.source or "",
            }
            for verdict in result.block.verdicts
        ]
    return body


def _build_in_tx(
    parts: Parts, tx: Tx, event: Event, project: str, overrides: Mapping[str, Any] | None
) -> ContextResult:
    settings = parts.settings(tx, event.cwd).model_copy(update=overrides)
    if not settings.auto_retrieve_enabled:
        return ContextResult(request=None, block=Block())
    request = _request(parts, tx, event, project, settings)
    if request.opening == "resume" and Recalls(tx).began(request.host, request.session, request.compacted):
        # The agent's context still has the block of the session's start.
        return ContextResult(request=request, block=Block())
    candidates = collect_candidates(parts, tx, request, _sources_for(request))
    if request.occasion == "start":
        candidates = _without_repeats(candidates)
    candidates = _with_newer(parts, tx, request, _attributed(tx, request, candidates))
    return ContextResult(
        request=request, block=build_block(candidates, render_options_for(request)), notices=tuple(request.notices)
    )


#: What ends the label of a line on where the work stands, and the title of a thread.
_LABEL_ENDS: Final[Mapping[str, str]] = {"synthesis": ": ", "threads": " — "}


def _without_repeats(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Leave out the lines on the work that say only what the memories beside them say."""
    told = frozenset[str]().union(
        *(
            topic_words(candidate.text)
            for candidate in candidates
            if not candidate.refused and candidate.section not in (*_LABEL_ENDS, "questions")
        )
    )

    def repeats(candidate: Candidate) -> bool:
        own = topic_words(candidate.text.partition(_LABEL_ENDS[candidate.section])[2] or candidate.text)
        return bool(own) and own <= told

    return [
        replace(candidate, refused="covered by a memory")
        if candidate.section in _LABEL_ENDS and not candidate.refused and repeats(candidate)
        else candidate
        for candidate in candidates
    ]


#: Around the words of an agent that the user agreed to; without it they would pass for the user's own.
_AGREED: Final[Mapping[Language, str]] = {
    "en": "I agreed with the agent: “{}”",
    "fr": "D'accord avec l'agent : « {} »",
    "es": "De acuerdo con el agente: «{}»",
}


def _attributed(tx: Tx, request: ContextRequest, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Say of the memories in an agent's words that the user only agreed to them."""
    agreed = _agreed(tx, [candidate.id for candidate in candidates if not candidate.refused and candidate.verified])
    return [
        replace(candidate, text=_agreed_words(candidate.text, request.language))
        if candidate.id in agreed
        else candidate
        for candidate in candidates
    ]


def _agreed(tx: Tx, ids: Sequence[str]) -> set[str]:
    if not ids:
        return set()
    return {row["memory_id"] for row in tx.all("evidence.of_agents", {"ids": json.dumps(ids)})}


def _agreed_words(text: str, language: Language) -> str:
    return _AGREED[language].format(shortened(text, MAX_ITEM - len(_AGREED[language])))


#: Before the words of a newer memory on the line of an older one; true whether it replaced the older one or not.
_LATER: Final[Mapping[Language, str]] = {"en": "later:", "fr": "plus tard :", "es": "más tarde:"}


def _with_newer(
    parts: StoreContext, tx: Tx, request: ContextRequest, candidates: Sequence[Candidate]
) -> list[Candidate]:
    """Put behind each memory, on its line, the newer one that may have replaced it.

    If the newer one has a line of its own, the older one is left out.
    """
    shown = {candidate.id for candidate in candidates if not candidate.refused}
    newer_of = Doubts(tx).newer(shown)
    unshown = parts.memories(tx).known([newer for newer in newer_of.values() if newer not in shown])
    added = {memory.id: memory for memory in unshown if may_be_shown(memory, request)}
    agreed = _agreed(tx, [memory.id for memory in added.values() if memory.trust >= USER_TRUST])

    def adapted(candidate: Candidate) -> Candidate:
        if candidate.id in added:
            return replace(candidate, refused="shown on another memory's line")
        if candidate.id not in newer_of:
            return candidate
        newer = newer_of[candidate.id]
        if newer in shown:
            return replace(candidate, refused=DOUBTED)
        if newer not in added:
            return candidate
        return _followed_by(candidate, added[newer], request.language, is_agreed=newer in agreed)

    return [adapted(candidate) for candidate in candidates]


def _followed_by(older: Candidate, newer: Memory, language: Language, *, is_agreed: bool) -> Candidate:
    if shown_text(newer) in older.text:
        return older
    words = shortened(shown_text(newer), MAX_ITEM // 2)
    later = f" ({_LATER[language]} {_agreed_words(words, language) if is_agreed else words})"
    return replace(
        older,
        text=shortened(older.text, MAX_ITEM - len(later)) + later,
        verified=older.verified and newer.trust >= USER_TRUST,
    )


def _sources_for(request: ContextRequest) -> SourceTable:
    if request.occasion == "start":
        return AT_START
    if asked_period(request.prompt):
        return ASKED_BACK
    return BEFORE_PROMPT if len(request.prompt.strip()) >= MIN_PROMPT else {}


def _request(parts: StoreContext, tx: Tx, event: Event, project: str, settings: Settings) -> ContextRequest:
    is_start = event.kind == "session_start"
    prompt = "" if is_start else str(event.data.get("text") or "")
    return ContextRequest(
        occasion="start" if is_start else "prompt",
        host=event.host,
        session=event.session,
        project=project or None,
        user=event.user or LOCAL_USER,
        agent=(event.agent or event.host) if settings.isolation else None,
        prompt=prompt,
        opening=str(event.data.get("source") or "startup") if is_start else "",
        settings=settings,
        language=_language(parts, tx, event, project, prompt, settings),
        now=parts.clock.now(),
        compacted=_compacted(tx, event),
        folder=event.project,
    )


def _compacted(tx: Tx, event: Event) -> str:
    row = tx.one("events.compacted", {"host": event.host, "session_id": event.session})
    return (row or {}).get("at") or ""


def _language(parts: StoreContext, tx: Tx, event: Event, project: str, prompt: str, settings: Settings) -> Language:
    if settings.language != "auto":
        return settings.language
    turns = parts.turns(tx)
    texts = turns.last_user_texts(event.host, event.session) or turns.last_user_texts_of_project(project or None)
    earlier_texts = [text for text in reversed(texts) if text != prompt]
    return detect_language([*earlier_texts, prompt] if prompt else earlier_texts, "en")


def _write_log(parts: StoreContext, tx: Tx, row: Recall) -> None:
    Recalls(tx).add(row)
    _record_usage(parts, tx, row)


def _record_usage(parts: StoreContext, tx: Tx, row: Recall) -> None:
    """Count the injected tokens, and each memory injected for a prompt as used. Session starts do not count as use."""
    if row.tokens_added:
        LlmUsage(tx).add_recall(row.channel, row.tokens_added, row.at)
    if row.preview != START_PREVIEW:
        parts.memories(tx).used([item.id for item in row.items if item.injected], row.at)


def _recall_row(result: ContextResult, request: ContextRequest, id_: str, outcome: DeliveryOutcome) -> Recall:
    return Recall(
        id=id_,
        at=request.now,
        channel=request.host,
        session=request.session,
        project=request.project,
        preview=(request.prompt or START_PREVIEW)[:100],
        memories_injected=result.block.memories,
        notes_injected=result.block.notes,
        tokens_added=result.block.tokens,
        items=result.block.items,
        notices=result.notices,
        nonce=result.block.nonce,
        latency_ms=round(result.milliseconds, 3),
        outcome=outcome,
    )


def _publish(metrics: Metrics, bus: Bus, row: Recall) -> None:
    message = RecallInjected(
        id=row.id,
        channel=row.channel,
        session_id=row.session,
        project=row.project,
        memories=row.memories_injected,
        notes=row.notes_injected,
        tokens=row.tokens_added,
        latency_ms=row.latency_ms,
        at=to_text(row.at),
    )
    metrics.count_injected("start" if row.preview == START_PREVIEW else "prompt", row.tokens_added)
    bus.publish(message)
    log_decision(message)


def _item_json(verdict: Verdict, request: ContextRequest | None) -> dict[str, Any]:
    """One injected item, in the form for programs that do their own injection."""
    candidate = verdict.candidate
    said = candidate.said if request else None
    return {
        "id": candidate.id,
        "content": candidate.text,
        "score": round(candidate.value, 4),
        "channel": candidate.source or "unknown",
        "timestamp": text_or_none(candidate.said),
        "time_ago": relative_date(said, request.now, request.language) if said and request else "",
        "type": "conversation"
        if candidate.kind == "turn"
        else "summary"
        if candidate.kind == "synthesis"
        else candidate.kind,
        "section": candidate.section,
        "verified": candidate.verified,
    }
