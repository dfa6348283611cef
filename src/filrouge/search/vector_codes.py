"""Compressed vectors: cheap to scan in full, precise enough only to preselect candidates.

A slot is the index of one window's code. Slots are dense: new codes are appended, and when one is removed, the last
code moves into its slot. The caller tracks which slot belongs to which owner, and rescores the preselected candidates
with the exact vectors.

Embedding models place all texts in a narrow cone. Codes are therefore built relative to the mean of a sample: the
common part would use up most of the quantisation levels, and it does not change the ranking.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from filrouge.core.protocols import Vector, Vectors

Slots = NDArray[np.intp]
"""Slots, shape (n,)."""
Mask = NDArray[np.bool_]
"""One bool for each slot: True if the slot may be found."""

_CHUNK = 1 << 15  # the arrays of one step stay in the processor's cache
_ROTATION_SEED = 20_260_101
_INITIAL_SLOTS = 1024
#: Candidates by signs for each requested slot.
_SIGN_CANDIDATES = 16


class Oversampling(Struct, frozen=True, kw_only=True):
    """How many candidates to preselect so that the exact answer is nearly always among them.

    Measured in docs/adr/0008-vector-index.md.

    Attributes:
        min_candidates: minimum for any query.
        per_owner: candidates per requested owner.
    """

    min_candidates: int
    per_owner: int


class Codes(Protocol):
    """Compressed vectors, scanned in full. Has no owners and no locks: use from one thread at a time.

    `SignCodes` needs only numpy; `search.turbo.TurboCodes` is several times faster, and more precise.
    """

    oversampling: Oversampling

    def __len__(self) -> int:
        """Return the number of slots."""
        ...

    def add(self, vectors: Vectors) -> None:
        """Append these vectors, shape (n, dimension), in order."""
        ...

    def remove(self, slot: int) -> None:
        """Remove one slot; the last slot takes its number."""
        ...

    def best(self, query: Vector, count: int, allowed: Mask | None) -> Slots:
        """Return about `count` allowed slots with the largest inner product with the query, in any order.

        Returns fewer only if fewer are allowed.
        """
        ...


class SignCodes:
    """One bit per coordinate of the rotated vector, plus two numbers: 56 bytes for 384 dimensions.

    Follows RaBitQ (Gao and Long 2024). The mean is subtracted, the vector is turned by a fixed random rotation, and its
    signs are kept together with the scale of one sign, so that the estimated inner product is unbiased. A scan compares
    signs with signs. The best results, sixteen times `count`, are then rescored by comparing their signs with the
    unquantised query.

    Args:
        sample: vectors representative of those to be added; their mean is the common part.
    """

    oversampling = Oversampling(min_candidates=400, per_owner=8)

    def __init__(self, sample: Vectors) -> None:
        self._size, dimension = 0, sample.shape[1]
        self._common: Vector = sample.mean(axis=0, dtype=np.float32)
        self._bytes = -(-dimension // 64) * 8
        normal = np.random.default_rng(_ROTATION_SEED).normal(size=(dimension, dimension))
        self._rotation: Vectors = np.linalg.qr(normal)[0].astype(np.float32)
        self._words: NDArray[np.uint64] = np.zeros((self._bytes // 8, _INITIAL_SLOTS), dtype=np.uint64)
        #: Per slot: the inner product with the common part, and the scale of one sign.
        self._numbers: NDArray[np.float32] = np.zeros((2, _INITIAL_SLOTS), dtype=np.float32)

    def __len__(self) -> int:
        """Return the number of slots."""
        return self._size

    def add(self, vectors: Vectors) -> None:
        """Append the codes of these vectors."""
        while self._size + len(vectors) > self._words.shape[1]:
            self._words = np.concatenate([self._words, np.zeros_like(self._words)], axis=1)
            self._numbers = np.concatenate([self._numbers, np.zeros_like(self._numbers)], axis=1)
        slots = slice(self._size, self._size + len(vectors))
        centred = vectors - self._common
        rotated: Vectors = np.matmul(centred, self._rotation)
        self._words[:, slots] = self._signs(rotated).T
        sums = np.maximum(np.abs(rotated).sum(axis=1), np.finfo(np.float32).tiny)
        self._numbers[:, slots] = centred @ self._common, np.square(rotated).sum(axis=1) / sums
        self._size += len(vectors)

    def remove(self, slot: int) -> None:
        """Remove a slot by overwriting it with the last."""
        self._size -= 1
        for columns in (self._words, self._numbers):
            columns[:, slot] = columns[:, self._size]
            columns[:, self._size] = 0

    def best(self, query: Vector, count: int, allowed: Mask | None) -> Slots:
        """Return the slots with the largest estimated inner product."""
        rotated_query: Vector = np.matmul(query - self._common, self._rotation)
        slots = slice(self._size) if allowed is None else np.flatnonzero(allowed)
        words, (common_part, scale) = self._words[:, slots], self._numbers[:, slots]
        agreeing = len(rotated_query) - np.float32(2) * _differing(words, self._signs(rotated_query[None])[0])
        near = _largest(common_part + scale * (np.abs(rotated_query).mean() * agreeing), _SIGN_CANDIDATES * count)
        packed = np.ascontiguousarray(words[:, near].T).view(np.uint8)
        signs = 2 * np.unpackbits(packed, axis=1, count=len(rotated_query)).astype(np.float32) - 1
        found = near[_largest(common_part[near] + scale[near] * (signs @ rotated_query), count)]
        return found if isinstance(slots, slice) else slots[found]

    def _signs(self, rotated: Vectors) -> NDArray[np.uint64]:
        packed = np.zeros((len(rotated), self._bytes), dtype=np.uint8)
        bits = np.packbits(rotated > 0, axis=1)
        packed[:, : bits.shape[1]] = bits
        return packed.view(np.uint64)


def _differing(words: NDArray[np.uint64], signs: NDArray[np.uint64]) -> NDArray[np.uint16]:
    """Return the number of differing bits for each column."""
    found = np.zeros(words.shape[1], dtype=np.uint16)
    for start in range(0, len(found), _CHUNK):
        part = found[start : start + _CHUNK]
        for row, word in zip(words, signs, strict=True):
            part += np.bitwise_count(row[start : start + _CHUNK] ^ word)
    return found


def _largest(values: NDArray[np.floating[Any]], count: int) -> Slots:
    """Return the indices of the `count` largest values; all indices if there are no more."""
    if len(values) <= count:
        return np.arange(len(values))
    return np.argpartition(-values, count)[:count]
