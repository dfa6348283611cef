"""Subject words: whether a word can be what talk is about, judged by its letters alone.

*Deployment*, *invoices* and *traçabilité* can; *however*, *plutôt* and *wouldn't* cannot. A word is taken apart into
runs of two to five letters, which are hashed, and the weights of these add up. They were fitted by
`bench/fit_subject_words.py` to what the bundled embedder knows of words, and to the names that people gave to threads
of labelled talk (`bench/results/subject_words.md`).
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Final

import numpy as np

from filrouge.extraction.logistic import Numbers, arrays, places
from filrouge.understand.words import fold

#: Letters of a run.
_RUNS: Final = (2, 3, 4, 5)
_KNOWN: Final = 4096


@lru_cache(maxsize=_KNOWN)
def fitness(word: str) -> float:
    """How fit a word is to be a subject, in standard deviations above the usual word of talk."""
    own = letters(word)
    return float(_weights()[own].sum() / np.sqrt(len(own)))


def letters(word: str) -> list[int]:
    """The places of a word and of the runs of its letters, its beginning and end among them."""
    plain = fold(word)
    whole = f"^{plain}$"
    runs = [f"{size}:{whole[at : at + size]}" for size in _RUNS for at in range(max(0, len(whole) - size + 1))]
    return places([f"w:{plain}", *runs])


@cache
def _weights() -> Numbers:
    return arrays("subject_words.npz")["weights"]
