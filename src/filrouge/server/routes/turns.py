"""HTTP routes for turns: programs with their own agent loop record and read messages (API-9); one turn in its place;
captured events and their outcome.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from filrouge.capture.events import EventKind
from filrouge.capture.models import Role, SourceType, Turn
from filrouge.capture.programs import Conversation, Message, deliver
from filrouge.capture.repository import Events, Outcome
from filrouge.core.clock import to_text
from filrouge.core.errors import BadInput
from filrouge.core.protocols import Tx
from filrouge.memories.models import Kind, State
from filrouge.memories.reports import memory_json
from filrouge.projects.repository import names_of
from filrouge.search.filters import parse_moment
from filrouge.search.repository import turns_with_neighbours
from filrouge.server.middleware import TurnId
from filrouge.server.queries import Cursor, link_next, number_in
from filrouge.server.responses import Answer, await_future, in_thread, parts_of, read_in_tx, response_model
from filrouge.server.routes.memories import MemoryAnswer
from filrouge.threads.reports import turn_of
from filrouge.threads.repository import Threads

router = APIRouter(tags=["turns"])
_MAX_NAME_CHARS = 200
#: A number above that of every event.
_BEFORE_ALL = 2**62
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class MessageBody(BaseModel):
    """One message of a conversation."""

    role: Role
    content: str = Field("", description="The text; a very long text is cut, with a mark that says so.")
    tool_results: list[str | dict[str, Any]] = Field(
        default_factory=list[str | dict[str, Any]],
        max_length=200,
        description="Results of tools: a text, or an object with `output` and optionally `name`, `id`, `input`.",
    )
    file_path: str | None = Field(None, max_length=4096, description="The file that the message is about.")
    at: str | None = Field(None, description="When it was said (ISO 8601); none = now.")
    id: str = Field("", max_length=_MAX_NAME_CHARS, description="The program's own id, unique in its session.")

    def to_message(self, index: int) -> Message:
        """Return the message.

        Raises:
            BadInput: it has neither content nor tool results, or its time is invalid.
        """
        results = [{"output": result} if isinstance(result, str) else result for result in self.tool_results]
        if not self.content.strip() and not results:
            raise BadInput(f"messages.{index} is empty.", remedy="Give it content or tool_results.")
        at = parse_moment(f"messages.{index}.at", self.at)
        if at is not None and at < _EPOCH:
            raise BadInput(f"messages.{index}.at lies before 1970.", remedy="Leave it out if it is not known.")
        return Message(
            role=self.role,
            content=self.content,
            tool_results=results,
            file_path=self.file_path or "",
            at=at,
            id=self.id,
        )


class TurnsBody(BaseModel):
    """Messages, oldest first, and where they were said."""

    channel: str = Field(min_length=1, max_length=_MAX_NAME_CHARS)
    session_id: str = Field(min_length=1, max_length=_MAX_NAME_CHARS)
    user_id: str | None = Field(
        None, max_length=_MAX_NAME_CHARS, description="The user they belong to; none = this daemon's user."
    )
    agent_id: str | None = Field(None, max_length=_MAX_NAME_CHARS, description="A helper agent; none = the main agent.")
    project: str | list[str] | None = Field(None, description="A project's name, id, or several aliases.")
    messages: list[MessageBody] = Field(min_length=1, max_length=1000)

    def conversation(self) -> Conversation:
        """Return the conversation that the messages belong to."""
        names = [self.project] if isinstance(self.project, str) else self.project or []
        return Conversation(
            channel=self.channel,
            session=self.session_id,
            user=self.user_id or "",
            agent=self.agent_id or "",
            project=tuple(name for name in names if name.strip()),
        )

    def to_messages(self) -> list[Message]:
        """Return the messages.

        Raises:
            BadInput: a message is empty, or its time is invalid.
        """
        return [message.to_message(index) for index, message in enumerate(self.messages)]


class ToldAnswer(Answer):
    """The number of new messages and of known ones."""

    accepted: int
    duplicates: int


class MessageAnswer(Answer):
    """One stored message."""

    id: str
    channel: str
    session_id: str
    user_id: str
    role: Role
    content: str
    at: str


@router.post(
    "/memory/turns",
    status_code=202,
    responses=response_model(ToldAnswer, status=202, example={"accepted": 2, "duplicates": 0}),
)
async def turns_add_turns(body: TurnsBody, request: Request) -> dict[str, Any]:
    """Record messages. The answer comes once they are on disk; extraction and indexing follow.

    A repeated message is a duplicate: one with the same `id`, or with the same role, words and time. Without a time,
    equal messages of one request count as separate messages, and those of another request count as duplicates.
    """
    parts = parts_of(request)
    conversation, messages = body.conversation(), body.to_messages()
    events, future = await in_thread(lambda: deliver(parts, conversation, messages))
    counts = events.outcome(await await_future(future))
    return {"accepted": counts.accepted, "duplicates": counts.duplicates}


class ConversationTurn(Answer):
    """A turn with its place."""

    id: str
    at: str
    role: Role
    source: SourceType
    channel: str
    session_id: str
    project: str | None
    project_name: str
    text: str
    skipped: str = Field(description="Why nothing was learned from it; empty if it was read.")
    thread_id: str | None


class TurnAnswer(Answer):
    """A turn with the turns around it, and what was learned from it."""

    id: str
    turns: list[ConversationTurn] = Field(description="The turn and those around it, oldest first.")
    memories: list[MemoryAnswer] = Field(description="The memories that cite the turn, in any state.")


@router.get("/api/memory/turns/{turn_id}", responses=response_model(TurnAnswer))
async def turns_one_turn(
    turn_id: TurnId,
    request: Request,
    around: Annotated[int, Query(ge=0, le=20, description="Prompts and replies before it, and after it.")] = 0,
) -> dict[str, Any]:
    """Return one turn, the turns around it in its session, and the memories that cite it."""
    parts = parts_of(request)

    def find(tx: Tx) -> dict[str, Any]:
        turn, names = turn_of(parts, tx, turn_id), names_of(tx)
        window = turns_with_neighbours(tx, [turn.id], around, lambda _: True)
        shown = sorted(parts.turns(tx).get([row["id"] for row in window.rows]), key=lambda one: one.at)
        threads = Threads(tx).of_turns([one.id for one in shown])
        return {
            "id": turn.id,
            "turns": [_turn_json(one, names, threads.get(one.id)) for one in shown],
            "memories": [memory_json(found, names, parts.clock.now()) for found in parts.memories(tx).citing(turn.id)],
        }

    return await read_in_tx(request, find)


def _turn_json(turn: Turn, names: Mapping[str, str], thread_id: str | None) -> dict[str, Any]:
    return {
        "id": turn.id,
        "at": to_text(turn.at),
        "role": turn.role,
        "source": turn.source,
        "channel": turn.scope.channel,
        "session_id": turn.scope.session,
        "project": turn.scope.project,
        "project_name": names.get(turn.scope.project or "", ""),
        "text": turn.text,
        "skipped": turn.skipped,
        "thread_id": thread_id,
    }


@router.get(
    "/api/memory/messages",
    responses=response_model(
        list[MessageAnswer],
        example=[
            {
                "id": "01k0000000000000000000000a",
                "channel": "telegram",
                "session_id": "chat-7",
                "user_id": "local",
                "role": "user",
                "content": "The staging port is 8443.",
                "at": "2026-05-01T12:30:00.000000Z",
            }
        ],
    ),
)
async def turns_messages(
    request: Request,
    channel: Annotated[str, Query(min_length=1, max_length=_MAX_NAME_CHARS)],
    session_id: str | None = None,
    user_id: str | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 20,
) -> list[dict[str, Any]]:
    """List the last messages of one channel, newest last. New messages appear once they are processed."""
    parts = parts_of(request)

    def find(tx: Tx) -> list[dict[str, Any]]:
        rows = parts.turns(tx).recent(channel, session_id, limit, user=user_id)
        return [{"content" if key == "text" else key: value for key, value in row.items()} for row in reversed(rows)]

    return await read_in_tx(request, find)


# Events: what was captured, and what became of it.


class LearnedAnswer(Answer):
    """A memory that cites an event."""

    id: str
    kind: Kind
    state: State
    text: str = Field(description="Its beginning, at most 200 characters.")


class EventAnswer(Answer):
    """A captured event and what became of it."""

    id: str
    at: str = Field(description="When it happened, by the host's clock.")
    received_at: str = Field(description="When it was stored on disk.")
    channel: str
    session_id: str
    kind: EventKind
    project: str | None
    project_name: str
    state: Outcome = Field(
        description="`queued`: it waits to be read. `remembered`: memories cite it. `read`: it was read, and nothing in"
        " it is to be remembered. `skipped`: it was not read. `dead`: reading it failed too often. `forgotten`: only"
        " its row is left."
    )
    reason: str = Field(description="Why it was skipped, or failed; else empty.")
    turn_id: str | None = Field(description="Its first message; null if it has none.")
    excerpt: str | None = Field(description="The beginning of that message, at most 200 characters.")
    memories: list[LearnedAnswer]


@router.get("/api/memory/events", responses=response_model(list[EventAnswer]))
async def turns_events(
    request: Request,
    response: Response,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    cursor: Cursor = None,
    channel: Annotated[str | None, Query(max_length=_MAX_NAME_CHARS)] = None,
    state: Outcome | None = None,
    since: Annotated[str | None, Query(max_length=60, description="Only what happened then or later.")] = None,
) -> list[dict[str, Any]]:
    """List captured events, newest first, with what was learned from each."""
    before = number_in(cursor) or _BEFORE_ALL
    first = parse_moment("since", since)

    def find(tx: Tx) -> tuple[list[dict[str, Any]], int | None]:
        found = Events(tx).newest(before=before, limit=limit + 1, channel=channel, outcome=state, since=first)
        names, page = names_of(tx), found[:limit]
        rows = [
            {name: value for name, value in row.items() if name != "seq"}
            | {"project_name": names.get(row["project"] or "", "")}
            for row in page
        ]
        return rows, page[-1]["seq"] if len(found) > limit else None

    rows, last = await read_in_tx(request, find)
    link_next(request, response, last)
    return rows
