"""A compact vector index: coarse codes in memory, exact scores from the stored vectors.

A scan over the codes proposes some more owners than were asked for; their stored vectors are then read and measured,
so every score is the exact one, and a forgotten owner is no answer even where its code is still there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from filrouge.index.codes import Codes, Mask
from filrouge.index.vectors import Item, among, products
from filrouge.ports import Nearest, Numbers, Vector, Vectors

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
