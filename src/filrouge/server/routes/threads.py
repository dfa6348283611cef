"""HTTP routes for threads, bridges between threads, topics and the timeline.

Topics and the timeline are read-only. Threads can be renamed, archived, merged and split, and turns can be moved.
Bridges can be added and removed. The graph route returns threads with their bridges as JSON, DOT or SVG.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import Field

from filrouge.capture.models import Role, SourceType
from filrouge.core.clock import Language
from filrouge.core.errors import BadInput
from filrouge.core.protocols import Tx
from filrouge.core.scope import LOCAL_USER
from filrouge.projects.repository import project_id
from filrouge.search.filters import parse_moment
from filrouge.server.middleware import BridgeId, ThreadId, TurnId
from filrouge.server.queries import Cursor, PageLimit, page_of
from filrouge.server.responses import Answer, Body, in_thread, parts_of, read_in_tx, response_model
from filrouge.threads import bridge_service, reports, service
from filrouge.threads.bridges import graph_of, to_dot, to_svg
from filrouge.threads.models import Action, BridgeBy, BridgeKind, Occasion, ThreadState, Timeframe, TitleBy
from filrouge.threads.reports import (
    Status,
    get_conversation_timeline,
    language_of,
    list_discussed_topics,
    timeline_json,
    topics_json,
)

# Response models.


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
    """The id and the title of a thread."""

    id: str
    title: str


class DriftAnswer(Answer):
    """A drift: a place where the conversation left a thread's subject."""

    turn_id: str
    at: str
    similarity: float
    became: str
    title: str


class PointAnswer(Answer):
    """A sentence about the state of the work, and the turn it comes from."""

    text: str
    turn_id: str


class StoodAnswer(Answer):
    """The state of a thread's work."""

    at: str
    occasion: Occasion
    made_by: str
    state: list[PointAnswer]
    decisions: list[PointAnswer]
    questions: list[PointAnswer]
    files: list[str]
    error: PointAnswer | None


class TieAnswer(Answer):
    """A bridge from the point of view of one of its threads."""

    type: BridgeKind
    strength: float
    thread_id: str
    title: str
    outgoing: bool


class PlacedTurn(Answer):
    """A turn, and the action that placed it in its thread."""

    id: str
    at: str
    role: Role
    channel: str
    session_id: str
    text: str
    action: Action | Literal["follow"]
    similarity: float | None


class ThreadDetail(ThreadAnswer):
    """A thread with all its details."""

    parent_title: str | None
    children: list[NamedThread]
    drift: list[DriftAnswer]
    state: StoodAnswer | None
    bridges: list[TieAnswer]
    turns_shown: list[PlacedTurn]


class WeighedAnswer(Answer):
    """A thread that was considered for a turn, with its scores."""

    thread_id: str
    state: ThreadState
    embedding: float | None
    topics: float
    exact: bool
    own: bool
    similarity: float
    title: str


class PlacingAnswer(Answer):
    """A decision that placed a turn in a thread."""

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
    """The thread of a turn, and the decisions that placed it there."""

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
    """A topic of the conversations."""

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
    """The topics of a time frame."""

    timeframe: Timeframe
    topics: list[TopicAnswer]
    nothing_known: bool


class TimelineAnswer(Answer):
    """Topics grouped by how long ago they were last mentioned."""

    this_week: list[TopicAnswer]
    last_week: list[TopicAnswer]
    this_month: list[TopicAnswer]
    older: list[TopicAnswer]
    total: int = Field(ge=0)
    nothing_known: bool
    text: str


# Topics and timeline.

topics_router = APIRouter(tags=["topics"])
threads_router = APIRouter(tags=["threads"])
bridges_router = APIRouter(tags=["bridges"])
SaidTo = Annotated[str | None, Query(description="Only what was said to this agent: its id, or its channel.")]
Limit = Annotated[int, Query(ge=1, le=1000)]


@topics_router.get("/api/memory/topics", responses=response_model(TopicsAnswer))
async def topics_topics(
    request: Request,
    timeframe: Timeframe = "week",
    limit: Limit = 50,
    min_mention_count: Annotated[int, Query(ge=1)] = 1,
    agent_id: SaidTo = None,
    user_id: str = LOCAL_USER,
) -> dict[str, Any]:
    """List the topics of a time frame, latest first. `nothing_known` is true if there are none."""
    parts = parts_of(request)

    def find(tx: Tx) -> dict[str, Any]:
        found = list_discussed_topics(
            parts.clock, parts.analyser, tx, user_id, timeframe, limit, min_mention_count, agent_id
        )
        return topics_json(found, timeframe)

    return await read_in_tx(request, find)


@topics_router.get("/api/memory/timeline", responses=response_model(TimelineAnswer))
async def topics_timeline(
    request: Request,
    limit: Limit = 120,
    agent_id: SaidTo = None,
    user_id: str = LOCAL_USER,
    language: Language | None = None,
) -> dict[str, Any]:
    """List the latest topics, grouped by how long ago they were last mentioned. `text` is written in `language`."""
    parts = parts_of(request)

    def find(tx: Tx) -> dict[str, Any]:
        found = get_conversation_timeline(parts.clock, parts.analyser, tx, user_id, limit, agent_id)
        return timeline_json(found, language or language_of(parts, tx))

    return await read_in_tx(request, find)


# Threads: list, read, correct, and explain why a turn is in its thread.

#: The limit for a query of a project's threads when a cursor is given.
_NO_LIMIT = 1_000_000

ThreadProject = Annotated[
    list[str] | None, Query(description="A project: its id, alias or short name, or several aliases.")
]
OpenedBy = Annotated[str | None, Query(description="Only threads that this agent opened: its id, or its channel.")]
Turns = Annotated[list[TurnId], Field(min_length=1, max_length=1000)]


class ThreadBody(Body):
    """The change to a thread: a new title, or archive or reopen it."""

    title: str | None = None
    status: Literal["active", "archived"] | None = None


class ThreadMergeBody(Body):
    """The thread that another one is merged into."""

    into: ThreadId


class SplitBody(Body):
    """Turns to split off into a new thread; the turns that followed them move too."""

    turns: Turns
    title: str = ""


class MoveBody(Body):
    """Turns to move into a thread; the turns that followed them move too."""

    turns: Turns


@threads_router.get("/api/memory/threads", responses=response_model(list[ThreadAnswer]))
async def threads_list_threads(
    request: Request,
    response: Response,
    status: Status = "all",
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
    project: ThreadProject = None,
    agent: OpenedBy = None,
    as_of: Annotated[
        str | None, Query(description="The threads as they were at this time, or at the end of this day.")
    ] = None,
    cursor: Cursor = None,
) -> list[dict[str, Any]]:
    """List the threads, most recently active first. All projects unless one is named. With `as_of`, as they were
    at that time."""
    parts, then = parts_of(request), parse_moment("as_of", as_of, end=True)
    max_rows = _NO_LIMIT if cursor else limit + 1
    found = await read_in_tx(
        request,
        lambda tx: reports.list_threads(
            parts, tx, project or [], status=status, limit=max_rows, agent=agent, as_of=then
        ),
    )
    return page_of(request, response, found, limit=limit, cursor=cursor, by="last_active")


@threads_router.get("/api/memory/threads/{thread_id}", responses=response_model(ThreadDetail))
async def threads_one_thread(thread_id: ThreadId, request: Request) -> dict[str, Any]:
    """Return one thread with the state of its work, its bridges, newest turns and drifts. An id may be shortened."""
    parts = parts_of(request)
    return await read_in_tx(request, lambda tx: reports.get_thread_detail(parts, tx, thread_id))


@threads_router.patch("/api/memory/threads/{thread_id}", responses=response_model(ThreadDetail))
async def threads_change_thread(thread_id: ThreadId, body: ThreadBody, request: Request) -> dict[str, Any]:
    """Rename, archive or reopen a thread."""
    parts = parts_of(request)
    if (body.title is None) == (body.status is None):
        raise BadInput("A change is either a title or a status.", remedy="Send one of the two.")
    if body.title is not None:
        title = body.title
        return await in_thread(lambda: service.rename(parts, thread_id, title))
    change_status = service.archive if body.status == "archived" else service.reopen
    return await in_thread(lambda: change_status(parts, thread_id))


@threads_router.post("/api/memory/threads/{thread_id}/merge", responses=response_model(ThreadDetail))
async def threads_merge_thread(thread_id: ThreadId, body: ThreadMergeBody, request: Request) -> dict[str, Any]:
    """Move all turns of a thread into another, and return the other."""
    parts = parts_of(request)
    return await in_thread(lambda: service.merge(parts, thread_id, body.into))


@threads_router.post("/api/memory/threads/{thread_id}/split", responses=response_model(ThreadDetail))
async def threads_split_thread(thread_id: ThreadId, body: SplitBody, request: Request) -> dict[str, Any]:
    """Move turns of a thread into a new one, and return the new one."""
    parts = parts_of(request)
    return await in_thread(lambda: service.split(parts, thread_id, body.turns, body.title))


@threads_router.post("/api/memory/threads/{thread_id}/move", responses=response_model(ThreadDetail))
async def threads_move_turns(thread_id: ThreadId, body: MoveBody, request: Request) -> dict[str, Any]:
    """Move turns of other threads into this one, and return it."""
    parts = parts_of(request)
    return await in_thread(lambda: service.move(parts, body.turns, thread_id))


@threads_router.get("/api/memory/turns/{turn_id}/thread", responses=response_model(WhyThreadAnswer))
async def threads_why_thread(turn_id: TurnId, request: Request) -> dict[str, Any]:
    """Return the thread of a turn, and every decision about it with the threads that were considered."""
    parts = parts_of(request)
    return await read_in_tx(request, lambda tx: reports.explain_placement(parts, tx, turn_id))


BridgeProject = Annotated[list[str] | None, Query(description="Names of the project; none = all.")]
_MEDIA_TYPES = {"dot": "text/vnd.graphviz", "svg": "image/svg+xml"}
#: An SVG may contain titles from untrusted text; this header forbids scripts and requests wherever it is opened.
_SVG_HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}


class BridgeBody(Body):
    """Two threads to connect: their ids, the kind of bridge, and an optional reason."""

    source: ThreadId
    target: ThreadId
    type: str = "relates_to"
    reason: str = Field("", max_length=200)


@bridges_router.get("/api/memory/bridges", responses=response_model(list[BridgeAnswer]))
async def bridges_bridges(
    request: Request,
    response: Response,
    thread: Annotated[ThreadId | None, Query(description="Only bridges of this thread: its id.")] = None,
    kind: Annotated[
        str | None, Query(alias="type", description="Only bridges of this kind: extends, depends_on, ...")
    ] = None,
    project: BridgeProject = None,
    limit: PageLimit = None,
    cursor: Cursor = None,
) -> list[dict[str, Any]]:
    """List the live bridges, strongest first."""
    parts = parts_of(request)

    def find(tx: Tx) -> list[dict[str, Any]]:
        id_ = project_id(tx, project or [])
        return bridge_service.list_bridges(parts, tx, project=id_, everywhere=not project, thread_id=thread, kind=kind)

    return page_of(request, response, await read_in_tx(request, find), limit=limit, cursor=cursor, by="strength")


@bridges_router.post("/api/memory/bridges", status_code=201, responses=response_model(BridgeAnswer, status=201))
async def bridges_add(body: BridgeBody, request: Request) -> dict[str, Any]:
    """Connect two threads and return the bridge."""
    parts = parts_of(request)
    return await in_thread(
        lambda: bridge_service.add_bridge(
            parts, source=body.source, target=body.target, kind=body.type, reason=body.reason
        )
    )


@bridges_router.delete("/api/memory/bridges/{bridge_id}", responses=response_model(BridgeAnswer))
async def bridges_remove(bridge_id: BridgeId, request: Request) -> dict[str, Any]:
    """Remove a bridge permanently, and return it as it was."""
    parts = parts_of(request)
    return await in_thread(lambda: bridge_service.remove_bridge(parts.clock, parts.writer, bridge_id))


@bridges_router.get(
    "/api/memory/graph",
    responses={
        200: {
            "model": GraphAnswer,
            "content": {name: {"schema": {"type": "string"}} for name in _MEDIA_TYPES.values()},
        }
    },
)
async def bridges_graph(
    request: Request,
    form: Annotated[Literal["json", "dot", "svg"], Query(alias="format")] = "json",
    project: BridgeProject = None,
    thread: Annotated[
        ThreadId | None, Query(description="Only this thread and the threads that a bridge connects with it: its id.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="Number of threads; the most recently active ones.")] = 100,
) -> Response:
    """Return threads and bridges as JSON, as Graphviz DOT or as an SVG image."""
    parts = parts_of(request)

    def read(tx: Tx) -> dict[str, Any]:
        id_ = project_id(tx, project or [])
        return bridge_service.get_graph(parts, tx, project=id_, everywhere=not project, limit=limit, thread_id=thread)

    found = await read_in_tx(request, read)
    if form == "json":
        return JSONResponse(found)
    text = await in_thread(lambda: (to_dot if form == "dot" else to_svg)(graph_of(found)))
    return Response(text, media_type=_MEDIA_TYPES[form], headers=_SVG_HEADERS)


ROUTERS = (topics_router, threads_router, bridges_router)
