"""Recipes: how turns are ranked, by name. What each gives and costs is in `bench/results/README.md`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from filrouge.errors import BadInput
from filrouge.recall.hybrid import RRF_K
from filrouge.recall.neighbourhood import NAMES, Features
from filrouge.recall.weights import ALONE_MEANING, ALONE_WORDS, TURN_WEIGHTS

RecipeName = Literal["fast", "balanced", "deep", "rrf"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """How to rank.

    Attributes:
        pool: candidates of each of the two searches; their neighbours come on top.
        reach: how many turns around a candidate are read.
        weights: what each feature counts (`neighbourhood.NAMES`).
        by_rank: only the places in the two searches count, not their scores.
    """

    name: RecipeName
    pool: int
    reach: int
    weights: Features
    by_rank: bool = False


def only(**weights: float) -> Features:
    """Weights of some features; the others do not count."""
    return np.array([weights.get(name, 0.0) for name in NAMES], dtype=np.float32)


#: A turn by itself: words and meaning.
FAST: Final = Recipe(name="fast", pool=50, reach=0, weights=only(words=ALONE_WORDS, meaning=ALONE_MEANING))
#: A turn in its neighbourhood.
BALANCED: Final = Recipe(name="balanced", pool=50, reach=3, weights=TURN_WEIGHTS)
#: The same over four times as many candidates.
DEEP: Final = Recipe(name="deep", pool=200, reach=3, weights=TURN_WEIGHTS)
#: Reciprocal rank fusion (Cormack et al. 2009), for comparison: it needs no scores that can be compared.
RRF: Final = Recipe(name="rrf", pool=50, reach=0, weights=only(words=1.0, meaning=1.0), by_rank=True)
_BY_NAME: Final = {recipe.name: recipe for recipe in (FAST, BALANCED, DEEP, RRF)}


def recipe(name: str) -> Recipe:
    """The recipe of that name.

    Raises:
        BadInput: there is none.
    """
    for known, found in _BY_NAME.items():
        if known == name:
            return found
    raise BadInput(f"There is no recipe {name!r}.", remedy=f"One of: {', '.join(_BY_NAME)}.")


def by_places(features: Features) -> Features:
    """Each feature as its reciprocal rank, 1 / (k + place); what a search did not find counts nothing there."""
    order = np.argsort(np.argsort(-features, axis=0, kind="stable"), axis=0)
    return np.where(features > 0, 1.0 / (RRF_K + 1 + order), 0.0).astype(np.float32)
