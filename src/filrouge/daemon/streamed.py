"""Streams a long answer of the daemon to a command that writes it to a file.

Only commands import this module, because `http.client` is too slow to import for a hook. The command must have reached
the daemon through `client` before, which checks the socket's owner and starts a daemon.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
from collections.abc import Generator, Mapping
from typing import Any

from filrouge.core.errors import DaemonUnavailable
from filrouge.core.paths import socket_path
from filrouge.daemon import client, remote
from filrouge.daemon.reply import parse_error

_PIECE = 1 << 16
_MOST_REFUSED = 1 << 16


def streamed(directory: str, environ: Mapping[str, str], path: str, *, timeout: float = 60.0) -> Generator[bytes]:
    """Yield the answer to a GET request in pieces; `timeout` applies to each of them.

    Raises:
        DaemonUnavailable: the daemon does not answer, or the connection breaks.
        FilrougeError: the daemon refuses the request, with its reason.
    """
    url = environ.get(client.URL, "").strip()
    try:
        connection = remote.connection(url, timeout) if url else _Local(directory, timeout)
        headers = remote.headers(environ.get(client.API_KEY, "").strip()) if url else {}
        try:
            connection.request("GET", remote.base(url) + path, headers=headers)
            answer = connection.getresponse()
            if answer.status != 200:
                raise parse_error(_problem(answer.read(_MOST_REFUSED)))
            while piece := answer.read(_PIECE):
                yield piece
        finally:
            connection.close()
    except (OSError, http.client.HTTPException) as error:
        raise DaemonUnavailable("The connection to the daemon broke during its answer.") from error


def _problem(raw: bytes) -> Any:
    """Return the problem document of a refusal; empty if the body is not JSON."""
    try:
        return json.loads(raw)
    except ValueError:
        return {}


class _Local(http.client.HTTPConnection):
    """HTTP over the socket of a home."""

    def __init__(self, directory: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = os.fspath(socket_path(directory))
        self._seconds = timeout

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self._seconds)
        self.sock.connect(self._path)
