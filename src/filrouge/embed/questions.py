"""What the encoder learned of prompts: changes to its upper layers, for the prompt's side alone.

Two texts about one thing have vectors that lie close together; a prompt and what it needs often have not. With these
changes a prompt's vector points at what it needs, and that of a prompt which needs nothing at one fixed vector. The
vectors of what is stored stay those of the unchanged network, so both kinds of question are compared with the same
stored vectors. `bench/fit_questions.py` makes the file, and says how.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from typing import Final

import numpy as np

from filrouge.embed.graph import Tensors
from filrouge.embed.weights import Floats, Sizes
from filrouge.ports import Vector

FILE: Final = "questions.npz"
#: The layers before this one are shared with the unchanged network.
HALF: Final = 8


class ChangedTensors:
    """The tensors of a network, with low-rank changes added to some of its matrices. Implements `Tensors`."""

    def __init__(self, weights: Tensors) -> None:
        self._weights = weights
        self._changes = _stored()

    @property
    def sizes(self) -> Sizes:
        """The shape of the network."""
        return self._weights.sizes

    def floats(self, name: str) -> Floats:
        """A tensor of 32-bit floats, flat; none of these is changed."""
        return self._weights.floats(name)

    def matrix(self, name: str, rows: int) -> Floats:
        """A matrix, a row for each output."""
        matrix, tensor = self._weights.matrix(name, rows), name.removesuffix(".w")
        narrow, wide = self._changes.get(f"{tensor}.in"), self._changes.get(f"{tensor}.out")
        return matrix if narrow is None or wide is None else (matrix + wide @ narrow).astype(np.float32)

    def ranges(self, table: Floats) -> Floats:
        """The table of `activation_ranges.npy` with other rows for the changed layers, measured with the changes."""
        parts = [self._changes[f"ranges.{name}"] for name in ("attention", "inner")]
        rows = np.concatenate([*parts, self._changes["ranges.found"][:, None]], axis=1)
        return np.concatenate([table[:HALF], rows])


@cache
def nothing() -> Vector:
    """The vector that prompts which need nothing point at, of length 1."""
    with np.load(_path()) as file:
        return file["nothing"].astype(np.float32)


def _path() -> str:
    return os.path.join(os.path.dirname(__file__), FILE)


def _stored() -> Mapping[str, Floats]:
    with np.load(_path()) as file:
        return {name: file[name].astype(np.float32) for name in file.files}
