"""How near a prompt is to a thread (THR-2).

0.7 of the calibrated similarity of their vectors, 0.3 of the share of the prompt's topics that the thread has, and 0.15
where a topic is the very same, at most 1 in all. Where one of the two has no vector, the words of the thread's title
and topics stand in for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np

from filrouge.model.space import EmbeddingSpace
from filrouge.model.thread import Thread, ThreadState, Weighed
from filrouge.ports import Vector
from filrouge.understand.words import content, topic

EMBEDDING, TOPICS, EXACT = 0.7, 0.3, 0.15
#: What the thread that its session was in is nearer by.
OWN: Final = 0.15


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """What is to be routed: one prompt.

    Attributes:
        topics: as `subjects` gives them.
        vector: as `prompt_vector` makes it; None where there is none yet.
        own: the thread that its session is in, if it is in one.
    """

    text: str
    topics: tuple[str, ...]
    vector: Vector | None
    at: datetime
    own: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """A thread that a prompt may belong to.

    Attributes:
        state: its effective state, which a sweep may not have written yet.
        vector: as `thread_vector` makes it, in the space of the prompt's; None where there is none.
    """

    thread: Thread
    state: ThreadState
    vector: Vector | None


def weighed(item: Item, known: Sequence[Known], space: EmbeddingSpace) -> tuple[Weighed, ...]:
    """The prompt held against every thread, best first."""
    found = [_weighed(item, one, space) for one in known]
    return tuple(sorted(found, key=lambda one: (-one.similarity, one.thread_id)))


def _weighed(item: Item, known: Known, space: EmbeddingSpace) -> Weighed:
    own = item.own == known.thread.id
    embedding = _embedding(item.vector, known.vector, space)
    theirs = _words((*known.thread.topics, known.thread.title) if embedding is None else known.thread.topics)
    common = [one for one in item.topics if _words((one,)) <= theirs]
    share = len(common) / len(item.topics) if item.topics else 0.0
    exact = not set(item.topics).isdisjoint(known.thread.topics)
    weight = 1.0 if embedding is None else TOPICS
    similarity = EMBEDDING * (embedding or 0.0) + weight * share + EXACT * exact + OWN * own
    return Weighed(
        thread_id=known.thread.id,
        state=known.state,
        embedding=embedding,
        topics=share,
        exact=exact,
        own=own,
        similarity=min(1.0, similarity),
    )


def _embedding(one: Vector | None, other: Vector | None, space: EmbeddingSpace) -> float | None:
    return None if one is None or other is None else space.calibrated(float(np.dot(one, other)))


def _words(texts: Sequence[str]) -> frozenset[str]:
    return frozenset(topic(content(" ".join(texts))))
