"""After repeated failures an embedder is left alone for a while, so that nobody waits for what will not come.

Closed: everybody passes. Open: nobody does, and recall goes by words at once. When the rest is over one caller passes
as a probe, while the others still fail fast; its success closes the breaker, its failure begins the next rest.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Final

from filrouge.clock import monotonic
from filrouge.errors import EmbedderUnavailable

#: Three questions of two seconds: a prompt waits for a dead server six seconds in all.
_FAILURES: Final = 3


class CircuitBreaker:
    """Counts failures in a row. Safe for several threads."""

    def __init__(self, rest_seconds: float, now: Callable[[], float] = monotonic) -> None:
        self._rest = rest_seconds
        self._now = now
        self._lock = Lock()
        self._failures = 0
        self._until = 0.0
        self._cause = ""

    def enter(self) -> None:
        """Pass, or fail at once.

        Raises:
            EmbedderUnavailable: it rests; names the last cause.
        """
        with self._lock:
            if self._failures < _FAILURES:
                return
            now = self._now()
            if now < self._until:
                left = max(1, round(self._until - now))
                raise EmbedderUnavailable(
                    f"{self._cause} It is tried again in {left} s.",
                    remedy="Nothing is lost: recall goes by words meanwhile, and texts wait for their vectors.",
                )
            self._until = now + self._rest

    def succeeded(self) -> None:
        """It answered."""
        with self._lock:
            self._failures = 0

    def failed(self, cause: str) -> None:
        """It did not, or said no."""
        with self._lock:
            self._failures += 1
            self._cause = cause
            self._until = self._now() + self._rest
