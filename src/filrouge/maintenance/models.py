"""A run of the garden with its steps, and the moments before which things are no longer kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, get_args

# A run of the garden and its steps, as they are kept: counts and ids, never words.

StepKind = Literal["sessions", "concepts", "preferences", "duplicates", "contradictions", "retention", "vectors"]
KINDS: Final[tuple[StepKind, ...]] = get_args(StepKind)
"""In the order in which they are done: what sessions come to first, so that the rest sees it; vectors last."""
Occasion = Literal["hand", "idle", "schedule"]
GardenState = Literal["running", "completed", "failed"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Garden:
    """One run.

    Attributes:
        counts: how many steps it has of each kind.
        memories_until: the number of the last memory that was compared with others for it.
        totals: what it came to, once it is over.
    """

    id: str
    occasion: Occasion
    state: GardenState
    counts: Mapping[StepKind, int]
    memories_until: int
    totals: Mapping[str, int]
    started_at: datetime
    ended_at: datetime | None
    error: str

    @property
    def steps(self) -> int:
        """How many steps it has."""
        return sum(self.counts.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class GardenStep:
    """One step of a run: its place in the order, its kind, and the ids that it is about."""

    place: int
    kind: StepKind
    subject: Mapping[str, Any]

    @property
    def session(self) -> str:
        """The session that it is about, or empty."""
        return str(self.subject.get("session", ""))


# The moments before which things are no longer kept.


@dataclass(frozen=True, kw_only=True, slots=True)
class Cutoffs:
    """What was said before these moments goes; None = nothing does.

    Attributes:
        tools: raw output of tools.
        noise: what capture filtered.
        logs: recalls that were made, answers of models that could not be read.
    """

    tools: datetime | None
    noise: datetime | None
    logs: datetime | None
