"""Vector codes of four bits per coordinate, scanned by turbovec's SIMD code.

TurboQuant (Zandieh et al. 2025): after a random rotation every coordinate follows one known distribution, so a single
table of sixteen levels serves all vectors. A sample calibrates the location and width of each coordinate for this
model. turbovec is a separate wheel; without it, `search.vector_codes.SignCodes` does the same work more slowly.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final, cast

import numpy as np
import turbovec  # pyright: ignore[reportMissingTypeStubs]

from filrouge.core.protocols import Vector, Vectors
from filrouge.search.vector_codes import Mask, Oversampling, Slots

_BITS: Final = 4
#: turbovec requires dimensions that are multiples of eight.
_DIMENSION_STEP: Final = 8


class TurboCodes:
    """Implements `Codes`: 192 bytes for 384 dimensions, plus four for the length.

    Args:
        sample: vectors representative of those to be added; they set the location and width of each coordinate.
    """

    oversampling = Oversampling(min_candidates=100, per_owner=2)

    def __init__(self, sample: Vectors) -> None:
        self._padding = -sample.shape[1] % _DIMENSION_STEP
        codes: Any = cast("Any", turbovec).TurboQuantIndex(dim=sample.shape[1] + self._padding, bit_width=_BITS)
        with suppress(ValueError):  # identical vectors cannot be calibrated on; the known distribution is used then
            codes.calibrate(self._padded(sample))
        self._codes = codes

    def __len__(self) -> int:
        """Return the number of slots."""
        return len(self._codes)

    def add(self, vectors: Vectors) -> None:
        """Append these vectors."""
        self._codes.add(self._padded(vectors))

    def remove(self, slot: int) -> None:
        """Remove a slot by overwriting it with the last."""
        self._codes.swap_remove(slot)

    def best(self, query: Vector, count: int, allowed: Mask | None) -> Slots:
        """Return the slots with the largest approximate inner product."""
        _, slots = self._codes.search(self._padded(query[None]), k=min(count, len(self)), mask=allowed)
        return slots[0].astype(np.intp)

    def _padded(self, vectors: Vectors) -> Vectors:
        return np.ascontiguousarray(np.pad(vectors, ((0, 0), (0, self._padding))), dtype=np.float32)
