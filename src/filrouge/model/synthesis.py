"""A synthesis: where a piece of work stood when its context was lost or its session ended (GARD-3, THR-10).

It is made of the user's and the agent's own sentences, each with the turn that holds it, so that forgetting a turn
takes it out of every synthesis.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Occasion = Literal["pre_compact", "post_compact", "session_end", "quiet"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """One sentence of a synthesis.

    Attributes:
        memory_id: the memory it became, or empty.
        trust: of the turn.
    """

    text: str
    turn_id: str
    trust: int
    memory_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Synthesis:
    """The state of the work in one thread, as of a moment in one session.

    Attributes:
        state: one to three sentences: what was being done, and how far it is.
        decisions, questions: those taken, and those still open; the latest first.
        files: paths touched, the latest first.
        error: the last failure that was not followed by success, or None.
        until: the place (`seq`) of the last turn it covers.
        made_by: `rules`, or `provider/model`.
    """

    id: str
    host: str
    session: str
    user: str
    project: str | None
    thread_id: str | None
    occasion: Occasion
    at: datetime
    until: int
    state: tuple[Point, ...] = ()
    decisions: tuple[Point, ...] = ()
    questions: tuple[Point, ...] = ()
    files: tuple[str, ...] = ()
    error: Point | None = None
    made_by: str = "rules"
    agent: str = ""
    channel: str = "unknown"
