"""The standard `re`, with patterns that are compiled when they are first used.

    from filrouge.core import lazy_re as re

Hundreds of patterns are module-level constants. Compiling all of them took a quarter of the daemon's start, and a
start needs none. An invalid pattern raises `re.error` at its first use instead of at import; a test compiles all.
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
    "compile_all",
    "escape",
    "findall",
    "finditer",
    "fullmatch",
    "lazy_pattern",
    "match",
    "search",
    "split",
    "sub",
]

T = TypeVar("T")


#: Every pattern that is not compiled yet.
_uncompiled: set[_LazyPattern] = set()


#: Reentrant, because compiling one pattern can trigger the compilation of another.
_compiling = threading.RLock()


class _LazyPattern:
    """A pattern that compiles on first use, and then has the compiled pattern's public attributes.

    It is thread-safe: the first use compiles under a lock, and other threads wait.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        _uncompiled.add(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        with _compiling:
            if self in _uncompiled:
                compiled = self._make()
                self.__dict__.update(
                    {public: getattr(compiled, public) for public in dir(compiled) if public[0] != "_"}
                )
                _uncompiled.discard(self)
        try:
            return self.__dict__[name]
        except KeyError:
            raise AttributeError(name) from None


def compile(pattern: str, flags: int = 0) -> re.Pattern[str]:  # noqa: A001 (stands in for `re.compile`)
    """Return a lazy pattern with the methods and attributes of a compiled one; functions of `re` do not take it."""
    return lazy_pattern(lambda: re.compile(pattern, flags))


def lazy_pattern(make: Callable[[], T]) -> T:
    """Return a pattern of any regex engine that `make` compiles on first use."""
    return cast("T", _LazyPattern(make))


def compile_all() -> int:
    """Compile every pattern that was not used yet, and return their number.

    Raises:
        re.error: a pattern is invalid.
    """
    count = 0
    for uncompiled in list(_uncompiled):
        _ = cast("re.Pattern[str]", uncompiled).search
        count += 1
    return count
