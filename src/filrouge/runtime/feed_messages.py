"""What the live feed tells: that something happened, to which ids, and never a word of what was said.

A message goes through queues, sockets, other tabs and whatever logs a browser keeps, none of which forgetting can
reach. So it carries ids, kinds and counts; who wants the words asks for the id, with the same right to read, and is
told 404 where they are forgotten meanwhile. The only texts are Filrouge's own: why an event was passed over.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Final, Literal

Topic = Literal["progress", "events", "memories", "threads", "recalls", "jobs", "forgetting", "settings", "backups"]
TOPICS: Final[tuple[Topic, ...]] = (
    "progress", "events", "memories", "threads", "recalls", "jobs", "forgetting", "settings", "backups",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class _Told:
    """One message. Moments are texts in UTC, as everywhere on the wire."""

    type: ClassVar[str]
    topic: ClassVar[Topic]

    def to_json(self) -> dict[str, Any]:
        """The message as it goes over the wire."""
        return {"type": self.type} | {one.name: getattr(self, one.name) for one in fields(self)}


@dataclass(frozen=True, kw_only=True, slots=True)
class EventCaptured(_Told):
    """An event is on disk, and waits to be understood."""

    type = "ws:event_captured"
    topic = "events"

    id: str
    kind: str
    host: str
    session_id: str
    project: str | None
    at: str


@dataclass(frozen=True, kw_only=True, slots=True)
class EventSettled(_Told):
    """An event is understood (`done`), passed over (`skipped`, with the reason), given up (`dead`) or forgotten."""

    type = "ws:event_settled"
    topic = "events"

    id: str
    state: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryDecided(_Told):
    """The journal has an entry about a memory: it was added, updated, said again, superseded, binned, pinned ...

    Attributes:
        entry: its number, which `undo` takes.
        touches: other memories that it changed or rests on.
        made_by, prompt_version: who read the memory, and with which prompt; empty where it is gone.
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


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadPlaced(_Told):
    """A prompt has its place: in a thread that goes on, was woken or forked off, or in a new one."""

    type = "ws:thread_placed"
    topic = "threads"

    turn_id: str
    thread_id: str
    action: str
    parent_id: str | None
    actor: str
    at: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadChanged(_Told):
    """A user renamed, archived, merged, split ... a thread; `others` were part of it."""

    type = "ws:thread_changed"
    topic = "threads"

    thread_id: str
    action: str
    others: tuple[str, ...]
    actor: str
    at: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RecallInjected(_Told):
    """Memories were looked for and put in front of a prompt or a session; 0 of them where nothing fitted."""

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


@dataclass(frozen=True, kw_only=True, slots=True)
class JobDead(_Told):
    """A job was set aside after too many tries."""

    type = "ws:job_dead"
    topic = "jobs"

    id: str
    kind: str
    attempts: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Forgotten(_Told):
    """Something was forgotten: the receipt, and nothing of what it was."""

    type = "ws:forgotten"
    topic = "forgetting"

    receipt_id: str
    at: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SettingChanged(_Told):
    """A setting has another value. A prompt's budget is no secret, a key may be: values are asked for."""

    type = "ws:setting_changed"
    topic = "settings"

    key: str
    at: str


@dataclass(frozen=True, kw_only=True, slots=True)
class BackupMade(_Told):
    """A backup was made and verified."""

    type = "ws:backup_made"
    topic = "backups"

    name: str
    bytes: int
    at: str


Told = (
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
"""Every message but the garden's progress, which has a form of its own (`maintenance.consolidation`)."""
