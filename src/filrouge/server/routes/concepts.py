"""Concepts over HTTP: what sessions were about, and in how many of them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from filrouge.maintenance import health
from filrouge.server.access import parts_of, reading
from filrouge.server.responses import answers
from filrouge.server.routes.memory_answers import ConceptAnswer

router = APIRouter(tags=["concepts"])


@router.get("/api/memory/concepts", responses=answers(list[ConceptAnswer]))
async def concepts(
    request: Request,
    project: Annotated[list[str] | None, Query(description="Names of the project; none = all.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> list[dict[str, Any]]:
    """The concepts of sessions, those of most sessions first."""
    parts = parts_of(request)
    return await reading(request, lambda tx: health.concepts(parts, tx, project or [], limit))
