"""Which prompts belong to one thread: signs of pairs, their weights, and groups of prompts.

Learned from labelled talk by `bench/fit_threads.py`. Pure: no database, no file.
"""

from __future__ import annotations

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
from filrouge.threads.models import Action, Point, Routing, Synthesis, Thread, ThreadState, Weighed
from filrouge.threads.synthesis import MOST_DECISIONS, MOST_FILES

# The ground that all talk stands on, which is taken out before two pieces of talk are compared.
#
# Prompts of one person are alike before they say anything: the same language, the same manner, the same words of
# asking. In the bundled model's space that makes the median of unrelated prompts .83 to .91, and the centroid of a
# few unrelated ones nearer still. So the mean of all prompts is taken off, and the directions in which they all
# differ among themselves are flattened (whitening with shrinkage); what remains is what they are about. 0 is then the
# median of unrelated pairs and 1 the same text, as MEM-7 has it, of this person's talk in place of everybody's.
#
# A ground is derived from stored vectors and made anew as they grow; the bundled sample stands in while there are
# few.

#: Vectors without which there is no ground, and the newest that are worth reading.
LEAST, MOST = 64, 4000
#: How far the directions are levelled: 0 = all alike, the more the less; it grows where there are few vectors.
_SHRINKAGE, _FEW = 0.5, 200.0

Square = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Ground:
    """What a set of vectors has in common.

    Attributes:
        mean: shape (dimension,).
        levels: shape (dimension, dimension).
    """

    mean: Vector
    levels: Square

    @classmethod
    def of(cls, vectors: Vectors) -> Ground | None:
        """The ground of at least `LEAST` vectors, None of fewer.

        Args:
            vectors: unit vectors of a space, shape (n, dimension): the user's prompts, and the sample's texts.
        """
        if len(vectors) < LEAST:
            return None
        mean = vectors.mean(axis=0, dtype=np.float64)
        spread = vectors - mean
        sizes, directions = np.linalg.eigh(spread.T @ spread / len(vectors))
        sizes = np.maximum(sizes, 0.0)
        average = float(sizes.mean()) or 1.0
        scales = 1.0 / np.sqrt(sizes / average + _SHRINKAGE * (1.0 + _FEW / len(vectors)))
        return cls(mean.astype(np.float32), ((directions * scales) @ directions.T).astype(np.float32))

    def off(self, vectors: Vectors) -> Vectors:
        """What remains of vectors without their ground, of length 1; shape (n, dimension)."""
        rest = (vectors - self.mean) @ self.levels
        lengths = np.linalg.norm(rest, axis=1, keepdims=True)
        return np.asarray(rest / np.where(lengths > 0.0, lengths, 1.0), dtype=np.float32)


# One vector for what has several: for a prompt of several windows, and for a thread's prompts.
#
# A thread's vector is derived: it can be made again at any time from what is stored, and in another space it is
# another. Others look the thread up by it.


def prompt_vector(windows: Vectors | None) -> Vector | None:
    """The mean direction of a prompt's windows, of length 1; None where it has none."""
    return None if windows is None or not len(windows) else _unit(windows.mean(axis=0))


def thread_vector(prompts: Sequence[Vectors]) -> Vector | None:
    """The mean direction of a thread's prompts, of length 1; None where no prompt has vectors.

    Args:
        prompts: of each routed turn its windows, shape (windows, dimension), of length 1.
    """
    there = [one for windows in prompts if (one := prompt_vector(windows)) is not None]
    return _unit(np.mean(there, axis=0)) if there else None


def _unit(vector: Vector) -> Vector:
    length = float(np.linalg.norm(vector))
    return np.asarray(vector / length if length else vector, dtype=np.float32)


# How likely two prompts are of one thread, as learned from labelled talk.
#
# Every pair of a project's prompts gets a probability. A prompt by itself says little, so it is read together with
# its reply and with its surroundings. At first the surroundings of a prompt are what its session said around it, as
# far as the talk seems to have gone on from one prompt to the next. From these follow the first probabilities, and
# with them the surroundings of the second round: whatever is likely of the same thread, in other sessions too.
#
# `bench/fit_threads.py` makes the weights with the functions of this module: one set with vectors, and one for where
# there are none, of words alone. Pure: no database, no embedder.

FILE: Final = "pairs.npz"
#: How rare words are in talk is known by a hash of so many values; of one project, so many words are told apart.
BUCKETS, _COLUMNS = 4096, 2048
#: Letters of a word that are compared: languages inflect at the end.
_ROOT: Final = 6
#: The mean of a project's vectors is taken off them as if there were so many more vectors of mean zero: of the first
#: few prompts little is known of what they have in common.
_MORE: Final = 8
#: Prompts back that a prompt is held against to see whether it goes on with them.
_BACK: Final = 4
#: The nearest of other sessions, which tell how near is near for a prompt.
_NEAREST: Final = 6
#: How often the surroundings are made.
ROUNDS: Final = 2

Kind = Literal["vectors", "words"]
Learned = Mapping[str, NDArray[np.float32]]
#: 32-bit floats: of every two prompts, shape (n, n), of every prompt, shape (n,), or a row for each prompt.
Table = NDArray[np.float32]
Places = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Exchange:
    """A prompt and the reply to it.

    Attributes:
        session: in which it was said.
        prompt: the unit vector of the prompt, with the ground taken off; None where there is none.
        whole: the same of prompt and reply as one text; of the prompt alone while there is no reply.
        said: the roots of the words of the prompt.
        answered: those of the reply.
        letters: how long the prompt is.
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
    """Every two prompts, each table of shape (n, n).

    Attributes:
        chances: the probability that they are of one thread; 1 on the diagonal.
        alike: the cosine of their exchanges without what the project has in common; NaN where words alone count.
        words: the share of their words that both have, the rarer the more, in [0, 1].
    """

    chances: Table
    alike: Table
    words: Table


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Read:
    """Exchanges as tables, a row each, unit vectors or zero.

    Attributes:
        exchanges: what prompt and whole say together; `prompts` and `wholes`: each by itself.
        words: of prompt and reply, by rarity; `asked`: of the prompt.
        rare: the words again, not of unit length.
        sessions: the number of the session, in their order, and the `places` in it.
        letters, own, asks: how long the prompt is, its number of words, whether the reply asks.
    """

    exchanges: Table
    prompts: Table
    wholes: Table
    words: Table
    asked: Table
    rare: Table
    sessions: Places
    places: Places
    letters: Table
    own: Table
    asks: Table


def compared(exchanges: Sequence[Exchange], kind: Kind) -> Compared:
    """Hold every two prompts of a project against each other.

    Args:
        exchanges: in the order in which they were said.
        kind: `words` where vectors do not count.
    """
    if not exchanges:
        nothing = np.empty((0, 0), dtype=np.float32)
        return Compared(nothing, nothing, nothing)
    weights = _stored()
    read = read_in(exchanges, weights["rarity"])
    chances = going_on(read, weights, kind)
    for number in range(ROUNDS):
        chances = weighed(read, chances, weights, f"{kind}.{number}")
    alike = read.exchanges @ read.exchanges.T if kind == "vectors" else np.full_like(chances, np.nan)
    return Compared(chances=chances, alike=alike, words=read.words @ read.words.T)


def roots(texts: Iterable[str]) -> frozenset[str]:
    """The beginnings of the words that say something, in their one form for all languages that are bridged."""
    return frozenset(root for text in texts for root in _roots(text))


@lru_cache(maxsize=16384)
def _roots(text: str) -> frozenset[str]:
    return frozenset(word[:_ROOT] if word.isalpha() else word for word in content(text) if len(word) > 2)


# --- whether talk goes on from one prompt to the next


def going_on(read: Read, weights: Learned, kind: Kind) -> Table:
    """The probability that between two prompts of a session the talk never turned, shape (n, n); 0 across sessions."""
    later, before = followers(read)
    stays = np.zeros(len(read.sessions), dtype=np.float32)
    if len(later):
        given = weights[f"{kind}.on"]
        stays[later] = _logistic(continuing(read, later, before) @ given[:-1] + given[-1])
    chances = np.zeros((len(stays), len(stays)), dtype=np.float32)
    for session in np.unique(read.sessions):
        own = np.flatnonzero(read.sessions == session)
        steps = np.cumsum(np.log(np.maximum(stays[own], 1e-4)))
        chances[np.ix_(own, own)] = np.exp(-np.abs(steps[:, None] - steps[None, :]))
    return chances


def followers(read: Read) -> tuple[Places, Places]:
    """The prompts before which there is one in their session, and those before them."""
    last: dict[int, int] = {}
    pairs = list[tuple[int, int]]()
    for place, session in enumerate(read.sessions.tolist()):
        if session in last:
            pairs.append((place, last[session]))
        last[session] = place
    found = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def continuing(read: Read, later: Places, before: Places) -> Table:
    """Signs that prompts go on with those before them, a row for each prompt."""
    return np.stack([*_signs_of_going_on(read, later, before)], axis=1).astype(np.float32)


def _signs_of_going_on(read: Read, later: Places, before: Places) -> Iterator[Table]:
    def cosines(left: Table, right: Table) -> Table:
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


# --- whether two prompts are of one thread


def weighed(read: Read, chances: Table, weights: Learned, name: str) -> Table:
    """One round: the probabilities that follow from those before, by the weights of this name."""
    within, across = weights[f"{name}.within"], weights[f"{name}.across"]
    same = _same(read)
    odds: Table = np.zeros(chances.shape, dtype=np.float32)
    for place, sign in enumerate(signs(read, chances)):
        odds = np.asarray(odds + np.where(same, within[place], across[place]) * sign, dtype=np.float32)
    odds = np.asarray(odds + np.where(same, within[-1], across[-1]), dtype=np.float32)
    found = _logistic(odds)
    np.fill_diagonal(found, 1.0)
    return found


def signs(read: Read, chances: Table) -> Iterator[Table]:
    """Signs that two prompts are of one thread, where each has these surroundings; shape (n, n) each."""
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
    for power in (1.0, 0.5):  # of a few prompts all signs are weaker
        yield np.full(chances.shape, len(chances) ** -power, dtype=np.float32)


def _same(read: Read) -> NDArray[np.bool_]:
    return read.sessions[:, None] == read.sessions[None, :]


# --- exchanges as tables


def read_in(exchanges: Sequence[Exchange], rarity: Table) -> Read:
    """Exchanges as tables.

    Args:
        rarity: how rare the words of each bucket are in talk, shape (`BUCKETS`,).
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
    return Read(
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
    """Where a word counts, of `BUCKETS`. A message may hold half a character, so words may too."""
    return crc32(word.encode("utf-8", "surrogatepass")) % BUCKETS


def _centred(vectors: Sequence[Vector | None]) -> Table:
    """Vectors less what those of the project have in common; zero where there is none."""
    there = [one for one in vectors if one is not None]
    if not there:
        return np.zeros((len(vectors), 1), dtype=np.float32)
    stacked = np.stack(there).astype(np.float32)
    table = np.zeros((len(vectors), stacked.shape[1]), dtype=np.float32)
    table[[one is not None for one in vectors]] = _pairs_unit(stacked - stacked.sum(axis=0) / (len(there) + _MORE))
    return table


def _by_rarity(words: Sequence[frozenset[str]], having: Mapping[str, int], rarity: Table) -> Table:
    """Words by how rare each is in the project and in talk; shape (n, columns)."""
    columns = {word: place % _COLUMNS for place, word in enumerate(having)}
    weights = {word: np.log(1.0 + len(words) / count) * rarity[bucket(word)] for word, count in having.items()}
    table = np.zeros((len(words), max(1, min(len(columns), _COLUMNS))), dtype=np.float32)
    for place, own in enumerate(words):
        for word in own:
            table[place, columns[word]] += weights[word]
    return table


def _pairs_unit(table: Table) -> Table:
    lengths = np.linalg.norm(table, axis=1, keepdims=True)
    return np.asarray(table / np.where(lengths > 0.0, lengths, 1.0), dtype=np.float32)


def _logistic(odds: Table) -> Table:
    return np.asarray(1.0 / (1.0 + np.exp(-odds)), dtype=np.float32)


@cache
def _stored() -> Learned:
    with resources.files(__package__ or "").joinpath(FILE).open("rb") as opened, np.load(opened) as file:
        return {name: file[name].astype(np.float32) for name in file.files}


# Which thread a prompt belongs to (THR-2, THR-3): it goes on in one, wakes one, leaves one, or opens one.
#
# A prompt is held against the prompts of every thread, pair by pair, and the mean of the probabilities that the two
# are of one thread counts (average linkage, as in `regrouping`): one prompt that is alike by chance draws nothing in.

#: From this mean probability on two groups are of one thread. Chosen on the training part of the talk.
BAND: Final = 0.28
#: Between these a model would be asked about a suspended or archived thread.
BORDERLINE, SURE = 0.18, 0.36
#: Candidates that are logged: those above this, or at least the best few (THR-8).
LOGGED, LOGGED_LEAST = 0.3, 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """What is to be routed: one prompt.

    Attributes:
        topics: as `subjects` gives them.
        own: the thread that its session is in, if it is in one.
    """

    text: str
    topics: tuple[str, ...]
    at: datetime
    own: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Known:
    """A thread that a prompt may belong to.

    Attributes:
        state: its effective state, which a sweep may not have written yet.
        near: the prompt held against prompts of the thread, a row each: the probability that they are of one thread,
            how alike the exchanges are (NaN where words alone count), and the share of words; empty where none of its
            prompts was looked at.
    """

    thread: Thread
    state: ThreadState
    near: NDArray[np.float32]


def route(item: Item, known: Sequence[Known]) -> Routing:
    """Decide where a prompt goes, without a model.

    Args:
        known: every live thread that may hold it: of its project, and with isolation of its agent.
    """
    found = sorted((_weighed(item, one) for one in known if len(one.near)), key=lambda one: -one.similarity)
    own = next((one for one in found if one.own), None)
    best = found[0] if found else None
    chosen = best if best is not None and best.similarity >= BAND else None
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


def _weighed(item: Item, one: Known) -> Weighed:
    chance, alike, words = one.near.mean(axis=0, dtype=np.float64).tolist()
    return Weighed(
        thread_id=one.thread.id,
        state=one.state,
        embedding=None if math.isnan(alike) else alike,
        topics=words,
        exact=not set(item.topics).isdisjoint(one.thread.topics),
        own=one.thread.id == item.own,
        similarity=chance,
    )


def _reason(chosen: Weighed | None, best: Weighed | None, count: int) -> str:
    if best is None:
        return "There is no thread yet."
    if chosen is None:
        return f"None of {count} threads is near enough; the nearest has {best.similarity:.2f}."
    whose = "its session's thread" if chosen.own else f"the nearest of {count} threads"
    return f"It is with {whose}, at {chosen.similarity:.2f}."


# Groups of whatever has similarities: average linkage, and when a new grouping is better than the old.
#
# Numbers in, numbers out; what is grouped, and why, stands in `regrouping`.

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


# What was said of a session before its turns were in threads, divided among those they came into.
#
# Prompts are placed a moment after they are stored, and a session may be compacted within that moment. What stands of
# it then is of no thread yet. It is not read anew for that, since much of it may rest on turns that are long ago:
# each of its points goes where its turn went.


def cited(former: Sequence[Synthesis]) -> set[str]:
    """The turns on which what is of no thread yet rests."""
    return {point.turn_id for one in former if one.thread_id is None for point in _points(one)}


def divided(former: Sequence[Synthesis], threads: Mapping[str, str]) -> list[Synthesis]:
    """The syntheses of a session, those of no thread yet by the threads of their turns.

    Args:
        threads: of the turns that are in one; what rests on others stays as it is.
    """
    found: dict[str | None, Synthesis] = {one.thread_id: one for one in former if one.thread_id is not None}
    for one in (one for one in former if one.thread_id is None):
        homes = list(dict.fromkeys(threads.get(point.turn_id) for point in _points(one))) or [None]
        for home in homes:
            part = _part(one, home, threads, main=home == homes[0])
            found[home] = _both(part, found[home]) if home in found else part
    return list(found.values())


def without(one: Synthesis, turns: Collection[str]) -> Synthesis:
    """A synthesis without what rests on these turns: they are about to be read again."""
    return replace(
        one,
        state=_but(one.state, turns),
        decisions=_but(one.decisions, turns),
        questions=_but(one.questions, turns),
        error=None if one.error and one.error.turn_id in turns else one.error,
    )


def _points(one: Synthesis) -> list[Point]:
    return [*one.state, *one.decisions, *one.questions, *([one.error] if one.error else [])]


def _part(one: Synthesis, home: str | None, threads: Mapping[str, str], *, main: bool) -> Synthesis:
    """What of a synthesis belongs to a thread; the files go with its first point."""

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


def _both(newer: Synthesis, older: Synthesis) -> Synthesis:
    return replace(
        older,
        at=max(newer.at, older.at),
        state=newer.state or older.state,
        decisions=tuple(dict.fromkeys([*newer.decisions, *older.decisions]))[:MOST_DECISIONS],
        questions=tuple(dict.fromkeys([*newer.questions, *older.questions])),
        files=tuple(dict.fromkeys([*newer.files, *older.files]))[:MOST_FILES],
        error=newer.error or older.error,
    )


def _but(points: Sequence[Point], turns: Collection[str]) -> tuple[Point, ...]:
    return tuple(point for point in points if point.turn_id not in turns)


# Which prompts of a project belong together, decided again when more is known than at the moment they came.
#
# A prompt is placed before its reply is there. When its session has fallen silent, and when others have come, the
# same probabilities say more. So all prompts are grouped anew, the likeliest two first, until no two groups are
# likely enough (average linkage), and a prompt may leave a thread as well as join one.
#
# Threads keep their ids: a group goes on as the thread that most of it was in. It is stable: a grouping is only taken
# where it is better than what is there, so that doing it twice changes nothing. What a user named, moved, split or
# merged stays where it is. What a model said of a prompt and a thread holds: the prompt stays with the thread's
# beginning, or is never brought together with that thread.

#: Prompts that are worth it, the newest: time and room grow with their square.
MOST_REGROUPED: Final = 1000
#: Nothing brings prompts together that a user holds in two threads.
_NEVER: Final = -1e6


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """A prompt that is in a thread.

    Attributes:
        id: of the turn.
        is_held: a user put it where it is; so it is as well where a user named the thread.
        belongs: a model said that it goes on with this thread.
        apart: threads that it does not belong to, as a model said.
    """

    id: str
    thread: Thread
    is_held: bool = False
    belongs: bool = False
    apart: frozenset[str] = frozenset()

    @property
    def stays(self) -> bool:
        """It is where a user wants it."""
        return self.is_held or self.thread.title_by == "user"


@dataclass(frozen=True, kw_only=True, slots=True)
class Regrouping:
    """Prompts that go elsewhere together.

    Attributes:
        units: their ids, of one thread or of several.
        into: the thread that takes them, which keeps prompts of its own; None = one that is to be opened for these.
        routing: for the log: `join`, or `fork` where a thread is to be opened; `parent` is then the thread that most of
            them were in.
    """

    units: tuple[str, ...]
    into: str | None
    routing: Routing


def regroup(units: Sequence[Unit], chances: Near) -> tuple[Regrouping, ...]:
    """The moves that bring together what belongs together; in which order they are made is all the same.

    Done to its own result it gives none.

    Args:
        units: prompts of one user and project (with isolation: one agent), in the order in which they were said.
        chances: the probability that two are of one thread, shape (n, n).
    """
    if len(units) < 2:
        return ()
    above = (chances - np.float32(BAND)).astype(np.float32)
    np.fill_diagonal(above, 0.0)
    _hold(above, units)
    now = labels([one.thread.id for one in units])
    return tuple(_moves(units, settled(above, now, _bound(units)), chances))


def _bound(units: Sequence[Unit]) -> Labels:
    """What is never parted: what a user holds in a thread, and a thread's beginning with what a model said goes on."""
    first: dict[str, int] = {}
    for place, one in enumerate(units):
        first.setdefault(one.thread.id, place)
    leads = [first[one.thread.id] if one.belongs and not one.stays else place for place, one in enumerate(units)]
    return labels([units[place].thread.id if units[place].stays else place for place in leads])


def _hold(above: Near, units: Sequence[Unit]) -> None:
    """What a user holds in two threads never comes together, nor what a model says does not belong together."""
    held = [place for place, one in enumerate(units) if one.stays]
    threads = labels([units[place].thread.id for place in held])
    apart = threads[:, None] != threads[None, :]
    above[np.ix_(held, held)] = np.where(apart, _NEVER, above[np.ix_(held, held)])
    for place, one in enumerate(units):
        if strange := one.apart - {one.thread.id}:
            others = [other for other, it in enumerate(units) if it.thread.id in strange]
            above[place, others] = above[others, place] = _NEVER


def _moves(units: Sequence[Unit], groups: Labels, chances: Near) -> Iterable[Regrouping]:
    """What has to move, where each group goes on as the thread that most of it was in, of equal ones the oldest."""
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
    units: Sequence[Unit], moving: Sequence[int], group: Sequence[int], into: str | None, chances: Near
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
