"""Control characters in text that somebody else wrote: shown instead of obeyed.

A terminal obeys C0 and C1 controls (escape sequences, a carriage return, a backspace), and everything that displays
text obeys bidirectional overrides, line separators and invisible format characters, Unicode tags among them. Here they
become visible: ``, `‮`, `󠁁`. A person reads that notation; JSON has escapes of its own, which a
program reads back as the exact text.

The joiners U+200C and U+200D stay, because words and emoji are spelt with them, and so does the soft hyphen.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from re import (
    ASCII,
    DOTALL,
    IGNORECASE,
    MULTILINE,
    VERBOSE,
    Match,
    Pattern,
    escape,
    findall,
    finditer,
    fullmatch,
    match,
    search,
    split,
    sub,
)
from typing import Any, Final, TypeVar, cast

# The standard `re`, with patterns that are compiled when they are first used.
#
#     from filrouge import lazy_re as re
#
# Hundreds of patterns stand in module-level constants. Compiling all of them took a quarter of the daemon's start,
# and a start needs none. A pattern that is wrong raises `re.error` at its first use instead of at import; a test
# compiles all.

__all__ = [
    "ASCII",
    "DOTALL",
    "IGNORECASE",
    "MULTILINE",
    "VERBOSE",
    "Match",
    "Pattern",
    "compile",
    "compile_waiting",
    "escape",
    "findall",
    "finditer",
    "fullmatch",
    "made_when_used",
    "match",
    "search",
    "split",
    "sub",
]

T = TypeVar("T")

#: Every pattern that was asked for and is not compiled yet.
_waiting: set[_LazyPattern] = set()
#: A pattern may be made of others in waiting, so the thread that compiles may come back.
_compiling = threading.RLock()


class _LazyPattern:
    """A pattern in waiting; after its first use it has the compiled one's public attributes as its own.

    Threads may share it: the first use compiles under a lock, and the others wait for it.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        _waiting.add(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        with _compiling:
            if self in _waiting:
                compiled = self._make()
                self.__dict__.update({each: getattr(compiled, each) for each in dir(compiled) if each[0] != "_"})
                _waiting.discard(self)
        try:
            return self.__dict__[name]
        except KeyError:
            raise AttributeError(name) from None


def compile(pattern: str, flags: int = 0) -> re.Pattern[str]:  # noqa: A001 (stands in for `re.compile`)
    """A pattern for its methods and attributes; the functions of `re` do not take it."""
    return made_when_used(lambda: re.compile(pattern, flags))


def made_when_used(make: Callable[[], T]) -> T:
    """A pattern of any engine that is compiled by `make` when it is first used."""
    return cast("T", _LazyPattern(make))


def compile_waiting() -> int:
    """Compile every pattern that nobody used yet; returns how many those were.

    Raises:
        re.error: a pattern is wrong.
    """
    count = 0
    for one in list(_waiting):
        _ = cast("re.Pattern[str]", one).search
        count += 1
    return count


#: C1 and DEL, Arabic letter mark, zero width space, marks and overrides of direction, line and paragraph separators,
#: invisible operators and isolates, interlinear annotation, halves of surrogate pairs, shorthand and musical controls,
#: tags and the variation selectors behind them.
_BEYOND_C0: Final = (
    "\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_CONTROLS: Final = re.compile(f"[\0-\x08\x0b-\x1f{_BEYOND_C0}]")
_NOT_ESCAPED_BY_JSON: Final = re.compile(f"[{_BEYOND_C0}]")
_LINE_ENDS: Final = re.compile(r"\r\n|[\n\t]")
_NAMED: Final = {"\r": "\\r", "\x08": "\\b"}
_ONE_BYTE, _TWO_BYTES = 0xFF, 0xFFFF


def visible(text: str) -> str:
    """A text of several lines in which no control character is left but the ends of lines and tabs."""
    return _CONTROLS.sub(lambda found: _notation(found[0]), text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """The same as one line: its ends of lines and its tabs become spaces."""
    return visible(_LINE_ENDS.sub(" ", text))


def in_json(document: str) -> str:
    """A JSON document with the same meaning in which every control character is an escape of JSON.

    Outside of strings JSON has no such character, so each that is found stands in a string.
    """
    return _NOT_ESCAPED_BY_JSON.sub(lambda found: _json_escape(found[0]), document)


def is_control(character: str) -> bool:
    """Whether `visible` would replace it."""
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
