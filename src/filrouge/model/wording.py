"""What a large full-text index is told of a row, and what it is asked: labels, bounds, words.

The index knows rows by their number in the store and nothing of tables; labels such as `project:…` and two times are
all that it may narrow by.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class WordRow:
    """One row as it is indexed.

    Attributes:
        number: its place in its table; whatever comes later has a larger one.
        tokens: the analyser's token string, the same that the store indexes.
        begins, ends: microseconds since 1970; a row without an end has `NEVER`.
    """

    number: int
    tokens: str
    labels: Collection[str]
    begins: int
    ends: int


#: The end of what has no end.
NEVER = 2**62


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """Which rows may answer.

    Attributes:
        labels: of every set a row must have one; nothing = all rows.
        begins: the first and the last moment that a row may begin at.
        lasts_beyond: a moment that a row must not have ended at.
        without: numbers of rows that may not answer whatever they are.
    """

    labels: tuple[frozenset[str], ...] = ()
    begins: tuple[int | None, int | None] = (None, None)
    lasts_beyond: int | None = None
    without: frozenset[int] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """How far an index follows its store: the last row, and the last change of an older row."""

    row: int
    change: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Counted:
    """Of some rows: how many there are, their tokens together, and in how many each asked token occurs."""

    rows: int
    tokens: int
    having: Mapping[str, int]

    @property
    def mean(self) -> float:
        """Tokens of an average row."""
        return self.tokens / self.rows if self.rows else 0.0
