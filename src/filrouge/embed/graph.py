"""The network of multilingual-e5-small, with its matrices in eight bits, as two ONNX files.

Twelve post-norm BERT layers. The word table stays outside, since a text touches few of its 250,000 rows: the
network takes embedded words and returns hidden states, both (texts, tokens, hidden). What a prompt needs is told by
other upper layers (`embed.questions`), which take the states halfway and are a network of their own.

A product of matrices is done in integers. Weights have one scale per output. Activations are scaled so that a
token's numbers never depend on which texts share its batch: the same text has the same vector alone and among
others. What comes out of a layer normalisation has a few channels ten times larger than the rest, the same for
all texts, so each channel has a fixed range (`ranges`), which is folded into the normalisation before and the
matrix after (SmoothQuant, Xiao et al. 2023); what comes out of GELU has outliers of single
tokens, so each token has a scale of its own. Nothing is measured while the network runs but that one.

Weights use 127 of the 256 steps, because processors without VNNI add two products in 16 bits, and two times
255 x 63 still fits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from filrouge.embed.onnx_format import FLOAT, INT32, MICROSOFT, Network, value
from filrouge.embed.weights import Floats, Sizes

Steps = NDArray[np.int8]

WORDS, LENGTHS, HALFWAY, STATES = "words", "lengths", "halfway", "states"
_WEIGHT_STEPS: Final = 63
#: Steps of an activation on either side of its zero, which is 128.
_STEPS: Final = 127
#: GELU's least value is -.16998: steps that reach as far on the other side lose nothing.
_GELU_DEPTH: Final = 0.17


class Tensors(Protocol):
    """What a network is made of: the weight file, or that with some of its matrices changed."""

    @property
    def sizes(self) -> Sizes:
        """The shape of the network."""
        ...

    def floats(self, name: str) -> Floats:
        """A tensor of 32-bit floats, flat."""
        ...

    def matrix(self, name: str, rows: int) -> Floats:
        """A matrix, a row for each output."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranges:
    """The size that steps reach at the places where a matrix comes next: no number of many texts was larger.

    Attributes:
        attention: before the queries, keys and values of each layer, shape (layers, hidden).
        inner: before the wide matrix of each layer, shape (layers, hidden).
        found: after attention, one number for each layer, shape (layers,).
    """

    attention: Floats
    inner: Floats
    found: Floats


@dataclass(frozen=True, kw_only=True, slots=True)
class _Normal:
    """A layer's state after normalisation, for the two who want it."""

    steps: str
    residual: str
    channels: Floats


def network(weights: Tensors, ranges: Ranges, half: int) -> bytes:
    """The ONNX file of the whole network; its second output are the states after `half` layers."""
    net, shape = _begun(weights, WORDS)
    state = _normal(net, weights, "emb.ln", WORDS, ranges.attention[0])
    for number in range(half):
        total = _layer(net, weights, f"l{number}", state, ranges, number)
        name = HALFWAY if number == half - 1 else ""
        state = _normal(net, weights, f"l{number}.oln", total, ranges.attention[number + 1], name)
    _upper(net, weights, ranges, half, state)
    return net.file(value(STATES, FLOAT, shape), value(HALFWAY, FLOAT, shape))


def upper_network(weights: Tensors, ranges: Ranges, half: int) -> bytes:
    """The ONNX file of the layers after the first `half`, which takes the states before them."""
    net, shape = _begun(weights, HALFWAY)
    channels = ranges.attention[half]
    even = net.step("Mul", [HALFWAY, net.constant("one_by_channels", 1 / channels)], "even")
    steps = net.step("QuantizeLinear", [even, "step", "middle"], "steps")
    _upper(net, weights, ranges, half, _Normal(steps=steps, residual=HALFWAY, channels=channels))
    return net.file(value(STATES, FLOAT, shape))


def _begun(weights: Tensors, given: str) -> tuple[Network, tuple[str, str, int]]:
    shape = ("texts", "tokens", weights.sizes.hidden)
    net = Network(inputs=[value(given, FLOAT, shape), value(LENGTHS, INT32, ("texts",))])
    _shared_constants(net, given, weights.sizes.hidden, weights.sizes.inner)
    return net, shape


def _upper(net: Network, weights: Tensors, ranges: Ranges, half: int, state: _Normal) -> None:
    last = weights.sizes.layers - 1
    for number in range(half, last):
        total = _layer(net, weights, f"l{number}", state, ranges, number)
        state = _normal(net, weights, f"l{number}.oln", total, ranges.attention[number + 1])
    total = _layer(net, weights, f"l{last}", state, ranges, last)
    scale, shift = (weights.floats(f"l{last}.oln.{part}") for part in "wb")
    _norm(net, f"l{last}.oln", total, scale, shift, weights.sizes.epsilon, STATES)


def _shared_constants(net: Network, given: str, hidden: int, inner: int) -> None:
    net.constant("by_token", np.array([-1, inner]))
    net.step("Shape", [given], "batch", start=0, end=2)
    net.step("Concat", ["batch", net.constant("width", np.array([hidden]))], "by_text", axis=0)
    net.constant("last_axis", np.array([-1]))
    net.constant("unit", np.array(1.0, np.float32))
    net.constant("depth", np.array(_GELU_DEPTH, np.float32))
    net.constant("step", np.array(1.0 / _STEPS, np.float32))
    net.constant("middle", np.array(128, np.uint8))
    net.constant("nought", np.array(0, np.int8))


def _layer(net: Network, weights: Tensors, layer: str, state: _Normal, ranges: Ranges, number: int) -> str:
    """The sum that the layer's last normalisation takes in."""
    steps, scales, bias = _matrix(weights, [f"{layer}.{one}" for one in "qkv"], weights.sizes.hidden, state.channels)
    joined = [
        state.steps,
        net.constant(f"{layer}.qkv.steps", steps),
        net.constant(f"{layer}.qkv.bias", bias),
        "step",
        net.constant(f"{layer}.qkv.scales", scales),
        LENGTHS,
        "middle",
        "nought",
    ]
    found = net.step("QAttention", joined, f"{layer}.found", MICROSOFT, num_heads=weights.sizes.heads)
    reach = net.constant(f"{layer}.reach", np.array(ranges.found[number] / _STEPS, np.float32))
    found = net.step("QuantizeLinear", [found, reach, "middle"], f"{layer}.found_steps")
    out = _product(net, f"{layer}.ao", found, reach, _matrix(weights, [f"{layer}.ao"], weights.sizes.hidden))
    total = net.step("Add", [out, state.residual], f"{layer}.attended")
    state = _normal(net, weights, f"{layer}.aln", total, ranges.inner[number])
    wide = _matrix(weights, [f"{layer}.fi"], weights.sizes.inner, state.channels)
    inner = _product(net, f"{layer}.fi", state.steps, "step", wide)
    out = _narrowed(net, weights, layer, net.step("Gelu", [inner], f"{layer}.gelu", MICROSOFT))
    return net.step("Add", [out, state.residual], f"{layer}.total")


def _narrowed(net: Network, weights: Tensors, layer: str, inner: str) -> str:
    """The product of what GELU gave with the layer's last matrix, each token in steps of its own size."""
    inner = net.step("Reshape", [inner, "by_token"], f"{layer}.tokens")
    largest = net.step("ReduceMax", [inner, "last_axis"], f"{layer}.largest", keepdims=0)
    largest = net.step("Max", [largest, "depth"], f"{layer}.reach_of_token")
    sizes = net.step("Mul", [largest, "step"], f"{layer}.token_sizes")
    net.step("Shape", [sizes], f"{layer}.count")
    middles = net.step("ConstantOfShape", [f"{layer}.count"], f"{layer}.middles", value=np.array([128], np.uint8))
    found = net.step("QuantizeLinear", [inner, sizes, middles], f"{layer}.gelu_steps", axis=0)
    steps, scales, bias = _matrix(weights, [f"{layer}.fo"], weights.sizes.hidden)
    out = _product(net, f"{layer}.fo", found, "unit", (steps, scales, None))
    out = net.step("Mul", [out, net.step("Unsqueeze", [sizes, "last_axis"], f"{layer}.column")], f"{layer}.scaled")
    out = net.step("Reshape", [out, "by_text"], f"{layer}.narrow")
    return net.step("Add", [out, net.constant(f"{layer}.fo.bias", bias)], f"{layer}.biased")


def _normal(net: Network, weights: Tensors, name: str, given: str, channels: Floats, out: str = "") -> _Normal:
    """Layer normalisation, in steps for the matrix that comes next and as it is for the sum after that."""
    scale, shift = weights.floats(f"{name}.w") / channels, weights.floats(f"{name}.b") / channels
    even = _norm(net, name, given, scale, shift, weights.sizes.epsilon, f"{name}.even")
    return _Normal(
        steps=net.step("QuantizeLinear", [even, "step", "middle"], f"{name}.steps"),
        residual=net.step("Mul", [even, net.constant(f"{name}.channels", channels)], out or f"{name}.out"),
        channels=channels,
    )


def _norm(net: Network, name: str, given: str, scale: Floats, shift: Floats, epsilon: float, out: str) -> str:
    inputs = [given, net.constant(f"{name}.scale", scale), net.constant(f"{name}.shift", shift)]
    return net.step("LayerNormalization", inputs, out, axis=-1, epsilon=epsilon)


def _matrix(
    weights: Tensors, sources: list[str], rows: int, channels: Floats | None = None
) -> tuple[Steps, Floats, Floats]:
    """Matrices set side by side: their steps (inputs, outputs), the size of a step for each output, the biases."""
    matrix = np.concatenate([weights.matrix(f"{source}.w", rows) for source in sources])
    if channels is not None:
        matrix = matrix * channels
    scales: Floats = np.abs(matrix).max(axis=1) / np.float32(_WEIGHT_STEPS)
    steps = np.rint(matrix / scales[:, None]).astype(np.int8)
    bias = np.concatenate([weights.floats(f"{source}.b") for source in sources])
    return np.ascontiguousarray(steps.T), scales, bias


def _product(net: Network, name: str, steps: str, size: str, matrix: tuple[Steps, Floats, Floats | None]) -> str:
    """Steps of a size times a matrix, with its biases where they are given."""
    values, scales, bias = matrix
    factors = [
        steps,
        net.constant(f"{name}.steps", values),
        size,
        net.constant(f"{name}.scales", scales),
        "middle",
    ]
    if bias is not None:
        factors += ["", net.constant(f"{name}.bias", bias)]
    return net.step("MatMulIntegerToFloat", factors, f"{name}.product", MICROSOFT)
