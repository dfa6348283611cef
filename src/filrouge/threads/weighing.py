"""How near a prompt, or a whole thread, is to other threads (THR-2).

0.7 of the similarity of their vectors, 0.3 of the topics that both have, and 0.15 where a topic of several words is the
very same, at most 1 in all. Topics count by how rare their words are among the threads compared: "recipe" is in many,
"sourdough" in one. A thread is compared part by part, a part being what was said of it in one session, and the mean is
taken: so a long thread is no nearer to everything than a short one, and what joins it does not draw the next one after
it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from filrouge.model.space import EmbeddingSpace
from filrouge.model.thread import Thread, ThreadState, Weighed
from filrouge.ports import Vector, Vectors
from filrouge.threads.ground import Ground
from filrouge.understand.words import content

EMBEDDING, TOPICS, EXACT = 0.7, 0.3, 0.15
#: Letters of a word that are compared: languages inflect at the end.
_ROOT: Final = 6
Table = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """What was said of one thread in one session.

    Attributes:
        vector: as `vectors.mean_vector` makes it of its prompts; None where none has one.
        topics: of its prompts, as `subjects` gives them.
    """

    vector: Vector | None
    topics: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """What is to be routed: one prompt.

    Attributes:
        topics: as `subjects` gives them.
        vector: as `vectors.prompt_vector` makes it; None where there is none yet.
        own: the thread that its session is in, if it is in one.
    """

    text: str
    topics: tuple[str, ...]
    vector: Vector | None
    at: datetime
    own: str | None = None

    @property
    def part(self) -> Part:
        """The prompt by itself."""
        return Part(vector=self.vector, topics=self.topics)


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """A thread that a prompt may belong to.

    Attributes:
        state: its effective state, which a sweep may not have written yet.
        vector: as `vectors.thread_vector` makes it, in the space of the prompt's; None where there is none.
        parts: as `vectors.parts_of` makes them; where there are none, the thread is one part of its vector and topics.
    """

    thread: Thread
    state: ThreadState
    vector: Vector | None = None
    parts: tuple[Part, ...] = ()

    @property
    def compared(self) -> tuple[Part, ...]:
        """What it is compared by; never empty. Its title stands in where there is no vector."""
        if self.parts:
            return self.parts
        words = self.thread.topics if self.vector is not None else (*self.thread.topics, self.thread.title.lower())
        return (Part(vector=self.vector, topics=words),)


def weighed(
    ours: Sequence[Part],
    known: Sequence[Known],
    space: EmbeddingSpace,
    ground: Ground | None,
    *,
    own: str | None = None,
    prior: float = 0.0,
) -> tuple[Weighed, ...]:
    """Parts held against every thread, best first.

    Args:
        ground: None while nothing is known of it; cosines are then read as the space is calibrated.
        own: the thread that is nearer by `prior`, since the session is in it.
    """
    if not known:
        return ()
    theirs = [part for one in known for part in one.compared]
    starts = np.cumsum([0, *(len(one.compared) for one in known)])[:-1]
    embedding, seen = _embeddings(ours, theirs, space, ground)
    topics, exact = _topics(ours, theirs)
    found: list[Weighed] = []
    each = _together(embedding, seen, topics, exact)
    for one, means in zip(known, _means((each, embedding, topics, exact, seen), starts), strict=True):
        similarity, alike, shared, same, both = means
        found.append(
            Weighed(
                thread_id=one.thread.id,
                state=one.state,
                embedding=alike if both else None,
                topics=shared,
                exact=same > 0.0,
                own=one.thread.id == own,
                similarity=min(1.0, max(0.0, similarity + prior * (one.thread.id == own))),
            )
        )
    return tuple(sorted(found, key=lambda one: (-one.similarity, one.thread_id)))


def _together(embedding: Table, seen: Table, topics: Table, exact: Table) -> Table:
    """The formula; without vectors on both sides, topics stand in for them."""
    return np.where(seen > 0.0, EMBEDDING * embedding, EMBEDDING * topics) + TOPICS * topics + EXACT * exact


def _means(tables: Sequence[Table], starts: NDArray[np.int64]) -> list[tuple[float, ...]]:
    """The mean of each table over our parts and each thread's parts, thread by thread."""
    width = tables[0].shape[1]
    counts = np.diff([*starts, width])
    columns = [np.add.reduceat(table.mean(axis=0, dtype=np.float64), starts) / counts for table in tables]
    return [tuple(float(value) for value in row) for row in np.stack(columns, axis=1)]


def _embeddings(
    ours: Sequence[Part], theirs: Sequence[Part], space: EmbeddingSpace, ground: Ground | None
) -> tuple[Table, Table]:
    """Similarities of every two parts, and where there are vectors to be compared (1 or 0)."""
    seen = np.outer([one.vector is not None for one in ours], [one.vector is not None for one in theirs])
    if not seen.any():
        return np.zeros(seen.shape), seen.astype(np.float64)
    some = next(one.vector for one in ours if one.vector is not None)
    left, right = (_stacked(parts, len(some)) for parts in (ours, theirs))
    if ground is not None:
        alike = ground.off(left) @ ground.off(right).T
    else:
        cosines = left @ right.T
        alike = np.vectorize(space.calibrated, otypes=[np.float64])(cosines)
    return np.where(seen, alike, 0.0), seen.astype(np.float64)


def _stacked(parts: Sequence[Part], dimension: int) -> Vectors:
    nothing = np.zeros(dimension, dtype=np.float32)
    return np.stack([nothing if one.vector is None else one.vector for one in parts])


def _topics(ours: Sequence[Part], theirs: Sequence[Part]) -> tuple[Table, Table]:
    """What every two parts share of their topics' words, weighed by rarity, in [0, 1]; and where a topic is the same.

    The cosine of the weights: common ones over the geometric mean of what each side extracted. The same single word is
    no more than a shared word ("recipe" is in many threads); the same topic of two words or three is.
    """
    both = [*ours, *theirs]
    words = [roots(one.topics) for one in both]
    having = Counter(word for own in words for word in own)
    places = {word: place for place, word in enumerate(having)}
    table = np.zeros((len(both), max(1, len(places))))
    weights = np.asarray([math.log(1.0 + len(both) / count) for count in having.values()])
    columns = [places[word] for own in words for word in own]
    if columns:
        table[np.repeat(np.arange(len(words)), list(map(len, words))), columns] = weights[columns]
    lengths = np.linalg.norm(table, axis=1, keepdims=True)
    table /= np.where(lengths > 0.0, lengths, 1.0)
    share = table[: len(ours)] @ table[len(ours) :].T
    named = [frozenset(topic for topic in one.topics if " " in topic) for one in both]
    exact = [[not one.isdisjoint(other) for other in named[len(ours) :]] for one in named[: len(ours)]]
    return share, np.asarray(exact, dtype=np.float64)


@lru_cache(maxsize=16384)
def roots(topics: tuple[str, ...]) -> frozenset[str]:
    """The beginnings of the words of topics, in their one form for all languages that are bridged."""
    return frozenset(_root(word) for word in _words(topics))


def _words(topics: Iterable[str]) -> Iterable[str]:
    return (word for topic in topics for word in content(topic) if len(word) > 2)


def _root(word: str) -> str:
    return word[:_ROOT] if word.isalpha() else word
