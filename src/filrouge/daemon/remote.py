"""Client for a daemon elsewhere: `FILROUGE_URL` with `FILROUGE_API_KEY`.

It is imported only in that case, because its imports cost more time than a whole hook. The key is sent only over https;
plain http is allowed for this machine and for private networks, such as a compose file's.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

from filrouge._version import __version__
from filrouge.core.errors import DaemonUnavailable
from filrouge.daemon.reply import VERSION_HEADER, Reply, parse_reply

LARGEST_ANSWER = 64 * 1024 * 1024


def request(
    url: str,
    key: str,
    method: str,
    path: str,
    body: dict[str, Any] | None = None,
    timeout: float = 5.0,
    more: Mapping[str, str] | None = None,
    answering: Callable[[], float] | None = None,
) -> Reply:
    """Send a request to the daemon at `url` and wait for the answer, at most `timeout` seconds in total.

    Args:
        url: the daemon's address.
        key: the API key; empty = none.
        method: the HTTP method.
        path: the path of the route.
        body: sent as JSON.
        timeout: seconds.
        more: additional headers.
        answering: called when the answer begins; returns the seconds to wait for the rest.

    Raises:
        DaemonUnavailable: it does not answer in time, or the address is not safe for a key.
    """
    deadline = time.monotonic() + timeout
    try:
        opened = connection(url, timeout)
        try:
            content = None if body is None else json.dumps(body)
            opened.request(method, base(url) + path, content, {**headers(key), **(more or {})})
            return _reply(opened, deadline, answering)
        finally:
            opened.close()
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise DaemonUnavailable(f"The Filrouge daemon at {without_credentials(url)} does not answer.") from error


def checked_url(url: str) -> SplitResult:
    """Return the parts of an address that a key may be sent to.

    Raises:
        DaemonUnavailable: the address would expose the key.
    """
    place = urlsplit(url)
    host = place.hostname or ""
    if (place.scheme == "https" and host) or (place.scheme == "http" and _is_private_host(host)):
        return place
    raise DaemonUnavailable(
        f"The address {without_credentials(url)} is not safe for a key.",
        remedy="Use https in FILROUGE_URL, or an address of this machine or a private network.",
    )


def connection(url: str, timeout: float) -> http.client.HTTPConnection:
    """Return a connection to the daemon at `url`.

    Raises:
        DaemonUnavailable: the address would expose the key.
    """
    place = checked_url(url)
    kind = http.client.HTTPSConnection if place.scheme == "https" else http.client.HTTPConnection
    return kind(place.hostname or "", place.port, timeout=timeout)


def _is_private_host(host: str) -> bool:
    """Return True for this machine, private addresses, and names without a dot, which no public host has."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return bool(host) and ("." not in host or host.endswith((".localhost", ".internal")))
    return address.is_private or address.is_loopback


def base(url: str) -> str:
    """Return the path prefix of `url`."""
    return urlsplit(url).path.rstrip("/")


def headers(key: str) -> dict[str, str]:
    """Return the common request headers, with the key if there is one."""
    said = {"X-Filrouge-Version": __version__, "Content-Type": "application/json", "Connection": "close"}
    return {**said, "Authorization": f"Bearer {key}"} if key else said


def _reply(
    connection: http.client.HTTPConnection, deadline: float, answering: Callable[[], float] | None = None
) -> Reply:
    wire = connection.sock
    answer = connection.getresponse()
    raw = bytearray()
    if answering:
        left = answering()
        deadline = time.monotonic() + left
        if wire is not None:
            wire.settimeout(left)
    while piece := answer.read1(65536):
        raw += piece
        left = deadline - time.monotonic()
        if left <= 0 or len(raw) > LARGEST_ANSWER:
            raise TimeoutError
        if connection.sock is not None:
            connection.sock.settimeout(left)
    return parse_reply(answer.status, answer.headers.get(VERSION_HEADER, ""), bytes(raw))


def without_credentials(url: str) -> str:
    """Return the address without a user or a key in it."""
    place = urlsplit(url)
    return f"{place.scheme}://{(place.netloc or '').rpartition('@')[2]}"
