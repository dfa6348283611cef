"""Groups of whatever has similarities: average linkage, and when a new grouping is better than the old.

Numbers in, numbers out; what is grouped, and why, stands in `regrouping`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

#: What any change must be worth, in similarity. (What is together held nearer together keeps early mistakes: measured.)
_WORTH: Final = 0.02
#: Similarities, or what they are above a band; shape (n, n).
Near = NDArray[np.float32]
#: The number of each one's group; shape (n,).
Labels = NDArray[np.int64]


def labels(names: Sequence[object]) -> Labels:
    """Numbers for names, in the order in which they first come."""
    known: dict[object, int] = {}
    return np.asarray([known.setdefault(name, len(known)) for name in names], dtype=np.int64)


def settled(above: Near, now: Labels, bound: Labels) -> Labels:
    """The grouping that this one turns into, and which stays as it is.

    Groups are made without regard to those that are there, so what is there either is them or is kept again.

    Args:
        above: how near every two are above the band, shape (n, n).
        now: the groups as they are.
        bound: what has one number here is never parted.
    """
    return _better(above, now, grouped(above, bound))


def grouped(above: Near, bound: Labels) -> Labels:
    """Groups by average linkage, the nearest first, beginning with each part alone but those that a user holds.

    Groups can only be near enough where two of their parts are, so what hangs together by no pair is left apart.
    """
    groups = np.arange(len(bound))
    for places in _hanging(above, bound):
        own = above[np.ix_(places, places)].astype(np.float64)
        first = labels(bound[places].tolist())
        groups[places] = places[_linked(own, first)]
    return groups


def _hanging(above: Near, bound: Labels) -> Iterable[Labels]:
    """Parts that hang together by pairs that are near enough, two and more at a time."""
    left = np.ones(len(bound), dtype=bool)
    for place in range(len(bound)):
        if not left[place]:
            continue
        left[place] = False
        found, front = [place], [place]
        while front:
            one = front.pop()
            reached = (above[one] > 0.0) | (bound == bound[one])
            new = np.flatnonzero(reached & left).tolist()
            left[new] = False
            found += new
            front += new
        if len(found) > 1:
            yield np.asarray(sorted(found))


def _linked(near: NDArray[np.float64], first: Labels) -> Labels:
    """For every part the place of one that stands for its group.

    Args:
        near: less the band, shape (n, n).
        first: parts of one label are one group to begin with.
    """
    groups = np.arange(len(near))
    sizes = np.ones(len(near))
    np.fill_diagonal(near, -np.inf)
    best = near.argmax(axis=1)

    def merge(kept: int, gone: int) -> None:
        near[kept] = (near[kept] * sizes[kept] + near[gone] * sizes[gone]) / (sizes[kept] + sizes[gone])
        near[:, kept] = near[kept]
        near[gone] = near[:, gone] = near[kept, kept] = -np.inf
        sizes[kept] += sizes[gone]
        groups[groups == gone] = kept
        stale = np.flatnonzero((best == kept) | (best == gone))
        best[stale] = near[stale].argmax(axis=1)
        best[kept] = near[kept].argmax()
        nearer = near[:, kept] > near[np.arange(len(near)), best]
        best[nearer] = kept

    _, leading = np.unique(first, return_index=True)
    for place, label in enumerate(first):
        if leading[label] != place:
            merge(int(leading[label]), place)
    while True:
        top = near[np.arange(len(near)), best]
        one = int(top.argmax())
        if not top[one] > 0.0:
            return groups
        kept, gone = sorted((one, int(best[one])))
        merge(kept, gone)


def _better(above: Near, now: Labels, then: Labels) -> Labels:
    """What is there, with those new groups that are better than the ones that they are made of.

    A grouping is worth what its pairs are above the band, all together.
    """
    result, fresh = now.copy(), int(now.max()) + 1
    for places in _touching(now, then):
        old, new = now[places], then[places]
        change = (new[:, None] == new[None, :]).astype(np.int8) - (old[:, None] == old[None, :])
        if (above[np.ix_(places, places)] * change).sum(dtype=np.float64) > 2 * _WORTH:
            result[places] = new + fresh
    return labels(result.tolist())


def _touching(now: Labels, then: Labels) -> Iterable[Labels]:
    """Parts whose groups, before or after, have parts in common."""
    lead = {int(one): int(one) for one in np.unique(now)}

    def root(one: int) -> int:
        while lead[one] != one:
            one = lead[one]
        return one

    for group in np.unique(then):
        first, *others = (root(int(one)) for one in np.unique(now[then == group]))
        for other in others:
            lead[root(other)] = root(first)
    tops = np.asarray([root(int(one)) for one in now])
    return [np.flatnonzero(tops == one) for one in np.unique(tops)]
