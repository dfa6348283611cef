"""The queue over HTTP: jobs and dead letters; and one recall of the log in full."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from filrouge.context.log import Recalls
from filrouge.core.errors import NotFound
from filrouge.runtime import worker
from filrouge.search.models import Outcome
from filrouge.server.access import elsewhere, parts_of, reading
from filrouge.server.paging import Cursor, behind, link_next
from filrouge.server.responses import Answer, answers
from filrouge.server.routes.facts import DoneAnswer
from filrouge.server.validation import JobId, RecallId

router = APIRouter(tags=["jobs"])
Limit = Annotated[int, Query(ge=1, le=1000)]


class JobAnswer(Answer):
    """One job. `error` names what it failed of last, `about` the ids of what it is about."""

    id: str
    kind: str
    state: Literal["queued", "running", "dead"]
    attempts: int
    deaths: int
    error: str
    created_at: str
    next_try: str | None
    about: dict[str, str]


class KindAnswer(Answer):
    """How many jobs of a kind are in a state."""

    kind: str
    state: str
    n: int


class QueueAnswer(Answer):
    """The queue."""

    waiting: int
    running: int
    dead: int
    kinds: list[KindAnswer]
    jobs: list[JobAnswer]


class RecallAnswer(Answer):
    """One row of the log of recalls; `items` as in `retrievals`."""

    id: str
    channel: str
    session_id: str
    project_id: str | None
    user_message_preview: str
    memories_injected: int
    obsidian_notes_injected: int
    total_tokens_added: int
    items: list[dict[str, Any]]
    omitted: dict[str, int] = Field(description="How many candidates are not listed, by the reason.")
    notices: list[str]
    latency_ms: float
    created_at: str
    outcome: Outcome = Field(description="Delivered, late (the agent had gone on before), or empty.")


_JOB = {
    "id": "01k0000000000000000000000a",
    "kind": "index_turn",
    "state": "dead",
    "attempts": 8,
    "deaths": 0,
    "error": "EmbedderUnavailable",
    "created_at": "2026-05-01T12:30:00.000000Z",
    "next_try": None,
    "about": {"turn": "01k0000000000000000000000b"},
}


@router.get(
    "/api/memory/jobs",
    responses=answers(
        QueueAnswer,
        example={
            "waiting": 0,
            "running": 0,
            "dead": 1,
            "kinds": [{"kind": "index_turn", "state": "dead", "n": 1}],
            "jobs": [_JOB],
        },
    ),
)
async def jobs(
    request: Request,
    response: Response,
    state: Literal["queued", "running", "dead"] | None = None,
    kind: str | None = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> dict[str, Any]:
    """The queue in counts, and its jobs, oldest first."""
    place = behind(cursor) or 0
    body, following = await reading(
        request, lambda tx: worker.jobs(tx, state=state, kind=kind, behind=place, limit=limit)
    )
    link_next(request, response, following)
    return body


@router.get("/api/memory/dead-letters", responses=answers(list[JobAnswer], example=[_JOB]))
async def letters(
    request: Request, response: Response, limit: Limit = 100, cursor: Cursor = None
) -> list[dict[str, Any]]:
    """The jobs that failed too often and were set aside, oldest first. Answers of models that nobody could read are
    listed by `GET /extract/dead-letters`."""
    place = behind(cursor) or 0
    found, following = await reading(request, lambda tx: worker.dead_jobs(tx, behind=place, limit=limit))
    link_next(request, response, following)
    return found


@router.post("/api/memory/dead-letters/{job_id}/retry", responses=answers(DoneAnswer, example={"success": True}))
async def retry(job_id: JobId, request: Request) -> dict[str, Any]:
    """Do it again, as if it was never tried."""
    parts = parts_of(request)
    await elsewhere(lambda: worker.retry(parts, job_id))
    return {"success": True}


@router.delete("/api/memory/dead-letters/{job_id}", responses=answers(DoneAnswer, example={"success": True}))
async def discard(job_id: JobId, request: Request) -> dict[str, Any]:
    """Give it up; what it was about stays as it is."""
    parts = parts_of(request)
    await elsewhere(lambda: worker.discard(parts, job_id))
    return {"success": True}


@router.get(
    "/api/memory/recalls/{recall_id}",
    responses=answers(
        RecallAnswer,
        example={
            "id": "01k0000000000000000000000a",
            "channel": "claude-code",
            "session_id": "s-1",
            "project_id": None,
            "user_message_preview": "Which port does staging listen on?",
            "memories_injected": 0,
            "obsidian_notes_injected": 0,
            "total_tokens_added": 0,
            "items": [],
            "omitted": {},
            "notices": [],
            "latency_ms": 4.2,
            "created_at": "2026-05-01T12:30:00.000000Z",
            "outcome": "empty",
        },
    ),
)
async def recall(recall_id: RecallId, request: Request) -> dict[str, Any]:
    """One recall with what was injected for it, and the best candidates that were not."""
    found = await reading(request, lambda tx: Recalls(tx).get(recall_id))
    if found is None:
        raise NotFound(f"There is no recall {recall_id!r}.", remedy="See `GET /api/memory/retrievals`.")
    return found
