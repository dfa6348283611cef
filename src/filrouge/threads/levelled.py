"""A ground that remembers what it made of vectors.

Every prompt is held against the same threads as the one before it, and the ground has to be taken off their vectors
each time: most of the arithmetic of placing. What was asked once is looked up by the vector itself, so nothing can be
out of date; and it can be asked beforehand, where nobody waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from filrouge.ports import Vector, Vectors
from filrouge.threads.ground import Ground


@dataclass(frozen=True, slots=True, eq=False)
class Levelled(Ground):
    """The ground of one batch of prompts, which is let go with the batch.

    Attributes:
        known: by the bytes of a vector, what remains of it.
    """

    known: dict[bytes, Vector] = field(default_factory=dict[bytes, Vector])

    @classmethod
    def over(cls, ground: Ground) -> Levelled:
        """The same ground, with nothing remembered yet."""
        return cls(mean=ground.mean, levels=ground.levels)

    def learn(self, vectors: Sequence[Vector | None]) -> None:
        """Take the ground off vectors that will be asked for."""
        there = [one for one in vectors if one is not None]
        if there:
            self.off(np.stack(there))

    def off(self, vectors: Vectors) -> Vectors:
        """What remains of vectors without their ground, as `Ground.off` has it; shape (n, dimension)."""
        keys = [one.tobytes() for one in vectors]
        new = {key: place for place, key in enumerate(keys) if key not in self.known}
        if new:
            made = Ground.off(self, vectors[list(new.values())])
            self.known.update(zip(new, made, strict=True))
        return np.stack([self.known[key] for key in keys]) if keys else vectors
