"""The weights of ranking turns and of relevance. `bench/fit_recall.py --write` writes this file."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from filrouge.search.models import FEATURE_NAMES

TABLE: Final = {
    "words": 2.603,
    "words_before": 0.915,
    "words_after": 0.291,
    "meaning": 1.34,
    "meaning_before": 1.069,
    "meaning_around": 0.267,
    "meaning_wide": 2.157,
    "session_words": 2.489,
    "session_meaning": 1.836,
    "length": 1.886,
    "asks": -0.906,
    "time": 2.82,
    "speaker": 0.783,
    "dated": 1.635,
    "reply": -3.384,
}


#: One weight for each feature of a turn, in the order of `FEATURE_NAMES`.
TURN_WEIGHTS: Final[NDArray[np.float32]] = np.array([TABLE[name] for name in FEATURE_NAMES], dtype=np.float32)


#: Weights of words and vectors for a text without neighbours; the text takes the place of its own neighbourhood.
ALONE_WORDS: Final = sum(TABLE[name] for name in ("words", "words_before", "words_after", "session_words"))
ALONE_MEANING: Final = sum(value for name, value in TABLE.items() if "meaning" in name)


#: Log-odds weights for "this result contains what was asked", with vectors and for words only
#: (`ranking.RelevanceFeatures.by_name`).
RELEVANCE: Final = {
    "one": -1.822,
    "similarity": 4.788,
    "covered": 1.756,
    "telling": 0.24,
    "stands_out": 0.984,
    "words": -0.881,
    "time": 0.837,
    "speaker": 0.364,
    "dated": 0.053,
    "asks": 0.05,
}

RELEVANCE_BY_WORDS: Final = {
    "one": -1.621,
    "covered": 3.35,
    "telling": 0.22,
    "stands_out": 1.034,
    "words": 0.196,
    "time": 0.633,
    "speaker": 0.509,
    "dated": -0.005,
    "asks": 0.233,
}


#: Log-odds weights for "anything about the question is known" (`ranking.known_features`).
KNOWN: Final = {
    "one": -1.387,
    "any": 1.477,
    "similarity": 3.279,
    "wide": 7.795,
    "covered": 0.347,
    "words_found": 0.564,
    "words_missing": -1.339,
    "similar_and_covered": 5.289,
}

KNOWN_BY_WORDS: Final = {
    "one": 0.16,
    "any": 1.854,
    "covered": 2.402,
    "words_found": 1.432,
    "words_missing": -0.431,
}
