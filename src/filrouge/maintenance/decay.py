"""Decay of memories, and the retention policy.

Pure: no database, no file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from filrouge.maintenance.models import Cutoffs
from filrouge.memories.models import Kind, Memory

# Decay (MEM-4).

#: Half-life in days, by kind.
HALF_LIVES: Final[Mapping[Kind, float]] = {
    "intent": 14.0,
    "episode": 30.0,
    "concept": 60.0,
    "fact": 90.0,
    "note": 90.0,
    "decision": 180.0,
    "constraint": 180.0,
    "preference": 365.0,
}
#: A memory below this vitality counts as faded.
FADED: Final = 0.05
_SECONDS: Final = 86_400.0


def vitality(memory: Memory, now: datetime) -> float:
    """Return the vitality of a memory, in [0, 1]; 1 if it does not fade, or if `now` is before it was met.

    Forgetting is exponential, and repeated memories fade more slowly (Ebbinghaus 1885; the spacing effect). Vitality is
    1 when a memory is mentioned or used, and halves with every half-life after that. The half-life depends on the
    memory's kind and grows with repetition:

        vitality = 0.5 ^ (days since last met / (half-life of its kind x (1 + log2(mentions + uses / 2))))

    Vitality is computed from stored events and not stored itself. So no periodic update is needed, a wrong clock does
    no lasting harm, and a rebuild gives the same values. Vitality is shown and used for ordering; nothing is deleted
    because it faded.
    """
    if is_permanent(memory):
        return 1.0
    days = max(0.0, (now - met_last(memory)).total_seconds() / _SECONDS)
    return 0.5 ** (days / half_life(memory))


def half_life(memory: Memory) -> float:
    """Return the days in which a memory loses half of its vitality; infinite if it does not fade."""
    if is_permanent(memory):
        return math.inf
    met = max(1, memory.mention_count) + max(0, memory.uses) / 2
    return HALF_LIVES[memory.kind] * (1.0 + math.log2(met))


def is_permanent(memory: Memory) -> bool:
    """Return True for pinned memories and rules."""
    return memory.pinned or memory.kind == "rule"


def met_last(memory: Memory) -> datetime:
    """Return when a memory was last mentioned or used."""
    moments = (memory.created_at, memory.last_mention, memory.last_used)
    return max(moment for moment in moments if moment is not None)


# Retention (GARD-5).

#: Divisors of the retention times at each pressure step, and the least time that anything is kept.
PRESSURES: Final = (1, 3, 12)
_LEAST: Final = timedelta(days=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """Days that rows are kept; 0 means for ever.

    What people and agents said is kept, and so is everything that a memory cites. Above the size cap, these times are
    shortened in steps. What was said is never deleted for size; if shortening is not enough, the user gets a warning.

    Attributes:
        tools: raw tool output.
        noise: turns that capture filtered.
        logs: recalls, and model answers that could not be read.
        cap: size limit of the whole home in bytes; 0 means no limit.
    """

    tools: int = 90
    noise: int = 30
    logs: int = 90
    cap: int = 5_000_000_000


def cutoffs(policy: Policy, now: datetime, pressure: int = 0) -> Cutoffs:
    """Return the cutoff times of a policy.

    Args:
        pressure: the step, in `range(len(PRESSURES))`; 0 applies the policy unchanged.
    """
    sooner = PRESSURES[pressure]

    def before(days: int) -> datetime | None:
        return now - max(_LEAST, timedelta(days=days) / sooner) if days else None

    return Cutoffs(tools=before(policy.tools), noise=before(policy.noise), logs=before(policy.logs))


def next_pressure(policy: Policy, size: int, pressure: int) -> int | None:
    """Return the next pressure step if the home exceeds its cap; None if it does not, or at the last step."""
    return pressure + 1 if policy.cap and size > policy.cap and pressure + 1 < len(PRESSURES) else None
