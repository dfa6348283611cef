"""Vectors: stored by embedding space, and the indexes in memory that are filled from them.

`ExactIndex` is one matrix, scanned in full. `CompactIndex` preselects candidates with compressed codes and rescores
them with the stored vectors. `AdaptiveIndex` combines the two and is the one in use. No index is kept on disk: all are
filled from the stored rows at the start, in about a second for 100,000 vectors.

Vectors are half-precision BLOBs, each with the id of its embedding space. They are the source from which a vector index
is rebuilt. Vectors of two spaces are never read together: recall reads the one current space, another may be building,
and the rest are retired and cleared.

The windows of a long text are written from the last to the first, so an owner (a memory or a turn) is complete once its
part 0 is stored.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from filrouge.core.protocols import RowNumbers, Vector, Vectors
from filrouge.providers.models import Nearest
from filrouge.search.vector_codes import Codes, Mask, SignCodes

# Exact search: one matrix of unit vectors, one matrix-vector product per query. For a few thousand vectors this is the
# simplest correct solution: 10,000 x 384 takes about a millisecond, and 15 MB. Rows freed by a removal are reused.

_INITIAL_CAPACITY = 256
IndexEntry = tuple[str, int, str, Vectors]
"""An owner, its row number, its group, its windows."""


class _LockedIndex(ABC):
    """An index whose changes happen one at a time."""

    def __init__(self) -> None:
        self._lock = Lock()

    def remove(self, owner_id: str) -> None:
        """Remove an owner; unknown ids are ignored."""
        with self._lock:
            self._drop(owner_id)

    @abstractmethod
    def _drop(self, owner_id: str) -> None: ...


class ExactIndex(_LockedIndex):
    """Implements `VectorIndex` without approximation. Safe for several threads."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self._matrix: Vectors = np.zeros((_INITIAL_CAPACITY, dimension), dtype=np.float32)
        self._group_codes: NDArray[np.int32] = np.full(_INITIAL_CAPACITY, -1, dtype=np.int32)
        self._owners: list[str] = [""] * _INITIAL_CAPACITY
        self._numbers: RowNumbers = np.zeros(_INITIAL_CAPACITY, dtype=np.int64)
        self._rows: dict[str, list[int]] = {}
        self._codes: dict[str, int] = {}
        self._free: list[int] = list(range(_INITIAL_CAPACITY - 1, -1, -1))

    def __len__(self) -> int:
        """Return how many owners are indexed."""
        return len(self._rows)

    def put(self, owner_id: str, number: int, group: str, vectors: Vectors) -> None:
        """Add an owner's windows, replacing those it had; `number` is its row number in its table."""
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

    def nearest(
        self, query: Vector, limit: int, groups: frozenset[str] | None, numbers: RowNumbers | None = None
    ) -> list[Nearest]:
        """Return the nearest owners of these groups and rows (None: all), by the best window of each, best first."""
        with self._lock:
            cosines = products(self._matrix, query)
            codes = self._group_codes
            if groups is None:
                allowed = codes >= 0
            else:
                allowed = np.isin(codes, [self._codes[group] for group in groups if group in self._codes])
            if numbers is not None:
                allowed &= is_among(self._numbers, numbers)
            rows = np.flatnonzero(allowed)
            best = self._best(rows, cosines, limit)
        return [Nearest(owner_id=owner, cosine=cosine) for owner, cosine in best.items()]

    @property
    def windows(self) -> int:
        """The total number of vectors of all owners."""
        return len(self._owners) - len(self._free)

    def items(self) -> list[IndexEntry]:
        """Return every owner with its windows, as copies."""
        with self._lock:
            names = {code: group for group, code in self._codes.items()}
            return [
                (owner, int(self._numbers[rows[0]]), names[int(self._group_codes[rows[0]])], self._matrix[rows])
                for owner, rows in self._rows.items()
                if rows
            ]

    def _best(self, rows: NDArray[np.intp], cosines: Vector, limit: int) -> dict[str, float]:
        """Return the best owners among these rows, with the cosine of their best window."""
        count = 4 * limit
        while True:
            near = rows[np.argpartition(-cosines[rows], count)[:count]] if len(rows) > count else rows
            best = dict[str, float]()
            for row in map(int, near[np.argsort(-cosines[near], kind="stable")]):
                if len(best) == limit:
                    break
                best.setdefault(self._owners[row], float(cosines[row]))
            if len(best) == limit or len(near) == len(rows):
                return best
            count *= 4  # owners with many windows: these rows belong to fewer owners than requested

    def _drop(self, owner_id: str) -> None:
        for row in self._rows.pop(owner_id, []):
            self._matrix[row] = 0.0  # a forgotten vector must not stay in memory
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
    """Return the inner product of each vector with the query.

    Computed row by row on this thread. A matrix product wakes the BLAS threads and waits for all of them; on a busy
    machine a query of one millisecond then takes ten.
    """
    found: Vector = np.vecdot(vectors, query)
    return found


def is_among(numbers: RowNumbers, allowed: RowNumbers) -> NDArray[np.bool_]:
    """Return for each number whether it is allowed; numbers are not negative.

    Uses a table of all possible numbers. Rows are numbered from one, so the table is hardly longer than the numbers.
    Looking up a million takes a millisecond, while sorting them takes thirty.
    """
    is_allowed = np.zeros(int(numbers.max(initial=0)) + 1, dtype=bool)
    is_allowed[allowed[allowed < len(is_allowed)]] = True
    return is_allowed[numbers]


# Compact search: coarse codes in memory, exact scores from the stored vectors. A scan over the codes returns somewhat
# more owners than requested. Their stored vectors are then read and scored, so every score is exact, and a forgotten
# owner is never returned even if its code is still there.

Rows = Callable[[Collection[str]], Mapping[str, Vectors]]
"""Reads the stored windows of owners; those that are unknown or forgotten are left out. Safe for several threads."""

#: Windows added in one step.
_WINDOWS_PER_STEP = 1024


class CompactIndex(_LockedIndex):
    """Implements `VectorIndex`. Safe for several threads; queries can run between the steps of a long `put_all`.

    Args:
        codes: empty.
    """

    def __init__(self, codes: Codes, rows: Rows) -> None:
        self._codes = codes
        self._rows = rows
        super().__init__()
        self._owners: list[str] = []
        self._groups: NDArray[np.int32] = np.zeros(_WINDOWS_PER_STEP, dtype=np.int32)
        self._numbers: RowNumbers = np.zeros(_WINDOWS_PER_STEP, dtype=np.int64)
        self._group_codes: dict[str, int] = {}
        # Nearly all owners have one window: a tuple for each would be a third of the memory.
        self._slots: dict[str, int | tuple[int, ...]] = {}

    def __len__(self) -> int:
        """Return how many owners are indexed."""
        return len(self._slots)

    def put(self, owner_id: str, number: int, group: str, vectors: Vectors) -> None:
        """Add an owner's windows, replacing those it had; `number` is its row number in its table."""
        self.put_all([(owner_id, number, group, vectors)])

    def put_all(self, items: Sequence[IndexEntry]) -> None:
        """Add several owners; many times faster than adding them one by one."""
        batch, size = list[IndexEntry](), 0
        for item in items:
            batch.append(item)
            size += len(item[3])
            if size >= _WINDOWS_PER_STEP:
                self._put(batch)
                batch, size = [], 0
        if batch:
            self._put(batch)

    def nearest(
        self, query: Vector, limit: int, groups: frozenset[str] | None, numbers: RowNumbers | None = None
    ) -> list[Nearest]:
        """Return the nearest owners of these groups and rows (None: all), by exact scores, best first."""
        count = max(self._codes.oversampling.per_owner * limit, self._codes.oversampling.min_candidates)
        found, last = dict[str, float](), limit < 1
        while not last and len(found) < limit:
            candidates, last = self._candidates(query, count, groups, numbers)
            found |= self._exact_cosines(query, [owner for owner in candidates if owner not in found])
            count *= 4
        best = sorted(found.items(), key=lambda item: -item[1])[:limit]
        return [Nearest(owner_id=owner, cosine=cosine) for owner, cosine in best]

    def _candidates(
        self, query: Vector, count: int, groups: frozenset[str] | None, numbers: RowNumbers | None
    ) -> tuple[Iterable[str], bool]:
        """Return the owners of about the `count` best windows, and whether these are all allowed owners."""
        with self._lock:
            size = len(self._owners)
            if groups is None and numbers is None:
                slots = self._codes.best(query, count, None) if size > count else np.arange(size)
                return dict.fromkeys(self._owners[slot] for slot in slots), size <= count
            allowed = self._allowed(groups, numbers)
            available = int(np.count_nonzero(allowed))
            slots = self._codes.best(query, count, allowed) if available > count else np.flatnonzero(allowed)
            return dict.fromkeys(self._owners[slot] for slot in slots), available <= count

    def _allowed(self, groups: frozenset[str] | None, numbers: RowNumbers | None) -> Mask:
        size = len(self._owners)
        allowed: Mask = np.ones(size, dtype=bool)
        if groups is not None:
            allowed_groups = np.zeros(len(self._group_codes) + 1, dtype=bool)
            allowed_groups[[self._group_codes[group] for group in groups if group in self._group_codes]] = True
            allowed = allowed_groups[self._groups[:size]]
        if numbers is not None:
            allowed &= is_among(self._numbers[:size], numbers)
        return allowed

    def _exact_cosines(self, query: Vector, owners: Sequence[str]) -> dict[str, float]:
        """Return the cosine of each owner's best window; owners that are no longer stored are left out."""
        stored = [(owner, vectors) for owner, vectors in self._rows(owners).items() if len(vectors)] if owners else []
        if not stored:
            return {}
        starts = np.cumsum([0, *(len(vectors) for _, vectors in stored[:-1])])
        cosines = np.maximum.reduceat(products(np.concatenate([vectors for _, vectors in stored]), query), starts)
        return {owner: float(cosine) for (owner, _), cosine in zip(stored, cosines, strict=True)}

    def _put(self, items: Sequence[IndexEntry]) -> None:
        latest = {item[0]: item for item in items}
        vectors = np.concatenate([vectors for _, _, _, vectors in latest.values()])
        with self._lock:
            for owner in latest:
                self._drop(owner)
            self._codes.add(vectors)
            for owner, number, group, windows in latest.values():
                self._append(owner, number, self._group_codes.setdefault(group, len(self._group_codes)), len(windows))

    def _append(self, owner: str, number: int, group: int, count: int) -> None:
        first = len(self._owners)
        while first + count > len(self._groups):
            self._groups = np.concatenate([self._groups, np.zeros_like(self._groups)])
            self._numbers = np.concatenate([self._numbers, np.zeros_like(self._numbers)])
        self._groups[first : first + count] = group
        self._numbers[first : first + count] = number
        self._owners.extend([owner] * count)
        self._slots[owner] = first if count == 1 else tuple(range(first, first + count))

    def _slots_of(self, owner: str) -> tuple[int, ...]:
        slots = self._slots.get(owner, ())
        return (slots,) if isinstance(slots, int) else slots

    def _drop(self, owner_id: str) -> None:
        if owner_id not in self._slots:
            return
        for slot in sorted(self._slots_of(owner_id), reverse=True):
            self._codes.remove(slot)
            moved, last = self._owners.pop(), len(self._owners)
            if slot == last:
                continue
            self._owners[slot] = moved
            self._groups[slot] = self._groups[last]
            self._numbers[slot] = self._numbers[last]
            slots = self._slots[moved]
            self._slots[moved] = slot if isinstance(slots, int) else tuple(slot if n == last else n for n in slots)
        del self._slots[owner_id]


# Adaptive search. New vectors go into an exact index. When it is full, its contents move into the compact index, and a
# new exact index replaces it. A query searches both. It reads the reference to the exact index first: an owner that
# moves during the query is then found at least once, and an owner found twice is counted once, with its exact result.

#: Maximum windows in the exact index before the first move, and before each later move (docs/adr/0008-vector-index.md).
MAX_EXACT, MAX_FRESH = 8192, 1024


class AdaptiveIndex:
    """Implements `VectorIndex` for any number of owners. Safe for several threads.

    Args:
        rows: reads the stored windows of owners. An owner must be readable there before `put` is called.
        codes: creates the codes of the compact index from the vectors present at that time; by default the fastest ones
            available on this machine.
        max_exact: maximum number of windows in the exact index while there is no compact one.
        max_fresh: maximum number of new windows in the exact index once there is a compact one.
    """

    def __init__(
        self,
        dimension: int,
        rows: Rows,
        *,
        codes: Callable[[Vectors], Codes] | None = None,
        max_exact: int = MAX_EXACT,
        max_fresh: int = MAX_FRESH,
    ) -> None:
        self._dimension = dimension
        self._rows = rows
        self._new_codes = codes or fastest_codes
        self._capacity, self._later_capacity = max_exact, max_fresh
        self._changing = Lock()
        self._fresh = ExactIndex(dimension)
        self._compact: CompactIndex | None = None

    def __len__(self) -> int:
        """Return how many owners are indexed."""
        with self._changing:
            return len(self._fresh) + (len(self._compact) if self._compact else 0)

    @property
    def is_compact(self) -> bool:
        """True once the vectors exceeded the exact index and a compact one was made."""
        return self._compact is not None

    def put(self, owner_id: str, number: int, group: str, vectors: Vectors) -> None:
        """Add an owner's windows, replacing those it had; `number` is its row number in its table."""
        with self._changing:
            self._fresh.put(owner_id, number, group, vectors)
            if self._compact:
                self._compact.remove(owner_id)
            if self._fresh.windows > self._capacity:
                self._move()

    def remove(self, owner_id: str) -> None:
        """Remove an owner; unknown ids are ignored."""
        with self._changing:
            self._fresh.remove(owner_id)
            if self._compact:
                self._compact.remove(owner_id)

    def nearest(
        self, query: Vector, limit: int, groups: frozenset[str] | None, numbers: RowNumbers | None = None
    ) -> list[Nearest]:
        """Return the nearest owners of these groups and rows (None: all), best first."""
        fresh = self._fresh
        compact = self._compact
        found = fresh.nearest(query, limit, groups, numbers)
        if compact is None:
            return found
        seen_ids = {neighbour.owner_id for neighbour in found}
        older = compact.nearest(query, limit, groups, numbers)
        found += [neighbour for neighbour in older if neighbour.owner_id not in seen_ids]
        return sorted(found, key=lambda neighbour: -neighbour.cosine)[:limit]

    def _move(self) -> None:
        items = self._fresh.items()
        compact = self._compact
        if compact is None:
            sample = np.concatenate([vectors for _, _, _, vectors in items])
            compact = CompactIndex(self._new_codes(sample), self._rows)
            self._capacity = self._later_capacity
        compact.put_all(items)
        self._compact = compact
        self._fresh = ExactIndex(self._dimension)


def fastest_codes(sample: Vectors) -> Codes:
    """Return four-bit codes if turbovec is installed, otherwise sign codes computed with numpy."""
    if find_spec("turbovec"):
        codes: Codes = import_module("filrouge.search.turbo").TurboCodes(sample)
        return codes
    return SignCodes(sample)
