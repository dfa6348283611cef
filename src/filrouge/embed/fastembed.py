"""Models of the fastembed package, which runs them through ONNX Runtime: the extra `fastembed`.

The package would fetch a model by itself; here it may not (`local_files_only`). Fetch it once, knowingly, with
`python -c "from fastembed import TextEmbedding; TextEmbedding('BAAI/bge-small-en-v1.5')"`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from typing import Any, Final

from filrouge import installation
from filrouge.embed.backend import Backend, BackendEmbedder, missing
from filrouge.embed.options import EmbedderOptions
from filrouge.errors import BadConfig
from filrouge.ports import Vector

_EXAMPLE: Final = "BAAI/bge-small-en-v1.5"
_DIMENSIONS: Final = {_EXAMPLE: 384, "BAAI/bge-base-en-v1.5": 768, "sentence-transformers/all-MiniLM-L6-v2": 384}


class FastEmbed(BackendEmbedder):
    """The embedder for `fastembed:MODEL`. `backend` replaces the package, for tests and for models of one's own."""

    def __init__(self, options: EmbedderOptions, backend: Backend | None = None) -> None:
        model = options.model_of("fastembed", _EXAMPLE)
        if options.dimensions not in (0, _DIMENSIONS.get(model, options.dimensions)):
            raise BadConfig(f"{model} has vectors of length {_DIMENSIONS[model]}, not {options.dimensions}.")
        super().__init__(
            provider="fastembed",
            model=model,
            dimension=options.dimensions or _DIMENSIONS.get(model),
            prefix="query-passage",
            make=lambda: backend or _Loaded(model),
        )


class _Loaded:
    """A model that fastembed has in memory; it knows the words its models want in front."""

    def __init__(self, model: str) -> None:
        command = f"python -c \"from fastembed import TextEmbedding; TextEmbedding('{model}')\""
        try:
            package = importlib.import_module("fastembed")
        except ImportError as error:
            remedy = f"Install it: `{installation.add_extra('fastembed')}`."
            raise missing("The package fastembed", error, remedy) from error
        try:
            self._model: Any = package.TextEmbedding(model_name=model, local_files_only=True)
        except Exception as error:  # what a hub's client raises depends on what is missing, and on its version
            raise missing(f"The model {model}", error, f"Fetch it once: `{command}`.") from error

    def query(self, text: str) -> Vector:
        return next(iter(self._model.query_embed(text)))

    def passages(self, texts: Sequence[str]) -> Iterable[Vector]:
        return self._model.passage_embed(texts)
