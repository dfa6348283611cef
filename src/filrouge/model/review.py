"""A review: a statement that waits for a person, because it contradicts what is pinned or undecided, or lacks proof."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from filrouge.model.memory import Memory

ReviewKind = Literal["conflict", "quarantine"]
Outcome = Literal["open", "old", "new", "both", "accept", "dismiss", "undone"]
"""`open` waits; `undone` says that the decision which opened it was taken back; the others are how it was settled."""
Settlement = Literal["old", "new", "both", "accept", "dismiss"]
"""Of a conflict: keep the old, take the new in its place, keep both. Of a quarantine: accept, dismiss."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Review:
    """One entry of the queue. Its id is that of the statement's memory, which is not served until it is settled.

    Attributes:
        against: the memory that the statement speaks against; None for a quarantine, or where it was erased.
    """

    memory: Memory
    kind: ReviewKind
    against: Memory | None
    reason: str
    outcome: Outcome
    at: datetime
    settled_at: datetime | None

    @property
    def id(self) -> str:
        """The id of the statement's memory."""
        return self.memory.id
