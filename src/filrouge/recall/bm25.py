"""BM25 over rows whose tokens are counted: with k1 and b to choose, or as the full-text backends reckon it.

FTS5 and tantivy find candidates with k1 = 1.2 and b = 0.75 built in, and know nothing of how far two forms belong to
one word. Scored again over their own tokens, the best fifty can be put in the order that other values give: short
turns want a length that counts less and a repetition that says less. Rows that an index does not hold yet, and shares
of a table that nothing else may show through, are scored here by the backends' own formula.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_FORMS_OF_A_WORD: Final = 2
_LEAST_RARITY: Final = 1e-6


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


#: The values that FTS5 and tantivy have built in.
BUILT_IN: Final = Okapi(k1=1.2, b=0.75)


@dataclass(frozen=True, kw_only=True, slots=True)
class Collection:
    """What is known of all the rows that the candidates come from.

    Attributes:
        rows: how many there are.
        mean: tokens of an average one.
        frequencies: in how many of them each token occurs; one that is missing occurs nowhere.
        is_floored: reckon rarity as FTS5 does (https://sqlite.org/fts5.html): what more than half of the rows have
            weighs next to nothing. Otherwise smoothed, as Lucene and tantivy do.
    """

    rows: int
    mean: float
    frequencies: Mapping[str, int]
    is_floored: bool = False

    def rarity(self, form: str) -> float:
        """Inverse document frequency, never negative."""
        having = self.frequencies.get(form, 0)
        if self.is_floored:
            return max(math.log((self.rows - having + 0.5) / (having + 0.5)), _LEAST_RARITY)
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
    counts = {id_: Counter(tokens) for id_, tokens in candidates.items()}
    lengths = {id_: len(tokens) for id_, tokens in candidates.items()}
    return bm25_of_counts(terms, counts, lengths, collection, okapi)


def bm25_of_counts(
    terms: Sequence[Sequence[str]],
    counts: Mapping[str, Mapping[str, int]],
    lengths: Mapping[str, int],
    collection: Collection,
    okapi: Okapi | None = None,
) -> dict[str, float]:
    """The same where it is known how often each token occurs, and how many there are.

    Args:
        counts: of each candidate; other tokens than the question's do not matter.
        lengths: of each candidate at least.
    """
    okapi, weights, mean = okapi or Okapi(), _weights(terms, collection), collection.mean or 1.0
    found = dict[str, float]()
    for id_, occurring in counts.items():
        norm = okapi.k1 * (1 - okapi.b + okapi.b * lengths[id_] / mean)
        found[id_] = sum(
            weights[form] * n * (okapi.k1 + 1) / (n + norm) for form, n in occurring.items() if form in weights
        )
    return found


def _weights(terms: Sequence[Sequence[str]], collection: Collection) -> dict[str, float]:
    times = dict[str, int]()
    for forms in terms:
        for form in forms:
            times[form] = max(times.get(form, 0), _FORMS_OF_A_WORD if len(forms) == 1 else 1)
    return {form: count * collection.rarity(form) for form, count in times.items()}
