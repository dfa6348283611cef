"""Codes of four bits a coordinate, scanned by turbovec's vector instructions.

TurboQuant (Zandieh et al. 2025): after a random rotation every coordinate follows one known distribution, so that one
table of sixteen levels serves all vectors; a sample tells where each coordinate of this model lies. turbovec is a
wheel of its own; where it is missing, `search.vector_codes.SignCodes` does the same work more slowly.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final, cast

import numpy as np
import turbovec  # pyright: ignore[reportMissingTypeStubs]

from filrouge.core.protocols import Vector, Vectors
from filrouge.search.vector_codes import Guesses, Mask, Slots

_BITS: Final = 4
#: turbovec takes dimensions in steps of eight.
_STEP: Final = 8


class TurboCodes:
    """Implements `Codes`: 192 bytes for 384 dimensions, and four for the length.

    Args:
        sample: vectors such as are to be added; each coordinate's place and width are taken from them.
    """

    guesses = Guesses(fewest=100, each=2)

    def __init__(self, sample: Vectors) -> None:
        self._missing = -sample.shape[1] % _STEP
        made: Any = cast("Any", turbovec).TurboQuantIndex(dim=sample.shape[1] + self._missing, bit_width=_BITS)
        with suppress(ValueError):  # vectors that are all the same tell nothing; the known distribution has to do then
            made.calibrate(self._padded(sample))
        self._codes = made

    def __len__(self) -> int:
        """How many slots there are."""
        return len(self._codes)

    def add(self, vectors: Vectors) -> None:
        """Append these."""
        self._codes.add(self._padded(vectors))

    def take_out(self, slot: int) -> None:
        """Overwrite a slot by the last."""
        self._codes.swap_remove(slot)

    def best(self, query: Vector, count: int, allowed: Mask | None) -> Slots:
        """The slots with the largest product, as far as four bits tell."""
        _, slots = self._codes.search(self._padded(query[None]), k=min(count, len(self)), mask=allowed)
        return slots[0].astype(np.intp)

    def _padded(self, vectors: Vectors) -> Vectors:
        return np.ascontiguousarray(np.pad(vectors, ((0, 0), (0, self._missing))), dtype=np.float32)
