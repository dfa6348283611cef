"""Size limits of one event, shared by the hook and the daemon.

Nothing is learnt from the third megabyte of a build log, and no writer should wait for it. Anything over a limit is cut
and replaced by a mark with the size of what was cut. The beginning is kept exactly. The hook imports this module:
standard library only.

Pure: no database, no file.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, cast

LONGEST_TEXT: Final = 200_000
#: All texts of one event together; at this size redaction takes at most half of the hook's 900 ms.
LARGEST_EVENT: Final = 600_000
#: Characters read beyond a cut, so that a secret across the cut is seen whole.
LOOKAHEAD: Final = 4_096
#: Texts, numbers and containers of one event; each has a cost regardless of its length.
MAX_VALUES: Final = 3_000
MAX_DEPTH: Final = 40
LONGEST_NAME: Final = 200
#: Tolerance for the mark at the end of a text that was already cut.
MARK_TOLERANCE: Final = 200

_MARKED: Final = re.compile(r"\n?\[filrouge: (\d+) characters cut\]\Z")


class Pruner:
    """Cuts excess items, fields and depth of one event, and leaves marks.

    Attributes:
        cut: number of items and fields that were cut.
    """

    def __init__(self, most: int = MAX_VALUES) -> None:
        self._left = most
        self.cut = 0

    def pruned(self, value: Any, depth: int = 0) -> Any:
        """Return the value with as many of its parts as the remaining budget allows, in order."""
        self._left -= 1
        if isinstance(value, (list, dict)) and depth >= MAX_DEPTH:
            self.cut += 1
            return "[filrouge: nested too deeply, cut]"
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
            if self._left <= 0 and depth > 2:  # a tool call keeps its few top-level fields
                self.cut += len(fields) - done
                kept["filrouge"] = f"[filrouge: {len(fields) - done} fields cut]"
                break
            kept[name[:LONGEST_NAME]] = self.pruned(item, depth + 1)
        return kept


class TextCutter:
    """Cuts the texts of one event, which share one budget.

    Attributes:
        cut: number of characters that were cut.
    """

    def __init__(self) -> None:
        self._left = LARGEST_EVENT
        self.cut = 0

    def cleaned(self, text: str, clean: Callable[[str], str]) -> str:
        """Return the cleaned text, cut to the limit if it is too long."""
        limit = min(LONGEST_TEXT, self._left)
        if len(text) <= limit + MARK_TOLERANCE:
            self._left = max(0, self._left - len(text))
            return clean(text)
        marked = _MARKED.search(text, len(text) - MARK_TOLERANCE)
        before = int(marked[1]) if marked else 0
        gone = (marked.start() if marked else len(text)) - limit + before
        self.cut += gone
        self._left -= limit
        if not limit:
            return cut_mark(gone)
        safe = clean(text[: limit + LOOKAHEAD])
        return f"{safe[: min(limit, max(0, len(safe) - LOOKAHEAD))]}\n{cut_mark(gone)}"


def cut_mark(characters: int) -> str:
    """Return the mark that replaces a number of characters."""
    return f"[filrouge: {characters} characters cut]"
