"""The vector of a thread, made of those of its prompts.

It is derived: it can be made again at any time from what is stored, and in another space it is another one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from filrouge.ports import Vector, Vectors


def thread_vector(prompts: Sequence[Vectors]) -> Vector | None:
    """The mean direction of a thread's prompts, of length 1; None where no prompt has vectors.

    Args:
        prompts: of each routed turn, oldest first, its windows, shape (windows, dimension), unit length.
    """
    means = [_unit(windows.mean(axis=0)) for windows in prompts if len(windows)]
    return _unit(np.mean(means, axis=0)) if means else None


def prompt_vector(windows: Vectors | None) -> Vector | None:
    """One vector for a prompt of several windows; None where it has none."""
    return None if windows is None or not len(windows) else _unit(windows.mean(axis=0))


def _unit(vector: Vector) -> Vector:
    length = float(np.linalg.norm(vector))
    return np.asarray(vector / length if length else vector, dtype=np.float32)
