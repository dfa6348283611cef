"""The `/ws` route of the live feed, and the static files of the web pages.

The files are a fixed list, read from the package once; no path from a request reaches the disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import Final, cast

from fastapi import APIRouter, Response, WebSocket
from fastapi.responses import JSONResponse

from filrouge.core.errors import Busy, NotFound
from filrouge.runtime.wiring import Running
from filrouge.server.auth import requires
from filrouge.server.live import MAX_SOCKETS, Sockets, serve_feed

live_router = APIRouter(tags=["live"])
pages_router = APIRouter(tags=["pages"])


@live_router.websocket("/ws")
@requires("read")
async def live_live(socket: WebSocket) -> None:
    """Send the live feed: a hello, then one JSON object per message."""
    sockets, parts = cast("Sockets", socket.app.state.sockets), cast("Running", socket.app.state.running).parts
    if sockets.is_full:
        await socket.send_denial_response(_full())
        return
    with sockets.one_more():
        await socket.accept()
        parts.meters.live_sockets(sockets.open)
        try:
            await serve_feed(socket, parts)
        finally:
            parts.meters.live_sockets(sockets.open - 1)


def _full() -> JSONResponse:
    error = Busy(
        f"{MAX_SOCKETS} sockets are open.", remedy="Share one among the tabs of a browser (`/static/live.js`)."
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


#: The files that are served, with their media types.
FILES: Final[Mapping[str, str]] = {"live.js": "text/javascript; charset=utf-8"}
_HELD: Final[dict[str, bytes]] = {}
_HEADERS: Final = {"Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"}


@pages_router.get("/static/{name}", response_class=Response, responses={200: {"content": {"text/javascript": {}}}})
async def static_static(name: str) -> Response:
    """Return a file of the web pages. `live.js` shares one WebSocket among the tabs of a browser."""
    if name not in FILES:
        raise NotFound(f"There is no file {name!r} here.", remedy=f"There are: {', '.join(FILES)}.")
    if name not in _HELD:
        _HELD[name] = resources.files("filrouge").joinpath("web", "static", name).read_bytes()
    return Response(_HELD[name], headers={**_HEADERS, "Content-Type": FILES[name]})


ROUTERS = (live_router, pages_router)
