"""Needed: the probability that a memory is what a prompt needs, where the embedder learned what prompts need.

Whether two texts speak of one thing is another question (`recall.relevance`). Here a memory is judged among the others
that were found with it: by how far its cosine with what the prompt needs (`ports.Seeking`) stands above theirs, then by
the signs of relevance; logistic, with weights that `bench/fit_needed.py` fitted on labelled talk that the embedder had
not learned from. Whether the prompt needs anything at all depends on whether anything about it is known, and on how
much nearer the best memory is than "nothing". The thresholds were chosen on the same talk (`bench/results/needed.md`).
Labels name a few memories a prompt, so a probability of .3 is a high one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from filrouge.recall.relevance import LogOdds, logistic, shares

#: Cosines lie close together; divided by this they spread over the softmax.
TEMPERATURE: Final = 0.03
#: What is less probable is not shown before a prompt.
LEAST: Final = 0.145
#: Log odds that a memory is needed.
WEIGHTS: Final = {"one": -1.75, "ahead": 0.422, "covered": 2.323, "similarity": 2.867}
#: `Found.needed` of the best memory: below the first a prompt needs nothing; from the second on it probably needs
#: something, even if relevance says that nothing is known.
FAR, NEAR = -0.09, -0.02
#: The probability that a prompt needs something from `NEAR` on.
CLEAR: Final = 0.9


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What speaks for one memory.

    Attributes:
        needed: how much nearer it is to what the prompt needs than nothing is, a difference of two cosines.
        covered, similarity: as `relevance.Signs` has them.
    """

    needed: float
    covered: float
    similarity: float


def chances(found: Sequence[Found], weights: LogOdds = WEIGHTS) -> list[float]:
    """For each memory of those found together the probability that the prompt needs it."""
    return [logistic(row, weights) for row in numbers(found)]


def numbers(found: Sequence[Found]) -> list[Mapping[str, float]]:
    """The numbers that `chances` weighs."""
    parts = shares([one.needed / TEMPERATURE for one in found])
    return [
        {"ahead": math.log(max(part, 1e-6)), "covered": one.covered, "similarity": one.similarity}
        for one, part in zip(found, parts, strict=True)
    ]


def anything(nearest: float, known: float) -> float:
    """The probability that the prompt needs anything of what was found.

    Args:
        nearest: the highest `Found.needed`.
        known: the probability that anything about the prompt is known.
    """
    if nearest < FAR:
        return 0.0
    return max(known, CLEAR) if nearest >= NEAR else known
