"""HTTP routes for forgetting: preview, forget with the preview's token, and list receipts."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from filrouge.core.errors import BadInput
from filrouge.erasure import service
from filrouge.erasure.service import MAX_QUERY_CHARS, ForgetRequest
from filrouge.server.admission import requires
from filrouge.server.middleware import ReceiptId, RowId
from filrouge.server.queries import Cursor, page_of
from filrouge.server.responses import Body, in_thread, parts_of, read_in_tx, response_model
from filrouge.server.routes.maintenance import ForgetPreview, KeptReceipt, ReceiptAnswer

router = APIRouter(tags=["forgetting"])


class ForgetBody(Body):
    """What to forget: a text or an id. With `dry_run` only a preview; otherwise the token of a preview, or
    `at_once`."""

    text: str = Field("", max_length=MAX_QUERY_CHARS)
    id: RowId = Field("", max_length=100)
    dry_run: bool = False
    token: str = Field("", max_length=100)
    at_once: bool = False


@router.post("/api/memory/forget", responses=response_model(ForgetPreview | ReceiptAnswer))
@requires("admin")
async def forgetting_forget(body: ForgetBody, request: Request) -> dict[str, Any]:
    """Preview what would be forgotten, or forget it with the preview's token. 409 if the rows have changed since the
    preview. The answer is a preview or a receipt."""
    parts, forget_request = parts_of(request), ForgetRequest(text=body.text, id=body.id)
    if not body.dry_run and body.token:
        receipt = await in_thread(lambda: service.forget(parts, forget_request, body.token))
        return receipt.to_json()
    if not body.dry_run and body.at_once:
        _, receipt = await in_thread(lambda: service.forget_at_once(parts, forget_request))
        return receipt.to_json()
    if not body.dry_run:
        raise BadInput("Forgetting needs the token of a preview.", remedy="Send `dry_run` first, or `at_once`.")
    found = await in_thread(lambda: service.preview(parts, forget_request))
    return found.to_json()


@router.get("/api/memory/receipts", responses=response_model(list[KeptReceipt]))
async def forgetting_receipts(
    request: Request, response: Response, limit: int = Query(100, ge=1, le=1000), cursor: Cursor = None
) -> list[dict[str, Any]]:
    """List the receipts of what was forgotten, newest first, each with whether its signature is valid."""
    parts = parts_of(request)
    max_rows = -1 if cursor else limit + 1
    found = await read_in_tx(request, lambda tx: service.receipts(parts.tombstones, tx, limit=max_rows))
    return page_of(request, response, found, limit=limit, cursor=cursor, by="at", name="receipt")


@router.get("/api/memory/receipts/{receipt_id}", responses=response_model(KeptReceipt))
async def forgetting_one_receipt(receipt_id: ReceiptId, request: Request) -> dict[str, Any]:
    """Return one receipt."""
    parts = parts_of(request)
    return await read_in_tx(request, lambda tx: service.receipt_of(parts.tombstones, tx, receipt_id))
