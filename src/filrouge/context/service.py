"""Injection: what goes in front of a model when a session starts and before a prompt.

A moment is made of the event, the sources of its table are asked within one reading transaction, their pieces are
planned and written together, and what came of each is logged. It is automatic, so it sees the current project and the
user's own memories, nothing else. A source that fails is left out with a notice, and the rest goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, Final

from filrouge.capture.events import Event
from filrouge.capture.intake import cleaned
from filrouge.capture.service import take_in_few
from filrouge.context.budget import SHORTEST_PROMPT, Block, Manner, Verdict, planned
from filrouge.context.intents import asks_back
from filrouge.context.log import Recalls
from filrouge.context.models import Piece
from filrouge.context.rendering import LONGEST_ITEM, neutral, shortened
from filrouge.context.request import Moment
from filrouge.context.sources import ASKED_BACK, AT_START, BEFORE_PROMPT, Table
from filrouge.context.turn_candidates import compacted
from filrouge.core.clock import Language, ago, monotonic, new_id, to_text
from filrouge.core.protocols import Tx
from filrouge.core.scope import LOCAL_USER
from filrouge.core.settings import Settings
from filrouge.extraction.summaries import vote
from filrouge.memories.repository import DOUBTED, Doubts
from filrouge.providers.usage_repository import LlmUsage
from filrouge.runtime.feed_messages import RecallInjected
from filrouge.runtime.journal import record
from filrouge.runtime.services import Parts
from filrouge.search.models import START_PREVIEW, Outcome, Recall

_LOG = logging.getLogger(__name__)
#: A text nobody asks: whoever embeds it first pays for loading the model.
READY: Final = "ready?"
#: Of the time that a caller waits, the share in which the prompt's vector must be there.
_SHARE_FOR_MEANING: Final = 0.5
#: Characters of a candidate that an explanation shows.
_SHOWN: Final = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class Given:
    """What goes in front of a model at a moment, and how it came about.

    Attributes:
        moment: None where retrieval is switched off, and nobody was asked.
        milliseconds: from the request to the text.
    """

    moment: Moment | None
    block: Block
    notices: tuple[str, ...] = ()
    milliseconds: float = 0.0


def context(parts: Parts, event: Event, project: str) -> str:
    """The block that belongs in front of the model at this event; logged unless retrieval is off."""
    return inject(parts, event, project).block.text


def inject(parts: Parts, event: Event, project: str) -> Given:
    """The same with how it came about, logged as delivered."""
    given = prepare(parts, event, project)
    log(parts, given, delivered=True)
    return given


def prepare(parts: Parts, event: Event, project: str, *, seconds: float | None = None) -> Given:
    """Make the block, and log nothing yet.

    Args:
        seconds: how long the caller waits for it. After half of that the prompt is searched by words alone.
    """
    if event.kind == "session_start":
        take_in_few(parts)
    hurried = parts if seconds is None else parts.within(monotonic() + seconds * _SHARE_FOR_MEANING)
    given = preview(hurried, event, project)
    if event.kind == "session_start":  # loads the model while the user is typing, and not while the host waits
        parts.readers.submit(lambda _: parts.meaning.question(READY))
    return given


def log(parts: Parts, given: Given, *, delivered: bool) -> str:
    """Log what was made for a prompt or a start; returns the id in the log, empty where nothing is logged.

    Args:
        delivered: the caller is known to have the block. One that is logged as late may still be confirmed.
    """
    moment = given.moment
    if moment is None or not (moment.occasion == "prompt" or given.block.text):
        return ""
    outcome: Outcome = "empty" if not given.block.text else "delivered" if delivered else "late"
    if moment.occasion == "prompt":
        parts.meters.recalled(given.block.items, given.milliseconds / 1000)
    row = _row(given, moment, new_id(parts.clock.now()), outcome)
    if outcome == "late":
        parts.writer.submit(lambda tx: Recalls(tx).add(row))
    else:
        logged = parts.writer.submit(lambda tx: _logged(parts, tx, row))
        logged.add_done_callback(lambda future: None if future.exception() else _tell(parts, row))
    return row.id


def confirm(parts: Parts, recall_id: str) -> None:
    """Note that the block of a recall which was logged as late was delivered after all; any other id does nothing."""

    def write(tx: Tx) -> Recall | None:
        recalls = Recalls(tx)
        row = recalls.read(recall_id)
        if row is None or row.outcome != "late":
            return None
        recalls.deliver(recall_id)
        _count(parts, tx, row)
        return row

    def tell(future: Future[Recall | None]) -> None:
        if not future.exception() and (row := future.result()) is not None:
            _tell(parts, row)

    parts.writer.submit(write).add_done_callback(tell)


def preview(parts: Parts, event: Event, project: str) -> Given:
    """What would be injected, and no trace of it."""
    began = monotonic()
    given = parts.readers.here(lambda tx: _given(parts, tx, cleaned(event, parts.redact), project))
    return replace(given, milliseconds=(monotonic() - began) * 1000)


def gathered(parts: Parts, tx: Tx, moment: Moment, table: Table) -> list[Piece]:
    """The pieces of all sources of a table; one that fails is left out with a notice."""
    for name, source in table.items():
        try:
            moment.offered.extend(source(parts, tx, moment))
        except Exception:  # whatever one source meets, the others still have something to say
            _LOG.exception("The source %r failed and was left out.", name)
            moment.notices.append(f"{name} failed and was left out")
    return moment.offered


def manner_of(moment: Moment, *, dated: bool = False) -> Manner:
    """How what was gathered for a moment is chosen and written."""
    settings = moment.settings
    return Manner(
        occasion=moment.occasion,
        language=moment.language,
        budget=settings.budget,
        now=moment.now,
        least=settings.auto_retrieve_min_score,
        limits={"memories": settings.auto_retrieve_max_results} if moment.occasion == "prompt" else {},
        dated=dated,
    )


def given_json(given: Given, *, explained: bool = False) -> dict[str, Any]:
    """The body of a route: the text, and what is in it; with every candidate where it is to be explained."""
    inside = [verdict for verdict in given.block.verdicts if verdict.injected]
    body: dict[str, Any] = {
        "context": given.block.text,
        "memories": [_shown(one, given.moment) for one in inside if one.piece.kind != "note"],
        "notes": [{"path": one.piece.id, "content": one.piece.text} for one in inside if one.piece.kind == "note"],
        "notices": list(given.notices),
    }
    if explained:
        body["enabled"] = given.moment is not None
        body["language"] = given.moment.language if given.moment else ""
        body["tokens"] = given.block.tokens
        body["latency_ms"] = round(given.milliseconds, 3)
        body["candidates"] = [
            one.logged().to_json() | {"content": shortened(neutral(one.piece.text[:LONGEST_ITEM]), _SHOWN)}
            for one in given.block.verdicts
        ]
    return body


def _given(parts: Parts, tx: Tx, event: Event, project: str) -> Given:
    settings = parts.settings(tx, event.cwd)
    if not settings.auto_retrieve_enabled:
        return Given(moment=None, block=Block())
    moment = _moment(parts, tx, event, project, settings)
    if moment.opening == "resume" and Recalls(tx).began(moment.host, moment.session, compacted(tx, moment)):
        return Given(moment=moment, block=Block())  # the block of its first start is still in its context
    pieces = _undoubted(tx, gathered(parts, tx, moment, _table(moment)))
    return Given(moment=moment, block=planned(pieces, manner_of(moment)), notices=tuple(moment.notices))


def _undoubted(tx: Tx, pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces, less the memories of which a newer one among them perhaps took the place."""
    doubted = Doubts(tx).among([piece.id for piece in pieces if not piece.refused])
    return [replace(one, refused=DOUBTED) if one.id in doubted else one for one in pieces]


def _table(moment: Moment) -> Table:
    if moment.occasion == "start":
        return AT_START
    if asks_back(moment.prompt):
        return ASKED_BACK
    return BEFORE_PROMPT if len(moment.prompt.strip()) >= SHORTEST_PROMPT else {}


def _moment(parts: Parts, tx: Tx, event: Event, project: str, settings: Settings) -> Moment:
    starts = event.kind == "session_start"
    prompt = "" if starts else str(event.data.get("text") or "")
    return Moment(
        occasion="start" if starts else "prompt",
        host=event.host,
        session=event.session,
        project=project or None,
        user=event.user or LOCAL_USER,
        agent=(event.agent or event.host) if settings.isolation else None,
        prompt=prompt,
        opening=str(event.data.get("source") or "startup") if starts else "",
        settings=settings,
        language=_language(parts, tx, event, project, prompt, settings),
        now=parts.clock.now(),
        folder=event.project,
    )


def _language(parts: Parts, tx: Tx, event: Event, project: str, prompt: str, settings: Settings) -> Language:
    if settings.language != "auto":
        return settings.language
    turns = parts.turns(tx)
    said = turns.last_user_texts(event.host, event.session) or turns.last_user_texts_of_project(project or None)
    before = [text for text in reversed(said) if text != prompt]
    return vote([*before, prompt] if prompt else before, "en")


def _logged(parts: Parts, tx: Tx, row: Recall) -> None:
    Recalls(tx).add(row)
    _count(parts, tx, row)


def _count(parts: Parts, tx: Tx, row: Recall) -> None:
    """Count what an agent got. What a prompt called up was used; what every start brings was not asked for."""
    if row.tokens_added:
        LlmUsage(tx).recalled(row.channel, row.tokens_added, row.at)
    if row.preview != START_PREVIEW:
        parts.memories(tx).used([item.id for item in row.items if item.injected], row.at)


def _row(given: Given, moment: Moment, id_: str, outcome: Outcome) -> Recall:
    return Recall(
        id=id_,
        at=moment.now,
        channel=moment.host,
        session=moment.session,
        project=moment.project,
        preview=(moment.prompt or START_PREVIEW)[:100],
        memories_injected=given.block.memories,
        notes_injected=given.block.notes,
        tokens_added=given.block.tokens,
        items=given.block.items,
        notices=given.notices,
        nonce=given.block.nonce,
        latency_ms=round(given.milliseconds, 3),
        outcome=outcome,
    )


def _tell(parts: Parts, row: Recall) -> None:
    told = RecallInjected(
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
    parts.meters.injected("start" if row.preview == START_PREVIEW else "prompt", row.tokens_added)
    parts.bus.publish(told)
    record(told)


def _shown(verdict: Verdict, moment: Moment | None) -> dict[str, Any]:
    """One memory as a program wants it that injects by itself."""
    piece = verdict.piece
    said = piece.said if moment else None
    return {
        "id": piece.id,
        "content": piece.text,
        "score": round(piece.value, 4),
        "channel": piece.source or "unknown",
        "timestamp": to_text(piece.said) if piece.said else None,
        "time_ago": ago(said, moment.now, moment.language) if said and moment else "",
        "type": "conversation" if piece.kind == "turn" else "summary" if piece.kind == "synthesis" else piece.kind,
        "section": piece.section,
        "verified": piece.verified,
    }
