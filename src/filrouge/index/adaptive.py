"""The vector index that fits the number of vectors: exact while there are few, compact above, without a pause.

What is new goes into an exact index, which is its own truth. When that is full, all of it moves into the compact
one, and a fresh exact index takes its place. A question looks into both. It takes the exact one in hand first: what
moves while it looks is then found at least once, and what is found twice counts once, as it is in the exact one.

Nothing is kept on disk: both are filled from the stored rows at the start, in about a second for 100,000 vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from threading import Lock

import numpy as np

from filrouge.index.codes import Codes, SignCodes
from filrouge.index.compact import CompactIndex, Rows
from filrouge.index.vectors import ExactIndex
from filrouge.ports import Nearest, Numbers, Vector, Vectors

#: Windows that the exact index holds before the first move, and later before each (docs/adr/0008-vector-index.md).
LARGEST_EXACT, FRESH = 8192, 1024


class AdaptiveIndex:
    """Implements `VectorIndex` for any number of owners. Safe for several threads.

    Args:
        rows: reads the stored windows of owners. Whoever was put must be readable there once `put` is called.
        codes: makes the codes of the compact index from the vectors there are then; by default the fastest that
            this machine has.
        largest: how many windows are kept in an exact index alone.
        fresh: how many new ones wait in an exact index once there is a compact one.
    """

    def __init__(
        self,
        dimension: int,
        rows: Rows,
        *,
        codes: Callable[[Vectors], Codes] | None = None,
        largest: int = LARGEST_EXACT,
        fresh: int = FRESH,
    ) -> None:
        self._dimension = dimension
        self._rows = rows
        self._new_codes = codes or fastest_codes
        self._room, self._later_room = largest, fresh
        self._changing = Lock()
        self._fresh = ExactIndex(dimension)
        self._settled: CompactIndex | None = None

    def __len__(self) -> int:
        """How many owners are indexed."""
        with self._changing:
            return len(self._fresh) + (len(self._settled) if self._settled else 0)

    @property
    def is_compact(self) -> bool:
        """True once there were too many vectors for an exact index."""
        return self._settled is not None

    def put(self, owner_id: str, number: int, group: str, vectors: Vectors) -> None:
        """Add an owner's windows, replacing those it had; `number` is its row in its table."""
        with self._changing:
            self._fresh.put(owner_id, number, group, vectors)
            if self._settled:
                self._settled.remove(owner_id)
            if self._fresh.windows > self._room:
                self._settle()

    def remove(self, owner_id: str) -> None:
        """Forget an owner; unknown ids are fine."""
        with self._changing:
            self._fresh.remove(owner_id)
            if self._settled:
                self._settled.remove(owner_id)

    def nearest(
        self, query: Vector, limit: int, groups: frozenset[str] | None, numbers: Numbers | None = None
    ) -> list[Nearest]:
        """The nearest owners of these groups and rows (None: all), best first."""
        fresh = self._fresh
        settled = self._settled
        found = fresh.nearest(query, limit, groups, numbers)
        if settled is None:
            return found
        seen = {one.owner_id for one in found}
        found += [one for one in settled.nearest(query, limit, groups, numbers) if one.owner_id not in seen]
        return sorted(found, key=lambda one: -one.cosine)[:limit]

    def _settle(self) -> None:
        items = self._fresh.items()
        settled = self._settled
        if settled is None:
            sample = np.concatenate([vectors for _, _, _, vectors in items])
            settled = CompactIndex(self._new_codes(sample), self._rows)
            self._room = self._later_room
        settled.put_all(items)
        self._settled = settled
        self._fresh = ExactIndex(self._dimension)


def fastest_codes(sample: Vectors) -> Codes:
    """Four bits by turbovec where it is installed, else signs by numpy."""
    if find_spec("turbovec"):
        codes: Codes = import_module("filrouge.index.turbo").TurboCodes(sample)
        return codes
    return SignCodes(sample)
