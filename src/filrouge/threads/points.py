"""Points: the sentences that a synthesis is made of, and when two of them say the same."""

from __future__ import annotations

from typing import Final

from filrouge.extraction.summaries import Said
from filrouge.extraction.vocabulary import PLAIN_WORDS, content
from filrouge.model.synthesis import Point
from filrouge.model.turn import Turn

LONGEST: Final = 240


def point_of(one: Said) -> Point:
    """A sentence as a point."""
    return point_in(one.text, one.turn)


def point_in(text: str, turn: Turn, memory_id: str = "") -> Point:
    """Words of a turn as a point, with the turn's trust."""
    return Point(text=clipped(text), turn_id=turn.id, trust=turn.trust, memory_id=memory_id)


def same(one: str, other: str) -> bool:
    """True where two texts have the same telling words."""
    first, second = telling(one), telling(other)
    return one == other or (bool(first) and first == second)


def telling(text: str) -> frozenset[str]:
    """The words of a text that say what it is about."""
    return frozenset(word for word in content(text) if word not in PLAIN_WORDS)


def clipped(text: str) -> str:
    """On one line, cut in front of a word."""
    line = " ".join(text.split()).lstrip("#*->• ")
    return line if len(line) <= LONGEST else line[:LONGEST].rpartition(" ")[0].rstrip(",;: ") + "…"
