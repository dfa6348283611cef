"""The life of bridges: how strong one still is, how many a thread may have, and what becomes of new signs of one.

What a bridge weighs is its confidence, halved with every later day on which the project was worked on: a holiday costs
nothing, and what nobody comes back to is gone within a working week. A thread has ten at most, counted at both ends; of
too many the weakest gives way. What the user made neither fades nor gives way, and what the user removed is not made
again. All of it is arithmetic over values: who reads and writes them is `app.ties`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from filrouge.clock import to_text
from filrouge.model.bridge import Bridge, BridgeBy, BridgeKind

#: None is made that is less sure.
LEAST_CONFIDENCE: Final = 0.5
#: Below this a bridge is gone.
LEAST_STRENGTH: Final = 0.05
HALF_LIFE_DAYS: Final = 1.0
#: Live bridges of a thread, those to it and those from it together.
MOST: Final = 10
#: The surest one has faded after so many active days; later ones need not be known.
LONGEST_DAYS: Final = 5

Key = tuple[str, str, BridgeKind]
"""The two threads, the lower id first, and the kind: of such there is one bridge."""
Strength = Callable[[Bridge], float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Tie:
    """A bridge that signs speak for, before it is made.

    Attributes:
        confidence: how sure the signs make it, in [0.5, 1]; it orders ties and is no probability.
        reason: plain words that quote nothing.
    """

    source: str
    target: str
    kind: BridgeKind
    confidence: float
    reason: str
    made_by: BridgeBy = "rules"
    depth: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Changes:
    """What to write: bridges that are new or confirmed, and the ids of those that go."""

    kept: tuple[Bridge, ...] = ()
    gone: tuple[str, ...] = ()


def key_of(tie: Tie | Bridge) -> Key:
    """By which a bridge is known, whichever way it points."""
    return min(tie.source, tie.target), max(tie.source, tie.target), tie.kind


def other_end(bridge: Bridge, thread_id: str) -> str:
    """The thread at the end that is not this one."""
    return bridge.target if bridge.source == thread_id else bridge.source


def strength_at(bridge: Bridge, active_days: Collection[str]) -> float:
    """What a bridge weighs now.

    Args:
        active_days: the last days (`2026-05-01`, in UTC) on which its project was worked on, at least the last
            `LONGEST_DAYS`.
    """
    if bridge.made_by == "user":
        return bridge.confidence
    made = to_text(bridge.reinforced_at)[:10]
    passed = sum(day > made for day in active_days)
    return bridge.confidence * 0.5 ** (passed / HALF_LIFE_DAYS)


def living(bridges: Iterable[Bridge], strength: Strength) -> tuple[list[Bridge], list[str]]:
    """Those that are still there, and the ids of those that have faded."""
    there, gone = list[Bridge](), list[str]()
    for bridge in bridges:
        if strength(bridge) < LEAST_STRENGTH:
            gone.append(bridge.id)
        else:
            there.append(bridge)
    return there, gone


def settled(
    bridges: Sequence[Bridge],
    ties: Iterable[Tie],
    *,
    strength: Strength,
    at: datetime,
    refused: Collection[Key] = (),
    new_id: Callable[[datetime], str],
) -> Changes:
    """What new signs come to, the surest first.

    One that is there is confirmed: it counts from `at` and is as sure as the signs of today, or as the user said. A new
    one is made where both its threads have room, or have a weaker one that may go.

    Args:
        bridges: all that the threads concerned have, faded ones too; these go.
        refused: what the user removed.
    """
    there, faded = living(bridges, strength)
    table, weights = {key_of(one): one for one in there}, {one.id: strength(one) for one in there}
    kept, gone = dict[str, Bridge](), dict.fromkeys(faded)
    for tie in sorted(ties, key=lambda tie: (-tie.confidence, tie.depth, key_of(tie))):
        key, known = key_of(tie), table.get(key_of(tie))
        if tie.source == tie.target or tie.confidence < LEAST_CONFIDENCE or key in refused:
            continue
        one = _confirmed(known, tie, at) if known else _made(tie, at, new_id)
        weight = strength(one)
        if known:
            if one == known or (weight < weights[known.id] and tie.made_by != "user" and tie.depth == known.depth):
                continue
        elif weight < LEAST_STRENGTH:
            continue  # the sign is an old one
        else:
            leaving = _to_make_room(table.values(), tie, weight, weights)
            if leaving is None:
                continue
            for old in leaving:
                del table[key_of(old)]
                kept.pop(old.id, None)
                gone[old.id] = None
        table[key], weights[one.id], kept[one.id] = one, weight, one
    return Changes(kept=tuple(kept.values()), gone=tuple(gone))


def redirected(
    bridges: Iterable[Bridge], merged: str, into: str, *, strength: Strength, refused: Collection[Key] = ()
) -> Changes:
    """What becomes of bridges when one thread is taken into another.

    Those of the merged one go to the other; of two of a kind the stronger stays, the user's before any; one between the
    two goes; and of more than a thread may have the weakest go.

    Args:
        bridges: all that the two threads have.
        refused: what the user removed between the other threads and the one or the other, after the merge.
    """
    there, faded = living(bridges, strength)
    gone, moved, table = dict.fromkeys(faded), dict[str, Bridge](), dict[Key, Bridge]()

    def rank(bridge: Bridge) -> tuple[bool, float, str]:
        return bridge.made_by == "user", strength(bridge), bridge.id

    for old in sorted(there, key=rank, reverse=True):
        one = with_end(old, merged, into)
        unwanted = key_of(one) in refused and one.made_by != "user"
        if one.source == one.target or key_of(one) in table or unwanted:
            gone[old.id] = None
            continue
        table[key_of(one)] = one
        if one != old:
            moved[one.id] = one
    mine = sorted((one for one in table.values() if into in (one.source, one.target)), key=rank, reverse=True)
    for old in mine[MOST:]:
        if old.made_by != "user":
            moved.pop(old.id, None)
            gone[old.id] = None
    return Changes(kept=tuple(moved.values()), gone=tuple(gone))


def with_end(bridge: Bridge, merged: str, into: str) -> Bridge:
    """A bridge whose end at the one thread is at the other instead."""
    source, target = (into if end == merged else end for end in (bridge.source, bridge.target))
    return replace(bridge, source=source, target=target)


def _confirmed(known: Bridge, tie: Tie, at: datetime) -> Bridge:
    """A bridge after another sign of it; one that came further, or is older, changes nothing."""
    if tie.made_by == "user":
        return replace(
            known, confidence=tie.confidence, made_by="user", reason=tie.reason or known.reason, depth=0,
            source=tie.source, target=tie.target, reinforced_at=at,
        )  # fmt: skip
    if known.made_by == "user" or tie.depth > known.depth or at < known.reinforced_at:
        return known
    return replace(
        known, confidence=tie.confidence, made_by=tie.made_by, reason=tie.reason, depth=tie.depth, reinforced_at=at
    )


def _to_make_room(there: Iterable[Bridge], tie: Tie, weight: float, weights: dict[str, float]) -> list[Bridge] | None:
    """Which ones go so that both threads have room for this; None where it is the one to stay out."""
    left, leaving = list(there), list[Bridge]()
    for end in (tie.source, tie.target):
        mine = [one for one in left if end in (one.source, one.target)]
        if len(mine) < MOST:
            continue
        might = [one for one in mine if one.made_by != "user"]
        weakest = min(might, key=lambda one: (weights[one.id], one.id), default=None)
        if weakest is None or (tie.made_by != "user" and weights[weakest.id] >= weight):
            return None
        leaving.append(weakest)
        left.remove(weakest)
    return leaving


def _made(tie: Tie, at: datetime, new_id: Callable[[datetime], str]) -> Bridge:
    return Bridge(
        id=new_id(at),
        source=tie.source,
        target=tie.target,
        kind=tie.kind,
        reason=tie.reason,
        confidence=tie.confidence,
        made_by=tie.made_by,
        created_at=at,
        reinforced_at=at,
        depth=tie.depth,
    )
