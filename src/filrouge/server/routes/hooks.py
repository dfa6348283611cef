"""What hooks call: hand events over, and get the block for the model in the same round trip."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from filrouge.context.service import confirm
from filrouge.server.access import parts_of
from filrouge.server.delivering import Confirmation, Delivery, answer
from filrouge.server.responses import answers
from filrouge.server.routes.recall_answers import DeliveredAnswer, Success

router = APIRouter(tags=["hooks"])


@router.post("/hooks/events", responses=answers(DeliveredAnswer))
async def deliver(delivery: Delivery, request: Request) -> Response:
    """Store events; answered once they are on disk. With `context`, also what belongs before the model now."""
    return await answer(parts_of(request), delivery, request.is_disconnected)


@router.post("/hooks/delivered", responses=answers(Success))
async def delivered(confirmation: Confirmation, request: Request) -> dict[str, Any]:
    """Note that the agent got the context of a recall, which is logged as late until then."""
    confirm(parts_of(request), confirmation.recall)
    return {"success": True}
