"""The door stands before whatever is added to the application, and what dependencies do not reach has a guard of its
own.
"""

from __future__ import annotations

import http.client
import socket
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest
import uvicorn
from fastapi import WebSocket
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from filrouge.core.clock import SystemClock
from filrouge.runtime import repository, wiring
from filrouge.server import admission
from filrouge.server.admission import requires
from filrouge.server.api import create_app

from .test_where_requests_come_from import UPGRADE
from .wire import READ_SECONDS, status_in

#: What is added, and what it needs.
ADDED: dict[str, admission.Scope] = {
    "/mounted/inner": "write",
    "/for-readers/inner": "read",
    "/bare": "read",
    "/declared": "read",
    "/bare-socket": "read",
}
REACHED: list[str] = []


class Noting:
    """A middleware that notes whom it sees."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        REACHED.append(scope["path"])
        await self._app(scope, receive, send)


class Added:
    """A daemon's application with things added to it, on TCP, and a token of each scope."""

    def __init__(self, port: int, tokens: dict[str, str]) -> None:
        self._port, self._tokens = port, tokens

    def status(self, path: str, scope: str = "") -> int:
        """How a request with the token of that scope, or without any, is answered."""
        who = f"Authorization: Bearer {self._tokens[scope]}\r\n" if scope else ""
        upgrade = UPGRADE if path.endswith("socket") else ""
        with socket.create_connection(("127.0.0.1", self._port), timeout=READ_SECONDS) as wire:
            wire.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n{who}{upgrade}\r\n".encode())
            return status_in(wire)


async def inner(_: Request) -> PlainTextResponse:
    return PlainTextResponse("inner")


async def declared() -> list[str]:
    return []


async def talk(socket: WebSocket) -> None:
    await socket.accept()
    await socket.close()


@pytest.fixture(scope="module")
def added(tmp_path_factory: pytest.TempPathFactory) -> Generator[Added]:
    with _served(tmp_path_factory.mktemp("home")) as found:
        yield found


@contextmanager
def _served(home: Path) -> Generator[Added]:
    running = wiring.start(str(home), environ={"FILROUGE_EMBEDDING_MODEL": "hashing"}, clock=SystemClock())
    app = create_app(running, lambda: None)
    app.add_middleware(Noting)
    app.mount("/mounted", Starlette(routes=[Route("/inner", inner)]))
    app.mount("/for-readers", requires("read")(Starlette(routes=[Route("/inner", inner)])))
    app.add_route("/bare", inner)
    app.add_api_route("/declared", declared, include_in_schema=False)
    app.router.routes.append(WebSocketRoute("/bare-socket", talk))
    parts = running.parts
    made = {
        one: parts.writer.run(lambda tx, one=one: repository.create_token(parts.clock, tx, one, one))
        for one in admission.SCOPES
    }
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
    thread = Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield Added(listener.getsockname()[1], {one: str(body["token"]) for one, body in made.items()})
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()
        running.stop()


@pytest.mark.parametrize("path", ADDED)
def test_without_a_token_nothing_that_was_added_is_reached(added: Added, path: str) -> None:
    REACHED.clear()
    assert added.status(path) == 401
    assert REACHED == []
    assert added.status(path, "admin") in (http.client.OK, http.client.SWITCHING_PROTOCOLS)
    assert [path] == REACHED


@pytest.mark.parametrize("held", admission.SCOPES)
def test_a_mounted_application_is_for_those_who_may_write_unless_it_says_otherwise(
    added: Added, held: admission.Scope
) -> None:
    found = {path: added.status(path, held) in (200, 101) for path in ADDED}
    assert found == {path: admission.includes(held, need) for path, need in ADDED.items()}
