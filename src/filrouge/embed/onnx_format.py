"""Just enough of the ONNX file format to write one network.

An ONNX file is a protocol-buffers message: fields, each with a number and either an integer of variable length
or a run of bytes, which may be a message again. The field numbers are those of `onnx.proto3`. The `onnx` package
would bring 31 MB to write what stands here on a page; ONNX Runtime reads the result and is the judge of it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

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
    """A network in the making: its inputs, its constants and its steps, in their order."""

    inputs: Sequence[bytes]
    _constants: dict[str, bytes] = field(default_factory=dict[str, bytes])
    _steps: list[bytes] = field(default_factory=list[bytes])

    def constant(self, name: str, value: Array) -> str:
        """Keep a constant under a name; returns the name."""
        self._constants[name] = _tensor(name, value)
        return name

    def step(
        self, operator: str, inputs: Sequence[str], outputs: str | Sequence[str], domain: str = "", **how: Attribute
    ) -> str:
        """Add a step; returns its first output."""
        names = [outputs] if isinstance(outputs, str) else list(outputs)
        parts = [_text(1, name) for name in inputs] + [_text(2, name) for name in names]
        parts += [_text(4, operator), *(_bytes(5, _attribute(name, value)) for name, value in how.items())]
        self._steps.append(b"".join([*parts, _text(7, domain)]))
        return names[0]

    def file(self, *outputs: bytes) -> bytes:
        """The whole file, with the outputs that `value` described."""
        graph = [_bytes(1, step) for step in self._steps] + [_text(2, "multilingual-e5-small")]
        graph += [_bytes(5, constant) for constant in self._constants.values()]
        graph += [*(_bytes(11, one) for one in self.inputs), *(_bytes(12, one) for one in outputs)]
        opsets = [_bytes(8, _text(1, domain) + _integer(2, version)) for domain, version in _OPSETS]
        return b"".join([_integer(1, _IR_VERSION), _text(2, "filrouge"), _bytes(7, b"".join(graph)), *opsets])


def value(name: str, kind: int, shape: Sequence[str | int]) -> bytes:
    """The description of an input or an output; a dimension that varies has a name."""
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
