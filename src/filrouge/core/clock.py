"""Time and identity.

Time is an argument everywhere in Filrouge: whoever needs it takes a `Clock`. Ids are ULIDs in lower case
(48 bits of milliseconds, 80 random bits, Crockford base 32), so that sorting by id is sorting by birth.
Every datetime is aware and in UTC; a naive one is a programming error.
"""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


class Clock(Protocol):
    """Tells the time. Knows nothing of zones or formats; `testing.ManualClock` is the fake."""

    def now(self) -> datetime:
        """The present moment, aware, in UTC."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """The present moment, aware, in UTC."""
        return datetime.now(UTC)


def new_id(at: datetime) -> str:
    """A fresh 26-character ULID born at `at`."""
    number = (int(at.timestamp() * 1000) << 80) | secrets.randbits(80)
    return "".join(_ALPHABET[(number >> shift) & 31] for shift in range(125, -5, -5))


def to_text(at: datetime) -> str:
    """ISO 8601 in UTC with microseconds and a `Z`: sorts as text in the order of time."""
    if at.tzinfo is None:
        raise ValueError("a stored datetime must be aware")
    return at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def from_text(text: str) -> datetime:
    """The moment that `to_text` wrote, or any ISO 8601 text with a zone; no zone means UTC."""
    at = datetime.fromisoformat(text)
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def from_epoch(seconds: float) -> datetime:
    """The moment `seconds` after 1970, in UTC."""
    return datetime.fromtimestamp(seconds, UTC)


def monotonic() -> float:
    """Seconds of a clock that never jumps, for durations."""
    return time.monotonic()


def after(at: datetime, seconds: float) -> datetime:
    """`at` plus `seconds`."""
    return at + timedelta(seconds=seconds)


def next_day(at: datetime) -> datetime:
    """The beginning of the day after `at`, in UTC."""
    today = at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return today + timedelta(days=1)
