"""Passages: selects from ranked turns and memories the few lines most likely to answer the prompt.

A line shows one memory, or neighbouring turns of one conversation. The aim is the most probable evidence in the
fewest characters, so candidates are taken by probability per character. A turn near one already chosen joins its
line, which costs less than a new line. Long turns are cut at sentence ends to the part that matches the prompt.
Candidates that repeat a chosen one are dropped.

Pure: no database, no file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final

from filrouge.core import lazy_re as re

#: Turns of one conversation at most this many places apart share a line; a gap is marked.
MAX_GAP: Final = 3
#: Extra cost of a new line in characters: its mark with time and source, and the use of one of about four lines.
_LINE_COST: Final = 100
#: Turns longer than `MAX_UNCUT` characters are cut to at most `MAX_EXCERPT` characters.
MAX_UNCUT: Final = 400
MAX_EXCERPT: Final = 300
#: The excerpt of a very long sentence is built from this many pieces.
_PARTS: Final = 6
#: Two texts count as the same if they share at least this share of the shorter one's words.
_DUPLICATE_SHARE: Final = 0.85
#: Separators between turns while a passage has several lines. In the final single line each takes `_BETWEEN`
#: characters.
_TOGETHER: Final = "\n"
_APART: Final = "\n…\n"
_BETWEEN: Final = 3
_SENTENCE: Final = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+(?=\S)|\s*\n\s*")
_SPACES: Final = re.compile(r"\s+")


@dataclass(frozen=True, kw_only=True, slots=True)
class PassageCandidate:
    """One candidate: a memory or a turn.

    Attributes:
        conversation: turns with equal values may share a line; for a memory its own id, since it stands alone.
        place: the position of a turn in its conversation.
        text: the text to show, one line.
        answers: for a reply, the id and the shown text of the prompt it answers; omitted if that prompt is shown
            anyway.
        chance: the probability that it contains what was asked.
        opens: it may have its own line; otherwise it can only join one.
        words: its words, for detecting repetition.
    """

    id: str
    conversation: Hashable
    place: int
    text: str
    chance: float
    words: frozenset[str] = field(default_factory=frozenset[str])
    answers: tuple[str, str] | None = None
    opens: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Passage:
    """One line: its turns in chronological order, or one memory."""

    told: tuple[PassageCandidate, ...]

    @property
    def text(self) -> str:
        """The texts of its turns, with a mark where turns are left out."""
        shown = {one.id for one in self.told}
        parts: list[str] = []
        for before, one in zip([None, *self.told], self.told, strict=False):
            if before:
                parts.append(_TOGETHER if one.place - before.place == 1 else _APART)
            if one.answers and one.answers[0] not in shown:
                parts += [one.answers[1], _TOGETHER]
            parts.append(one.text)
        return "".join(parts)

    @property
    def size(self) -> int:
        """Characters of the text when written as one line."""
        return len(self.text) + (_BETWEEN - 1) * self.text.count("\n")

    @property
    def value(self) -> float:
        """The probability that any part of it contains what was asked."""
        return 1.0 - math.prod(1.0 - one.chance for one in self.told)


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """The chosen lines, best first, and for each candidate left out the reason, by its id."""

    passages: tuple[Passage, ...]
    refused: dict[str, str]


def choose(candidates: Sequence[PassageCandidate], *, room: int, most: int, longest: int, mark: int) -> Selection:
    """Choose the passages to show.

    Args:
        room: maximum characters of all lines together, including their marks.
        most: maximum number of lines.
        longest: maximum characters of one line's text.
        mark: characters of a line's mark.
    """
    lines: list[Passage] = []
    refused: dict[str, str] = {}
    left = {one.id: one for one in candidates}
    while left:
        for id_ in [id_ for id_, one in left.items() if _is_said(one, lines)]:
            refused[id_] = "repeats a shown item"
            del left[id_]
        used = sum(line.size + mark for line in lines)
        best: tuple[float, str, int | None, Passage] | None = None
        for id_, one in left.items():
            at, line, costs = _placed(one, lines, longest)
            if at is None and (len(lines) >= most or not one.opens):
                continue
            if line.size > longest or used + costs + (mark if at is None else 0) > room:
                continue
            # Filling a gap may cost nothing, because the gap's mark goes away.
            worth = one.chance / max(1, costs + (_LINE_COST if at is None else 0))
            if best is None or (worth, id_) > best[:2]:
                best = (worth, id_, at, line)
        if best is None:
            break
        _, id_, at, line = best
        del left[id_]
        lines = [*lines, line] if at is None else [line if place == at else one for place, one in enumerate(lines)]
    for id_, one in left.items():
        at, _, _ = _placed(one, lines, longest)
        beyond = at is None and len(lines) >= most
        refused[id_] = "beyond the limit" if beyond else "over the budget" if one.opens else "below the threshold"
    return Selection(passages=tuple(sorted(lines, key=lambda line: -line.value)), refused=refused)


def excerpt(text: str, weigh: Callable[[str], float], *, whole: int = MAX_UNCUT, cut: int = MAX_EXCERPT) -> str:
    """A turn as one line: all of it up to `whole` characters, else the sentences that best match the prompt.

    Args:
        weigh: how well a sentence matches the prompt.
        cut: maximum characters of a turn that is longer than `whole`.
    """
    line = _SPACES.sub(" ", text).strip()
    if len(line) <= whole:
        return line
    sentences = [_SPACES.sub(" ", one).strip() for one in _SENTENCE.split(text)]
    sentences = [one for one in sentences if one]
    weights = [weigh(one) for one in sentences]
    best = max(range(len(sentences)), key=lambda at: (weights[at], -at))
    if len(sentences[best]) > cut:
        return _best_part(sentences, best, weigh, cut)
    first, last = best, best + 1
    while True:
        # Add the neighbour with the higher weight; on a tie, the following sentence.
        sides = [(weights[last], 1, last)] if last < len(sentences) else []
        sides += [(weights[first - 1], 0, first - 1)] if first else []
        fitting = [side for side in sides if _length(sentences, min(first, side[2]), max(last, side[2] + 1)) <= cut]
        if not fitting:
            break
        _, _, at = max(fitting)
        first, last = min(first, at), max(last, at + 1)
    before, after = "… " if first else "", " …" if last < len(sentences) else ""
    return f"{before}{' '.join(sentences[first:last])}{after}"


def _placed(one: PassageCandidate, lines: Sequence[Passage], longest: int) -> tuple[int | None, Passage, int]:
    """The index of the line this candidate joins (None for a new line), that line with it, and the added characters."""
    for at, line in enumerate(lines):
        if line.told[0].conversation != one.conversation:
            continue
        if min(abs(one.place - other.place) for other in line.told) <= MAX_GAP:
            joined = Passage(told=tuple(sorted([*line.told, one], key=lambda told: told.place)))
            if joined.size <= longest:
                return at, joined, joined.size - line.size
    alone = Passage(told=(one,))
    return None, alone, alone.size


def _is_said(one: PassageCandidate, lines: Sequence[Passage]) -> bool:
    return any(_repeats(one, other) for line in lines for other in line.told)


def _repeats(one: PassageCandidate, other: PassageCandidate) -> bool:
    shorter = min(len(one.words), len(other.words))
    return shorter > 2 and len(one.words & other.words) >= _DUPLICATE_SHARE * shorter


def _length(sentences: Sequence[str], first: int, last: int) -> int:
    return sum(len(one) + 1 for one in sentences[first:last]) + 4


def _best_part(sentences: Sequence[str], at: int, weigh: Callable[[str], float], cut: int) -> str:
    """The part of an overlong sentence that best matches the prompt, cut between words; cuts are marked."""
    room = cut - 4  # for the two cut marks
    pieces = _pieces(sentences[at], max(1, room // _PARTS))
    weights = [weigh(piece) for piece in pieces]
    best = (-1.0, 0, 1)
    last, size = 0, 0
    for first in range(len(pieces)):
        while last < len(pieces) and size + len(pieces[last]) + 1 <= room + 1:
            size += len(pieces[last]) + 1
            last += 1
        if last > first:
            weight = sum(weights[first:last])
            best = max(best, (weight, -first, last))
            size -= len(pieces[first]) + 1
    _, first, last = best
    part = " ".join(pieces[-first:last])
    before = "… " if at or first else ""
    after = "" if last == len(pieces) and at == len(sentences) - 1 else "…" if last < len(pieces) else " …"
    return f"{before}{part}{after}"


def _pieces(sentence: str, size: int) -> list[str]:
    """Split a sentence into pieces of whole words of about that size; longer words are split."""
    pieces, piece = list[str](), ""
    for word in sentence.split(" "):
        for part in [word[n : n + size] for n in range(0, len(word), size)]:
            if piece and len(piece) + 1 + len(part) > size:
                pieces.append(piece)
                piece = ""
            piece = f"{piece} {part}" if piece else part
    return [*pieces, piece] if piece else pieces
