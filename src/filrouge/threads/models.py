"""Value types for threads, bridges, syntheses, topics and the timeline.

- `Thread`, `Routing`, `ThreadCandidate`, `Drift`: a topic that lives across sessions, and the decision that placed a
  turn in it.
- `Bridge`: a typed link between two threads.
- `Synthesis`, `Point`: where the work in a thread stood.
- `Topic`, `Timeline`: what was discussed and when, and its text form (`format_timeline`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from msgspec import Struct

from filrouge.capture.models import SourceType
from filrouge.core.clock import Language, format_day_and_time

# Threads.

ThreadState = Literal["active", "suspended", "archived"]
TitleBy = Literal["rules", "model", "user"]
Action = Literal["continue", "reactivate", "fork", "new", "join", "move"]
"""What happens to a turn: it continues an active thread, reactivates a suspended or archived one, forks from the thread
that it drifted from, or opens a new one. `join`: regrouping moves it into a thread; `move`: the user does."""


class Drift(Struct, frozen=True, kw_only=True):
    """A moment at which a thread left its topic.

    Attributes:
        similarity: mean probability that the turn and a prompt of the thread belong to one thread, in [0, 1]; that of
            the nearest thread if this thread is not among the logged candidates.
        became: the thread that was forked off.
    """

    turn_id: str
    at: datetime
    similarity: float
    became: str


class Thread(Struct, frozen=True, kw_only=True):
    """One topic with its state and history.

    Attributes:
        title: a subject, never a placeholder; unique among the threads of a project that are not archived.
        title_by: who set the title; a title set by the user is not changed.
        agent, channel: the agent and the host of the turn that opened it.
        opened_at, last_active: times of its first and latest turn, or of a later manual change.
        topics: cleaned, highest weight first.
        origin: source of the turn that opened it.
        parent: the thread that it was forked or split from.
        merged_into: the thread that it was merged into; it is then archived and has no turns.
        weight: weight at `last_active`, in [0, 1]; `threads.upkeep.weight_at` returns the current weight.
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


class ThreadCandidate(Struct, frozen=True, kw_only=True):
    """One candidate thread that a turn was compared with.

    Attributes:
        state: state of the thread at that moment.
        embedding: mean cosine of the turn and each prompt of the thread, each read together with its reply, in [-1, 1];
            None if only words were used.
        topics: mean similarity of the words of the turn and of each prompt of the thread, weighted by rarity, in
            [0, 1]; no topics are compared.
        exact: True if turn and thread have a topic in common.
        own: True if it is the current thread of the session.
        similarity: mean probability that the turn and a prompt of the thread belong to one thread, in [0, 1]. This
            alone decides.
    """

    thread_id: str
    state: ThreadState
    embedding: float | None
    topics: float
    exact: bool
    own: bool
    similarity: float

    def to_json(self) -> dict[str, Any]:
        """Return the stored form."""
        return {
            "thread_id": self.thread_id,
            "state": self.state,
            "embedding": None if self.embedding is None else round(self.embedding, 4),
            "topics": round(self.topics, 4),
            "exact": self.exact,
            "own": self.own,
            "similarity": round(self.similarity, 4),
        }


class Routing(Struct, frozen=True, kw_only=True):
    """Where a turn goes, and why.

    Each captured prompt is compared with the threads of its project and placed; the agent's replies and tool calls
    follow the prompt. The decision is recorded with all candidates, so that it can be explained and undone. It stores
    no text: titles are looked up when it is shown.

    Attributes:
        thread_id: None if a thread is to be opened.
        parent: the thread that a fork leaves.
        similarity: in [0, 1]. By the rules, the `similarity` of the best candidate, which is a probability. By
            regrouping, the mean probability that the prompts belong together. After a model's yes, the mean of the
            probability and the model's confidence. 0 for a move by the user.
        candidates: the candidates above .3, and in any case the best three; best first.
        reason: one plain sentence that quotes no turn.
        borderline: the rules are unsure, so a model is asked if there is one.
        model: the model that was asked, `provider/model`, or empty.
    """

    action: Action
    thread_id: str | None
    similarity: float
    candidates: tuple[ThreadCandidate, ...]
    reason: str
    parent: str | None = None
    borderline: bool = False
    model: str = ""


# Bridges.

BridgeKind = Literal["extends", "depends_on", "contradicts", "supports", "refines", "relates_to", "child_of"]
BRIDGE_KINDS: tuple[BridgeKind, ...] = get_args(BridgeKind)
BridgeBy = Literal["rules", "gossip", "model", "user"]


class Bridge(Struct, frozen=True, kw_only=True):
    """A typed, directed link between two threads.

    Between two threads there is at most one bridge of each kind, in either direction. A bridge that is not confirmed
    again decays with the days on which the project is active, and is deleted below a minimum strength.

    Attributes:
        confidence: how strong the evidence was when it was made or last confirmed, in [0.5, 1]. It ranks bridges and is
            not a probability.
        depth: 0 if the two threads were compared directly, more if it was propagated over neighbours.
        reinforced_at: when it was last confirmed; its current strength depends on this.
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


# Syntheses.

Occasion = Literal["pre_compact", "post_compact", "session_end", "quiet"]


class Point(Struct, frozen=True, kw_only=True):
    """One sentence of a synthesis.

    Attributes:
        text: the words of the turn on one line, cut to `MAX_POINT_CHARS`.
        turn_id: the turn that contains it.
        trust: trust of the turn.
        memory_id: the memory that was made from it, or empty.
    """

    text: str
    turn_id: str
    trust: int
    memory_id: str = ""


class Synthesis(Struct, frozen=True, kw_only=True):
    """The state of the work in one thread, at a moment in one session.

    It is made when the context of a session is lost or the session ends. It consists of the user's and
    the agent's own sentences, each with its turn, so forgetting a turn removes it from every synthesis.

    Attributes:
        host, session: the session it covers.
        thread_id: None while its turns are in no thread.
        occasion: why it was made.
        at: time of the last turn it covers.
        state: up to four sentences: the work requested, what was done of it, and what comes next.
        decisions, questions: decisions taken, and questions still open; newest first.
        files: paths written to, newest first.
        error: the last failure that was not followed by a success, or None.
        until: sequence number (`seq`) of the last turn it covers.
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


# Topics and the timeline.

Timeframe = Literal["today", "week", "month", "all"]
Window = Literal["this_week", "last_week", "this_month", "older"]

#: Windows and their age limits in days; anything older is in the last window.
WINDOW_LIMITS: tuple[tuple[Window, int], ...] = (("this_week", 7), ("last_week", 14), ("this_month", 30))


class Topic(Struct, frozen=True, kw_only=True):
    """One subject.

    Every thread is a topic; so are conversations from before threads existed. Times are timezone-aware; the caller
    chooses the zone.

    Attributes:
        id: id of its thread, or of its first conversation.
        title: a few words of the user.
        summary: how the subject developed, or empty.
        first, last: when it was first and last discussed.
        conversations: number of sessions in which it was discussed.
        threads: ids of its threads; empty if none of its prompts is in a thread.
        vitality: in [0, 1]; 1 = discussed just now.
        channel: host of its last conversation.
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


class Timeline(Struct, frozen=True, kw_only=True):
    """Topics by how long ago they were last discussed; each window has the latest first."""

    this_week: tuple[Topic, ...] = ()
    last_week: tuple[Topic, ...] = ()
    this_month: tuple[Topic, ...] = ()
    older: tuple[Topic, ...] = ()

    @property
    def windows(self) -> tuple[tuple[Window, tuple[Topic, ...]], ...]:
        """Return the four windows, latest first."""
        return (
            ("this_week", self.this_week),
            ("last_week", self.last_week),
            ("this_month", self.this_month),
            ("older", self.older),
        )

    @property
    def topics(self) -> tuple[Topic, ...]:
        """Return all topics, latest first."""
        return tuple(topic for _, window in self.windows for topic in window)


def build_timeline(topics: Sequence[Topic], now: datetime) -> Timeline:
    """Sort topics into windows, latest first; on a tie, the topic that began later comes first."""
    windows: dict[Window, list[Topic]] = {"this_week": [], "last_week": [], "this_month": [], "older": []}
    for topic in sorted(topics, key=lambda topic: (topic.last, topic.first), reverse=True):
        age = now - topic.last
        within: Window | None = next((name for name, days in WINDOW_LIMITS if age < timedelta(days=days)), None)
        windows[within or "older"].append(topic)
    return Timeline(**{name: tuple(found) for name, found in windows.items()})


# The timeline as text: a heading, a paragraph per non-empty window, and a total. English, French, Spanish.

_TIMELINE_TITLE: dict[Language, str] = {
    "en": "### History of topics discussed",
    "fr": "### Historique des sujets abordés",
    "es": "### Historial de temas tratados",
}
_WINDOW_NAMES: dict[Language, dict[Window, str]] = {
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
_TOPIC_WORDS: dict[Language, tuple[str, str]] = {
    "en": ("topic", "topics"),
    "fr": ("sujet", "sujets"),
    "es": ("tema", "temas"),
}
_CONVERSATION_WORDS: dict[Language, tuple[str, str]] = {
    "en": ("conversation", "conversations"),
    "fr": ("conversation", "conversations"),
    "es": ("conversación", "conversaciones"),
}
_NOTHING_KNOWN: dict[Language, str] = {
    "en": "Nothing is known of what was discussed {when}.",
    "fr": "Rien n’est connu de ce dont on a parlé {when}.",
    "es": "No se sabe nada de lo que se habló {when}.",
}


def format_timeline(timeline: Timeline, language: Language) -> str:
    """Return the timeline as text; times are shown in the zone they carry."""
    lines = [_TIMELINE_TITLE[language]]
    for window, topics in timeline.windows:
        if topics:
            lines += ["", f"**{_WINDOW_NAMES[language][window]}:**"]
            for topic in topics:
                lines.append(
                    f"- {topic.title} ({_render_dates(topic, language)}) - {render_conversations(topic, language)}"
                )
                lines += [f"  └─ {topic.summary}"] if topic.summary else []
    total = len(timeline.topics)
    lines += ["", f"**Total:** {total} {_TOPIC_WORDS[language][total > 1 or (total == 0 and language != 'fr')]}"]
    return "\n".join(lines)


def render_conversations(topic: Topic, language: Language) -> str:
    """Return the number of conversations in words, e.g. `3 conversations`."""
    return f"{topic.conversations} {_CONVERSATION_WORDS[language][topic.conversations > 1]}"


def render_nothing_known(when: str, language: Language) -> str:
    """Return an explicit statement that nothing is known, so that a model does not invent an answer.

    Args:
        when: the period in question, in that language, or empty.
    """
    return _NOTHING_KNOWN[language].format(when=when).replace(" .", ".")


def _render_dates(topic: Topic, language: Language) -> str:
    first, last = (format_day_and_time(moment, language) for moment in (topic.first, topic.last))
    return first if first == last else f"{first}, {last}"
