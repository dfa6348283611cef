"""Codes: vectors kept so small that a scan over all of them is cheap, and so coarse that its answer is only a guess.

A slot is the place of a window's code. Slots are dense: what is added goes behind the last, and where one is taken
out, the last moves into its place. Whoever owns the codes knows whose slot is whose, and measures the guesses again
by the vectors themselves. Embedding models place all texts in one narrow cone, so codes are made from a sample of the
vectors: what all have in common would take most of their levels, and changes no order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from filrouge.core.protocols import Vector, Vectors

Slots = NDArray[np.intp]
"""Slots, shape (n,)."""
Mask = NDArray[np.bool_]
"""One bool for each slot: may it be found?"""

_CHUNK = 1 << 15  # the arrays of one step stay in the processor's cache
_ROTATION_SEED = 20_260_101
_FIRST_ROOM = 1024
_SIGNS_FOR_ONE = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Guesses:
    """How many guesses make the exact answer nearly always right (docs/adr/0008-vector-index.md).

    Attributes:
        fewest: for any answer.
        each: for each owner that is asked for.
    """

    fewest: int
    each: int


class Codes(Protocol):
    """Coarse vectors, scanned whole. Knows no owners and no locks: one thread at a time.

    `SignCodes` needs numpy alone; `search.turbo.TurboCodes` is several times faster, and finer.
    """

    guesses: Guesses

    def __len__(self) -> int:
        """How many slots there are."""
        ...

    def add(self, vectors: Vectors) -> None:
        """Append these, shape (n, dimension), in their order."""
        ...

    def take_out(self, slot: int) -> None:
        """Forget one; the last slot moves into its place."""
        ...

    def best(self, query: Vector, count: int, allowed: Mask | None) -> Slots:
        """About the `count` slots with the largest product with the query, in any order, among the allowed ones.

        Fewer only where fewer are allowed.
        """
        ...


class SignCodes:
    """One bit for each coordinate of the rotated vector, and two numbers: 56 bytes for 384 dimensions.

    As in RaBitQ (Gao and Long 2024): a vector less the common part is turned by a fixed random rotation, its signs are
    kept, and what one sign is worth in it, so that the product is estimated without bias. A scan compares signs with
    signs; of the best of it, sixteen times as many as are asked for, signs are compared with the query as it is.

    Args:
        sample: vectors such as are to be added; their mean is the common part.
    """

    guesses = Guesses(fewest=400, each=8)

    def __init__(self, sample: Vectors) -> None:
        self._size, dimension = 0, sample.shape[1]
        self._common: Vector = sample.mean(axis=0, dtype=np.float32)
        self._bytes = -(-dimension // 64) * 8
        turns = np.random.default_rng(_ROTATION_SEED).normal(size=(dimension, dimension))
        self._rotation: Vectors = np.linalg.qr(turns)[0].astype(np.float32)
        self._words: NDArray[np.uint64] = np.zeros((self._bytes // 8, _FIRST_ROOM), dtype=np.uint64)
        #: For each slot the product with the common part, and the worth of one sign.
        self._numbers: NDArray[np.float32] = np.zeros((2, _FIRST_ROOM), dtype=np.float32)

    def __len__(self) -> int:
        """How many slots there are."""
        return self._size

    def add(self, vectors: Vectors) -> None:
        """Append the signs of these."""
        while self._size + len(vectors) > self._words.shape[1]:
            self._words = np.concatenate([self._words, np.zeros_like(self._words)], axis=1)
            self._numbers = np.concatenate([self._numbers, np.zeros_like(self._numbers)], axis=1)
        place = slice(self._size, self._size + len(vectors))
        own = vectors - self._common
        turned: Vectors = np.matmul(own, self._rotation)
        self._words[:, place] = self._signs(turned).T
        sums = np.maximum(np.abs(turned).sum(axis=1), np.finfo(np.float32).tiny)
        self._numbers[:, place] = own @ self._common, np.square(turned).sum(axis=1) / sums
        self._size += len(vectors)

    def take_out(self, slot: int) -> None:
        """Overwrite a slot by the last."""
        self._size -= 1
        for kept in (self._words, self._numbers):
            kept[:, slot] = kept[:, self._size]
            kept[:, self._size] = 0

    def best(self, query: Vector, count: int, allowed: Mask | None) -> Slots:
        """The slots with the largest estimated product."""
        own: Vector = np.matmul(query - self._common, self._rotation)
        places = slice(self._size) if allowed is None else np.flatnonzero(allowed)
        words, (base, worth) = self._words[:, places], self._numbers[:, places]
        agreeing = len(own) - np.float32(2) * _differing(words, self._signs(own[None])[0])
        near = _largest(base + worth * (np.abs(own).mean() * agreeing), _SIGNS_FOR_ONE * count)
        packed = np.ascontiguousarray(words[:, near].T).view(np.uint8)
        signs = 2 * np.unpackbits(packed, axis=1, count=len(own)).astype(np.float32) - 1
        found = near[_largest(base[near] + worth[near] * (signs @ own), count)]
        return found if isinstance(places, slice) else places[found]

    def _signs(self, turned: Vectors) -> NDArray[np.uint64]:
        packed = np.zeros((len(turned), self._bytes), dtype=np.uint8)
        bits = np.packbits(turned > 0, axis=1)
        packed[:, : bits.shape[1]] = bits
        return packed.view(np.uint64)


def _differing(words: NDArray[np.uint64], signs: NDArray[np.uint64]) -> NDArray[np.uint16]:
    """In how many bits each column differs."""
    found = np.zeros(words.shape[1], dtype=np.uint16)
    for start in range(0, len(found), _CHUNK):
        part = found[start : start + _CHUNK]
        for row, word in zip(words, signs, strict=True):
            part += np.bitwise_count(row[start : start + _CHUNK] ^ word)
    return found


def _largest(values: NDArray[np.floating[Any]], count: int) -> Slots:
    """Where the `count` largest are; all places if there are no more."""
    if len(values) <= count:
        return np.arange(len(values))
    return np.argpartition(-values, count)[:count]
