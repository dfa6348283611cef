"""Changing one's mind over HTTP: pin, bin, restore, supersede, review, undo, history; and whether the journal holds."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from filrouge.maintenance import health
from filrouge.memories import reports, service
from filrouge.memories.changes import bin_memory, pin, restore, supersede
from filrouge.memories.service import plan, undo
from filrouge.server.access import elsewhere, parts_of, reading
from filrouge.server.paging import Cursor, paged
from filrouge.server.responses import Body, answers
from filrouge.server.routes.memory import action_json
from filrouge.server.routes.memory_answers import (
    ActionAnswer,
    AuditAnswer,
    MemoryVersions,
    ReviewAnswer,
    SupersededAnswer,
    UndoAnswer,
)
from filrouge.server.validation import MemoryId

router = APIRouter(tags=["changing"])


class PinBody(Body):
    """Whether only the user may change a memory."""

    pinned: bool


class SupersedeBody(Body):
    """What a memory says from now on."""

    old_id: MemoryId
    new_text: str
    source: str = Field("", max_length=200)


class SettleBody(Body):
    """How a review ends: old, new or both of a conflict; accept or dismiss of what lacks proof."""

    settle: str


class UndoBody(Body):
    """What to undo: an entry of the journal, or the last decision about a memory; or only to say what that would do."""

    entry: int | None = None
    memory_id: MemoryId | None = None
    dry_run: bool = False


@router.patch("/api/memory/memories/{memory_id}", responses=answers(ActionAnswer))
async def change_memory(memory_id: MemoryId, body: PinBody, request: Request) -> dict[str, Any]:
    """Pin a memory, or unpin it."""
    parts = parts_of(request)
    return action_json(await elsewhere(lambda: pin(parts, memory_id, pinned=body.pinned)))


@router.post("/api/memory/memories/{memory_id}/bin", responses=answers(ActionAnswer))
async def bin_one(memory_id: MemoryId, request: Request) -> dict[str, Any]:
    """Put a memory into the bin."""
    parts = parts_of(request)
    return action_json(await elsewhere(lambda: bin_memory(parts, memory_id)))


@router.post("/api/memory/memories/{memory_id}/restore", responses=answers(ActionAnswer))
async def restore_one(memory_id: MemoryId, request: Request) -> dict[str, Any]:
    """Make a memory live again that was binned or superseded."""
    parts = parts_of(request)
    return action_json(await elsewhere(lambda: restore(parts, memory_id)))


@router.get("/api/memory/memories/{memory_id}/history", responses=answers(MemoryVersions))
async def history(memory_id: MemoryId, request: Request) -> dict[str, Any]:
    """Every version of a memory, oldest first, and every decision that touched it, with its number in the journal."""
    parts = parts_of(request)
    return await reading(request, lambda tx: reports.versions(parts, tx, memory_id))


@router.post("/memory/supersede", responses=answers(SupersededAnswer))
async def supersede_one(body: SupersedeBody, request: Request) -> dict[str, Any]:
    """Replace what a live memory says, pinned or not."""
    parts = parts_of(request)
    done = await elsewhere(lambda: supersede(parts, body.old_id, body.new_text, source=body.source))
    return {"success": True, "old_id": done.old_id, "new_id": done.new_id, "previous_text": done.previous_text}


@router.get("/api/memory/review", responses=answers(list[ReviewAnswer]))
async def reviews(
    request: Request,
    response: Response,
    settled: bool = False,
    limit: int = Query(200, ge=1, le=1000),
    cursor: Cursor = None,
) -> list[dict[str, Any]]:
    """What waits for a person, newest first; with `settled` also what no longer does."""
    parts = parts_of(request)
    most = -1 if cursor else limit + 1
    found = await reading(request, lambda tx: service.waiting(parts, tx, settled=settled, limit=most))
    return paged(request, response, found, limit=limit, cursor=cursor, by="at")


@router.get("/api/memory/review/{memory_id}", responses=answers(ReviewAnswer))
async def one_review(memory_id: MemoryId, request: Request) -> dict[str, Any]:
    """One entry of the queue, with the words that it rests on and what it speaks against."""
    parts = parts_of(request)
    return await reading(request, lambda tx: service.one(parts, tx, memory_id))


@router.post("/api/memory/review/{memory_id}", responses=answers(ReviewAnswer))
async def settle(memory_id: MemoryId, body: SettleBody, request: Request) -> dict[str, Any]:
    """Settle what waits; answers the entry as it is then."""
    parts = parts_of(request)
    return await elsewhere(lambda: service.settle(parts, memory_id, body.settle))


@router.post("/api/memory/undo", responses=answers(UndoAnswer))
async def undo_one(body: UndoBody, request: Request) -> dict[str, Any]:
    """Take a decision back, with what stands on it; answers what was, or would be, taken back and changed."""
    parts = parts_of(request)
    carried_out = plan if body.dry_run else undo
    found = await elsewhere(lambda: carried_out(parts, entry=body.entry, memory_id=body.memory_id))
    return found.to_json() | {"dry_run": body.dry_run, "text": str(found)}


@router.get("/api/audit/verify", responses=answers(AuditAnswer))
async def verify(request: Request) -> dict[str, Any]:
    """Walk the whole journal: does every entry hold?"""
    return await reading(request, health.audit)
