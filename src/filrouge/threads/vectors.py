"""One vector for what has several: for a prompt of several windows, and for several prompts.

A thread's vectors are derived: they can be made again at any time from what is stored, and in another space they are
others. `parts_of` makes what is compared; `thread_vector` makes the one that others look a thread up by.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from filrouge.ports import Vector, Vectors
from filrouge.threads.weighing import Part

#: Sessions of a thread that are compared, and topics of one session, the latest of both.
MOST_PARTS, MOST_TOPICS = 8, 40


def prompt_vector(windows: Vectors | None) -> Vector | None:
    """The mean direction of a prompt's windows, of length 1; None where it has none."""
    return None if windows is None or not len(windows) else _unit(windows.mean(axis=0))


def mean_vector(vectors: Sequence[Vector | None]) -> Vector | None:
    """The mean direction of several prompts, of length 1; None where none has a vector."""
    there = [one for one in vectors if one is not None]
    return _unit(np.mean(there, axis=0)) if there else None


def thread_vector(prompts: Sequence[Vectors]) -> Vector | None:
    """The mean direction of a thread's prompts, of length 1; None where no prompt has vectors.

    Args:
        prompts: of each routed turn its windows, shape (windows, dimension), of length 1.
    """
    return mean_vector([prompt_vector(windows) for windows in prompts])


def parts_of(prompts: Sequence[tuple[str, Part]]) -> tuple[Part, ...]:
    """The parts of a thread.

    Args:
        prompts: its routed turns, oldest first, each with its session.
    """
    return tuple(by_session(prompts).values())[-MOST_PARTS:]


def by_session(prompts: Sequence[tuple[str, Part]]) -> dict[str, Part]:
    """All parts of a thread, each under its session; what `regrouping` moves.

    Args:
        prompts: as in `parts_of`.
    """
    sessions: dict[str, list[Part]] = {}
    for session, part in prompts:
        sessions.setdefault(session, []).append(part)
    return {session: together(parts) for session, parts in sessions.items()}


def together(parts: Sequence[Part]) -> Part:
    """Prompts as one part."""
    topics = tuple(dict.fromkeys(topic for part in parts for topic in part.topics))
    return Part(vector=mean_vector([part.vector for part in parts]), topics=topics[-MOST_TOPICS:])


def _unit(vector: Vector) -> Vector:
    length = float(np.linalg.norm(vector))
    return np.asarray(vector / length if length else vector, dtype=np.float32)
