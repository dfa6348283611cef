"""What a prompt is held against: the threads of its place, with the parts that they are compared by.

All that are active or suspended, and of the archived ones the nearest, above the ground that the prompt is compared on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

import numpy as np

from filrouge.app.thread_upkeep import swept
from filrouge.model.thread import Thread
from filrouge.ports import Tx, Vector, Vectors
from filrouge.store.thread_traces import ThreadVectors
from filrouge.store.threads import ThreadPlace, Threads
from filrouge.threads.ground import Ground
from filrouge.threads.vectors import MOST_PARTS
from filrouge.threads.weighing import Known, Part

#: Archived threads that a prompt is held against, the nearest.
_NEAREST: Final = 8


def candidates(
    tx: Tx, where: ThreadPlace, others: Iterable[str], now: datetime, mode: str, space_id: str
) -> dict[str, Known]:
    """Every thread that a prompt may belong to, as it is at that moment, by id.

    Args:
        others: threads that count too, whatever their state: the nearest archived ones, the one the session is in.
    """
    live = {thread.id: thread for thread in swept(tx, where, now, mode)}
    beside = [id_ for id_ in dict.fromkeys(others) if id_ not in live]
    there = live | {thread.id: thread for thread in Threads(tx).some(beside) if thread.merged_into is None}
    return known_of(tx, list(there.values()), space_id)


def known_of(tx: Tx, threads: Sequence[Thread], space_id: str) -> dict[str, Known]:
    """Threads as they are compared, by id."""
    parts = ThreadVectors(tx).parts([one.id for one in threads], space_id)
    return {
        one.id: Known(
            thread=one,
            state=one.state,
            parts=tuple(Part(vector=part.vector, topics=part.topics) for part in parts.get(one.id, [])[-MOST_PARTS:]),
        )
        for one in threads
    }


def nearest(vector: Vector | None, ids: Sequence[str], vectors: Vectors, ground: Ground | None) -> tuple[str, ...]:
    """The threads that are nearest to a prompt; none without its vector.

    Args:
        vectors: of the threads, with the ground off where there is one.
    """
    if vector is None or not ids:
        return ()
    own = vector if ground is None else ground.off(vector[None, :])[0]
    best = np.argsort(-(vectors @ own), kind="stable")[:_NEAREST]
    return tuple(ids[int(place)] for place in best)
