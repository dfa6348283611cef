"""Bridges between threads: how they are detected, how they decay, and how the graph is drawn.

- Detection: `find_candidates` scores candidate bridges from embeddings, topics and names; `propagate` adds candidates
  between neighbours of a common neighbour.
- Lifecycle: `merge_candidates` merges candidates into the stored bridges, `strength_at` applies the decay,
  `redirect_bridges` handles a thread merge. Bridges made by the user neither decay nor are evicted. A bridge that the
  user removed is not made again.
- Drawing: `to_dot` returns Graphviz text, `layout` returns pixel positions, `to_svg` returns a standalone SVG.

Reading and writing the rows is the job of `threads.bridge_service`.

Pure: no database, no file.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from xml.sax.saxutils import escape

import numpy as np
from msgspec import Struct
from msgspec.structs import force_setattr, replace
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
MIN_CONFIDENCE: Final = 0.5
#: A bridge with less strength has expired.
MIN_STRENGTH: Final = 0.05
HALF_LIFE_DAYS: Final = 1.0
#: Maximum number of live bridges per thread, incoming and outgoing together.
MAX_BRIDGES: Final = 10
#: Number of active days after which even a bridge with confidence 1 has expired; older days need not be loaded.
MAX_ACTIVE_DAYS: Final = 5

BridgeKey = tuple[str, str, BridgeKind]
"""The two threads, the lower id first, and the kind; each key has at most one bridge."""
Strength = Callable[[Bridge], float]


class BridgeCandidate(Struct, frozen=True, kw_only=True):
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


class Changes(Struct, frozen=True, kw_only=True):
    """What to write.

    Attributes:
        stored: new or confirmed bridges.
        deleted: ids of bridges to delete.
    """

    stored: tuple[Bridge, ...] = ()
    deleted: tuple[str, ...] = ()


def key_of(bridge: BridgeCandidate | Bridge) -> BridgeKey:
    """Return the key that identifies a bridge regardless of its direction."""
    return min(bridge.source, bridge.target), max(bridge.source, bridge.target), bridge.kind


def other_end(bridge: Bridge, thread_id: str) -> str:
    """Return the thread at the other end of the bridge."""
    return bridge.target if bridge.source == thread_id else bridge.source


def strength_at(bridge: Bridge, active_days: Collection[str]) -> float:
    """Return the current strength of a bridge.

    The strength is the confidence, halved for each later day on which the project was active. Days without work do not
    count; a bridge that is not confirmed again expires within a working week.

    Args:
        active_days: the most recent days (`2026-05-01`, in UTC) on which the project was active; at least the last
            `MAX_ACTIVE_DAYS`.
    """
    if bridge.made_by == "user":
        return bridge.confidence
    confirmed = to_text(bridge.reinforced_at)[:10]
    days_since = sum(day > confirmed for day in active_days)
    return bridge.confidence * 0.5 ** (days_since / HALF_LIFE_DAYS)


def split_expired(bridges: Iterable[Bridge], strength: Strength) -> tuple[list[Bridge], list[str]]:
    """Split bridges into the live ones and the ids of the expired ones."""
    live, expired = list[Bridge](), list[str]()
    for bridge in bridges:
        if strength(bridge) < MIN_STRENGTH:
            expired.append(bridge.id)
        else:
            live.append(bridge)
    return live, expired


def merge_candidates(
    bridges: Sequence[Bridge],
    candidates: Iterable[BridgeCandidate],
    *,
    strength: Strength,
    at: datetime,
    refused: Collection[BridgeKey] = (),
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
    live, expired = split_expired(bridges, strength)
    by_key, strengths = {key_of(bridge): bridge for bridge in live}, {bridge.id: strength(bridge) for bridge in live}
    stored, deleted = dict[str, Bridge](), dict.fromkeys(expired)
    for candidate in sorted(
        candidates, key=lambda candidate: (-candidate.confidence, candidate.depth, key_of(candidate))
    ):
        key, existing = key_of(candidate), by_key.get(key_of(candidate))
        if candidate.source == candidate.target or candidate.confidence < MIN_CONFIDENCE or key in refused:
            continue
        merged = _confirm(existing, candidate, at) if existing else _new_bridge(candidate, at, new_id)
        new_strength = strength(merged)
        if existing:
            if merged == existing or (
                new_strength < strengths[existing.id]
                and candidate.made_by != "user"
                and candidate.depth == existing.depth
            ):
                continue
        elif new_strength < MIN_STRENGTH:
            continue  # The evidence is too old.
        else:
            evicted = _find_evictions(by_key.values(), candidate, new_strength, strengths)
            if evicted is None:
                continue
            for old in evicted:
                del by_key[key_of(old)]
                stored.pop(old.id, None)
                deleted[old.id] = None
        by_key[key], strengths[merged.id], stored[merged.id] = merged, new_strength, merged
    return Changes(stored=tuple(stored.values()), deleted=tuple(deleted))


def redirect_bridges(
    bridges: Iterable[Bridge], merged: str, into: str, *, strength: Strength, refused: Collection[BridgeKey] = ()
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
    live, expired = split_expired(bridges, strength)
    deleted, moved, by_key = dict.fromkeys(expired), dict[str, Bridge](), dict[BridgeKey, Bridge]()

    def rank(bridge: Bridge) -> tuple[bool, float, str]:
        return bridge.made_by == "user", strength(bridge), bridge.id

    for old in sorted(live, key=rank, reverse=True):
        redirected = move_end(old, merged, into)
        is_refused = key_of(redirected) in refused and redirected.made_by != "user"
        if redirected.source == redirected.target or key_of(redirected) in by_key or is_refused:
            deleted[old.id] = None
            continue
        by_key[key_of(redirected)] = redirected
        if redirected != old:
            moved[redirected.id] = redirected
    of_target = sorted(
        (bridge for bridge in by_key.values() if into in (bridge.source, bridge.target)), key=rank, reverse=True
    )
    for old in of_target[MAX_BRIDGES:]:
        if old.made_by != "user":
            moved.pop(old.id, None)
            deleted[old.id] = None
    return Changes(stored=tuple(moved.values()), deleted=tuple(deleted))


def move_end(bridge: Bridge, merged: str, into: str) -> Bridge:
    """Return the bridge with its end at `merged` moved to `into`."""
    source, target = (into if end == merged else end for end in (bridge.source, bridge.target))
    return replace(bridge, source=source, target=target)


def _confirm(bridge: Bridge, candidate: BridgeCandidate, at: datetime) -> Bridge:
    """Apply new evidence to a bridge; evidence that is more indirect or older changes nothing."""
    if candidate.made_by == "user":
        return replace(
            bridge, confidence=candidate.confidence, made_by="user", reason=candidate.reason or bridge.reason, depth=0,
            source=candidate.source, target=candidate.target, reinforced_at=at,
        )  # fmt: skip
    if bridge.made_by == "user" or candidate.depth > bridge.depth or at < bridge.reinforced_at:
        return bridge
    return replace(
        bridge,
        confidence=candidate.confidence,
        made_by=candidate.made_by,
        reason=candidate.reason,
        depth=candidate.depth,
        reinforced_at=at,
    )


def _find_evictions(
    bridges: Iterable[Bridge], candidate: BridgeCandidate, new_strength: float, strengths: dict[str, float]
) -> list[Bridge] | None:
    """Return the bridges to remove so that both threads have room; None if the candidate is to be rejected."""
    remaining, evicted = list(bridges), list[Bridge]()
    for end in (candidate.source, candidate.target):
        at_end = [bridge for bridge in remaining if end in (bridge.source, bridge.target)]
        if len(at_end) < MAX_BRIDGES:
            continue
        evictable = [bridge for bridge in at_end if bridge.made_by != "user"]
        weakest = min(evictable, key=lambda bridge: (strengths[bridge.id], bridge.id), default=None)
        if weakest is None or (candidate.made_by != "user" and strengths[weakest.id] >= new_strength):
            return None
        evicted.append(weakest)
        remaining.remove(weakest)
    return evicted


def _new_bridge(candidate: BridgeCandidate, at: datetime, new_id: Callable[[datetime], str]) -> Bridge:
    return Bridge(
        id=new_id(at),
        source=candidate.source,
        target=candidate.target,
        kind=candidate.kind,
        reason=candidate.reason,
        confidence=candidate.confidence,
        made_by=candidate.made_by,
        created_at=at,
        reinforced_at=at,
        depth=candidate.depth,
    )


# Propagation to the neighbours of neighbours.

#: Maximum number of propagation steps.
MAX_DEPTH: Final = 2
#: Factor applied to the confidence at each step.
STEP_DECAY: Final = 0.9
#: Minimum similarity, above the project's baseline, to link two threads with a common neighbour.
MIN_SIMILARITY: Final = 0.35


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
    bridges_at = defaultdict[str, list[Bridge]](list)
    for bridge in bridges:
        bridges_at[bridge.source].append(bridge)
        bridges_at[bridge.target].append(bridge)
    seen = {thread_id, *(other_end(bridge, thread_id) for bridge in bridges_at[thread_id] if bridge.depth == 0)}
    found = dict[str, BridgeCandidate]()
    for first in bridges_at[thread_id]:
        middle = other_end(first, thread_id)
        for second in bridges_at[middle]:
            target, depth = other_end(second, middle), max(first.depth, second.depth) + 1
            confidence = STEP_DECAY * strength(first) * strength(second)
            if target in seen or depth > MAX_DEPTH or confidence < MIN_CONFIDENCE:
                continue
            if target in found and found[target].confidence >= confidence:
                continue
            similar = similarity(target)
            if similar is None or similar < MIN_SIMILARITY:
                continue
            found[target] = BridgeCandidate(
                source=thread_id,
                target=target,
                kind="relates_to",
                confidence=confidence,
                reason="both are linked to a third thread, and they are similar",
                made_by="gossip",
                depth=depth,
            )
    return list(found.values())


# Detection of bridges.

#: Similarity above the project's baseline, and the confidence it gives (interpolated).
_SIMILARITY_POINTS: Final = (0.3, 0.5, 0.7, 0.9)
_CONFIDENCE_POINTS: Final = (0.0, 0.5, 0.8, 0.95)
#: Prior for the baseline: calibrated similarity of unrelated threads (the mean of many prompts resembles any other such
#: mean). It has the weight of this many other threads.
_PRIOR_SIMILARITY, _PRIOR_COUNT = 0.3, 8
#: Confidence from a common topic that no third thread has; it falls as more threads have the topic.
_COMMON_TOPIC_CONFIDENCE: Final = 0.45
#: Confidence that a mention refers to the thread, by what is mentioned: its title, one of its files, a rare topic.
_MENTION_CONFIDENCE: Final = {"title": 0.85, "file": 0.5, "topic": 0.3}
#: The same when the sentence also states the relation.
_STATED_CONFIDENCE: Final = {"title": 0.9, "file": 0.6, "topic": 0.45}
#: A topic is rare if at most this many threads have it, including the thread itself.
_MAX_RARE_THREADS: Final = 2
#: Confidence when a memory of one thread replaces, or conflicts with, a memory of the other.
_REPLACEMENT_CONFIDENCE: Final = 0.9
#: Maximum length in words of a name to search for.
_MAX_NAME_WORDS: Final = 8
_FILE: Final = re.compile(r"(?<![\w/.-])[\w./-]*\w\.(?!\d)[a-z][a-z0-9]{0,4}(?![\w-])")
_SENTENCE: Final = re.compile(r"[.!?;]\s+|\n+")
_RELATION_CUES: Final[tuple[tuple[BridgeKind, re.Pattern[str]], ...]] = (
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


class DetectionInput(Struct, frozen=True, kw_only=True):
    """A thread as input to bridge detection.

    Attributes:
        vector: a unit vector in the current embedding space, or None.
        prompts: its newest prompts; for the threads it is compared with, enough of them to find their files.
    """

    id: str
    title: str
    topics: tuple[str, ...] = ()
    parent: str | None = None
    vector: Vector | None = None
    prompts: tuple[str, ...] = ()


class Replacement(Struct, frozen=True, kw_only=True):
    """A memory of the thread replaces, or conflicts with, a memory learned in another thread.

    Attributes:
        thread_id: the other thread.
        text: text of the thread's own memory.
        former: text of the other thread's memory.
        conflict: True while the user has not decided which of the two is right.
    """

    thread_id: str
    text: str
    former: str
    conflict: bool = False


def find_candidates(
    thread: DetectionInput,
    others: Sequence[DetectionInput],
    space: EmbeddingSpace,
    replacements: Iterable[Replacement] = (),
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
    similar = similarities(thread, others, space)
    adjusted = above_baseline(similar)
    topic_counts = Counter(topic for compared in (thread, *others) for topic in set(map(fold, compared.topics)))
    names = _Names(thread.prompts)
    candidates = list[BridgeCandidate]()
    for other in others:
        similarity_score = float(np.interp(adjusted.get(other.id, 0.0), _SIMILARITY_POINTS, _CONFIDENCE_POINTS))
        word_score, word_reasons = _score_words(thread, other, names, topic_counts, len(others) + 1)
        similarity_reasons = [f"they are alike in meaning ({similar[other.id]:.2f})"] if similarity_score > 0 else []
        typed_candidates = _find_typed_candidates(
            thread, other, names, topic_counts, similarity_score, replacements, similarity_reasons
        )
        candidates.extend(typed_candidates)
        if not typed_candidates and _noisy_or(similarity_score, word_score) >= MIN_CONFIDENCE:
            candidates.append(
                _build_candidate(
                    thread,
                    other,
                    "relates_to",
                    _noisy_or(similarity_score, word_score),
                    [*similarity_reasons, *word_reasons],
                )
            )
    confident = [candidate for candidate in candidates if candidate.confidence >= MIN_CONFIDENCE]
    return sorted(confident, key=lambda candidate: (-candidate.confidence, candidate.target, candidate.kind))[
        :MAX_BRIDGES
    ]


def similarities(thread: DetectionInput, others: Iterable[DetectionInput], space: EmbeddingSpace) -> dict[str, float]:
    """Return the calibrated similarity to each of the other threads that has a vector."""
    if thread.vector is None:
        return {}
    with_vector = [other for other in others if other.vector is not None]
    return {other.id: space.calibrated(float(np.dot(thread.vector, _vector_of(other)))) for other in with_vector}


def files_of(texts: Iterable[str]) -> frozenset[str]:
    """Return the file names mentioned in texts, without directories."""
    return frozenset(name.rpartition("/")[2] for text in texts for name in _FILE.findall(fold(text)))


class _Names:
    """What a thread's prompts may mention: all short runs of words, and the files.

    `relations` has the same for each sentence that states a relation, with the kind of bridge that it states.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.files = files_of(texts)
        self.word_runs = _word_runs(tokens(fold("\n".join(texts))))
        sentences = [sentence for text in texts for sentence in _SENTENCE.split(fold(text)) if sentence]
        self.relations: list[tuple[BridgeKind, frozenset[tuple[str, ...]], frozenset[str]]] = [
            (kind, _word_runs(tokens(sentence)), files_of([sentence]))
            for sentence in sentences
            for kind, cue in _RELATION_CUES
            if cue.search(sentence)
        ]


def _score_words(
    thread: DetectionInput, other: DetectionInput, names: _Names, topic_counts: Mapping[str, int], threads: int
) -> tuple[float, list[str]]:
    """Return the confidence from words, and the reasons for it."""
    own_topics, other_topics = ({*map(fold, compared.topics)} for compared in (thread, other))
    common, miss_probability = own_topics & other_topics, 1.0
    for topic in common:
        miss_probability *= 1.0 - _COMMON_TOPIC_CONFIDENCE * (
            1.0 - math.log(topic_counts[topic]) / math.log(1 + threads)
        )
    confidence, reasons = (
        1.0 - miss_probability,
        [f"{len(common)} {'topic' if len(common) == 1 else 'topics'} in common"] if common else [],
    )
    mention = _find_mention(other, names.word_runs, names.files, topic_counts)
    if mention:
        reasons.append(f"it names the other's {mention}")
        confidence = max(confidence, _MENTION_CONFIDENCE[mention])  # also counted as a common topic, so not independent
    return confidence, reasons


def _find_typed_candidates(
    thread: DetectionInput,
    other: DetectionInput,
    names: _Names,
    topic_counts: Mapping[str, int],
    similarity_score: float,
    replacements: Iterable[Replacement],
    similarity_reasons: list[str],
) -> list[BridgeCandidate]:
    """Return the candidates whose kind is given by explicit evidence."""
    found = dict[BridgeKind, BridgeCandidate]()
    if thread.parent == other.id:
        found["child_of"] = _build_candidate(thread, other, "child_of", 1.0, ["split off from the other thread"])
    if other.parent == thread.id:
        found["child_of"] = _build_candidate(other, thread, "child_of", 1.0, ["split off from the other thread"])
    for replacement in replacements:
        if replacement.thread_id == other.id:
            kind, reason = _kind_of_replacement(replacement)
            found.setdefault(kind, _build_candidate(thread, other, kind, _REPLACEMENT_CONFIDENCE, [reason]))
    for kind, word_runs, files in names.relations:
        mention = _find_mention(other, word_runs, files, topic_counts)
        if mention and kind not in found:
            reason = [f"a sentence that names the other's {mention} says so", *similarity_reasons]
            found[kind] = _build_candidate(
                thread, other, kind, _noisy_or(similarity_score, _STATED_CONFIDENCE[mention]), reason
            )
    return list(found.values())


def _kind_of_replacement(replacement: Replacement) -> tuple[BridgeKind, str]:
    """Return the kind for a replaced memory; a new version that keeps all content words refines the old one."""
    if replacement.conflict:
        return "contradicts", "one of its statements conflicts with a memory of the other thread"
    if set(content(replacement.former)) <= set(content(replacement.text)):
        return "refines", "one of its memories is a newer, more detailed version of a memory of the other thread"
    return "contradicts", "one of its memories replaced a memory of the other thread"


def _find_mention(
    other: DetectionInput,
    word_runs: Collection[tuple[str, ...]],
    files: frozenset[str],
    topic_counts: Mapping[str, int],
) -> str | None:
    """Return what a text mentions of a thread: "title", "file" or "topic" (a rare one); None if nothing."""
    title = tuple(tokens(fold(other.title)))
    if 2 <= len(title) <= _MAX_NAME_WORDS and title in word_runs:
        return "title"
    if files & files_of([other.title, *other.prompts]):
        return "file"
    for topic in map(fold, other.topics):
        if topic_counts[topic] <= _MAX_RARE_THREADS and tuple(tokens(topic)) in word_runs:
            return "topic"
    return None


def above_baseline(similar: Mapping[str, float]) -> dict[str, float]:
    """Rescale similarities so that 0 is the baseline of the project.

    The baseline is the median similarity to the other threads, shrunk towards a fixed prior when there are few of them.
    """
    if not similar:
        return {}
    number, median = len(similar), float(np.median(list(similar.values())))
    baseline = min((number * median + _PRIOR_COUNT * _PRIOR_SIMILARITY) / (number + _PRIOR_COUNT), 0.9)
    return {id_: max(0.0, (value - baseline) / (1 - baseline)) for id_, value in similar.items()}


def _noisy_or(first: float, second: float) -> float:
    """Combine two independent confidences (noisy-or)."""
    return 1.0 - (1.0 - first) * (1.0 - second)


def _build_candidate(
    source: DetectionInput, target: DetectionInput, kind: BridgeKind, confidence: float, reasons: Sequence[str]
) -> BridgeCandidate:
    return BridgeCandidate(
        source=source.id,
        target=target.id,
        kind=kind,
        confidence=min(1.0, math.floor(confidence * 1e4) / 1e4),
        reason="; ".join(reasons),
    )


def _vector_of(thread: DetectionInput) -> Vector:
    assert thread.vector is not None
    return thread.vector


def _word_runs(words: Sequence[str]) -> frozenset[tuple[str, ...]]:
    return frozenset(
        tuple(words[first : first + length])
        for first in range(len(words))
        for length in range(1, _MAX_NAME_WORDS + 1)
        if first + length <= len(words)
    )


# Layout.

Floats = NDArray[np.float64]

#: Maximum width of a label line, in columns; a wide (CJK) character takes two.
MAX_LABEL_COLUMNS: Final = 22
MAX_LABEL_LINES: Final = 2
#: Width of a column, height of a line, height above a label (for the dot), and padding, in pixels.
COLUMN_WIDTH, LINE_HEIGHT, DOT_HEIGHT, PADDING = 6.6, 14.0, 22.0, 14.0
_SPRING_LENGTH: Final = 120.0
#: Distance in pixels within which nodes repel each other, and the strength of the pull towards the centre.
_REPULSION_RADIUS, _CENTRE_PULL = 3 * _SPRING_LENGTH, 0.6
_FORCE_ROUNDS, _SEPARATION_ROUNDS = 500, 1200
_SEED: Final = 7
#: Labels are wide and low, so nodes are spread further apart horizontally.
_STRETCH: Final = 1.35
#: Approximate number of nodes per row for the nodes without edges.
_NODES_PER_ROW: Final = 6


class Node(Struct, frozen=True, kw_only=True):
    """A thread in the graph.

    Attributes:
        title: the full title; labels cut it to two lines.
        state: it decides the style of the dot and of the box.
    """

    id: str
    title: str
    state: ThreadState


class Edge(Struct, frozen=True, kw_only=True):
    """A bridge in the graph.

    Attributes:
        source, target: ids of its threads; the arrow points to the target.
        strength: current strength, in [0, 1].
        reason: the explanation of the bridge, shown as a tooltip in DOT.
    """

    source: str
    target: str
    kind: BridgeKind
    strength: float
    reason: str = ""


class Graph(Struct, frozen=True, kw_only=True):
    """Threads and the bridges between them. Edges to a thread that is not in the graph are dropped.

    Attributes:
        nodes: in the order in which they are drawn.
        edges: bridges between these nodes.
        name: name of the project; empty if the graph spans several projects.
    """

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    name: str = ""

    def __post_init__(self) -> None:
        ids = {node.id for node in self.nodes}
        edges = tuple(edge for edge in self.edges if {edge.source, edge.target} <= ids)
        force_setattr(self, "edges", edges)


class Layout(Struct, frozen=True, kw_only=True):
    """The layout of a graph.

    Attributes:
        positions: centre of each dot, in pixels from the top left, by thread id.
        labels: lines of each label, by thread id.
        width, height: size of the page in pixels.
    """

    positions: Mapping[str, tuple[float, float]]
    labels: Mapping[str, tuple[str, ...]]
    width: float
    height: float


def graph_of(body: Mapping[str, Any]) -> Graph:
    """Build the graph from the body of `GET /api/memory/graph`."""
    return Graph(
        nodes=tuple(Node(id=thread["id"], title=thread["title"], state=thread["state"]) for thread in body["threads"]),
        edges=tuple(
            Edge(
                source=bridge["source"],
                target=bridge["target"],
                kind=bridge["type"],
                strength=bridge["strength"],
                reason=bridge["reason"],
            )
            for bridge in body["bridges"]
        ),
        name=body["project_name"],
    )


def to_dot(graph: Graph) -> str:
    """Return the graph in the DOT language of Graphviz."""
    lines = ["digraph threads {", "  node [shape=box, style=rounded];"]
    styles = {"active": "rounded", "suspended": "rounded,dashed", "archived": "rounded,dotted"}
    for node in graph.nodes:
        lines.append(
            f"  {_quote_dot(node.id)} [label={_quote_dot(node.title)}, style={_quote_dot(styles[node.state])}];"
        )
    for edge in graph.edges:
        how = f"label={_quote_dot(edge.kind)}, weight={1 + round(9 * edge.strength)}, tooltip={_quote_dot(edge.reason)}"
        arrow = "" if is_directed(edge.kind) else ", dir=none"
        lines.append(f"  {_quote_dot(edge.source)} -> {_quote_dot(edge.target)} [{how}{arrow}];")
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
    connected = {end for edge in graph.edges for end in (edge.source, edge.target)}
    ids = sorted(node.id for node in graph.nodes if node.id in connected)
    sizes = {id_: box_size(lines) for id_, lines in labels.items()}
    positions, width, height = dict[str, tuple[float, float]](), 0.0, 0.0
    if ids:
        boxes = np.array([sizes[id_] for id_ in ids])
        centres = _separate_boxes(_simulate_forces(ids, graph.edges), boxes)
        centres -= (centres - boxes / 2).min(axis=0)
        positions = {id_: (float(x), float(y)) for id_, (x, y) in zip(ids, centres, strict=True)}
        width, height = (float(size) for size in (centres + boxes / 2).max(axis=0))
    loose = sorted((node.title, node.id) for node in graph.nodes if node.id not in connected)
    width = max(width, _row_width([sizes[id_] for _, id_ in loose]))
    x, y, row = 0.0, height, 0.0
    for _, id_ in loose:
        wide, high = sizes[id_]
        if x and x + wide > width:
            x, y, row = 0.0, y + row, 0.0
        positions[id_] = (x + wide / 2, y + high / 2)
        x, row = x + wide, max(row, high)
    height = y + row
    # The position is the centre of the box; the dot is in its upper part.
    moved = {
        id_: (px + margin, py - sizes[id_][1] / 2 + DOT_HEIGHT / 2 + margin + top)
        for id_, (px, py) in positions.items()
    }
    return Layout(positions=moved, labels=labels, width=width + 2 * margin, height=height + 2 * margin + top)


def box_size(lines: Sequence[str]) -> tuple[float, float]:
    """Return the size of a dot with its label, in pixels: width and height."""
    return max(map(columns_of, lines), default=0) * COLUMN_WIDTH + PADDING, DOT_HEIGHT + LINE_HEIGHT * len(
        lines
    ) + PADDING / 2


def label_lines(title: str) -> tuple[str, ...]:
    """Break a title into at most two lines; an ellipsis marks text that was cut."""
    lines, rest = list[str](), " ".join(strip_controls(title).split())
    while rest and len(lines) < MAX_LABEL_LINES:
        head = _longest_prefix(rest, MAX_LABEL_COLUMNS)
        if head != rest and " " in head and rest[len(head)] != " ":
            head = head.rpartition(" ")[0]
        rest = rest[len(head) :].strip()
        lines.append(head.strip())
    if rest:
        lines[-1] = _longest_prefix(lines[-1], MAX_LABEL_COLUMNS - 1).rstrip() + "…"
    return tuple(lines) or ("(no title)",)


def strip_controls(text: str) -> str:
    """Remove control, private-use, unassigned and bidirectional characters; newlines and tabs become spaces."""
    return "".join(
        " " if char in "\t\n\r" else char
        for char in text
        if char in "\t\n\r" or (unicodedata.category(char) not in ("Cc", "Cs", "Co", "Cn") and not is_control(char))
    )


def columns_of(text: str) -> int:
    """Return how many columns a text takes."""
    return sum(_column_count(char) for char in text)


def _column_count(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) == "Cf":
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _longest_prefix(text: str, columns: int) -> str:
    """Return the longest prefix of a text that fits into `columns`; at least one character."""
    used = 0
    for index, char in enumerate(text):
        used += _column_count(char)
        if used > columns:
            return text[: max(index, 1)]
    return text


def _quote_dot(text: str) -> str:
    escaped = strip_controls(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _row_width(sizes: Sequence[tuple[float, float]]) -> float:
    """Return the width of a page on which boxes of these sizes are arranged in rows."""
    if not sizes:
        return 0.0
    per_row = min(len(sizes), _NODES_PER_ROW)
    return max(max(wide for wide, _ in sizes), per_row * sum(wide for wide, _ in sizes) / len(sizes))


def _simulate_forces(ids: Sequence[str], edges: Sequence[Edge]) -> Floats:
    """Place nodes by a force simulation: edges attract by their strength, and all nodes repel each other."""
    number, index = len(ids), {id_: position for position, id_ in enumerate(ids)}
    pull = np.zeros((number, number))
    for edge in edges:
        first, second = index[edge.source], index[edge.target]
        pull[first, second] = pull[second, first] = max(pull[first, second], 0.5 + 0.5 * edge.strength)
    angles = np.linspace(0.0, 2 * np.pi, number, endpoint=False)
    positions = _SPRING_LENGTH * np.sqrt(number) / 2 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    positions += np.random.default_rng(_SEED).normal(0.0, _SPRING_LENGTH / 20, (number, 2))
    for step in range(_FORCE_ROUNDS):
        offsets = positions[:, None] - positions[None]
        distances = np.maximum(np.linalg.norm(offsets, axis=2), 1.0)
        push = np.where(distances < _REPULSION_RADIUS, _SPRING_LENGTH**2 / distances**2, 0.0)
        force = (offsets * (push - pull * distances / _SPRING_LENGTH)[:, :, None]).sum(
            axis=1
        ) - _CENTRE_PULL * positions
        length = np.maximum(np.linalg.norm(force, axis=1, keepdims=True), 1e-9)
        positions += force / length * np.minimum(length, _SPRING_LENGTH * (1.0 - step / _FORCE_ROUNDS) / 2)
    positions[:, 0] *= _STRETCH
    return positions


def _separate_boxes(positions: Floats, boxes: Floats) -> Floats:
    """Move boxes apart until none overlap; each pair moves along the axis with the smaller overlap."""
    positions, needed = positions.copy(), (boxes[:, None] + boxes[None]) / 2
    number = len(positions)
    order = np.arange(number)
    for _ in range(_SEPARATION_ROUNDS):
        offsets = positions[:, None] - positions[None]
        overlap = needed - np.abs(offsets)
        overlaps = (overlap[:, :, 0] > 0.01) & (overlap[:, :, 1] > 0.01)
        np.fill_diagonal(overlaps, val=False)
        if not overlaps.any():
            break
        direction = np.where(offsets != 0, np.sign(offsets), np.sign(order[:, None] - order[None])[:, :, None])
        across = overlap[:, :, 0] < overlap[:, :, 1]
        move = np.zeros_like(offsets)
        move[:, :, 0] = np.where(overlaps & across, overlap[:, :, 0], 0.0)
        move[:, :, 1] = np.where(overlaps & ~across, overlap[:, :, 1], 0.0)
        step = (move * direction).sum(axis=1) / np.maximum(overlaps.sum(axis=1), 1)[:, None]
        positions += 0.55 * step
    return positions


# SVG.

#: Colour on a light background, colour on a dark background, dash pattern.
_KIND_STYLES: Final[dict[BridgeKind, tuple[str, str, str]]] = {
    "extends": ("#2b7a4b", "#6fc493", ""),
    "depends_on": ("#a85f00", "#e5a04b", ""),
    "contradicts": ("#c22f27", "#ff7a70", "7 3"),
    "supports": ("#1f7a88", "#62bfcd", "1 3"),
    "refines": ("#6654b8", "#a99bf0", "10 3 2 3"),
    "relates_to": ("#8593a3", "#7f8b99", ""),
    "child_of": ("#4b5866", "#b4bfca", "3 3"),
}
_KIND_BY_NAME: Final[dict[str, BridgeKind]] = {kind: kind for kind in BRIDGE_KINDS}
_STATES: Final[tuple[ThreadState, ...]] = ("active", "suspended", "archived")
_RADIUS: Final = 6.0
_HEADING_HEIGHT, _LEGEND_LINE_HEIGHT = 54.0, 20.0
_MIN_WIDTH: Final = 420.0


def to_svg(graph: Graph) -> str:
    """Return the graph as a standalone SVG document.

    The document works on light and dark backgrounds and is accessible. Every colour is backed by a dash pattern or a
    shape. Titles are user text: they are escaped, cut to two lines, and shown in full in the tooltip. The file loads
    nothing and runs no script.
    """
    heading = f"Threads of {graph.name}" if graph.name else "Threads"
    kinds: list[BridgeKind] = [kind for kind in BRIDGE_KINDS if any(edge.kind == kind for edge in graph.edges)]
    states = [state for state in _STATES if any(node.state == state for node in graph.nodes)]
    keys: list[tuple[str, str]] = [*(("state", state) for state in states), *(("kind", kind) for kind in kinds)]
    graph_layout = layout(graph)
    width = max(graph_layout.width, _MIN_WIDTH)
    rows = _legend_rows(keys, width)
    top = _HEADING_HEIGHT + _LEGEND_LINE_HEIGHT * len(rows)
    shift = (width - graph_layout.width) / 2
    height = graph_layout.height + top
    summary = f"{len(graph.nodes)} threads and {len(graph.edges)} bridges between them"
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="name told">',
        f'<title id="name">{_escape_text(heading)}</title>',
        f'<desc id="told">{summary}.</desc>',
        f"<style>{_style(kinds)}</style>",
        *(_arrow(kind) for kind in kinds if is_directed(kind)),
        '<rect class="ground" width="100%" height="100%"/>',
        f'<text class="heading" x="20" y="30">{_escape_text(heading)}</text>',
        f'<text class="told" x="20" y="48">{summary}</text>',
        *_legend(rows),
        f'<g transform="translate({shift:.1f} {top:.1f})">',
        *_edges(graph, graph_layout),
        *_nodes(graph, graph_layout),
        "</g>",
        "</svg>",
        "",
    ]
    return "\n".join(parts)


def _style(kinds: list[BridgeKind]) -> str:
    light = "".join(f".{kind}{{--c:{_KIND_STYLES[kind][0]}}}" for kind in kinds)
    dark = "".join(f".{kind}{{--c:{_KIND_STYLES[kind][1]}}}" for kind in kinds)
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
        wide = columns_of(name) * COLUMN_WIDTH + 52
        if not rows or x + wide > width - 20:
            rows.append([])
            x = 20.0
        rows[-1].append((x, what, name))
        x += wide
    return rows


def _legend(rows: list[list[tuple[float, str, str]]]) -> Iterator[str]:
    for number, row in enumerate(rows):
        y = _HEADING_HEIGHT + _LEGEND_LINE_HEIGHT * number + 10
        for x, what, name in row:
            words = f'<text class="key" x="{x + 34:.1f}" y="{y + 4:.1f}">{name.replace("_", " ")}</text>'
            if what == "state":
                mark = f'<circle class="dot" cx="{x + 20:.1f}" cy="{y:.1f}" r="{_RADIUS:.0f}"/>'
            else:
                kind = _KIND_BY_NAME[name]
                mark = f'<path class="sample" d="M{x:.1f} {y:.1f}h28"{_dash_attribute(kind)}{_arrow_attribute(kind)}/>'
            yield f'<g class="{name}">{mark}{words}</g>'


def _edges(graph: Graph, graph_layout: Layout) -> Iterator[str]:
    """Yield one line per bridge, from dot to dot; several bridges between the same two threads are curved apart."""
    drawn = Counter[tuple[str, str]]()
    titles = {node.id: node.title for node in graph.nodes}
    for edge in sorted(graph.edges, key=lambda edge: (edge.strength, edge.source, edge.target, edge.kind)):
        pair = min(edge.source, edge.target), max(edge.source, edge.target)
        bend, drawn[pair] = drawn[pair], drawn[pair] + 1
        tooltip = f"{titles[edge.source]} → {titles[edge.target]}: {edge.kind.replace('_', ' ')} ({edge.strength:.2f})"
        yield (
            f'<g class="{edge.kind}" opacity="{0.35 + 0.65 * min(max(edge.strength, 0.0), 1.0):.2f}">'
            f'<path class="edge" d="{_edge_path(graph_layout, edge, bend)}"'
            f"{_dash_attribute(edge.kind)}{_arrow_attribute(edge.kind)}>"
            f"<title>{_escape_text(tooltip)}</title></path></g>"
        )


def _edge_path(graph_layout: Layout, edge: Edge, bend: int) -> str:
    (x0, y0), (x1, y1) = graph_layout.positions[edge.source], graph_layout.positions[edge.target]
    length = math.hypot(x1 - x0, y1 - y0) or 1.0
    ux, uy = (x1 - x0) / length, (y1 - y0) / length
    x0, y0, x1, y1 = x0 + ux * 10, y0 + uy * 10, x1 - ux * 11, y1 - uy * 11
    offset = (bend + 1) // 2 * 26 * (1 if bend % 2 else -1) * (1 if edge.source < edge.target else -1)
    if not offset:
        return f"M{x0:.1f} {y0:.1f}L{x1:.1f} {y1:.1f}"
    return f"M{x0:.1f} {y0:.1f}Q{(x0 + x1) / 2 - uy * offset:.1f} {(y0 + y1) / 2 + ux * offset:.1f} {x1:.1f} {y1:.1f}"


def _nodes(graph: Graph, graph_layout: Layout) -> Iterator[str]:
    for node in graph.nodes:
        x, y = graph_layout.positions[node.id]
        lines = "".join(
            f'<text class="label" x="{x:.1f}" y="{y + 22 + LINE_HEIGHT * number:.1f}">{_escape_text(line)}</text>'
            for number, line in enumerate(graph_layout.labels[node.id])
        )
        tooltip = f"<title>{_escape_text(node.title)} ({node.state})</title>"
        dot = f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS:.0f}"/>'
        yield f'<g class="{node.state}">{tooltip}{dot}{lines}</g>'


def _dash_attribute(kind: BridgeKind) -> str:
    return f' stroke-dasharray="{_KIND_STYLES[kind][2]}"' if _KIND_STYLES[kind][2] else ""


def _arrow_attribute(kind: BridgeKind) -> str:
    return f' marker-end="url(#to-{kind})"' if is_directed(kind) else ""


def _escape_text(text: str) -> str:
    """Escape text for use inside an element."""
    return escape(strip_controls(text), {'"': "&quot;"})
