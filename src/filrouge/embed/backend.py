"""What the embedders have in common that run a model inside somebody else's package.

The package is optional and imported when the first text comes; the model must already be on this machine, because
nothing is fetched without consent. One lock lets one text at a time through: neither package promises more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from threading import Lock
from typing import Protocol

import numpy as np

from filrouge.embed.checked import sendable, unit_vectors
from filrouge.errors import EmbedderUnavailable
from filrouge.ports import EmbeddingSpace, Vector, Vectors

_PROBE = "ready?"


class Backend(Protocol):
    """A model in memory: texts to rows of numbers, of any length but all of the same."""

    def query(self, text: str) -> Sequence[float] | Vector:
        """The row of a question."""
        ...

    def passages(self, texts: Sequence[str]) -> Iterable[Sequence[float] | Vector]:
        """The rows of texts to be found."""
        ...


class BackendEmbedder:
    """Implements `Embedder` and `HealthChecked` with a backend that is made at the first text."""

    def __init__(
        self, *, provider: str, model: str, dimension: int | None, prefix: str, make: Callable[[], Backend]
    ) -> None:
        self._provider = provider
        self._name = model
        self._prefix = prefix
        self._make = make
        self._loading = Lock()
        self._working = Lock()
        self._dimension = dimension
        self._backend: Backend | None = None

    @property
    def space(self) -> EmbeddingSpace:
        """The space of this model's vectors; loads the model where their length is not known.

        Raises:
            EmbedderUnavailable: it must be loaded and cannot be.
        """
        dimension = self._known_dimension()
        return EmbeddingSpace(
            id=f"{self._provider}/{self._name}/{dimension}/model/{self._prefix}",
            model=self._name,
            revision=self._provider,
            dimension=dimension,
            pooling="model",
            prefix=self._prefix,
        )

    def query(self, text: str) -> Vector:
        """The vector of a question."""
        backend = self._loaded()
        return self._run(lambda: [backend.query(sendable(text))], 1)[0]

    def passages(self, texts: Sequence[str]) -> Vectors:
        """The vectors of texts to be found."""
        if not texts:
            return np.empty((0, self._known_dimension()), dtype=np.float32)
        backend = self._loaded()
        return self._run(lambda: list(backend.passages([sendable(text) for text in texts])), len(texts))

    def check(self) -> None:
        """Load the model and embed one short text.

        Raises:
            EmbedderUnavailable: with the cause.
        """
        self.query(_PROBE)

    def _known_dimension(self) -> int:
        if self._dimension is None:
            self.check()
        assert self._dimension is not None
        return self._dimension

    def _run(self, work: Callable[[], Sequence[object]], texts: int) -> Vectors:
        who = f"{self._provider}:{self._name}"
        try:
            with self._working:
                rows = work()
        except Exception as error:  # the package's own errors; their words may quote the text
            raise EmbedderUnavailable(f"{who} failed with {type(error).__name__}.") from error
        found = unit_vectors(rows, texts=texts, dimension=self._dimension, who=who)
        self._dimension = found.shape[1]
        return found

    def _loaded(self) -> Backend:
        with self._loading:
            if self._backend is None:
                self._backend = self._make()
            return self._backend


def missing(what: str, error: Exception, remedy: str) -> EmbedderUnavailable:
    """The error for a package or a model that is not there."""
    return EmbedderUnavailable(
        f"{what} cannot be loaded: {str(error).splitlines()[0] or type(error).__name__}.", remedy=remedy
    )
