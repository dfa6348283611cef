"""The daemon's outer application: serves hooks at once, and loads FastAPI for everything else.

FastAPI and the answer models are a quarter of what the daemon imports, and hooks need none of it. Until FastAPI is
loaded, this application answers `/health` and hook events on the Unix socket itself. Any other request, and any hook
request in an unusual form, waits until FastAPI is loaded and is then passed on unread. From then on FastAPI serves
every request.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from importlib import import_module
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from filrouge._version import __version__
from filrouge.context.service import confirm
from filrouge.core.errors import FilrougeError
from filrouge.runtime.wiring import Running
from filrouge.server.auth import HEALTH, with_version_header
from filrouge.server.body_limits import SMALL, read_and_replay
from filrouge.server.listening import Listening
from filrouge.server.live import Confirmation, Delivery, answer

if TYPE_CHECKING:
    from fastapi import FastAPI

_EVENTS: Final = "/hooks/events"
_DELIVERED: Final = "/hooks/delivered"


class Front:
    """An ASGI application that delegates to FastAPI once that is loaded."""

    def __init__(self, running: Running, leave: Callable[[], None], listening: Listening) -> None:
        self._running, self._leave, self._listening = running, leave, listening
        self._lock = Lock()
        self._app: FastAPI | None = None

    def load(self) -> FastAPI:
        """Return the FastAPI application; the first caller imports it, and concurrent callers wait."""
        with self._lock:
            if self._app is None:
                made: FastAPI = import_module("filrouge.server.api").create_app(
                    self._running, self._leave, self._listening
                )
                self._app = made
            return self._app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if self._app is None and _is_plain(scope):
            body, receive = await read_and_replay(receive)
            response = await self._answered(scope, body, receive)
            if response is not None:
                self._running.parts.meters.request(scope["method"], scope["path"], response.status_code)
                await response(scope, receive, with_version_header(send, ()))
                return
        app: ASGIApp = self._app or await asyncio.to_thread(self.load)
        await app(scope, receive, send)

    async def _answered(self, scope: Scope, body: bytes, receive: Receive) -> Response | None:
        """Return the answer to a hook's request; None if it is invalid and FastAPI has to report the error."""
        parts = self._running.parts
        try:
            if scope["path"] == HEALTH:
                return JSONResponse({"status": "healthy", "version": __version__})
            given: Any = json.loads(body)
            if scope["path"] == _DELIVERED:
                confirm(parts, Confirmation.model_validate(given).recall)
                return JSONResponse({"success": True})
            return await answer(parts, Delivery.model_validate(given), Request(scope, receive).is_disconnected)
        except (FilrougeError, ValidationError, ValueError):
            return None


def _is_plain(scope: Scope) -> bool:
    """Return whether a request on the Unix socket is the health check or has the exact form that hooks send."""
    server = scope.get("server")
    if scope["type"] != "http" or server is None or server[1] is not None or scope["query_string"]:
        return False
    if scope["method"] == "GET":
        return scope["path"] == HEALTH
    headers = dict(scope["headers"])
    length = headers.get(b"content-length", b"")
    return (
        scope["method"] == "POST"
        and scope["path"] in (_EVENTS, _DELIVERED)
        and headers.get(b"content-type", b"").split(b";")[0].strip().lower() == b"application/json"
        and b"idempotency-key" not in headers
        and length.isdigit()
        and len(length) < 10
        and int(length) <= SMALL
    )
