"""all-MiniLM-L6-v2 as an ONNX file in 32-bit floats, written from the weights that `minilm` reads; no product part.

Memory layers that search by meaning mostly come with this model as an ONNX file which they fetch at the first use.
Where nothing can be fetched, this file takes its place: the same weights, the same inputs (`input_ids`,
`attention_mask`, `token_type_ids`) and the same output (`last_hidden_state`), with attention, GELU and normalisation as
single steps.
"""

from __future__ import annotations

import shutil
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
from minilm import MiniLM

from filrouge.core.protocols import Vector
from filrouge.providers.e5 import FLOAT, MICROSOFT, Network, value_info

FILE: Final = "model.onnx"
_INT64, _AS_INT32, _LAYERS, _HEADS, _DIMENSION = 7, 6, 6, 12, 384
#: What the loaders of the published file look for beside it.
_BESIDE: Final = ("config.json", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt")


class OnnxMiniLM(MiniLM):
    """The numpy model's tokens and weights, run by ONNX Runtime. Implements `Embedder`."""

    def __init__(self, directory: str) -> None:
        super().__init__()
        self._weights = {}  # the file has them
        path = str(Path(directory) / FILE)
        runtime: Any = import_module("onnxruntime")
        self._session: Any = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def _vector(self, text: str) -> Vector:
        ids = np.array([self.tokens(text)], dtype=np.int64)
        given = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        mean = self._session.run(None, given)[0][0].mean(axis=0)
        return (mean / np.linalg.norm(mean)).astype(np.float32)


def export(directory: Path) -> None:
    """Write the network and what stands beside it, unless it is there."""
    if (directory / FILE).exists():
        return
    directory.mkdir(parents=True, exist_ok=True)
    model = MiniLM()
    for name in _BESIDE:
        shutil.copy(model.directory / name, directory / name)
    part = directory / f"{FILE}.part"
    part.write_bytes(_network(model.weights))
    part.rename(directory / FILE)


def _network(w: dict[str, Any]) -> bytes:
    shape = ("batch", "tokens")
    net = Network(
        inputs=[value_info(name, _INT64, shape) for name in ("input_ids", "attention_mask", "token_type_ids")]
    )
    net.step("Cast", ["attention_mask"], "mask", to=_AS_INT32)
    tables = [
        net.constant(kind, w[f"embeddings.{kind}_embeddings.weight"]) for kind in ("word", "position", "token_type")
    ]
    net.step("Shape", ["input_ids"], "count", start=1, end=2)
    nought, one = net.constant("nought", np.array(0, np.int64)), net.constant("one", np.array(1, np.int64))
    last = net.step("Squeeze", ["count"], "last")
    net.step("Range", [nought, last, one], "places")
    states = net.step("Gather", [tables[0], "input_ids"], "words")
    states = net.step("Add", [states, net.step("Gather", [tables[1], "places"], "at")], "placed")
    states = net.step("Add", [states, net.step("Gather", [tables[2], "token_type_ids"], "kind")], "embedded")
    states = _norm(net, w, states, "embeddings", "layer.0")
    for number in range(_LAYERS):
        out = "last_hidden_state" if number == _LAYERS - 1 else f"layer.{number + 1}"
        states = _layer(net, w, states, f"encoder.layer.{number}", out)
    return net.file(value_info(states, FLOAT, (*shape, _DIMENSION)))


def _layer(net: Network, w: dict[str, Any], states: str, name: str, out: str) -> str:
    own = f"{name}.attention.self"
    joined = np.concatenate([w[f"{own}.{part}.weight"].T for part in ("query", "key", "value")], axis=1)
    bias = np.concatenate([w[f"{own}.{part}.bias"] for part in ("query", "key", "value")])
    given = [states, net.constant(f"{own}.w", joined), net.constant(f"{own}.b", bias), "mask"]
    found = net.step("Attention", given, f"{name}.found", MICROSOFT, num_heads=_HEADS)
    found = _linear(net, w, found, f"{name}.attention.output.dense")
    states = _norm(
        net, w, net.step("Add", [found, states], f"{name}.sum"), f"{name}.attention.output", f"{name}.attended"
    )
    inner = net.step("Gelu", [_linear(net, w, states, f"{name}.intermediate.dense")], f"{name}.gelu", MICROSOFT)
    found = _linear(net, w, inner, f"{name}.output.dense")
    return _norm(net, w, net.step("Add", [found, states], f"{name}.total"), f"{name}.output", out)


def _linear(net: Network, w: dict[str, Any], given: str, name: str) -> str:
    matrix = net.constant(f"{name}.w", np.ascontiguousarray(w[f"{name}.weight"].T))
    product = net.step("MatMul", [given, matrix], f"{name}.product")
    return net.step("Add", [product, net.constant(f"{name}.b", w[f"{name}.bias"])], f"{name}.out")


def _norm(net: Network, w: dict[str, Any], given: str, name: str, out: str) -> str:
    parts = [net.constant(f"{name}.norm.{part}", w[f"{name}.LayerNorm.{part}"]) for part in ("weight", "bias")]
    return net.step("LayerNormalization", [given, *parts], out, axis=-1, epsilon=1e-12)
