"""The weights of ranking turns and of relevance. `bench/fit_recall.py --write` writes this file."""

from __future__ import annotations

from typing import Final

import numpy as np

from filrouge.recall.neighbourhood import NAMES, Features

TABLE: Final = {
    "words": 2.59,
    "words_before": 0.906,
    "words_after": 0.283,
    "meaning": 1.344,
    "meaning_before": 1.069,
    "meaning_around": 0.275,
    "meaning_wide": 2.159,
    "session_words": 2.48,
    "session_meaning": 1.83,
    "length": 1.888,
    "asks": -0.905,
    "time": 2.82,
    "speaker": 0.783,
    "dated": 1.633,
    "reply": -3.384,
}
#: One weight for each feature of a turn, in the order of `NAMES`.
TURN_WEIGHTS: Final[Features] = np.array([TABLE[name] for name in NAMES], dtype=np.float32)
#: What words and meaning count for a text that stands alone: it is its own neighbourhood.
ALONE_WORDS: Final = sum(TABLE[name] for name in ("words", "words_before", "words_after", "session_words"))
ALONE_MEANING: Final = sum(value for name, value in TABLE.items() if "meaning" in name)

#: Log-odds that a result holds what was asked, with vectors and by words alone (`relevance.Signs.named`).
RELEVANCE: Final = {
    "one": -1.823,
    "similarity": 4.794,
    "covered": 1.749,
    "telling": 0.243,
    "stands_out": 0.983,
    "words": -0.882,
    "time": 0.835,
    "speaker": 0.363,
    "dated": 0.052,
    "asks": 0.05,
}
RELEVANCE_BY_WORDS: Final = {
    "one": -1.616,
    "covered": 3.34,
    "telling": 0.224,
    "stands_out": 1.035,
    "words": 0.193,
    "time": 0.632,
    "speaker": 0.51,
    "dated": -0.006,
    "asks": 0.235,
}
#: Log-odds that anything about the question is known (`relevance.summary`).
KNOWN: Final = {
    "one": -1.38,
    "any": 1.481,
    "similarity": 3.227,
    "wide": 7.834,
    "covered": 0.341,
    "words_found": 0.569,
    "words_missing": -1.337,
    "similar_and_covered": 5.242,
}
KNOWN_BY_WORDS: Final = {
    "one": 0.186,
    "any": 1.867,
    "covered": 2.336,
    "words_found": 1.427,
    "words_missing": -0.426,
}
