"""HTTP routes for turns: programs with their own agent loop record and read messages (API-9)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field

from filrouge.capture.models import Role
from filrouge.capture.programs import Conversation, Message, deliver
from filrouge.core.errors import BadInput
from filrouge.core.protocols import Tx
from filrouge.search.filters import parse_moment
from filrouge.server.responses import Answer, await_future, in_thread, parts_of, read_in_tx, response_model

router = APIRouter(tags=["turns"])
_MAX_NAME_CHARS = 200
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
