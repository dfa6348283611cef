"""Gossip: a thread that changed hears of its neighbours' neighbours.

Two threads that are both tied to a third are tied themselves where they are alike enough, if less than would tie them
without it. What is heard is surer than neither of the ties it came over, and comes two steps far at most: from what
was seen itself (depth 0) to depth 1, from there to depth 2, and no further. So it cannot feed itself: each of these
ties rests on some that were seen, and goes when they fade, and with at most ten ties a thread has at most ninety
neighbours of neighbours.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

from filrouge.model.bridge import Bridge
from filrouge.threads.bridges import LEAST_CONFIDENCE, Strength, Tie, other_end

#: Steps that a tie may have come.
DEEPEST: Final = 2
#: What is left of how sure a tie is with every step.
PER_STEP: Final = 0.9
#: Similarity beyond what is usual in the project, from which two threads with a common neighbour are tied.
LEAST_SIMILARITY: Final = 0.35


def heard(
    thread_id: str, bridges: Sequence[Bridge], *, strength: Strength, similarity: Callable[[str], float | None]
) -> list[Tie]:
    """The ties that a thread hears of: one to each neighbour's neighbour that passes, over the best way there.

    Args:
        bridges: those that live, of the thread and of its neighbours.
        similarity: with another, beyond what is usual in the project; None where one of the two has no vector.
    """
    at = defaultdict[str, list[Bridge]](list)
    for bridge in bridges:
        at[bridge.source].append(bridge)
        at[bridge.target].append(bridge)
    seen = {thread_id, *(other_end(one, thread_id) for one in at[thread_id] if one.depth == 0)}
    found = dict[str, Tie]()
    for first in at[thread_id]:
        between = other_end(first, thread_id)
        for second in at[between]:
            far, depth = other_end(second, between), max(first.depth, second.depth) + 1
            confidence = PER_STEP * strength(first) * strength(second)
            if far in seen or depth > DEEPEST or confidence < LEAST_CONFIDENCE:
                continue
            if far in found and found[far].confidence >= confidence:
                continue
            alike = similarity(far)
            if alike is None or alike < LEAST_SIMILARITY:
                continue
            found[far] = Tie(
                source=thread_id,
                target=far,
                kind="relates_to",
                confidence=confidence,
                reason="both are tied to a third, and they are alike in meaning",
                made_by="gossip",
                depth=depth,
            )
    return list(found.values())
