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
from threading import Condition, Lock
from typing import Any, Final

from msgspec import Struct, field

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
from filrouge.runtime.journal import log_decision

# Reading what is new.
#
# Journal entries, events and thread decisions are numbered in commit order, so a mark per table is enough. Tables
# without such a number are followed by known state: the open events, the dead jobs, the latest time.

#: Maximum rows of each kind that are read at once.
_MAX_ROWS: Final = 500
#: Maximum number of unsettled events that are followed; beyond it, the oldest are dropped.
_MAX_OPEN_EVENTS: Final = 2_000
#: Journal actions that are not published: retention, repairs, tokens, and erasure, of which only the receipt is.
_UNPUBLISHED_ACTIONS: Final = frozenset(
    {"erase", "retain", "repaired", "token_create", "token_revoke", "session_create"}
)
_THREAD_PREFIX: Final = "thread_"


class Marks(Struct, kw_only=True):
    """The position in the store up to which changes have been published.

    Attributes:
        entry, event, decision: the highest published row number of the journal, the events, the thread decisions.
        setting, receipt: the time of the last published change of a setting, and of the last published receipt.
        open_events: ids of captured events that are not settled yet, oldest first.
        dead_jobs: ids of the jobs that are known to be dead.
    """

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

    def current_marks(self) -> Marks:
        """Return the marks of the current state. Events that are still unsettled are followed from here."""
        newest = self._newest()
        unsettled = self._tx.all("feed.open", {"limit": _MAX_OPEN_EVENTS})
        return Marks(
            entry=newest["entry"],
            event=newest["event"],
            decision=newest["decision"],
            setting=newest["setting"],
            receipt=newest["receipt"],
            open_events={row["id"]: None for row in reversed(unsettled)},
            dead_jobs=frozenset(row["id"] for row in self._tx.all("feed.dead")),
        )

    def read_new(self, marks: Marks) -> tuple[list[LiveMessage], bool]:
        """Return the messages for changes after the marks, and whether there may be more; advance the marks."""
        newest = self._newest()
        # Rows may have been deleted, and a restored database is older. The next row with such a number counts as new.
        marks.entry = min(marks.entry, newest["entry"])
        marks.event = min(marks.event, newest["event"])
        marks.decision = min(marks.decision, newest["decision"])
        events, decisions, entries = (
            self._captured_events(marks),
            self._thread_decisions(marks),
            self._journal_entries(marks),
        )
        messages = [*events, *decisions, *entries, *self._settled_events(marks), *self._dead_jobs(marks)]
        if newest["setting"] > marks.setting:
            messages += [SettingChanged(**row) for row in self._tx.all("feed.settings", {"after": marks.setting})]
        if newest["receipt"] > marks.receipt:
            messages += [Forgotten(**row) for row in self._tx.all("feed.receipts", {"after": marks.receipt})]
        marks.setting, marks.receipt = newest["setting"], newest["receipt"]
        has_more = marks.entry < newest["entry"] or marks.event < newest["event"] or marks.decision < newest["decision"]
        return messages, has_more

    def _newest(self) -> dict[str, Any]:
        row = self._tx.one("feed.newest")
        assert row is not None
        return row

    def _captured_events(self, marks: Marks) -> list[LiveMessage]:
        rows = self._tx.all("feed.events", {"after": marks.event, "limit": _MAX_ROWS})
        for row in rows:
            marks.event = row.pop("seq")
            marks.open_events[row["id"]] = None
        while len(marks.open_events) > _MAX_OPEN_EVENTS:
            del marks.open_events[next(iter(marks.open_events))]
        return [EventCaptured(**row) for row in rows]

    def _settled_events(self, marks: Marks) -> list[LiveMessage]:
        if not marks.open_events:
            return []
        rows = self._tx.all("feed.settled", {"ids": json.dumps(list(marks.open_events))})
        for row in rows:
            del marks.open_events[row["id"]]
        return [EventSettled(**row) for row in rows]

    def _thread_decisions(self, marks: Marks) -> list[LiveMessage]:
        rows = self._tx.all("feed.decisions", {"after": marks.decision, "limit": _MAX_ROWS})
        for row in rows:
            marks.decision = row.pop("seq")
        return [ThreadPlaced(**row) for row in rows]

    def _journal_entries(self, marks: Marks) -> list[LiveMessage]:
        messages = list[LiveMessage]()
        for row in self._tx.all("feed.entries", {"after": marks.entry, "limit": _MAX_ROWS}):
            marks.entry = row["seq"]
            if row["action"] not in _UNPUBLISHED_ACTIONS:
                messages.append(_entry_message(row, tuple(sorted({*json.loads(row["touches"])} - {row["subject_id"]}))))
        return messages

    def _dead_jobs(self, marks: Marks) -> list[LiveMessage]:
        rows = self._tx.all("feed.dead")
        published_ids, marks.dead_jobs = marks.dead_jobs, frozenset(row["id"] for row in rows)
        return [JobDead(**row) for row in rows if row["id"] not in published_ids]


def _entry_message(row: dict[str, Any], others: tuple[str, ...]) -> LiveMessage:
    action, subject = str(row["action"]), str(row["subject_id"])
    if action.startswith(_THREAD_PREFIX):
        change = action.removeprefix(_THREAD_PREFIX)
        return ThreadChanged(thread_id=subject, action=change, others=others, actor=row["actor"], at=row["at"])
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
# reader loses the oldest messages, and gets their number before the next one. Nothing is kept for later subscribers;
# the store holds what they need.

QUEUE_CAPACITY: Final = 256


class Lost(Struct, frozen=True, kw_only=True):
    """`count` messages were dropped here because the reader was too slow."""

    count: int


Message = MemoryProgress | LiveMessage
"""What is published: a closed union of frozen values."""


class Subscription:
    """The message queue of one subscriber; created by `Bus.subscribed`."""

    def __init__(self, capacity: int, wake: Callable[[], None] | None = None) -> None:
        self._waiting: deque[Message] = deque()
        self._capacity = capacity
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
            if len(self._waiting) == self._capacity:
                self._waiting.popleft()
                self._lost += 1
            self._waiting.append(message)
            is_first = len(self._waiting) == 1
            self._changed.notify()
        if is_first and self._wake is not None:
            self._wake()

    def get(self, seconds: float) -> Message | Lost | None:
        """Return the next message, or how many were dropped before it; None if none arrives within `seconds`."""
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
    def subscribed(
        self, capacity: int = QUEUE_CAPACITY, wake: Callable[[], None] | None = None
    ) -> Generator[Subscription]:
        """Subscribe for the duration of the block.

        Args:
            capacity: the capacity of the queue.
            wake: called by the publishing thread when a message enters an empty queue; must return quickly.
        """
        subscription = Subscription(capacity, wake)
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
_BATCH_SECONDS: Final = 0.2

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
                self._marks = FeedRows(tx).current_marks()
            self._listeners += 1
        self._wake.set()  # commits made before the count was raised did not set it

    def leave(self) -> None:
        """Unregister a listener."""
        with self._changing:
            self._listeners -= 1

    def committed(self) -> None:
        """Wake the feed after a commit. Takes almost no time on the writer thread."""
        if self._listeners:
            self._wake.set()

    def publish_new(self) -> None:
        """Publish everything committed since the last call."""
        while not self._stopping.is_set() and self._read(self._publish_batch):
            pass

    def _publish_batch(self, tx: Tx) -> bool:
        with self._changing:
            if not self._listeners:
                return False
            messages, has_more = FeedRows(tx).read_new(self._marks)
        for message in messages:
            self._bus.publish(message)
            log_decision(message)
        return has_more

    def _work(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait()
            self._wake.clear()
            # The feed must survive a full disk; missed changes are in the store.
            with logged(_LOG, "the live feed failed and retries"):
                self.publish_new()
            self._stopping.wait(_BATCH_SECONDS)
