"""Proof that a statement says no more than its words (EXT-3).

A quote is found in a turn exactly, or else with case, accents, typography and spacing set aside. A statement is
supported when every content word and number of its text occurs in its span; what is not is quarantined.
"""

from __future__ import annotations

import unicodedata

from filrouge.model.memory import Span, Statement
from filrouge.understand.words import STOP, canonical, fold, tokens


def locate(quote: str, text: str) -> Span | None:
    """Where `quote` stands in `text`, or None."""
    wanted = quote.strip()
    if not wanted:
        return None
    at = text.find(wanted)
    if at >= 0:
        return Span(start=at, end=at + len(wanted))
    plain, offsets = _squeeze(text)
    needle, _ = _squeeze(wanted)
    needle = needle.strip()
    at = plain.find(needle) if needle else -1
    if at < 0:
        return None
    return Span(start=offsets[at], end=offsets[at + len(needle) - 1] + 1)


def supported(statement: Statement, text: str) -> bool:
    """True when every content word and number of the statement occurs in its span of `text`."""
    span = statement.span
    if not 0 <= span.start < span.end <= len(text):
        return False
    said = _words(text[span.start : span.end])
    return _words(statement.text) <= said


def _words(text: str) -> set[str]:
    plain = fold(unicodedata.normalize("NFC", text))
    return {canonical(word) for word in tokens(plain) if word not in STOP}


def _squeeze(text: str) -> tuple[str, list[int]]:
    """Folded text with single spaces and without combining marks, and where each character came from."""
    letters: list[str] = []
    offsets: list[int] = []
    for index, char in enumerate(fold(text)):
        if unicodedata.combining(char):
            continue
        if char.isspace():
            if letters and letters[-1] == " ":
                continue
            char = " "
        letters.append(char)
        offsets.append(index)
    return "".join(letters), offsets
