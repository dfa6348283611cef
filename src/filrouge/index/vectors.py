"""Exact vector search in memory: one matrix of unit vectors, one product a query.

Up to some tens of thousands of vectors nothing is faster to keep right: 10,000 x 384 takes about 0.7 ms.
It is derived: the daemon rebuilds it from the stored half-precision rows at start. Rows freed by a removal
are used again.
"""

from __future__ import annotations

from collections.abc import Collection
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from filrouge.ports import Nearest, Vector, Vectors

_FIRST_CAPACITY = 256


class ExactIndex:
    """Implements `VectorIndex` without approximation. Safe for several threads."""

    def __init__(self, dimension: int) -> None:
        self._lock = Lock()
        self._matrix: Vectors = np.zeros((_FIRST_CAPACITY, dimension), dtype=np.float32)
        self._group_codes: NDArray[np.int32] = np.full(_FIRST_CAPACITY, -1, dtype=np.int32)
        self._owners: list[str] = [""] * _FIRST_CAPACITY
        self._rows: dict[str, list[int]] = {}
        self._codes: dict[str, int] = {}
        self._free: list[int] = list(range(_FIRST_CAPACITY - 1, -1, -1))

    def __len__(self) -> int:
        """How many owners are indexed."""
        return len(self._rows)

    def put(self, owner_id: str, group: str, vectors: Vectors) -> None:
        """Add an owner's windows, replacing those it had."""
        with self._lock:
            self._drop(owner_id)
            while len(self._free) < len(vectors):
                self._grow()
            code = self._codes.setdefault(group, len(self._codes))
            rows = [self._free.pop() for _ in range(len(vectors))]
            for row, vector in zip(rows, vectors, strict=True):
                self._matrix[row] = vector
                self._group_codes[row] = code
                self._owners[row] = owner_id
            self._rows[owner_id] = rows

    def remove(self, owner_id: str) -> None:
        """Forget an owner; unknown ids are fine."""
        with self._lock:
            self._drop(owner_id)

    def nearest(
        self, query: Vector, limit: int, groups: frozenset[str] | None, owners: Collection[str] | None = None
    ) -> list[Nearest]:
        """The nearest owners of these groups (None: of all) among `owners` (None: all) by their best window each."""
        with self._lock:
            cosines = self._matrix @ query
            codes = self._group_codes
            if groups is None:
                allowed = codes >= 0
            else:
                allowed = np.isin(codes, [self._codes[group] for group in groups if group in self._codes])
            if owners is not None:
                listed = np.zeros(len(codes), dtype=bool)
                listed[[row for owner in owners for row in self._rows.get(owner, ())]] = True
                allowed &= listed
            rows = np.flatnonzero(allowed)
            best: dict[str, float] = {}
            for row in map(int, rows[np.argsort(-cosines[rows], kind="stable")]):
                owner = self._owners[row]
                if owner not in best:
                    if len(best) == limit:
                        break
                    best[owner] = float(cosines[row])
        return [Nearest(owner_id=owner, cosine=cosine) for owner, cosine in best.items()]

    def _drop(self, owner_id: str) -> None:
        for row in self._rows.pop(owner_id, []):
            self._matrix[row] = 0.0  # a forgotten vector is not left in memory
            self._group_codes[row] = -1
            self._owners[row] = ""
            self._free.append(row)

    def _grow(self) -> None:
        size = len(self._owners)
        self._matrix = np.concatenate([self._matrix, np.zeros_like(self._matrix)])
        self._group_codes = np.concatenate([self._group_codes, np.full(size, -1, dtype=np.int32)])
        self._owners.extend([""] * size)
        self._free.extend(range(2 * size - 1, size - 1, -1))
