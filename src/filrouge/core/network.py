"""Addresses of servers as people write them, and a breaker that leaves a failing service alone for a while."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address
from threading import Lock
from urllib.parse import urlsplit

from filrouge.core.clock import monotonic
from filrouge.core.errors import BadConfig

# Addresses of servers, as people write them: checked before anything is sent there.


def is_loopback(address: str) -> bool:
    """Whether an address is this machine."""
    host = urlsplit(address).hostname or ""
    try:
        return host == "localhost" or host.endswith(".localhost") or ip_address(host).is_loopback
    except ValueError:
        return False


def checked_address(address: str, *, setting: str) -> str:
    """An HTTP address without its trailing slash.

    Raises:
        BadConfig: it is none, or it carries a password.
    """
    address = address.strip().rstrip("/")
    try:
        parts = urlsplit(address)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        parts, fits = None, False
    if not fits or parts is None or any(sign in parts.netloc for sign in "@ \t") or parts.query or parts.fragment:
        raise BadConfig(
            f"{setting} is no address that can be used.",
            remedy="Give http:// or https://, a host, and a path if there is one; keys belong in the environment.",
        )
    return address


# After repeated failures a service is left alone for a while, so that nobody waits for what will not come.
#
# Closed: everybody passes. Open: nobody does, and is told so at once. When the rest is over one caller passes as a
# probe, while the others still fail fast; its success closes the breaker, its failure begins the next rest. A service
# that asks for a pause is given it, whatever its count.


@dataclass(frozen=True, kw_only=True, slots=True)
class Rest:
    """Why nobody passes, and for how many seconds more."""

    cause: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.cause} It is tried again in {max(1, round(self.seconds))} s."


class CircuitBreaker:
    """Counts failures in a row. Safe for several threads."""

    def __init__(self, rest_seconds: float, now: Callable[[], float] = monotonic, *, failures: int) -> None:
        self._most = failures
        self._rest = rest_seconds
        self._now = now
        self._lock = Lock()
        self._failures = 0
        self._until = 0.0
        self._cause = ""

    def enter(self) -> Rest | None:
        """Pass (None), or be told of the rest."""
        with self._lock:
            if self._failures < self._most:
                return None
            now = self._now()
            if now < self._until:
                return Rest(cause=self._cause, seconds=self._until - now)
            self._until = now + self._rest
            return None

    def succeeded(self) -> None:
        """It answered."""
        with self._lock:
            self._failures, self._until = 0, 0.0

    def failed(self, cause: str, pause: float | None = None) -> None:
        """It did not, or said no; `pause` is how many seconds it asked to be left alone, from this failure on."""
        with self._lock:
            self._failures = self._failures + 1 if pause is None else max(self._most, self._failures + 1)
            self._cause = cause
            self._until = max(self._until, self._now() + (self._rest if pause is None else pause))
