"""An MCP server over streamable HTTP without sessions, built on the official SDK, and how its tools write text.

Each request is self-contained, in protocol versions with and without a handshake, so a restarted server can serve a
client that is still running. Importing this module loads the SDK, which takes most of a second and some memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
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
from msgspec import Struct
from starlette.types import Receive, Scope, Send

from filrouge._version import __version__
from filrouge.core.errors import BadInput, FilrougeError
from filrouge.core.guard import logged
from filrouge.mcp.offered import MAX_REQUEST_BYTES, SERVER, TITLE
from filrouge.mcp.results import ToolResult, quote

_LOG = logging.getLogger(__name__)
logging.getLogger("mcp").setLevel(logging.WARNING)  # it logs every request

Context = ServerRequestContext[Any, Any]
Arguments = Mapping[str, Any]


class Offer(Struct, frozen=True, kw_only=True):
    """The tools of a server.

    Attributes:
        tools: the declarations, as `mcp.offered.TOOLS`.
        authorise: checks whether the caller may call the tool of this name; raises `Forbidden`.
        call: runs the tool of this name with valid arguments.
    """

    instructions: str
    tools: Sequence[Mapping[str, Any]]
    authorise: Callable[[Context, str], None]
    call: Callable[[Context, str, Arguments], Awaitable[ToolResult]]


class StreamableServer:
    """An MCP server as an ASGI application. It belongs to one event loop."""

    def __init__(self, offer: Offer, security: TransportSecuritySettings) -> None:
        self._offer = offer
        self._listed = [Tool.model_validate(tool) for tool in offer.tools]
        self._validators: Final = {
            tool["name"]: jsonschema.Draft202012Validator(tool["inputSchema"]) for tool in offer.tools
        }
        server: Server[Any] = Server(
            SERVER,
            version=__version__,
            title=TITLE,
            instructions=offer.instructions,
            get_tool_input_schema={tool["name"]: tool["inputSchema"] for tool in offer.tools}.get,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )
        self._manager = StreamableHTTPSessionManager(
            server,
            json_response=True,
            stateless=True,
            security_settings=security,
            max_request_body_size=MAX_REQUEST_BYTES,
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

    async def _list_tools(self, _: Context, __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=self._listed)

    async def _call_tool(self, ctx: Context, params: CallToolRequestParams) -> CallToolResult:
        validator = self._validators.get(params.name)
        if validator is None:
            raise MCPError(code=INVALID_PARAMS, message=f"There is no tool {quote(params.name, 60)!r}.")
        arguments = params.arguments or {}
        with logged(_LOG, "the tool %s stumbled", params.name):
            try:
                self._offer.authorise(ctx, params.name)
                _check_arguments(params.name, arguments, validator)
                result = await self._offer.call(ctx, params.name, arguments)
            except FilrougeError as error:
                return _error_result(f"{error.message} {error.remedy}".strip())
            return CallToolResult(content=[TextContent(text=result.text)], structured_content=result.value)
        return _error_result("Internal error; see the log. Retry with different arguments.")


def _error_result(message: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=message)], is_error=True)


def _check_arguments(name: str, arguments: Arguments, validator: jsonschema.Draft202012Validator) -> None:
    """Validate arguments against the tool's schema.

    Raises:
        BadInput: names the argument and what is allowed, without repeating its value.
    """
    for argument, value in arguments.items():
        if not is_text(argument) or (isinstance(value, str) and not is_text(value)):
            raise BadInput("An argument contains a lone surrogate.", remedy="Send UTF-8.")
    errors = cast("Any", validator).iter_errors(dict(arguments))
    found = min(errors, key=lambda error: list(error.absolute_path), default=None)
    if found is None:
        return
    where = ".".join(str(part) for part in found.absolute_path) or name
    schema = cast("Mapping[str, Any]", found.schema)
    if found.validator == "additionalProperties":
        message = f"{name} takes {', '.join(schema['properties'])}, and nothing else."
    elif found.validator == "required":
        message = f"{name} needs {', '.join(schema['required'])}."
    else:
        message = f"{where}: {found.validator} is {found.validator_value}."
    raise BadInput(message, remedy="See the tool's input schema.")


def is_text(value: str) -> bool:
    """Return True if a value can be written as UTF-8."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
