"""How much of a law a run proves: a sample in `make test`, many times as many examples in `make proof`.

FILROUGE_EXAMPLES, which `make proof` sets to 2000, is what a law gets that names no number, 25 in `make test`; one that
names a number gets its share, of a hundred.
"""

from __future__ import annotations

import os
from typing import Final

USUAL: Final = 100
EXAMPLES: Final = int(os.environ.get("FILROUGE_EXAMPLES", "0") or 0) or USUAL


def is_proof() -> bool:
    """Whether this run is asked for more examples than `make test` takes."""
    return EXAMPLES > USUAL


def examples(sample: int) -> int:
    """How many examples a law gets of which `make test` takes `sample`."""
    return max(1, sample * EXAMPLES // USUAL)


def long(most: int) -> int:
    """How long the longest text of a law is: all that is allowed in `make proof`, less than a third of it else."""
    return most if is_proof() else most * 3 // 10
