"""Outdated: telling a turn that repeats what is believed no more, so that it is not shown as if it held.

A correction ends a memory, not the turns that said the same: the agent's "noted", an answer of last month, a
summary. A turn that was said before the end and has at least half its words in common with what ended is one of them;
words are compared across languages (`extraction.vocabulary`). What ends it, and what is said afterwards, stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from filrouge.extraction.vocabulary import content, topic

_HALF: Final = 0.5
_FEWEST: Final = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """Something that was believed until `at`, by its words (`words_of`)."""

    words: frozenset[str]
    at: datetime


def words_of(text: str) -> frozenset[str]:
    """The words of a text that say what it is about, whatever the language."""
    return frozenset(topic(content(text)))


def is_outdated(words: frozenset[str], at: datetime, ended: Iterable[Ended]) -> bool:
    """True for a turn of these words, said at this time, that says what has ended since."""
    return any(at < one.at and _says(words, one.words) for one in ended)


def _says(words: frozenset[str], old: frozenset[str]) -> bool:
    shared = len(words & old)
    return shared >= _FEWEST and shared >= _HALF * min(len(words), len(old))
