"""Problem documents (RFC 9457): how errors are written as HTTP responses, with a remedy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from filrouge.core.errors import FilrougeError, TooMany, Unauthorized
from filrouge.server.refusal import refusal_page

PROBLEM: Final = "application/problem+json"


def problem_document(error: FilrougeError, status: int) -> dict[str, Any]:
    """Return the problem document of an error."""
    return {
        "type": f"urn:filrouge:error:{type(error).__name__}",
        "title": (type(error).__doc__ or "").strip().splitlines()[0],
        "status": status,
        "detail": error.message,
        "remedy": error.remedy,
        "exit_code": error.exit_code,
    }


def problem_response(
    error: FilrougeError, *, status: int = 0, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """Return the response for an error, with the error's own status unless `status` is given."""
    code = status or error.http_status
    return JSONResponse(
        problem_document(error, code),
        status_code=code,
        media_type=PROBLEM,
        headers={**_headers_of(error), **(headers or {})},
    )


def _headers_of(error: FilrougeError) -> dict[str, str]:
    """Return the headers that HTTP requires beside the document."""
    if isinstance(error, Unauthorized):
        return {"WWW-Authenticate": 'Bearer realm="filrouge"'}
    return {"Retry-After": str(error.retry_after)} if isinstance(error, TooMany) else {}


async def refuse(scope: Scope, receive: Receive, send: Send, error: FilrougeError) -> None:
    """Answer a request or a WebSocket handshake with an error, without reading its body.

    A browser that opens an address gets a page that says what to do instead.
    """
    head: dict[str, str]
    if _is_navigation(scope):
        page, head = refusal_page(error, _accepted(scope, b"accept-language"))
        body = page.encode()
    else:
        body = json.dumps(problem_document(error, error.http_status)).encode()
        head = {"Content-Type": PROBLEM}
    head = {**head, "Content-Length": str(len(body)), **_headers_of(error)}
    headers = [(name.lower().encode(), value.encode()) for name, value in head.items()]
    kind = "http.response"
    if scope["type"] == "websocket":
        await receive()  # the websocket.connect message
        kind = "websocket.http.response"
        if kind not in scope.get("extensions", {}):
            await send({"type": "websocket.close", "code": 1008})
            return
    await send({"type": f"{kind}.start", "status": error.http_status, "headers": headers})
    await send({"type": f"{kind}.body", "body": body, "more_body": False})


def _is_navigation(scope: Scope) -> bool:
    """Return whether a browser asks for a page, rather than a program for an answer."""
    return scope["type"] == "http" and scope["method"] == "GET" and "text/html" in _accepted(scope, b"accept")


def _accepted(scope: Scope, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")
