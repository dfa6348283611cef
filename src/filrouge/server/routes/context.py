"""HTTP routes of hooks and injection: deliver events, get the context for a prompt, and preview it.

The module also defines the response models for search hits and the recall log. A preview is not logged.
"""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field

from filrouge.capture.events import Event
from filrouge.capture.models import Role
from filrouge.context.models import Section
from filrouge.context.service import build_for_hook, confirm, log, preview, result_json
from filrouge.core.clock import Clock, new_id
from filrouge.memories.models import Kind
from filrouge.projects.repository import resolve_project
from filrouge.search.models import DeliveryOutcome
from filrouge.server.admission import requires
from filrouge.server.live import Confirmation, Delivery, handle_delivery
from filrouge.server.responses import Answer, Body, parts_of, read_in_tx, response_model, run_recall
from filrouge.server.routes.threads import ThreadAnswer

# Response models.


class Success(Answer):
    """The request succeeded."""

    success: Literal[True]


class HitAnswer(Answer):
    """A turn or memory that was found, with each part of its score."""

    id: str
    content: str
    channel: str
    branch: str = Field(description="The git branch that was checked out when it was said; may be empty.")
    type: Kind | Literal["turn"]
    role: Role | None = Field(description="Who said it; null for a memory.")
    project: str | None
    project_name: str
    created_at: str
    boosts: dict[str, float] = Field(description="What each feature added to the score, by name.")
    bm25_score: float
    vector_score: float
    score: float = Field(description="The results are ordered by it; comparable only within one search.")
    similarity: float | None = Field(description="Calibrated cosine; null if there is no vector.")
    coverage: float
    relevance: float = Field(ge=0, le=1, description="The probability that it answers the query.")


class ThreadHitAnswer(ThreadAnswer):
    """A thread that was found."""

    type: Literal["thread"]
    content: str
    score: float
    bm25_score: float
    vector_score: float
    similarity: float | None
    words: list[str]
    why: str


class ResultAnswer(HitAnswer):
    """A memory that was found, with additional field names for client programs."""

    text: str
    source: str
    similarity: float  # pyright: ignore[reportIncompatibleVariableOverride]


class SearchAnswer(Answer):
    """The result of a recall query."""

    results: list[ResultAnswer]
    notices: list[str]
    known: float = Field(ge=0, le=1, description="The probability that anything about the question is known.")
    nothing_known: bool
    message: str = Field(
        description="A sentence that nothing is known, in the language of the settings or the question; else empty."
    )


class StatsAnswer(Answer):
    """The counts on the memory page."""

    factsCount: int = Field(ge=0)  # noqa: N815 (the names of the page)
    messagesCount: int = Field(ge=0)  # noqa: N815
    vectorsCount: int = Field(ge=0)  # noqa: N815
    lastIndexedAt: str | None  # noqa: N815


class CandidateAnswer(Answer):
    """A candidate for a block: whether it was included and why, and the scores from its source."""

    id: str
    kind: str
    injected: bool
    reason: str
    section: Section
    value: float = Field(description="The probability that it helps.")
    boosts: dict[str, float] | None = None
    bm25_score: float | None = None
    vector_score: float | None = None
    score: float | None = None
    similarity: float | None = None
    coverage: float | None = None
    relevance: float | None = None
    known: float | None = None
    bears: float | None = None
    state: str | None = None
    tie: str | None = None
    work: list[str] | None = None
    strength: float | None = None
    text: str | None = Field(None, description="With `texts`: its beginning as it is now.")
    channel: str | None = Field(None, description="In a preview or with `texts`: where it is from.")


class LoggedRecall(Answer):
    """What every row of the recall log contains, besides its items."""

    id: str
    channel: str
    user_message_preview: str
    memories_injected: int = Field(ge=0)
    obsidian_notes_injected: int = Field(ge=0)
    total_tokens_added: int = Field(ge=0)
    omitted: dict[str, int] = Field(description="The number of candidates that are not listed, by reason.")
    notices: list[str]
    latency_ms: float
    created_at: str
    outcome: DeliveryOutcome = Field(description="Delivered, late (the agent had already continued), or empty.")


class RetrievalAnswer(LoggedRecall):
    """One row of the recall log."""

    items: list[CandidateAnswer]


class GivenMemory(Answer):
    """A memory in a block, for programs that inject context themselves."""

    id: str
    content: str
    score: float
    channel: str
    timestamp: str | None
    time_ago: str
    type: str
    section: Section
    verified: bool


class GivenNote(Answer):
    """A note in a block."""

    path: str
    content: str


class ContextAnswer(Answer):
    """The context for a prompt."""

    context: str = Field(description="The block; empty if nothing is relevant.")
    memories: list[GivenMemory]
    notes: list[GivenNote]
    notices: list[str]


class ShownCandidate(CandidateAnswer):
    """A candidate with the beginning of its text."""

    content: str


class PreviewAnswer(ContextAnswer):
    """The context, with every candidate and why it was included or not."""

    enabled: bool
    language: Literal["en", "fr", "es", ""]
    tokens: int = Field(ge=0)
    latency_ms: float
    candidates: list[ShownCandidate]


class DeliveredAnswer(Answer):
    """The result of delivering events."""

    accepted: int = Field(ge=0)
    duplicates: int = Field(ge=0)
    context: str
    recall: str = Field("", description="Send it to /hooks/delivered after printing the context; may be empty.")


# Hook routes: deliver events and get the context block in the same round trip.

hooks_router = APIRouter(tags=["hooks"])
memory_router = APIRouter(tags=["memory"])


@hooks_router.post("/hooks/events", responses=response_model(DeliveredAnswer))
async def hooks_deliver(delivery: Delivery, request: Request) -> Response:
    """Store events. The answer comes once they are on disk; with `context`, it contains the context for the model."""
    return await handle_delivery(parts_of(request), delivery, request.is_disconnected)


@hooks_router.post("/hooks/delivered", responses=response_model(Success))
async def hooks_delivered(confirmation: Confirmation, request: Request) -> dict[str, Any]:
    """Confirm that the agent received a context. Until then the recall is logged as late."""
    confirm(parts_of(request), confirmation.recall)
    return {"success": True}


class ContextBody(Body):
    """A prompt that is about to be sent to a model."""

    prompt: str
    channel: str = "api"
    session_id: str = ""
    user_id: str | None = Field(
        None, max_length=200, description="The user whose memory is queried; none = this daemon's user."
    )
    project: str | list[str] = Field(default_factory=list[str], description="A project's name, id, or several aliases.")

    agent_id: str | None = Field(
        None, max_length=200, description="The helper agent that the prompt is for; none = the main agent."
    )

    @property
    def names(self) -> list[str]:
        """Return the names of the project."""
        return [self.project] if isinstance(self.project, str) else self.project


class PreviewBody(ContextBody):
    """A prompt, or the start of a session, and where it occurs."""

    prompt: str = ""
    occasion: Literal["prompt", "start"] = "prompt"
    opening: Literal["startup", "resume", "clear", "compact", "fork"] = "startup"
    cwd: str = ""
    max_results: int | None = Field(None, ge=1, le=10, description="Used instead of `auto_retrieve_max_results`.")
    min_score: float | None = Field(None, ge=0, le=1, description="Used instead of `auto_retrieve_min_score`.")

    @property
    def overrides(self) -> dict[str, Any]:
        """Return the settings that this preview replaces."""
        given = {"auto_retrieve_max_results": self.max_results, "auto_retrieve_min_score": self.min_score}
        return {name: value for name, value in given.items() if value is not None}


@memory_router.post("/memory/context", responses=response_model(ContextAnswer))
async def injecting_context_of(body: ContextBody, request: Request) -> dict[str, Any]:
    """Return the context for a prompt. It consists of the text, and the memories and notes in it."""
    parts = parts_of(request)
    project = await read_in_tx(request, lambda tx: resolve_project(tx, body.names)[1] or "")
    event = _event(parts.clock, body, "prompt", {"text": body.prompt})
    result = await run_recall(parts.readers, lambda _: build_for_hook(parts, event, project))
    log(parts, result, delivered=not await request.is_disconnected())
    return result_json(result)


@memory_router.post("/api/memory/context/preview", responses=response_model(PreviewAnswer))
@requires("read")
async def injecting_preview_of(body: PreviewBody, request: Request) -> dict[str, Any]:
    """Preview the context that a hook would get. It lists every candidate and why it is in or out. It is not logged."""
    parts = parts_of(request)
    project = await read_in_tx(request, lambda tx: resolve_project(tx, body.names)[1] or "")
    if body.occasion == "start":
        event = _event(parts.clock, body, "session_start", {"source": body.opening}, body.cwd)
    else:
        event = _event(parts.clock, body, "prompt", {"text": body.prompt}, body.cwd)
    result = await run_recall(parts.readers, lambda _: preview(parts, event, project, overrides=body.overrides))
    return result_json(result, explained=True)


def _event(
    clock: Clock, body: ContextBody, kind: Literal["session_start", "prompt"], data: dict[str, Any], cwd: str = ""
) -> Event:
    now = clock.now()
    return Event(
        id=new_id(now),
        host=body.channel,
        kind=kind,
        session=body.session_id,
        at=now.timestamp(),
        key="",
        cwd=cwd,
        project=tuple(body.names),
        transcript="",
        agent=body.agent_id or "",
        data=data,
        user=body.user_id or "",
    )


ROUTERS = (hooks_router, memory_router)
