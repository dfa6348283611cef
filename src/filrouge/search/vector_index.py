"""Vector indexes in memory: exact while there are few vectors, compact codes with exact scores when there are many."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from filrouge.core.protocols import Numbers, Vector, Vectors
from filrouge.providers.models import Nearest
from filrouge.search.vector_codes import Codes, Mask, SignCodes

# Exact vector search in memory: one matrix of unit vectors, one product a query.
#
# Up to some thousands of vectors nothing is simpler to keep right: 10,000 x 384 takes about a millisecond, and 15 MB.
# Above, `search.vector_index` moves them into a compact index, which is held against this one. Rows freed by a removal
# are used again.

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


# A compact vector index: coarse codes in memory, exact scores from the stored vectors.
#
# A scan over the codes proposes some more owners than were asked for; their stored vectors are then read and
# measured, so every score is the exact one, and a forgotten owner is no answer even where its code is still there.

Rows = Callable[[Collection[str]], Mapping[str, Vectors]]
"""Reads the stored windows of owners; those that are unknown or forgotten are left out. Safe for several threads."""

_AT_ONCE = 1024


class CompactIndex:
    """Implements `VectorIndex`. Safe for several threads; a long `put_all` lets questions through between its steps.

    Args:
        codes: empty.
    """

    def __init__(self, codes: Codes, rows: Rows) -> None:
        self._codes = codes
        self._rows = rows
        self._lock = Lock()
        self._owners: list[str] = []
        self._groups: NDArray[np.int32] = np.zeros(_AT_ONCE, dtype=np.int32)
        self._numbers: Numbers = np.zeros(_AT_ONCE, dtype=np.int64)
        self._names: dict[str, int] = {}
        # Nearly all owners have one window: a tuple for each would be a third of the memory.
        self._slots: dict[str, int | tuple[int, ...]] = {}

    def __len__(self) -> int:
        """How many owners are indexed."""
        return len(self._slots)

    def put(self, owner_id: str, number: int, group: str, vectors: Vectors) -> None:
        """Add an owner's windows, replacing those it had; `number` is its row in its table."""
        self.put_all([(owner_id, number, group, vectors)])

    def put_all(self, items: Sequence[Item]) -> None:
        """The same for several, which is many times faster than one by one."""
        batch, size = list[Item](), 0
        for item in items:
            batch.append(item)
            size += len(item[3])
            if size >= _AT_ONCE:
                self._put(batch)
                batch, size = [], 0
        if batch:
            self._put(batch)

    def remove(self, owner_id: str) -> None:
        """Forget an owner; unknown ids are fine."""
        with self._lock:
            self._drop(owner_id)

    def nearest(
        self, query: Vector, limit: int, groups: frozenset[str] | None, numbers: Numbers | None = None
    ) -> list[Nearest]:
        """The nearest owners of these groups and rows (None: all), by exact scores, best first."""
        count = max(self._codes.guesses.each * limit, self._codes.guesses.fewest)
        found, last = dict[str, float](), limit < 1
        while not last and len(found) < limit:
            guessed, last = self._guesses(query, count, groups, numbers)
            found |= self._measure(query, [owner for owner in guessed if owner not in found])
            count *= 4
        best = sorted(found.items(), key=lambda one: -one[1])[:limit]
        return [Nearest(owner_id=owner, cosine=cosine) for owner, cosine in best]

    def _guesses(
        self, query: Vector, count: int, groups: frozenset[str] | None, numbers: Numbers | None
    ) -> tuple[Iterable[str], bool]:
        """The owners of about the `count` best windows, and whether these are all there are."""
        with self._lock:
            size = len(self._owners)
            if groups is None and numbers is None:
                slots = self._codes.best(query, count, None) if size > count else np.arange(size)
                return dict.fromkeys(self._owners[slot] for slot in slots), size <= count
            allowed = self._allowed(groups, numbers)
            room = int(np.count_nonzero(allowed))
            slots = self._codes.best(query, count, allowed) if room > count else np.flatnonzero(allowed)
            return dict.fromkeys(self._owners[slot] for slot in slots), room <= count

    def _allowed(self, groups: frozenset[str] | None, numbers: Numbers | None) -> Mask:
        size = len(self._owners)
        allowed: Mask = np.ones(size, dtype=bool)
        if groups is not None:
            wanted = np.zeros(len(self._names) + 1, dtype=bool)
            wanted[[self._names[group] for group in groups if group in self._names]] = True
            allowed = wanted[self._groups[:size]]
        if numbers is not None:
            allowed &= among(self._numbers[:size], numbers)
        return allowed

    def _measure(self, query: Vector, owners: Sequence[str]) -> dict[str, float]:
        """The cosine of each owner's best window; nothing for those that the store no longer has."""
        stored = [(owner, vectors) for owner, vectors in self._rows(owners).items() if len(vectors)] if owners else []
        if not stored:
            return {}
        starts = np.cumsum([0, *(len(vectors) for _, vectors in stored[:-1])])
        cosines = np.maximum.reduceat(products(np.concatenate([vectors for _, vectors in stored]), query), starts)
        return {owner: float(cosine) for (owner, _), cosine in zip(stored, cosines, strict=True)}

    def _put(self, items: Sequence[Item]) -> None:
        latest = {item[0]: item for item in items}
        vectors = np.concatenate([vectors for _, _, _, vectors in latest.values()])
        with self._lock:
            for owner in latest:
                self._drop(owner)
            self._codes.add(vectors)
            for owner, number, group, windows in latest.values():
                self._append(owner, number, self._names.setdefault(group, len(self._names)), len(windows))

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

    def _drop(self, owner: str) -> None:
        if owner not in self._slots:
            return
        for slot in sorted(self._slots_of(owner), reverse=True):
            self._codes.take_out(slot)
            moved, last = self._owners.pop(), len(self._owners)
            if slot == last:
                continue
            self._owners[slot] = moved
            self._groups[slot] = self._groups[last]
            self._numbers[slot] = self._numbers[last]
            slots = self._slots[moved]
            self._slots[moved] = slot if isinstance(slots, int) else tuple(slot if n == last else n for n in slots)
        del self._slots[owner]


# The vector index that fits the number of vectors: exact while there are few, compact above, without a pause.
#
# What is new goes into an exact index, which is its own truth. When that is full, all of it moves into the compact
# one, and a fresh exact index takes its place. A question looks into both. It takes the exact one in hand first: what
# moves while it looks is then found at least once, and what is found twice counts once, as it is in the exact one.
#
# Nothing is kept on disk: both are filled from the stored rows at the start, in about a second for 100,000 vectors.

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
        codes: Codes = import_module("filrouge.search.turbo").TurboCodes(sample)
        return codes
    return SignCodes(sample)
