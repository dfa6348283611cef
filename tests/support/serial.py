"""Does what many clients did at once equal something that one of them could have done alone, one thing at a time?

A fact under a key is a register: whoever sets it puts a value there that nobody else ever sets, and whoever reads it
sees one. The store keeps the order in which it wrote the values. That order explains what the clients saw if it
respects what happened in time: a write that was answered before another began comes first, and a read shows neither
a value that was replaced before the read began nor one that was set after it ended (linearizability; Herlihy and
Wing, 1990).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """One thing that a client did to a register.

    Attributes:
        value: what it set or read; None where it read that nothing is there.
        began, ended: seconds, by one clock for all clients.
        wrote: whether it set the value.
        answered: False where the client was told of an error or of nothing, so that it may be done or not.
    """

    value: str | None
    began: float
    ended: float
    wrote: bool
    answered: bool = True


def contradictions(order: Sequence[str], seen: Iterable[Seen]) -> list[str]:
    """Why that order cannot be the one in which it happened; empty where it can.

    Args:
        order: the values in the order in which the store says it wrote them.
        seen: all that was done to this register.
    """
    seen = list(seen)
    place = {value: number for number, value in enumerate(order)}
    writes = {one.value: one for one in seen if one.wrote}
    found = [f"{value} was written twice" for value in order if order.count(value) > 1]
    found += [f"{value} is there and nobody wrote it" for value in order if value not in writes]
    found += [
        f"{one.value} was answered and is lost" for one in writes.values() if one.answered and one.value not in place
    ]
    known = [one for one in writes.values() if one.value in place]
    return found + _out_of_order(place, known) + _misread(place, known, [one for one in seen if not one.wrote])


def _out_of_order(place: Mapping[str, int], writes: Sequence[Seen]) -> list[str]:
    in_time = sorted(writes, key=lambda one: one.began)
    answered = sorted((one for one in writes if one.answered), key=lambda one: one.ended)
    found, latest, taken = list[str](), -1, 0
    for one in in_time:
        while taken < len(answered) and answered[taken].ended < one.began:
            latest = max(latest, place[answered[taken].value or ""])
            taken += 1
        if place[one.value or ""] < latest:
            found.append(f"{one.value} stands before one that was answered before it began")
    return found


def _misread(place: Mapping[str, int], writes: Sequence[Seen], reads: Iterable[Seen]) -> list[str]:
    found = list[str]()
    for read in reads:
        if not read.answered:
            continue
        least = max((place[one.value or ""] for one in writes if one.answered and one.ended < read.began), default=-1)
        begun = max((place[one.value or ""] for one in writes if one.began < read.ended), default=-1)
        at = -1 if read.value is None else place.get(read.value, len(place))
        if not least <= at <= begun:
            found.append(f"{read.value} was read where only values {least} to {begun} could be")
    return found
