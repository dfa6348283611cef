"""The bus: messages between the parts of one process, to whoever listens at that moment.

Nobody who publishes ever waits. Each subscriber has a queue of its own with room for so many messages; one who reads
too slowly loses the oldest, and is told how many before the next. Nothing is kept for who comes later: what must be
known then is in the store.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition, Lock
from typing import Final

from filrouge.garden.progress import MemoryProgress

ROOM: Final = 256


@dataclass(frozen=True, kw_only=True, slots=True)
class Lost:
    """So many messages were dropped here, because their reader was too slow."""

    count: int


Message = MemoryProgress
"""What is published: a closed union of frozen values."""


class Subscription:
    """The messages of one subscriber. `Bus.subscribed` makes it."""

    def __init__(self, room: int) -> None:
        self._waiting: deque[Message] = deque()
        self._room = room
        self._lost = 0
        self._changed = Condition()

    def put(self, message: Message) -> None:
        """Add a message; where there is no room the oldest goes."""
        with self._changed:
            if len(self._waiting) == self._room:
                self._waiting.popleft()
                self._lost += 1
            self._waiting.append(message)
            self._changed.notify()

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
        with self._lock:
            for subscription in self._subscriptions:
                subscription.put(message)

    @contextmanager
    def subscribed(self, room: int = ROOM) -> Generator[Subscription]:
        """Listen for as long as the block runs.

        Args:
            room: how many messages may wait to be read.
        """
        subscription = Subscription(room)
        with self._lock:
            self._subscriptions.append(subscription)
        try:
            yield subscription
        finally:
            with self._lock:
                self._subscriptions.remove(subscription)
