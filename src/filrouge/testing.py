"""Public fakes: what a test of Filrouge, or of something built on it, puts in the place of the real parts.

They are small and honest: the clock stands still until told, the database is the real SQLite in memory, the
embedder is the real one that needs no model. A whole Filrouge on a throw-away home is `running`.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from filrouge.app import report, wiring
from filrouge.app.parts import Parts
from filrouge.clock import Clock, SystemClock
from filrouge.embed.hashing import StableHash
from filrouge.index.analyser import TextAnalyser
from filrouge.store.sqlite import Database

__all__ = ["ManualClock", "StableHash", "TextAnalyser", "idle", "memory_database", "running"]

_WAIT_SECONDS = 30.0


class ManualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, at: datetime | None = None) -> None:
        self._at = at or datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        """The moment it stands at."""
        return self._at

    def move(self, **by: float) -> None:
        """Move it, as `timedelta` counts: `move(days=3)`."""
        self._at += timedelta(**by)


def memory_database(clock: Clock | None = None) -> Database:
    """The real schema in a SQLite database in memory."""
    database = Database(":memory:")
    database.migrate(clock or ManualClock())
    return database


@contextmanager
def running(home: str, *, embedding: str = "hashing", environ: Mapping[str, str] | None = None) -> Generator[Parts]:
    """A whole Filrouge in this process on `home`, with the embedder that needs no model; stopped at the end."""
    whole = wiring.start(home, environ={"FILROUGE_EMBEDDING_MODEL": embedding, **(environ or {})}, clock=SystemClock())
    try:
        yield whole.parts
    finally:
        whole.stop()


def idle(parts: Parts, seconds: float = _WAIT_SECONDS) -> None:
    """Wait until everything captured is understood.

    Raises:
        TimeoutError: it takes longer than `seconds`.
    """
    deadline = time.monotonic() + seconds
    while True:
        queue = parts.readers.here(lambda tx: report.status(parts, tx))["queue"]
        if parts.index_ready.is_set() and queue["waiting"] + queue["running"] == 0:
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"still busy: {queue}")
        time.sleep(0.01)
