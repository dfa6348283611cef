"""Client for a daemon elsewhere, `FILROUGE_URL` with `FILROUGE_API_KEY`, for a hub, and for long answers of any daemon.

It is imported only in those cases, because its imports cost more time than a whole hook. The key is sent only over
https; plain http is allowed for this machine and for private networks, such as a compose file's.
"""

from __future__ import annotations

import http.client
import io
import ipaddress
import json
import socket
import ssl
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from functools import cache
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import SplitResult, urlsplit

from filrouge._version import __version__
from filrouge.core.errors import DaemonUnavailable
from filrouge.core.paths import socket_path
from filrouge.daemon.reply import DAEMON, MAX_ANSWER_BYTES, VERSION_HEADER, Peer, Reply, parse_error, parse_reply

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_CHUNK_BYTES = 1 << 16
_MAX_PROBLEM_BYTES = 1 << 16


def request(
    url: str,
    key: str,
    method: str,
    path: str,
    body: dict[str, Any] | None = None,
    timeout: float = 5.0,
    headers: Mapping[str, str] | None = None,
    on_answer: Callable[[], float] | None = None,
    peer: Peer = DAEMON,
) -> Reply:
    """Send a request to the server at `url` and wait for the answer, at most `timeout` seconds in total.

    Args:
        url: the server's address.
        key: the API key; empty = none.
        method: the HTTP method.
        path: the path of the route.
        body: sent as JSON.
        timeout: seconds.
        headers: additional headers.
        on_answer: called when the answer begins; returns the seconds to wait for the rest.
        peer: what the server is.

    Raises:
        DaemonUnavailable: it does not answer in time, or the address is not safe for a key; for another peer, its
            error.
    """
    deadline = time.monotonic() + timeout
    try:
        with closing(_connection(url, timeout, peer)) as connection:
            content = None if body is None else json.dumps(body)
            try:
                connection.request(method, _base(url) + path, content, {**_headers(key), **(headers or {})})
            except ConnectionError:  # a server that refuses a body answers, and does not read the rest of it
                if connection.sock is None:
                    raise
            return _reply(connection, deadline, on_answer, peer)
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise peer.unavailable(f"The Filrouge {peer.name} at {without_credentials(url)} does not answer.") from error


def streamed(directory: str, url: str, key: str, path: str, timeout: float) -> Generator[bytes]:
    """Yield the answer to a GET request in pieces, from the daemon at `url`; with an empty `url`, from the home's own.

    Raises:
        DaemonUnavailable: the daemon does not answer, or the connection breaks.
        FilrougeError: the daemon refuses the request, with its reason.
    """
    try:
        with closing(_connection(url, timeout) if url else _LocalConnection(directory, timeout)) as connection:
            connection.request("GET", _base(url) + path, headers=_headers(key) if url else {})
            answer = connection.getresponse()
            if answer.status != 200:
                raise parse_error(_problem(answer.read(_MAX_PROBLEM_BYTES)))
            while chunk := answer.read(_CHUNK_BYTES):
                yield chunk
    except (OSError, http.client.HTTPException) as error:
        raise DaemonUnavailable("The connection to the daemon broke during its answer.") from error


def _problem(raw: bytes) -> Any:
    """Return the problem document of a refusal; empty if the body is not JSON."""
    try:
        return json.loads(raw)
    except ValueError:
        return {}


class _LocalConnection(http.client.HTTPConnection):
    """HTTP over the socket of a home."""

    def __init__(self, directory: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = socket_path(directory)
        self._seconds = timeout

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self._seconds)
        self.sock.connect(self._path)


def check_url(url: str, peer: Peer = DAEMON) -> SplitResult:
    """Return the parts of an address that a key may be sent to.

    Raises:
        DaemonUnavailable: the address would expose the key; for another peer, its error.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if (parts.scheme == "https" and host) or (parts.scheme == "http" and _is_private_host(host)):
        return parts
    raise peer.error(
        f"The address {without_credentials(url)} is not safe for a key.",
        remedy=f"Use https in {peer.address}, or an address of this machine or a private network.",
    )


def _connection(url: str, timeout: float, peer: Peer = DAEMON) -> http.client.HTTPConnection:
    """Return a connection to the server at `url`.

    Raises:
        DaemonUnavailable: the address would expose the key; for another peer, its error.
    """
    parts = check_url(url, peer)
    if parts.scheme == "https":
        return http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=timeout, context=_tls())
    return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout)


@cache
def _tls() -> ssl.SSLContext:
    """Return the TLS settings of all connections; making them reads every certificate that this machine trusts."""
    return ssl.create_default_context()


def _is_private_host(host: str) -> bool:
    """Return True for this machine, private addresses, and names without a dot, which no public host has."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return bool(host) and ("." not in host or host.endswith((".localhost", ".internal")))
    return address.is_private or address.is_loopback


def _base(url: str) -> str:
    """Return the path prefix of `url`."""
    return urlsplit(url).path.rstrip("/")


def _headers(key: str) -> dict[str, str]:
    """Return the common request headers, with the key if there is one."""
    headers = {"X-Filrouge-Version": __version__, "Content-Type": "application/json", "Connection": "close"}
    return {**headers, "Authorization": f"Bearer {key}"} if key else headers


def _reply(
    connection: http.client.HTTPConnection, deadline: float, on_answer: Callable[[], float] | None, peer: Peer
) -> Reply:
    file = _TimedFile(connection.sock, deadline)
    with closing(http.client.HTTPResponse(cast("socket.socket", file))) as answer:
        answer.begin()
        if on_answer:
            file.deadline = time.monotonic() + on_answer()
        raw = bytearray()
        while chunk := answer.read1(65536):
            raw += chunk
            if len(raw) > MAX_ANSWER_BYTES:
                raise TimeoutError
        return parse_reply(answer.status, answer.headers.get(VERSION_HEADER, ""), bytes(raw), peer)


class _TimedFile(io.RawIOBase):
    """What a socket receives. All reads together end at the deadline, however slowly bytes arrive."""

    def __init__(self, connected: socket.socket, deadline: float) -> None:
        super().__init__()
        self.deadline = deadline
        self._socket = connected
        self._file = connected.makefile("rb", buffering=0)

    def makefile(self, mode: str) -> io.BufferedReader:
        """Return the file that `http.client` asks a socket for."""
        assert mode == "rb"
        return io.BufferedReader(self)

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int | None:
        """Read what arrives next.

        Raises:
            TimeoutError: the deadline is over.
        """
        seconds_left = self.deadline - time.monotonic()
        if seconds_left <= 0:
            raise TimeoutError
        self._socket.settimeout(seconds_left)
        return self._file.readinto(buffer)

    def close(self) -> None:
        """Close the file; the connection is closed by its owner."""
        self._file.close()
        super().close()


def without_credentials(url: str) -> str:
    """Return the address without a user or a key in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{(parts.netloc or '').rpartition('@')[2]}"
