"""What is done when the run is over, before anybody looks which processes are left."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from typing import Final

_STEPS: Final[list[Callable[[], object]]] = []


def at_the_end(step: Callable[[], object]) -> None:
    """Have a step taken once, at the end of this worker's run."""
    _STEPS.append(step)


def end() -> None:
    """Take the steps, the last one first."""
    while _STEPS:
        _STEPS.pop()()


atexit.register(end)  # for whoever uses the helpers outside of pytest
