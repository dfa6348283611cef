"""The feed: what is written, told to whoever listens on the bus, after it is on disk.

Dozens of verbs change events, memories and threads. None of them tells: whatever they commit leaves its trace in the
store, and the feed follows these traces by marks. The lane that writes only sets a flag after a commit, and only while
somebody listens; reading and telling is the work of a thread of its own. Nothing is told that was rolled back, and
what was committed before the first listener came is not told at all.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event as Flag
from threading import Lock, Thread
from typing import Any, Final

from filrouge.app.bus import Bus
from filrouge.app.decision_log import record
from filrouge.ports import Tx
from filrouge.store.feed import FeedRows, UpTo

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
