"""BM25 with k1 and b to choose, over a handful of candidates.

FTS5's own bm25() has k1 = 1.2 and b = 0.75 built in, finds the candidates with them, and knows nothing of how far two
forms belong to one word. Scored again over their own tokens, the best fifty can be put in the order that other values
give: short turns want a length that counts less and a repetition that says less.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_FORMS_OF_A_WORD = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Okapi:
    """The two free values of BM25.

    Attributes:
        k1: how much a repetition still adds; 0 = a word counts once.
        b: how much length counts; 0 = not at all, 1 = in full.
    """

    k1: float = 0.6
    b: float = 0.4

    def __post_init__(self) -> None:
        if self.k1 < 0 or not 0 <= self.b <= 1:
            raise ValueError(f"k1 must not be negative and b must lie in [0, 1], not {self.k1} and {self.b}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Collection:
    """What is known of all the rows that the candidates come from.

    Attributes:
        rows: how many there are.
        mean: tokens of an average one.
        frequencies: in how many of them each token occurs; one that is missing occurs nowhere.
    """

    rows: int
    mean: float
    frequencies: Mapping[str, int]

    def rarity(self, form: str) -> float:
        """Inverse document frequency, smoothed, never negative (Lucene's)."""
        having = self.frequencies.get(form, 0)
        return math.log(1 + (max(self.rows, having) - having + 0.5) / (having + 0.5))


def bm25(
    terms: Sequence[Sequence[str]],
    candidates: Mapping[str, Sequence[str]],
    collection: Collection,
    okapi: Okapi | None = None,
) -> dict[str, float]:
    """The score of each candidate; higher is better, 0 where nothing of the question occurs.

    Args:
        terms: the words of the question with their forms. Every word weighs the same: one that is its own stem counts
            twice, as in the expression that found the candidates.
        candidates: the tokens that each item is indexed under, repeated as they are.
    """
    okapi = okapi or Okapi()
    weights = dict[str, float]()
    for forms in terms:
        for form in forms:
            times = _FORMS_OF_A_WORD if len(forms) == 1 else 1
            weights[form] = max(weights.get(form, 0.0), times * collection.rarity(form))
    return {id_: _score(weights, tokens, collection.mean, okapi) for id_, tokens in candidates.items()}


def _score(weights: Mapping[str, float], tokens: Sequence[str], mean: float, okapi: Okapi) -> float:
    counts = Counter(token for token in tokens if token in weights)
    norm = okapi.k1 * (1 - okapi.b + okapi.b * len(tokens) / (mean or 1.0))
    return sum(weights[form] * count * (okapi.k1 + 1) / (count + norm) for form, count in counts.items())
