"""Candidates: what sources offer for a block.

Every source (rules, memories, conversations, threads, ...) offers candidates, including those it would not show, each
with the reason. Selection and rendering treat all of them alike, so the recall log and `filrouge context --explain`
show the same list.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, get_args

from msgspec import Struct, field

from filrouge.search.models import Refusal

Section = Literal[
    "rules", "reminders", "synthesis", "thread", "memories", "facts", "topics", "threads", "decisions", "questions",
    "constraints", "hints", "notes",
]  # fmt: skip
"""The section of a candidate. `SECTIONS` is their order in a block."""

SECTIONS: tuple[Section, ...] = get_args(Section)


class Candidate(Struct, frozen=True, kw_only=True):
    """Something that may go into a block.

    Attributes:
        id: of the memory, turn, thread, synthesis, note...; accepted by `filrouge why`.
        kind: a memory's kind, `turn`, `thread`, `synthesis`, `reminder`, `topic` or `note`.
        text: the content, before it is neutralised and put on one line.
        said: when it was said; None if it has no date.
        source: the channel that it came from; empty = unknown.
        verified: it is in the user's own words, or more trusted.
        value: the probability that it helps, in [0, 1]; the budget maximises the sum.
        turns: the ids of the turns it shows or is based on, used to avoid duplicates.
        scores: the parts of the value, for the log and for explanations.
        refused: why its source would not show it; empty if it would.
    """

    id: str
    kind: str
    section: Section
    text: str
    source: str = ""
    said: datetime | None = None
    verified: bool = True
    value: float = 0.5
    turns: tuple[str, ...] = ()
    scores: Mapping[str, Any] = field(default_factory=dict[str, Any])
    refused: Refusal = ""


#: Minimum trust of the user's own words.
USER_TRUST = 2
