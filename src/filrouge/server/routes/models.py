"""The models over HTTP: who understands, whether it answers, what it cost, and its answers that nobody could read."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from filrouge.providers.spending import dead_letters, extract_status
from filrouge.server.access import elsewhere, parts_of, reading
from filrouge.server.responses import answers
from filrouge.server.routes.models_answers import ExtractStatusAnswer, LetterAnswer, NotEnabled

router = APIRouter(tags=["models"])


@router.get("/extract/status", responses=answers(ExtractStatusAnswer | NotEnabled))
async def status(request: Request) -> dict[str, Any]:
    """Who understands, whether it answers now, what today cost; only `{"enabled": false}` where nothing is."""
    parts = parts_of(request)
    return await elsewhere(lambda: extract_status(parts))


@router.get("/extract/dead-letters", responses=answers(list[LetterAnswer]))
async def letters(request: Request) -> list[dict[str, Any]]:
    """Answers of models that could not be read, newest first, with the turns that they were about."""
    return await reading(request, dead_letters)
