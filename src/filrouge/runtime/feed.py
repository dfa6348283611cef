"""The live feed: what is written, told to whoever listens on the bus, after it is on disk."""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Condition, Lock, Thread
from threading import Event as Flag
from typing import Any, Final

from filrouge.core.protocols import Tx
from filrouge.maintenance.consolidation import MemoryProgress
from filrouge.runtime.feed_messages import (
    TOPICS,
    EventCaptured,
    EventSettled,
    Forgotten,
    JobDead,
    MemoryDecided,
    SettingChanged,
    ThreadChanged,
    ThreadPlaced,
    Told,
    Topic,
)
from filrouge.runtime.journal import record

# What has been written since a moment, for the live feed: ids, kinds and states, never a text.
#
# Entries of the journal, events and decisions about threads are numbered as they are committed, so each is followed
# by a mark. What has no number is followed by what is known of it: the open events, the dead jobs, the latest moment.

#: Rows of each kind that are read at once.
_AT_ONCE: Final = 500
#: Events that are followed until they are settled; of more, the oldest are let go.
_MOST_OPEN: Final = 2_000
#: What the journal notes that is no memory's life: retention, repairs, tokens, and what was forgotten, of which only
#: the receipt is told.
_NOT_TOLD: Final = frozenset({"erase", "retain", "repaired", "token_create", "token_revoke", "session_create"})
_OF_THREADS: Final = "thread_"


@dataclass(kw_only=True)
class UpTo:
    """Up to where somebody has been told."""

    entry: int = 0
    event: int = 0
    decision: int = 0
    setting: str = ""
    receipt: str = ""
    open_events: dict[str, None] = field(default_factory=dict[str, None])
    dead_jobs: frozenset[str] = frozenset()


class FeedRows:
    """Reads behind marks."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def now(self) -> UpTo:
        """Marks from which on only what is new is told; events that wait to be understood are followed."""
        row = self._newest()
        waiting = self._tx.all("feed.open", {"limit": _MOST_OPEN})
        return UpTo(
            entry=row["entry"],
            event=row["event"],
            decision=row["decision"],
            setting=row["setting"],
            receipt=row["receipt"],
            open_events={one["id"]: None for one in reversed(waiting)},
            dead_jobs=frozenset(one["id"] for one in self._tx.all("feed.dead")),
        )

    def behind(self, marks: UpTo) -> tuple[list[Told], bool]:
        """What came behind marks, which are moved on, and whether there may be more."""
        newest = self._newest()
        # Rows may be gone, and a restored database is an older one: what has that number next is new.
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

    def _captured(self, marks: UpTo) -> list[Told]:
        found = self._tx.all("feed.events", {"after": marks.event, "limit": _AT_ONCE})
        for row in found:
            marks.event = row.pop("seq")
            marks.open_events[row["id"]] = None
        while len(marks.open_events) > _MOST_OPEN:
            del marks.open_events[next(iter(marks.open_events))]
        return [EventCaptured(**row) for row in found]

    def _settled(self, marks: UpTo) -> list[Told]:
        if not marks.open_events:
            return []
        found = self._tx.all("feed.settled", {"ids": json.dumps(list(marks.open_events))})
        for row in found:
            del marks.open_events[row["id"]]
        return [EventSettled(**row) for row in found]

    def _placed(self, marks: UpTo) -> list[Told]:
        found = self._tx.all("feed.decisions", {"after": marks.decision, "limit": _AT_ONCE})
        for row in found:
            marks.decision = row.pop("seq")
        return [ThreadPlaced(**row) for row in found]

    def _decided(self, marks: UpTo) -> list[Told]:
        found = list[Told]()
        for row in self._tx.all("feed.entries", {"after": marks.entry, "limit": _AT_ONCE}):
            marks.entry = row["seq"]
            if row["action"] not in _NOT_TOLD:
                found.append(_entry(row, tuple(sorted({*json.loads(row["touches"])} - {row["subject_id"]}))))
        return found

    def _dead(self, marks: UpTo) -> list[Told]:
        found = self._tx.all("feed.dead")
        known, marks.dead_jobs = marks.dead_jobs, frozenset(row["id"] for row in found)
        return _new(found, known)


def _new(dead: list[dict[str, Any]], known: Collection[str]) -> list[Told]:
    return [JobDead(**row) for row in dead if row["id"] not in known]


def _entry(row: dict[str, Any], others: tuple[str, ...]) -> Told:
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


# The bus: messages between the parts of one process, to whoever listens at that moment.
#
# Nobody who publishes ever waits, and where nobody listens publishing costs nothing. Each subscriber has a queue of
# its own with room for so many messages; one who reads too slowly loses the oldest, and is told how many before the
# next. Nothing is kept for who comes later: what must be known then is in the store.

ROOM: Final = 256


@dataclass(frozen=True, kw_only=True, slots=True)
class Lost:
    """So many messages were dropped here, because their reader was too slow."""

    count: int


Message = MemoryProgress | Told
"""What is published: a closed union of frozen values."""


class Subscription:
    """The messages of one subscriber. `Bus.subscribed` makes it."""

    def __init__(self, room: int, wake: Callable[[], None] | None = None) -> None:
        self._waiting: deque[Message] = deque()
        self._room = room
        self._wake = wake
        self._topics: frozenset[Topic] = frozenset(TOPICS)
        self._lost = 0
        self._changed = Condition()

    @property
    def topics(self) -> frozenset[Topic]:
        """What it is told of."""
        return self._topics

    def choose(self, topics: Collection[Topic]) -> None:
        """Be told of these from now on, and of nothing else; what waits already is still read."""
        with self._changed:
            self._topics = frozenset(topics)

    def put(self, message: Message) -> None:
        """Add a message if it is one of those chosen; where there is no room the oldest goes."""
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
        """The next message, or how many were lost before it; None if none comes within so many seconds."""
        with self._changed:
            if not self._changed.wait_for(lambda: bool(self._waiting), seconds):
                return None
            if self._lost:
                lost, self._lost = Lost(count=self._lost), 0
                return lost
            return self._waiting.popleft()


class Bus:
    """Publish and subscribe within one process. Safe for several threads."""

    def __init__(self) -> None:
        self._subscriptions: list[Subscription] = []
        self._lock = Lock()

    def publish(self, message: Message) -> None:
        """Give a message to everybody who listens now."""
        if not self._subscriptions:
            return
        with self._lock:
            for subscription in self._subscriptions:
                subscription.put(message)

    @contextmanager
    def subscribed(self, room: int = ROOM, wake: Callable[[], None] | None = None) -> Generator[Subscription]:
        """Listen for as long as the block runs.

        Args:
            room: how many messages may wait to be read.
            wake: called when a message waits where none did, by the thread that publishes, which it must not keep.
        """
        subscription = Subscription(room, wake)
        with self._lock:
            self._subscriptions.append(subscription)
        try:
            yield subscription
        finally:
            with self._lock:
                self._subscriptions.remove(subscription)


# The feed: what is written, told to whoever listens on the bus, after it is on disk.
#
# Dozens of verbs change events, memories and threads. None of them tells: whatever they commit leaves its trace in
# the store, and the feed follows these traces by marks. The lane that writes only sets a flag after a commit, and
# only while somebody listens; reading and telling is the work of a thread of its own. Nothing is told that was rolled
# back, and what was committed before the first listener came is not told at all.

_LOG = logging.getLogger(__name__)
#: Commits that come within so many seconds are read together.
_TOGETHER_SECONDS: Final = 0.2

Read = Callable[[Callable[[Tx], Any]], Any]


class Feed:
    """Follows the store while somebody listens. Safe for several threads.

    Args:
        read: reads on the calling thread.
    """

    def __init__(self, bus: Bus, read: Read) -> None:
        self._bus, self._read = bus, read
        self._listeners = 0
        self._marks = UpTo()
        self._changing = Lock()
        self._wake, self._stopping = Flag(), Flag()
        self._thread = Thread(target=self._work, name="filrouge-feed", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def join(self, tx: Tx) -> None:
        """Somebody listens from now on: whatever is committed after this is told."""
        with self._changing:
            if not self._listeners:
                self._marks = FeedRows(tx).now()
            self._listeners += 1
        self._wake.set()  # what was committed meanwhile did not set it

    def leave(self) -> None:
        """Whoever joined listens no more."""
        with self._changing:
            self._listeners -= 1

    def committed(self) -> None:
        """Something is on disk. Costs the lane that writes next to nothing."""
        if self._listeners:
            self._wake.set()

    def look(self) -> None:
        """Tell what has been committed since the last look."""
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
            try:
                self.look()
            except Exception:  # the feed outlives a full disk; what it missed is in the store
                _LOG.exception("the live feed stumbled")
            self._stopping.wait(_TOGETHER_SECONDS)
