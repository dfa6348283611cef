"""Logistic regressions over dense features and hashed words: how the models of this room are stored and asked.

They are fitted by `bench/logistic.py`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Final

import numpy as np
from numpy.typing import NDArray

from filrouge.model.memory import LEAST_TO_INJECT

Numbers = NDArray[np.float32]

#: Places of hashed words.
BUCKETS: Final = 1 << 13
#: Of weights that are rows of numbers.
PARTS: Final = ("dense", "hashed", "bias")


@dataclass(frozen=True, kw_only=True, slots=True)
class Regression:
    """Weights of dense features and of hashed words (rows), for each question (columns).

    Attributes:
        threshold: the probability of the first question from which on its answer is taken for a yes.
    """

    dense: Numbers
    hashed: Numbers
    bias: Numbers
    threshold: float


def load(file: str, prefix: str = "") -> Regression:
    """The weights in a file of this room, under names that begin so."""
    found = arrays(file)
    return Regression(**{part: found[prefix + part] for part in PARTS}, threshold=float(found[f"{prefix}threshold"]))


def arrays(file: str) -> dict[str, Numbers]:
    """All arrays in a file of this room, by name."""
    with resources.files(__package__ or "").joinpath(file).open("rb") as opened, np.load(opened) as stored:
        return {name: stored[name].astype(np.float32) for name in stored.files}


def places(words: Iterable[str]) -> list[int]:
    """The places of words, each once. A message may hold half a character, so words may too."""
    return sorted({zlib.crc32(word.encode("utf-8", "surrogatepass")) % BUCKETS for word in words})


def weight(places: Sequence[int]) -> float:
    """What each of so many hashed words counts: a long text is no surer for its length."""
    return 2.0 / float(np.sqrt(max(1, len(places))))


def log_odds(features: Numbers, hashed: Sequence[Sequence[int]], given: Regression) -> Numbers:
    """A row a text, a column a question.

    Args:
        features: shape (texts, dense features).
        hashed: the places of the words of each text.
    """
    found = features @ given.dense + given.bias
    for row, own in enumerate(hashed):
        found[row] += given.hashed[list(own)].sum(axis=0) * weight(own)
    return found


def chances(odds: Numbers) -> Numbers:
    """The probabilities that log odds stand for."""
    return (1.0 / (1.0 + np.exp(-np.clip(odds, -30, 30)))).astype(np.float32)


def confidence(chance: float, threshold: float) -> float:
    """What a statement is kept with that was taken at this probability: just enough to be injected at the threshold."""
    surer = (max(chance, threshold) - threshold) / max(1e-9, 1.0 - threshold)
    return round(LEAST_TO_INJECT + (1.0 - LEAST_TO_INJECT) * surer * 0.9, 2)
