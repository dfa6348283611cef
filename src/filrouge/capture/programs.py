"""Conversations that a program with its own agent loop delivers, and what the user states in them.

Each message becomes the event that a hook would have reported: a prompt, a reply, a tool call. From there on it is
handled like captured events: the same redaction, tombstones and capture switches, processed in the background.

A repeated message is recognised by the id that its program gave it, else by its text, role and time. If it has no time,
its position among equal messages of the same delivery takes the place of the time.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from filrouge.capture.events import Event, EventKind, strip_injected_blocks
from filrouge.capture.intake import build_turn
from filrouge.capture.models import TRUST_AGENT, TRUST_PROMPT, TRUST_TOOL, Role, SourceType, Turn
from filrouge.capture.service import DeliveryResult, is_to_be_analysed, store_events
from filrouge.core.clock import Clock, new_id
from filrouge.core.errors import BadInput
from filrouge.core.guard import on_failure
from filrouge.core.protocols import Redactor, Tx
from filrouge.core.scope import LOCAL_USER, Scope
from filrouge.extraction import understanding
from filrouge.extraction.heuristics import extract
from filrouge.extraction.repository import Analyses, Session
from filrouge.projects.repository import resolve_project
from filrouge.runtime.executors import ReaderPool
from filrouge.runtime.services import Parts
from filrouge.search.spaces import queue_vectors
from filrouge.threads.placing import queue_placing

# Histories: past messages that a program delivers at once.

_LOG = logging.getLogger(__name__)
History = Sequence[Mapping[str, Any]]
"""Messages with `role` (user, assistant, tool) and `content`, a text; oldest first."""
_TURN_KINDS: Final[Mapping[str, tuple[Role, SourceType, int]]] = {
    "user": ("user", "prompt", TRUST_PROMPT),
    "assistant": ("assistant", "reply", TRUST_AGENT),
    "tool": ("tool", "command", TRUST_TOOL),
}
_PERSONAL: Final = frozenset({"preference", "intent", "constraint", "rule"})


def read_history(clock: Clock, redact: Redactor, session: Session, history: History) -> list[Turn]:
    """Return the messages as turns that are not stored yet; empty ones are left out.

    Raises:
        BadInput: a message has an unknown role, or its content is not text.
    """
    seen = Counter[str]()
    turns: list[Turn] = []
    now = clock.now() - timedelta(microseconds=len(history))
    for index, message in enumerate(history):
        role, content = message.get("role"), message.get("content")
        if role not in _TURN_KINDS or not isinstance(content, str):
            raise BadInput(
                f"Message {index} of the history cannot be read.",
                remedy="Each message needs a role (user, assistant, tool) and a text as its content.",
            )
        text = redact(strip_injected_blocks(content))
        if not text.strip():
            continue
        turn_role, source, trust = _TURN_KINDS[role]
        seen[f"{role}:{text}"] += 1
        digest = hashlib.sha256(f"{role}:{seen[f'{role}:{text}']}:{text}".encode("utf-8", "surrogatepass")).hexdigest()
        at = now + timedelta(microseconds=index)
        turns.append(
            build_turn(
                key=f"history:{session.id}:{digest}",
                scope=Scope(channel=session.host, session=session.id),
                role=turn_role,
                source=source,
                text=text,
                at=at,
                trust=trust,
            )
        )
    return turns


def store_history(parts: Parts, session: Session, turns: Sequence[Turn], user_id: str | None) -> tuple[bool, Scope]:
    """Store the turns of a history and what the user states in them; a repeated delivery stores nothing new.

    If the user is known, the messages are stored like captured ones, and what the user states in them is decided and
    stored at once. If not, nothing is stored; the lost preferences are counted and logged.

    Returns:
        Whether they were stored, and the scope of the session.
    """
    captured = parts.readers.here(lambda tx: Analyses(tx, parts.analyser).turns(session)[0])
    session_scope = captured[-1].scope if captured else Scope(channel=session.host, session=session.id)
    user = user_id or (session_scope.user if captured else None)
    stated_count = sum(
        statement.kind in _PERSONAL for turn in turns if is_to_be_analysed(turn) for statement in extract(turn)
    )
    if user is None:
        if stated_count:
            parts.metrics.count_lost_preferences("user_identifier_missing", stated_count)
            _LOG.error("%d preferences of session %s were not stored: no user id was given", stated_count, session.id)
        return False, session_scope
    scope = replace(session_scope, user=user, agent="")
    scoped_turns = [replace(turn, scope=scope) for turn in turns]
    with on_failure(lambda: parts.metrics.count_lost_preferences("extraction_error")):
        readings = understanding.read_turns(parts, [turn for turn in scoped_turns if is_to_be_analysed(turn)])
    readings_by_turn = {reading.turn.id: reading for reading in readings}
    applied = list[Any]()

    def write(tx: Tx) -> None:
        pending_vectors: understanding.PendingVectors = {}
        for turn in scoped_turns:
            if not parts.turns(tx).add_from_transcript(turn):
                continue
            if turn.role != "tool":
                queue_vectors(tx, "turn", turn.id, parts.clock.now())
            queue_placing(parts.clock, tx, [turn])
            if turn.id in readings_by_turn:
                applied.extend(understanding.apply_reading(parts, tx, readings_by_turn[turn.id], pending_vectors))

    with on_failure(lambda: parts.metrics.count_lost_preferences("persistence_error", max(1, stated_count))):
        parts.writer.run(write)
    understanding.update_index(parts, parts.vectors if not readings else readings[0].vectors, applied)
    return True, scope


# Messages of a running conversation, as they are said.

_EVENT_KINDS: Mapping[str, EventKind] = {"user": "prompt", "assistant": "reply"}


class Message(Struct, frozen=True, kw_only=True):
    """One message, as a program delivers it.

    Attributes:
        role: user, assistant or tool; the content of a tool message is stored as a tool's output.
        content: the text; it may be empty if there are tool results.
        tool_results: results of tools, each with `output` and optionally `name`, `id`, `input`.
        file_path: the file that the message is about, or that a tool read.
        at: when it was said; None means now.
        id: the program's own id, unique in its session; empty if it has none.
    """

    role: Role
    content: str
    tool_results: Sequence[Mapping[str, Any]] = ()
    file_path: str = ""
    at: datetime | None = None
    id: str = ""


class Conversation(Struct, frozen=True, kw_only=True):
    """The scope of the messages.

    Attributes:
        channel: the name of the program.
        session: the program's id of the conversation.
        user: the owner of the messages; empty for the daemon's own user.
        agent: a helper agent of the program; empty for its main agent.
        project: names of the project, strongest first; a single plain name creates a project if there is none.
    """

    channel: str
    session: str
    user: str = ""
    agent: str = ""
    project: tuple[str, ...] = ()


class DeliveryCounts(NamedTuple):
    """How many messages were new, and how many were already known."""

    accepted: int
    duplicates: int


class MessageEvents(Struct, frozen=True, kw_only=True):
    """The events of some messages, and for each event the index of its message."""

    events: list[Event] = field(default_factory=list[Event])
    owners: list[int] = field(default_factory=list[int])

    def outcome(self, result: DeliveryResult) -> DeliveryCounts:
        """Return the counts of new and known messages; a message that is not captured counts as neither."""
        new_owners = {owner for owner, is_new in zip(self.owners, result.new, strict=True) if is_new}
        captured_owners = {
            owner for owner, project in zip(self.owners, result.projects, strict=True) if project is not None
        }
        return DeliveryCounts(accepted=len(new_owners), duplicates=len(captured_owners - new_owners))


def deliver(
    parts: Parts, conversation: Conversation, messages: Sequence[Message]
) -> tuple[MessageEvents, Future[DeliveryResult]]:
    """Deliver messages, oldest first; the future completes once they are on disk, before they are processed."""
    result = message_events(parts.clock, parts.readers, conversation, messages)
    return result, store_events(parts, result.events)


def message_events(
    clock: Clock, readers: ReaderPool, conversation: Conversation, messages: Sequence[Message]
) -> MessageEvents:
    """Return the events that a hook would have reported for these messages."""
    names = readers.here(lambda tx: resolve_project(tx, conversation.project)[0])
    return events_of(conversation, messages, names, clock.now())


def events_of(
    conversation: Conversation, messages: Sequence[Message], names: tuple[str, ...], now: datetime
) -> MessageEvents:
    """Return the events of messages delivered now, under a project with these names."""
    result, seen = MessageEvents(), Counter[str]()
    earliest = now - timedelta(microseconds=len(messages))
    for index, message in enumerate(messages):
        at = min(message.at or earliest + timedelta(microseconds=index), now)
        key = _message_key(message, seen)
        for kind, data in _event_data(message):
            result.owners.append(index)
            result.events.append(
                Event(
                    id=new_id(at),
                    host=conversation.channel,
                    kind=kind,
                    session=conversation.session,
                    at=at.timestamp(),
                    key=f"{key}:{kind}",
                    cwd="",
                    project=names,
                    transcript="",
                    agent=conversation.agent,
                    data=data,
                    user="" if conversation.user == LOCAL_USER else conversation.user,
                )
            )
    return result


def _event_data(message: Message) -> list[tuple[EventKind, dict[str, Any]]]:
    """Return the kinds and data of a message's events; tool results come before the text about them."""
    calls = [_tool_call(result, message.file_path) for result in message.tool_results]
    if message.role == "tool" and message.content.strip():
        calls.append(_tool_call({"output": message.content}, message.file_path))
    found: list[tuple[EventKind, dict[str, Any]]] = [("tools", {"calls": calls})] if calls else []
    if message.role != "tool" and message.content.strip():
        file_fields = {"file_path": message.file_path} if message.file_path else {}
        found.append((_EVENT_KINDS[message.role], {"text": message.content, **file_fields}))
    return found


def _tool_call(result: Mapping[str, Any], file_path: str) -> dict[str, Any]:
    """Return a tool call; a call without a name that is about a file counts as reading it."""
    tool_input = result.get("input")
    if tool_input is None and file_path:
        tool_input = {"file_path": file_path}
    return {
        "name": str(result.get("name") or ("Read" if file_path else "tool")),
        "id": str(result.get("id") or ""),
        "input": tool_input,
        "output": result.get("output"),
        "failed": bool(result.get("failed")),
    }


def _message_key(message: Message, seen: Counter[str]) -> str:
    """Return the key that identifies the message within its session."""
    if message.id:
        return f"told:{message.id}"
    content = [message.role, message.content, [dict(one) for one in message.tool_results], message.file_path]
    body = json.dumps([*content, str(message.at or "")], sort_keys=True, ensure_ascii=True, default=str)
    seen[body] += 1
    digest = hashlib.sha256(f"{seen[body]}:{body}".encode()).hexdigest()
    return f"told:{digest[:32]}"
