"""The daemon about itself: is it well, who is it, and please leave."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, BackgroundTasks, Request

from filrouge._version import __version__
from filrouge.core.paths import socket_path
from filrouge.maintenance import health as report
from filrouge.maintenance import health as standing
from filrouge.server.access import parts_of, reading
from filrouge.server.auth import needs
from filrouge.server.responses import answers
from filrouge.server.routes.daemon_answers import HealthAnswer, LeavingAnswer, StandingAnswer, StatusAnswer

router = APIRouter(tags=["daemon"])


@router.get("/health", responses=answers(HealthAnswer))
async def health() -> dict[str, str]:
    """Alive, and which version."""
    return {"status": "healthy", "version": __version__}


@router.get("/daemon/status", responses=answers(StatusAnswer))
async def status(request: Request) -> dict[str, Any]:
    """Where it listens, and the state of the whole in counts."""
    parts = parts_of(request)
    whole = await reading(request, lambda tx: report.status(parts, tx))
    found = request.app.state.listening
    return {"running": True, "url": found.url, "notice": found.notice, "socket": socket_path(parts.home), **whole}


@router.get("/daemon/health", responses=answers(StandingAnswer))
async def well(request: Request) -> dict[str, Any]:
    """How well it works, in figures, with what is to be done."""
    parts = parts_of(request)
    return await reading(request, lambda tx: standing.health(parts, tx))


@router.post("/daemon/stop", responses=answers(LeavingAnswer))
@needs("admin")
async def stop(request: Request, tasks: BackgroundTasks) -> dict[str, str]:
    """Take nothing new in, finish what is begun, and end."""
    return _leaving(request, tasks)


@router.post("/daemon/drain", responses=answers(LeavingAnswer))
@needs("admin")
async def drain(request: Request, tasks: BackgroundTasks) -> dict[str, str]:
    """The same, asked by a newer version that takes over."""
    return _leaving(request, tasks)


def _leaving(request: Request, tasks: BackgroundTasks) -> dict[str, str]:
    tasks.add_task(request.app.state.leave)
    return {"status": "stopping", "version": __version__}
