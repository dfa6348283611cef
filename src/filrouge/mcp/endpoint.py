"""The daemon's MCP server: seven tools over streamable HTTP. `mount` imports this module on the first request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from mcp.server.transport_security import TransportSecuritySettings

from filrouge.core.errors import Forbidden
from filrouge.mcp.offered import IDEMPOTENCY_KEY_META, INSTRUCTIONS, PROJECT_META, TOOLS
from filrouge.mcp.results import ToolResult
from filrouge.mcp.streamable import Arguments, Context, Offer, StreamableServer, is_text
from filrouge.mcp.tools import BY_NAME, Caller
from filrouge.runtime.services import Parts
from filrouge.server.admission import ACCESS, Access, includes
from filrouge.server.admission import Scope as Allowed

_MAX_NAMES, _MAX_NAME_CHARACTERS = 16, 4096
#: The scope that each tool needs: `read` if its annotation declares it read-only, else `write`.
_REQUIRED_SCOPES: Final[Mapping[str, Allowed]] = {
    tool["name"]: "read" if tool["annotations"]["readOnlyHint"] else "write" for tool in TOOLS
}


def endpoint(parts: Parts, hosts: Sequence[str], origins: Sequence[str]) -> StreamableServer:
    """Return the MCP server of one daemon."""

    async def call(ctx: Context, name: str, arguments: Arguments) -> ToolResult:
        return await BY_NAME[name](parts, _caller(ctx.meta), arguments)

    return StreamableServer(
        Offer(instructions=INSTRUCTIONS, tools=TOOLS, authorise=_check_scope, call=call),
        TransportSecuritySettings(allowed_hosts=list(hosts), allowed_origins=list(origins)),
    )


def _check_scope(ctx: Context, name: str) -> None:
    """Check the caller's scope against the tool's.

    Raises:
        Forbidden: the token's scope is too small.
    """
    request: Any = ctx.request
    access, need = request.scope[ACCESS] if request is not None else None, _REQUIRED_SCOPES[name]
    if not isinstance(access, Access) or not includes(access.scope, need):
        raise Forbidden(f"{name} needs a token with the scope {need}.")


def _caller(meta: Mapping[str, Any] | None) -> Caller:
    """Return the caller from a request's metadata; invalid entries are ignored."""
    entries = meta or {}
    names, key = entries.get(PROJECT_META), entries.get(IDEMPOTENCY_KEY_META)
    listed = cast("list[object]", names)[:_MAX_NAMES] if isinstance(names, list) else []
    return Caller(
        project=tuple(
            name
            for name in listed
            if isinstance(name, str) and name and len(name) <= _MAX_NAME_CHARACTERS and is_text(name)
        ),
        idempotency_key=key if isinstance(key, str) and len(key) <= 100 and is_text(key) else "",
    )
