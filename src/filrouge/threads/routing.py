"""Which thread a prompt belongs to (THR-2, THR-3): it goes on in one, wakes one, leaves one, or opens one.

Every prompt is held against all active, suspended and archived threads of its project. The bands are fitted by
bench/threads.py with as many candidates as a project has: of fifty, a band that lets one wrong pair in a hundred
through would put four prompts in ten into a wrong thread. They are low because one prompt says little: what is opened
by mistake is found again by `joining`, what is mixed by mistake is not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from filrouge.model.space import EmbeddingSpace
from filrouge.model.thread import Action, Routing, ThreadState, Weighed
from filrouge.threads.ground import Ground
from filrouge.threads.weighing import Item, Known, weighed

#: Candidates that are logged: those above this, or at least the best few (THR-8).
LOGGED, LOGGED_LEAST = 0.3, 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Bands:
    """Where similarities begin to mean something. The defaults are what bench/threads.py fitted.

    Attributes:
        accepted: from here on a prompt goes into a thread of this state, nobody asked.
        borderline: from here to `accepted` a model would be asked about a suspended or archived thread.
        fallback, fallback_shared: without a model such a thread is woken from the first on, or from the second on where
            a topic is shared.
        own: what the thread that the session is in is nearer by.
        drift: a prompt that is less near than this to its session's thread has left it.
        parted: two prompts in a row that are less near than this to what their session said before have left.
        joined: from here on a young thread is part of an older one.
    """

    accepted: Mapping[ThreadState, float] = field(
        default_factory=lambda: {"active": 0.26, "suspended": 0.26, "archived": 0.27}
    )
    borderline: float = 0.18
    fallback: float = 0.26
    fallback_shared: float = 0.25
    own: float = 0.3
    drift: float = -0.05
    parted: float = 0.08
    joined: float = 0.19


BANDS: Final = Bands()
#: Where no ground is known yet: those that the specification starts from.
WITHOUT_GROUND: Final = Bands(
    accepted={"active": 0.35, "suspended": 0.50, "archived": 0.60},
    borderline=0.15,
    fallback=0.35,
    fallback_shared=0.25,
    parted=0.0,
    joined=0.55,
)


def bands_of(ground: Ground | None) -> Bands:
    """The bands that were fitted for similarities with this ground, or without one."""
    return BANDS if ground is not None else WITHOUT_GROUND


def route(
    item: Item,
    known: Sequence[Known],
    space: EmbeddingSpace,
    ground: Ground | None = None,
    bands: Bands | None = None,
) -> Routing:
    """Decide where a prompt goes, without a model.

    Args:
        known: every live thread that may hold it: of its project, and with isolation of its agent.
        ground: of the user's prompts in this space; None while there is none.
    """
    bands = bands or bands_of(ground)
    found = weighed([item.part], known, space, ground, own=item.own, prior=bands.own)
    own = next((one for one in found if one.own), None)
    best = found[0] if found else None
    borderline = best is not None and _is_borderline(best, bands)
    chosen = best if best is not None and is_accepted(best, bands) else None
    if chosen is None and own is not None and own.similarity - bands.own >= bands.drift:
        chosen = own
    action: Action = "fork" if own else "new"
    if chosen is not None:
        action = "continue" if chosen.state == "active" else "reactivate"
    return Routing(
        action=action,
        thread_id=chosen.thread_id if chosen else None,
        parent=own.thread_id if own and not chosen else None,
        similarity=chosen.similarity if chosen else best.similarity if best else 0.0,
        weighed=tuple(one for place, one in enumerate(found) if one.similarity > LOGGED or place < LOGGED_LEAST),
        borderline=borderline,
        reason=_reason(chosen, best, len(known)),
    )


def is_accepted(one: Weighed, bands: Bands) -> bool:
    """True where a prompt goes into this thread, nobody asked."""
    if one.similarity >= bands.accepted[one.state]:
        return True
    if one.state == "active":
        return False
    return one.similarity >= (bands.fallback_shared if one.topics > 0.0 else bands.fallback)


def _is_borderline(one: Weighed, bands: Bands) -> bool:
    return one.state != "active" and bands.borderline <= one.similarity < bands.accepted[one.state]


def _reason(chosen: Weighed | None, best: Weighed | None, count: int) -> str:
    if best is None:
        return "There is no thread yet."
    if chosen is None:
        return f"None of {count} threads is near enough; the nearest has {best.similarity:.2f}."
    if chosen is not best:
        return f"It stays with its session, at {chosen.similarity:.2f}."
    whose = "its session's thread" if chosen.own else f"the nearest of {count} threads"
    return f"It is with {whose}, at {chosen.similarity:.2f}."
