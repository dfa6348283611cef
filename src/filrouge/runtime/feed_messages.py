"""Messages of the live feed: what happened and to which ids, never the text itself.

A message passes through queues, sockets, other tabs and browser logs, which forgetting cannot reach. So it carries
ids, kinds and counts only. Clients fetch the text by id, with their own read permission, and get 404 if it has been
forgotten meanwhile. The only texts in messages are Filrouge's own, such as why an event was skipped.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, Literal

from msgspec import Struct
from msgspec.structs import asdict

Topic = Literal["progress", "events", "memories", "threads", "recalls", "jobs", "forgetting", "settings", "backups"]
TOPICS: Final[tuple[Topic, ...]] = (
    "progress", "events", "memories", "threads", "recalls", "jobs", "forgetting", "settings", "backups",
)  # fmt: skip


class _Message(Struct, frozen=True, kw_only=True):
    """Base of all messages. Times are UTC texts, as everywhere in the API."""

    type: ClassVar[str]
    topic: ClassVar[Topic]

    def to_json(self) -> dict[str, Any]:
        """Return the message as it is sent."""
        return {"type": self.type} | asdict(self)


class EventCaptured(_Message, frozen=True, kw_only=True):
    """An event was stored and waits to be processed."""

    type = "ws:event_captured"
    topic = "events"

    id: str
    kind: str
    host: str
    session_id: str
    project: str | None
    at: str


class EventSettled(_Message, frozen=True, kw_only=True):
    """An event was processed (`done`), skipped (`skipped`, with the reason), given up (`dead`) or forgotten."""

    type = "ws:event_settled"
    topic = "events"

    id: str
    state: str
    reason: str


class MemoryDecided(_Message, frozen=True, kw_only=True):
    """The journal has a new entry about a memory: added, updated, restated, superseded, binned, pinned ...

    Attributes:
        entry: the number of the journal entry, which `undo` takes.
        touches: other memories that it changed or is based on.
        made_by, prompt_version: who extracted the memory, and with which prompt; empty if the memory is gone.
    """

    type = "ws:memory_decided"
    topic = "memories"

    entry: int
    action: str
    memory_id: str
    touches: tuple[str, ...]
    actor: str
    made_by: str
    prompt_version: str
    at: str


class ThreadPlaced(_Message, frozen=True, kw_only=True):
    """A prompt was placed in a thread: a continued, reopened, forked or new one."""

    type = "ws:thread_placed"
    topic = "threads"

    turn_id: str
    thread_id: str
    action: str
    parent_id: str | None
    actor: str
    at: str


class ThreadChanged(_Message, frozen=True, kw_only=True):
    """A user renamed, archived, merged or split a thread, among others; `others` are the other threads involved."""

    type = "ws:thread_changed"
    topic = "threads"

    thread_id: str
    action: str
    others: tuple[str, ...]
    actor: str
    at: str


class RecallInjected(_Message, frozen=True, kw_only=True):
    """A recall for a prompt or a session start finished; `memories` is 0 if nothing matched."""

    type = "ws:recall_injected"
    topic = "recalls"

    id: str
    channel: str
    session_id: str
    project: str | None
    memories: int
    notes: int
    tokens: int
    latency_ms: float
    at: str


class JobDead(_Message, frozen=True, kw_only=True):
    """A job was set aside after too many attempts."""

    type = "ws:job_dead"
    topic = "jobs"

    id: str
    kind: str
    attempts: int


class Forgotten(_Message, frozen=True, kw_only=True):
    """Something was forgotten. Carries the receipt id only."""

    type = "ws:forgotten"
    topic = "forgetting"

    receipt_id: str
    at: str


class SettingChanged(_Message, frozen=True, kw_only=True):
    """A setting was changed. The value is not included because it may be secret; clients fetch it."""

    type = "ws:setting_changed"
    topic = "settings"

    key: str
    at: str


class BackupMade(_Message, frozen=True, kw_only=True):
    """A backup was made and verified."""

    type = "ws:backup_made"
    topic = "backups"

    name: str
    bytes: int
    at: str


LiveMessage = (
    EventCaptured
    | EventSettled
    | MemoryDecided
    | ThreadPlaced
    | ThreadChanged
    | RecallInjected
    | JobDead
    | Forgotten
    | SettingChanged
    | BackupMade
)
"""Every message except the garden's progress, whose class is in `maintenance.consolidation`."""
