"""How much of one event is kept: the same limits in the hook and in the daemon.

Nothing learns from the third megabyte of a build log, and no writer should wait for it. What is over a limit is cut,
and a mark in its place says how much went. The beginning is kept to the letter. This module is on the hook's path:
standard library only.

Pure: no database, no file.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, cast

LONGEST_TEXT: Final = 200_000
#: All texts of one event together: dense with keywords, they still leave half of the hook's 900 ms.
LARGEST_EVENT: Final = 600_000
#: Read beyond a cut, so that a secret that lies across it is still seen whole.
MARGIN: Final = 4_096
#: Texts, numbers and containers of one event: each costs its share whatever its length.
MOST_VALUES: Final = 3_000
DEEPEST: Final = 40
LONGEST_NAME: Final = 200
#: What was cut once has a mark at its end, and is not to be cut for that.
SLACK: Final = 200

_MARKED: Final = re.compile(r"\n?\[filrouge: (\d+) characters cut\]\Z")


class Pruner:
    """Cuts what is too much or too deep out of one event, and leaves a mark in its place.

    Attributes:
        cut: how many items and fields went.
    """

    def __init__(self, most: int = MOST_VALUES) -> None:
        self._left = most
        self.cut = 0

    def pruned(self, value: Any, depth: int = 0) -> Any:
        """The value with as many of its parts as are still allowed, in order."""
        self._left -= 1
        if isinstance(value, (list, dict)) and depth >= DEEPEST:
            self.cut += 1
            return "[filrouge: cut, too deep]"
        if isinstance(value, list):
            return self._list(cast("list[Any]", value), depth)
        if isinstance(value, dict):
            return self._object(cast("dict[str, Any]", value), depth)
        return value

    def _list(self, items: list[Any], depth: int) -> list[Any]:
        kept: list[Any] = []
        for item in items:
            if self._left <= 0:
                self.cut += len(items) - len(kept)
                kept.append(f"[filrouge: {len(items) - len(kept)} items cut]")
                break
            kept.append(self.pruned(item, depth + 1))
        return kept

    def _object(self, fields: dict[str, Any], depth: int) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for done, (name, item) in enumerate(fields.items()):
            if self._left <= 0 and depth > 2:  # a call keeps its own few fields
                self.cut += len(fields) - done
                kept["filrouge"] = f"[filrouge: {len(fields) - done} fields cut]"
                break
            kept[name[:LONGEST_NAME]] = self.pruned(item, depth + 1)
        return kept


class TextCutter:
    """Cuts the texts of one event, which share what may be kept.

    Attributes:
        cut: how many characters went.
    """

    def __init__(self) -> None:
        self._left = LARGEST_EVENT
        self.cut = 0

    def cleaned(self, text: str, clean: Callable[[str], str]) -> str:
        """The beginning of a text, cleaned; whole where it is not too long."""
        limit = min(LONGEST_TEXT, self._left)
        if len(text) <= limit + SLACK:
            self._left = max(0, self._left - len(text))
            return clean(text)
        marked = _MARKED.search(text, len(text) - SLACK)
        before = int(marked[1]) if marked else 0
        gone = (marked.start() if marked else len(text)) - limit + before
        self.cut += gone
        self._left -= limit
        if not limit:
            return cut_mark(gone)
        safe = clean(text[: limit + MARGIN])
        return f"{safe[: min(limit, max(0, len(safe) - MARGIN))]}\n{cut_mark(gone)}"


def cut_mark(characters: int) -> str:
    """What stands in the place of so many characters."""
    return f"[filrouge: {characters} characters cut]"
