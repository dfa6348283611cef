"""What the routes about threads, bridges, topics and the timeline answer."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from filrouge.capture.models import Role, SourceType
from filrouge.server.responses import Answer
from filrouge.threads.models import Action, BridgeBy, BridgeKind, Occasion, ThreadState, Timeframe, TitleBy


class ThreadAnswer(Answer):
    """A thread as it is listed."""

    id: str
    title: str
    title_by: TitleBy
    summary: str
    status: ThreadState
    weight: float = Field(ge=0)
    topics: list[str]
    messages: int = Field(ge=0)
    conversations: int = Field(ge=0)
    project: str | None
    project_name: str
    agent: str
    channel: str
    origin: SourceType
    opened_at: str
    last_active: str
    suspended_at: str | None
    parent: str | None
    merged_into: str | None


class NamedThread(Answer):
    """A thread's id and title."""

    id: str
    title: str


class DriftAnswer(Answer):
    """Where the talk left a thread's subject."""

    turn_id: str
    at: str
    similarity: float
    became: str
    title: str


class PointAnswer(Answer):
    """A sentence of where work stands, and the turn it was said in."""

    text: str
    turn_id: str


class StoodAnswer(Answer):
    """Where a thread's work stood."""

    at: str
    occasion: Occasion
    made_by: str
    state: list[PointAnswer]
    decisions: list[PointAnswer]
    questions: list[PointAnswer]
    files: list[str]
    error: PointAnswer | None


class TieAnswer(Answer):
    """A bridge as one of its threads sees it."""

    type: BridgeKind
    strength: float
    thread_id: str
    title: str
    outgoing: bool


class PlacedTurn(Answer):
    """A turn with what led it into its thread."""

    id: str
    at: str
    role: Role
    channel: str
    session_id: str
    text: str
    action: Action | Literal["follow"]
    similarity: float | None


class ThreadDetail(ThreadAnswer):
    """A thread with everything about it."""

    parent_title: str | None
    children: list[NamedThread]
    drift: list[DriftAnswer]
    state: StoodAnswer | None
    bridges: list[TieAnswer]
    turns_shown: list[PlacedTurn]


class WeighedAnswer(Answer):
    """A thread that a turn was weighed against."""

    thread_id: str
    state: ThreadState
    embedding: float | None
    topics: float
    exact: bool
    own: bool
    similarity: float
    title: str


class PlacingAnswer(Answer):
    """A decision about a turn."""

    at: str
    action: Action
    thread_id: str
    title: str
    parent: str | None
    similarity: float
    reason: str
    borderline: bool
    model: str | None
    actor: str
    weighed: list[WeighedAnswer]


class WhyThreadAnswer(Answer):
    """Where a turn is, and why."""

    turn_id: str
    text: str
    at: str
    thread_id: str | None
    title: str | None
    follows: bool
    decisions: list[PlacingAnswer]


class BridgeAnswer(Answer):
    """A bridge between two threads."""

    id: str
    source: str
    source_title: str
    target: str
    target_title: str
    type: BridgeKind
    confidence: float = Field(ge=0, le=1)
    strength: float = Field(ge=0)
    reason: str
    made_by: BridgeBy
    depth: int = Field(ge=0)
    project: str | None
    created_at: str
    reinforced_at: str


class GraphThread(Answer):
    """A thread in a graph."""

    id: str
    title: str
    state: ThreadState
    topics: list[str]
    project: str | None
    project_name: str
    last_active: str


class GraphAnswer(Answer):
    """Threads and the bridges between them."""

    project: str | None
    project_name: str
    threads: list[GraphThread]
    bridges: list[BridgeAnswer]


class TopicAnswer(Answer):
    """Something that was talked about."""

    id: str
    title: str
    summary: str
    first_date: str
    last_date: str
    conversations: int = Field(ge=0)
    thread_ids: list[str]
    vitality: float = Field(ge=0, le=1)
    channel: str
    project: str | None


class TopicsAnswer(Answer):
    """The topics of a time."""

    timeframe: Timeframe
    topics: list[TopicAnswer]
    nothing_known: bool


class TimelineAnswer(Answer):
    """Topics by how long ago they were last spoken of."""

    this_week: list[TopicAnswer]
    last_week: list[TopicAnswer]
    this_month: list[TopicAnswer]
    older: list[TopicAnswer]
    total: int = Field(ge=0)
    nothing_known: bool
    text: str
