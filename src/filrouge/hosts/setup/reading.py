"""JSON as settings files hold it, with the place of every value in the text.

Read are JSON, comments and trailing commas (JSONC), and of JSON5 the plain keys and single quotes, because one agent
or another takes each of them. What is read is never written back from here.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from filrouge.errors import BadInput

_SPACE: Final = re.compile(r"(?:[\s\ufeff]+|//[^\n\r]*|/\*.*?\*/)*", re.DOTALL)
_DOUBLE: Final = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SINGLE: Final = re.compile(r"'(?:[^'\\]|\\.)*'", re.DOTALL)
_WORD: Final = re.compile(r"[^\s,:\[\]{}\"'/]+")
_DEEPEST: Final = 200


@dataclass(frozen=True, slots=True)
class Node:
    """A value and where it stands.

    Attributes:
        start: the place of its first character.
        end: the place after its last.
        value: what it says, as Python's own values.
        parts: the nodes of a list in their order, those of an object by their key; of a key said twice the last.
        begins: where each part begins, an object's with its key.
    """

    start: int
    end: int
    value: Any
    parts: dict[str | int, Node]
    begins: dict[str | int, int]

    @property
    def items(self) -> list[Any]:
        """The values of a list; nothing for anything else."""
        return [part.value for part in self.parts.values()] if isinstance(self.value, list) else []

    @property
    def keys(self) -> list[str]:
        """The keys of an object; nothing for anything else."""
        return [str(key) for key in self.parts] if isinstance(self.value, dict) else []

    def at(self, path: tuple[str | int, ...]) -> Node | None:
        """The node that these keys lead to."""
        node: Node | None = self
        for key in path:
            node = node.parts.get(key) if node is not None else None
        return node


def read(text: str) -> Node:
    """Read a whole settings file; an empty one is an empty object of no length.

    Raises:
        BadInput: it is not JSON; the message names the line.
    """
    start = _after_space(text, 0)
    if start == len(text):
        return Node(start, start, {}, {}, {})
    node = _value(text, start, 0)
    if _after_space(text, node.end) != len(text):
        raise _wrong(text, _after_space(text, node.end), "something stands after the end")
    return node


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _value(text: str, at: int, depth: int) -> Node:
    if depth > _DEEPEST:
        raise _wrong(text, at, "it is nested too deeply")
    opening = text[at : at + 1]
    if opening in ("{", "["):
        return _container(text, at, depth)
    if opening in ("'", '"'):
        said, end = _string(text, at)
        return Node(at, end, said, {}, {})
    found = _WORD.match(text, at)
    if found is None:
        raise _wrong(text, at, "a value is missing")
    return Node(at, found.end(), _bare(found[0]), {}, {})


def _container(text: str, start: int, depth: int) -> Node:
    is_object = text[start] == "{"
    closing = "}" if is_object else "]"
    parts: dict[str | int, Node] = {}
    begins: dict[str | int, int] = {}
    at = _after_space(text, start + 1)
    while text[at : at + 1] != closing:
        key: str | int = len(parts)
        began = at
        if is_object:
            key, at = _key(text, at)
        node = _value(text, at, depth + 1)
        parts[key], begins[key] = node, began
        at = _after_space(text, node.end)
        if text[at : at + 1] == ",":
            at = _after_space(text, at + 1)
        elif text[at : at + 1] != closing:
            raise _wrong(text, at, f"a comma or {closing} is missing")
    whole = {str(key): node.value for key, node in parts.items()} if is_object else [n.value for n in parts.values()]
    return Node(start, at + 1, whole, parts, begins)


def _key(text: str, at: int) -> tuple[str, int]:
    """A key, and where its value begins."""
    if text[at : at + 1] in ("'", '"'):
        key, end = _string(text, at)
    else:
        found = _WORD.match(text, at)
        if found is None:
            raise _wrong(text, at, "a key is missing")
        key, end = found[0], found.end()
    colon = _after_space(text, end)
    if text[colon : colon + 1] != ":":
        raise _wrong(text, colon, "a colon is missing")
    return key, _after_space(text, colon + 1)


def _string(text: str, at: int) -> tuple[str, int]:
    pattern = _DOUBLE if text[at] == '"' else _SINGLE
    found = pattern.match(text, at)
    if found is None:
        raise _wrong(text, at, "a text has no end")
    raw = found[0]
    if raw[0] == "'":
        raw = '"' + raw[1:-1].replace("\\'", "'").replace('"', '\\"') + '"'
    try:
        return str(json.loads(raw, strict=False)), found.end()
    except ValueError as error:
        raise _wrong(text, at, "a text has an escape that JSON does not know") from error


def _bare(word: str) -> Any:
    try:
        return json.loads(word)
    except ValueError:
        return word  # a number as JSON5 writes it: it is only carried


def _wrong(text: str, at: int, why: str) -> BadInput:
    return BadInput(f"It is no JSON: {why} in line {text.count(chr(10), 0, at) + 1}.")
