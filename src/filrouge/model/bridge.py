"""A bridge: a typed, directed tie between two threads, with the reason for it.

There is one of a kind between two threads, whichever way it points. What no one comes back to fades in the days on
which the project is worked on, and is gone below a least strength.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

BridgeKind = Literal["extends", "depends_on", "contradicts", "supports", "refines", "relates_to", "child_of"]
BRIDGE_KINDS: tuple[BridgeKind, ...] = get_args(BridgeKind)
BridgeBy = Literal["rules", "gossip", "model", "user"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Bridge:
    """One tie.

    Attributes:
        confidence: how sure its signs made it when it was made or last confirmed, in [0.5, 1]; it orders bridges, and
            is no probability.
        depth: 0 where the two were compared themselves, more where it spread over neighbours.
        reinforced_at: when it was last confirmed; what it weighs now follows from that.
    """

    id: str
    source: str
    target: str
    kind: BridgeKind
    reason: str
    confidence: float
    made_by: BridgeBy
    created_at: datetime
    reinforced_at: datetime
    depth: int = 0
