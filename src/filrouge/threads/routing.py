"""Which thread a prompt belongs to (THR-2, THR-3): it goes on in one, wakes one, leaves one, or opens one.

Every prompt is held against all active, suspended and archived threads of its project. The bands below are fitted by
bench/threads.py, with as many candidates as a project has: of fifty, a band that lets one wrong pair in a hundred
through would put four prompts in ten into a wrong thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from filrouge.model.space import EmbeddingSpace
from filrouge.model.thread import Routing, ThreadState, Weighed
from filrouge.threads.weighing import Item, Known, weighed

#: From which similarity on a prompt goes into a thread of this state without asking anybody.
BANDS: Final[Mapping[ThreadState, float]] = {"active": 0.35, "suspended": 0.50, "archived": 0.60}
#: Suspended threads from here to their band are borderline: a model would be asked.
BORDERLINE: Final = 0.15
#: Without a model: from here on a suspended thread is woken, or from the lower one where a topic is shared.
FALLBACK, FALLBACK_SHARED = 0.35, 0.25
#: Candidates that are logged: those above this, or at least the best few (THR-8).
LOGGED, LOGGED_LEAST = 0.3, 3


def route(item: Item, known: Sequence[Known], space: EmbeddingSpace) -> Routing:
    """Decide where a prompt goes, without a model."""
    found = weighed(item, known, space)
    logged = tuple(one for place, one in enumerate(found) if one.similarity > LOGGED or place < LOGGED_LEAST)
    chosen = next((one for one in found if _accepted(one)), None)
    borderline = chosen is None and any(_is_borderline(one) for one in found[:1])
    if chosen is None and found and borderline and _falls_back(found[0]):
        chosen = found[0]
    own = next((one for one in found if one.own), None)
    if chosen is None:
        best = found[0].similarity if found else 0.0
        return Routing(
            action="fork" if own else "new",
            thread_id=None,
            parent=own.thread_id if own else None,
            similarity=best,
            weighed=logged,
            borderline=borderline,
            reason=f"The best of {len(found)} threads has {best:.2f}." if found else "There is no thread yet.",
        )
    return Routing(
        action="continue" if chosen.state == "active" else "reactivate",
        thread_id=chosen.thread_id,
        similarity=chosen.similarity,
        weighed=logged,
        borderline=borderline,
        reason=f"The best of {len(found)} threads has {chosen.similarity:.2f}.",
    )


def _accepted(one: Weighed) -> bool:
    return one.similarity >= BANDS[one.state]


def _is_borderline(one: Weighed) -> bool:
    return one.state == "suspended" and BORDERLINE <= one.similarity < BANDS["suspended"]


def _falls_back(one: Weighed) -> bool:
    return one.similarity > FALLBACK or (one.similarity > FALLBACK_SHARED and one.topics > 0)
