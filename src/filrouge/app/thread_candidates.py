"""What a prompt is held against: the threads of its place, and of the archived ones those that are nearest to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

import numpy as np

from filrouge.app.thread_upkeep import swept
from filrouge.model.thread import Thread
from filrouge.ports import Tx, Vector, Vectors
from filrouge.store.threads import ThreadPlace, Threads
from filrouge.threads.ground import Ground

#: Archived threads that a prompt is held against, the nearest.
_NEAREST: Final = 8


def candidates(tx: Tx, where: ThreadPlace, ids: Iterable[str], now: datetime, mode: str) -> dict[str, Thread]:
    """Those of these threads that a prompt may belong to, as they are at that moment, by id."""
    live = {thread.id: thread for thread in swept(tx, where, now, mode)}
    found = [live.get(thread.id, thread) for thread in Threads(tx).some(list(ids))]
    return {thread.id: thread for thread in found if thread.merged_into is None}


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
