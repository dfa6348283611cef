"""The embedding space over HTTP: what recall reads, how much of the memory is in it, and bringing it to another."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from filrouge.search.reindexing import reindex
from filrouge.search.spaces import describe
from filrouge.server.access import elsewhere, parts_of, reading
from filrouge.server.auth import needs
from filrouge.server.responses import Body, answers
from filrouge.server.routes.models_answers import EmbeddingAnswer

router = APIRouter(tags=["embedding"])


class ReindexBody(Body):
    """What to bring the memory to: an embedder's name, or nothing for the one of the settings."""

    model: str | None = None


@router.get("/embedding", responses=answers(EmbeddingAnswer))
async def embedding(request: Request) -> dict[str, Any]:
    """The current space with its calibration and coverage, the space in building, and what the settings want."""
    parts = parts_of(request)
    return await reading(request, lambda tx: describe(parts, tx))


@router.post("/embedding/reindex", status_code=202, responses=answers(EmbeddingAnswer, status=202))
@needs("admin")
async def begin(request: Request, body: ReindexBody | None = None) -> dict[str, Any]:
    """Begin to build the space of a model beside the current one; answered at once with how it stands."""
    parts, model = parts_of(request), (body.model if body else None) or None
    return await elsewhere(lambda: reindex(parts, model.strip() if model else None))
