"""multilingual-e5-small from the ONNX file that `filrouge model fetch` brings: eight bits, mean pooling.

Texts are normalised with Unicode's NFKC and split at spaces. The model's own tokenizer does nearly the same with a
compiled table of characters; the two differ for rare ones (some fullwidth and zero-width forms), which are then
split into other pieces. Its quantisation has one scale per batch, so a text's vector depends slightly on its company.
The space has no calibration of its own yet: it is measured here like that of any model from outside.
"""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Final

import numpy as np

from filrouge.embed.batches import QuestionsFirst, embed_parts, parts, session, units
from filrouge.embed.checked import sendable
from filrouge.embed.model_files import state_of
from filrouge.embed.published import NETWORK, TOKENIZER, PublishedModel, fetched_path, published
from filrouge.embed.tokenizer import Marks, Tokenizer
from filrouge.errors import EmbedderUnavailable
from filrouge.ports import EmbeddingSpace, Vector, Vectors

_DIMENSION: Final = 384
_MOST_TOKENS: Final = 512
#: Tokens of one batch, padding included.
_BATCH_TOKENS: Final = 512
#: What the model's own table drops or makes a space: control characters, and marks of no width.
_NO_TEXT: Final[Mapping[int, str]] = {
    **{number: "" for number in (*range(0x20), 0x7F, *range(0x80, 0xA0)) if not chr(number).isspace()},
    **dict.fromkeys((*range(0x200B, 0x2010), 0xFEFF), " "),
}
_REMEDY: Final = "Fetch it with `filrouge model fetch`, or set `embedding_model` to `e5`, which needs no download."


class FetchedE5:
    """Implements `Embedder`. It never fetches: without the file it says how to get it."""

    def __init__(self, model: PublishedModel | None = None, directory: str | None = None) -> None:
        self._published = model or published({})
        self._path = fetched_path(self._published, directory)
        self._loading = Lock()
        self._model: _Loaded | None = None
        self._queue = QuestionsFirst()

    @property
    def space(self) -> EmbeddingSpace:
        """The space of this file's vectors."""
        revision = self._published.revision
        return EmbeddingSpace(
            id=f"multilingual-e5-small/{revision[:12]}-int8/{_DIMENSION}/mean/query-passage",
            model="multilingual-e5-small",
            revision=revision,
            dimension=_DIMENSION,
            pooling="mean",
            prefix="query: / passage: ",
        )

    def query(self, text: str) -> Vector:
        """The vector of a question."""
        model = self._loaded()
        with self._queue.question():
            return model.embed(["query: " + text], lambda: None)[0]

    def passages(self, texts: Sequence[str]) -> Vectors:
        """The vectors of texts to be found."""
        if not texts:
            return np.empty((0, _DIMENSION), dtype=np.float32)
        return self._loaded().embed(["passage: " + text for text in texts], self._queue.wait)

    def _loaded(self) -> _Loaded:
        with self._loading:
            if self._model is None:
                state = state_of(self._path)
                if state != "whole":
                    raise EmbedderUnavailable(f"The embedding model in {self._path} is {state}.", remedy=_REMEDY)
                self._model = _Loaded(self._path)
            return self._model


class _Loaded:
    """The network and its tokenizer in memory."""

    def __init__(self, directory: str) -> None:
        self._session = session(os.path.join(directory, NETWORK), _REMEDY)
        self._tokenizer = unigram(os.path.join(directory, TOKENIZER))

    def embed(self, texts: Sequence[str], before: Callable[[], None]) -> Vectors:
        found = [parts(self._tokenizer, normalised(text), _MOST_TOKENS) for text in texts]
        return embed_parts(found, dimension=_DIMENSION, most_tokens=_BATCH_TOKENS, run=self._run, before=before)

    def _run(self, batch: list[list[int]]) -> Vectors:
        """Unit vectors of the parts of one batch: hidden states, averaged over the tokens that are not padding."""
        longest = max(map(len, batch))
        ids = np.full((len(batch), longest), self._tokenizer.marks.padding, dtype=np.int64)
        mask = np.zeros((len(batch), longest), dtype=np.int64)
        for row, real, part in zip(ids, mask, batch, strict=True):
            row[: len(part)] = part
            real[: len(part)] = 1
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        states: Vectors = self._session.run(["last_hidden_state"], inputs)[0]
        return units(np.matmul(mask[:, None, :].astype(np.float32), states)[:, 0])


def normalised(text: str) -> str:
    """A text as the tokenizer wants it: compatible forms made one, single spaces."""
    return " ".join(unicodedata.normalize("NFKC", sendable(text).translate(_NO_TEXT)).split())


def unigram(path: str) -> Tokenizer:
    """The tokenizer of a `tokenizer.json` with a Unigram model.

    Raises:
        EmbedderUnavailable: it is something else.
    """
    try:
        with open(path, encoding="utf-8") as file:
            vocabulary: list[tuple[str, float]] = json.load(file)["model"]["vocab"]
        pieces, scores = [piece for piece, _ in vocabulary], [float(score) for _, score in vocabulary]
        named = {piece: number for number, piece in enumerate(pieces)}
        marks = Marks(begin=named["<s>"], end=named["</s>"], padding=named["<pad>"], unknown=named["<unk>"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EmbedderUnavailable(f"{path} is no tokenizer of this model.", remedy=_REMEDY) from error
    return Tokenizer(pieces, scores, {}, marks)
