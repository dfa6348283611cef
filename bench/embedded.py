"""Vectors of texts by the bundled embedder, each made once and as precise as they are stored."""

from __future__ import annotations

import os
from collections.abc import Sequence

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
import numpy as np
from numpy.typing import NDArray

from filrouge.embed.preferred import e5

Numbers = NDArray[np.float32]
_TOGETHER = 48


class Embedded:
    """The vectors of texts."""

    def __init__(self) -> None:
        self._embedder = e5()
        self._made: dict[str, Numbers] = {}

    def passages(self, texts: Sequence[str]) -> Numbers:
        """A row a text."""
        new = sorted({text for text in texts if text not in self._made}, key=lambda text: (len(text), text))
        for at in range(0, len(new), _TOGETHER):
            some = new[at : at + _TOGETHER]
            made = self._embedder.passages(some).astype(np.float16).astype(np.float32)
            self._made.update(zip(some, made, strict=True))
        return np.stack([self._made[text] for text in texts])
