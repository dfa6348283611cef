"""Exact vector search in memory: one matrix of unit vectors, one product a query.

Up to some thousands of vectors nothing is simpler to keep right: 10,000 x 384 takes about a millisecond, and 15 MB.
Above, `index.adaptive` moves them into a compact index, which is held against this one. Rows freed by a removal are
used again.
"""

from __future__ import annotations

from threading import Lock

import numpy as np
from numpy.typing import NDArray

from filrouge.ports import Nearest, Numbers, Vector, Vectors

_FIRST_CAPACITY = 256


Item = tuple[str, int, str, Vectors]
"""An owner, its row's number, its group, its windows."""


class ExactIndex:
    """Implements `VectorIndex` without approximation. Safe for several threads."""

    def __init__(self, dimension: int) -> None:
        self._lock = Lock()
        self._matrix: Vectors = np.zeros((_FIRST_CAPACITY, dimension), dtype=np.float32)
        self._group_codes: NDArray[np.int32] = np.full(_FIRST_CAPACITY, -1, dtype=np.int32)
        self._owners: list[str] = [""] * _FIRST_CAPACITY
        self._numbers: Numbers = np.zeros(_FIRST_CAPACITY, dtype=np.int64)
        self._rows: dict[str, list[int]] = {}
        self._codes: dict[str, int] = {}
        self._free: list[int] = list(range(_FIRST_CAPACITY - 1, -1, -1))

    def __len__(self) -> int:
        """How many owners are indexed."""
        return len(self._rows)

    def put(self, owner_id: str, number: int, group: str, vectors: Vectors) -> None:
        """Add an owner's windows, replacing those it had; `number` is its row in its table."""
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
                self._numbers[row] = number
            self._rows[owner_id] = rows

    def remove(self, owner_id: str) -> None:
        """Forget an owner; unknown ids are fine."""
        with self._lock:
            self._drop(owner_id)

    def nearest(
        self, query: Vector, limit: int, groups: frozenset[str] | None, numbers: Numbers | None = None
    ) -> list[Nearest]:
        """The nearest owners of these groups and rows (None: all), by the best window of each, best first."""
        with self._lock:
            cosines = products(self._matrix, query)
            codes = self._group_codes
            if groups is None:
                allowed = codes >= 0
            else:
                allowed = np.isin(codes, [self._codes[group] for group in groups if group in self._codes])
            if numbers is not None:
                allowed &= among(self._numbers, numbers)
            rows = np.flatnonzero(allowed)
            best = self._best(rows, cosines, limit)
        return [Nearest(owner_id=owner, cosine=cosine) for owner, cosine in best.items()]

    @property
    def windows(self) -> int:
        """How many vectors it holds, of all owners together."""
        return len(self._owners) - len(self._free)

    def items(self) -> list[Item]:
        """Every owner with its windows, as copies."""
        with self._lock:
            names = {code: group for group, code in self._codes.items()}
            return [
                (owner, int(self._numbers[rows[0]]), names[int(self._group_codes[rows[0]])], self._matrix[rows])
                for owner, rows in self._rows.items()
                if rows
            ]

    def _best(self, rows: NDArray[np.intp], cosines: Vector, limit: int) -> dict[str, float]:
        """The best owners among these rows, with the cosine of their best window."""
        few = 4 * limit
        while True:
            near = rows[np.argpartition(-cosines[rows], few)[:few]] if len(rows) > few else rows
            best = dict[str, float]()
            for row in map(int, near[np.argsort(-cosines[near], kind="stable")]):
                if len(best) == limit:
                    break
                best.setdefault(self._owners[row], float(cosines[row]))
            if len(best) == limit or len(near) == len(rows):
                return best
            few *= 4  # some owners have many windows: the few rows belong to fewer owners than are asked for

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
        self._numbers = np.concatenate([self._numbers, np.zeros_like(self._numbers)])
        self._free.extend(range(2 * size - 1, size - 1, -1))


def products(vectors: Vectors, query: Vector) -> Vector:
    """The product of each vector with the query.

    Row by row on this thread: a matrix product wakes the threads of BLAS, and waits for all of them; where others use
    the processors a question of one millisecond then takes ten.
    """
    found: Vector = np.vecdot(vectors, query)
    return found


def among(own: Numbers, wanted: Numbers) -> NDArray[np.bool_]:
    """For each number whether it is wanted; none is negative.

    By a table of every number there may be: rows are numbered from one, so it is hardly longer than the numbers, and
    a million are looked up in a millisecond, where sorting them takes thirty.
    """
    is_wanted = np.zeros(int(own.max(initial=0)) + 1, dtype=bool)
    is_wanted[wanted[wanted < len(is_wanted)]] = True
    return is_wanted[own]
