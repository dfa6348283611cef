"""Decay and retention: how lively a memory is, and what is kept for how long.

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

# Decay: how lively a memory is, from when it was last said or used and how often (MEM-4).
#
# Forgetting is exponential, and what is met again fades more slowly (Ebbinghaus 1885; the spacing effect). A memory's
# vitality is 1 when it is said or used, and halves with every half-life after that; its half-life is that of its
# kind, longer by the share in which it was met again:
#
#     vitality = 0.5 ^ (days since it was met last / (half-life of its kind x (1 + log2(mentions + uses / 2))))
#
# Nothing is stored but what happened, so nothing has to be swept, a clock that was wrong does no harm, and the same
# is true after a rebuild. Vitality is shown and orders; nothing is deleted because it faded, and what the user pinned
# or laid down as a rule does not fade.

#: Days in which what nobody speaks of loses half of its vitality.
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
#: Below this a memory counts as faded.
FADED: Final = 0.05
_SECONDS: Final = 86_400.0


def vitality(memory: Memory, now: datetime) -> float:
    """How lively a memory is, in [0, 1]; 1 for what is pinned and for rules, and before its time."""
    if fades_not(memory):
        return 1.0
    days = max(0.0, (now - met_last(memory)).total_seconds() / _SECONDS)
    return 0.5 ** (days / half_life(memory))


def half_life(memory: Memory) -> float:
    """Days in which a memory loses half of its vitality; infinite for what does not fade."""
    if fades_not(memory):
        return math.inf
    met = max(1, memory.mention_count) + max(0, memory.uses) / 2
    return HALF_LIVES[memory.kind] * (1.0 + math.log2(met))


def fades_not(memory: Memory) -> bool:
    """True for what the user pinned or laid down as a rule."""
    return memory.pinned or memory.kind == "rule"


def met_last(memory: Memory) -> datetime:
    """When a memory was said or used last."""
    moments = (memory.created_at, memory.last_mention, memory.last_used)
    return max(moment for moment in moments if moment is not None)


# Retention: what is kept for how long, and how much sooner it goes where the whole grows beyond its cap (GARD-5).
#
# What people and agents said is kept, and so is whatever a memory cites. What tools put out is raw material and goes
# after a season, noise that capture filtered after a month, the log of recalls and answers that nobody could read
# after a season. Where the home is larger than its cap, the same goes sooner, in steps, and never what was said: if
# that is not enough, it is for the user to decide, who is told.

#: By how much sooner things go at each step of pressure, and the least that is kept of anything.
PRESSURES: Final = (1, 3, 12)
_LEAST: Final = timedelta(days=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """Days that things are kept; 0 = for ever.

    Attributes:
        tools: raw output of tools.
        noise: what capture filtered.
        logs: recalls that were made, answers of models that could not be read.
        cap: bytes of the whole home; 0 = no cap.
    """

    tools: int = 90
    noise: int = 30
    logs: int = 90
    cap: int = 5_000_000_000


def cutoffs(policy: Policy, now: datetime, pressure: int = 0) -> Cutoffs:
    """The moments of a policy.

    Args:
        pressure: the step, in `range(len(PRESSURES))`; at 0 the policy holds as it stands.
    """
    sooner = PRESSURES[pressure]

    def before(days: int) -> datetime | None:
        return now - max(_LEAST, timedelta(days=days) / sooner) if days else None

    return Cutoffs(tools=before(policy.tools), noise=before(policy.noise), logs=before(policy.logs))


def pressed_further(policy: Policy, size: int, pressure: int) -> int | None:
    """The next step where the home is still larger than its cap; None where it is not, or nothing is left to press."""
    return pressure + 1 if policy.cap and size > policy.cap and pressure + 1 < len(PRESSURES) else None
