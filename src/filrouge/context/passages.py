"""Passages: from ranked turns and memories to the few lines that hold most of what was asked.

A line shows one memory, or neighbouring turns of one conversation. What is wanted is the most probable evidence in
the fewest characters, so candidates are taken by their chance for each character; a turn beside one that is already
in joins its line, which costs less than a line of its own. Long turns are cut at the ends of sentences to what bears
on the question, and what repeats something already taken is left out.

Pure: no database, no file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final

from filrouge.core import text as re

#: Turns of one conversation at most so far apart share a line; what lies between is marked.
NEAR: Final = 3
#: What a line costs besides its own characters: its mark of time and source, and that it is one of four.
_A_LINE_COSTS: Final = 100
#: Longer turns are cut, to so many characters at the most.
WHOLE: Final = 400
CUT: Final = 300
#: Pieces that the excerpt of a very long sentence is made of.
_PARTS: Final = 6
#: Of the words of the shorter text, the share that makes two of them the same told twice.
_SAME: Final = 0.85
#: Turns stand on lines of their own until the whole is written as one, with three characters between them.
_TOGETHER: Final = "\n"
_APART: Final = "\n…\n"
_BETWEEN: Final = 3
_SENTENCE: Final = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+(?=\S)|\s*\n\s*")
_SPACES: Final = re.compile(r"\s+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """One candidate: a memory, or a turn.

    Attributes:
        conversation: turns of one value may share a line; a memory's own id, since it stands alone.
        place: of a turn, counted within its conversation.
        text: as it would be shown, one line.
        answers: of a reply, the id of what it answers and how that is shown before it; not where that is shown anyway.
        chance: that it holds what was asked.
        opens: it is worth a line of its own; else it only joins one.
        words: what it says, for telling repetitions.
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
    """One line: what it shows, in the order it was said."""

    told: tuple[Told, ...]

    @property
    def text(self) -> str:
        """The turns with a mark between them where some are left out."""
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
        """Characters of the text as one line."""
        return len(self.text) + (_BETWEEN - 1) * self.text.count("\n")

    @property
    def value(self) -> float:
        """The chance that any of it holds what was asked."""
        return 1.0 - math.prod(1.0 - one.chance for one in self.told)


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """The lines, best first, and for each candidate that is in none of them the reason, by its id."""

    passages: tuple[Passage, ...]
    refused: dict[str, str]


def chosen(candidates: Sequence[Told], *, room: int, most: int, longest: int, mark: int) -> Choice:
    """The passages to show.

    Args:
        room: characters of all lines together, their marks included.
        most: lines at the most.
        longest: characters of one line's text at the most.
        mark: characters that a line has besides its text.
    """
    lines: list[Passage] = []
    refused: dict[str, str] = {}
    left = {one.id: one for one in candidates}
    while left:
        for id_ in [id_ for id_, one in left.items() if _is_said(one, lines)]:
            refused[id_] = "it repeats what is shown"
            del left[id_]
        used = sum(line.size + mark for line in lines)
        best: tuple[float, str, int | None, Passage] | None = None
        for id_, one in left.items():
            at, line, costs = _placed(one, lines, longest)
            if at is None and (len(lines) >= most or not one.opens):
                continue
            if line.size > longest or used + costs + (mark if at is None else 0) > room:
                continue
            # What fills a gap may cost nothing: the mark of the gap goes.
            worth = one.chance / max(1, costs + (_A_LINE_COSTS if at is None else 0))
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
    return Choice(passages=tuple(sorted(lines, key=lambda line: -line.value)), refused=refused)


def excerpt(text: str, weigh: Callable[[str], float], *, whole: int = WHOLE, cut: int = CUT) -> str:
    """One line of a turn: all of it up to `whole` characters, else the sentences that bear most on the question.

    Args:
        weigh: how much a sentence has of what was asked.
        cut: at most so many characters of a turn that is longer than `whole`.
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
        # The heavier neighbour first; of two that say nothing, the one that goes on.
        sides = [(weights[last], 1, last)] if last < len(sentences) else []
        sides += [(weights[first - 1], 0, first - 1)] if first else []
        fitting = [side for side in sides if _length(sentences, min(first, side[2]), max(last, side[2] + 1)) <= cut]
        if not fitting:
            break
        _, _, at = max(fitting)
        first, last = min(first, at), max(last, at + 1)
    before, after = "… " if first else "", " …" if last < len(sentences) else ""
    return f"{before}{' '.join(sentences[first:last])}{after}"


def _placed(one: Told, lines: Sequence[Passage], longest: int) -> tuple[int | None, Passage, int]:
    """The line that this one joins, as it is then, and the characters that it costs; None for a line of its own."""
    for at, line in enumerate(lines):
        if line.told[0].conversation != one.conversation:
            continue
        if min(abs(one.place - other.place) for other in line.told) <= NEAR:
            joined = Passage(told=tuple(sorted([*line.told, one], key=lambda told: told.place)))
            if joined.size <= longest:
                return at, joined, joined.size - line.size
    alone = Passage(told=(one,))
    return None, alone, alone.size


def _is_said(one: Told, lines: Sequence[Passage]) -> bool:
    return any(_repeats(one, other) for line in lines for other in line.told)


def _repeats(one: Told, other: Told) -> bool:
    shorter = min(len(one.words), len(other.words))
    return shorter > 2 and len(one.words & other.words) >= _SAME * shorter


def _length(sentences: Sequence[str], first: int, last: int) -> int:
    return sum(len(one) + 1 for one in sentences[first:last]) + 4


def _best_part(sentences: Sequence[str], at: int, weigh: Callable[[str], float], cut: int) -> str:
    """Of a sentence that is too long, the words that bear most on the question; cut between words, the cuts shown."""
    room = cut - 4  # both marks
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
    """A sentence in pieces of whole words of about that size; a word that is longer is cut."""
    pieces, piece = list[str](), ""
    for word in sentence.split(" "):
        for part in [word[n : n + size] for n in range(0, len(word), size)]:
            if piece and len(piece) + 1 + len(part) > size:
                pieces.append(piece)
                piece = ""
            piece = f"{piece} {part}" if piece else part
    return [*pieces, piece] if piece else pieces
