"""The daemon about itself: is it well, who is it, and please leave."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, BackgroundTasks, Request
from pydantic import Field, RootModel

from filrouge._version import __version__
from filrouge.core.paths import socket_path
from filrouge.core.settings import Origin, Settings
from filrouge.maintenance import health as report
from filrouge.maintenance import health as standing
from filrouge.maintenance.backup_files import Kind
from filrouge.server.auth import needs
from filrouge.server.responses import Answer, answers, parts_of, reading

# What the routes about the daemon itself answer: its standing, its backups, its settings.


class HealthAnswer(Answer):
    """Alive, and which version."""

    status: Literal["healthy"]
    version: str


class LeavingAnswer(Answer):
    """It will end."""

    status: Literal["stopping"]
    version: str


class LedgerAnswer(Answer):
    """What became of every event that was received."""

    queued: int
    done: int
    skipped: int
    dead: int
    forgotten: int


class LostAnswer(Answer):
    """Events that hooks could neither hand over nor spool, and when and why the last one was lost.

    `at_least`: more may have been lost than were counted.
    """

    events: int
    last_at: str
    reason: str
    at_least: bool


class QueueAnswer(Answer):
    """The jobs of the outbox."""

    waiting: int
    running: int
    dead: int


class ProjectAnswer(Answer):
    """A project that is known."""

    id: str
    name: str
    created_at: str


class FailureAnswer(Answer):
    """How the last backup failed."""

    at: str
    error: str


class BackupsInBrief(Answer):
    """How many backups there are."""

    backups: int
    newest: str | None
    failed: FailureAnswer | None


class ThreadCounts(Answer):
    """Threads by state."""

    active: int
    suspended: int
    archived: int


class CurrentThread(Answer):
    """The thread that was spoken in last."""

    id: str
    title: str
    last_active: str
    project_name: str | None


class WaitingFolder(Answer):
    """A folder whose `.filrouge.toml` names a project of other folders; the user has not agreed yet."""

    name: str
    folder: str


class WritesAnswer(Answer):
    """Whether what is told can be stored."""

    works: bool
    cause: str = Field(description="Why not; or empty.")
    next: str = Field(description="What to do; or empty.")


class StatusAnswer(Answer):
    """Where the daemon listens, and the state of the whole in counts."""

    running: Literal[True]
    url: str | None
    notice: str = Field(description="Why it does not listen over TCP, though it should; or empty.")
    socket: str
    version: str
    pid: int
    events: int
    ledger: LedgerAnswer
    turns: int
    memories: int
    rules: int
    superseded: int
    to_review: int
    vectors: int
    queue: QueueAnswer
    spooled: int
    lost: int = Field(description="Events that hooks could neither hand over nor write to the spool.")
    projects: list[ProjectAnswer]
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
    word_indexes: dict[str, int] = Field(description="Up to which row each large table has a word index of its own.")
    resumed: bool


class StoredBridges(Answer):
    """Bridges, and those of little confidence."""

    stored: int
    unsure: int


class ContinuedAnswer(Answer):
    """Threads that went on, of those that could."""

    continued: int
    could: int
    rate: float | None


class WokenAnswer(Answer):
    """Threads that were taken up again, of those that were put down."""

    woken: int
    put_down: int
    rate: float | None


class CoverageAnswer(Answer):
    """Texts that have vectors."""

    done: int
    total: int
    rate: float | None


class TodayAnswer(Answer):
    """What models cost today."""

    calls: int
    dollars: float
    unpriced_entries: int


class SpentAnswer(Answer):
    """What models cost today and of late."""

    today: TodayAnswer
    days: int
    calls: int
    dollars: float


class RetainedAnswer(Answer):
    """What retention took out last, in counts."""

    at: str
    taken: dict[str, object]


class StorageAnswer(Answer):
    """What the home takes on the disk, in bytes."""

    bytes: int
    parts: dict[str, int]
    cap: int | None
    retention: RetainedAnswer | None


class WarningAnswer(Answer):
    """What is wrong, and the next command."""

    what: str
    cause: str
    next: str


class StandingAnswer(Answer):
    """The health of the whole."""

    status: Literal["ok", "warn"]
    daemon: Literal["Running"]
    version: str
    threads: ThreadCounts
    bridges: StoredBridges
    continuation: ContinuedAnswer
    reactivation: WokenAnswer
    embedding_coverage: CoverageAnswer
    llm: SpentAnswer
    queue: QueueAnswer
    ledger: LedgerAnswer
    lost: LostAnswer
    storage: StorageAnswer
    writes: WritesAnswer
    backups: BackupsInBrief
    warnings: list[WarningAnswer]


class BackupAnswer(Answer):
    """A backup: what it holds, and what was verified of it."""

    name: str
    kind: Kind
    version: str
    schema_: int = Field(alias="schema")
    at: str
    bytes: int
    rows: dict[str, int]
    hash: str
    mark: str
    verified: list[str]


class ListedBackup(BackupAnswer):
    """A backup, and where it is."""

    path: str


class BackupsAnswer(Answer):
    """Every backup, the newest first."""

    backups: list[ListedBackup]
    newest: str | None
    failed: FailureAnswer | None


class SettingsAnswer(Settings):
    """Every setting with the value that holds."""


class OriginsAnswer(RootModel[dict[str, Origin]]):
    """Where the value of each setting comes from."""


router = APIRouter(tags=["daemon"])


@router.get("/health", responses=answers(HealthAnswer))
async def daemon_health() -> dict[str, str]:
    """Alive, and which version."""
    return {"status": "healthy", "version": __version__}


@router.get("/daemon/status", responses=answers(StatusAnswer))
async def daemon_status(request: Request) -> dict[str, Any]:
    """Where it listens, and the state of the whole in counts."""
    parts = parts_of(request)
    whole = await reading(request, lambda tx: report.status(parts, tx))
    found = request.app.state.listening
    return {"running": True, "url": found.url, "notice": found.notice, "socket": socket_path(parts.home), **whole}


@router.get("/daemon/health", responses=answers(StandingAnswer))
async def daemon_well(request: Request) -> dict[str, Any]:
    """How well it works, in figures, with what is to be done."""
    parts = parts_of(request)
    return await reading(request, lambda tx: standing.health(parts, tx))


@router.post("/daemon/stop", responses=answers(LeavingAnswer))
@needs("admin")
async def daemon_stop(request: Request, tasks: BackgroundTasks) -> dict[str, str]:
    """Take nothing new in, finish what is begun, and end."""
    return _leaving(request, tasks)


@router.post("/daemon/drain", responses=answers(LeavingAnswer))
@needs("admin")
async def daemon_drain(request: Request, tasks: BackgroundTasks) -> dict[str, str]:
    """The same, asked by a newer version that takes over."""
    return _leaving(request, tasks)


def _leaving(request: Request, tasks: BackgroundTasks) -> dict[str, str]:
    tasks.add_task(request.app.state.leave)
    return {"status": "stopping", "version": __version__}
