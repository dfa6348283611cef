"""Backups over HTTP: make one, and list what there is. Restoring is the command's: no daemon may run meanwhile."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from filrouge.maintenance import backups
from filrouge.server.access import elsewhere, parts_of
from filrouge.server.auth import needs
from filrouge.server.responses import answers
from filrouge.server.routes.daemon_answers import BackupAnswer, BackupsAnswer

router = APIRouter(tags=["backups"])


@router.post("/api/memory/backups", status_code=201, responses=answers(BackupAnswer, status=201))
@needs("admin")
async def make(request: Request) -> dict[str, Any]:
    """Make a backup now, verified; answers when it is done."""
    parts = parts_of(request)
    return await elsewhere(lambda: backups.by_hand(parts))


@router.get("/api/memory/backups", responses=answers(BackupsAnswer))
async def listed(request: Request) -> dict[str, Any]:
    """Every backup, the newest first, and how the last one failed if it did."""
    parts = parts_of(request)
    return await elsewhere(lambda: backups.described(parts.home))
