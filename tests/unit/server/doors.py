"""Both doors of an application under test: the socket, where nobody needs a token, and TCP, where everybody does."""

from __future__ import annotations

from threading import Event as Flag
from types import SimpleNamespace
from typing import Any, cast

from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from filrouge.runtime import wiring
from filrouge.server.api import create_app

_PORT = 8900
_HOST = f"127.0.0.1:{_PORT}"
_OURS = (b"host", b"authorization", b"x-api-key", b"cookie", b"origin")


def nobody() -> FastAPI:
    """An application of which only the document is read: nothing runs behind it."""
    return create_app(cast("wiring.Running", SimpleNamespace(parts=None)), Flag().set)


class Inside:
    """The application as it is reached on the socket; its document is read before any is running."""

    def __init__(self, app: FastAPI) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app({**scope, "server": ("filrouge.sock", None)}, receive, send)


class Outside:
    """The same as it is reached over TCP by whoever holds that token; with an empty one, by somebody without."""

    def __init__(self, app: FastAPI, token: str = "") -> None:
        self.app, self.token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        own = [(b"host", _HOST.encode())]
        own += [(b"authorization", f"Bearer {self.token}".encode())] if self.token else []
        headers = [*own, *(pair for pair in scope["headers"] if pair[0].lower() not in _OURS)]
        await self.app({**scope, "server": ("127.0.0.1", _PORT), "headers": headers}, receive, send)


def operations(app: FastAPI) -> list[tuple[str, str, dict[str, Any]]]:
    """Path, method and description of everything that the document names."""
    paths = cast("dict[str, dict[str, dict[str, Any]]]", app.openapi()["paths"])
    return [
        (path, method.upper(), operation) for path, methods in paths.items() for method, operation in methods.items()
    ]
