"""What hooks call: hand events over, and get the block for the model in the same round trip."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from pydantic import Field

from filrouge.app.injecting import context
from filrouge.app.observe import observe
from filrouge.errors import BadInput
from filrouge.model.event import Event, event_from_json
from filrouge.server.access import elsewhere, parts_of, recalling, settled
from filrouge.server.answers import Body, answers
from filrouge.server.routes.recall_answers import DeliveredAnswer

router = APIRouter(tags=["hooks"])
_WITH_CONTEXT = ("session_start", "prompt")


class Delivery(Body):
    """Events from a hook or a spool."""

    events: list[dict[str, Any]] = Field(min_length=1, max_length=1000)
    context: bool = False


@router.post("/hooks/events", responses=answers(DeliveredAnswer))
async def deliver(delivery: Delivery, request: Request) -> dict[str, Any]:
    """Store events; answered once they are on disk. With `context`, also what belongs before the model now."""
    parts = parts_of(request)
    events = [_event(raw) for raw in delivery.events]
    with parts.meters.hook(events[-1].kind):
        receipt = await settled(await elsewhere(lambda: observe(parts, events)))
        text = ""
        project = receipt.projects[-1]
        if delivery.context and events[-1].kind in _WITH_CONTEXT and project is not None:
            text = await recalling(parts, lambda _: context(parts, events[-1], project))
    return {"accepted": receipt.accepted, "duplicates": receipt.duplicates, "context": text}


def _event(raw: dict[str, Any]) -> Event:
    try:
        return event_from_json(raw)
    except ValueError as error:
        raise BadInput(f"An event cannot be read: {error}.") from error
