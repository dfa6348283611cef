"""Lanes: which thread does what.

SQLite has one writer, so there is one writing thread. It takes what is waiting, about 64 writes, and commits
them together: one fsync serves them all, and nobody is told "done" before it returned. A write that fails
rolls back alone. Reads run on a small pool, a connection for each thread.
"""

from __future__ import annotations

import logging
import queue
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock, Thread, local
from typing import Any, Literal, TypeVar, cast

from filrouge.errors import Busy, FilrougeError
from filrouge.ports import Database, Tx

_LOG = logging.getLogger(__name__)
MOST_PER_COMMIT = 64
READERS = 4

T = TypeVar("T")
_Write = tuple[Callable[[Tx], Any], "Future[Any]"]


class WriterLane:
    """The one thread that writes; `committed` is called by it after each commit, and must not keep it."""

    def __init__(self, open_database: Callable[[], Database], committed: Callable[[], None] = lambda: None) -> None:
        self._open = open_database
        self._committed = committed
        self._waiting: queue.SimpleQueue[Sequence[_Write] | Future[bool] | None] = queue.SimpleQueue()
        self._closed = False
        self._door = Lock()  # nothing may be put behind the mark that ends the lane
        self._thread = Thread(target=self._work, name="filrouge-writer", daemon=True)
        self._thread.start()

    def submit(self, write: Callable[[Tx], T]) -> Future[T]:
        """Run `write` in a transaction; the future ends when the commit is on disk.

        Raises:
            Busy: the lane is closed.
        """
        return self.submit_all([write])[0]

    def submit_all(self, writes: Sequence[Callable[[Tx], T]]) -> list[Future[T]]:
        """The same for several, which come into one commit; one that fails fails alone.

        Raises:
            Busy: the lane is closed.
        """
        together = [(write, Future[T]()) for write in writes]
        with self._door:
            if self._closed:
                raise Busy("Filrouge is stopping.")
            self._waiting.put(together)
        return [future for _, future in together]

    def run(self, write: Callable[[Tx], T]) -> T:
        """`submit` and wait."""
        return self.submit(write).result()

    def checkpoint(self) -> bool:
        """Empty the write-ahead log, after what is waiting; False if somebody who reads kept it from that.

        Raises:
            Busy: the lane is closed.
        """
        future: Future[bool] = Future()
        with self._door:
            if self._closed:
                raise Busy("Filrouge is stopping.")
            self._waiting.put(future)
        return future.result()

    def close(self) -> None:
        """Finish what is waiting, then stop."""
        with self._door:
            self._closed = True
            self._waiting.put(None)
        self._thread.join()

    def _work(self) -> None:
        database: Database | None = None
        end: Future[bool] | Literal["more"] | None = "more"
        while end is not None:
            batch, end = self._next_batch()
            # Whoever gave up waiting is not served; from here on nobody can give up any more.
            batch = [one for one in batch if one[1].set_running_or_notify_cancel()]
            try:
                database = database or self._open()
                _commit(database, batch)
                self._committed()
                if isinstance(end, Future):
                    end.set_result(database.checkpoint())
            except Exception as error:  # a full disk, a lost file: those who wait are told, and the lane goes on
                _LOG.exception("nothing of %d writes was kept", len(batch))
                for future in [*(future for _, future in batch), *([end] if isinstance(end, Future) else [])]:
                    if not future.done():
                        future.set_exception(error)
                # After a failed commit the connection's state is not to be trusted: the next batch begins afresh.
                _close(database)
                database = None
        _close(database, tidy=True)

    def _next_batch(self) -> tuple[list[_Write], Future[bool] | Literal["more"] | None]:
        """Writes to commit together, and what comes after them: a checkpoint, the end (None), or more."""
        batch: list[_Write] = []
        while True:
            item = self._waiting.get()
            if item is None or isinstance(item, Future):
                return batch, item
            batch.extend(item)
            if len(batch) >= MOST_PER_COMMIT or self._waiting.empty():
                return batch, "more"


def _commit(database: Database, batch: list[_Write]) -> None:
    """Commit a batch and tell everyone; if the commit itself fails nobody has been told anything."""
    if not batch:
        return
    outcomes: list[tuple[Future[Any], Any, BaseException | None]] = []
    with database.transaction():
        for write, future in batch:
            outcomes.append((future, *_attempt(database, write)))
    for future, result, failure in outcomes:
        if failure is None:
            future.set_result(result)
        else:
            future.set_exception(failure)


def _attempt(database: Database, write: Callable[[Tx], Any]) -> tuple[Any, BaseException | None]:
    try:
        with database.savepoint() as tx:
            return write(tx), None
    except Exception as error:
        if not database.in_transaction:
            # A full disk or a failed read makes SQLite give up the whole transaction: nothing of the batch stands.
            raise
        return None, error  # whatever it is belongs to the one who asked, not to the batch


def _close(database: Database | None, *, tidy: bool = False) -> None:
    if database is None:
        return
    try:
        if tidy:
            database.checkpoint()
        database.close()
    except FilrougeError:
        _LOG.warning("the database could not be closed in order; its log is replayed at the next start", exc_info=True)


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
