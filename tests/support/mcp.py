"""An MCP client that says exactly what a test wants: raw messages to the daemon, and to the shim as a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import IO, Any

from filrouge.daemon import client
from filrouge.daemon.reply import Reply
from filrouge.mcp.offered import CAPABILITIES_META, STATELESS_EDITIONS, VERSION_META

Json = dict[str, Any]


def request(method: str, params: Json | None = None, *, edition: str = "", id_: int | str = 1) -> Json:
    """A request as a client of that edition writes it."""
    params = dict(params or {})
    if edition in STATELESS_EDITIONS:
        params["_meta"] = {**params.get("_meta", {}), VERSION_META: edition, CAPABILITIES_META: {}}
    return {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}


def call(tool: str, arguments: Json, *, meta: Json | None = None, edition: str = "", id_: int | str = 1) -> Json:
    """A call of a tool."""
    params: Json = {"name": tool, "arguments": arguments} | ({"_meta": meta} if meta else {})
    return request("tools/call", params, edition=edition, id_=id_)


def initialize(edition: str = "2025-11-25", id_: int | str = 1) -> Json:
    """The beginning of a handshake."""
    who = {"name": "a test", "version": "1"}
    return request("initialize", {"protocolVersion": edition, "capabilities": {}, "clientInfo": who}, id_=id_)


def posted(home: str, message: Json, edition: str = "2025-11-25") -> Reply:
    """Send one message to the daemon's own endpoint."""
    headers = {"MCP-Protocol-Version": edition}
    if edition in STATELESS_EDITIONS:
        headers["Mcp-Method"] = message["method"]
        if "name" in message["params"]:
            headers["Mcp-Name"] = message["params"]["name"]
    return client.request(home, "POST", "/mcp", message, 30.0, headers=headers)


class Shim:
    """A shim process, spoken to line by line."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def say(self, message: object) -> None:
        self.write(json.dumps(message).encode() + b"\n")

    def write(self, raw: bytes) -> None:
        self._stdin.write(raw)
        self._stdin.flush()

    def hear(self) -> Any:
        line = self._stdout.readline()
        assert line.endswith(b"\n"), "the shim said nothing more"
        return json.loads(line)

    def ask(self, message: object) -> Any:
        self.say(message)
        return self.hear()

    def close(self) -> tuple[int, bytes, bytes]:
        """Close its pipe; its exit code, and what it had still to say on stdout and stderr."""
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, out, err

    @property
    def _stdin(self) -> IO[bytes]:
        assert self.process.stdin is not None
        return self.process.stdin

    @property
    def _stdout(self) -> IO[bytes]:
        assert self.process.stdout is not None
        return self.process.stdout


@contextmanager
def shim(home: str, cwd: str, *words: str, environ: Mapping[str, str] | None = None) -> Generator[Shim]:
    """A shim for a home, started in a directory."""
    process = subprocess.Popen(
        [sys.executable, "-m", "filrouge.cli.main", "mcp", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env={"PATH": os.environ.get("PATH", os.defpath), "FILROUGE_HOME": home, **(environ or {})},
    )
    try:
        yield Shim(process)
    finally:
        process.kill()
        process.communicate()
