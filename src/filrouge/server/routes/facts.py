"""One fact over HTTP, by its key (API-1): what it says, another value, or into the bin."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from filrouge.memories.reports import one_json
from filrouge.memories.service import bin_fact, change_fact, fact_of
from filrouge.server.access import elsewhere, parts_of, reading
from filrouge.server.responses import Answer, answers
from filrouge.server.routes.memory import Names
from filrouge.server.routes.memory_answers import MemoryAnswer

router = APIRouter(tags=["memory"])


class ValueBody(BaseModel):
    """What a fact says from now on."""

    value: str = Field(max_length=2000)


class DoneAnswer(Answer):
    """It is done."""

    success: bool


@router.get("/api/memory/facts/{key:path}", responses=answers(MemoryAnswer))
async def one(key: str, request: Request, project: Names = None) -> dict[str, Any]:
    """The fact that has a key; a memory without one is known by its id."""
    parts = parts_of(request)
    return await reading(request, lambda tx: one_json(parts, tx, fact_of(parts, tx, key, project or [])))


@router.patch("/api/memory/facts/{key:path}", responses=answers(DoneAnswer, example={"success": True}))
async def change(key: str, body: ValueBody, request: Request, project: Names = None) -> dict[str, Any]:
    """Give a fact another value; what it said stays in its history. A memory without a key is known by its id."""
    parts = parts_of(request)
    await elsewhere(lambda: change_fact(parts, key, body.value, project or []))
    return {"success": True}


@router.delete("/api/memory/facts/{key:path}", responses=answers(DoneAnswer, example={"success": True}))
async def delete(key: str, request: Request, project: Names = None) -> dict[str, Any]:
    """Put a fact into the bin; `restore` and `undo` bring it back."""
    parts = parts_of(request)
    await elsewhere(lambda: bin_fact(parts, key, project or []))
    return {"success": True}
