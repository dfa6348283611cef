"""Threads over HTTP: list them, look into one, put right what is in which, and ask why a turn is where it is."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from filrouge.core.errors import BadInput
from filrouge.server.access import elsewhere, parts_of, reading
from filrouge.server.paging import Cursor, paged
from filrouge.server.responses import Body, answers
from filrouge.server.routes.filtering import moment_of
from filrouge.server.routes.threads_answers import ThreadAnswer, ThreadDetail, WhyThreadAnswer
from filrouge.server.validation import ThreadId, TurnId
from filrouge.threads import reports, service
from filrouge.threads.reports import Status

#: Threads of a place, behind a cursor.
_ALL = 1_000_000

router = APIRouter(tags=["threads"])
Names = Annotated[list[str] | None, Query(description="A project: its id, alias or short name, or several aliases.")]
Agent = Annotated[str | None, Query(description="Only those that this agent opened: its id, or its channel.")]
Turns = Annotated[list[TurnId], Field(min_length=1, max_length=1000)]


class ThreadBody(Body):
    """What to change of a thread: its title, or whether it is put away."""

    title: str | None = None
    status: Literal["active", "archived"] | None = None


class MergeBody(Body):
    """The thread that takes another in."""

    into: ThreadId


class SplitBody(Body):
    """Turns that become a thread of their own; what followed them goes along."""

    turns: Turns
    title: str = ""


class MoveBody(Body):
    """Turns that belong into a thread; what followed them goes along."""

    turns: Turns


@router.get("/api/memory/threads", responses=answers(list[ThreadAnswer]))
async def list_threads(
    request: Request,
    response: Response,
    status: Status = "all",
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
    project: Names = None,
    agent: Agent = None,
    as_of: Annotated[str | None, Query(description="As they were then; a day counts whole.")] = None,
    cursor: Cursor = None,
) -> list[dict[str, Any]]:
    """The threads, the latest first; all projects unless one is named; with `as_of` as they were then."""
    parts, then = parts_of(request), moment_of("as_of", as_of, end=True)
    narrowed: dict[str, Any] = {"status": status, "limit": _ALL if cursor else limit + 1, "agent": agent, "as_of": then}
    found = await reading(request, lambda tx: reports.listing(parts, tx, project or [], **narrowed))
    return paged(request, response, found, limit=limit, cursor=cursor, by="last_active")


@router.get("/api/memory/threads/{thread_id}", responses=answers(ThreadDetail))
async def one_thread(thread_id: ThreadId, request: Request) -> dict[str, Any]:
    """One thread with where its work stood, its ties, newest turns and drifts; the beginning of an id is enough."""
    parts = parts_of(request)
    return await reading(request, lambda tx: reports.detail(parts, tx, thread_id))


@router.patch("/api/memory/threads/{thread_id}", responses=answers(ThreadDetail))
async def change_thread(thread_id: ThreadId, body: ThreadBody, request: Request) -> dict[str, Any]:
    """Rename a thread, or archive or reopen it."""
    parts = parts_of(request)
    if (body.title is None) == (body.status is None):
        raise BadInput("A change is either a title or a status.", remedy="Send one of the two.")
    if body.title is not None:
        title = body.title
        return await elsewhere(lambda: service.rename(parts, thread_id, title))
    act = service.archive if body.status == "archived" else service.reopen
    return await elsewhere(lambda: act(parts, thread_id))


@router.post("/api/memory/threads/{thread_id}/merge", responses=answers(ThreadDetail))
async def merge_thread(thread_id: ThreadId, body: MergeBody, request: Request) -> dict[str, Any]:
    """Put all turns of a thread into another; answers the other."""
    parts = parts_of(request)
    return await elsewhere(lambda: service.merge(parts, thread_id, body.into))


@router.post("/api/memory/threads/{thread_id}/split", responses=answers(ThreadDetail))
async def split_thread(thread_id: ThreadId, body: SplitBody, request: Request) -> dict[str, Any]:
    """Put turns of a thread into a new one; answers the new one."""
    parts = parts_of(request)
    return await elsewhere(lambda: service.split(parts, thread_id, body.turns, body.title))


@router.post("/api/memory/threads/{thread_id}/move", responses=answers(ThreadDetail))
async def move_turns(thread_id: ThreadId, body: MoveBody, request: Request) -> dict[str, Any]:
    """Put turns of other threads into this one; answers it."""
    parts = parts_of(request)
    return await elsewhere(lambda: service.move(parts, body.turns, thread_id))


@router.get("/api/memory/turns/{turn_id}/thread", responses=answers(WhyThreadAnswer))
async def why_thread(turn_id: TurnId, request: Request) -> dict[str, Any]:
    """The thread that a turn is in, and every decision about it with what was weighed."""
    parts = parts_of(request)
    return await reading(request, lambda tx: reports.why(parts, tx, turn_id))
