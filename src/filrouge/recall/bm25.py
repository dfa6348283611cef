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

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float32]

_FORMS_OF_A_WORD = 2
_TINY = 1e-9


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


class Bm25:
    """One question's words against any texts, also against several texts taken as one."""

    def __init__(self, terms: Sequence[Sequence[str]], collection: Collection, okapi: Okapi | None = None) -> None:
        weights = dict[str, float]()
        for forms in terms:
            for form in forms:
                times = _FORMS_OF_A_WORD if len(forms) == 1 else 1
                weights[form] = max(weights.get(form, 0.0), times * collection.rarity(form))
        self._weights = weights
        self._mean = collection.mean or 1.0
        self._okapi = okapi or Okapi()

    def counted(self, texts: Sequence[Mapping[str, int]]) -> Scores:
        """How often each form of the question's words stands in each text, shape (texts, forms)."""
        rows = [[text.get(form, 0) for form in self._weights] for text in texts]
        return np.array(rows, dtype=np.float32).reshape(len(texts), len(self._weights))

    def scores(self, counts: Scores, lengths: Scores, widths: Scores | float = 1.0) -> Scores:
        """The scores of texts; higher is better, 0 where nothing of the question occurs.

        Args:
            counts: how often the forms stand in them, as `counted` gives it, or sums of that.
            lengths: how many tokens each has.
            widths: how many items each is made of, which is what its length is held against.
        """
        okapi = self._okapi
        norms = okapi.k1 * (1 - okapi.b + okapi.b * lengths / (self._mean * widths))
        shares = counts * (okapi.k1 + 1) / np.maximum(counts + norms[:, None], _TINY)
        return (shares @ np.array(list(self._weights.values()), dtype=np.float32)).astype(np.float32)


def bm25(
    terms: Sequence[Sequence[str]],
    candidates: Mapping[str, Sequence[str]],
    collection: Collection,
    okapi: Okapi | None = None,
) -> dict[str, float]:
    """The score of each candidate.

    Args:
        terms: the words of the question with their forms. Every word weighs the same: one that is its own stem counts
            twice, as in the expression that found the candidates.
        candidates: the tokens that each item is indexed under, repeated as they are.
    """
    if not candidates:
        return {}
    words = Bm25(terms, collection, okapi)
    lengths = np.array([len(tokens) for tokens in candidates.values()], dtype=np.float32)
    found = words.scores(words.counted([Counter(tokens) for tokens in candidates.values()]), lengths)
    return dict(zip(candidates, map(float, found), strict=True))
