"""Bridges between threads: the signs of one, how strong it is, and how it fades.

Pure: no database, no file.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import numpy as np

from filrouge.core import lazy_re as re
from filrouge.core.clock import to_text
from filrouge.core.protocols import Vector
from filrouge.extraction.vocabulary import content, fold, tokens
from filrouge.providers.models import EmbeddingSpace
from filrouge.threads.models import Bridge, BridgeBy, BridgeKind

# The life of bridges: how strong one still is, how many a thread may have, and what becomes of new signs of one.
#
# What a bridge weighs is its confidence, halved with every later day on which the project was worked on: a holiday
# costs nothing, and what nobody comes back to is gone within a working week. A thread has ten at most, counted at
# both ends; of too many the weakest gives way. What the user made neither fades nor gives way, and what the user
# removed is not made again. All of it is arithmetic over values: who reads and writes them is `threads.links`.

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


# Gossip: a thread that changed hears of its neighbours' neighbours.
#
# Two threads that are both tied to a third are tied themselves where they are alike enough, if less than would tie
# them without it. What is heard is surer than neither of the ties it came over, and comes two steps far at most: from
# what was seen itself (depth 0) to depth 1, from there to depth 2, and no further. So it cannot feed itself: each of
# these ties rests on some that were seen, and goes when they fade, and with at most ten ties a thread has at most
# ninety neighbours of neighbours.

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


# Signs that two threads belong together, and how sure they make it.
#
# Meaning and words are two witnesses. Meaning is the calibrated similarity of the threads' vectors, less what any two
# threads of the project have in common anyway; words are topics that both have, counting the more the fewer threads
# have them, and what the one's prompts name of the other: its title, a rare topic, a file. Each alone says how sure
# it makes it that the two belong together; they err apart from each other, so together they are wrong only where both
# are. The values are set by hand: what they come to orders ties, and is no probability.
#
# Similarity is not taken above the ground (ADR 14): what is usual in the project is off already, and pairs that
# belong together are told apart no better (bench/bridges.py).
#
# What a tie is called follows from plainer signs: a thread was forked from the other, a memory of it took the place
# of one that was learned in the other, or the sentence that names the other says what it has to do with it. Without
# any of these, two threads relate.

#: Similarity beyond what is usual in the project, and how sure it makes a tie.
_SIMILARITY: Final = (0.3, 0.5, 0.7, 0.9)
_MEANING: Final = (0.0, 0.5, 0.8, 0.95)
#: Calibrated similarity of threads that have nothing in common (a mean of prompts is like any other mean); it counts as
#: much as so many others of the project.
_USUAL, _AS_MANY_OTHERS = 0.3, 8
#: How sure a common topic makes it that no other thread has; the less, the more threads have it.
_COMMON_TOPIC: Final = 0.45
#: How sure it is that what is named is the thread: its title, a rare topic of it, a file of it.
_NAMED: Final = {"title": 0.85, "file": 0.5, "topic": 0.3}
#: The same where the sentence says what the one has to do with the other.
_NAMED_AND_TOLD: Final = {"title": 0.9, "file": 0.6, "topic": 0.45}
#: A topic is rare that so few threads have, itself included.
_RARE: Final = 2
#: A memory of one thread replaces, or speaks against, one of the other.
_LEARNED: Final = 0.9
#: Words of the longest name that is looked for.
_LONGEST_NAME: Final = 8
_FILE: Final = re.compile(r"(?<![\w/.-])[\w./-]*\w\.(?!\d)[a-z][a-z0-9]{0,4}(?![\w-])")
_SENTENCE: Final = re.compile(r"[.!?;]\s+|\n+")
_CUES: Final[tuple[tuple[BridgeKind, re.Pattern[str]], ...]] = (
    (
        "depends_on",
        re.compile(
            r"\b(?:depend(?:s|ing)? (?:up)?on|dependent on|needs?|requires?|blocked (?:by|on)|wait(?:s|ing)? (?:for|on)"
            r"|once .{1,80} (?:is|are) (?:done|finished|merged|ready|in|there)|as soon as|prerequisite"
            r"|depend(?:ent|s)? (?:de|du|des|d')|a besoin d|bloquee?s? par|attend(?:ent|s)?|requiert|necessite"
            r"|une fois .{1,80} (?:finie?s?|faite?s?|terminee?s?|prete?s?)|des que|prealable)"
        ),
    ),
    (
        "extends",
        re.compile(
            r"\b(?:extend(?:s|ing)?|extension of|builds? (?:up)?on|building (?:up)?on|on top of|follow-up (?:to|of)"
            r"|etend(?:re|ent)?|extension de|prolonge(?:nt|r)?|s'appuie sur|par-dessus|dans la suite de)\b"
        ),
    ),
    (
        "supports",
        re.compile(
            r"\b(?:confirms?|confirming|confirmed by|backs? up|in line with|consistent with|agrees? with"
            r"|confirme(?:nt)?|confirmee?s? par|corrobore(?:nt)?|conforme a|en accord avec|va dans le sens)\b"
        ),
    ),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """A thread, as far as ties are made from it.

    Attributes:
        vector: a unit vector of the current space, or None.
        said: its newest prompts; of those it is compared with, enough to know its files by.
    """

    id: str
    title: str
    topics: tuple[str, ...] = ()
    parent: str | None = None
    vector: Vector | None = None
    said: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Replaced:
    """A memory of the thread stands against one that was learned in another.

    Attributes:
        conflict: nobody has settled yet which of the two holds.
    """

    thread_id: str
    text: str
    former: str
    conflict: bool = False


def ties_of(
    thread: Known, others: Sequence[Known], space: EmbeddingSpace, replaced: Iterable[Replaced] = ()
) -> list[Tie]:
    """The ties that signs speak for, at most ten, the surest first; none under a confidence of one half.

    Args:
        others: every other thread of the same user and project.
    """
    alike = similarities(thread, others, space)
    beyond = beyond_the_usual(alike)
    spread = Counter(topic for one in (thread, *others) for topic in set(map(fold, one.topics)))
    names = _Names(thread.said)
    found = list[Tie]()
    for other in others:
        meaning = float(np.interp(beyond.get(other.id, 0.0), _SIMILARITY, _MEANING))
        words, why = _words(thread, other, names, spread, len(others) + 1)
        plain = [f"they are alike in meaning ({alike[other.id]:.2f})"] if meaning > 0 else []
        typed = _typed(thread, other, names, spread, meaning, replaced, plain)
        found.extend(typed)
        if not typed and _either(meaning, words) >= LEAST_CONFIDENCE:
            found.append(_tie(thread, other, "relates_to", _either(meaning, words), [*plain, *why]))
    sure = [tie for tie in found if tie.confidence >= LEAST_CONFIDENCE]
    return sorted(sure, key=lambda tie: (-tie.confidence, tie.target, tie.kind))[:MOST]


def similarities(thread: Known, others: Iterable[Known], space: EmbeddingSpace) -> dict[str, float]:
    """The calibrated similarity with each of the others that has a vector."""
    if thread.vector is None:
        return {}
    there = [other for other in others if other.vector is not None]
    return {other.id: space.calibrated(float(np.dot(thread.vector, _vector(other)))) for other in there}


def files_of(texts: Iterable[str]) -> frozenset[str]:
    """The files that texts name, without their directories."""
    return frozenset(name.rpartition("/")[2] for text in texts for name in _FILE.findall(fold(text)))


class _Names:
    """What may be named in a thread's prompts: every run of some words, and the files."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.files = files_of(texts)
        self.runs = _runs(tokens(fold("\n".join(texts))))
        sentences = [one for text in texts for one in _SENTENCE.split(fold(text)) if one]
        self.telling: list[tuple[BridgeKind, frozenset[tuple[str, ...]], frozenset[str]]] = [
            (kind, _runs(tokens(one)), files_of([one])) for one in sentences for kind, cue in _CUES if cue.search(one)
        ]


def _words(
    thread: Known, other: Known, names: _Names, spread: Mapping[str, int], threads: int
) -> tuple[float, list[str]]:
    """How sure words make it, and why."""
    mine, theirs = ({*map(fold, one.topics)} for one in (thread, other))
    common, doubt = mine & theirs, 1.0
    for topic in common:
        doubt *= 1.0 - _COMMON_TOPIC * (1.0 - math.log(spread[topic]) / math.log(1 + threads))
    sure, why = 1.0 - doubt, [f"{len(common)} {'topic' if len(common) == 1 else 'topics'} in common"] if common else []
    named = _named(other, names.runs, names.files, spread)
    if named:
        why.append(f"it names the other's {named}")
        sure = max(sure, _NAMED[named])  # what it names is among the topics it has, so this is no further witness
    return sure, why


def _typed(
    thread: Known,
    other: Known,
    names: _Names,
    spread: Mapping[str, int],
    meaning: float,
    replaced: Iterable[Replaced],
    plain: list[str],
) -> list[Tie]:
    """The ties that have a name of their own."""
    found = dict[BridgeKind, Tie]()
    if thread.parent == other.id:
        found["child_of"] = _tie(thread, other, "child_of", 1.0, ["it was split off from the other"])
    if other.parent == thread.id:
        found["child_of"] = _tie(other, thread, "child_of", 1.0, ["it was split off from the other"])
    for one in replaced:
        if one.thread_id == other.id:
            kind, why = _kind_of(one)
            found.setdefault(kind, _tie(thread, other, kind, _LEARNED, [why]))
    for kind, runs, files in names.telling:
        named = _named(other, runs, files, spread)
        if named and kind not in found:
            why = [f"a sentence that names the other's {named} says so", *plain]
            found[kind] = _tie(thread, other, kind, _either(meaning, _NAMED_AND_TOLD[named]), why)
    return list(found.values())


def _kind_of(one: Replaced) -> tuple[BridgeKind, str]:
    """A newer version that keeps all that the former said refines it."""
    if one.conflict:
        return "contradicts", "something said in it is in conflict with something learned in the other"
    if set(content(one.former)) <= set(content(one.text)):
        return "refines", "a memory of it is the newer version of one of the other, and says more"
    return "contradicts", "a memory of it took the place of one of the other"


def _named(
    other: Known, runs: Collection[tuple[str, ...]], files: frozenset[str], spread: Mapping[str, int]
) -> str | None:
    """What of a thread is named: its title, a file, a rare topic, or nothing."""
    title = tuple(tokens(fold(other.title)))
    if 2 <= len(title) <= _LONGEST_NAME and title in runs:
        return "title"
    if files & files_of([other.title, *other.said]):
        return "file"
    for topic in map(fold, other.topics):
        if spread[topic] <= _RARE and tuple(tokens(topic)) in runs:
            return "topic"
    return None


def beyond_the_usual(alike: Mapping[str, float]) -> dict[str, float]:
    """Similarities on the scale that begins at what any two threads of the project have in common.

    That is the median over the others, and of few others rather what threads without anything in common have.
    """
    if not alike:
        return {}
    number, median = len(alike), float(np.median(list(alike.values())))
    usual = min((number * median + _AS_MANY_OTHERS * _USUAL) / (number + _AS_MANY_OTHERS), 0.9)
    return {id_: max(0.0, (one - usual) / (1 - usual)) for id_, one in alike.items()}


def _either(first: float, second: float) -> float:
    """How sure two witnesses make it who err apart from each other."""
    return 1.0 - (1.0 - first) * (1.0 - second)


def _tie(source: Known, target: Known, kind: BridgeKind, confidence: float, reasons: Sequence[str]) -> Tie:
    return Tie(
        source=source.id,
        target=target.id,
        kind=kind,
        confidence=min(1.0, math.floor(confidence * 1e4) / 1e4),
        reason="; ".join(reasons),
    )


def _vector(known: Known) -> Vector:
    assert known.vector is not None
    return known.vector


def _runs(words: Sequence[str]) -> frozenset[tuple[str, ...]]:
    return frozenset(
        tuple(words[first : first + length])
        for first in range(len(words))
        for length in range(1, _LONGEST_NAME + 1)
        if first + length <= len(words)
    )
