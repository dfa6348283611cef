"""Values of the maintenance room: a consolidation run with its steps, and retention cutoffs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, get_args

# A consolidation run ("garden") and its steps, as stored: counts and ids, never words.

StepKind = Literal["sessions", "concepts", "preferences", "duplicates", "contradictions", "retention", "vectors"]
KINDS: Final[tuple[StepKind, ...]] = get_args(StepKind)
"""In the order in which they are done: what sessions come to first, so that the rest sees it; vectors last."""
Trigger = Literal["hand", "idle", "schedule"]
GardenState = Literal["running", "completed", "failed"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsolidationRun:
    """One run.

    Attributes:
        counts: number of steps of each kind.
        memories_until: sequence number of the last memory compared with others for it.
        totals: summed results, once the run is over.
    """

    id: str
    occasion: Trigger
    state: GardenState
    counts: Mapping[StepKind, int]
    memories_until: int
    totals: Mapping[str, int]
    started_at: datetime
    ended_at: datetime | None
    error: str

    @property
    def steps(self) -> int:
        """The number of steps."""
        return sum(self.counts.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class RunStep:
    """One step of a run: its position, its kind, and the ids that it works on."""

    place: int
    kind: StepKind
    subject: Mapping[str, Any]

    @property
    def session(self) -> str:
        """The session that the step works on, or empty."""
        return str(self.subject.get("session", ""))


@dataclass(frozen=True, kw_only=True, slots=True)
class Cutoffs:
    """Rows older than these times are deleted; None means that none are.

    Attributes:
        tools: raw tool output.
        noise: turns that capture filtered.
        logs: recalls, and model answers that could not be read.
    """

    tools: datetime | None
    noise: datetime | None
    logs: datetime | None
