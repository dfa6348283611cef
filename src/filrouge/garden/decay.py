"""Decay: how lively a memory is, from when it was last said or used and how often (MEM-4).

Forgetting is exponential, and what is met again fades more slowly (Ebbinghaus 1885; the spacing effect). A memory's
vitality is 1 when it is said or used, and halves with every half-life after that; its half-life is that of its kind,
longer by the share in which it was met again:

    vitality = 0.5 ^ (days since it was met last / (half-life of its kind x (1 + log2(mentions + uses / 2))))

Nothing is stored but what happened, so nothing has to be swept, a clock that was wrong does no harm, and the same is
true after a rebuild. Vitality is shown and orders; nothing is deleted because it faded, and what the user pinned or
laid down as a rule does not fade.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from filrouge.model.memory import Kind, Memory

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
