"""Threads that turn out to be one: the first prompt of a session says little, all of them together say more.

A thread that was opened in one session is held against the older ones again after each of its next prompts, with all
that was said in it (`join`), and once in a while all threads are held against each other (`gather`), the nearest two
first, since two pieces may only be seen to belong together when a third has come. Both take the mean over parts, so
that one pair of sessions that are alike does not tie two long threads together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from filrouge.model.space import EmbeddingSpace
from filrouge.model.thread import Routing, Thread, Weighed
from filrouge.threads.ground import Ground
from filrouge.threads.routing import Bands, bands_of
from filrouge.threads.weighing import Known, similarities, weighed

#: A thread of one session is young with this many prompts and fewer; it is looked at after each of them but the first.
YOUNG: Final = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Joining:
    """Two threads that are one; the younger goes into the older."""

    young: str
    old: str
    routing: Routing


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


def gather(
    threads: Sequence[Known], space: EmbeddingSpace, ground: Ground | None = None, bands: Bands | None = None
) -> tuple[Joining, ...]:
    """Which of these threads are one, in the order in which they are to be joined; none of them twice as the younger.

    The nearest two go together first; what is joined is as near to a third as its parts are in the mean.
    """
    bands = bands or bands_of(ground)
    alive = {place: one.thread for place, one in enumerate(threads)}
    sizes = [float(len(one.compared)) for one in threads]
    near = similarities(threads, space, ground)
    np.fill_diagonal(near, -1.0)
    found: list[Joining] = []
    while len(alive) > 1:
        one, other = divmod(int(near.argmax()), len(threads))
        if near[one, other] < bands.gathered:
            break
        joining = _joining(alive[one], alive[other], float(near[one, other]))
        found.append(joining)
        kept, gone = (one, other) if alive[one].id == joining.old else (other, one)
        near[kept] = (near[kept] * sizes[kept] + near[gone] * sizes[gone]) / (sizes[kept] + sizes[gone])
        near[:, kept] = near[kept]
        sizes[kept] += sizes[gone]
        del alive[gone]
        out = [place for place in range(len(threads)) if place not in alive]
        near[out], near[:, out], near[kept, kept] = -1.0, -1.0, -1.0
    return tuple(found)


def _joining(one: Thread, other: Thread, similarity: float) -> Joining:
    old, young = sorted((one, other), key=lambda thread: (thread.opened_at, thread.id))
    return Joining(young=young.id, old=old.id, routing=_routing(old.id, similarity, ()))


def _routing(into: str, similarity: float, logged: tuple[Weighed, ...]) -> Routing:
    reason = f"All that was said in both is near enough to be one, at {similarity:.2f}."
    return Routing(action="join", thread_id=into, similarity=similarity, weighed=logged, reason=reason)
