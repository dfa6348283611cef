"""What hooks call: hand events over, and get the block for the model in the same round trip."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import Field

from filrouge.app.injecting import confirm, log, prepare
from filrouge.app.observe import observe
from filrouge.app.parts import Parts
from filrouge.errors import BadInput, FilrougeError
from filrouge.model.event import Event, event_from_json
from filrouge.server.access import elsewhere, parts_of, recalling, settled
from filrouge.server.answers import Body, answers
from filrouge.server.routes.recall_answers import DeliveredAnswer, Success

router = APIRouter(tags=["hooks"])
_LOG: Final = logging.getLogger(__name__)
_WITH_CONTEXT = ("session_start", "prompt")
_JSON: Final = "application/json"


class Delivery(Body):
    """Events from a hook or a spool."""

    events: list[dict[str, Any]] = Field(min_length=1, max_length=1000)
    context: bool = False
    wait_ms: int | None = Field(
        None,
        ge=1,
        le=60_000,
        description="How long the caller waits for the context. The answer then begins at once, with a space, and the"
        " caller confirms with /hooks/delivered that it used the context.",
    )


class Confirmation(Body):
    """The id that came with a context."""

    recall: str = Field(max_length=64)


@router.post("/hooks/events", responses=answers(DeliveredAnswer))
async def deliver(delivery: Delivery, request: Request) -> Response:
    """Store events; answered once they are on disk. With `context`, also what belongs before the model now."""
    parts = parts_of(request)
    events = [_event(raw) for raw in delivery.events]
    if not delivery.context or delivery.wait_ms is None:
        return JSONResponse(await _delivered(parts, events, delivery, request))
    return StreamingResponse(_streamed(parts, events, delivery, request), media_type=_JSON)


@router.post("/hooks/delivered", responses=answers(Success))
async def delivered(confirmation: Confirmation, request: Request) -> dict[str, Any]:
    """Note that the agent got the context of a recall, which is logged as late until then."""
    confirm(parts_of(request), confirmation.recall)
    return {"success": True}


async def _streamed(
    parts: Parts, events: list[Event], delivery: Delivery, request: Request
) -> AsyncGenerator[bytes, None]:
    """The answer, after one space that shows at once that the daemon is at work."""
    yield b" "
    try:
        answer = await _delivered(parts, events, delivery, request)
    except FilrougeError as error:
        _LOG.warning("events of a hook were not taken: %s", error.message)
        answer = {"error": error.message}
    yield json.dumps(answer, ensure_ascii=False).encode()


async def _delivered(parts: Parts, events: list[Event], delivery: Delivery, request: Request) -> dict[str, Any]:
    with parts.meters.hook(events[-1].kind):
        receipt = await settled(await elsewhere(lambda: observe(parts, events)))
        text, recall = "", ""
        project = receipt.projects[-1]
        if delivery.context and events[-1].kind in _WITH_CONTEXT and project is not None:
            seconds = None if delivery.wait_ms is None else delivery.wait_ms / 1000
            given = await recalling(parts, lambda _: prepare(parts, events[-1], project, seconds=seconds))
            text = given.block.text
            confirms = delivery.wait_ms is not None and bool(text)
            recall = log(parts, given, delivered=not confirms and not await request.is_disconnected())
            recall = recall if confirms else ""
    answer = {"accepted": receipt.accepted, "duplicates": receipt.duplicates, "context": text}
    return answer | ({"recall": recall} if recall else {})


def _event(raw: dict[str, Any]) -> Event:
    try:
        return event_from_json(raw)
    except ValueError as error:
        raise BadInput(f"An event cannot be read: {error}.") from error
