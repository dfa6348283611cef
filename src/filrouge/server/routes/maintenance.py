"""HTTP routes for consolidation (the garden), backups, the job queue and metrics.

The module also defines the response models of the forget routes (`erasure`). There is no route to restore a backup,
because no daemon may run during a restore; the command line does it.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import PlainTextResponse
from pydantic import Field

from filrouge.context.log import Recalls
from filrouge.core.clock import Language
from filrouge.core.errors import NotFound
from filrouge.core.protocols import Tx
from filrouge.erasure.models import Effect, MatchReason
from filrouge.maintenance import backup_service, garden_service, health
from filrouge.maintenance.consolidation import GardenState, Phase, Status, StepKind, Trigger
from filrouge.maintenance.garden_service import ConsolidationRuns
from filrouge.runtime import jobs
from filrouge.runtime.metrics import CONTENT_TYPE
from filrouge.server.admission import requires
from filrouge.server.middleware import GardenId, JobId, RecallId
from filrouge.server.queries import Cursor, WithTexts, link_next, number_in
from filrouge.server.responses import Answer, Body, in_thread, parts_of, read_in_tx, response_model
from filrouge.server.routes import daemon
from filrouge.server.routes.context import LoggedRecall
from filrouge.server.routes.daemon import BackupAnswer, BackupsAnswer
from filrouge.server.routes.memories import DoneAnswer

# Response models of the garden and of forgetting.


class GardenDone(Answer):
    """How many steps are done, and how many there are."""

    done: int
    total: int


class GardenAnswer(Answer):
    """A consolidation run."""

    id: str
    occasion: Trigger
    state: GardenState
    error: str
    started_at: str
    ended_at: str | None
    counts: dict[StepKind, int]
    steps: GardenDone
    totals: dict[str, int]


class EstimateAnswer(Answer):
    """The estimated duration of a run, in seconds: minimum and maximum."""

    seconds: list[float] = Field(min_length=2, max_length=2)
    from_past_runs: bool


class StepAnswer(Answer):
    """One step of a plan, with the ids it applies to."""

    kind: StepKind
    subject: dict[str, Any]
    told: str


class PlanAnswer(Answer):
    """What a run would do."""

    counts: dict[StepKind, int]
    memories_until: int
    left: int
    estimate: EstimateAnswer
    steps: list[StepAnswer]
    text: str
    question: str


class PlannedAnswer(Answer):
    """A plan, and the run that was started for it; null if none was started."""

    garden: GardenAnswer | None
    plan: PlanAnswer


class ProgressPayload(Answer):
    """The progress of a run."""

    session_id: str
    current: int
    total: int
    phase: Phase
    status: Status
    consolidated_sessions: int | None = None
    new_items: int | None = None


class ProgressMessage(Answer):
    """A progress message of a run as it was sent over the WebSocket, with its label."""

    type: Literal["ws:memory_progress"]
    payload: ProgressPayload
    label: str


class ProgressAnswer(Answer):
    """A run with its messages. `next` is the `after` of the next request."""

    garden: GardenAnswer
    messages: list[ProgressMessage]
    next: int


class DoomedRow(Answer):
    """A row that would be erased or emptied."""

    table: str
    id: str
    deed: Effect
    how: MatchReason
    excerpt: str
    relevance: float | None


class CopyAnswer(Answer):
    """A backup that contains matching rows, with their number per table."""

    name: str
    rows: dict[str, int]


Counts = dict[str, dict[Effect, int]]


class ForgetPreview(Answer):
    """Every row that forgetting would change, and a token that permits exactly that."""

    token: str
    counts: Counts
    rows: list[DoomedRow]
    shared: list[str]
    rebuilt: list[str]
    backups: list[CopyAnswer]
    notices: list[str]
    not_promised: list[str]


class SearchedAnswer(Answer):
    """The result of the search that follows forgetting."""

    left: dict[str, Any]
    repeated: dict[str, Any]
    inside_other_words: list[str] | None = None
    texts_in_rows: int
    texts_in_files: int
    texts: int


class DeedSeconds(Answer):
    """The duration of each part, in seconds."""

    rows: float
    files: float
    backups: float
    search: float


class ReceiptAnswer(Answer):
    """What was forgotten, in counts. A field that is missing is not finished yet."""

    receipt: str
    at: str
    actor: str
    counts: Counts
    rebuilt: list[str]
    not_promised: list[str]
    log_emptied: bool | None = None
    ok: bool | None = None
    files: list[str] | None = None
    backups: list[dict[str, Any]] | None = None
    searched: SearchedAnswer | None = None
    seconds: DeedSeconds | None = None
    signature: str


class KeptReceipt(ReceiptAnswer):
    """A receipt, and whether its signature is valid."""

    signature_holds: bool


# Consolidation: plan a run, start it, follow it.

garden_router = APIRouter(tags=["garden"])
backups_router = APIRouter(tags=["backups"])
jobs_router = APIRouter(tags=["jobs"])
daemon_router = APIRouter(tags=["daemon"])


class GardenBody(Body):
    """Whether to return the plan only."""

    dry_run: bool = False


@garden_router.post(
    "/api/memory/gardens", responses=response_model(PlannedAnswer) | response_model(PlannedAnswer, status=202)
)
async def gardens_begin(request: Request, response: Response, body: GardenBody | None = None) -> dict[str, Any]:
    """Plan a consolidation run and start it. The answer comes at once (202). If there is nothing to do, or for a dry
    run, it contains only the plan (200). 409 while another run is active."""
    parts = parts_of(request)
    language = await in_thread(partial(garden_service.display_language, parts))
    if body is not None and body.dry_run:
        found = await in_thread(lambda: garden_service.plan(parts))
        return {"garden": None, "plan": found.to_json(language)}
    started = await in_thread(lambda: garden_service.begin(parts))
    garden_id = started.garden_id
    if garden_id is None:
        return {"garden": None, "plan": started.plan.to_json(language)}
    response.status_code = 202
    garden = await read_in_tx(request, lambda tx: garden_service.run_to_json(tx, ConsolidationRuns(tx).get(garden_id)))
    return {"garden": garden, "plan": started.plan.to_json(language)}


@garden_router.get("/api/memory/gardens", responses=response_model(list[GardenAnswer]))
async def gardens_gardens(request: Request, limit: Annotated[int, Query(ge=1, le=200)] = 20) -> list[dict[str, Any]]:
    """List the latest runs, newest first."""
    return await read_in_tx(
        request, lambda tx: [garden_service.run_to_json(tx, run) for run in ConsolidationRuns(tx).newest(limit)]
    )


@garden_router.get("/api/memory/gardens/{garden_id}", responses=response_model(GardenAnswer))
async def gardens_garden(request: Request, garden_id: GardenId) -> dict[str, Any]:
    """Return one run with its progress and its results so far."""
    return await read_in_tx(request, lambda tx: garden_service.run_to_json(tx, ConsolidationRuns(tx).get(garden_id)))


@garden_router.get("/api/memory/gardens/{garden_id}/progress", responses=response_model(ProgressAnswer))
async def gardens_progress(
    request: Request,
    garden_id: GardenId,
    after: Annotated[int, Query(ge=0)] = 0,
    language: Annotated[Language | None, Query(description="Of the labels; by default the user's.")] = None,
) -> dict[str, Any]:
    """List the progress messages of a run after the first `after`. They are as they were sent over the WebSocket, each
    with its label. `next` is the `after` of the next request."""
    parts = parts_of(request)
    return await read_in_tx(request, lambda tx: garden_service.progress(parts, tx, garden_id, after, language))


# Backups: make and list. Restoring is a command, because no daemon may run meanwhile.


@backups_router.post("/api/memory/backups", status_code=201, responses=response_model(BackupAnswer, status=201))
@requires("admin")
async def backups_make(request: Request) -> dict[str, Any]:
    """Make a backup and verify it. The answer comes when it is finished."""
    parts = parts_of(request)
    return await in_thread(lambda: backup_service.backup_now(parts))


@backups_router.get("/api/memory/backups", responses=response_model(BackupsAnswer))
async def backups_listed(request: Request) -> dict[str, Any]:
    """List every backup, newest first. The answer includes the error of the last backup if it failed."""
    parts = parts_of(request)
    return await in_thread(lambda: backup_service.backup_report(parts.home))


# The queue: jobs and dead letters; and one recall of the log in full.

Limit = Annotated[int, Query(ge=1, le=1000)]


class JobAnswer(Answer):
    """One job. `error` names the last error, `about` the ids of its subject."""

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
    """The number of jobs of one kind in one state."""

    kind: str
    state: str
    n: int


class QueueAnswer(daemon.QueueCounts):
    """The job queue."""

    kinds: list[KindAnswer]
    jobs: list[JobAnswer]


class RecallAnswer(LoggedRecall):
    """One row of the recall log; `items` is the same as in `retrievals`."""

    session_id: str
    project_id: str | None
    items: list[dict[str, Any]]


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


@jobs_router.get(
    "/api/memory/jobs",
    responses=response_model(
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
async def jobs_jobs(
    request: Request,
    response: Response,
    state: Literal["queued", "running", "dead"] | None = None,
    kind: str | None = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> dict[str, Any]:
    """Return the queue's counts and its jobs, oldest first."""
    after = number_in(cursor) or 0
    body, last_number = await read_in_tx(
        request, lambda tx: jobs.jobs(tx, state=state, kind=kind, after=after, limit=limit)
    )
    link_next(request, response, last_number)
    return body


@jobs_router.get("/api/memory/dead-letters", responses=response_model(list[JobAnswer], example=[_JOB]))
async def jobs_letters(
    request: Request, response: Response, limit: Limit = 100, cursor: Cursor = None
) -> list[dict[str, Any]]:
    """List the jobs that failed too often and were set aside, oldest first. `GET /extract/dead-letters` lists the model
    answers that could not be parsed."""
    after = number_in(cursor) or 0
    found, last_number = await read_in_tx(request, lambda tx: jobs.dead_jobs(tx, after=after, limit=limit))
    link_next(request, response, last_number)
    return found


@jobs_router.post(
    "/api/memory/dead-letters/{job_id}/retry", responses=response_model(DoneAnswer, example={"success": True})
)
async def jobs_retry(job_id: JobId, request: Request) -> dict[str, Any]:
    """Queue a dead job again, with its attempts reset."""
    parts = parts_of(request)
    await in_thread(lambda: jobs.retry(parts, job_id))
    return {"success": True}


@jobs_router.delete(
    "/api/memory/dead-letters/{job_id}", responses=response_model(DoneAnswer, example={"success": True})
)
async def jobs_discard(job_id: JobId, request: Request) -> dict[str, Any]:
    """Discard a dead job. Its subject stays unchanged."""
    parts = parts_of(request)
    await in_thread(lambda: jobs.discard(parts.writer, job_id))
    return {"success": True}


@jobs_router.get(
    "/api/memory/recalls/{recall_id}",
    responses=response_model(
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
async def jobs_recall(recall_id: RecallId, request: Request, texts: WithTexts = False) -> dict[str, Any]:
    """Return one recall with what was injected, and the best candidates that were not."""

    def read(tx: Tx) -> dict[str, Any] | None:
        recalls = Recalls(tx)
        found = recalls.get(recall_id)
        return recalls.with_texts([found])[0] if found and texts else found

    found = await read_in_tx(request, read)
    if found is None:
        raise NotFound(f"There is no recall {recall_id!r}.", remedy="See `GET /api/memory/retrievals`.")
    return found


@daemon_router.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics_metrics(request: Request) -> Response:
    """Return every metric in Prometheus text format, version 0.0.4."""
    parts = parts_of(request)
    text = await read_in_tx(request, lambda tx: health.metrics(parts, tx))
    return Response(text, headers={"Content-Type": CONTENT_TYPE})


ROUTERS = (garden_router, backups_router, jobs_router, daemon_router)
