"""The weights of ranking turns. `bench/fit_recall.py --write` writes this file."""

from __future__ import annotations

from typing import Final

import numpy as np

from filrouge.recall.neighbourhood import NAMES, Features

TABLE: Final = {
    "words": 2.415,
    "words_before": 1.067,
    "words_after": 0.187,
    "meaning": 0.29,
    "meaning_before": 1.681,
    "meaning_around": 0.593,
    "meaning_wide": 2.748,
    "session_words": 2.991,
    "session_meaning": 2.12,
    "length": 1.99,
    "asks": -1.116,
    "time": 3.086,
    "speaker": 0.878,
    "dated": 1.703,
}
#: One weight for each feature, in the order of `NAMES`.
TURN_WEIGHTS: Final[Features] = np.array([TABLE[name] for name in NAMES], dtype=np.float32)
