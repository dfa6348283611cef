"""The bus: messages between the parts of one process, to whoever listens at that moment.

Nobody who publishes ever waits, and where nobody listens publishing costs nothing. Each subscriber has a queue of its
own with room for so many messages; one who reads too slowly loses the oldest, and is told how many before the next.
Nothing is kept for who comes later: what must be known then is in the store.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition, Lock
from typing import Final

from filrouge.garden.progress import MemoryProgress
from filrouge.model.live import TOPICS, Told, Topic

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
