"""Makes control characters in foreign text visible.

Terminals obey C0 and C1 controls (escape sequences, carriage return, backspace), and all displays obey bidirectional
overrides, line separators and invisible format characters such as Unicode tags. `visible` replaces them with a readable
notation: `\\x1b`, `\\u202e`, `\\U000e0041`. JSON output uses JSON escapes instead, which a program decodes to the exact
text. The joiners U+200C and U+200D and the soft hyphen stay, because words and emoji are spelt with them.
"""

from __future__ import annotations

import re
from typing import Final

#: C1 and DEL, Arabic letter mark, zero width space, direction marks and overrides, line and paragraph separators,
#: invisible operators and isolates, interlinear annotation, surrogate halves, shorthand and musical controls, tags, and
#: the variation selectors after them.
_CONTROL_RANGES: Final = (
    "\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_CONTROLS: Final = re.compile(f"[\0-\x08\x0b-\x1f{_CONTROL_RANGES}]")
_NOT_ESCAPED_BY_JSON: Final = re.compile(f"[{_CONTROL_RANGES}]")
_LINE_ENDS: Final = re.compile(r"\r\n|[\n\t]")
_NAMED: Final = {"\r": "\\r", "\x08": "\\b"}
_ONE_BYTE, _TWO_BYTES = 0xFF, 0xFFFF


def visible(text: str) -> str:
    """Return a multi-line text with visible control characters; only line ends and tabs stay as they are."""
    return _CONTROLS.sub(lambda found: _notation(found[0]), text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """Return a text as a single line with visible control characters; line ends and tabs become spaces."""
    return visible(_LINE_ENDS.sub(" ", text))


def in_json(document: str) -> str:
    """Return an equivalent JSON document in which every control character is a JSON escape.

    JSON has no such characters outside of strings, so every one found is inside a string.
    """
    return _NOT_ESCAPED_BY_JSON.sub(lambda found: _json_escape(found[0]), document)


def is_control(character: str) -> bool:
    """Return True if `visible` would replace the character."""
    return _CONTROLS.match(character) is not None


def _notation(character: str) -> str:
    number = ord(character)
    if number <= _ONE_BYTE:
        return _NAMED.get(character) or f"\\x{number:02x}"
    return f"\\u{number:04x}" if number <= _TWO_BYTES else f"\\U{number:08x}"


def _json_escape(character: str) -> str:
    number = ord(character)
    if number <= _TWO_BYTES:
        return f"\\u{number:04x}"
    number -= _TWO_BYTES + 1
    return f"\\u{0xD800 + (number >> 10):04x}\\u{0xDC00 + (number & 0x3FF):04x}"
