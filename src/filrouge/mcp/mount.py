"""The `/mcp` route; the MCP server is imported on the first request, for its users only.

If the SDK is missing, every request is answered with the command that installs it. The route is protected like any
other (tokens, hosts, limits). The SDK's own check of `Host` and `Origin` is enabled in addition, with the names of
this machine and those from the settings.
"""

from __future__ import annotations

import asyncio
import gc
from importlib import import_module
from typing import Any, Final, cast

from fastapi import APIRouter, Request, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from filrouge.core import installation
from filrouge.core.errors import NotInstalled
from filrouge.server.admission import requires
from filrouge.server.responses import parts_of, read_in_tx

router = APIRouter(tags=["mcp"])

PATH: Final = "/mcp"
_SDK: Final = "mcp>=2.3,<3"
#: The host name that clients on the Unix socket send, and the names of this machine, with and without a port.
HOSTS: Final = (
    "filrouge", "localhost", "127.0.0.1", "[::1]", "filrouge:*", "localhost:*", "127.0.0.1:*", "[::1]:*",
)  # fmt: skip
ORIGINS: Final = ("http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*")


class DelegatedResponse(Response):
    """A response that delegates to another ASGI application and replays the request body to it."""

    def __init__(self, app: ASGIApp, body: bytes) -> None:
        super().__init__()
        self._app = app
        self._unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request."""

        async def replay() -> Message:
            return self._unread.pop() if self._unread else await receive()

        await self._app(scope, replay, send)


@router.post(PATH, include_in_schema=False)
@requires("read")
async def mcp(request: Request) -> Response:
    """Handle one MCP message and return its answer; a tool that writes needs the `write` scope."""
    return DelegatedResponse(await _endpoint(request), await request.body())


@router.api_route(PATH, methods=["GET", "DELETE"], include_in_schema=False)
async def no_stream() -> Response:
    """Refuse GET and DELETE, because there is no stream to read and no session to end."""
    return Response(status_code=405, headers={"Allow": "POST"})


async def _endpoint(request: Request) -> ASGIApp:
    """Return the MCP server, created on first use.

    Raises:
        NotInstalled: the SDK is not installed.
    """
    state = request.app.state
    if getattr(state, "mcp", None) is None:
        try:
            module: Any = await asyncio.to_thread(import_module, "filrouge.mcp.endpoint")
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types", "jsonschema"):
                raise
            raise NotInstalled(
                f"MCP cannot be served: {error}.", remedy=f"Run `{installation.install_command(_SDK)}`."
            ) from error
        configured_hosts = await read_in_tx(
            request, lambda tx: parts_of(request).effective(tx).to_json().get("allowed_hosts") or ()
        )
        if getattr(state, "mcp", None) is None:
            hosts = [*HOSTS, *configured_hosts, *(f"{name}:*" for name in configured_hosts)]
            origins = [*ORIGINS, *(f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts)]
            state.mcp = module.endpoint(parts_of(request), hosts, origins)
            gc.freeze()  # as for the rest of the application: see `filrouge.server.serving`
    return cast("ASGIApp", state.mcp)
