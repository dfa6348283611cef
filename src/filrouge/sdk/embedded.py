"""The embedded transport: opens the home in this process and calls the application directly.

A request is an ASGI call, so it meets the same routes, limits and problem documents as one over a socket. A home has
one owner: while the program holds it, no daemon can start, and the program does the daemon's background work. The
module is imported only when it is needed, because it loads the whole server.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping, MutableMapping
from contextlib import ExitStack
from typing import Any
from urllib.parse import unquote

from fastapi import FastAPI

from filrouge.core.errors import Busy, DaemonUnavailable
from filrouge.core.paths import socket_path
from filrouge.daemon.reply import VERSION_HEADER, Reply, parse_reply
from filrouge.runtime.library import owned
from filrouge.server.api import create_app

_LOG = logging.getLogger(__name__)


class Embedded:
    """The transport for a home that this process holds."""

    def __init__(self, home: str, *, environ: Mapping[str, str] | None = None) -> None:
        self.home: str | None = home
        self._directory = home
        self._environ = environ
        self._resources = ExitStack()
        self._app: FastAPI | None = None
        self._running_requests = 0
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    async def open(self) -> None:
        """Acquire the home and load its indexes, in a worker thread.

        Raises:
            Busy: a daemon or another program has the home open.
            StoreError: the database cannot be opened, is damaged, or is newer than this program.
        """
        opening = asyncio.ensure_future(asyncio.to_thread(self._open_home))
        try:
            self._app = await asyncio.shield(opening)
        except asyncio.CancelledError:
            await asyncio.wait([opening])  # opening cannot be interrupted; wait for it, then close
            await self.close()
            raise

    async def send(self, method: str, target: str, body: Mapping[str, Any] | None, timeout: float) -> Reply:
        """Send one request to the application."""
        if self._app is None:
            raise Busy("This home is closed.", remedy="Use the memory inside its `async with` block.")
        self._running_requests += 1
        self._is_idle.clear()
        try:
            async with asyncio.timeout(timeout):
                return await _call_app(self._app, self._directory, method, target, body)
        except TimeoutError:
            raise DaemonUnavailable(
                f"There was no answer within {timeout:.0f} seconds.", remedy="Pass a longer `timeout`."
            ) from None
        finally:
            self._running_requests -= 1
            if not self._running_requests:
                self._is_idle.set()

    async def close(self) -> None:
        """Wait for the running requests, finish pending writes, and release the home."""
        self._app = None
        await self._is_idle.wait()
        await asyncio.to_thread(self._resources.close)

    def _open_home(self) -> FastAPI:
        running = self._resources.enter_context(owned(self._directory, environ=self._environ))
        return create_app(running, lambda: None)


async def _call_app(app: FastAPI, home: str, method: str, target: str, body: Mapping[str, Any] | None) -> Reply:
    """Send one request as the server would pass it on from the Unix socket."""
    path, _, query = target.partition("?")
    content = b"" if body is None else json.dumps(body).encode("ascii")
    requests: list[MutableMapping[str, Any]] = [{"type": "http.request", "body": content, "more_body": False}]
    is_complete = asyncio.Event()
    status, headers, answer = 0, dict[str, str](), bytearray()

    async def receive() -> MutableMapping[str, Any]:
        if requests:
            return requests.pop()
        await is_complete.wait()
        return {"type": "http.disconnect"}

    async def send(message: Mapping[str, Any]) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status = message["status"]
            headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in message["headers"]}
        elif message["type"] == "http.response.body":
            answer.extend(message.get("body", b""))
            if not message.get("more_body"):
                is_complete.set()

    try:
        await app(_scope(home, method, path, query, content), receive, send)
    except Exception:
        if not is_complete.is_set():
            raise
        _LOG.exception("%s %s failed", method, path)  # the response is already complete, with its problem document
    return parse_reply(status, headers.get(VERSION_HEADER, ""), bytes(answer))


def _scope(home: str, method: str, path: str, query: str, content: bytes) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode("ascii"),
        "query_string": query.encode("ascii"),
        "root_path": "",
        "headers": [
            (b"host", b"filrouge"),
            (b"accept", b"application/json"),
            (b"content-type", b"application/json"),
            (b"content-length", str(len(content)).encode("ascii")),
        ],
        "client": None,
        "server": (socket_path(home), None),
    }
