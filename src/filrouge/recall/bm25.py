"""Okapi BM25 over counts of tokens, for texts that no index holds as one: a turn together with its neighbours.

`sum of idf(t) tf (k1 + 1) / (tf + k1 (1 - b + b length / average))`, with idf `ln(1 + (N - n + .5) / (n + .5))`
(Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009). A word counts under whichever of its forms
stands most often in the text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float32]

K1, B = 1.5, 0.75


@dataclass(frozen=True, kw_only=True, slots=True)
class Term:
    """A meaningful word of the question: the forms it may be indexed under, and how many items have it."""

    forms: tuple[str, ...]
    frequency: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Corpus:
    """What BM25 knows of all items: how many there are, and how many tokens one has on average."""

    size: int
    average_length: float


class Bm25:
    """One question's words against any texts."""

    def __init__(self, terms: Sequence[Term], corpus: Corpus, *, k1: float = K1, b: float = B) -> None:
        self._forms = [term.forms for term in terms]
        self._weights = np.array([rarity(term.frequency, corpus.size) for term in terms], dtype=np.float32)
        self._average = max(1.0, corpus.average_length)
        self._k1 = k1
        self._b = b

    def counted(self, texts: Sequence[Mapping[str, int]]) -> Scores:
        """How often each word of the question stands in each text, shape (texts, words)."""
        rows = [[max((text.get(form, 0) for form in forms), default=0) for forms in self._forms] for text in texts]
        return np.array(rows, dtype=np.float32).reshape(len(texts), len(self._forms))

    def scores(self, counts: Scores, lengths: Scores, widths: Scores) -> Scores:
        """The scores of texts.

        Args:
            counts: how often the words stand in them, as `counted` gives it, or sums of that.
            lengths: how many tokens each has.
            widths: how many items each is made of, which is what its length is held against.
        """
        norms = self._k1 * (1.0 - self._b + self._b * lengths / (self._average * widths))
        shares = counts * (self._k1 + 1.0) / np.maximum(counts + norms[:, None], 1e-9)
        return (shares @ self._weights).astype(np.float32)


def rarity(frequency: int, size: int) -> float:
    """Inverse document frequency, smoothed; positive for every word."""
    return math.log(1 + (max(size, frequency) - frequency + 0.5) / (frequency + 0.5))
