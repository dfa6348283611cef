"""Who waits for work, and who is at it: small signals between the threads of one process."""

from __future__ import annotations

from threading import Condition, Event, Lock


class Bell:
    """Wakes everybody who listens, each once for any number of rings."""

    def __init__(self) -> None:
        self._listeners: list[Event] = []
        self._lock = Lock()

    def listener(self) -> Event:
        """A flag that every ring sets; its owner clears it."""
        flag = Event()
        with self._lock:
            self._listeners.append(flag)
        return flag

    def set(self) -> None:
        """Ring."""
        with self._lock:
            for flag in self._listeners:
                flag.set()


class Rest:
    """Set while nobody is at work, and somebody has been."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._at_work: set[str] = set()
        self._begun = False

    def leave(self, name: str) -> None:
        """`name` goes to work."""
        with self._changed:
            self._at_work.add(name)
            self._changed.notify_all()

    def enter(self, name: str) -> None:
        """`name` has nothing to do."""
        with self._changed:
            self._begun = True
            self._at_work.discard(name)
            self._changed.notify_all()

    def is_set(self) -> bool:
        """True while everybody rests."""
        with self._changed:
            return self._begun and not self._at_work

    def wait(self, seconds: float) -> bool:
        """Wait until everybody rests; False if it takes longer."""
        with self._changed:
            return self._changed.wait_for(lambda: self._begun and not self._at_work, seconds)
