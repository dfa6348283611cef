"""Lanes: which thread does what.

SQLite has one writer, so there is one writing thread. It takes what is waiting, up to 64 writes, and commits
them together: one fsync serves them all, and nobody is told "done" before it returned. A write that fails
rolls back alone. Reads run on a small pool, a connection for each thread.
"""

from __future__ import annotations

import logging
import queue
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Thread, local
from typing import Any, TypeVar, cast

from filrouge.errors import Busy, StoreError
from filrouge.ports import Database, Tx

_LOG = logging.getLogger(__name__)
MOST_PER_COMMIT = 64
READERS = 4

T = TypeVar("T")
_Write = tuple[Callable[[Tx], Any], "Future[Any]"]


class WriterLane:
    """The one thread that writes."""

    def __init__(self, open_database: Callable[[], Database]) -> None:
        self._open = open_database
        self._waiting: queue.SimpleQueue[_Write | None] = queue.SimpleQueue()
        self._closed = False
        self._thread = Thread(target=self._work, name="filrouge-writer", daemon=True)
        self._thread.start()

    def submit(self, write: Callable[[Tx], T]) -> Future[T]:
        """Run `write` in a transaction; the future ends when the commit is on disk.

        Raises:
            Busy: the lane is closed.
        """
        if self._closed:
            raise Busy("Filrouge is stopping.")
        future: Future[T] = Future()
        self._waiting.put((write, future))
        return future

    def run(self, write: Callable[[Tx], T]) -> T:
        """`submit` and wait."""
        return self.submit(write).result()

    def close(self) -> None:
        """Finish what is waiting, then stop."""
        self._closed = True
        self._waiting.put(None)
        self._thread.join()

    def _work(self) -> None:
        database = self._open()
        going = True
        while going:
            batch, going = self._next_batch()
            if batch and not _commit(database, batch):
                # After a failed commit the connection's state is not to be trusted: begin afresh.
                database.close()
                database = self._open()
        database.checkpoint()
        database.close()

    def _next_batch(self) -> tuple[list[_Write], bool]:
        batch: list[_Write] = []
        item = self._waiting.get()
        while item is not None:
            batch.append(item)
            if len(batch) == MOST_PER_COMMIT or self._waiting.empty():
                return batch, True
            item = self._waiting.get()
        return batch, False


def _commit(database: Database, batch: list[_Write]) -> bool:
    """Commit a batch and tell everyone; False if the commit itself failed."""
    outcomes: list[tuple[Future[Any], Any, BaseException | None]] = []
    try:
        with database.transaction():
            for write, future in batch:
                outcomes.append((future, *_attempt(database, write)))
    except StoreError as error:
        _LOG.exception("commit failed")
        for _, future in batch:
            future.set_exception(error)
        return False
    for future, result, failure in outcomes:
        if failure is None:
            future.set_result(result)
        else:
            future.set_exception(failure)
    return True


def _attempt(database: Database, write: Callable[[Tx], Any]) -> tuple[Any, BaseException | None]:
    try:
        with database.savepoint() as tx:
            return write(tx), None
    except Exception as error:  # whatever it is belongs to the one who asked, not to the batch
        return None, error


class ReaderPool:
    """Threads that read, each on its own connection."""

    def __init__(self, open_database: Callable[[], Database]) -> None:
        self._open = open_database
        self._threads = local()
        self._opened: list[Database] = []
        self._pool = ThreadPoolExecutor(READERS, thread_name_prefix="filrouge-reader")

    def submit(self, read: Callable[[Tx], T]) -> Future[T]:
        """Run `read` on the pool."""
        return self._pool.submit(self._run, read)

    def here(self, read: Callable[[Tx], T]) -> T:
        """Run `read` on the calling thread, with that thread's connection."""
        return self._run(read)

    def close(self) -> None:
        """Stop after what is running, and close every connection, so that the write-ahead log can go."""
        self._pool.shutdown(wait=True)
        while self._opened:
            self._opened.pop().close()

    def _run(self, read: Callable[[Tx], T]) -> T:
        database = cast("Database | None", getattr(self._threads, "database", None))
        if database is None:
            database = self._threads.database = self._open()
            self._opened.append(database)
        return read(database.tx)
