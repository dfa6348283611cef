"""Embedders that run a model through a third-party package: fastembed and sentence-transformers.

The package is optional and imported at the first text. The model must already be on this machine, because nothing is
downloaded without consent. A lock serialises all calls, because neither package is documented as thread-safe.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from threading import Lock
from typing import Any, Final, Protocol

import numpy as np

from filrouge.core import installation
from filrouge.core.errors import BadConfig, EmbedderUnavailable
from filrouge.core.protocols import Vector, Vectors
from filrouge.providers.embedders import EmbedderOptions, space_of, unit_vectors, without_invalid_characters
from filrouge.providers.models import EmbeddingSpace

_PROBE = "ready?"


class Backend(Protocol):
    """A loaded model: maps texts to rows of numbers, all of the same length."""

    def query(self, text: str) -> Sequence[float] | Vector:
        """Return the row of a question."""
        ...

    def passages(self, texts: Sequence[str]) -> Iterable[Sequence[float] | Vector]:
        """Return the rows of passages."""
        ...


class BackendEmbedder:
    """Implements `Embedder` and `HealthChecked` with a backend that is created at the first text."""

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
        """The space of this model's vectors; loads the model if their length is unknown.

        Raises:
            EmbedderUnavailable: it must be loaded and cannot be.
        """
        return space_of(self._provider, self._name, self._known_dimension(), pooling="model", prefix=self._prefix)

    def query(self, text: str) -> Vector:
        """Return the vector of a question."""
        backend = self._load_backend()
        return self._run(lambda: [backend.query(without_invalid_characters(text))], 1)[0]

    def passages(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of passages."""
        if not texts:
            return np.empty((0, self._known_dimension()), dtype=np.float32)
        backend = self._load_backend()
        return self._run(
            lambda: list(backend.passages([without_invalid_characters(text) for text in texts])), len(texts)
        )

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
        sender = f"{self._provider}:{self._name}"
        try:
            with self._working:
                rows = work()
        except Exception as error:  # the package's own errors; their messages may quote the text
            raise EmbedderUnavailable(f"{sender} failed with {type(error).__name__}.") from error
        found = unit_vectors(rows, texts=texts, dimension=self._dimension, sender=sender)
        self._dimension = found.shape[1]
        return found

    def _load_backend(self) -> Backend:
        with self._loading:
            if self._backend is None:
                self._backend = self._make()
            return self._backend


def _import_package(name: str) -> Any:
    """Import the package of an extra with this name.

    Raises:
        EmbedderUnavailable: it is not installed, or broken.
    """
    try:
        return importlib.import_module(name.replace("-", "_"))
    except ImportError as error:
        raise _missing(
            f"The package {name}", error, f"Install it: `{installation.install_extra_command(name)}`."
        ) from error


def _load_model(model: str, command: str, load: Callable[[], Any]) -> Any:
    """Return the model that `load` returns.

    Raises:
        EmbedderUnavailable: it cannot be loaded; `command` fetches it.
    """
    try:
        return load()
    except Exception as error:  # a hub client's exceptions depend on what is missing, and on its version
        raise _missing(f"The model {model}", error, f"Fetch it once: `{command}`.") from error


def _missing(what: str, error: Exception, remedy: str) -> EmbedderUnavailable:
    return EmbedderUnavailable(
        f"{what} cannot be loaded: {str(error).splitlines()[0] or type(error).__name__}.", remedy=remedy
    )


# Models of the fastembed package, which uses ONNX Runtime: the extra `fastembed`. Downloads by the package are disabled
# (`local_files_only`). Download a model once with `python -c "from fastembed import TextEmbedding;
# TextEmbedding('BAAI/bge-small-en-v1.5')"`.

_FASTEMBED_EXAMPLE: Final = "BAAI/bge-small-en-v1.5"
_DIMENSIONS: Final = {
    _FASTEMBED_EXAMPLE: 384,
    "BAAI/bge-base-en-v1.5": 768,
    "sentence-transformers/all-MiniLM-L6-v2": 384,
}


class FastEmbed(BackendEmbedder):
    """The embedder for `fastembed:MODEL`. `backend` replaces the package, for tests and for custom models."""

    def __init__(self, options: EmbedderOptions, backend: Backend | None = None) -> None:
        model = options.model_of("fastembed", _FASTEMBED_EXAMPLE)
        if options.dimensions not in (0, _DIMENSIONS.get(model, options.dimensions)):
            raise BadConfig(f"{model} has vectors of length {_DIMENSIONS[model]}, not {options.dimensions}.")
        super().__init__(
            provider="fastembed",
            model=model,
            dimension=options.dimensions or _DIMENSIONS.get(model),
            prefix="query-passage",
            make=lambda: backend or _LoadedFastEmbed(model),
        )


class _LoadedFastEmbed:
    """A model loaded by fastembed, which adds the prefixes of its models itself."""

    def __init__(self, model: str) -> None:
        command = f"python -c \"from fastembed import TextEmbedding; TextEmbedding('{model}')\""
        package = _import_package("fastembed")
        self._model: Any = _load_model(
            model, command, lambda: package.TextEmbedding(model_name=model, local_files_only=True)
        )

    def query(self, text: str) -> Vector:
        return next(iter(self._model.query_embed(text)))

    def passages(self, texts: Sequence[str]) -> Iterable[Vector]:
        return self._model.passage_embed(texts)


# Models of the sentence-transformers package (PyTorch): the extra `sentence-transformers`. Downloads by the package are
# disabled (`local_files_only`), and code that comes with a model is never run. Give a directory instead of a name, or
# download the model once with `python -c "from sentence_transformers import SentenceTransformer;
# SentenceTransformer('NAME')"`.

_SENTENCE_TRANSFORMERS_EXAMPLE: Final = "all-MiniLM-L6-v2"


class SentenceTransformers(BackendEmbedder):
    """The embedder for `sentence-transformers:MODEL`, a name or a directory.

    `embedding_dimensions` shortens the vectors of models that were trained for that. `backend` replaces the package,
    for tests and for custom models.
    """

    def __init__(self, options: EmbedderOptions, backend: Backend | None = None) -> None:
        model = options.model_of("sentence-transformers", _SENTENCE_TRANSFORMERS_EXAMPLE)
        super().__init__(
            provider="sentence-transformers",
            model=model,
            dimension=options.dimensions or None,
            prefix="query-document",
            make=lambda: backend or _LoadedSentenceTransformer(model, options.dimensions or None),
        )


class _LoadedSentenceTransformer:
    """A model loaded by sentence-transformers, which adds the model's own prompts to questions and documents."""

    def __init__(self, model: str, dimension: int | None) -> None:
        command = f"python -c \"from sentence_transformers import SentenceTransformer; SentenceTransformer('{model}')\""
        package = _import_package("sentence-transformers")
        self._model: Any = _load_model(
            model,
            command,
            lambda: package.SentenceTransformer(model, local_files_only=True, truncate_dim=dimension),
        )

    def query(self, text: str) -> Vector:
        return self._model.encode_query(text, show_progress_bar=False)

    def passages(self, texts: Sequence[str]) -> Iterable[Vector]:
        return self._model.encode_document(list(texts), show_progress_bar=False)
