"""One vector for what has several: for a prompt of several windows, and for a thread's prompts.

A thread's vector is derived: it can be made again at any time from what is stored, and in another space it is another.
Others look the thread up by it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from filrouge.ports import Vector, Vectors


def prompt_vector(windows: Vectors | None) -> Vector | None:
    """The mean direction of a prompt's windows, of length 1; None where it has none."""
    return None if windows is None or not len(windows) else _unit(windows.mean(axis=0))


def thread_vector(prompts: Sequence[Vectors]) -> Vector | None:
    """The mean direction of a thread's prompts, of length 1; None where no prompt has vectors.

    Args:
        prompts: of each routed turn its windows, shape (windows, dimension), of length 1.
    """
    there = [one for windows in prompts if (one := prompt_vector(windows)) is not None]
    return _unit(np.mean(there, axis=0)) if there else None


def _unit(vector: Vector) -> Vector:
    length = float(np.linalg.norm(vector))
    return np.asarray(vector / length if length else vector, dtype=np.float32)
