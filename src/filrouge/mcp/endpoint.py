"""The MCP server, built on the official SDK: six tools over streamable HTTP without sessions.

Each request is self-contained, in protocol versions with and without a handshake, so a restarted daemon can serve a
client that is still running. Importing this module loads the SDK, which takes most of a second and some memory;
`mount` imports it on the first request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import jsonschema
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)
from starlette.types import Receive, Scope, Send

from filrouge._version import __version__
from filrouge.core.errors import BadInput, FilrougeError, Forbidden
from filrouge.core.guard import logged
from filrouge.mcp.offered import INSTRUCTIONS, LARGEST_REQUEST, ONCE_META, PROJECT_META, SERVER, TITLE, TOOLS
from filrouge.mcp.tools import BY_NAME, Caller, quoted
from filrouge.runtime.services import Parts
from filrouge.server.admission import ACCESS, Access, includes
from filrouge.server.admission import Scope as Allowed

_LOG = logging.getLogger(__name__)
logging.getLogger("mcp").setLevel(logging.WARNING)  # it logs every request
_MOST_NAMES, _LONGEST_NAME = 16, 4096
_CHECKS: Final = {tool["name"]: jsonschema.Draft202012Validator(tool["inputSchema"]) for tool in TOOLS}
#: The scope that each tool needs: `read` if its annotation declares it read-only, else `write`.
_NEEDED: Final[Mapping[str, Allowed]] = {
    tool["name"]: "read" if tool["annotations"]["readOnlyHint"] else "write" for tool in TOOLS
}
_SCHEMAS: Final[Mapping[str, Mapping[str, Any]]] = {tool["name"]: tool["inputSchema"] for tool in TOOLS}


class Endpoint:
    """The MCP server of one daemon, as an ASGI application. It belongs to one event loop."""

    def __init__(self, parts: Parts, hosts: Sequence[str], origins: Sequence[str]) -> None:
        self._parts = parts
        server: Server[Any] = Server(
            SERVER,
            version=__version__,
            title=TITLE,
            instructions=INSTRUCTIONS,
            get_tool_input_schema=_SCHEMAS.get,
            on_list_tools=_listed,
            on_call_tool=self._called,
        )
        self._manager = StreamableHTTPSessionManager(
            server,
            json_response=True,
            stateless=True,
            security_settings=TransportSecuritySettings(allowed_hosts=list(hosts), allowed_origins=list(origins)),
            max_request_body_size=LARGEST_REQUEST,
        )
        self._running: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if self._running is None:
            self._running = asyncio.create_task(self._run(), name="filrouge-mcp")
        await self._ready.wait()
        await self._manager.handle_request(scope, receive, send)

    async def _run(self) -> None:
        """Keep the manager's task group open while the event loop runs."""
        async with self._manager.run():
            self._ready.set()
            await asyncio.Event().wait()

    async def _called(self, ctx: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> CallToolResult:
        tool = BY_NAME.get(params.name)
        if tool is None:
            raise MCPError(code=INVALID_PARAMS, message=f"There is no tool {quoted(params.name, 60)!r}.")
        arguments = params.arguments or {}
        with logged(_LOG, "the tool %s stumbled", params.name):
            try:
                _permitted(ctx.request, params.name)
                _check(params.name, arguments)
                told = await tool(self._parts, _caller(ctx.meta), arguments)
            except FilrougeError as error:
                return _failed(f"{error.message} {error.remedy}".strip())
            return CallToolResult(content=[TextContent(text=told.text)], structured_content=told.value)
        return _failed("Internal error; see the log. Retry with different arguments.")


async def _listed(_: ServerRequestContext[Any, Any], __: PaginatedRequestParams | None) -> ListToolsResult:
    return ListToolsResult(tools=[Tool.model_validate(tool) for tool in TOOLS])


def _failed(said: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=said)], is_error=True)


def _permitted(request: Any, name: str) -> None:
    """Check the caller's scope against the tool's.

    Raises:
        Forbidden: the token's scope is too small.
    """
    access, need = request.scope[ACCESS] if request is not None else None, _NEEDED[name]
    if not isinstance(access, Access) or not includes(access.scope, need):
        raise Forbidden(f"{name} needs a token with the scope {need}.")


def _check(name: str, arguments: Mapping[str, Any]) -> None:
    """Validate arguments against the tool's schema.

    Raises:
        BadInput: names the argument and what is allowed, without repeating its value.
    """
    for argument, value in arguments.items():
        if not _is_text(argument) or (isinstance(value, str) and not _is_text(value)):
            raise BadInput("An argument contains a lone surrogate.", remedy="Send UTF-8.")
    errors = cast("Any", _CHECKS[name]).iter_errors(dict(arguments))
    found = min(errors, key=lambda error: list(error.absolute_path), default=None)
    if found is None:
        return
    where = ".".join(str(part) for part in found.absolute_path) or name
    schema = cast("Mapping[str, Any]", found.schema)
    if found.validator == "additionalProperties":
        said = f"{name} takes {', '.join(schema['properties'])}, and nothing else."
    elif found.validator == "required":
        said = f"{name} needs {', '.join(schema['required'])}."
    else:
        said = f"{where}: {found.validator} is {found.validator_value}."
    raise BadInput(said, remedy="See the tool's input schema.")


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _caller(meta: Mapping[str, Any] | None) -> Caller:
    """Return the caller from a request's metadata; invalid entries are ignored."""
    said = meta or {}
    names, once = said.get(PROJECT_META), said.get(ONCE_META)
    listed = cast("list[object]", names)[:_MOST_NAMES] if isinstance(names, list) else []
    return Caller(
        project=tuple(n for n in listed if isinstance(n, str) and n and len(n) <= _LONGEST_NAME and _is_text(n)),
        once=once if isinstance(once, str) and len(once) <= 100 and _is_text(once) else "",
    )
