"""Connection handling: peer checks, connection limits and idle time-outs.

On the Unix socket the kernel names the user of the peer process; every other user is disconnected, root included. TCP
connections are counted; when there are too many, the longest idle ones are closed, so that idle connections block no
new ones. A connection that sends its request too slowly is closed, because uvicorn itself waits forever for the end of
a header or a body. Two servers handle the Unix socket and TCP, so that one stays available when the other is full.
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

#: A body in transfer must bring this many bytes within each time-out.
_STEP_BYTES: Final = 65_536
_REST_BYTES_A_SECOND: Final = 5_000_000
#: A client sends its request right after it connects; a connection younger than this does not count as idle.
_GRACE_SECONDS: Final = 0.25
_FULL: Final = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_CREDENTIALS: Final = struct.Struct("3i")  # pid, uid, gid


class Inside(H11Protocol):
    """A connection on the Unix socket."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Accept processes of this user only."""
        super().connection_made(transport)
        if not _is_this_user(transport.get_extra_info("socket")):
            transport.abort()


class Limits(uvicorn.Config):
    """uvicorn's configuration, extended by connection limits.

    Attributes:
        most: maximum connections with a running request, and maximum connections in total; the total may briefly be
            twice as high.
        patience: seconds that a connection may be idle or take to send a request.
    """

    most: int = 64
    patience: float = 10.0


class Outside(H11Protocol):
    """A connection over TCP."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Serve the connection, unless the maximum number of connections have a running request."""
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
        """Return whether no request is running."""
        return self.cycle is None or self.cycle.response_complete  # pyright: ignore[reportUnnecessaryComparison]

    def idle_seconds(self) -> float:
        """Return the seconds since the connection was made or last answered."""
        return time.monotonic() - self._since

    def data_received(self, data: bytes) -> None:
        """Receive data; every `_STEP_BYTES` of a body restart the time-out."""
        if self.transport.is_closing():
            return
        self._came += len(data)
        if self._came >= _STEP_BYTES and not self._is_answered():
            self._came, self._since = 0, time.monotonic()
        super().data_received(data)
        if self._is_answered() and self.cycle.more_body and not self.transport.is_closing():
            # The rest of a refused body: the client can still read the answer, and reading the rest must not block
            # others.
            self.transport.pause_reading()
            self.loop.call_later(len(data) / _REST_BYTES_A_SECOND, self.transport.resume_reading)

    def on_response_complete(self) -> None:
        """Restart the time-out for the next request."""
        self._came, self._since = 0, time.monotonic()
        super().on_response_complete()

    def end_if_overdue(self) -> None:
        """Close the connection if its request is overdue."""
        waits = self.cycle is None or self.cycle.response_complete or self.cycle.more_body  # pyright: ignore[reportUnnecessaryComparison]
        if waits and time.monotonic() - self._since > cast("Limits", self.config).patience:
            self.transport.abort()

    def _is_answered(self) -> bool:
        return self.cycle is not None and self.cycle.response_complete  # pyright: ignore[reportUnnecessaryComparison]


def alive(state: ServerState) -> list[Outside]:
    """Return the open TCP connections; uvicorn lists a closing one until the event loop has removed it."""
    return [one for one in state.connections if isinstance(one, Outside) and not one.transport.is_closing()]


def close_longest_idle(idle: Sequence[Outside], number: int) -> None:
    """Close the given number of idle connections, longest idle first."""
    for one in sorted(idle, key=Outside.idle_seconds, reverse=True)[:number]:
        one.transport.abort()


def end_overdue(server: uvicorn.Server) -> None:
    """Close overdue connections of a server, and idle ones above the limit."""
    for connection in alive(server.server_state):
        connection.end_if_overdue()
    rest = alive(server.server_state)
    if rest and (excess := len(rest) - cast("Limits", server.config).most) > 0:
        close_longest_idle([one for one in rest if one.is_idle() and one.idle_seconds() > _GRACE_SECONDS], excess)


def _is_this_user(peer: socket.socket) -> bool:
    """Return whether the peer is this user; without SO_PEERCRED the modes of the socket and its folder protect it."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    raw = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return _CREDENTIALS.unpack(raw)[1] == os.getuid()
