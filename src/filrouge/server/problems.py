"""Refusals as the wire sees them: problem documents (RFC 9457) with the remedy, wherever in the stack they are made."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from starlette.types import Receive, Scope, Send

from filrouge.errors import FilrougeError, TooMany, Unauthorized

MEDIA_TYPE = "application/problem+json"
Headers = Sequence[tuple[bytes, bytes]]


def problem(error: FilrougeError, status: int) -> dict[str, Any]:
    """The document of an error."""
    return {
        "type": f"urn:filrouge:error:{type(error).__name__}",
        "title": (type(error).__doc__ or "").strip().splitlines()[0],
        "status": status,
        "detail": error.message,
        "remedy": error.remedy,
        "exit_code": error.exit_code,
    }


def headers_of(error: FilrougeError) -> dict[str, str]:
    """What HTTP wants beside the document."""
    if isinstance(error, Unauthorized):
        return {"WWW-Authenticate": 'Bearer realm="filrouge"'}
    return {"Retry-After": "1"} if isinstance(error, TooMany) else {}


async def refuse(scope: Scope, receive: Receive, send: Send, error: FilrougeError) -> None:
    """Answer a request, or the opening of a WebSocket, with an error, and read nothing of it."""
    body = json.dumps(problem(error, error.http_status)).encode()
    head = {"Content-Type": MEDIA_TYPE, "Content-Length": str(len(body)), **headers_of(error)}
    headers = [(name.lower().encode(), value.encode()) for name, value in head.items()]
    kind = "http.response"
    if scope["type"] == "websocket":
        await receive()  # its wish to connect
        kind = "websocket.http.response"
        if kind not in scope.get("extensions", {}):
            await send({"type": "websocket.close", "code": 1008})
            return
    await send({"type": f"{kind}.start", "status": error.http_status, "headers": headers})
    await send({"type": f"{kind}.body", "body": body, "more_body": False})
