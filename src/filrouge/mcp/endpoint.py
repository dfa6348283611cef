"""The MCP server, built on the official SDK: seven tools over streamable HTTP without sessions.

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
from filrouge.mcp.offered import (
    IDEMPOTENCY_KEY_META,
    INSTRUCTIONS,
    MAX_REQUEST_BYTES,
    PROJECT_META,
    SERVER,
    TITLE,
    TOOLS,
)
from filrouge.mcp.tools import BY_NAME, Caller, quote
from filrouge.runtime.services import Parts
from filrouge.server.admission import ACCESS, Access, includes
from filrouge.server.admission import Scope as Allowed

_LOG = logging.getLogger(__name__)
logging.getLogger("mcp").setLevel(logging.WARNING)  # it logs every request
_MAX_NAMES, _MAX_NAME_CHARACTERS = 16, 4096
_VALIDATORS: Final = {tool["name"]: jsonschema.Draft202012Validator(tool["inputSchema"]) for tool in TOOLS}
#: The scope that each tool needs: `read` if its annotation declares it read-only, else `write`.
_REQUIRED_SCOPES: Final[Mapping[str, Allowed]] = {
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
            on_list_tools=_list_tools,
            on_call_tool=self._call_tool,
        )
        self._manager = StreamableHTTPSessionManager(
            server,
            json_response=True,
            stateless=True,
            security_settings=TransportSecuritySettings(allowed_hosts=list(hosts), allowed_origins=list(origins)),
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

    async def _call_tool(self, ctx: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> CallToolResult:
        tool = BY_NAME.get(params.name)
        if tool is None:
            raise MCPError(code=INVALID_PARAMS, message=f"There is no tool {quote(params.name, 60)!r}.")
        arguments = params.arguments or {}
        with logged(_LOG, "the tool %s stumbled", params.name):
            try:
                _check_scope(ctx.request, params.name)
                _check_arguments(params.name, arguments)
                result = await tool(self._parts, _caller(ctx.meta), arguments)
            except FilrougeError as error:
                return _error_result(f"{error.message} {error.remedy}".strip())
            return CallToolResult(content=[TextContent(text=result.text)], structured_content=result.value)
        return _error_result("Internal error; see the log. Retry with different arguments.")


async def _list_tools(_: ServerRequestContext[Any, Any], __: PaginatedRequestParams | None) -> ListToolsResult:
    return ListToolsResult(tools=[Tool.model_validate(tool) for tool in TOOLS])


def _error_result(message: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=message)], is_error=True)


def _check_scope(request: Any, name: str) -> None:
    """Check the caller's scope against the tool's.

    Raises:
        Forbidden: the token's scope is too small.
    """
    access, need = request.scope[ACCESS] if request is not None else None, _REQUIRED_SCOPES[name]
    if not isinstance(access, Access) or not includes(access.scope, need):
        raise Forbidden(f"{name} needs a token with the scope {need}.")


def _check_arguments(name: str, arguments: Mapping[str, Any]) -> None:
    """Validate arguments against the tool's schema.

    Raises:
        BadInput: names the argument and what is allowed, without repeating its value.
    """
    for argument, value in arguments.items():
        if not _is_text(argument) or (isinstance(value, str) and not _is_text(value)):
            raise BadInput("An argument contains a lone surrogate.", remedy="Send UTF-8.")
    errors = cast("Any", _VALIDATORS[name]).iter_errors(dict(arguments))
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


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _caller(meta: Mapping[str, Any] | None) -> Caller:
    """Return the caller from a request's metadata; invalid entries are ignored."""
    entries = meta or {}
    names, key = entries.get(PROJECT_META), entries.get(IDEMPOTENCY_KEY_META)
    listed = cast("list[object]", names)[:_MAX_NAMES] if isinstance(names, list) else []
    return Caller(
        project=tuple(
            name
            for name in listed
            if isinstance(name, str) and name and len(name) <= _MAX_NAME_CHARACTERS and _is_text(name)
        ),
        idempotency_key=key if isinstance(key, str) and len(key) <= 100 and _is_text(key) else "",
    )
