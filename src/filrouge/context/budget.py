"""The budget: which items fit into a block, so that together they are worth most.

Items cost the room of their line, and a section that has any costs its heading. Among all choices that fit, one of
the highest total value is found by dynamic programming over the characters that are left (a knapsack with a set-up
cost for each group). Hosts limit bytes as well: a choice that the characters allow and the bytes do not is made again
over bytes, and where neither alone settles it, over the tighter of both for each item, which is safe but may leave a
little room.

Pure: no database, no file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from filrouge.context.rendering import Size

#: What any item is worth at the least: room that is free is used.
_LEAST_VALUE: Final = 1e-6
NOTHING: Final = Size(characters=0, bytes=0)

Better = NDArray[np.bool_]
"""For each room that may be used: is it better so?"""
_Stage = tuple[int, Better, list[tuple[int, int, Better]]]
#: One group: its heading's weight, where it is better to open it, and each item with its weight and where it is taken.


@dataclass(frozen=True, kw_only=True, slots=True)
class Offer:
    """One item that wants in.

    Attributes:
        group: its section, which costs a heading once.
        value: finite and not negative.
    """

    group: str
    size: Size
    value: float


def fit(offers: Sequence[Offer], headings: Mapping[str, Size], room: Size) -> frozenset[int]:
    """The places of the offers that are taken.

    Args:
        headings: what a group costs; one that is missing costs nothing.
        room: for the items and their headings together.
    """
    bag = _Bag(offers=offers, headings=headings, room=room)
    everything = frozenset(range(len(offers)))
    if bag.holds(everything):
        return everything
    by_characters = bag.best(lambda size: size.characters, room.characters)
    if bag.holds(by_characters):
        return by_characters
    by_bytes = bag.best(lambda size: size.bytes, room.bytes)
    if bag.holds(by_bytes):
        return by_bytes
    both = bag.best(lambda size: max(size.characters, -(-size.bytes * room.characters // room.bytes)), room.characters)
    return max(both, bag.greedy(), key=bag.worth)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Bag:
    """What is to be packed, and how much goes in."""

    offers: Sequence[Offer]
    headings: Mapping[str, Size]
    room: Size

    def worth(self, taken: frozenset[int]) -> float:
        """What a choice is worth."""
        return sum(self.offers[n].value + _LEAST_VALUE for n in taken)

    def holds(self, taken: frozenset[int]) -> bool:
        """True if a choice fits."""
        groups = {self.offers[n].group for n in taken}
        sizes = [self.offers[n].size for n in taken] + [self.headings.get(group, NOTHING) for group in groups]
        return (
            sum(size.characters for size in sizes) <= self.room.characters
            and sum(size.bytes for size in sizes) <= self.room.bytes
        )

    def greedy(self) -> frozenset[int]:
        """By value for its room, as long as there is some."""
        taken = frozenset[int]()
        for n in sorted(range(len(self.offers)), key=lambda n: -self.offers[n].value / self.offers[n].size.characters):
            if self.holds(taken | {n}):
                taken |= {n}
        return taken

    def best(self, weigh: Callable[[Size], int], room: int) -> frozenset[int]:
        """The choice of the highest value whose weights fit, items and headings together; the first of equals."""
        if room < 0:
            return frozenset()
        best = np.zeros(room + 1)  # by how much room may be used
        stages = list[_Stage]()
        for group in dict.fromkeys(one.group for one in self.offers):
            heading, steps = weigh(self.headings.get(group, NOTHING)), list[tuple[int, int, Better]]()
            within = _later(best, heading)
            for n in (n for n, one in enumerate(self.offers) if one.group == group):
                weight = weigh(self.offers[n].size)
                taking = _later(within, weight) + self.offers[n].value + _LEAST_VALUE
                steps.append((n, weight, taking > within))
                within = np.maximum(within, taking)
            stages.append((heading, within > best, steps))
            best = np.maximum(best, within)
        return _retraced(stages, room)


def _later(values: NDArray[np.float64], weight: int) -> NDArray[np.float64]:
    """The values with that much less room; none where there was not as much."""
    shifted = np.full_like(values, -np.inf)
    if weight < len(values):
        shifted[weight:] = values[: len(values) - weight]
    return shifted


def _retraced(stages: Sequence[_Stage], room: int) -> frozenset[int]:
    """What was taken on the way to the best, found by walking back."""
    taken, left = set[int](), room
    for heading, opened, steps in reversed(stages):
        if not opened[left]:
            continue
        for place, weight, better in reversed(steps):
            if better[left]:
                taken.add(place)
                left -= weight
        left -= heading
    return frozenset(taken)
