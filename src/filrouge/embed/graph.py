"""The network of multilingual-e5-small, with its matrices in eight bits, as an ONNX file.

Twelve post-norm BERT layers. The word table stays outside, since a text touches few of its 250,000 rows: the
network takes embedded words and returns hidden states, both (texts, tokens, hidden).

A product of matrices is done in integers. Weights have one scale per output. Activations have one scale **per
token**, so a token's numbers never depend on which texts share its batch: the same text has the same vector
alone and among others. ONNX Runtime's own dynamic quantisation has one scale per batch, which costs more
(1st percentile of the cosine to the 4-bit engine .992 against .998) and makes vectors depend on their company.
Weights use 127 of the 256 steps, because processors without VNNI add two products in 16 bits, and two times
255 x 63 still fits.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from filrouge.embed.onnx_format import FLOAT, INT32, MICROSOFT, Network, value
from filrouge.embed.weights import Floats, Weights

WORDS, LENGTHS, STATES = "words", "lengths", "states"
_WEIGHT_STEPS: Final = 63
#: GELU's least value is -.16998: with it added, nothing is negative, and all 255 steps serve.
_GELU_FLOOR: Final = 0.17


def network(weights: Weights) -> bytes:
    """The ONNX file."""
    sizes = weights.sizes
    shape = ("texts", "tokens", sizes.hidden)
    net = Network(inputs=[value(WORDS, FLOAT, shape), value(LENGTHS, INT32, ("texts",))])
    _shared_constants(net, weights)
    states = _norm(net, weights, "emb.ln", [WORDS])
    net.step("Shape", [WORDS], "batch", start=0, end=2)
    net.step("Concat", ["batch", net.constant("three", np.array([3 * sizes.hidden]))], "as_joined", axis=0)
    net.step("Concat", ["batch", net.constant("one", np.array([sizes.hidden]))], "as_texts", axis=0)
    states = net.step("Reshape", [states, "as_tokens"], "tokens")
    for number in range(sizes.layers):
        states = _layer(net, weights, f"l{number}", states)
    net.step("Reshape", [states, "as_texts"], STATES)
    return net.file(value(STATES, FLOAT, shape))


def _shared_constants(net: Network, weights: Weights) -> None:
    net.constant("as_tokens", np.array([-1, weights.sizes.hidden]))
    net.constant("last_axis", np.array([-1]))
    net.constant("unit", np.array(1.0, np.float32))
    net.constant("floor", np.array(_GELU_FLOOR, np.float32))
    for zero, steps in ((128, 127), (0, 255)):
        net.constant(f"zero_{zero}", np.array(zero, np.uint8))
        net.constant(f"step_{zero}", np.array(1.0 / steps, np.float32))


def _layer(net: Network, weights: Weights, layer: str, states: str) -> str:
    joined, biases = _product(net, weights, f"{layer}.qkv", [f"{layer}.{one}" for one in "qkv"], states)
    joined = net.step("Reshape", [joined, "as_joined"], f"{layer}.joined")
    parts = [f"{layer}.queries", f"{layer}.keys", f"{layer}.values"]
    net.step("Split", [joined], parts, axis=-1, num_outputs=3)
    heads = weights.sizes.heads
    found = net.step("MultiHeadAttention", [*parts, biases, LENGTHS], f"{layer}.heads", MICROSOFT, num_heads=heads)
    found = net.step("Reshape", [found, "as_tokens"], f"{layer}.found")
    out, bias = _product(net, weights, f"{layer}.ao", [f"{layer}.ao"], found)
    states = _norm(net, weights, f"{layer}.aln", [out, states], bias)
    inner, bias = _product(net, weights, f"{layer}.fi", [f"{layer}.fi"], states)
    inner = net.step("BiasGelu", [inner, bias], f"{layer}.gelu", MICROSOFT)
    inner = net.step("Add", [inner, "floor"], f"{layer}.inner")
    out, bias = _product(net, weights, f"{layer}.fo", [f"{layer}.fo"], inner, raised=_GELU_FLOOR)
    return _norm(net, weights, f"{layer}.oln", [out, states], bias)


def _norm(net: Network, weights: Weights, name: str, inputs: list[str], bias: str = "") -> str:
    """Layer normalisation of one input, or of the sum of two and a bias."""
    scale = net.constant(f"{name}.w", weights.floats(f"{name}.w"))
    shift = net.constant(f"{name}.b", weights.floats(f"{name}.b"))
    epsilon = weights.sizes.epsilon
    if len(inputs) == 1:
        return net.step("LayerNormalization", [*inputs, scale, shift], f"{name}.out", axis=-1, epsilon=epsilon)
    return net.step("SkipLayerNormalization", [*inputs, scale, shift, bias], f"{name}.out", MICROSOFT, epsilon=epsilon)


def _product(
    net: Network, weights: Weights, name: str, sources: list[str], inputs: str, raised: float = 0.0
) -> tuple[str, str]:
    """Inputs times matrices set side by side; the product, and the name of the bias that is still to be added.

    Args:
        raised: what was added to the inputs so that none is negative; the bias takes it out again.
    """
    sizes = weights.sizes
    rows = sizes.inner if name.endswith(".fi") else sizes.hidden
    matrix = np.concatenate([weights.matrix(f"{source}.w", rows) for source in sources])
    bias = np.concatenate([weights.floats(f"{source}.b") for source in sources])
    scales: Floats = np.abs(matrix).max(axis=1) / np.float32(_WEIGHT_STEPS)
    steps = np.rint(matrix / scales[:, None]).astype(np.int8)
    bias = bias - np.float32(raised) * (steps.sum(axis=1, dtype=np.float32) * scales)
    zero = 0 if raised else 128
    quantised, token_scales = _per_token(net, name, inputs, zero)
    factors = [
        quantised,
        net.constant(f"{name}.steps", np.ascontiguousarray(steps.T)),
        "unit",
        net.constant(f"{name}.scales", scales),
        f"zero_{zero}",
    ]
    product = net.step("MatMulIntegerToFloat", factors, f"{name}.sums", MICROSOFT)
    column = net.step("Unsqueeze", [token_scales, "last_axis"], f"{name}.column")
    return net.step("Mul", [product, column], f"{name}.product"), net.constant(f"{name}.bias", bias)


def _per_token(net: Network, name: str, inputs: str, zero: int) -> tuple[str, str]:
    """Eight-bit activations and their scales, one per token."""
    size = inputs if zero == 0 else net.step("Abs", [inputs], f"{name}.size")
    largest = net.step("ReduceMax", [size, "last_axis"], f"{name}.largest", keepdims=0)
    scales = net.step("Mul", [largest, f"step_{zero}"], f"{name}.token_scales")
    net.step("Shape", [scales], f"{name}.count")
    zeros = net.step("ConstantOfShape", [f"{name}.count"], f"{name}.zeros", value=np.array([zero], np.uint8))
    return net.step("QuantizeLinear", [inputs, scales, zeros], f"{name}.quantised", axis=0), scales
