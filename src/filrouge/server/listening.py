"""Where the daemon listens: always on its Unix socket, and on a TCP port if one is free.

Without a free port the daemon still starts and serves the Unix socket; the log and the status report the missing port.
An address that other machines can reach is opened only with a stored token and a certificate. Without them the daemon
does not start, so that nobody assumes a protection that does not exist.
"""

from __future__ import annotations

import errno
import ipaddress
import logging
import os
import socket
import ssl
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import uvicorn
from starlette.types import ASGIApp

from filrouge.core.errors import BadConfig
from filrouge.core.settings import Settings
from filrouge.runtime.repository import Tokens
from filrouge.runtime.services import Parts
from filrouge.server.live import SOCKETS
from filrouge.server.protocols import Inside, Limits, Outside

_LOG = logging.getLogger("filrouge.daemon")
#: Number of ports that are tried, from the configured one on: the maximum number of homes with a running daemon.
_TRIED = 200
_BACKLOG = 128
_FAREWELL_SECONDS = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Listening:
    """Where the daemon listens on TCP.

    Attributes:
        url: its URL; None if it does not listen.
        notice: why it does not listen although it is configured; empty otherwise.
    """

    url: str | None = None
    notice: str = ""
    listener: socket.socket | None = None


@contextmanager
def listening(parts: Parts) -> Generator[Listening]:
    """Listen on TCP as configured while the block runs.

    Raises:
        BadConfig: other machines can reach the address, but a token or TLS is missing; or the certificate is invalid.
    """
    try:
        settings = parts.readers.here(lambda tx: parts.effective(tx).settings)
    except BadConfig as error:
        found = Listening(notice=f"No TCP: {error.message}")
    else:
        found = _opened(settings, any_token=parts.readers.here(lambda tx: Tokens(tx).any_lives()))
    if found.notice:
        _LOG.warning("%s", found.notice)
    try:
        yield found
    finally:
        if found.listener is not None:
            found.listener.close()


def inside(app: ASGIApp) -> uvicorn.Config:
    """Return the server configuration for the Unix socket."""
    return uvicorn.Config(
        app,
        http=Inside,
        log_config=None,
        access_log=False,
        lifespan="off",
        proxy_headers=False,
        timeout_graceful_shutdown=_FAREWELL_SECONDS,
        **SOCKETS,
    )


def outside(app: ASGIApp, settings: Settings) -> Limits:
    """Return the server configuration for TCP."""
    config = Limits(
        app,
        http=Outside,
        log_config=None,
        access_log=False,
        lifespan="off",
        proxy_headers=False,  # headers from a client are not trusted
        server_header=False,
        timeout_keep_alive=max(1, int(settings.limit_seconds)),
        timeout_graceful_shutdown=_FAREWELL_SECONDS,
        **SOCKETS,
        ssl_certfile=settings.tls_cert or None,
        ssl_keyfile=settings.tls_key or None,
    )
    config.most, config.patience = settings.limit_connections, settings.limit_seconds
    return config


def _opened(settings: Settings, *, any_token: bool) -> Listening:
    if not settings.port:
        return Listening()
    address = _address(settings.host)
    if not address.is_loopback:
        _check_exposed(settings, any_token=any_token)
    _check_certificate(settings)
    try:
        listener = _bound(address, settings.port)
    except OSError as error:
        last = min(settings.port + _TRIED - 1, 65_535)
        notice = f"No TCP: none of the ports {settings.port} to {last} of {address} can be had ({error.strerror})."
        return Listening(notice=notice)
    return Listening(url=_url(settings, address, listener.getsockname()[1]), listener=listener)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    try:
        return ipaddress.ip_address("127.0.0.1" if host.strip() == "localhost" else host.strip().strip("[]"))
    except ValueError:
        raise BadConfig(
            f"The setting host is no address: {host!r}.", remedy="Give an IP address of this machine, as 127.0.0.1."
        ) from None


def _check_exposed(settings: Settings, *, any_token: bool) -> None:
    if any_token and settings.tls_cert and settings.tls_key:
        return
    lacks = [] if any_token else ["a token (`filrouge token create`, while host is 127.0.0.1)"]
    lacks += [] if settings.tls_cert and settings.tls_key else ["a certificate (the settings tls_cert and tls_key)"]
    raise BadConfig(
        f"The address {settings.host} is one that other machines reach, and there is not yet {' and '.join(lacks)}.",
        remedy="Set host back to 127.0.0.1, or give what is missing.",
    )


def _check_certificate(settings: Settings) -> None:
    if not settings.tls_cert and not settings.tls_key:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.tls_cert, settings.tls_key or None)
    except (OSError, ValueError) as error:
        raise BadConfig(
            f"tls_cert and tls_key cannot be used: {error}.", remedy="Name the files of a certificate and of its key."
        ) from error


def _bound(address: ipaddress.IPv4Address | ipaddress.IPv6Address, first: int) -> socket.socket:
    """Return a socket that listens on the first free port; two daemons that start together get different ports."""
    failure = OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
    for port in range(first, min(first + _TRIED, 65_536)):
        listener = socket.socket(socket.AF_INET6 if address.version == 6 else socket.AF_INET, socket.SOCK_STREAM)
        try:
            with suppress(OSError):
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((str(address), port))
            listener.listen(_BACKLOG)
        except OSError as error:
            listener.close()
            failure = error
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
        else:
            return listener
    raise failure


def _url(settings: Settings, address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int) -> str:
    scheme = "https" if settings.tls_cert else "http"
    host = f"[{address}]" if address.version == 6 else str(address)
    if address.is_unspecified:
        host = settings.allowed_hosts[0] if settings.allowed_hosts else "127.0.0.1"
    return f"{scheme}://{host}" if ":" in host and not host.startswith("[") else f"{scheme}://{host}:{port}"
