"""The live feed: publishes committed changes to subscribers on the bus, as ids, kinds and states, never as text.

`FeedRows` reads what was committed after a set of marks. `Bus` delivers messages to subscribers in this process.
`Feed` connects the two: after a commit, its thread reads the new rows and publishes them. Rolled-back changes are
never published, nor are changes committed before the first listener joined.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Condition, Lock
from typing import Any, Final

from filrouge.core.guard import logged
from filrouge.core.protocols import Tx
from filrouge.maintenance.consolidation import MemoryProgress
from filrouge.runtime.executors import Background
from filrouge.runtime.feed_messages import (
    TOPICS,
    EventCaptured,
    EventSettled,
    Forgotten,
    JobDead,
    LiveMessage,
    MemoryDecided,
    SettingChanged,
    ThreadChanged,
    ThreadPlaced,
    Topic,
)
from filrouge.runtime.journal import record

# Reading what is new.
#
# Journal entries, events and thread decisions are numbered in commit order, so a mark per table is enough. Tables
# without such a number are followed by known state: the open events, the dead jobs, the latest time.

#: Maximum rows of each kind read in one pass.
_AT_ONCE: Final = 500
#: Maximum number of unsettled events that are followed; beyond it, the oldest are dropped.
_MOST_OPEN: Final = 2_000
#: Journal actions that are not published: retention, repairs, tokens, and erasure, of which only the receipt is.
_NOT_TOLD: Final = frozenset({"erase", "retain", "repaired", "token_create", "token_revoke", "session_create"})
_OF_THREADS: Final = "thread_"


@dataclass(kw_only=True)
class Marks:
    """The position in the store up to which changes have been published."""

    entry: int = 0
    event: int = 0
    decision: int = 0
    setting: str = ""
    receipt: str = ""
    open_events: dict[str, None] = field(default_factory=dict[str, None])
    dead_jobs: frozenset[str] = frozenset()


class FeedRows:
    """Reads the rows after a set of marks."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def now(self) -> Marks:
        """Marks for the current state. Events that are still unsettled are followed from here."""
        row = self._newest()
        waiting = self._tx.all("feed.open", {"limit": _MOST_OPEN})
        return Marks(
            entry=row["entry"],
            event=row["event"],
            decision=row["decision"],
            setting=row["setting"],
            receipt=row["receipt"],
            open_events={one["id"]: None for one in reversed(waiting)},
            dead_jobs=frozenset(one["id"] for one in self._tx.all("feed.dead")),
        )

    def behind(self, marks: Marks) -> tuple[list[LiveMessage], bool]:
        """Messages for all changes after the marks, which are advanced, and whether there may be more."""
        newest = self._newest()
        # Rows may have been deleted, and a restored database is older. The next row with such a number counts as new.
        marks.entry = min(marks.entry, newest["entry"])
        marks.event = min(marks.event, newest["event"])
        marks.decision = min(marks.decision, newest["decision"])
        captured, decisions, entries = self._captured(marks), self._placed(marks), self._decided(marks)
        told = [*captured, *decisions, *entries, *self._settled(marks), *self._dead(marks)]
        if newest["setting"] > marks.setting:
            told += [SettingChanged(**row) for row in self._tx.all("feed.settings", {"after": marks.setting})]
        if newest["receipt"] > marks.receipt:
            told += [Forgotten(**row) for row in self._tx.all("feed.receipts", {"after": marks.receipt})]
        marks.setting, marks.receipt = newest["setting"], newest["receipt"]
        has_more = marks.entry < newest["entry"] or marks.event < newest["event"] or marks.decision < newest["decision"]
        return told, has_more

    def _newest(self) -> dict[str, Any]:
        row = self._tx.one("feed.newest")
        assert row is not None
        return row

    def _captured(self, marks: Marks) -> list[LiveMessage]:
        found = self._tx.all("feed.events", {"after": marks.event, "limit": _AT_ONCE})
        for row in found:
            marks.event = row.pop("seq")
            marks.open_events[row["id"]] = None
        while len(marks.open_events) > _MOST_OPEN:
            del marks.open_events[next(iter(marks.open_events))]
        return [EventCaptured(**row) for row in found]

    def _settled(self, marks: Marks) -> list[LiveMessage]:
        if not marks.open_events:
            return []
        found = self._tx.all("feed.settled", {"ids": json.dumps(list(marks.open_events))})
        for row in found:
            del marks.open_events[row["id"]]
        return [EventSettled(**row) for row in found]

    def _placed(self, marks: Marks) -> list[LiveMessage]:
        found = self._tx.all("feed.decisions", {"after": marks.decision, "limit": _AT_ONCE})
        for row in found:
            marks.decision = row.pop("seq")
        return [ThreadPlaced(**row) for row in found]

    def _decided(self, marks: Marks) -> list[LiveMessage]:
        found = list[LiveMessage]()
        for row in self._tx.all("feed.entries", {"after": marks.entry, "limit": _AT_ONCE}):
            marks.entry = row["seq"]
            if row["action"] not in _NOT_TOLD:
                found.append(_entry(row, tuple(sorted({*json.loads(row["touches"])} - {row["subject_id"]}))))
        return found

    def _dead(self, marks: Marks) -> list[LiveMessage]:
        found = self._tx.all("feed.dead")
        known, marks.dead_jobs = marks.dead_jobs, frozenset(row["id"] for row in found)
        return [JobDead(**row) for row in found if row["id"] not in known]


def _entry(row: dict[str, Any], others: tuple[str, ...]) -> LiveMessage:
    action, subject = str(row["action"]), str(row["subject_id"])
    if action.startswith(_OF_THREADS):
        name = action.removeprefix(_OF_THREADS)
        return ThreadChanged(thread_id=subject, action=name, others=others, actor=row["actor"], at=row["at"])
    return MemoryDecided(
        entry=row["seq"],
        action=action,
        memory_id=subject,
        touches=others,
        actor=row["actor"],
        made_by=row["made_by"],
        prompt_version=row["prompt_version"],
        at=row["at"],
    )


# The bus.
#
# Publishing never blocks and costs nothing without subscribers. Each subscriber has its own bounded queue. A slow
# reader loses the oldest messages and is told how many before the next one. Nothing is kept for later subscribers;
# the store holds what they need.

ROOM: Final = 256


@dataclass(frozen=True, kw_only=True, slots=True)
class Lost:
    """This many messages were dropped here because the reader was too slow."""

    count: int


Message = MemoryProgress | LiveMessage
"""What is published: a closed union of frozen values."""


class Subscription:
    """The message queue of one subscriber; created by `Bus.subscribed`."""

    def __init__(self, room: int, wake: Callable[[], None] | None = None) -> None:
        self._waiting: deque[Message] = deque()
        self._room = room
        self._wake = wake
        self._topics: frozenset[Topic] = frozenset(TOPICS)
        self._lost = 0
        self._changed = Condition()

    @property
    def topics(self) -> frozenset[Topic]:
        """The topics this subscriber receives."""
        return self._topics

    def choose(self, topics: Collection[Topic]) -> None:
        """Receive only these topics from now on. Messages already queued are still delivered."""
        with self._changed:
            self._topics = frozenset(topics)

    def put(self, message: Message) -> None:
        """Queue a message if its topic is chosen; drop the oldest message if the queue is full."""
        with self._changed:
            if message.topic not in self._topics:
                return
            if len(self._waiting) == self._room:
                self._waiting.popleft()
                self._lost += 1
            self._waiting.append(message)
            is_first = len(self._waiting) == 1
            self._changed.notify()
        if is_first and self._wake is not None:
            self._wake()

    def get(self, seconds: float) -> Message | Lost | None:
        """The next message, or how many were dropped before it; None if none arrives within `seconds`."""
        with self._changed:
            if not self._changed.wait_for(lambda: bool(self._waiting), seconds):
                return None
            if self._lost:
                lost, self._lost = Lost(count=self._lost), 0
                return lost
            return self._waiting.popleft()


class Bus:
    """Publish and subscribe within one process. Thread-safe."""

    def __init__(self) -> None:
        self._subscriptions: list[Subscription] = []
        self._lock = Lock()

    def publish(self, message: Message) -> None:
        """Deliver a message to all current subscribers."""
        if not self._subscriptions:
            return
        with self._lock:
            for subscription in self._subscriptions:
                subscription.put(message)

    @contextmanager
    def subscribed(self, room: int = ROOM, wake: Callable[[], None] | None = None) -> Generator[Subscription]:
        """Subscribe for the duration of the block.

        Args:
            room: the capacity of the queue.
            wake: called by the publishing thread when a message enters an empty queue; must return quickly.
        """
        subscription = Subscription(room, wake)
        with self._lock:
            self._subscriptions.append(subscription)
        try:
            yield subscription
        finally:
            with self._lock:
                self._subscriptions.remove(subscription)


# The feed.
#
# Dozens of operations change events, memories and threads, and none of them publishes anything. The feed follows what
# they commit by its marks. The writer thread only sets a flag after a commit, and only while there are listeners;
# reading and publishing happen on the feed's own thread.

_LOG = logging.getLogger(__name__)
#: Commits within this many seconds are read together.
_TOGETHER_SECONDS: Final = 0.2

Read = Callable[[Callable[[Tx], Any]], Any]


class Feed(Background):
    """Follows the store while there are listeners. Thread-safe.

    Args:
        bus: where messages are published.
        read: runs a read on the calling thread.
    """

    def __init__(self, bus: Bus, read: Read) -> None:
        self._bus, self._read = bus, read
        self._listeners = 0
        self._marks = Marks()
        self._changing = Lock()
        super().__init__("feed")

    def join(self, tx: Tx) -> None:
        """Register a listener: everything committed from now on is published."""
        with self._changing:
            if not self._listeners:
                self._marks = FeedRows(tx).now()
            self._listeners += 1
        self._wake.set()  # commits made before the count was raised did not set it

    def leave(self) -> None:
        """Unregister a listener."""
        with self._changing:
            self._listeners -= 1

    def committed(self) -> None:
        """Called after each commit. Takes almost no time on the writer thread."""
        if self._listeners:
            self._wake.set()

    def look(self) -> None:
        """Publish everything committed since the last call."""
        while not self._stopping.is_set() and self._read(self._some):
            pass

    def _some(self, tx: Tx) -> bool:
        with self._changing:
            if not self._listeners:
                return False
            told, has_more = FeedRows(tx).behind(self._marks)
        for one in told:
            self._bus.publish(one)
            record(one)
        return has_more

    def _work(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait()
            self._wake.clear()
            # The feed must survive a full disk; missed changes are in the store.
            with logged(_LOG, "the live feed failed and retries"):
                self.look()
            self._stopping.wait(_TOGETHER_SECONDS)
