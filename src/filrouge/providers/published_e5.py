"""multilingual-e5-small from a published ONNX file, which only `filrouge model fetch` downloads.

The revision and the checksums are pinned, so the file is the same from any host. FILROUGE_MODEL_MIRROR names another
host with the same paths, for companies without access to the default host.
"""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from filrouge.core.errors import EmbedderUnavailable
from filrouge.core.network import checked_address
from filrouge.core.protocols import Vector, Vectors
from filrouge.providers.e5 import (
    DIMENSION,
    LazyE5,
    SpecialTokens,
    Tokenizer,
    e5_space,
    embed_batches,
    models_directory,
    normalise,
    onnx_session,
    split_tokens,
    state_of,
)
from filrouge.providers.embedders import without_invalid_characters
from filrouge.providers.models import EmbeddingSpace

MIRROR: Final = "FILROUGE_MODEL_MIRROR"
NETWORK, TOKENIZER = "model_quantized.onnx", "tokenizer.json"


class PublishedFile(Struct, frozen=True, kw_only=True):
    """One file of a published model.

    Attributes:
        path: its path in the repository.
        size: in bytes.
        sha256: in hexadecimal digits.
    """

    path: str
    size: int
    sha256: str

    @property
    def name(self) -> str:
        """The last part of its path, which is also its local name."""
        return self.path.rpartition("/")[2]


class PublishedModel(Struct, frozen=True, kw_only=True):
    """A model that can be downloaded.

    Attributes:
        host: address of the server, without a trailing slash.
        repository: owner and name of the repository on the host.
        revision: commit of the repository; part of the directory's name and of the space's id.
        licence: licence of the weights.
        files: all files needed to run it.
    """

    host: str
    repository: str
    revision: str
    licence: str
    files: tuple[PublishedFile, ...]

    @property
    def name(self) -> str:
        """The name of its local directory."""
        return f"{self.repository.rpartition('/')[2]}-{self.revision[:12]}"

    @property
    def size(self) -> int:
        """The total size of all files in bytes."""
        return sum(file.size for file in self.files)

    def address(self, file: PublishedFile) -> str:
        """Return the address of a file."""
        return f"{self.host}/{self.repository}/resolve/{self.revision}/{file.path}"


_E5: Final = PublishedModel(
    host="https://huggingface.co",
    repository="Xenova/multilingual-e5-small",
    revision="761b726dd34fb83930e26aab4e9ac3899aa1fa78",
    licence="MIT",
    files=(
        PublishedFile(
            path="onnx/model_quantized.onnx",
            size=118_308_185,
            sha256="f80102d3f2a1229f387d3c81909990d8945513e347b0eab049f7de3c6f98c193",
        ),
        PublishedFile(
            path="tokenizer.json",
            size=17_082_730,
            sha256="0b44a9d7b51c3c62626640cda0e2c2f70fdacdc25bbbd68038369d14ebdf4c39",
        ),
    ),
)


def published_model(environ: Mapping[str, str]) -> PublishedModel:
    """Return the model that `e5-fetched` runs, at the mirror if one is set.

    Raises:
        BadConfig: the mirror's address is invalid.
    """
    mirror = environ.get(MIRROR, "").strip()
    if not mirror:
        return _E5
    return replace(_E5, host=checked_address(mirror, setting=MIRROR))


def fetched_path(model: PublishedModel, directory: str | None = None) -> str:
    """Return the path of the model, whether or not it exists."""
    return os.path.join(directory or models_directory(), model.name)


# The embedder: 8-bit weights, mean pooling. Texts are normalised with Unicode's NFKC and split at spaces. The model's
# own tokenizer does nearly the same with a compiled table of characters. The two differ for rare characters (some
# fullwidth and zero-width forms), which are then split into other pieces. The quantisation has one scale per batch, so
# a text's vector depends slightly on the other texts in its batch. The space has no shipped calibration; it is measured
# on this machine, as for any third-party model.

_MAX_TOKENS: Final = 512
#: Tokens of one batch, padding included.
_BATCH_TOKENS: Final = 512
#: What the model's own table removes or replaces by a space: control characters, and zero-width marks.
_REPLACED_CHARACTERS: Final[Mapping[int, str]] = {
    **{number: "" for number in (*range(0x20), 0x7F, *range(0x80, 0xA0)) if not chr(number).isspace()},
    **dict.fromkeys((*range(0x200B, 0x2010), 0xFEFF), " "),
}
_REMEDY: Final = "Fetch it with `filrouge model fetch`, or set `embedding_model` to `e5`, which needs no download."


class FetchedE5(LazyE5["_Loaded"]):
    """Implements `Embedder`. It never downloads: without the file, it raises an error that says how to get it."""

    def __init__(self, model: PublishedModel | None = None, directory: str | None = None) -> None:
        self._published = model or published_model({})
        path = fetched_path(self._published, directory)
        super().__init__(lambda: _load_intact(path))

    @property
    def space(self) -> EmbeddingSpace:
        """The space of this file's vectors."""
        revision = self._published.revision
        return e5_space(f"{revision[:12]}-int8", revision)


class _Loaded:
    """The loaded network and its tokenizer."""

    def __init__(self, directory: str) -> None:
        self._session = onnx_session(os.path.join(directory, NETWORK), _REMEDY)
        self._tokenizer = load_unigram_tokenizer(os.path.join(directory, TOKENIZER))

    def question(self, text: str) -> Vector:
        return self.passages([text], lambda: None)[0]

    def passages(self, texts: Sequence[str], before: Callable[[], None]) -> Vectors:
        parts_of_texts = [split_tokens(self._tokenizer, normalise_text(text), _MAX_TOKENS) for text in texts]
        return embed_batches(
            parts_of_texts, dimension=DIMENSION, max_tokens=_BATCH_TOKENS, run=self._run, before=before
        )

    def _run(self, batch: list[list[int]]) -> Vectors:
        """Return unit vectors of the parts of one batch: the mean of the hidden states over tokens without padding."""
        longest = max(map(len, batch))
        ids = np.full((len(batch), longest), self._tokenizer.marks.padding, dtype=np.int64)
        mask = np.zeros((len(batch), longest), dtype=np.int64)
        for row, mask_row, part in zip(ids, mask, batch, strict=True):
            row[: len(part)] = part
            mask_row[: len(part)] = 1
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        states: Vectors = self._session.run(["last_hidden_state"], inputs)[0]
        return normalise(np.matmul(mask[:, None, :].astype(np.float32), states)[:, 0])


def _load_intact(path: str) -> _Loaded:
    state = state_of(path)
    if state != "whole":
        raise EmbedderUnavailable(f"The embedding model in {path} is {state}.", remedy=_REMEDY)
    return _Loaded(path)


def normalise_text(text: str) -> str:
    """Return a text as the tokenizer expects it: NFKC-normalised, with single spaces."""
    return " ".join(
        unicodedata.normalize("NFKC", without_invalid_characters(text).translate(_REPLACED_CHARACTERS)).split()
    )


def load_unigram_tokenizer(path: str) -> Tokenizer:
    """Return the tokenizer of a `tokenizer.json` with a Unigram model.

    Raises:
        EmbedderUnavailable: the file is not such a tokenizer.
    """
    try:
        with open(path, encoding="utf-8") as file:
            vocabulary: list[tuple[str, float]] = json.load(file)["model"]["vocab"]
        pieces, scores = [piece for piece, _ in vocabulary], [float(score) for _, score in vocabulary]
        id_of_piece = {piece: number for number, piece in enumerate(pieces)}
        marks = SpecialTokens(
            begin=id_of_piece["<s>"],
            end=id_of_piece["</s>"],
            padding=id_of_piece["<pad>"],
            unknown=id_of_piece["<unk>"],
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EmbedderUnavailable(f"{path} is not a tokenizer file of this model.", remedy=_REMEDY) from error
    return Tokenizer(pieces, scores, {}, marks)
