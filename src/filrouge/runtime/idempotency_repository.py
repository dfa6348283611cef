"""What was answered to requests that may come again: kept for a day, so that a repetition does nothing twice.

Keys and requests are held as hashes alone. An answer is held as it was, and may hold words: whatever is
forgotten, all answers are emptied, and a repetition then learns that it was done and no more.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from filrouge.core.clock import to_text
from filrouge.core.protocols import Tx

KEPT: Final = timedelta(hours=24)
#: Rows; the oldest go first.
_MOST: Final = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    """What is known of a request.

    Attributes:
        request: the hash of what was asked; None where something was forgotten since.
        status: 0 while it is being carried out, or where the daemon ended meanwhile.
        body: None where it was forgotten, or too long to be kept.
    """

    request: bytes | None
    status: int
    type: str
    body: bytes | None


class AnsweredRequests:
    """The table of one database."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def get(self, key: bytes, now: datetime) -> Answered | None:
        """What is known of a key."""
        row = self._tx.one("answered.get", {"key": key, "since": to_text(now - KEPT)})
        return Answered(**row) if row else None

    def begin(self, key: bytes, request: bytes, now: datetime) -> None:
        """It is being carried out. What is too old, or too much, goes."""
        self._tx.run("answered.prune", {"since": to_text(now - KEPT), "most": _MOST})
        self._tx.run("answered.begin", {"key": key, "at": to_text(now), "request": request})

    def end(self, key: bytes, status: int, type_: str, body: bytes | None) -> None:
        """It was answered."""
        self._tx.run("answered.end", {"key": key, "status": status, "type": type_, "body": body})

    def drop(self, key: bytes) -> None:
        """It may be tried again as if it had never come."""
        self._tx.run("answered.drop", {"key": key})
