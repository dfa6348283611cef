"""What the MCP shim answers by itself: the handshake of every edition, the list of tools, and refusals.

A client waits a few seconds for `initialize` at most and gives up, so nothing that is asked before the first call needs
a daemon. Pure functions from a message to its answer, on the standard library.
"""

from __future__ import annotations

from typing import Any, Final, cast

from filrouge._version import __version__
from filrouge.mcp.offered import (
    CAPABILITIES_META,
    HANDSHAKE_EDITIONS,
    INSTRUCTIONS,
    SERVER,
    SERVER_META,
    STATELESS_EDITIONS,
    TITLE,
    TOOLS,
    VERSION_META,
)

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
UNSUPPORTED_EDITION: Final = -32022

Json = dict[str, Any]

NAMES: Final = frozenset(tool["name"] for tool in TOOLS)
#: Tools that change nothing, so that they may be called again.
READ_ONLY: Final = frozenset(tool["name"] for tool in TOOLS if tool["annotations"]["readOnlyHint"])

_SERVER_INFO: Final = {"name": SERVER, "title": TITLE, "version": __version__}
_CAPABILITIES: Final = {"tools": {"listChanged": False}}
#: What results of a stateless edition say besides: they are whole, and not to be kept for others.
_WHOLE: Final = {"resultType": "complete", "_meta": {SERVER_META: _SERVER_INFO}}
_UNCACHED: Final = {"cacheScope": "private", "ttlMs": 0}


def meta_of(message: Json) -> Json:
    """The `_meta` of a message's parameters, or nothing."""
    params = message.get("params")
    found: object = cast("Json", params).get("_meta") if isinstance(params, dict) else None
    return cast("Json", found) if isinstance(found, dict) else {}


def is_stateless(message: Json) -> bool:
    """Whether a request carries its edition with it."""
    return VERSION_META in meta_of(message)


def is_id(value: object) -> bool:
    """Whether this may identify a request."""
    return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))


def edition_for(wanted: object) -> str:
    """The edition that `initialize` settles on: the one that is asked for, else the newest."""
    return wanted if isinstance(wanted, str) and wanted in HANDSHAKE_EDITIONS else HANDSHAKE_EDITIONS[-1]


def answer(message: Json) -> Json | None:
    """The answer to a request; None for a call of a tool that exists, which the daemon answers."""
    id_, method, params = message["id"], message["method"], message.get("params")
    stateless = is_stateless(message)
    if stateless and (refused := _envelope(message)) is not None:
        return refused
    if params is not None and not isinstance(params, dict):
        return failure(id_, INVALID_PARAMS, "params must be an object")
    given = cast("Json", params or {})
    match method:
        case "tools/call":
            return _call(id_, given)
        case "tools/list":
            listed: Json = {"tools": list(TOOLS)}
            return result(id_, {**listed, **_UNCACHED, **_WHOLE} if stateless else listed)
        case "server/discover" if stateless:
            found = {"supportedVersions": list(STATELESS_EDITIONS), "capabilities": _CAPABILITIES}
            return result(id_, {**found, "instructions": INSTRUCTIONS, **_UNCACHED, **_WHOLE})
        case "initialize" if not stateless:
            return _initialize(id_, given)
        case "ping" if not stateless:
            return result(id_, {})
        case _:
            return failure(id_, METHOD_NOT_FOUND, "Method not found", str(method)[:100])


def result(id_: object, value: Json) -> Json:
    """An answer."""
    return {"jsonrpc": "2.0", "id": id_, "result": value}


def failure(id_: object, code: int, said: str, data: object = None) -> Json:
    """A refusal by the protocol; `id_` None where nobody can tell what was asked."""
    error: Json = {"code": code, "message": said}
    return {"jsonrpc": "2.0", "id": id_, "error": error if data is None else {**error, "data": data}}


def failed(message: Json, said: str) -> Json:
    """The result of a call that could not be made: the agent reads what to do."""
    told: Json = {"content": [{"type": "text", "text": said}], "isError": True}
    return result(message["id"], {**told, **_WHOLE} if is_stateless(message) else told)


def _call(id_: object, params: Json) -> Json | None:
    arguments = params.get("arguments")
    if arguments is not None and not isinstance(arguments, dict):
        return failure(id_, INVALID_PARAMS, "arguments must be an object")
    if params.get("name") not in NAMES:
        return failure(id_, INVALID_PARAMS, "There is no such tool.", sorted(NAMES))
    return None


def _initialize(id_: object, params: Json) -> Json:
    if not isinstance(params.get("protocolVersion"), str):
        return failure(id_, INVALID_PARAMS, "initialize needs a protocolVersion")
    return result(
        id_,
        {
            "protocolVersion": edition_for(params["protocolVersion"]),
            "capabilities": _CAPABILITIES,
            "serverInfo": _SERVER_INFO,
            "instructions": INSTRUCTIONS,
        },
    )


def _envelope(message: Json) -> Json | None:
    """Why a request of a stateless edition cannot be served, or None."""
    meta = meta_of(message)
    edition = meta[VERSION_META]
    if CAPABILITIES_META not in meta:
        return failure(message["id"], INVALID_PARAMS, f"params._meta is missing {CAPABILITIES_META!r}")
    if not isinstance(edition, str):
        return failure(message["id"], INVALID_PARAMS, "the protocol version must be a string")
    if edition not in STATELESS_EDITIONS:
        data = {"supported": list(STATELESS_EDITIONS), "requested": edition[:100]}
        return failure(message["id"], UNSUPPORTED_EDITION, "Unsupported protocol version", data)
    return None
