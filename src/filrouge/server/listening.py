"""Where the daemon listens, who may connect, and how many connections it holds.

Without a free port the daemon still starts and serves the Unix socket; the log and the status report the missing port.
An address that other machines can reach is opened only with a stored token and a certificate. Without them the daemon
does not start, so that nobody assumes a protection that does not exist.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import os
import socket
import ssl
import struct
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, cast

import uvicorn
from msgspec import Struct
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from filrouge.core.errors import BadConfig
from filrouge.core.settings import Settings
from filrouge.runtime.repository import Tokens
from filrouge.runtime.services import Parts
from filrouge.server.live import WEBSOCKET_SETTINGS

# Connection handling: peer checks, connection limits and idle time-outs.
#
# On the Unix socket the kernel names the user of the peer process; every other user is disconnected, root included.
# TCP connections are counted; when there are too many, the longest idle ones are closed, so that idle connections
# do not block new ones. A connection that sends its request too slowly is closed, because uvicorn itself waits forever
# for the end of a header or a body. Two servers handle the Unix socket and TCP, so that one stays available when the
# other is full.

#: A body in transfer must bring this many bytes within each time-out.
_STEP_BYTES: Final = 65_536
_DISCARD_BYTES_A_SECOND: Final = 5_000_000
#: A client sends its request right after it connects; a connection younger than this does not count as idle.
_GRACE_SECONDS: Final = 0.25
_TOO_MANY_CONNECTIONS: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
)
_CREDENTIALS: Final = struct.Struct("3i")  # pid, uid, gid


class UnixConnection(H11Protocol):
    """A connection on the Unix socket."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Accept processes of this user only."""
        super().connection_made(transport)
        if not _is_this_user(transport.get_extra_info("socket")):
            transport.abort()


class TcpConfig(uvicorn.Config):
    """uvicorn's configuration, extended by connection limits.

    Attributes:
        max_connections: maximum connections with a running request, and maximum connections in total; the total may
            briefly be twice as high.
        request_timeout: seconds that a connection may be idle or take to send a request.
    """

    max_connections: int = 64
    request_timeout: float = 10.0


class TcpConnection(H11Protocol):
    """A connection over TCP."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Serve the connection, unless the maximum number of connections have a running request."""
        super().connection_made(transport)
        self._waiting_since = time.monotonic()
        self._received_bytes = 0
        maximum = cast("TcpConfig", self.config).max_connections
        others = [connection for connection in open_connections(self.server_state) if connection is not self]
        idle = [connection for connection in others if connection.is_idle()]
        if len(others) - len(idle) >= maximum:
            transport.write(_TOO_MANY_CONNECTIONS)
            transport.close()
        elif len(others) >= 2 * maximum:
            close_longest_idle(idle, 1)

    def is_idle(self) -> bool:
        """Return whether no request is running."""
        return self.cycle is None or self.cycle.response_complete  # pyright: ignore[reportUnnecessaryComparison]

    def idle_seconds(self) -> float:
        """Return the seconds since the connection was made or last answered."""
        return time.monotonic() - self._waiting_since

    def data_received(self, data: bytes) -> None:
        """Receive data; every `_STEP_BYTES` of a body restart the time-out."""
        if self.transport.is_closing():
            return
        self._received_bytes += len(data)
        if self._received_bytes >= _STEP_BYTES and not self._is_answered():
            self._received_bytes, self._waiting_since = 0, time.monotonic()
        super().data_received(data)
        if self._is_answered() and self.cycle.more_body and not self.transport.is_closing():
            # The rest of a refused body: the client can still read the answer, and reading the rest must not block
            # others.
            self.transport.pause_reading()
            self.loop.call_later(len(data) / _DISCARD_BYTES_A_SECOND, self.transport.resume_reading)

    def on_response_complete(self) -> None:
        """Restart the time-out for the next request."""
        self._received_bytes, self._waiting_since = 0, time.monotonic()
        super().on_response_complete()

    def close_if_overdue(self) -> None:
        """Close the connection if its request is overdue."""
        is_waiting = self.cycle is None or self.cycle.response_complete or self.cycle.more_body  # pyright: ignore[reportUnnecessaryComparison]
        if is_waiting and time.monotonic() - self._waiting_since > cast("TcpConfig", self.config).request_timeout:
            self.transport.abort()

    def _is_answered(self) -> bool:
        return self.cycle is not None and self.cycle.response_complete  # pyright: ignore[reportUnnecessaryComparison]


def open_connections(state: ServerState) -> list[TcpConnection]:
    """Return the open TCP connections; uvicorn lists a closing one until the event loop has removed it."""
    return [
        connection
        for connection in state.connections
        if isinstance(connection, TcpConnection) and not connection.transport.is_closing()
    ]


def close_longest_idle(idle: Sequence[TcpConnection], number: int) -> None:
    """Close the given number of idle connections, longest idle first."""
    for connection in sorted(idle, key=TcpConnection.idle_seconds, reverse=True)[:number]:
        connection.transport.abort()


def close_overdue(server: uvicorn.Server) -> None:
    """Close overdue connections of a server, and idle ones above the limit."""
    for connection in open_connections(server.server_state):
        connection.close_if_overdue()
    remaining = open_connections(server.server_state)
    if remaining and (excess := len(remaining) - cast("TcpConfig", server.config).max_connections) > 0:
        close_longest_idle(
            [
                connection
                for connection in remaining
                if connection.is_idle() and connection.idle_seconds() > _GRACE_SECONDS
            ],
            excess,
        )


def _is_this_user(peer: socket.socket) -> bool:
    """Return whether the peer is this user; without SO_PEERCRED the modes of the socket and its folder protect it."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    raw = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return _CREDENTIALS.unpack(raw)[1] == os.getuid()


# Where the daemon listens: always on its Unix socket, and on a TCP port if one is free.

_LOG = logging.getLogger("filrouge.daemon")
#: Number of ports to try, from the configured one on: the maximum number of homes with a running daemon.
_MAX_PORTS = 200
_BACKLOG = 128
_SHUTDOWN_SECONDS = 5


class Listening(Struct, frozen=True, kw_only=True):
    """Where the daemon listens on TCP.

    Attributes:
        url: the URL of its TCP port; None if it does not listen on one.
        notice: why it does not listen although a port is configured, a sentence for the user; empty otherwise.
        listener: the bound and listening socket; None if it does not listen. `open_listener` closes it.
    """

    url: str | None = None
    notice: str = ""
    listener: socket.socket | None = None


@contextmanager
def open_listener(parts: Parts) -> Generator[Listening]:
    """Listen on TCP as configured while the block runs.

    Raises:
        BadConfig: other machines can reach the address, but a token or TLS is missing; or the certificate is invalid.
    """
    try:
        settings = parts.readers.here(lambda tx: parts.effective(tx).settings)
    except BadConfig as error:
        listening = Listening(notice=f"No TCP: {error.message}")
    else:
        listening = _open(settings, any_token=parts.readers.here(lambda tx: Tokens(tx).has_valid_token()))
    if listening.notice:
        _LOG.warning("%s", listening.notice)
    try:
        yield listening
    finally:
        if listening.listener is not None:
            listening.listener.close()


def unix_config(app: ASGIApp) -> uvicorn.Config:
    """Return the server configuration for the Unix socket."""
    return uvicorn.Config(
        app,
        http=UnixConnection,
        log_config=None,
        access_log=False,
        lifespan="off",
        proxy_headers=False,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        **WEBSOCKET_SETTINGS,
    )


def tcp_config(app: ASGIApp, settings: Settings) -> TcpConfig:
    """Return the server configuration for TCP."""
    config = TcpConfig(
        app,
        http=TcpConnection,
        log_config=None,
        access_log=False,
        lifespan="off",
        proxy_headers=False,  # headers from a client are not trusted
        server_header=False,
        timeout_keep_alive=max(1, int(settings.limit_seconds)),
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        **WEBSOCKET_SETTINGS,
        ssl_certfile=settings.tls_cert or None,
        ssl_keyfile=settings.tls_key or None,
    )
    config.max_connections, config.request_timeout = settings.limit_connections, settings.limit_seconds
    return config


def _open(settings: Settings, *, any_token: bool) -> Listening:
    if not settings.port:
        return Listening()
    address = _parse_address(settings.host)
    if not address.is_loopback:
        _check_exposed(settings, any_token=any_token)
    _check_certificate(settings)
    try:
        listener = _bind(address, settings.port)
    except OSError as error:
        last = min(settings.port + _MAX_PORTS - 1, 65_535)
        notice = f"No TCP: none of the ports {settings.port} to {last} of {address} is available ({error.strerror})."
        return Listening(notice=notice)
    return Listening(url=_url(settings, address, listener.getsockname()[1]), listener=listener)


def _parse_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    try:
        return ipaddress.ip_address("127.0.0.1" if host.strip() == "localhost" else host.strip().strip("[]"))
    except ValueError:
        raise BadConfig(
            f"The setting host is not an address: {host!r}.",
            remedy="Set it to an IP address of this machine, for example 127.0.0.1.",
        ) from None


def _check_exposed(settings: Settings, *, any_token: bool) -> None:
    if any_token and settings.tls_cert and settings.tls_key:
        return
    missing = [] if any_token else ["token (`filrouge token create`, while host is 127.0.0.1)"]
    missing += [] if settings.tls_cert and settings.tls_key else ["certificate (the settings tls_cert and tls_key)"]
    raise BadConfig(
        f"Other machines can reach the address {settings.host}, but it has no {' and no '.join(missing)}.",
        remedy="Set host back to 127.0.0.1, or add what is missing.",
    )


def _check_certificate(settings: Settings) -> None:
    if not settings.tls_cert and not settings.tls_key:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.tls_cert, settings.tls_key or None)
    except (OSError, ValueError) as error:
        raise BadConfig(
            f"tls_cert and tls_key cannot be used: {error}.",
            remedy="Set them to the files of a certificate and of its key.",
        ) from error


def _bind(address: ipaddress.IPv4Address | ipaddress.IPv6Address, first: int) -> socket.socket:
    """Return a socket that listens on the first free port; two daemons that start together get different ports."""
    last_error = OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
    for port in range(first, min(first + _MAX_PORTS, 65_536)):
        listener = socket.socket(socket.AF_INET6 if address.version == 6 else socket.AF_INET, socket.SOCK_STREAM)
        try:
            with suppress(OSError):
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((str(address), port))
            listener.listen(_BACKLOG)
        except OSError as error:
            listener.close()
            last_error = error
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
        else:
            return listener
    raise last_error


def _url(settings: Settings, address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int) -> str:
    scheme = "https" if settings.tls_cert else "http"
    host = f"[{address}]" if address.version == 6 else str(address)
    if address.is_unspecified:
        host = settings.allowed_hosts[0] if settings.allowed_hosts else "127.0.0.1"
    return f"{scheme}://{host}" if ":" in host and not host.startswith("[") else f"{scheme}://{host}:{port}"
