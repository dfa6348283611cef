"""Keeps the daemon's memory small where glibc allocates it.

Every thread of the daemon may get an arena of its own from glibc, and freed memory stays in it. Two arenas are enough
for threads that mostly take turns at the interpreter, and what is free goes back to the system now and then. With
another C library both functions do nothing.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

#: The parameter's number in malloc.h.
_ARENA_MAX: Final = -8
_ARENAS: Final = 2


def limit_arenas() -> None:
    """To be called before there are threads."""
    if adjust := _function("mallopt"):
        adjust(_ARENA_MAX, _ARENAS)


def give_back() -> None:
    """Return free memory to the system; takes a few milliseconds."""
    if trim := _function("malloc_trim"):
        trim(0)


def _function(name: str) -> Any:
    try:
        return getattr(ctypes.CDLL(None), name, None)
    except OSError:
        return None
