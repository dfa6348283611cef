"""Refusal of request bodies over a maximum.

It imports no FastAPI, because the daemon serves hooks before FastAPI is loaded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Literal

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from filrouge.core.errors import BadInput, TooLarge
from filrouge.server.problems import refuse

_MAX_LENGTH_DIGITS: Final = 18


async def _at_once(_: int) -> None:
    """Read on without a delay."""


class BodyLimit:
    """ASGI middleware that refuses bodies over a maximum: by their declared length, or as they arrive."""

    def __init__(
        self,
        app: ASGIApp,
        max_bytes: int,
        remedy: str | None = None,
        on_bytes: Callable[[int], Awaitable[None]] = _at_once,
    ) -> None:
        """Wrap an application.

        Args:
            remedy: what to do about a body that is too large; None = the error's own.
            on_bytes: waits until that many more bytes may be read.
        """
        self._app = app
        self._max_bytes = max_bytes
        self._remedy = remedy
        self._on_bytes = on_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it."""
        lengths = [value.decode("latin-1") for name, value in scope.get("headers", ()) if name == b"content-length"]
        if any(not length.isdecimal() for length in lengths):
            remedy = "Send the length of the body in bytes."
            await refuse(scope, receive, send, BadInput("The Content-Length is not a number.", remedy=remedy))
        elif any(len(length) > _MAX_LENGTH_DIGITS or int(length) > self._max_bytes for length in lengths):
            await refuse(scope, receive, send, self._too_large_error())
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count the body as it arrives; one over the maximum is refused and read no further."""
        received = 0
        answered: Literal["no", "by the route", "by us"] = "no"

        async def receive_limited() -> Message:
            nonlocal received, answered
            message = await receive()
            size = len(message.get("body", b""))
            received += size
            if received <= self._max_bytes:
                await self._on_bytes(size)
                return message
            if answered == "no":
                answered = "by us"
                await refuse(scope, receive, send, self._too_large_error())
            return {"type": "http.disconnect"}

        async def send_unless_refused(message: Message) -> None:
            nonlocal answered
            if answered != "by us":  # the client already has the refusal; drop what the route still sends
                answered = "by the route"
                await send(message)

        await self._app(scope, receive_limited, send_unless_refused)

    def _too_large_error(self) -> TooLarge:
        return TooLarge(f"A request may have at most {self._max_bytes / 1_000_000:g} MB.", remedy=self._remedy)
