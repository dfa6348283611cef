"""Connections: who may make one, how many there may be, and how long they may keep silent.

On the unix socket the kernel says whose process is at the other end; anybody but this user is cut off, root too. Over
TCP connections are counted: where there are too many, those that are idle longest are closed, so that idle ones keep
nobody out. One that sends its request too slowly is ended: uvicorn itself waits for ever for the end of a header or a
body. The two are served by two servers, so that one being full leaves the other free.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import time
from collections.abc import Sequence
from typing import Final, cast

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

#: A body that goes on must bring so much in every span of patience.
_STEP_BYTES: Final = 65_536
_REST_BYTES_A_SECOND: Final = 5_000_000
#: A client that connects sends its request at once: until then it is not taken for idle.
_GRACE_SECONDS: Final = 0.25
_FULL: Final = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_CREDENTIALS: Final = struct.Struct("3i")  # pid, uid, gid


class Inside(H11Protocol):
    """A connection over the unix socket."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Serve this user's processes and no others."""
        super().connection_made(transport)
        if not _is_this_user(transport.get_extra_info("socket")):
            transport.abort()


class Limits(uvicorn.Config):
    """uvicorn's configuration with the limits of connections.

    Attributes:
        most: connections with a request under way, and connections in all after a moment. For that moment there may be
            twice as many.
        patience: seconds that one may be idle, or take to send a request.
    """

    most: int = 64
    patience: float = 10.0


class Outside(H11Protocol):
    """A connection over TCP."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Serve it, unless requests are under way on as many connections as there may be."""
        super().connection_made(transport)
        self._since = time.monotonic()
        self._came = 0
        most = cast("Limits", self.config).most
        others = [one for one in alive(self.server_state) if one is not self]
        idle = [one for one in others if one.is_idle()]
        if len(others) - len(idle) >= most:
            transport.write(_FULL)
            transport.close()
        elif len(others) >= 2 * most:
            close_longest_idle(idle, 1)

    def is_idle(self) -> bool:
        """Whether no request is under way."""
        return self.cycle is None or self.cycle.response_complete  # pyright: ignore[reportUnnecessaryComparison]

    def idle_seconds(self) -> float:
        """Since it was made or last answered."""
        return time.monotonic() - self._since

    def data_received(self, data: bytes) -> None:
        """Take what came; a body on its way earns patience by the step."""
        if self.transport.is_closing():
            return
        self._came += len(data)
        if self._came >= _STEP_BYTES and not self._is_answered():
            self._came, self._since = 0, time.monotonic()
        super().data_received(data)
        if self._is_answered() and self.cycle.more_body and not self.transport.is_closing():
            # The rest of a body that was refused: its sender is to read the answer, and nobody is to wait for it.
            self.transport.pause_reading()
            self.loop.call_later(len(data) / _REST_BYTES_A_SECOND, self.transport.resume_reading)

    def on_response_complete(self) -> None:
        """The next request may take as long again."""
        self._came, self._since = 0, time.monotonic()
        super().on_response_complete()

    def end_if_overdue(self) -> None:
        """End the connection if a request should have been here by now."""
        waits = self.cycle is None or self.cycle.response_complete or self.cycle.more_body  # pyright: ignore[reportUnnecessaryComparison]
        if waits and time.monotonic() - self._since > cast("Limits", self.config).patience:
            self.transport.abort()

    def _is_answered(self) -> bool:
        return self.cycle is not None and self.cycle.response_complete  # pyright: ignore[reportUnnecessaryComparison]


def alive(state: ServerState) -> list[Outside]:
    """The connections over TCP; uvicorn lists one until the event loop has taken it down."""
    return [one for one in state.connections if isinstance(one, Outside) and not one.transport.is_closing()]


def close_longest_idle(idle: Sequence[Outside], number: int) -> None:
    """Close so many idle connections, those first that are idle longest."""
    for one in sorted(idle, key=Outside.idle_seconds, reverse=True)[:number]:
        one.transport.abort()


def end_overdue(server: uvicorn.Server) -> None:
    """End the connections of a server that keep it waiting, and idle ones above the limit."""
    for connection in alive(server.server_state):
        connection.end_if_overdue()
    rest = alive(server.server_state)
    if rest and (excess := len(rest) - cast("Limits", server.config).most) > 0:
        close_longest_idle([one for one in rest if one.is_idle() and one.idle_seconds() > _GRACE_SECONDS], excess)


def _is_this_user(peer: socket.socket) -> bool:
    """As the kernel says; where it cannot be asked so, the modes of the socket and its folder have decided."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    raw = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return _CREDENTIALS.unpack(raw)[1] == os.getuid()
