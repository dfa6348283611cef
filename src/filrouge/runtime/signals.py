"""Small signals between the threads of one process, and work that is done again and again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Condition, Event, Lock, Thread
from threading import Event as Flag

from filrouge.core.errors import FilrougeError

# Who waits for work, and who is at it: small signals between the threads of one process.


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


# Does something again and again on a thread of its own. What fails is logged, and tried again when its time comes.

_LOG = logging.getLogger(__name__)


class Every:
    """Looks every so many seconds, until stopped; for the first time after the first of them."""

    def __init__(self, seconds: float, look: Callable[[], object], *, name: str, failed: str) -> None:
        """Take what to do, the thread's name, and what the log says when it fails."""
        self._seconds = seconds
        self._look = look
        self._failed = failed
        self._stopping = Flag()
        self._thread = Thread(target=self._work, name=f"filrouge-{name}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, after what is being done."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _work(self) -> None:
        while not self._stopping.wait(self._seconds):
            try:
                self._look()
            except (FilrougeError, OSError):
                _LOG.exception(self._failed)
