"""Checks of server addresses, and a circuit breaker that pauses calls to a failing service."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address
from threading import Lock
from urllib.parse import urlsplit

from msgspec import Struct

from filrouge.core.clock import monotonic
from filrouge.core.errors import BadConfig


def is_loopback(address: str) -> bool:
    """Return True if the address is this machine."""
    host = urlsplit(address).hostname or ""
    try:
        return host == "localhost" or host.endswith(".localhost") or ip_address(host).is_loopback
    except ValueError:
        return False


def checked_address(address: str, *, setting: str) -> str:
    """Validate an HTTP address and return it without its trailing slash.

    Raises:
        BadConfig: it is not a usable address, or it contains a user, a password, a query or a fragment.
    """
    address = address.strip().rstrip("/")
    try:
        parts = urlsplit(address)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        parts, fits = None, False
    if (
        not fits
        or parts is None
        or any(character in parts.netloc for character in "@ \t")
        or parts.query
        or parts.fragment
    ):
        raise BadConfig(
            f"{setting} is not a valid address.",
            remedy="Give http:// or https://, a host, and a path if there is one; keys belong in the environment.",
        )
    return address


# Circuit breaker. Closed: every call passes. Open: every call fails at once. When the pause is over, one call passes as
# a probe while the others still fail fast; success closes the breaker, failure starts the next pause. If the service
# itself asks for a pause, the breaker opens whatever the failure count.


class CircuitOpen(Struct, frozen=True, kw_only=True):
    """Why calls are blocked.

    Attributes:
        cause: the last failure, a full sentence.
        seconds: time until the next attempt.
    """

    cause: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.cause} It is tried again in {max(1, round(self.seconds))} s."


class CircuitBreaker:
    """Counts consecutive failures of one service. Thread-safe."""

    def __init__(self, rest_seconds: float, now: Callable[[], float] = monotonic, *, failures: int) -> None:
        self._max_failures = failures
        self._pause_seconds = rest_seconds
        self._now = now
        self._lock = Lock()
        self._failures = 0
        self._open_until = 0.0
        self._cause = ""

    def enter(self) -> CircuitOpen | None:
        """Return None if the call may proceed, otherwise the pause in force."""
        with self._lock:
            if self._failures < self._max_failures:
                return None
            now = self._now()
            if now < self._open_until:
                return CircuitOpen(cause=self._cause, seconds=self._open_until - now)
            self._open_until = now + self._pause_seconds
            return None

    def succeeded(self) -> None:
        """Record a success and close the breaker."""
        with self._lock:
            self._failures, self._open_until = 0, 0.0

    def failed(self, cause: str, pause: float | None = None) -> None:
        """Record a failure; `pause` is the number of seconds from now that the service asked callers to wait."""
        with self._lock:
            self._failures = self._failures + 1 if pause is None else max(self._max_failures, self._failures + 1)
            self._cause = cause
            self._open_until = max(self._open_until, self._now() + (self._pause_seconds if pause is None else pause))
