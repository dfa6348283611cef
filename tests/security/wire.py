"""A daemon that listens on TCP, and ways to speak to it: politely, byte by byte, and as somebody else would."""

from __future__ import annotations

import http.client
import json
import pkgutil
import re
import socket
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from fastapi.routing import APIRoute

from filrouge.daemon import client
from filrouge.mcp import mount
from filrouge.server import admission, routes
from filrouge.server.deferred import routers_of
from tests.reliability.processes import Done, daemon, run, status, throw_away_home

READ_SECONDS = 20.0


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def value(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, kw_only=True)
class Served:
    """A daemon with TCP, and a token of each scope."""

    home: str
    url: str
    tokens: Mapping[str, str]
    pid: int

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def ask(
        self,
        method: str,
        path: str,
        *,
        token: str = "",
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request; `token` is the name of a scope, or a secret."""
        sent = dict(headers or {})
        if token:
            sent["Authorization"] = f"Bearer {self.tokens.get(token, token)}"
        raw = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        if raw is not None:
            sent.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=READ_SECONDS)
        try:
            connection.request(method, path, raw, sent)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(status=answer.status, headers=found, body=answer.read())
        finally:
            connection.close()

    def connect(self) -> socket.socket:
        """A bare connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=READ_SECONDS)

    def raw(self, data: bytes) -> int:
        """The status that answers these bytes; 0 where the connection ends without one."""
        with self.connect() as wire:
            wire.sendall(data)
            return status_in(wire)


def status_in(wire: socket.socket) -> int:
    """The status on the next line of a connection; 0 where it ended."""
    got = b""
    try:
        while b"\r\n" not in got:
            piece = wire.recv(4096)
            if not piece:
                return 0
            got += piece
    except ConnectionError:
        return 0
    return int(got.split(b" ", 2)[1])


@contextmanager
def served(**environ: str) -> Generator[Served]:
    """A daemon on a home of its own, listening on TCP."""
    with (
        throw_away_home() as home,
        daemon(home, **({"FILROUGE_PORT": str(free_port())} | environ)) as process,
    ):
        asked = {scope: client.request(home, "POST", "/api/tokens", {"scope": scope}) for scope in admission.SCOPES}
        made = {scope: str(reply.body["token"]) for scope, reply in asked.items()}
        yield Served(home=home, url=status(home)["url"], tokens=made, pid=process.pid)


def command(home: str, environ: Mapping[str, str], *words: str) -> Done:
    """Run `filrouge` with these words and this environment beside the home's."""
    given: dict[str, Any] = dict(environ)
    return run(home, *words, **given)


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One method of one path, with what its callers must be allowed."""

    method: str
    path: str
    scope: admission.Scope
    documented: bool


def operations() -> list[Operation]:
    """Every operation of every router, with something in the place of its parameters."""
    found: list[Operation] = []
    modules = [
        import_module(f"filrouge.server.routes.{module.name}") for module in pkgutil.iter_modules(routes.__path__)
    ]
    for module in (*modules, mount):
        for route in (route for router in routers_of(module) for route in router.routes):
            if isinstance(route, APIRoute):
                path = filled(route.path)
                found += [
                    Operation(
                        method=method,
                        path=path,
                        scope=admission.required_scope(route.endpoint, method),
                        documented=route.include_in_schema,
                    )
                    for method in sorted(route.methods or ())
                ]
    return found


def filled(path: str) -> str:
    """A path with something in the place of its parameters."""
    return re.sub(r"{[^}]+}", "x", path)
