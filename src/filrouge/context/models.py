"""A memory as a piece."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, get_args

from filrouge.memories.models import Memory

# A piece: one thing that may go in front of a model, as its source offers it.
#
# Every source (rules, memories, conversations, threads, ...) offers pieces, those included that it would not show,
# each with the reason; what fits and how it is written is decided for all of them together. So the log of a recall
# and `filrouge context --explain` are the same list.

Section = Literal[
    "rules", "reminders", "synthesis", "thread", "memories", "facts", "topics", "threads", "decisions", "questions",
    "constraints", "hints", "notes",
]  # fmt: skip
"""Where a piece stands. `SECTIONS` is their order in a block."""

SECTIONS: tuple[Section, ...] = get_args(Section)


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """One candidate.

    Attributes:
        id: of the memory, turn, thread, synthesis, note...; what `filrouge why` takes.
        kind: what it is: a memory's kind, `turn`, `thread`, `synthesis`, `reminder`, `topic`, `note`.
        text: what is said, before it is made harmless; one line is made of it.
        said: when; None for what has no date.
        source: the channel it came from; empty = unknown.
        verified: the user's own words, or better.
        value: the probability that it helps, in [0, 1]: what the budget is spent on.
        turns: the ids of the turns it shows or rests on, so that nothing is said twice.
        scores: its parts, for the log and for explaining.
        refused: why its source would not show it, empty where it would.
    """

    id: str
    kind: str
    section: Section
    text: str
    said: datetime | None = None
    source: str = ""
    verified: bool = True
    value: float = 0.5
    turns: tuple[str, ...] = ()
    scores: Mapping[str, Any] = field(default_factory=dict[str, Any])
    refused: str = ""


#: Trust from which on words are the user's own.
_THE_USERS = 2


def piece_of(
    memory: Memory, section: Section, *, value: float, scores: Mapping[str, Any] | None = None, refused: str = ""
) -> Piece:
    """A memory as it is shown: by the last time that it was said; a fact without a text as `key: value`."""
    return Piece(
        id=memory.id,
        kind=memory.kind,
        section=section,
        text=memory.text or f"{memory.key}: {memory.value}",
        said=memory.last_mention or memory.created_at,
        source=memory.scope.channel,
        verified=memory.trust >= _THE_USERS,
        value=value,
        turns=tuple(cited.turn_id for cited in memory.evidence),
        scores=scores or {},
        refused=refused,
    )
