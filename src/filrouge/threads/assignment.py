"""Thread assignment: pairwise probabilities that prompts share a thread, routing, and clustering.

- `Whitening` whitens vectors, `compared` computes a probability for every pair of prompts of a project.
- `route` decides where one new prompt goes; `regroup` clusters all prompts again when more is known.
- `split_by_thread` distributes a session's synthesis over the threads that its turns were placed in later.

The weights are learned from labelled conversations by `bench/fit_threads.py`, with the functions of this module. There
are two sets: one with vectors, and one for words alone.

Pure: no database, no file.
"""

from __future__ import annotations

import logging
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, lru_cache
from importlib import resources
from typing import Final, Literal
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from filrouge.core.clock import new_id
from filrouge.core.protocols import Vector, Vectors
from filrouge.extraction.vocabulary import content
from filrouge.threads.models import Action, Point, Routing, Synthesis, Thread, ThreadCandidate, ThreadState
from filrouge.threads.synthesis import MOST_DECISIONS, MOST_FILES

# Whitening.

#: Minimum number of vectors for a transform, and maximum number of (newest) vectors to read.
MIN_VECTORS, MAX_VECTORS = 64, 4000
#: Shrinkage of the whitening: 0 whitens fully, larger values whiten less. It is increased when there are few vectors.
_SHRINKAGE, _FEW = 0.5, 200.0

Square = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Whitening:
    """Whitening transform fitted to a set of vectors.

    All prompts of one person resemble each other: same language, same style, same phrases. With the bundled model, the
    median cosine of unrelated prompts is .83 to .91, and the centroid of a few unrelated prompts is even closer. So the
    mean of all prompts is subtracted, and the directions in which they vary are equalised (whitening with shrinkage).
    What remains is the topic. 0 is then the median of unrelated pairs and 1 the same text, as in MEM-7, but relative to
    this person's prompts.

    The transform is computed from stored vectors and recomputed as they grow. The bundled sample texts are used too, so
    that it works while there are few prompts.

    Attributes:
        mean: shape (dimension,).
        levels: the whitening matrix, shape (dimension, dimension).
    """

    mean: Vector
    levels: Square

    @classmethod
    def of(cls, vectors: Vectors) -> Whitening | None:
        """Fit the transform; return None for fewer than `MIN_VECTORS` vectors.

        Args:
            vectors: unit vectors of one embedding space, shape (n, dimension): the user's prompts and the sample texts.
        """
        if len(vectors) < MIN_VECTORS:
            return None
        mean = vectors.mean(axis=0, dtype=np.float64)
        spread = vectors - mean
        sizes, directions = np.linalg.eigh(spread.T @ spread / len(vectors))
        sizes = np.maximum(sizes, 0.0)
        average = float(sizes.mean()) or 1.0
        scales = 1.0 / np.sqrt(sizes / average + _SHRINKAGE * (1.0 + _FEW / len(vectors)))
        return cls(mean.astype(np.float32), ((directions * scales) @ directions.T).astype(np.float32))

    def off(self, vectors: Vectors) -> Vectors:
        """Whiten vectors and scale them to length 1; shape (n, dimension)."""
        rest = (vectors - self.mean) @ self.levels
        lengths = np.linalg.norm(rest, axis=1, keepdims=True)
        return np.asarray(rest / np.where(lengths > 0.0, lengths, 1.0), dtype=np.float32)


# Mean vectors: one for a prompt with several windows, one for the prompts of a thread. A thread vector is derived data:
# it can be recomputed from stored vectors, and it is specific to one embedding space. It is used to find the thread.


def prompt_vector(windows: Vectors | None) -> Vector | None:
    """Return the mean direction of a prompt's windows, of length 1; None if it has none."""
    return None if windows is None or not len(windows) else _unit(windows.mean(axis=0))


def thread_vector(prompts: Sequence[Vectors]) -> Vector | None:
    """Return the mean direction of a thread's prompts, of length 1; None if no prompt has vectors.

    Args:
        prompts: for each routed turn, its windows: unit vectors, shape (windows, dimension).
    """
    there = [one for windows in prompts if (one := prompt_vector(windows)) is not None]
    return _unit(np.mean(there, axis=0)) if there else None


def _unit(vector: Vector) -> Vector:
    length = float(np.linalg.norm(vector))
    return np.asarray(vector / length if length else vector, dtype=np.float32)


# Pairwise probabilities.

FILE: Final = "pairs.npz"
#: Number of hash buckets for the rarity of words in general, and of columns that tell the words of one project apart.
BUCKETS, _COLUMNS = 4096, 2048
#: Number of leading letters of a word that are compared: languages inflect at the end.
_ROOT: Final = 6
#: The project mean is shrunk as if there were this many extra vectors with mean zero: the first few prompts say little
#: about what all prompts have in common.
_PRIOR_COUNT: Final = 8
#: Number of earlier prompts that a prompt is compared with to see whether it continues them.
_BACK: Final = 4
#: Number of nearest prompts of other sessions; their mean similarity is the baseline for a prompt.
_NEAREST: Final = 6
#: Number of rounds in which context and probabilities are recomputed.
ROUNDS: Final = 2

TableKind = Literal["vectors", "words"]
Learned = Mapping[str, NDArray[np.float32]]
#: 32-bit floats: one value per pair, shape (n, n); one per prompt, shape (n,); or one row per prompt.
PairTable = NDArray[np.float32]
Places = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Exchange:
    """A prompt and the reply to it.

    Attributes:
        session: the session it was said in.
        prompt: the whitened unit vector of the prompt; None if there is none.
        whole: the same for prompt and reply as one text, or for the prompt alone while there is no reply.
        said: word roots of the prompt.
        answered: word roots of the reply.
        letters: length of the prompt in characters.
        asks: the reply ends with a question.
    """

    session: str
    prompt: Vector | None
    whole: Vector | None
    said: frozenset[str]
    answered: frozenset[str] = frozenset()
    letters: int = 0
    asks: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """Comparison of all pairs of prompts; each table has shape (n, n).

    Attributes:
        chances: probability that the two are of one thread; 1 on the diagonal.
        alike: cosine of the exchanges after subtracting the project mean; NaN if only words are used.
        words: similarity of their words, weighted by rarity, in [0, 1].
    """

    chances: PairTable
    alike: PairTable
    words: PairTable


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class FeatureTables:
    """Exchanges as tables with one row each; vectors are of unit length or zero.

    Attributes:
        exchanges: prompt and whole combined; `prompts` and `wholes`: each separately.
        words: words of prompt and reply, weighted by rarity; `asked`: of the prompt only.
        rare: the same as `words`, not scaled to unit length.
        sessions: number of the session, in order of appearance; `places`: position within the session.
        letters, own, asks: length of the prompt, its number of words, and whether the reply asks a question.
    """

    exchanges: PairTable
    prompts: PairTable
    wholes: PairTable
    words: PairTable
    asked: PairTable
    rare: PairTable
    sessions: Places
    places: Places
    letters: PairTable
    own: PairTable
    asks: PairTable


def compared(exchanges: Sequence[Exchange], kind: TableKind) -> Compared:
    """Compare every pair of prompts of a project.

    A prompt alone carries little information, so it is read together with its reply and its context. In the first
    round, the context of a prompt is the neighbouring prompts of its session, weighted by the probability that the
    topic did not change in between. In the second round, the context is every prompt that is likely to be of the same
    thread, in other sessions too.

    Args:
        exchanges: in the order in which they were said.
        kind: `words` if vectors are not to be used.
    """
    if not exchanges:
        nothing = np.empty((0, 0), dtype=np.float32)
        return Compared(nothing, nothing, nothing)
    weights = _stored()
    read = build_tables(exchanges, weights["rarity"])
    chances = continuation_probability(read, weights, kind)
    for number in range(ROUNDS):
        chances = score_round(read, chances, weights, f"{kind}.{number}")
    alike = read.exchanges @ read.exchanges.T if kind == "vectors" else np.full_like(chances, np.nan)
    return Compared(chances=chances, alike=alike, words=read.words @ read.words.T)


def roots(texts: Iterable[str]) -> frozenset[str]:
    """Return the roots of the content words of texts, normalised across the supported languages."""
    return frozenset(root for text in texts for root in _roots(text))


@lru_cache(maxsize=16384)
def _roots(text: str) -> frozenset[str]:
    return frozenset(word[:_ROOT] if word.isalpha() else word for word in content(text) if len(word) > 2)


# --- does the topic continue from one prompt to the next


def continuation_probability(read: FeatureTables, weights: Learned, kind: TableKind) -> PairTable:
    """Return the probability that the topic never changed between two prompts of a session.

    Shape (n, n); 0 across sessions.
    """
    later, before = consecutive_pairs(read)
    stays = np.zeros(len(read.sessions), dtype=np.float32)
    if len(later):
        given = weights[f"{kind}.on"]
        stays[later] = _logistic(continuation_features(read, later, before) @ given[:-1] + given[-1])
    chances = np.zeros((len(stays), len(stays)), dtype=np.float32)
    for session in np.unique(read.sessions):
        own = np.flatnonzero(read.sessions == session)
        steps = np.cumsum(np.log(np.maximum(stays[own], 1e-4)))
        chances[np.ix_(own, own)] = np.exp(-np.abs(steps[:, None] - steps[None, :]))
    return chances


def consecutive_pairs(read: FeatureTables) -> tuple[Places, Places]:
    """Return the prompts that have a predecessor in their session, and these predecessors."""
    last: dict[int, int] = {}
    pairs = list[tuple[int, int]]()
    for place, session in enumerate(read.sessions.tolist()):
        if session in last:
            pairs.append((place, last[session]))
        last[session] = place
    found = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def continuation_features(read: FeatureTables, later: Places, before: Places) -> PairTable:
    """Return the features for whether prompts continue the topic of their predecessors, one row per prompt."""
    return np.stack([*_signs_of_going_on(read, later, before)], axis=1).astype(np.float32)


def _signs_of_going_on(read: FeatureTables, later: Places, before: Places) -> Iterator[PairTable]:
    def cosines(left: PairTable, right: PairTable) -> PairTable:
        return (left[later] * right[before]).sum(axis=1)

    places, sessions = read.places[later], read.sessions[later]
    back = (sessions[:, None] == read.sessions[None, :]) & (read.places[None, :] < places[:, None])
    back &= read.places[None, :] >= places[:, None] - _BACK
    near = read.exchanges[later] @ read.exchanges.T
    yield cosines(read.prompts, read.exchanges)
    yield cosines(read.prompts, read.prompts)
    yield cosines(read.prompts, read.wholes)
    yield cosines(read.exchanges, read.exchanges)
    yield np.where(back, near, -1.0).max(axis=1)
    yield np.where(back, near, 0.0).sum(axis=1) / back.sum(axis=1)
    yield cosines(read.words, read.words)
    yield cosines(read.asked, read.words)
    yield np.where(back, read.asked[later] @ read.words.T, 0.0).max(axis=1)
    yield np.log1p(read.letters[later])
    yield np.log1p(read.letters[before])
    yield np.log1p(read.own[later])
    yield (read.own[later] <= 2.0).astype(np.float32)
    yield read.asks[before]
    yield np.log1p(places)
    yield (places == 1).astype(np.float32)


# --- are two prompts of one thread


def score_round(read: FeatureTables, chances: PairTable, weights: Learned, name: str) -> PairTable:
    """Compute one round: new probabilities from the previous ones, with the weights of this name."""
    within, across = weights[f"{name}.within"], weights[f"{name}.across"]
    same = _same(read)
    odds: PairTable = np.zeros(chances.shape, dtype=np.float32)
    for place, sign in enumerate(pair_features(read, chances)):
        odds = np.asarray(odds + np.where(same, within[place], across[place]) * sign, dtype=np.float32)
    odds = np.asarray(odds + np.where(same, within[-1], across[-1]), dtype=np.float32)
    found = _logistic(odds)
    np.fill_diagonal(found, 1.0)
    return found


def pair_features(read: FeatureTables, chances: PairTable) -> Iterator[PairTable]:
    """Yield the features for whether two prompts are of one thread, given the current context; shape (n, n) each."""
    same = _same(read)
    chain = np.asarray(np.where(same, chances, 0.0), dtype=np.float32)
    yield read.exchanges @ read.exchanges.T
    yield read.prompts @ read.prompts.T
    yield read.words @ read.words.T
    yield chain
    yield np.asarray(np.log(np.maximum(chain, 2e-3)) * same, dtype=np.float32)
    for around in (chances, chances * chances):
        vectors = _pairs_unit(around @ read.exchanges)
        words = _pairs_unit(np.minimum(around @ (read.rare > 0.0), 1.0) * read.rare.max(axis=0))
        near, half = vectors @ vectors.T, vectors @ read.exchanges.T
        others = np.asarray(np.where(same, -1.0, near), dtype=np.float32)
        nearest = np.asarray(np.sort(others, axis=1)[:, -_NEAREST:].clip(0.0).mean(axis=1), dtype=np.float32)
        yield near
        yield np.asarray((half + half.T) / 2, dtype=np.float32)
        yield words @ words.T
        yield nearest[:, None] + nearest[None, :]
    prompts = _pairs_unit(chances @ read.prompts)
    yield prompts @ prompts.T
    sizes, letters = np.log(chances.sum(axis=1)), np.log1p(read.letters)
    yield np.minimum(sizes[:, None], sizes[None, :])
    yield np.minimum(letters[:, None], letters[None, :])
    apart = np.abs(read.places[:, None] - read.places[None, :])
    for most in (1, 2, 4):
        yield (same & (apart <= most)).astype(np.float32)
    yield (np.abs(read.sessions[:, None] - read.sessions[None, :]) == 1).astype(np.float32)
    for power in (1.0, 0.5):  # all features are weaker when there are few prompts
        yield np.full(chances.shape, len(chances) ** -power, dtype=np.float32)


def _same(read: FeatureTables) -> NDArray[np.bool_]:
    return read.sessions[:, None] == read.sessions[None, :]


# --- exchanges as tables


def build_tables(exchanges: Sequence[Exchange], rarity: PairTable) -> FeatureTables:
    """Convert exchanges into tables.

    Args:
        rarity: rarity of the words of each bucket in general, shape (`BUCKETS`,).
    """
    numbers: dict[str, int] = {}
    sessions = [numbers.setdefault(one.session, len(numbers)) for one in exchanges]
    counts, places = Counter[int](), list[int]()
    for one in sessions:
        places.append(counts[one])
        counts[one] += 1
    prompts, wholes = _centred([one.prompt for one in exchanges]), _centred([one.whole for one in exchanges])
    both, asked = [one.said | one.answered for one in exchanges], [one.said for one in exchanges]
    having = Counter(word for own in both for word in sorted(own))
    rare = _by_rarity(both, having, rarity)
    return FeatureTables(
        exchanges=_pairs_unit(prompts + wholes),
        prompts=prompts,
        wholes=wholes,
        words=_pairs_unit(rare),
        asked=_pairs_unit(_by_rarity(asked, having, rarity)),
        rare=rare,
        sessions=np.asarray(sessions, dtype=np.int64),
        places=np.asarray(places, dtype=np.int64),
        letters=np.asarray([one.letters for one in exchanges], dtype=np.float32),
        own=np.asarray([len(one) for one in asked], dtype=np.float32),
        asks=np.asarray([one.asks for one in exchanges], dtype=np.float32),
    )


def bucket(word: str) -> int:
    """Return the hash bucket of a word. A message may contain lone surrogates, so words may too."""
    return crc32(word.encode("utf-8", "surrogatepass")) % BUCKETS


def _centred(vectors: Sequence[Vector | None]) -> PairTable:
    """Subtract the shrunken project mean and scale to unit length; a missing vector becomes zero."""
    there = [one for one in vectors if one is not None]
    if not there:
        return np.zeros((len(vectors), 1), dtype=np.float32)
    stacked = np.stack(there).astype(np.float32)
    table = np.zeros((len(vectors), stacked.shape[1]), dtype=np.float32)
    table[[one is not None for one in vectors]] = _pairs_unit(
        stacked - stacked.sum(axis=0) / (len(there) + _PRIOR_COUNT)
    )
    return table


def _by_rarity(words: Sequence[frozenset[str]], having: Mapping[str, int], rarity: PairTable) -> PairTable:
    """Weight words by their rarity in the project and in general; shape (n, columns)."""
    columns = {word: place % _COLUMNS for place, word in enumerate(having)}
    weights = {word: np.log(1.0 + len(words) / count) * rarity[bucket(word)] for word, count in having.items()}
    table = np.zeros((len(words), max(1, min(len(columns), _COLUMNS))), dtype=np.float32)
    for place, own in enumerate(words):
        for word in own:
            table[place, columns[word]] += weights[word]
    return table


def _pairs_unit(table: PairTable) -> PairTable:
    lengths = np.linalg.norm(table, axis=1, keepdims=True)
    return np.asarray(table / np.where(lengths > 0.0, lengths, 1.0), dtype=np.float32)


def _logistic(odds: PairTable) -> PairTable:
    return np.asarray(1.0 / (1.0 + np.exp(-odds)), dtype=np.float32)


@cache
def _stored() -> Learned:
    with resources.files(__package__ or "").joinpath(FILE).open("rb") as opened, np.load(opened) as file:
        return {name: file[name].astype(np.float32) for name in file.files}


# Routing of one prompt (THR-2, THR-3).

#: Minimum mean probability for two groups to be one thread. Chosen on the training conversations.
SAME_THREAD_THRESHOLD: Final = 0.28
#: Between these values, a model is asked about a suspended or archived thread.
BORDERLINE, SURE = 0.18, 0.36
#: Candidates to log: those above this value, and at least this many of the best (THR-8).
LOGGED, LOGGED_LEAST = 0.3, 3


@dataclass(frozen=True, kw_only=True, slots=True)
class RoutedPrompt:
    """The prompt to route.

    Attributes:
        topics: as `subjects` returns them.
        own: the current thread of its session, if there is one.
    """

    text: str
    topics: tuple[str, ...]
    at: datetime
    own: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Known:
    """A candidate thread for a prompt.

    Attributes:
        state: its effective state, which a sweep may not have written yet.
        near: the prompt compared with prompts of the thread, one row each: probability that they are of one thread,
            similarity of the exchanges (NaN if only words are used), similarity of the words. Empty if no prompt of the
            thread was compared.
    """

    thread: Thread
    state: ThreadState
    near: NDArray[np.float32]


def route(item: RoutedPrompt, known: Sequence[Known]) -> Routing:
    """Decide where a prompt goes, without a model.

    The prompt continues a thread, reactivates one, forks from one, or opens a new one. It is compared with the prompts
    of each thread, and the mean probability counts (average linkage, as in `regroup`), so one prompt that is similar by
    chance does not decide.

    Args:
        known: all live candidate threads: of the prompt's project and, with isolation, of its agent.
    """
    found = sorted((_weighed(item, one) for one in known if len(one.near)), key=lambda one: -one.similarity)
    own = next((one for one in found if one.own), None)
    best = found[0] if found else None
    chosen = best if best is not None and best.similarity >= SAME_THREAD_THRESHOLD else None
    action: Action = "fork" if own else "new"
    if chosen is not None:
        action = "continue" if chosen.state == "active" else "reactivate"
    return Routing(
        action=action,
        thread_id=chosen.thread_id if chosen else None,
        parent=own.thread_id if own and not chosen else None,
        similarity=best.similarity if best else 0.0,
        weighed=tuple(one for place, one in enumerate(found) if one.similarity > LOGGED or place < LOGGED_LEAST),
        borderline=best is not None and best.state != "active" and BORDERLINE <= best.similarity < SURE,
        reason=_reason(chosen, best, len(known)),
    )


def _weighed(item: RoutedPrompt, one: Known) -> ThreadCandidate:
    chance, alike, words = one.near.mean(axis=0, dtype=np.float64).tolist()
    return ThreadCandidate(
        thread_id=one.thread.id,
        state=one.state,
        embedding=None if math.isnan(alike) else alike,
        topics=words,
        exact=not set(item.topics).isdisjoint(one.thread.topics),
        own=one.thread.id == item.own,
        similarity=chance,
    )


def _reason(chosen: ThreadCandidate | None, best: ThreadCandidate | None, count: int) -> str:
    if best is None:
        return "The project has no thread yet."
    if chosen is None:
        return f"None of {count} threads is near enough; the nearest has {best.similarity:.2f}."
    whose = "its session's thread" if chosen.own else f"the nearest of {count} threads"
    return f"It is with {whose}, at {chosen.similarity:.2f}."


# Clustering by average linkage, and the choice between the current grouping and a new one.

#: Minimum gain of a regrouping, in summed similarity. (A bonus for pairs that are already together would preserve early
#: mistakes; this was measured.)
_WORTH: Final = 0.02
#: Similarities, or similarities minus a threshold; shape (n, n).
Near = NDArray[np.float32]
#: The group number of each item; shape (n,).
Labels = NDArray[np.int64]


def labels(names: Sequence[object]) -> Labels:
    """Return a number for each name, in order of first appearance."""
    known: dict[object, int] = {}
    return np.asarray([known.setdefault(name, len(known)) for name in names], dtype=np.int64)


def improved_grouping(above: Near, now: Labels, bound: Labels) -> Labels:
    """Return the improved grouping; applied to its own result, this changes nothing.

    The clusters are computed independently of the current grouping, so each existing group is either a cluster already,
    or is kept again.

    Args:
        above: similarity minus the threshold for each pair, shape (n, n).
        now: the current grouping.
        bound: items with the same number here are never separated.
    """
    return _keep_improvements(above, now, cluster(above, bound))


def cluster(above: Near, bound: Labels) -> Labels:
    """Cluster by average linkage, most similar first; items with the same number in `bound` start together.

    Only groups with at least one pair above the threshold can merge, so each connected component is clustered
    separately.
    """
    groups = np.arange(len(bound))
    for places in _components(above, bound):
        own = above[np.ix_(places, places)].astype(np.float64)
        first = labels(bound[places].tolist())
        groups[places] = places[_average_linkage(own, first)]
    return groups


def _components(above: Near, bound: Labels) -> Iterable[Labels]:
    """Yield the connected components of the pairs above the threshold, those with at least two items."""
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


def _average_linkage(near: NDArray[np.float64], first: Labels) -> Labels:
    """Return, for each item, the index of the representative of its group.

    Args:
        near: similarity minus the threshold, shape (n, n).
        first: items with the same label start as one group.
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


def _keep_improvements(above: Near, now: Labels, then: Labels) -> Labels:
    """Return the current grouping with those new groups that improve it.

    The value of a grouping is the sum over its pairs of the similarity minus the threshold.
    """
    result, fresh = now.copy(), int(now.max()) + 1
    for places in _overlapping(now, then):
        old, new = now[places], then[places]
        change = (new[:, None] == new[None, :]).astype(np.int8) - (old[:, None] == old[None, :])
        if (above[np.ix_(places, places)] * change).sum(dtype=np.float64) > 2 * _WORTH:
            result[places] = new + fresh
    return labels(result.tolist())


def _overlapping(now: Labels, then: Labels) -> Iterable[Labels]:
    """Return sets of items whose current and new groups overlap."""
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


# Syntheses of a session whose turns were not in threads yet.


def cited_turns(former: Sequence[Synthesis]) -> set[str]:
    """Return the turns cited by syntheses that have no thread yet."""
    return {point.turn_id for one in former if one.thread_id is None for point in _points(one)}


def split_by_thread(former: Sequence[Synthesis], threads: Mapping[str, str]) -> list[Synthesis]:
    """Distribute the syntheses without a thread over the threads of their turns.

    A prompt is placed shortly after it is stored, and a session may be compacted in between. Its synthesis has no
    thread then. It is not read again later, since it may rest on turns from long ago; instead, each of its points moves
    to the thread of its turn.

    Args:
        threads: thread ids by turn; points of other turns stay without a thread.
    """
    found: dict[str | None, Synthesis] = {one.thread_id: one for one in former if one.thread_id is not None}
    for one in (one for one in former if one.thread_id is None):
        homes = list(dict.fromkeys(threads.get(point.turn_id) for point in _points(one))) or [None]
        for home in homes:
            part = _part(one, home, threads, main=home == homes[0])
            found[home] = _merge(part, found[home]) if home in found else part
    return list(found.values())


def drop_turns(one: Synthesis, turns: Collection[str]) -> Synthesis:
    """Return a synthesis without the points of these turns, which are about to be read again."""
    return replace(
        one,
        state=_except(one.state, turns),
        decisions=_except(one.decisions, turns),
        questions=_except(one.questions, turns),
        error=None if one.error and one.error.turn_id in turns else one.error,
    )


def _points(one: Synthesis) -> list[Point]:
    return [*one.state, *one.decisions, *one.questions, *([one.error] if one.error else [])]


def _part(one: Synthesis, home: str | None, threads: Mapping[str, str], *, main: bool) -> Synthesis:
    """Return the part of a synthesis that belongs to a thread; the files go to the thread of the first point."""

    def own(points: Sequence[Point]) -> tuple[Point, ...]:
        return tuple(point for point in points if threads.get(point.turn_id) == home)

    return replace(
        one,
        id=one.id if main else new_id(one.at),
        thread_id=home,
        state=own(one.state),
        decisions=own(one.decisions),
        questions=own(one.questions),
        files=one.files if main else (),
        error=next(iter(own([one.error] if one.error else [])), None),
    )


def _merge(newer: Synthesis, older: Synthesis) -> Synthesis:
    return replace(
        older,
        at=max(newer.at, older.at),
        state=newer.state or older.state,
        decisions=tuple(dict.fromkeys([*newer.decisions, *older.decisions]))[:MOST_DECISIONS],
        questions=tuple(dict.fromkeys([*newer.questions, *older.questions])),
        files=tuple(dict.fromkeys([*newer.files, *older.files]))[:MOST_FILES],
        error=newer.error or older.error,
    )


def _except(points: Sequence[Point], turns: Collection[str]) -> tuple[Point, ...]:
    return tuple(point for point in points if point.turn_id not in turns)


# Regrouping: decide again which prompts of a project belong together, once more is known.

#: Maximum number of prompts (the newest); time and memory grow with the square.
MOST_REGROUPED: Final = 1000
#: Similarity of prompts that a user keeps in two threads, so that they are never merged.
_NEVER: Final = -1e6


@dataclass(frozen=True, kw_only=True, slots=True)
class PlacedPrompt:
    """A prompt that is in a thread.

    Attributes:
        id: id of the turn.
        is_held: a user placed it where it is. A thread title set by a user has the same effect (see `stays`).
        belongs: a model said that it continues this thread.
        apart: threads that it does not belong to, according to a model.
    """

    id: str
    thread: Thread
    is_held: bool = False
    belongs: bool = False
    apart: frozenset[str] = frozenset()

    @property
    def stays(self) -> bool:
        """True if the user wants the prompt where it is."""
        return self.is_held or self.thread.title_by == "user"


@dataclass(frozen=True, kw_only=True, slots=True)
class Regrouping:
    """Prompts that move together.

    Attributes:
        units: ids of the prompts, from one thread or several.
        into: the thread to move them to, which also keeps prompts of its own; None = open a new thread.
        routing: for the log: `join`, or `fork` for a new thread. For a fork, `parent` is the thread that most of them
            came from.
    """

    units: tuple[str, ...]
    into: str | None
    routing: Routing


def regroup(units: Sequence[PlacedPrompt], chances: Near) -> tuple[Regrouping, ...]:
    """Return the moves that bring related prompts together; they can be applied in any order.

    Applied to its own result, it returns no moves.

    A prompt is placed before its reply exists. Once its session is quiet, and other prompts have followed, the same
    probabilities are more reliable. So all prompts are clustered again, and a prompt may leave a thread or join one.

    Threads keep their ids: a group continues the thread that most of it was in. A new grouping is only taken if it is
    better than the current one, so repeating it changes nothing. Whatever a user named, moved, split or merged stays in
    place. A confident answer of a model holds too: the prompt stays with the first prompt of the thread, or is never
    grouped with that thread.

    Args:
        units: prompts of one user and project (with isolation: one agent), in the order in which they were said.
        chances: probability that two prompts are of one thread, shape (n, n).
    """
    if len(units) < 2:
        return ()
    above = (chances - np.float32(SAME_THREAD_THRESHOLD)).astype(np.float32)
    np.fill_diagonal(above, 0.0)
    _forbid_merges(above, units)
    now = labels([one.thread.id for one in units])
    return tuple(_moves(units, improved_grouping(above, now, _must_link(units)), chances))


def _must_link(units: Sequence[PlacedPrompt]) -> Labels:
    """Return labels of the items to keep together.

    These are the prompts that a user placed in a thread, and prompts that a model confirmed, with the first prompt of
    their thread.
    """
    first: dict[str, int] = {}
    for place, one in enumerate(units):
        first.setdefault(one.thread.id, place)
    leads = [first[one.thread.id] if one.belongs and not one.stays else place for place, one in enumerate(units)]
    return labels([units[place].thread.id if units[place].stays else place for place in leads])


def _forbid_merges(above: Near, units: Sequence[PlacedPrompt]) -> None:
    """Set the similarity of pairs that a user or a model separated to `_NEVER`."""
    held = [place for place, one in enumerate(units) if one.stays]
    threads = labels([units[place].thread.id for place in held])
    apart = threads[:, None] != threads[None, :]
    above[np.ix_(held, held)] = np.where(apart, _NEVER, above[np.ix_(held, held)])
    for place, one in enumerate(units):
        if strange := one.apart - {one.thread.id}:
            others = [other for other, it in enumerate(units) if it.thread.id in strange]
            above[place, others] = above[others, place] = _NEVER


def _moves(units: Sequence[PlacedPrompt], groups: Labels, chances: Near) -> Iterable[Regrouping]:
    """Yield the moves; each group continues the thread that most of its prompts were in (the oldest on a tie)."""
    members: defaultdict[int, list[int]] = defaultdict(list)
    for place, group in enumerate(groups.tolist()):
        members[group].append(place)
    threads = {one.thread.id: one.thread for one in units}
    claims = [
        (not any(units[place].stays for place in places if units[place].thread.id == id_), -count, threads[id_], group)
        for group, places in members.items()
        for id_, count in Counter(units[place].thread.id for place in places).items()
    ]
    goes_on: dict[int, str] = {}
    for _, _, thread, group in sorted(claims, key=lambda one: (one[0], one[1], one[2].opened_at, one[2].id, one[3])):
        if group not in goes_on and thread.id not in goes_on.values():
            goes_on[group] = thread.id
    for group, places in members.items():
        into = goes_on.get(group)
        moving = [place for place in places if units[place].thread.id != into]
        if moving:
            yield _regrouping(units, moving, places, into, chances)


def _regrouping(
    units: Sequence[PlacedPrompt], moving: Sequence[int], group: Sequence[int], into: str | None, chances: Near
) -> Regrouping:
    [(former, _)] = Counter(units[place].thread.id for place in moving).most_common(1)
    staying = [place for place in group if place not in set(moving)] or list(group)
    similarity = min(1.0, max(0.0, float(chances[np.ix_(moving, staying)].mean())))
    nearer = "what is there" if into else "each other"
    return Regrouping(
        units=tuple(units[place].id for place in moving),
        into=into,
        routing=Routing(
            action="join" if into else "fork",
            thread_id=into,
            parent=None if into else former,
            similarity=similarity,
            weighed=(),
            reason=f"With all that was said since, it is nearer to {nearer} than to the rest, at {similarity:.2f}.",
        ),
    )


# Cache of whitening transforms, one per embedding space and user, computed from stored vectors.
#
# A transform is fitted to the user's newest prompts and the bundled sample. It is recomputed when the number of
# prompts has grown by 40 %, and after every erasure, so that it holds nothing of erased content. The sample is
# embedded once per space and process, in the background, when the first prompt with a vector is placed. Until there
# is a transform, only words are compared.
#
# The cache also holds the vectors of prompts with their replies, least recently used first out.

_LOG = logging.getLogger(__name__)
