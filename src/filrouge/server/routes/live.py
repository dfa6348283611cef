"""The live feed over a WebSocket: `/ws`."""

from __future__ import annotations

from typing import cast

from fastapi import APIRouter, WebSocket
from fastapi.responses import JSONResponse

from filrouge.core.errors import Busy
from filrouge.runtime.wiring import Running
from filrouge.server.auth import needs
from filrouge.server.live import MOST_SOCKETS, Sockets, converse

router = APIRouter(tags=["live"])


@router.websocket("/ws")
@needs("read")
async def live(socket: WebSocket) -> None:
    """What happens, as it happens: a hello, then one JSON object a message."""
    sockets, parts = cast("Sockets", socket.app.state.sockets), cast("Running", socket.app.state.running).parts
    if sockets.is_full:
        await socket.send_denial_response(_full())
        return
    with sockets.one_more():
        await socket.accept()
        parts.meters.live_sockets(sockets.open)
        try:
            await converse(socket, parts)
        finally:
            parts.meters.live_sockets(sockets.open - 1)


def _full() -> JSONResponse:
    error = Busy(
        f"{MOST_SOCKETS} sockets are open.", remedy="Share one among the tabs of a browser (`/static/live.js`)."
    )
    body = {
        "type": "urn:filrouge:error:Busy",
        "title": (Busy.__doc__ or "").strip(),
        "status": 503,
        "detail": error.message,
        "remedy": error.remedy,
        "exit_code": error.exit_code,
    }
    return JSONResponse(body, status_code=503, media_type="application/problem+json")
