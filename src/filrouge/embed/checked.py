"""What goes to a model that is not ours and what comes back, made fit and held against what was asked.

As many vectors as texts, each of the length of its space, every number finite, none of length zero: else the whole
answer is worthless, since a vector that is wrong is never found again and nobody would know. Vectors leave here with
length 1, whatever the model does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from filrouge.errors import EmbedderUnavailable
from filrouge.ports import Vectors


def sendable(text: str) -> str:
    """The text without what cannot be encoded (a lone surrogate) or ends a text elsewhere (NUL)."""
    return text.replace("\x00", " ").encode("utf-8", "replace").decode("utf-8")


def unit_vectors(raw: Sequence[Any], *, texts: int, dimension: int | None, who: str) -> Vectors:
    """The vectors, each of length 1.

    Args:
        raw: lists of numbers.
        texts: how many there must be.
        dimension: their length; None = not known yet.
        who: answered, for the message.

    Raises:
        EmbedderUnavailable: the answer cannot be used; says why.
    """
    if len(raw) != texts:
        raise EmbedderUnavailable(f"{who} answered with {len(raw)} vectors for {texts} texts.")
    try:
        found = np.array([np.asarray(row, dtype=np.float64) for row in raw], dtype=np.float64)
    except (ValueError, TypeError, OverflowError) as error:
        raise EmbedderUnavailable(f"{who} answered with something that is no list of numbers.") from error
    if found.ndim != 2 or found.shape[1] == 0:
        raise EmbedderUnavailable(f"{who} answered with something that is no list of numbers.")
    if dimension is not None and found.shape[1] != dimension:
        raise EmbedderUnavailable(
            f"{who} answered with vectors of length {found.shape[1]} instead of {dimension}; the two are never mixed.",
            remedy="The model on the server has changed, or cannot be shortened: set `embedding_model` or"
            " `embedding_dimensions` to what it is and start the daemon again.",
        )
    if not np.isfinite(found).all():
        raise EmbedderUnavailable(f"{who} answered with numbers that are not finite.")
    largest = np.abs(found).max(axis=1, keepdims=True)
    if not largest.all():
        raise EmbedderUnavailable(f"{who} answered with a vector of zeros.")
    found /= largest  # so that squares neither overflow nor vanish
    return (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)
