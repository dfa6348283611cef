"""The tokenizer of multilingual-e5-small: the most probable way to write a text in known pieces.

A piece never crosses the start of a word, so each word is split by itself and remembered: a text costs one look-up
per word. The table of pieces is a plain dictionary, 45 MB with its scores; the `tokenizers` package keeps the same
table in 290 MB, more than the daemon may use with everything.
"""

from __future__ import annotations

import unicodedata
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_WORD_START: Final = "\u2581"
_UNKNOWN_PENALTY: Final = 10.0
_REMEMBERED_WORDS: Final = 20_000
_LONGEST_REMEMBERED: Final = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class Marks:
    """The ids that are no words."""

    begin: int
    end: int
    padding: int
    unknown: int


class Tokenizer:
    """Text to ids of pieces. Safe for several threads."""

    def __init__(
        self, pieces: Sequence[str], scores: Sequence[float], replacements: Mapping[int, str], marks: Marks
    ) -> None:
        self.marks = marks
        self._ids = {piece: id_ for id_, piece in enumerate(pieces)}
        for name in ("<s>", "<pad>", "</s>", "<unk>", "<mask>"):  # a user's text cannot name them
            self._ids.pop(name, None)
        self._scores = array("f", scores)
        self._unknown_score = min(self._scores) - _UNKNOWN_PENALTY
        self._longest = max(map(len, pieces))
        self._replacements = dict(replacements)
        self._words: dict[str, tuple[int, ...]] = {}

    def ids(self, text: str) -> list[int]:
        """The pieces of a text, without the marks for its beginning and end."""
        found: list[int] = []
        for word in self._split(text):
            found += self._word(word)
        return found

    def _split(self, text: str) -> list[str]:
        """Words, each with the sign of its start; a space at the end of the text is a word of its own."""
        plain = unicodedata.normalize("NFC", text).translate(self._replacements)
        words = plain.split(" ")
        filled = [_WORD_START + word for word in words if word]
        return [*filled, _WORD_START] if filled and not words[-1] else filled or [_WORD_START]

    def _word(self, word: str) -> tuple[int, ...]:
        known = self._words.get(word)
        if known is None:
            known = self._most_probable(word)
            if len(word) <= _LONGEST_REMEMBERED:
                if len(self._words) >= _REMEMBERED_WORDS:
                    self._words = {}
                self._words[word] = known
        return known

    def _most_probable(self, word: str) -> tuple[int, ...]:
        """Viterbi: the best split of every beginning of the word, from shorter ones."""
        size = len(word)
        best = [0.0] + [float("-inf")] * size
        came_from = [(0, self.marks.unknown)] * (size + 1)
        ids, scores = self._ids, self._scores
        for start in range(size):
            so_far = best[start]
            if so_far + self._unknown_score > best[start + 1]:
                best[start + 1] = so_far + self._unknown_score
                came_from[start + 1] = (start, self.marks.unknown)
            for stop in range(start + 1, min(size, start + self._longest) + 1):
                id_ = ids.get(word[start:stop])
                if id_ is not None and so_far + scores[id_] > best[stop]:
                    best[stop] = so_far + scores[id_]
                    came_from[stop] = (start, id_)
        return _path(came_from)


def _path(came_from: list[tuple[int, int]]) -> tuple[int, ...]:
    found: list[int] = []
    at = len(came_from) - 1
    while at > 0:
        at, id_ = came_from[at]
        found.append(id_)
    return tuple(reversed(found))
