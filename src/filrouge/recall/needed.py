"""Needed: the probability that a memory is what a prompt needs, where the embedder learned what prompts need.

Whether two texts speak of one thing is another question (`recall.relevance`). Here a memory is judged among the others
that were found with it: by how far its cosine with what the prompt needs (`ports.Seeking`) stands above theirs, then by
the signs of relevance, and by whether anything about the prompt is known at all. Logistic; the weights were fitted by
`bench/fit_needed.py` on labelled talk, and the least probability was chosen on other projects
(`bench/results/needed.md`). Labels name a few memories a prompt, so a probability of .3 is a high one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from filrouge.recall.relevance import LogOdds, log_odds, logistic, shares

#: Cosines lie close together; divided by this they spread over the softmax.
TEMPERATURE: Final = 0.03
#: What is less probable is not shown before a prompt.
LEAST: Final = 0.175
WEIGHTS: Final = {"one": -0.817, "needed": 0.977, "ahead": 0.577, "covered": 0.676, "similarity": 0.716, "known": 0.091}


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What speaks for one memory.

    Attributes:
        needed: its cosine with what the prompt needs.
        covered, similarity: as `relevance.Signs` has them.
    """

    needed: float
    covered: float
    similarity: float


def chances(found: Sequence[Found], known: float, weights: LogOdds = WEIGHTS) -> list[float]:
    """For each memory of those found together the probability that the prompt needs it.

    Args:
        known: the probability that anything about the prompt is known.
    """
    return [logistic(row, weights) for row in numbers(found, known)]


def numbers(found: Sequence[Found], known: float) -> list[dict[str, float]]:
    """The numbers that `chances` weighs."""
    parts = shares([one.needed / TEMPERATURE for one in found])
    return [
        {
            "needed": one.needed,
            "ahead": math.log(max(part, 1e-6)),
            "covered": one.covered,
            "similarity": one.similarity,
            "known": log_odds(known),
        }
        for one, part in zip(found, parts, strict=True)
    ]
