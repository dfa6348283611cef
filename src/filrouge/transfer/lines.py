"""A whole export as JSON Lines (https://jsonlines.org): a row a line, so that neither end holds more than one.

The first line says what is to come: `{"filrouge_export": 1, "form": "jsonl", "version", "exported_at", "counts"}`, as
counted when it was begun. Each other line is a row with the name of its table, in an order in which nothing names what
is still to come but a memory its successor, and those names come once more as `links`. The last line counts what was
written: a file without it was cut off, and what stands before the cut is whole.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast

from filrouge.control_characters import in_json
from filrouge.errors import BadInput

MARK: Final = "filrouge_export"
END: Final = "filrouge_export_end"
FORM: Final = "jsonl"
TABLES: Final = (
    "projects", "threads", "messages", "memories", "links", "bridges", "sessions", "syntheses", "readings", "days",
)  # fmt: skip


def written(head: Mapping[str, Any], rows: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[str]:
    """The export, line by line; `rows` are tables' names with rows."""
    counts = Counter[str]()
    yield _line({**head, "form": FORM})
    for table, row in rows:
        counts[table] += 1
        yield _line({"table": table, **row})
    yield _line({END: head[MARK], "counts": {name: counts[name] for name in TABLES}})


class Lines:
    """Reads an export line by line, and knows at its end what was wrong with it.

    Attributes:
        head: the first line.
        problems: what is wrong with lines, by their number from 1; the rows of the others were given.
        whole: true once the last line was read and all that it counts was there.
    """

    def __init__(self, head: Mapping[str, Any], lines: Iterable[bytes]) -> None:
        self.head = head
        self.problems: list[tuple[int, str]] = []
        self.whole = False
        self._lines = lines
        self._counts = Counter[str]()
        self._lost = 0
        self._number = 1

    def rows(self) -> Iterator[tuple[int, str, dict[str, Any]]]:
        """The number of each line, the table of its row, and the row."""
        for number, line in enumerate(self._lines, start=2):
            self._number = number
            if not line.strip():
                continue
            if self.whole or (row := self._row(line)) is None:
                self._lost += 1
                self.problems.append((self._number, "more follows after the end" if self.whole else _broken(line)))
            elif END in row:
                self._end(row)
            elif (table := row.pop("table", None)) in TABLES:
                self._counts[str(table)] += 1
                yield self._number, str(table), row
            # what a later version adds is passed over
        if not self.whole:
            what = f"the file was cut off after line {self._number}; what stands before is whole"
            self.problems.append((self._number, what))

    @staticmethod
    def _row(line: bytes) -> dict[str, Any] | None:
        try:
            found: object = json.loads(line)
        except (ValueError, RecursionError):
            return None
        return cast("dict[str, Any]", found) if isinstance(found, dict) else None

    def _end(self, row: Mapping[str, Any]) -> None:
        self.whole = True
        counted: Any = row.get("counts")
        known = cast("dict[str, Any]", counted) if isinstance(counted, dict) else {}
        told = {name: count for name in TABLES if isinstance(count := known.get(name), int)}
        gone = sum(max(0, count - self._counts[name]) for name, count in told.items()) - self._lost
        if gone > 0:
            self.problems.append((self._number, f"{gone} of the rows that were written are missing"))


def begun(line: bytes) -> dict[str, Any] | None:
    """The first line of such an export; None for another file."""
    try:
        found: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    head = cast("dict[str, Any]", found)
    return head if MARK in head and head.get("form") == FORM else None


def opened(line: bytes, rest: Iterable[bytes], version: int) -> Lines | None:
    """The export that this line begins; None for another file.

    Raises:
        BadInput: it is of a version that cannot be read.
    """
    head = begun(line)
    if head is None:
        return None
    if head[MARK] != version:
        raise BadInput(f"This export has the version {head[MARK]!r}, and {version} can be read.")
    return Lines(head, rest)


def _broken(line: bytes) -> str:
    return "no whole row" if line.endswith(b"\n") else "no whole row: the file was cut off within this line"


def _line(row: Mapping[str, Any]) -> str:
    return in_json(json.dumps(row, ensure_ascii=False)) + "\n"
