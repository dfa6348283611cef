"""How the MCP shim reaches the daemon: it wakes it, warms its MCP server, and hands calls over, across restarts.

A call that never reached a daemon is made again, and so is one that only reads. An addition carries a key by which the
daemon knows it again, so it may be sent twice and is stored once. Whatever else may have been done already is not tried
again: the agent is told to look.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, cast

from filrouge.cli.mcp_answers import READ_ONLY, failed, is_stateless, meta_of
from filrouge.core.errors import DaemonUnavailable
from filrouge.daemon import client
from filrouge.mcp.offered import ONCE_META, PROJECT_META, VERSION_META

PATH: Final = "/mcp"
START_SECONDS: Final = 30.0
CALL_SECONDS: Final = 60.0
_TRIES: Final = 3
_PAUSE_SECONDS: Final = 0.2
_LOOK_SECONDS: Final = 2.0
_REPEATABLE: Final = READ_ONLY | {"memory_add"}
#: While a daemon leaves, and its successor is not there yet.
_LEAVING: Final = (502, 503)

Json = dict[str, Any]


class Daemon:
    """The daemon of a home, or the one that the environment points to. Safe for several threads.

    Args:
        project: the names of the project that the client works in.
    """

    def __init__(self, directory: str, environ: Mapping[str, str], project: tuple[str, ...]) -> None:
        self._directory = directory
        self._environ = environ
        self._project = project
        self._elsewhere = client.is_elsewhere(environ)

    def warm_up(self) -> None:
        """See that a daemon is there and has loaded its MCP server, so that the first call finds both."""
        ping = {"jsonrpc": "2.0", "id": 0, "method": "ping"}
        with suppress(DaemonUnavailable, OSError):
            if not self._elsewhere:
                self._awake()
            self._post(ping, START_SECONDS, {})

    def call(self, message: Json, edition: str) -> Json:
        """The answer to a call of a tool.

        Args:
            edition: what the client settled on; empty where it settled on nothing.
        """
        tool = str(message["params"]["name"])
        body, deadline = self._marked(message), time.monotonic() + CALL_SECONDS
        headers = _headers(message, tool, edition)
        for _ in range(_TRIES):
            try:
                reply = self._post(body, max(1.0, deadline - time.monotonic()), headers)
            except DaemonUnavailable as error:
                if not (_never_sent(error) or tool in _REPEATABLE):
                    return failed(message, "The daemon ended during this call. It may have been done: look before you"
                                  " call again.")  # fmt: skip
                if time.monotonic() > deadline or not self._is_back(deadline):
                    return failed(message, f"{error.message} {error.remedy}")
                continue
            if reply.status in _LEAVING and tool in _REPEATABLE and time.monotonic() < deadline:
                time.sleep(_PAUSE_SECONDS)
                continue
            if not self._elsewhere and reply.status == 404 and client.succeed(self._directory, reply):
                self._is_back(deadline)  # an older daemon knew nothing of this
                continue
            return _answered(message, reply)
        return failed(message, "The daemon does not answer. See `filrouge daemon status`.")

    def _post(self, body: Json, seconds: float, headers: Mapping[str, str]) -> client.Reply:
        return client.send(self._directory, self._environ, "POST", PATH, body, seconds, headers)

    def _awake(self, deadline: float | None = None) -> bool:
        """Wait for the daemon to answer, and start one as long as none is there or coming up."""
        until = deadline or time.monotonic() + START_SECONDS
        while (left := until - time.monotonic()) > 0 or client.is_starting(self._directory):
            if client.is_absent(self._directory):
                client.start(self._directory)
            if client.wait_ready(self._directory, time.monotonic() + min(max(left, _PAUSE_SECONDS), _LOOK_SECONDS)):
                return True
        return False

    def _is_back(self, deadline: float) -> bool:
        """Wait for a daemon to be there, and start one if none is; False where there is none to be had."""
        if self._elsewhere:
            time.sleep(_PAUSE_SECONDS)
            return True
        with suppress(OSError):
            return self._awake(min(deadline, time.monotonic() + START_SECONDS))
        return False

    def _marked(self, message: Json) -> Json:
        """The message with the project of the client and the key of this call."""
        marks = {PROJECT_META: list(self._project), ONCE_META: os.urandom(16).hex()}
        params = {**message["params"], "_meta": {**meta_of(message), **marks}}
        return {"jsonrpc": "2.0", "id": message["id"], "method": "tools/call", "params": params}


def _headers(message: Json, tool: str, edition: str) -> dict[str, str]:
    if is_stateless(message):
        version = str(meta_of(message)[VERSION_META])
        return {"MCP-Protocol-Version": version, "Mcp-Method": "tools/call", "Mcp-Name": tool}
    return {"MCP-Protocol-Version": edition} if edition else {}


def _never_sent(error: DaemonUnavailable) -> bool:
    """Whether nobody can have heard the call."""
    return isinstance(error.__cause__, FileNotFoundError | ConnectionRefusedError)


def _answered(message: Json, reply: client.Reply) -> Json:
    """What the daemon said, as the client reads it; a refusal of the way there is one of the call."""
    body = reply.body
    if body.get("jsonrpc") == "2.0" and ("result" in body or "error" in body):
        return {**body, "id": message["id"]}
    said = cast("list[object]", [body.get("detail"), body.get("remedy")])
    told = " ".join(part for part in said if isinstance(part, str) and part)
    return failed(message, told or f"The daemon refused the call ({reply.status}).")
