"""Signs that two threads belong together, and how sure they make it.

Meaning and words are two witnesses. Meaning is the calibrated similarity of the threads' vectors, less what any two
threads of the project have in common anyway; words are topics that both have, counting the more the fewer threads have
them, and what the one's prompts name of the other: its title, a rare topic, a file. Each alone says how sure it makes
it that the two belong together; they err apart from each other, so together they are wrong only where both are. The
values are set by hand: what they come to orders ties, and is no probability.

Similarity is not taken above the ground (ADR 14): what is usual in the project is off already, and pairs that belong
together are told apart no better (bench/bridges.py).

What a tie is called follows from plainer signs: a thread was forked from the other, a memory of it took the place of
one that was learned in the other, or the sentence that names the other says what it has to do with it. Without any of
these, two threads relate.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from filrouge import lazy_re as re
from filrouge.extraction.vocabulary import content, fold, tokens
from filrouge.model.bridge import BridgeKind
from filrouge.model.space import EmbeddingSpace
from filrouge.ports import Vector
from filrouge.threads.bridges import LEAST_CONFIDENCE, MOST, Tie

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
