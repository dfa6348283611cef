"""Models of the sentence-transformers package (PyTorch): the extra `sentence-transformers`.

The package would fetch a model by itself; here it may not (`local_files_only`), and it never runs code that comes with
a model. Give a directory in place of a name, or fetch the model once, knowingly, with
`python -c "from sentence_transformers import SentenceTransformer; SentenceTransformer('NAME')"`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from typing import Any, Final

from filrouge import installation
from filrouge.embed.backend import Backend, BackendEmbedder, missing
from filrouge.embed.options import EmbedderOptions
from filrouge.ports import Vector

_EXAMPLE: Final = "all-MiniLM-L6-v2"


class SentenceTransformers(BackendEmbedder):
    """The embedder for `sentence-transformers:MODEL`, a name or a directory.

    `embedding_dimensions` shortens the vectors of models that were trained for that. `backend` replaces the package,
    for tests and for models of one's own.
    """

    def __init__(self, options: EmbedderOptions, backend: Backend | None = None) -> None:
        model = options.model_of("sentence-transformers", _EXAMPLE)
        super().__init__(
            provider="sentence-transformers",
            model=model,
            dimension=options.dimensions or None,
            prefix="query-document",
            make=lambda: backend or _Loaded(model, options.dimensions or None),
        )


class _Loaded:
    """A model that sentence-transformers has in memory; its own prompts go in front of questions and documents."""

    def __init__(self, model: str, dimension: int | None) -> None:
        command = f"python -c \"from sentence_transformers import SentenceTransformer; SentenceTransformer('{model}')\""
        try:
            package = importlib.import_module("sentence_transformers")
        except ImportError as error:
            remedy = f"Install it: `{installation.add_extra('sentence-transformers')}`."
            raise missing("The package sentence-transformers", error, remedy) from error
        try:
            self._model: Any = package.SentenceTransformer(model, local_files_only=True, truncate_dim=dimension)
        except Exception as error:  # what a hub's client raises depends on what is missing, and on its version
            raise missing(f"The model {model}", error, f"Fetch it once: `{command}`.") from error

    def query(self, text: str) -> Vector:
        return self._model.encode_query(text, show_progress_bar=False)

    def passages(self, texts: Sequence[str]) -> Iterable[Vector]:
        return self._model.encode_document(list(texts), show_progress_bar=False)
