"""Signals between the threads of one process, and periodic tasks.

`Notifier` wakes the workers, `IdleTracker` is set while all of them are idle, and `PeriodicTask` runs a function at an
interval.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Condition, Event, Lock, Thread
from threading import Event as Flag

from filrouge.core.errors import FilrougeError


class Notifier:
    """Wakes all listeners, each once for any number of calls to `set`."""

    def __init__(self) -> None:
        self._listeners: list[Event] = []
        self._lock = Lock()

    def listener(self) -> Event:
        """A new flag that `set` raises; the listener clears it."""
        flag = Event()
        with self._lock:
            self._listeners.append(flag)
        return flag

    def set(self) -> None:
        """Raise the flags of all listeners."""
        with self._lock:
            for flag in self._listeners:
                flag.set()


class IdleTracker:
    """Set while no worker is busy, once any worker has been idle."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._at_work: set[str] = set()
        self._begun = False

    def leave(self, name: str) -> None:
        """Mark worker `name` as busy."""
        with self._changed:
            self._at_work.add(name)
            self._changed.notify_all()

    def enter(self, name: str) -> None:
        """Mark worker `name` as idle."""
        with self._changed:
            self._begun = True
            self._at_work.discard(name)
            self._changed.notify_all()

    def is_set(self) -> bool:
        """True while all workers are idle."""
        with self._changed:
            return self._begun and not self._at_work

    def wait(self, seconds: float) -> bool:
        """Wait until all workers are idle; False if that takes longer than `seconds`."""
        with self._changed:
            return self._changed.wait_for(lambda: self._begun and not self._at_work, seconds)


_LOG = logging.getLogger(__name__)


class PeriodicTask:
    """Calls a function periodically on its own thread, until stopped; the first call comes after one interval.

    A failure is logged, and the function is called again after the next interval.
    """

    def __init__(self, seconds: float, look: Callable[[], object], *, name: str, failed: str) -> None:
        """Take the interval, the function, the thread's name, and the message logged on failure."""
        self._seconds = seconds
        self._look = look
        self._failed = failed
        self._stopping = Flag()
        self._thread = Thread(target=self._work, name=f"filrouge-{name}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread after the current call."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _work(self) -> None:
        while not self._stopping.wait(self._seconds):
            try:
                self._look()
            except (FilrougeError, OSError):
                _LOG.exception(self._failed)
