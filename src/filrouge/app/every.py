"""Does something again and again on a thread of its own. What fails is logged, and tried again when its time comes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event as Flag
from threading import Thread

from filrouge.errors import FilrougeError

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
