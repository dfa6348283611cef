"""The stable hash embedder: the last resort if no model can run, and the fake for tests.

Each token adds +1 or -1 to one of 384 dimensions chosen by a hash (feature hashing, Weinberger et al. 2009). It
represents words, not meaning. The same text has the same vector on every machine and in every process, which Python's
own `hash` does not guarantee.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from itertools import pairwise

import numpy as np

from filrouge.core.protocols import Vector, Vectors
from filrouge.providers.models import Calibration, EmbeddingSpace

#: The name of this model in its space.
HASHED = "stable-hash"
_DIMENSION = 384


class StableHash:
    """Feature hashing over words and pairs of adjacent words."""

    @property
    def space(self) -> EmbeddingSpace:
        """The space of these vectors. Unrelated texts share no token, so their median cosine is 0."""
        return EmbeddingSpace(
            id=f"{HASHED}/1/384/sum/none",
            model=HASHED,
            revision="1",
            dimension=_DIMENSION,
            pooling="sum",
            prefix="",
            calibration=Calibration.shipped(median=0.0, question_median=0.0, pairs=0),
        )

    def query(self, text: str) -> Vector:
        """Return the vector of a text."""
        words = text.casefold().split()
        vector = np.zeros(_DIMENSION, dtype=np.float32)
        for feature in [*words, *map(" ".join, pairwise(words))]:
            number = int.from_bytes(blake2b(feature.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
            vector[number % _DIMENSION] += 1.0 if number >> 63 else -1.0
        length = float(np.linalg.norm(vector))
        if length == 0.0:
            vector[0] = length = 1.0
        return vector / length

    def passages(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of texts, in order."""
        return np.stack([self.query(text) for text in texts]) if texts else np.empty((0, _DIMENSION), np.float32)
