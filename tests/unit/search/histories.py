"""Histories of changes to a vector index, and what a plain computation over everything answers after them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from hypothesis import strategies as st

from filrouge.core.protocols import RowNumbers, Vector, VectorIndex, Vectors
from filrouge.providers.models import Nearest

DIMENSION = 4
OWNERS, GROUPS = st.sampled_from("abcdefgh"), st.sampled_from(["shop", "blog", "user:local", ""])
PUTS = st.tuples(st.just("put"), OWNERS, GROUPS, st.integers(1, 3), st.integers(0, 10**6))
CHANGES = st.lists(PUTS | st.tuples(st.just("remove"), OWNERS), max_size=40)

Change = tuple[object, ...]


def units(seed: int, count: int, dimension: int = DIMENSION) -> Vectors:
    vectors = np.random.default_rng(seed).normal(size=(count, dimension)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


class Model:
    """What is stored, and the plain computation over it."""

    def __init__(self) -> None:
        self.stored: dict[str, tuple[str, Vectors]] = {}
        self._numbers: dict[str, int] = {}

    def rows(self, owners: Collection[str]) -> Mapping[str, Vectors]:
        return {owner: self.stored[owner][1] for owner in owners if owner in self.stored}

    def number(self, owner: str) -> int:
        """The row of an owner; rows are numbered from one, in the order of their first mention."""
        return self._numbers.setdefault(owner, len(self._numbers) + 1)

    def numbers(self, owners: Collection[str]) -> RowNumbers:
        """The rows of owners, of which the index need not know any."""
        return np.array([self.number(owner) for owner in owners], dtype=np.int64)

    def put(self, index: VectorIndex, owner: str, group: str, vectors: Vectors) -> None:
        self.stored[owner] = (group, vectors)
        index.put(owner, self.number(owner), group, vectors)

    def remove(self, index: VectorIndex, owner: str) -> None:
        self.stored.pop(owner, None)
        index.remove(owner)

    def apply(self, index: VectorIndex, changes: Sequence[Change]) -> None:
        for change in changes:
            match change:
                case ("put", str(owner), str(group), int(count), int(seed)):
                    self.put(index, owner, group, units(seed, count))
                case (_, str(owner)):
                    self.remove(index, owner)
                case _:
                    raise AssertionError(change)

    def cosines(
        self, query: Vector, groups: frozenset[str] | None, owners: Collection[str] | None = None
    ) -> dict[str, float]:
        return {
            owner: max(float(vector @ query) for vector in vectors)
            for owner, (group, vectors) in self.stored.items()
            if (groups is None or group in groups) and (owners is None or owner in owners)
        }


def check(found: Sequence[Nearest], wanted: Mapping[str, float], limit: int) -> None:
    """The answer is right: as many as asked for, no owner twice, best first, true cosines, none better left out."""
    assert len({one.owner_id for one in found}) == len(found) == min(limit, len(wanted))
    assert [one.cosine for one in found] == sorted((one.cosine for one in found), reverse=True)
    np.testing.assert_allclose([one.cosine for one in found], [wanted[one.owner_id] for one in found], atol=1e-5)
    np.testing.assert_allclose([one.cosine for one in found], sorted(wanted.values(), reverse=True)[:limit], atol=1e-5)
