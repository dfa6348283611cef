"""The weights of ranking turns. `bench/fit_recall.py --write` writes this file."""

from __future__ import annotations

from typing import Final

import numpy as np

from filrouge.recall.neighbourhood import NAMES, Features

TABLE: Final = {
    "words": 2.539,
    "words_before": 1.188,
    "words_after": 0.233,
    "meaning": 0.388,
    "meaning_before": 1.811,
    "meaning_around": 0.7,
    "meaning_wide": 3.128,
    "session_words": 2.982,
    "session_meaning": 2.12,
    "length": 2.1,
    "asks": -1.129,
    "time": 3.2,
    "speaker": 0.863,
    "dated": 1.708,
}
#: One weight for each feature, in the order of `NAMES`.
TURN_WEIGHTS: Final[Features] = np.array([TABLE[name] for name in NAMES], dtype=np.float32)
