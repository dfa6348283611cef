"""HTTP routes about the daemon itself: liveness, status, health, stop and drain; the live feed and the web pages.

The files of the web pages are a fixed list, read from the package once; no path from a request reaches the disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import Any, Final, Literal, cast

from fastapi import APIRouter, BackgroundTasks, Request, Response, WebSocket
from fastapi.responses import RedirectResponse
from pydantic import Field, RootModel

from filrouge._version import __version__
from filrouge.core.errors import Busy, NotFound
from filrouge.core.paths import socket_path
from filrouge.core.settings import Origin, Settings
from filrouge.maintenance import health
from filrouge.maintenance.backup_files import BackupKind
from filrouge.runtime.wiring import Running
from filrouge.server.admission import requires
from filrouge.server.live import MAX_SOCKETS, Sockets, serve_feed
from filrouge.server.problems import problem_response
from filrouge.server.responses import Answer, parts_of, read_in_tx, response_model
from filrouge.team.repository import Team

# Response models.


class HealthAnswer(Answer):
    """The daemon is alive; its version."""

    status: Literal["healthy"]
    version: str


class LeavingAnswer(Answer):
    """The daemon is stopping."""

    status: Literal["stopping"]
    version: str


class EventCounts(Answer):
    """The number of received events, by what became of them."""

    queued: int
    done: int
    skipped: int
    dead: int
    forgotten: int


class LostAnswer(Answer):
    """Events that hooks could neither deliver nor spool, and when and why the last one was lost.

    `at_least`: more events may have been lost than were counted.
    """

    events: int
    last_at: str
    reason: str
    at_least: bool


class QueueCounts(Answer):
    """The job queue in counts."""

    waiting: int
    running: int
    dead: int


class CapturedProject(Answer):
    """A known project."""

    id: str
    name: str
    created_at: str


class FailureAnswer(Answer):
    """The error of the last backup."""

    at: str
    error: str


class BackupsInBrief(Answer):
    """The backups in counts."""

    backups: int
    newest: str | None
    failed: FailureAnswer | None


class ThreadCounts(Answer):
    """Threads by state."""

    active: int
    suspended: int
    archived: int


class CurrentThread(Answer):
    """The most recently active thread."""

    id: str
    title: str
    last_active: str
    project_name: str | None


class WaitingFolder(Answer):
    """A folder whose `.filrouge.toml` names a project of other folders; the user has not agreed yet."""

    name: str
    folder: str


class WritesAnswer(Answer):
    """Whether the daemon can write to disk."""

    works: bool
    cause: str = Field(description="Why it cannot; empty if it can.")
    next: str = Field(description="What to do about it; may be empty.")


class AttentionAnswer(Answer):
    """What waits for a person."""

    to_review: int = Field(ge=0, description="Statements in the review queue.")
    conflicts: int = Field(ge=0, description="Those that contradict a memory.")
    unproven: int = Field(ge=0, description="Those without sufficient evidence.")
    dead_jobs: int = Field(ge=0)
    to_share: int = Field(ge=0, description="Memories that wait to be shared with the team.")
    notice: str = Field(description="Why the daemon does not listen on TCP although a port is configured; or empty.")


class StatusAnswer(Answer):
    """Where the daemon listens, and its state in counts."""

    running: Literal[True]
    url: str | None
    notice: str = Field(description="Why it does not listen on TCP although a port is configured; empty otherwise.")
    socket: str
    version: str
    pid: int
    events: int
    ledger: EventCounts
    turns: int
    memories: int
    rules: int
    superseded: int
    to_review: int
    vectors: int
    queue: QueueCounts
    spooled: int
    lost: int = Field(description="Events that hooks could neither deliver nor spool.")
    projects: list[CapturedProject]
    waiting_folders: list[WaitingFolder]
    last_activity: str | None
    backups: BackupsInBrief
    database_bytes: int
    embedding_notice: str
    writes: WritesAnswer
    threads: ThreadCounts
    bridges: int
    current_thread: CurrentThread | None
    home: str
    embedding_space: str
    vectors_in_memory: int
    index_ready: bool
    word_indexes: dict[str, int] = Field(description="For each large table, the last row that its word index covers.")
    resumed: bool


class StoredBridges(Answer):
    """The number of bridges, and of those with low confidence."""

    stored: int
    unsure: int


class ContinuedAnswer(Answer):
    """Threads that were continued, of those that could be."""

    continued: int
    could: int
    rate: float | None


class WokenAnswer(Answer):
    """Threads that were resumed, of those that were suspended."""

    woken: int
    put_down: int
    rate: float | None


class CoverageAnswer(Answer):
    """The number of texts that have vectors."""

    done: int
    total: int
    rate: float | None


class TodayAnswer(Answer):
    """The cost of models today."""

    calls: int
    dollars: float
    unpriced_entries: int


class SpentAnswer(Answer):
    """The cost of models today and in the last days."""

    today: TodayAnswer
    days: int
    calls: int
    dollars: float


class RetainedAnswer(Answer):
    """What the last retention run removed, in counts."""

    at: str
    taken: dict[str, object]


class StorageAnswer(Answer):
    """The disk usage of the home, in bytes."""

    bytes: int
    parts: dict[str, int]
    cap: int | None
    retention: RetainedAnswer | None


class WarningAnswer(Answer):
    """A problem, and the command that helps."""

    what: str
    cause: str
    next: str


class HealthReport(Answer):
    """The health of the daemon and its memory."""

    status: Literal["ok", "warn"]
    daemon: Literal["Running"]
    version: str
    threads: ThreadCounts
    bridges: StoredBridges
    continuation: ContinuedAnswer
    reactivation: WokenAnswer
    embedding_coverage: CoverageAnswer
    llm: SpentAnswer
    queue: QueueCounts
    ledger: EventCounts
    lost: LostAnswer
    storage: StorageAnswer
    writes: WritesAnswer
    backups: BackupsInBrief
    warnings: list[WarningAnswer]


class BackupAnswer(Answer):
    """A backup: its content, and what was verified."""

    name: str
    kind: BackupKind
    version: str
    schema_: int = Field(alias="schema")
    at: str
    bytes: int
    rows: dict[str, int]
    hash: str
    mark: str
    verified: list[str]


class ListedBackup(BackupAnswer):
    """A backup and its path."""

    path: str


class BackupsAnswer(Answer):
    """Every backup, newest first."""

    backups: list[ListedBackup]
    newest: str | None
    failed: FailureAnswer | None


class SettingsAnswer(Settings):
    """Every setting with its effective value."""


class OriginsAnswer(RootModel[dict[str, Origin]]):
    """Where the value of each setting comes from."""


daemon_router = APIRouter(tags=["daemon"])
live_router = APIRouter(tags=["live"])
pages_router = APIRouter(tags=["pages"])


@daemon_router.get("/health", responses=response_model(HealthAnswer))
async def daemon_health() -> dict[str, str]:
    """Report that the daemon is alive, and its version."""
    return {"status": "healthy", "version": __version__}


@daemon_router.get("/daemon/status", responses=response_model(StatusAnswer))
async def daemon_status(request: Request) -> dict[str, Any]:
    """Report where the daemon listens, and its state in counts."""
    parts = parts_of(request)
    counts = await read_in_tx(request, lambda tx: health.status(parts, tx))
    listening = request.app.state.listening
    return {
        "running": True,
        "url": listening.url,
        "notice": listening.notice,
        "socket": socket_path(parts.home),
        **counts,
    }


@daemon_router.get("/daemon/attention", responses=response_model(AttentionAnswer))
async def daemon_attention(request: Request) -> dict[str, Any]:
    """Count what waits for a person. It is quick in a large memory, where the status takes longer."""
    counts, to_share = await read_in_tx(request, lambda tx: (health.attention(tx), Team(tx).candidates()))
    return {**counts, "to_share": to_share, "notice": request.app.state.listening.notice}


@daemon_router.get("/daemon/health", responses=response_model(HealthReport))
async def daemon_well(request: Request) -> dict[str, Any]:
    """Report health figures, with warnings and what to do about them."""
    parts = parts_of(request)
    return await read_in_tx(request, lambda tx: health.health(parts, tx))


@daemon_router.post("/daemon/stop", responses=response_model(LeavingAnswer))
@requires("admin")
async def daemon_stop(request: Request, tasks: BackgroundTasks) -> dict[str, str]:
    """Stop the daemon. It accepts nothing new, finishes what it has started, and exits."""
    return _stop_after_answer(request, tasks)


@daemon_router.post("/daemon/drain", responses=response_model(LeavingAnswer))
@requires("admin")
async def daemon_drain(request: Request, tasks: BackgroundTasks) -> dict[str, str]:
    """Stop the daemon for a newer version that takes over."""
    return _stop_after_answer(request, tasks)


def _stop_after_answer(request: Request, tasks: BackgroundTasks) -> dict[str, str]:
    tasks.add_task(request.app.state.stop)
    return {"status": "stopping", "version": __version__}


@live_router.websocket("/ws")
@requires("read")
async def live_live(socket: WebSocket) -> None:
    """Send the live feed: a hello, then one JSON object per message."""
    sockets, parts = cast("Sockets", socket.app.state.sockets), cast("Running", socket.app.state.running).parts
    if sockets.is_full:
        full = Busy(
            f"{MAX_SOCKETS} sockets are open.", remedy="Share one among the tabs of a browser (`/static/live.js`)."
        )
        await socket.send_denial_response(problem_response(full, status=503))
        return
    with sockets.count_one():
        await socket.accept()
        parts.metrics.set_live_sockets(sockets.open)
        try:
            await serve_feed(socket, parts)
        finally:
            parts.metrics.set_live_sockets(sockets.open - 1)


#: The files that are served, with their media types.
FILES: Final[Mapping[str, str]] = {"live.js": "text/javascript; charset=utf-8"}
_FILE_CONTENTS: Final[dict[str, bytes]] = {}
_HEADERS: Final = {"Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"}


@pages_router.get("/static/{name}", response_class=Response, responses={200: {"content": {"text/javascript": {}}}})
async def static_static(name: str) -> Response:
    """Return a file of the web pages. `live.js` shares one WebSocket among the tabs of a browser."""
    if name not in FILES:
        raise NotFound(f"There is no file {name!r} here.", remedy=f"There are: {', '.join(FILES)}.")
    if name not in _FILE_CONTENTS:
        _FILE_CONTENTS[name] = resources.files("filrouge").joinpath("web", "static", name).read_bytes()
    return Response(_FILE_CONTENTS[name], headers={**_HEADERS, "Content-Type": FILES[name]})


@pages_router.get("/", include_in_schema=False)
@pages_router.get("/memory", include_in_schema=False)
async def static_start(request: Request) -> Response:
    """Lead a browser to the dashboard."""
    to = "/dashboard/memory" if request.url.path == "/memory" else "/dashboard"
    return RedirectResponse(to, status_code=303)


ROUTERS = (daemon_router, live_router, pages_router)
