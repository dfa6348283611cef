"""The tokenizer of multilingual-e5-small: the most probable way to write a text in known pieces.

A piece never crosses the start of a word, so each word is split by itself and remembered: a text costs one look-up
per word. The 250,000 pieces are in one run of bytes with a hash table of numbers beside it, 9 MB with the scores: a
dictionary of strings takes 48 MB, and the `tokenizers` package 290 MB.
"""

from __future__ import annotations

import unicodedata
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final
from zlib import crc32

import numpy as np

_WORD_START: Final = "\u2581"
_UNKNOWN_PENALTY: Final = 10.0
_REMEMBERED_WORDS: Final = 20_000
_LONGEST_REMEMBERED: Final = 40
#: Slots of the hash table for each piece, at least: three of four look-ups of what is not a piece end at the first.
_SLOTS_PER_PIECE: Final = 4
_EMPTY: Final = -1
_UTF8: Final = ("utf-8", "surrogatepass")


@dataclass(frozen=True, kw_only=True, slots=True)
class Marks:
    """The ids that are no words."""

    begin: int
    end: int
    padding: int
    unknown: int


class _Pieces:
    """Which run of bytes is which piece: open addressing with linear probing, by the bytes' CRC-32.

    The CRC of a longer run is computed from that of its beginning, so the caller extends it character by character.
    """

    def __init__(self, pieces: Sequence[str], without: Sequence[str]) -> None:
        encoded = [piece.encode(*_UTF8) for piece in pieces]
        self._bytes = b"".join(encoded)
        self._starts = array("i", accumulate(map(len, encoded), initial=0))
        self._mask = (1 << (_SLOTS_PER_PIECE * len(encoded)).bit_length()) - 1
        hashes = np.fromiter(map(crc32, encoded), dtype=np.uint32, count=len(encoded))
        taken = set(without)
        ids = np.array([id_ for id_, piece in enumerate(pieces) if piece not in taken], dtype=np.int32)
        table = np.full(self._mask + 1, _EMPTY, dtype=np.int32)
        slots = (hashes[ids] & np.uint32(self._mask)).astype(np.int64)
        while len(ids):
            free = table[slots] == _EMPTY
            table[slots[free]] = ids[free]  # of several pieces for a slot one has it, and the others go on
            left = table[slots] != ids
            ids, slots = ids[left], (slots[left] + 1) & self._mask
        self._table = array("i")
        self._table.frombytes(table.tobytes())

    def find(self, run: bytes, crc: int) -> int:
        """The id of the piece with these bytes, or a negative number.

        Args:
            crc: the run's CRC-32.
        """
        table, mask, starts, pieces = self._table, self._mask, self._starts, self._bytes
        slot = crc & mask
        while (id_ := table[slot]) >= 0 and pieces[starts[id_] : starts[id_ + 1]] != run:
            slot = (slot + 1) & mask
        return id_

    @property
    def first_slots(self) -> tuple[array[int], int]:
        """The table and the mask of a slot, for a caller that looks at the first slot before it builds the run."""
        return self._table, self._mask


class Tokenizer:
    """Text to ids of pieces. Safe for several threads."""

    def __init__(
        self, pieces: Sequence[str], scores: Sequence[float], replacements: Mapping[int, str], marks: Marks
    ) -> None:
        self.marks = marks
        # A user's text cannot name the marks.
        self._pieces = _Pieces(pieces, ("<s>", "<pad>", "</s>", "<unk>", "<mask>"))
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
        pieces, scores = self._pieces, self._scores
        table, mask = pieces.first_slots
        characters = [character.encode(*_UTF8) for character in word]
        for start in range(size):
            so_far = best[start]
            if so_far + self._unknown_score > best[start + 1]:
                best[start + 1] = so_far + self._unknown_score
                came_from[start + 1] = (start, self.marks.unknown)
            crc = 0
            for stop in range(start + 1, min(size, start + self._longest) + 1):
                crc = crc32(characters[stop - 1], crc)
                if table[crc & mask] < 0:
                    continue
                id_ = pieces.find(b"".join(characters[start:stop]), crc)
                if id_ >= 0 and so_far + scores[id_] > best[stop]:
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
