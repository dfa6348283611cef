"""How likely two prompts are of one thread, as learned from labelled talk.

Every pair of a project's prompts gets a probability. A prompt by itself says little, so it is read together with its
reply and with its surroundings. At first the surroundings of a prompt are what its session said around it, as far as
the talk seems to have gone on from one prompt to the next. From these follow the first probabilities, and with them the
surroundings of the second round: whatever is likely of the same thread, in other sessions too.

`bench/fit_threads.py` makes the weights with the functions of this module: one set with vectors, and one for where
there are none, of words alone. Pure: no database, no embedder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from typing import Final, Literal
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from filrouge.extraction.vocabulary import content
from filrouge.ports import Vector

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
        vectors = _unit(around @ read.exchanges)
        words = _unit(np.minimum(around @ (read.rare > 0.0), 1.0) * read.rare.max(axis=0))
        near, half = vectors @ vectors.T, vectors @ read.exchanges.T
        others = np.asarray(np.where(same, -1.0, near), dtype=np.float32)
        nearest = np.asarray(np.sort(others, axis=1)[:, -_NEAREST:].clip(0.0).mean(axis=1), dtype=np.float32)
        yield near
        yield np.asarray((half + half.T) / 2, dtype=np.float32)
        yield words @ words.T
        yield nearest[:, None] + nearest[None, :]
    prompts = _unit(chances @ read.prompts)
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
        exchanges=_unit(prompts + wholes),
        prompts=prompts,
        wholes=wholes,
        words=_unit(rare),
        asked=_unit(_by_rarity(asked, having, rarity)),
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
    table[[one is not None for one in vectors]] = _unit(stacked - stacked.sum(axis=0) / (len(there) + _MORE))
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


def _unit(table: Table) -> Table:
    lengths = np.linalg.norm(table, axis=1, keepdims=True)
    return np.asarray(table / np.where(lengths > 0.0, lengths, 1.0), dtype=np.float32)


def _logistic(odds: Table) -> Table:
    return np.asarray(1.0 / (1.0 + np.exp(-odds)), dtype=np.float32)


@cache
def _stored() -> Learned:
    with resources.files(__package__ or "").joinpath(FILE).open("rb") as opened, np.load(opened) as file:
        return {name: file[name].astype(np.float32) for name in file.files}
