"""Relevance: the probability that a result helps, learned from labels, on one scale for whatever was found.

Two questions are answered apart. **Is this the one?** `chances` gives each result the probability that it holds what
was asked, from signs that mean the same in every store: calibrated similarities, the share of the question's words,
how far the result stands out from what was found beside it. **Is anything known?** `known` gives the probability that
the place holds something about the question at all, from the best of those signs over the first few results: so
silence is right where nothing is known, even though something is always the least unlikely.

Both are logistic; their weights were fitted by `bench/fit_recall.py` on questions asked where their answer is and where
it is not, and checked on sources that they had not seen (`bench/results/relevance.md`). Where there are no vectors, the
weights of words alone are used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from filrouge.extraction.vocabulary import PLAIN_WORDS

Numbers = NDArray[np.float64]
LogOdds = Mapping[str, float]

#: Results whose best signs tell whether anything is known: as many as go before a prompt.
FIRST: Final = 4
_MANY_WORDS: Final = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Signs:
    """What speaks for one result.

    Attributes:
        similarity: of the question and its best window, calibrated; 0 without a vector.
        around, wide: of the question and the neighbourhood of one turn on each side, and of two; as `similarity`
            for what stands alone.
        covered: the share of the question's words that it has, weighted by rarity.
        telling: it has a word of the question that says what the talk is about.
        share: of the pool's weight (softmax of the scores) that falls on it, in (0, 1].
        words: how many meaningful words the question has.
        time, speaker, dated, asks: features of ranking (`neighbourhood.NAMES`); 0 for what is no turn.
    """

    similarity: float
    around: float
    wide: float
    covered: float
    telling: bool
    share: float
    words: int
    time: float = 0.0
    speaker: float = 0.0
    dated: float = 0.0
    asks: float = 0.0

    def named(self) -> dict[str, float]:
        """As the numbers that are weighed."""
        return {
            "similarity": self.similarity,
            "around": self.around,
            "wide": self.wide,
            "covered": self.covered,
            "telling": float(self.telling),
            "stands_out": math.log(max(self.share, 1e-6)),
            "words": min(self.words, _MANY_WORDS) / _MANY_WORDS,
            "similar_and_covered": self.similarity * self.covered,
            "wide_and_covered": self.wide * self.covered,
            "time": self.time,
            "speaker": self.speaker,
            "dated": self.dated,
            "asks": self.asks,
        }


def chances(signs: Sequence[Signs], weights: LogOdds) -> list[float]:
    """For each result the probability that it holds what was asked."""
    return [logistic(one.named(), weights) for one in signs]


def known(signs: Sequence[Signs], found: Sequence[float], words_found: float, weights: LogOdds) -> float:
    """The probability that anything about the question is known, 0 where nothing was found.

    Args:
        found: the results' `chances`.
        words_found: the share of the question's words, weighted by rarity, that occur in any of the results.
    """
    return logistic(summary(signs, found, words_found), weights) if signs else 0.0


def summary(signs: Sequence[Signs], found: Sequence[float], words_found: float) -> dict[str, float]:
    """The numbers that `known` weighs."""
    best = sorted(range(len(signs)), key=lambda place: -found[place])[:FIRST]
    any_of_them = 1.0 - math.prod(1.0 - found[place] for place in best)
    similar = max(signs[place].similarity for place in best)
    covered = max(signs[place].covered for place in best)
    return {
        "any": log_odds(any_of_them),
        "similarity": similar,
        "wide": max(signs[place].wide for place in best),
        "covered": covered,
        "words_found": words_found,
        "words_missing": float(words_found < 1.0 - 1e-9),
        "similar_and_covered": similar * covered,
    }


def rarity(frequency: int, size: int) -> float:
    """Inverse document frequency, smoothed: ln(1 + (N - n + 0.5) / (n + 0.5)) (Robertson, Okapi BM25)."""
    return math.log(1 + (max(size, frequency) - frequency + 0.5) / (frequency + 0.5))


def telling(word: str, frequency: int, size: int) -> bool:
    """True for a word that says what the talk is about: known to few memories, and no everyday word."""
    few = frequency <= max(5, size * 0.05)
    return few and len(word) >= 2 and word not in PLAIN_WORDS and not (word.isdigit() and len(word) < 3)


def coverage(matched: Sequence[str], weights: Mapping[str, float]) -> float:
    """The share of a prompt's words that an item has, weighted by rarity, in [0, 1]."""
    total = sum(weights.values())
    return sum(weights[word] for word in matched) / total if total else 0.0


def shares(scores: Sequence[float]) -> list[float]:
    """The softmax of some scores."""
    if not scores:
        return []
    parts = np.exp(np.asarray(scores, dtype=np.float64) - max(scores))
    return [float(part) for part in parts / parts.sum()]


def logistic(numbers: Mapping[str, float], weights: LogOdds) -> float:
    """The probability by weighed numbers; one that has no weight has no say."""
    total = weights["one"] + sum(weights[name] * number for name, number in numbers.items() if name in weights)
    return 1.0 / (1.0 + math.exp(-max(-50.0, min(50.0, total))))


def log_odds(chance: float) -> float:
    """Of a probability; the certain ones are held at 1 in 10,000."""
    held = min(max(chance, 1e-4), 1 - 1e-4)
    return math.log(held / (1 - held))
