"""Diversity: what says the same as a better hit steps back (MMR; Carbonell and Goldstein, SIGIR 1998).

Hits are taken one after the other, each time the one with the greatest
`trade x score - (1 - trade) x (its similarity to the nearest hit already taken)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from filrouge.errors import BadInput
from filrouge.model.recall import Hit
from filrouge.ports import Vector

#: Score and novelty weigh the same.
TRADE: Final = 0.5


def _as_it_is(cosine: float) -> float:
    return cosine


def diverse(
    hits: Sequence[Hit],
    vectors: Mapping[str, Vector],
    limit: int,
    *,
    trade: float = TRADE,
    similarity: Callable[[float], float] = _as_it_is,
) -> tuple[Hit, ...]:
    """At most `limit` of the hits in the order in which they are taken; scores stay as they were.

    Args:
        hits: best first, each with its score in [0, 1].
        vectors: the unit vector of each hit by its id; one without a vector is like no other.
        trade: 1 = the order of the scores, 0 = novelty alone once the best is taken.
        similarity: reads a cosine; a space's `calibrated` makes 0 of unrelated texts, whatever their cosine.

    Raises:
        BadInput: `trade` is not in [0, 1].
    """
    if not 0.0 <= trade <= 1.0:
        raise BadInput(f"trade must lie in [0, 1], not {trade}.", remedy="1 keeps the order of the scores.")
    left = list(hits)
    nearest = dict.fromkeys((hit.id for hit in left), 0.0)
    taken: list[Hit] = []
    while left and len(taken) < limit:
        # The first is the best by score, whatever the trade: there is nothing yet that it could repeat.
        best = max(left, key=lambda hit: trade * hit.score - (1 - trade) * nearest[hit.id]) if taken else left[0]
        left.remove(best)
        taken.append(best)
        vector = vectors.get(best.id)
        for hit in left:
            other = vectors.get(hit.id)
            if vector is not None and other is not None:
                nearest[hit.id] = max(nearest[hit.id], similarity(float(vector @ other)))
    return tuple(taken)
