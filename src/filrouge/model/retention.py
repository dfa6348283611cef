"""The moments before which things are no longer kept."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


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
