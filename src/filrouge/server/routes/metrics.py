"""Metrics over HTTP, for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse

from filrouge.maintenance import health
from filrouge.runtime.metrics import CONTENT_TYPE
from filrouge.server.access import parts_of, reading

router = APIRouter(tags=["daemon"])


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(request: Request) -> Response:
    """Every metric in Prometheus' text format 0.0.4."""
    parts = parts_of(request)
    text = await reading(request, lambda tx: health.metrics(parts, tx))
    return Response(text, headers={"Content-Type": CONTENT_TYPE})
