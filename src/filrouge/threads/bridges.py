"""Bridges between threads: how they are detected, how they decay, and how the graph is drawn.

- Detection: `ties_of` scores candidate bridges from embeddings, topics and names; `propagate` adds candidates between
  neighbours of a common neighbour.
- Lifecycle: `settled` merges candidates into the stored bridges, `strength_at` applies the decay, `redirected` handles
  a thread merge. Bridges made by the user neither decay nor are evicted. A bridge that the user removed is not made
  again.
- Drawing: `to_dot` returns Graphviz text, `layout` returns pixel positions, `to_svg` returns a standalone SVG.

Reading and writing the rows is the job of `threads.bridge_service`.

Pure: no database, no file.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import NDArray

from filrouge.core import lazy_re as re
from filrouge.core.clock import to_text
from filrouge.core.protocols import Vector
from filrouge.core.text import is_control
from filrouge.extraction.vocabulary import content, fold, tokens
from filrouge.providers.models import EmbeddingSpace
from filrouge.threads.models import BRIDGE_KINDS, Bridge, BridgeBy, BridgeKind, ThreadState

# Lifecycle of bridges.

#: Minimum confidence for a new bridge.
LEAST_CONFIDENCE: Final = 0.5
#: A bridge with less strength has expired.
LEAST_STRENGTH: Final = 0.05
HALF_LIFE_DAYS: Final = 1.0
#: Maximum number of live bridges per thread, incoming and outgoing together.
MAX_BRIDGES: Final = 10
#: Number of active days after which even a bridge with confidence 1 has expired; older days need not be loaded.
ACTIVE_DAYS_KEPT: Final = 5

Key = tuple[str, str, BridgeKind]
"""The two threads, the lower id first, and the kind: of such there is one bridge."""
Strength = Callable[[Bridge], float]


@dataclass(frozen=True, kw_only=True, slots=True)
class BridgeCandidate:
    """A candidate bridge, before it is stored.

    Attributes:
        confidence: how strong the evidence is, in [0.5, 1]. It ranks candidates and is not a probability.
        reason: a plain explanation that quotes no text.
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
    """What to write: new or confirmed bridges, and the ids of bridges to delete."""

    kept: tuple[Bridge, ...] = ()
    gone: tuple[str, ...] = ()


def key_of(tie: BridgeCandidate | Bridge) -> Key:
    """Return the key that identifies a bridge regardless of its direction."""
    return min(tie.source, tie.target), max(tie.source, tie.target), tie.kind


def other_end(bridge: Bridge, thread_id: str) -> str:
    """Return the thread at the other end of the bridge."""
    return bridge.target if bridge.source == thread_id else bridge.source


def strength_at(bridge: Bridge, active_days: Collection[str]) -> float:
    """Return the current strength of a bridge.

    The strength is the confidence, halved for each later day on which the project was active. Days without work do not
    count; a bridge that is not confirmed again expires within a working week.

    Args:
        active_days: the most recent days (`2026-05-01`, in UTC) on which the project was active; at least the last
            `ACTIVE_DAYS_KEPT`.
    """
    if bridge.made_by == "user":
        return bridge.confidence
    made = to_text(bridge.reinforced_at)[:10]
    passed = sum(day > made for day in active_days)
    return bridge.confidence * 0.5 ** (passed / HALF_LIFE_DAYS)


def split_expired(bridges: Iterable[Bridge], strength: Strength) -> tuple[list[Bridge], list[str]]:
    """Split bridges into the live ones and the ids of the expired ones."""
    there, gone = list[Bridge](), list[str]()
    for bridge in bridges:
        if strength(bridge) < LEAST_STRENGTH:
            gone.append(bridge.id)
        else:
            there.append(bridge)
    return there, gone


def settled(
    bridges: Sequence[Bridge],
    ties: Iterable[BridgeCandidate],
    *,
    strength: Strength,
    at: datetime,
    refused: Collection[Key] = (),
    new_id: Callable[[datetime], str],
) -> Changes:
    """Merge candidate bridges into the stored ones, highest confidence first.

    A candidate that matches a stored bridge confirms it: the bridge is dated `at` and takes the candidate's confidence,
    unless equally direct evidence would lower its current strength. A bridge made by the user changes only through the
    user. Otherwise a new bridge is made if both threads have room for it, or have a weaker bridge that may be removed.

    Args:
        bridges: all bridges of the threads concerned, including expired ones, which are deleted.
        refused: keys of the bridges that the user removed.
    """
    there, faded = split_expired(bridges, strength)
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
            continue  # The evidence is too old.
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
    """Update the bridges of two threads when one is merged into the other.

    Bridges of the merged thread move to the other thread. Of two bridges with the same key, the stronger is kept; a
    bridge made by the user always wins. A bridge between the two threads is deleted. Above the limit per thread, the
    weakest are deleted.

    Args:
        bridges: all bridges of both threads.
        refused: keys of the bridges between another thread and either of the two that the user removed, as they read
            after the merge.
    """
    there, faded = split_expired(bridges, strength)
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
    for old in mine[MAX_BRIDGES:]:
        if old.made_by != "user":
            moved.pop(old.id, None)
            gone[old.id] = None
    return Changes(kept=tuple(moved.values()), gone=tuple(gone))


def with_end(bridge: Bridge, merged: str, into: str) -> Bridge:
    """Return the bridge with its end at `merged` moved to `into`."""
    source, target = (into if end == merged else end for end in (bridge.source, bridge.target))
    return replace(bridge, source=source, target=target)


def _confirmed(known: Bridge, tie: BridgeCandidate, at: datetime) -> Bridge:
    """Apply new evidence to a bridge; evidence that is more indirect or older changes nothing."""
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


def _to_make_room(
    there: Iterable[Bridge], tie: BridgeCandidate, weight: float, weights: dict[str, float]
) -> list[Bridge] | None:
    """Return the bridges to remove so that both threads have room; None if the candidate is to be rejected."""
    left, leaving = list(there), list[Bridge]()
    for end in (tie.source, tie.target):
        mine = [one for one in left if end in (one.source, one.target)]
        if len(mine) < MAX_BRIDGES:
            continue
        might = [one for one in mine if one.made_by != "user"]
        weakest = min(might, key=lambda one: (weights[one.id], one.id), default=None)
        if weakest is None or (tie.made_by != "user" and weights[weakest.id] >= weight):
            return None
        leaving.append(weakest)
        left.remove(weakest)
    return leaving


def _made(tie: BridgeCandidate, at: datetime, new_id: Callable[[datetime], str]) -> Bridge:
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


# Propagation to the neighbours of neighbours.

#: Maximum number of propagation steps.
MAX_DEPTH: Final = 2
#: Factor applied to the confidence at each step.
STEP_DECAY: Final = 0.9
#: Minimum similarity, above the project's baseline, to link two threads with a common neighbour.
LEAST_SIMILARITY: Final = 0.35


def propagate(
    thread_id: str, bridges: Sequence[Bridge], *, strength: Strength, similarity: Callable[[str], float | None]
) -> list[BridgeCandidate]:
    """Return the propagated candidates of a thread: the best path to each neighbour of a neighbour that passes.

    Two threads that both have a bridge to a third are linked if they are similar enough; the similarity required is
    lower than for a direct bridge. The confidence of such a bridge is below that of both bridges it came through. A
    direct bridge has depth 0 and propagates to depth 1, then 2, and no further. So propagation cannot feed itself:
    every propagated bridge depends on direct ones and expires with them. With at most ten bridges per thread, there are
    at most ninety neighbours of neighbours.

    Args:
        bridges: live bridges of the thread and of its neighbours.
        similarity: similarity to another thread, above the project's baseline; None if either thread has no vector.
    """
    at = defaultdict[str, list[Bridge]](list)
    for bridge in bridges:
        at[bridge.source].append(bridge)
        at[bridge.target].append(bridge)
    seen = {thread_id, *(other_end(one, thread_id) for one in at[thread_id] if one.depth == 0)}
    found = dict[str, BridgeCandidate]()
    for first in at[thread_id]:
        between = other_end(first, thread_id)
        for second in at[between]:
            far, depth = other_end(second, between), max(first.depth, second.depth) + 1
            confidence = STEP_DECAY * strength(first) * strength(second)
            if far in seen or depth > MAX_DEPTH or confidence < LEAST_CONFIDENCE:
                continue
            if far in found and found[far].confidence >= confidence:
                continue
            alike = similarity(far)
            if alike is None or alike < LEAST_SIMILARITY:
                continue
            found[far] = BridgeCandidate(
                source=thread_id,
                target=far,
                kind="relates_to",
                confidence=confidence,
                reason="both are linked to a third thread, and they are similar",
                made_by="gossip",
                depth=depth,
            )
    return list(found.values())


# Detection of bridges.

#: Similarity above the project's baseline, and the confidence it gives (interpolated).
_SIMILARITY: Final = (0.3, 0.5, 0.7, 0.9)
_MEANING: Final = (0.0, 0.5, 0.8, 0.95)
#: Prior for the baseline: calibrated similarity of unrelated threads (the mean of many prompts resembles any other such
#: mean). It has the weight of this many other threads.
_USUAL, _AS_MANY_OTHERS = 0.3, 8
#: Confidence from a common topic that no third thread has; it falls as more threads have the topic.
_COMMON_TOPIC: Final = 0.45
#: Confidence that a mention refers to the thread, by what is mentioned: its title, one of its files, a rare topic.
_NAMED: Final = {"title": 0.85, "file": 0.5, "topic": 0.3}
#: The same when the sentence also states the relation.
_NAMED_AND_TOLD: Final = {"title": 0.9, "file": 0.6, "topic": 0.45}
#: A topic is rare if at most this many threads have it, including the thread itself.
_RARE: Final = 2
#: Confidence when a memory of one thread replaces, or conflicts with, a memory of the other.
_LEARNED: Final = 0.9
#: Maximum length in words of a name to search for.
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
class DetectionInput:
    """A thread as input to bridge detection.

    Attributes:
        vector: a unit vector in the current embedding space, or None.
        said: its newest prompts; for the threads it is compared with, enough of them to find their files.
    """

    id: str
    title: str
    topics: tuple[str, ...] = ()
    parent: str | None = None
    vector: Vector | None = None
    said: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Replaced:
    """A memory of the thread replaces, or conflicts with, a memory learned in another thread.

    Attributes:
        conflict: True while nobody has settled which of the two holds.
    """

    thread_id: str
    text: str
    former: str
    conflict: bool = False


def ties_of(
    thread: DetectionInput, others: Sequence[DetectionInput], space: EmbeddingSpace, replaced: Iterable[Replaced] = ()
) -> list[BridgeCandidate]:
    """Return at most ten candidate bridges, highest confidence first, each with a confidence of at least 0.5.

    Embeddings and words are scored separately. The embedding score is the calibrated similarity of the thread vectors,
    less the baseline similarity of any two threads of the project. The word score counts common topics (rarer topics
    count more) and mentions of the other thread in the prompts: its title, a rare topic, a file. The two scores are
    treated as independent and combined by noisy-or. The constants are set by hand; the result ranks candidates and is
    not a probability.

    The vectors are not whitened (ADR 14): the baseline is subtracted already, and whitening does not separate related
    pairs any better (bench/bridges.py).

    The kind of a bridge comes from more explicit evidence: one thread was forked from the other, a memory of one
    replaced a memory of the other, or the sentence that mentions the other states the relation. Otherwise the kind is
    `relates_to`.

    Args:
        others: all other threads of the same user and project.
    """
    alike = similarities(thread, others, space)
    beyond = above_baseline(alike)
    spread = Counter(topic for one in (thread, *others) for topic in set(map(fold, one.topics)))
    names = _Names(thread.said)
    found = list[BridgeCandidate]()
    for other in others:
        meaning = float(np.interp(beyond.get(other.id, 0.0), _SIMILARITY, _MEANING))
        words, why = _words(thread, other, names, spread, len(others) + 1)
        plain = [f"they are alike in meaning ({alike[other.id]:.2f})"] if meaning > 0 else []
        typed = _typed(thread, other, names, spread, meaning, replaced, plain)
        found.extend(typed)
        if not typed and _noisy_or(meaning, words) >= LEAST_CONFIDENCE:
            found.append(_tie(thread, other, "relates_to", _noisy_or(meaning, words), [*plain, *why]))
    sure = [tie for tie in found if tie.confidence >= LEAST_CONFIDENCE]
    return sorted(sure, key=lambda tie: (-tie.confidence, tie.target, tie.kind))[:MAX_BRIDGES]


def similarities(thread: DetectionInput, others: Iterable[DetectionInput], space: EmbeddingSpace) -> dict[str, float]:
    """Return the calibrated similarity to each of the other threads that has a vector."""
    if thread.vector is None:
        return {}
    there = [other for other in others if other.vector is not None]
    return {other.id: space.calibrated(float(np.dot(thread.vector, _vector(other)))) for other in there}


def files_of(texts: Iterable[str]) -> frozenset[str]:
    """Return the file names mentioned in texts, without directories."""
    return frozenset(name.rpartition("/")[2] for text in texts for name in _FILE.findall(fold(text)))


class _Names:
    """Names that may be mentioned in a thread's prompts: all short word n-grams, and the files."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.files = files_of(texts)
        self.runs = _runs(tokens(fold("\n".join(texts))))
        sentences = [one for text in texts for one in _SENTENCE.split(fold(text)) if one]
        self.telling: list[tuple[BridgeKind, frozenset[tuple[str, ...]], frozenset[str]]] = [
            (kind, _runs(tokens(one)), files_of([one])) for one in sentences for kind, cue in _CUES if cue.search(one)
        ]


def _words(
    thread: DetectionInput, other: DetectionInput, names: _Names, spread: Mapping[str, int], threads: int
) -> tuple[float, list[str]]:
    """Return the confidence from words, and the reasons for it."""
    mine, theirs = ({*map(fold, one.topics)} for one in (thread, other))
    common, doubt = mine & theirs, 1.0
    for topic in common:
        doubt *= 1.0 - _COMMON_TOPIC * (1.0 - math.log(spread[topic]) / math.log(1 + threads))
    sure, why = 1.0 - doubt, [f"{len(common)} {'topic' if len(common) == 1 else 'topics'} in common"] if common else []
    named = _named(other, names.runs, names.files, spread)
    if named:
        why.append(f"it names the other's {named}")
        sure = max(sure, _NAMED[named])  # also counted as a common topic, so not independent
    return sure, why


def _typed(
    thread: DetectionInput,
    other: DetectionInput,
    names: _Names,
    spread: Mapping[str, int],
    meaning: float,
    replaced: Iterable[Replaced],
    plain: list[str],
) -> list[BridgeCandidate]:
    """Return the candidates whose kind is given by explicit evidence."""
    found = dict[BridgeKind, BridgeCandidate]()
    if thread.parent == other.id:
        found["child_of"] = _tie(thread, other, "child_of", 1.0, ["split off from the other thread"])
    if other.parent == thread.id:
        found["child_of"] = _tie(other, thread, "child_of", 1.0, ["split off from the other thread"])
    for one in replaced:
        if one.thread_id == other.id:
            kind, why = _kind_of(one)
            found.setdefault(kind, _tie(thread, other, kind, _LEARNED, [why]))
    for kind, runs, files in names.telling:
        named = _named(other, runs, files, spread)
        if named and kind not in found:
            why = [f"a sentence that names the other's {named} says so", *plain]
            found[kind] = _tie(thread, other, kind, _noisy_or(meaning, _NAMED_AND_TOLD[named]), why)
    return list(found.values())


def _kind_of(one: Replaced) -> tuple[BridgeKind, str]:
    """Return the kind for a replaced memory; a new version that keeps all content words refines the old one."""
    if one.conflict:
        return "contradicts", "one of its statements conflicts with a memory of the other thread"
    if set(content(one.former)) <= set(content(one.text)):
        return "refines", "one of its memories is a newer, more detailed version of a memory of the other thread"
    return "contradicts", "one of its memories replaced a memory of the other thread"


def _named(
    other: DetectionInput, runs: Collection[tuple[str, ...]], files: frozenset[str], spread: Mapping[str, int]
) -> str | None:
    """Return what the text mentions of a thread: "title", "file", "topic" (a rare one), or None."""
    title = tuple(tokens(fold(other.title)))
    if 2 <= len(title) <= _LONGEST_NAME and title in runs:
        return "title"
    if files & files_of([other.title, *other.said]):
        return "file"
    for topic in map(fold, other.topics):
        if spread[topic] <= _RARE and tuple(tokens(topic)) in runs:
            return "topic"
    return None


def above_baseline(alike: Mapping[str, float]) -> dict[str, float]:
    """Rescale similarities so that 0 is the baseline of the project.

    The baseline is the median similarity to the other threads, shrunk towards a fixed prior when there are few of them.
    """
    if not alike:
        return {}
    number, median = len(alike), float(np.median(list(alike.values())))
    usual = min((number * median + _AS_MANY_OTHERS * _USUAL) / (number + _AS_MANY_OTHERS), 0.9)
    return {id_: max(0.0, (one - usual) / (1 - usual)) for id_, one in alike.items()}


def _noisy_or(first: float, second: float) -> float:
    """Combine two independent confidences (noisy-or)."""
    return 1.0 - (1.0 - first) * (1.0 - second)


def _tie(
    source: DetectionInput, target: DetectionInput, kind: BridgeKind, confidence: float, reasons: Sequence[str]
) -> BridgeCandidate:
    return BridgeCandidate(
        source=source.id,
        target=target.id,
        kind=kind,
        confidence=min(1.0, math.floor(confidence * 1e4) / 1e4),
        reason="; ".join(reasons),
    )


def _vector(known: DetectionInput) -> Vector:
    assert known.vector is not None
    return known.vector


def _runs(words: Sequence[str]) -> frozenset[tuple[str, ...]]:
    return frozenset(
        tuple(words[first : first + length])
        for first in range(len(words))
        for length in range(1, _LONGEST_NAME + 1)
        if first + length <= len(words)
    )


# Layout.

Floats = NDArray[np.float64]

#: Maximum width of a label line, in columns; a wide (CJK) character takes two.
COLUMNS: Final = 22
LINES: Final = 2
#: Width of a column, height of a line, height above a label (for the dot), and padding, in pixels.
COLUMN, LINE, ABOVE, AROUND = 6.6, 14.0, 22.0, 14.0
_SPRING: Final = 120.0
#: Distance in pixels within which nodes repel each other, and the strength of the pull towards the centre.
_REACH, _HOME = 3 * _SPRING, 0.6
_ROUNDS, _APART_ROUNDS = 500, 1200
_SEED: Final = 7
#: Labels are wide and low, so nodes are spread further apart horizontally.
_STRETCH: Final = 1.35
#: Approximate number of nodes per row for the nodes without edges.
_PER_ROW: Final = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """A thread in the graph."""

    id: str
    title: str
    state: ThreadState


@dataclass(frozen=True, kw_only=True, slots=True)
class Edge:
    """A bridge in the graph; `strength` is its current strength, in [0, 1]."""

    source: str
    target: str
    kind: BridgeKind
    strength: float
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Graph:
    """Threads and the bridges between them. Edges to a thread that is not in the graph are dropped.

    Attributes:
        name: name of the project; empty if the graph spans several projects.
    """

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    name: str = ""

    def __post_init__(self) -> None:
        known = {one.id for one in self.nodes}
        kept = tuple(one for one in self.edges if {one.source, one.target} <= known)
        object.__setattr__(self, "edges", kept)


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """Positions of the nodes in pixels from the top left, the lines of their labels, and the size of the page."""

    places: Mapping[str, tuple[float, float]]
    labels: Mapping[str, tuple[str, ...]]
    width: float
    height: float


def graph_of(body: Mapping[str, Any]) -> Graph:
    """Build the graph from the body of `GET /api/memory/graph`."""
    return Graph(
        nodes=tuple(Node(id=one["id"], title=one["title"], state=one["state"]) for one in body["threads"]),
        edges=tuple(
            Edge(
                source=one["source"],
                target=one["target"],
                kind=one["type"],
                strength=one["strength"],
                reason=one["reason"],
            )
            for one in body["bridges"]
        ),
        name=body["project_name"],
    )


def to_dot(graph: Graph) -> str:
    """Return the graph in the DOT language of Graphviz."""
    lines = ["digraph threads {", "  node [shape=box, style=rounded];"]
    styles = {"active": "rounded", "suspended": "rounded,dashed", "archived": "rounded,dotted"}
    for node in graph.nodes:
        lines.append(f"  {_quoted(node.id)} [label={_quoted(node.title)}, style={_quoted(styles[node.state])}];")
    for edge in graph.edges:
        how = f"label={_quoted(edge.kind)}, weight={1 + round(9 * edge.strength)}, tooltip={_quoted(edge.reason)}"
        arrow = "" if is_directed(edge.kind) else ", dir=none"
        lines.append(f"  {_quoted(edge.source)} -> {_quoted(edge.target)} [{how}{arrow}];")
    return "\n".join([*lines, "}", ""])


def is_directed(kind: BridgeKind) -> bool:
    """Return False for symmetric kinds."""
    return kind not in ("relates_to", "contradicts")


def layout(graph: Graph, *, top: float = 0.0, margin: float = 20.0) -> Layout:
    """Compute positions for a graph; nodes without edges are placed in rows below the others.

    The layout is force-directed; then label boxes are moved apart until none overlap. It is deterministic: the same
    graph always gets the same positions.

    Args:
        top: pixels to leave free at the top.
    """
    labels = {node.id: label_lines(node.title) for node in graph.nodes}
    tied = {end for edge in graph.edges for end in (edge.source, edge.target)}
    ids = sorted(node.id for node in graph.nodes if node.id in tied)
    sizes = {id_: box_of(lines) for id_, lines in labels.items()}
    places, width, height = dict[str, tuple[float, float]](), 0.0, 0.0
    if ids:
        boxes = np.array([sizes[id_] for id_ in ids])
        spots = _apart(_forced(ids, graph.edges), boxes)
        spots -= (spots - boxes / 2).min(axis=0)
        places = {id_: (float(x), float(y)) for id_, (x, y) in zip(ids, spots, strict=True)}
        width, height = (float(one) for one in (spots + boxes / 2).max(axis=0))
    loose = sorted((node.title, node.id) for node in graph.nodes if node.id not in tied)
    width = max(width, _row_width([sizes[id_] for _, id_ in loose]))
    x, y, row = 0.0, height, 0.0
    for _, id_ in loose:
        wide, high = sizes[id_]
        if x and x + wide > width:
            x, y, row = 0.0, y + row, 0.0
        places[id_] = (x + wide / 2, y + high / 2)
        x, row = x + wide, max(row, high)
    height = y + row
    # The position is the centre of the box; the dot is in its upper part.
    moved = {id_: (px + margin, py - sizes[id_][1] / 2 + ABOVE / 2 + margin + top) for id_, (px, py) in places.items()}
    return Layout(places=moved, labels=labels, width=width + 2 * margin, height=height + 2 * margin + top)


def box_of(lines: Sequence[str]) -> tuple[float, float]:
    """Return the size of a dot with its label, in pixels: width and height."""
    return max(map(columns_of, lines), default=0) * COLUMN + AROUND, ABOVE + LINE * len(lines) + AROUND / 2


def label_lines(title: str) -> tuple[str, ...]:
    """Break a title into at most two lines; an ellipsis marks text that was cut."""
    lines, rest = list[str](), " ".join(plain(title).split())
    while rest and len(lines) < LINES:
        head = _head(rest, COLUMNS)
        if head != rest and " " in head and rest[len(head)] != " ":
            head = head.rpartition(" ")[0]
        rest = rest[len(head) :].strip()
        lines.append(head.strip())
    if rest:
        lines[-1] = _head(lines[-1], COLUMNS - 1).rstrip() + "…"
    return tuple(lines) or ("(no title)",)


def plain(text: str) -> str:
    """Remove control, private-use, unassigned and bidirectional characters; newlines and tabs become spaces."""
    return "".join(
        " " if char in "\t\n\r" else char
        for char in text
        if char in "\t\n\r" or (unicodedata.category(char) not in ("Cc", "Cs", "Co", "Cn") and not is_control(char))
    )


def columns_of(text: str) -> int:
    """Return how many columns a text takes."""
    return sum(_wide(char) for char in text)


def _wide(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) == "Cf":
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _head(text: str, columns: int) -> str:
    """Return the longest prefix of a text that fits into `columns`; at least one character."""
    taken = 0
    for place, char in enumerate(text):
        taken += _wide(char)
        if taken > columns:
            return text[: max(place, 1)]
    return text


def _quoted(text: str) -> str:
    escaped = plain(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _row_width(sizes: Sequence[tuple[float, float]]) -> float:
    """Return the width of a page on which boxes of these sizes are arranged in rows."""
    if not sizes:
        return 0.0
    per_row = min(len(sizes), _PER_ROW)
    return max(max(wide for wide, _ in sizes), per_row * sum(wide for wide, _ in sizes) / len(sizes))


def _forced(ids: Sequence[str], edges: Sequence[Edge]) -> Floats:
    """Place nodes by a force simulation: edges attract by their strength, and all nodes repel each other."""
    number, index = len(ids), {id_: place for place, id_ in enumerate(ids)}
    pull = np.zeros((number, number))
    for edge in edges:
        first, second = index[edge.source], index[edge.target]
        pull[first, second] = pull[second, first] = max(pull[first, second], 0.5 + 0.5 * edge.strength)
    turn = np.linspace(0.0, 2 * np.pi, number, endpoint=False)
    spots = _SPRING * np.sqrt(number) / 2 * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    spots += np.random.default_rng(_SEED).normal(0.0, _SPRING / 20, (number, 2))
    for step in range(_ROUNDS):
        between = spots[:, None] - spots[None]
        far = np.maximum(np.linalg.norm(between, axis=2), 1.0)
        push = np.where(far < _REACH, _SPRING**2 / far**2, 0.0)
        force = (between * (push - pull * far / _SPRING)[:, :, None]).sum(axis=1) - _HOME * spots
        length = np.maximum(np.linalg.norm(force, axis=1, keepdims=True), 1e-9)
        spots += force / length * np.minimum(length, _SPRING * (1.0 - step / _ROUNDS) / 2)
    spots[:, 0] *= _STRETCH
    return spots


def _apart(spots: Floats, boxes: Floats) -> Floats:
    """Move boxes apart until none overlap; each pair moves along the axis with the smaller overlap."""
    spots, needed = spots.copy(), (boxes[:, None] + boxes[None]) / 2
    number = len(spots)
    order = np.arange(number)
    for _ in range(_APART_ROUNDS):
        between = spots[:, None] - spots[None]
        lacking = needed - np.abs(between)
        both = (lacking[:, :, 0] > 0.01) & (lacking[:, :, 1] > 0.01)
        np.fill_diagonal(both, val=False)
        if not both.any():
            break
        side = np.where(between != 0, np.sign(between), np.sign(order[:, None] - order[None])[:, :, None])
        across = lacking[:, :, 0] < lacking[:, :, 1]
        move = np.zeros_like(between)
        move[:, :, 0] = np.where(both & across, lacking[:, :, 0], 0.0)
        move[:, :, 1] = np.where(both & ~across, lacking[:, :, 1], 0.0)
        step = (move * side).sum(axis=1) / np.maximum(both.sum(axis=1), 1)[:, None]
        spots += 0.55 * step
    return spots


# SVG.

#: Colour on a light background, colour on a dark background, dash pattern.
_KINDS: Final[dict[BridgeKind, tuple[str, str, str]]] = {
    "extends": ("#2b7a4b", "#6fc493", ""),
    "depends_on": ("#a85f00", "#e5a04b", ""),
    "contradicts": ("#c22f27", "#ff7a70", "7 3"),
    "supports": ("#1f7a88", "#62bfcd", "1 3"),
    "refines": ("#6654b8", "#a99bf0", "10 3 2 3"),
    "relates_to": ("#8593a3", "#7f8b99", ""),
    "child_of": ("#4b5866", "#b4bfca", "3 3"),
}
_KIND_NAMED: Final[dict[str, BridgeKind]] = {kind: kind for kind in BRIDGE_KINDS}
_STATES: Final[tuple[ThreadState, ...]] = ("active", "suspended", "archived")
_RADIUS: Final = 6.0
_TOP, _LEGEND_LINE = 54.0, 20.0
_LEAST_WIDTH: Final = 420.0


def to_svg(graph: Graph) -> str:
    """Return the graph as a standalone SVG document.

    The document works on light and dark backgrounds and is accessible. Every colour is backed by a dash pattern or a
    shape. Titles are user text: they are escaped, cut to two lines, and shown in full in the tooltip. The file loads
    nothing and runs no script.
    """
    heading = f"Threads of {graph.name}" if graph.name else "Threads"
    kinds: list[BridgeKind] = [kind for kind in BRIDGE_KINDS if any(edge.kind == kind for edge in graph.edges)]
    states = [state for state in _STATES if any(node.state == state for node in graph.nodes)]
    keys: list[tuple[str, str]] = [*(("state", one) for one in states), *(("kind", one) for one in kinds)]
    inner = layout(graph)
    width = max(inner.width, _LEAST_WIDTH)
    rows = _legend_rows(keys, width)
    top = _TOP + _LEGEND_LINE * len(rows)
    shift = (width - inner.width) / 2
    height = inner.height + top
    told = f"{len(graph.nodes)} threads and {len(graph.edges)} bridges between them"
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="name told">',
        f'<title id="name">{_text(heading)}</title>',
        f'<desc id="told">{told}.</desc>',
        f"<style>{_style(kinds)}</style>",
        *(_arrow(kind) for kind in kinds if is_directed(kind)),
        '<rect class="ground" width="100%" height="100%"/>',
        f'<text class="heading" x="20" y="30">{_text(heading)}</text>',
        f'<text class="told" x="20" y="48">{told}</text>',
        *_legend(rows),
        f'<g transform="translate({shift:.1f} {top:.1f})">',
        *_edges(graph, inner),
        *_nodes(graph, inner),
        "</g>",
        "</svg>",
        "",
    ]
    return "\n".join(parts)


def _style(kinds: list[BridgeKind]) -> str:
    light = "".join(f".{kind}{{--c:{_KINDS[kind][0]}}}" for kind in kinds)
    dark = "".join(f".{kind}{{--c:{_KINDS[kind][1]}}}" for kind in kinds)
    return (
        "svg{--ground:#fff;--ink:#1d2329;--faint:#5c6873;--dot:#c9302c;font:12px system-ui,sans-serif}"
        ".ground{fill:var(--ground)}"
        "text{fill:var(--ink);paint-order:stroke;stroke:var(--ground);stroke-width:3.5px;stroke-linejoin:round}"
        ".heading{font-size:17px;font-weight:600}.told,.key{fill:var(--faint);font-size:12px}"
        ".label{text-anchor:middle}.archived text{fill:var(--faint)}"
        ".edge,.sample{fill:none;stroke:var(--c);stroke-width:1.6}.tip{fill:var(--c)}"
        ".dot{fill:var(--dot);stroke:var(--dot);stroke-width:2}"
        ".suspended .dot{fill:var(--ground)}.archived .dot{fill:var(--ground);stroke:var(--faint);stroke-dasharray:2 2}"
        f"{light}@media (prefers-color-scheme:dark){{"
        f"svg{{--ground:#14181c;--ink:#e8ecf0;--faint:#9aa6b2;--dot:#ff6b62}}{dark}}}"
    )


def _arrow(kind: BridgeKind) -> str:
    return (
        f'<marker id="to-{kind}" class="{kind}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"'
        ' markerUnits="userSpaceOnUse" orient="auto"><path class="tip" d="M0 0 8 4 0 8z"/></marker>'
    )


def _legend_rows(keys: list[tuple[str, str]], width: float) -> list[list[tuple[float, str, str]]]:
    """Arrange the legend keys in as many rows as they need, each key with its x position."""
    rows, x = list[list[tuple[float, str, str]]](), width
    for what, name in keys:
        wide = columns_of(name) * COLUMN + 52
        if not rows or x + wide > width - 20:
            rows.append([])
            x = 20.0
        rows[-1].append((x, what, name))
        x += wide
    return rows


def _legend(rows: list[list[tuple[float, str, str]]]) -> Iterator[str]:
    for number, row in enumerate(rows):
        y = _TOP + _LEGEND_LINE * number + 10
        for x, what, name in row:
            words = f'<text class="key" x="{x + 34:.1f}" y="{y + 4:.1f}">{name.replace("_", " ")}</text>'
            if what == "state":
                mark = f'<circle class="dot" cx="{x + 20:.1f}" cy="{y:.1f}" r="{_RADIUS:.0f}"/>'
            else:
                kind = _KIND_NAMED[name]
                mark = f'<path class="sample" d="M{x:.1f} {y:.1f}h28"{_dashes(kind)}{_tip(kind)}/>'
            yield f'<g class="{name}">{mark}{words}</g>'


def _edges(graph: Graph, inner: Layout) -> Iterator[str]:
    """Yield one line per bridge, from dot to dot; several bridges between the same two threads are curved apart."""
    drawn = Counter[tuple[str, str]]()
    titles = {node.id: node.title for node in graph.nodes}
    for edge in sorted(graph.edges, key=lambda one: (one.strength, one.source, one.target, one.kind)):
        pair = min(edge.source, edge.target), max(edge.source, edge.target)
        bend, drawn[pair] = drawn[pair], drawn[pair] + 1
        says = f"{titles[edge.source]} → {titles[edge.target]}: {edge.kind.replace('_', ' ')} ({edge.strength:.2f})"
        yield (
            f'<g class="{edge.kind}" opacity="{0.35 + 0.65 * min(max(edge.strength, 0.0), 1.0):.2f}">'
            f'<path class="edge" d="{_line(inner, edge, bend)}"{_dashes(edge.kind)}{_tip(edge.kind)}>'
            f"<title>{_text(says)}</title></path></g>"
        )


def _line(inner: Layout, edge: Edge, bend: int) -> str:
    (x0, y0), (x1, y1) = inner.places[edge.source], inner.places[edge.target]
    far = math.hypot(x1 - x0, y1 - y0) or 1.0
    ux, uy = (x1 - x0) / far, (y1 - y0) / far
    x0, y0, x1, y1 = x0 + ux * 10, y0 + uy * 10, x1 - ux * 11, y1 - uy * 11
    away = (bend + 1) // 2 * 26 * (1 if bend % 2 else -1) * (1 if edge.source < edge.target else -1)
    if not away:
        return f"M{x0:.1f} {y0:.1f}L{x1:.1f} {y1:.1f}"
    return f"M{x0:.1f} {y0:.1f}Q{(x0 + x1) / 2 - uy * away:.1f} {(y0 + y1) / 2 + ux * away:.1f} {x1:.1f} {y1:.1f}"


def _nodes(graph: Graph, inner: Layout) -> Iterator[str]:
    for node in graph.nodes:
        x, y = inner.places[node.id]
        lines = "".join(
            f'<text class="label" x="{x:.1f}" y="{y + 22 + LINE * number:.1f}">{_text(line)}</text>'
            for number, line in enumerate(inner.labels[node.id])
        )
        says = f"<title>{_text(node.title)} ({node.state})</title>"
        dot = f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS:.0f}"/>'
        yield f'<g class="{node.state}">{says}{dot}{lines}</g>'


def _dashes(kind: BridgeKind) -> str:
    return f' stroke-dasharray="{_KINDS[kind][2]}"' if _KINDS[kind][2] else ""


def _tip(kind: BridgeKind) -> str:
    return f' marker-end="url(#to-{kind})"' if is_directed(kind) else ""


def _text(text: str) -> str:
    """Escape text for use inside an element."""
    return escape(plain(text), {'"': "&quot;"})
