"""Relevance: may this memory be put in front of this prompt?

Provisional, until it is learned from labels. Two readings are joined as independent evidence,
`1 - (1 - meaning) (1 - words)`. By meaning: the calibrated similarity of question and text, stretched so
that the 99th percentile of unrelated pairs of developers' prompts and statements reads just under one half.
By words: the share of the prompt's meaningful words that the memory has, each weighted by how rare it is, with a
floor for a rare and telling word (a name, a file, a tool) that both have. Fused scores are no use here: the
best of a min-max fusion is always 1, and would silence nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from filrouge.recall.plain_words import PLAIN_WORDS

#: Calibrated similarity that reads as relevance 0.5 (a cosine of .857 for multilingual-e5-small).
HALF_AT = 0.38
#: Relevance of one telling word that prompt and memory share, and what each further one adds.
ONE_TELLING_WORD, NEXT_TELLING_WORD = 0.5, 0.15


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


def relevance(*, similarity: float | None, covered: float, telling_words: int) -> float:
    """Both readings joined, in [0, 1]."""
    by_meaning = min(1.0, (similarity or 0.0) * 0.5 / HALF_AT)
    by_words = covered
    if telling_words:
        by_words = max(by_words, ONE_TELLING_WORD + NEXT_TELLING_WORD * (telling_words - 1))
    return 1.0 - (1.0 - by_meaning) * (1.0 - min(1.0, by_words))
