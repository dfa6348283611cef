"""Retention: what is kept for how long, and how much sooner it goes where the whole grows beyond its cap (GARD-5).

What people and agents said is kept, and so is whatever a memory cites. What tools put out is raw material and goes
after a season, noise that capture filtered after a month, the log of recalls and answers that nobody could read after a
season. Where the home is larger than its cap, the same goes sooner, in steps, and never what was said: if that is not
enough, it is for the user to decide, who is told.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from filrouge.model.retention import Cutoffs

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
