"""The ground that all talk stands on, which is taken out before two pieces of talk are compared.

Prompts of one person are alike before they say anything: the same language, the same manner, the same words of asking.
In the bundled model's space that makes the median of unrelated prompts .83 to .91, and the centroid of a few unrelated
ones nearer still. So the mean of all prompts is taken off, and the directions in which they all differ among themselves
are flattened (whitening with shrinkage); what remains is what they are about. 0 is then the median of unrelated pairs
and 1 the same text, as MEM-7 has it, of this person's talk in place of everybody's.

A ground is derived from stored vectors and made anew as they grow; the bundled sample stands in while there are few.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from filrouge.ports import Vector, Vectors

#: Vectors without which there is no ground, and the newest that are worth reading.
LEAST, MOST = 64, 4000
#: How far the directions are levelled: 0 = all alike, the more the less; it grows where there are few vectors.
_SHRINKAGE, _FEW = 0.5, 200.0

Square = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Ground:
    """What a set of vectors has in common.

    Attributes:
        mean: shape (dimension,).
        levels: shape (dimension, dimension).
    """

    mean: Vector
    levels: Square

    @classmethod
    def of(cls, vectors: Vectors) -> Ground | None:
        """The ground of at least `LEAST` vectors, None of fewer.

        Args:
            vectors: unit vectors of a space, shape (n, dimension): the user's prompts, and the sample's texts.
        """
        if len(vectors) < LEAST:
            return None
        mean = vectors.mean(axis=0, dtype=np.float64)
        spread = vectors - mean
        sizes, directions = np.linalg.eigh(spread.T @ spread / len(vectors))
        sizes = np.maximum(sizes, 0.0)
        average = float(sizes.mean()) or 1.0
        scales = 1.0 / np.sqrt(sizes / average + _SHRINKAGE * (1.0 + _FEW / len(vectors)))
        return cls(mean.astype(np.float32), ((directions * scales) @ directions.T).astype(np.float32))

    def off(self, vectors: Vectors) -> Vectors:
        """What remains of vectors without their ground, of length 1; shape (n, dimension)."""
        rest = (vectors - self.mean) @ self.levels
        lengths = np.linalg.norm(rest, axis=1, keepdims=True)
        return np.asarray(rest / np.where(lengths > 0.0, lengths, 1.0), dtype=np.float32)
