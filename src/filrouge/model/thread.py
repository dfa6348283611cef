"""A thread: a topic that lives across sessions, and how each turn came to be in one.

Every captured prompt is held against all threads of its project and put where it belongs; what the agent says and does
follows the prompt. A `Routing` is that decision with everything that was weighed, so that it can be explained and
undone. Texts are not repeated in it: titles are looked up when it is shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from filrouge.model.turn import SourceType

ThreadState = Literal["active", "suspended", "archived"]
TitleBy = Literal["rules", "model", "user"]
Action = Literal["continue", "reactivate", "fork", "new", "join", "move"]
"""What becomes of a turn: it goes on in an active thread, wakes a suspended or archived one, leaves a thread that it
drifted from, or opens one. `join`: a young thread turns out to be another's continuation; `move`: by hand."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Drift:
    """A moment at which a thread's talk left its topic.

    Attributes:
        similarity: of the turn and the thread as it was, calibrated.
        became: the thread that was forked off.
    """

    turn_id: str
    at: datetime
    similarity: float
    became: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Thread:
    """One topic with its life.

    Attributes:
        title: a subject, never a placeholder; unique among the live threads of a project.
        title_by: what a user named stays.
        topics: cleaned, the weightiest first.
        origin: what opened it.
        parent: the thread it was forked or split from.
        merged_into: the thread that took it in; then it is archived and has no turns.
        weight: as of `last_active`, in [0, 1]; what it weighs now is `threads.lifecycle.weight_at`.
        suspended_at: set while it is suspended.
        turns, sessions: how many it has.
    """

    id: str
    user: str
    project: str | None
    title: str
    opened_at: datetime
    last_active: datetime
    agent: str = ""
    channel: str = "unknown"
    title_by: TitleBy = "rules"
    summary: str = ""
    topics: tuple[str, ...] = ()
    state: ThreadState = "active"
    origin: SourceType = "prompt"
    parent: str | None = None
    merged_into: str | None = None
    weight: float = 1.0
    suspended_at: datetime | None = None
    drifts: tuple[Drift, ...] = ()
    turns: int = 0
    sessions: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Weighed:
    """One thread that a turn was held against.

    Attributes:
        state: of the thread at that moment.
        embedding: how alike the exchanges are, in the mean over its prompts, in [-1, 1]; None where words
            alone counted.
        topics: the share of words, the same mean, in [0, 1].
        exact: a topic is the same.
        own: it is the thread that the session was in.
        similarity: the mean probability that the turn and a prompt of it are of one thread, in [0, 1].
    """

    thread_id: str
    state: ThreadState
    embedding: float | None
    topics: float
    exact: bool
    own: bool
    similarity: float

    def to_json(self) -> dict[str, Any]:
        """The form that is stored."""
        return {
            "thread_id": self.thread_id,
            "state": self.state,
            "embedding": None if self.embedding is None else round(self.embedding, 4),
            "topics": round(self.topics, 4),
            "exact": self.exact,
            "own": self.own,
            "similarity": round(self.similarity, 4),
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Routing:
    """Where a turn goes, and why.

    Attributes:
        thread_id: None where a thread is to be opened.
        parent: the thread that is left by a fork.
        similarity: of the thread that was chosen, or of the best that was not.
        weighed: those above .3 or the best few, best first.
        reason: one plain sentence without text of a turn.
        borderline: a model would be asked, where there is one.
        model: who was asked, `provider/model`, or empty.
    """

    action: Action
    thread_id: str | None
    similarity: float
    weighed: tuple[Weighed, ...]
    reason: str
    parent: str | None = None
    borderline: bool = False
    model: str = ""
