"""Threads, the bridges between them, where work stood, topics and the timeline, as values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from filrouge.capture.models import SourceType
from filrouge.core.clock import Language, short_moment

# A thread: a topic that lives across sessions, and how each turn came to be in one.
#
# Every captured prompt is held against all threads of its project and put where it belongs; what the agent says and
# does follows the prompt. A `Routing` is that decision with everything that was weighed, so that it can be explained
# and undone. Texts are not repeated in it: titles are looked up when it is shown.

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


# A bridge: a typed, directed tie between two threads, with the reason for it.
#
# There is one of a kind between two threads, whichever way it points. What no one comes back to fades in the days on
# which the project is worked on, and is gone below a least strength.

BridgeKind = Literal["extends", "depends_on", "contradicts", "supports", "refines", "relates_to", "child_of"]
BRIDGE_KINDS: tuple[BridgeKind, ...] = get_args(BridgeKind)
BridgeBy = Literal["rules", "gossip", "model", "user"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Bridge:
    """One tie.

    Attributes:
        confidence: how sure its signs made it when it was made or last confirmed, in [0.5, 1]; it orders bridges, and
            is no probability.
        depth: 0 where the two were compared themselves, more where it spread over neighbours.
        reinforced_at: when it was last confirmed; what it weighs now follows from that.
    """

    id: str
    source: str
    target: str
    kind: BridgeKind
    reason: str
    confidence: float
    made_by: BridgeBy
    created_at: datetime
    reinforced_at: datetime
    depth: int = 0


# A synthesis: where a piece of work stood when its context was lost or its session ended (GARD-3, THR-10).
#
# It is made of the user's and the agent's own sentences, each with the turn that holds it, so that forgetting a turn
# takes it out of every synthesis.

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


# A topic: something that was talked about, over one conversation or several, and when.
#
# Threads are topics, and so is what was talked about in conversations of before there were threads. Its moments are
# aware; which zone they are in is the choice of whoever shows them.

Timeframe = Literal["today", "week", "month", "all"]
Window = Literal["this_week", "last_week", "this_month", "older"]

#: Days before now at which a window ends; what is older than all of them is in the last window.
CUT_OFFS: tuple[tuple[Window, int], ...] = (("this_week", 7), ("last_week", 14), ("this_month", 30))


@dataclass(frozen=True, kw_only=True, slots=True)
class Topic:
    """One subject.

    Attributes:
        id: of its thread, or of the conversation that began it.
        title: a few words, in the user's own.
        summary: where it went since, or empty.
        first, last: when it was spoken of.
        conversations: sessions in which it was.
        threads: the ids of its threads; none where no prompt of it is in one.
        vitality: in [0, 1], 1 = spoken of just now.
        channel: the host of its last conversation.
    """

    id: str
    title: str
    summary: str = ""
    first: datetime
    last: datetime
    conversations: int = 1
    threads: tuple[str, ...] = ()
    vitality: float = 1.0
    channel: str = ""
    project: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeline:
    """Topics by how long ago they were last spoken of, in each window the latest first."""

    this_week: tuple[Topic, ...] = ()
    last_week: tuple[Topic, ...] = ()
    this_month: tuple[Topic, ...] = ()
    older: tuple[Topic, ...] = ()

    @property
    def windows(self) -> tuple[tuple[Window, tuple[Topic, ...]], ...]:
        """The four windows, latest first."""
        return (
            ("this_week", self.this_week),
            ("last_week", self.last_week),
            ("this_month", self.this_month),
            ("older", self.older),
        )

    @property
    def topics(self) -> tuple[Topic, ...]:
        """All of them, latest first."""
        return tuple(topic for _, window in self.windows for topic in window)


def timeline_of(topics: Sequence[Topic], now: datetime) -> Timeline:
    """Put topics into their windows, latest first; of two that ended together the one begun later is first."""
    windows: dict[Window, list[Topic]] = {"this_week": [], "last_week": [], "this_month": [], "older": []}
    for topic in sorted(topics, key=lambda topic: (topic.last, topic.first), reverse=True):
        age = now - topic.last
        within: Window | None = next((name for name, days in CUT_OFFS if age < timedelta(days=days)), None)
        windows[within or "older"].append(topic)
    return Timeline(**{name: tuple(found) for name, found in windows.items()})


# The timeline as text: one heading, a paragraph for each window that has topics, a total. English, French, Spanish.

_TITLE: dict[Language, str] = {
    "en": "### History of topics discussed",
    "fr": "### Historique des sujets abordés",
    "es": "### Historial de temas tratados",
}
_WINDOWS: dict[Language, dict[Window, str]] = {
    "en": {"this_week": "This week", "last_week": "Last week", "this_month": "This month", "older": "Older"},
    "fr": {
        "this_week": "Cette semaine",
        "last_week": "La semaine dernière",
        "this_month": "Ce mois-ci",
        "older": "Plus ancien",
    },
    "es": {
        "this_week": "Esta semana",
        "last_week": "La semana pasada",
        "this_month": "Este mes",
        "older": "Más antiguo",
    },
}
_TOPICS: dict[Language, tuple[str, str]] = {
    "en": ("topic", "topics"),
    "fr": ("sujet", "sujets"),
    "es": ("tema", "temas"),
}
_CONVERSATIONS: dict[Language, tuple[str, str]] = {
    "en": ("conversation", "conversations"),
    "fr": ("conversation", "conversations"),
    "es": ("conversación", "conversaciones"),
}
_NOTHING: dict[Language, str] = {
    "en": "Nothing is known of what was discussed {when}.",
    "fr": "Rien n’est connu de ce dont on a parlé {when}.",
    "es": "No se sabe nada de lo que se habló {when}.",
}


def format_timeline(timeline: Timeline, language: Language) -> str:
    """The whole timeline; its moments are shown in the zone they carry."""
    lines = [_TITLE[language]]
    for window, topics in timeline.windows:
        if topics:
            lines += ["", f"**{_WINDOWS[language][window]}:**"]
            for topic in topics:
                lines.append(f"- {topic.title} ({_dates(topic, language)}) - {conversations(topic, language)}")
                lines += [f"  └─ {topic.summary}"] if topic.summary else []
    total = len(timeline.topics)
    lines += ["", f"**Total:** {total} {_TOPICS[language][total > 1 or (total == 0 and language != 'fr')]}"]
    return "\n".join(lines)


def conversations(topic: Topic, language: Language) -> str:
    """`3 conversations`."""
    return f"{topic.conversations} {_CONVERSATIONS[language][topic.conversations > 1]}"


def nothing_known(when: str, language: Language) -> str:
    """That nothing is known, said outright, so that nobody makes something up.

    Args:
        when: the time that was asked about, in that language, or empty.
    """
    return _NOTHING[language].format(when=when).replace(" .", ".")


def _dates(topic: Topic, language: Language) -> str:
    first, last = (short_moment(at, language) for at in (topic.first, topic.last))
    return first if first == last else f"{first}, {last}"
