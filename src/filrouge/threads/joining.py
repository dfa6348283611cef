"""Threads that turn out to be one: the first prompt of a session says little, all of them together say more.

A thread that was opened in one session is held against the older ones again after each of its next prompts, with all
that was said in it. The mean over parts counts, so that one pair of sessions that are alike does not tie two long
threads together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from filrouge.model.space import EmbeddingSpace
from filrouge.model.thread import Routing, Weighed
from filrouge.threads.ground import Ground
from filrouge.threads.routing import Bands, bands_of
from filrouge.threads.weighing import Known, weighed

#: A thread of one session is young with this many prompts and fewer; it is looked at after each of them but the first.
YOUNG: Final = 8


def join(
    young: Known,
    older: Sequence[Known],
    space: EmbeddingSpace,
    ground: Ground | None = None,
    bands: Bands | None = None,
) -> Routing | None:
    """The older thread that this one turns out to continue, as a routing with the action `join`; None = none.

    Args:
        young: a thread of 2 to `YOUNG` prompts.
        older: every other live thread that it may be, opened before it.
    """
    bands = bands or bands_of(ground)
    older = [one for one in older if one.thread.id != young.thread.id]
    found = weighed(young.compared, older, space, ground)
    if not found or found[0].similarity < bands.joined:
        return None
    return _routing(found[0].thread_id, found[0].similarity, found[:3])


def _routing(into: str, similarity: float, logged: tuple[Weighed, ...]) -> Routing:
    reason = f"All that was said in both is near enough to be one, at {similarity:.2f}."
    return Routing(action="join", thread_id=into, similarity=similarity, weighed=logged, reason=reason)
