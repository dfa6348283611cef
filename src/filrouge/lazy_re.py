"""The standard `re`, with patterns that are compiled when they are first used.

    from filrouge import lazy_re as re

Hundreds of patterns stand in module-level constants. Compiling all of them took a quarter of the daemon's start, and a
start needs none. A pattern that is wrong raises `re.error` at its first use instead of at import; a test compiles all.
"""

from __future__ import annotations

import re
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
from typing import Any, TypeVar, cast

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


class _LazyPattern:
    """A pattern in waiting; after its first use it has the compiled one's attributes as its own."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        _waiting.add(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        _waiting.discard(self)
        compiled = self._make()
        for each in dir(compiled):
            if not each.startswith("__"):
                self.__dict__[each] = getattr(compiled, each)
        return getattr(compiled, name)


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
