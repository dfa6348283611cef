"""Lanes: which thread does what.

SQLite has one writer, so there is one writing thread. It takes what is waiting, about 64 writes, and commits
them together: one fsync serves them all, and nobody is told "done" before it returned. A write that fails
rolls back alone. What nobody waits for, the work of jobs, lets everybody else pass: it is committed as soon as
somebody comes, and goes on behind them. Reads run on a small pool, a connection for each thread; what computes long
has a pool of its own, so that nobody who writes or reads a row stands behind it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Condition, Thread, local
from typing import Any, Final, TypeVar, cast

from filrouge.core.errors import Busy, FilrougeError
from filrouge.core.protocols import Database, Tx

_LOG = logging.getLogger(__name__)
MOST_PER_COMMIT = 64
READERS = 4
#: More would only take the interpreter from each other, and from everybody else.
RECALLS: Final = 2
#: After so many commits that passed by what is patient, some of that has its turn.
_PASSED: Final = 8

T = TypeVar("T")
_Write = tuple[Callable[[Tx], Any], "Future[Any]"]


class WriterLane:
    """The one thread that writes; `committed` is called by it after each commit, and must not keep it."""

    def __init__(self, open_database: Callable[[], Database], committed: Callable[[], None] = lambda: None) -> None:
        self._open = open_database
        self._committed = committed
        self._waiting: deque[_Write] = deque()
        #: What lets others pass; a mark alone is a checkpoint, which comes after everything before it.
        self._patient: deque[_Write | Future[bool]] = deque()
        self._passed = 0
        self._is_patient = False
        self._closed = False
        #: Why the last batch was not kept; None once one is kept again.
        self.failure: Exception | None = None
        self._changed = Condition()
        self._thread = Thread(target=self._work, name="filrouge-writer", daemon=True)
        self._thread.start()

    def submit(self, write: Callable[[Tx], T]) -> Future[T]:
        """Run `write` in a transaction; the future ends when the commit is on disk.

        Raises:
            Busy: the lane is closed.
        """
        future = Future[T]()
        self._put(self._waiting, [(write, future)])
        return future

    def submit_patient(self, writes: Sequence[Callable[[Tx], T]]) -> list[Future[T]]:
        """The same for several in their order, which let others pass; one that fails fails alone.

        Raises:
            Busy: the lane is closed.
        """
        together = [(write, Future[T]()) for write in writes]
        self._put(self._patient, together)
        return [future for _, future in together]

    def run(self, write: Callable[[Tx], T]) -> T:
        """`submit` and wait."""
        return self.submit(write).result()

    def run_patient(self, write: Callable[[Tx], T]) -> T:
        """`submit_patient` and wait."""
        return self.submit_patient([write])[0].result()

    def checkpoint(self) -> bool:
        """Empty the write-ahead log, after what is waiting; False if somebody who reads kept it from that.

        Raises:
            Busy: the lane is closed.
        """
        future: Future[bool] = Future()
        self._put(self._patient, [future])
        return future.result()

    def close(self) -> None:
        """Finish what is waiting, then stop."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _put(self, line: deque[Any], items: Iterable[Any]) -> None:
        with self._changed:
            if self._closed:  # nothing may be put behind the end
                raise Busy("Filrouge is stopping.")
            line.extend(items)
            self._changed.notify()

    def _work(self) -> None:
        database: Database | None = None
        while (mark := self._awaited()) != "end":
            batch = list[_Write]() if isinstance(mark, Future) else self._taken()
            try:
                database = database or self._open()
                if isinstance(mark, Future):
                    mark.set_result(database.checkpoint())
                elif batch:
                    _commit(database, batch, self._one_more)
                    self.failure = None
                    self._committed()
            except Exception as error:  # a full disk, a lost file: those who wait are told, and the lane goes on
                self.failure = error
                _LOG.exception("nothing of %d writes was kept", len(batch))
                for future in [*(future for _, future in batch), *([mark] if isinstance(mark, Future) else [])]:
                    if not future.done():
                        future.set_exception(error)
                # After a failed commit the connection's state is not to be trusted: the next batch begins afresh.
                _close(database)
                database = None
        _close(database, tidy=True)

    def _awaited(self) -> Future[bool] | str:
        """Wait for what is next: a checkpoint, the `end`, or `writes`."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._patient or self._closed)
            if self._waiting or (self._patient and isinstance(self._patient[0], tuple)):
                return "writes"
            return cast("Future[bool]", self._patient.popleft()) if self._patient else "end"

    def _taken(self) -> list[_Write]:
        """All that waits; or, where nothing does or it is its turn, one that is patient.

        Whoever gave up waiting is not served; from here on nobody can give up any more.
        """
        with self._changed:
            has_patient = bool(self._patient) and isinstance(self._patient[0], tuple)
            self._is_patient = has_patient and (not self._waiting or self._passed >= _PASSED)
            self._passed = self._passed + 1 if has_patient and not self._is_patient else 0
            line: deque[Any] = self._patient if self._is_patient else self._waiting
            number = 1 if self._is_patient else min(MOST_PER_COMMIT, len(line))
            batch: list[_Write] = [line.popleft() for _ in range(number)]
        return [one for one in batch if one[1].set_running_or_notify_cancel()]

    def _one_more(self) -> _Write | None:
        """The next that is patient, for the same commit; None once somebody waits."""
        while True:
            with self._changed:
                if not self._is_patient or self._waiting or not self._patient:
                    return None
                one = self._patient[0]
                if not isinstance(one, tuple):
                    return None
                self._patient.popleft()
            if one[1].set_running_or_notify_cancel():
                return one


def _commit(database: Database, batch: list[_Write], one_more: Callable[[], _Write | None]) -> None:
    """Commit a batch and tell everyone; if the commit itself fails nobody has been told anything.

    Args:
        batch: grows by what `one_more` gives.
    """
    outcomes: list[tuple[Any, BaseException | None]] = []
    with database.transaction():
        outcomes += [_attempt(database, write) for write, _ in batch]
        while len(batch) < MOST_PER_COMMIT and (one := one_more()) is not None:
            batch.append(one)
            outcomes.append(_attempt(database, one[0]))
    for (_, future), (result, failure) in zip(batch, outcomes, strict=True):
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
        self._recalls = ThreadPoolExecutor(RECALLS, thread_name_prefix="filrouge-recall")

    def submit(self, read: Callable[[Tx], T]) -> Future[T]:
        """Run `read` on the pool."""
        return self._pool.submit(self._run, read)

    def submit_recall(self, read: Callable[[Tx], T]) -> Future[T]:
        """Run `read`, which computes long, on the pool for that."""
        return self._recalls.submit(self._run, read)

    def here(self, read: Callable[[Tx], T]) -> T:
        """Run `read` on the calling thread, with that thread's connection."""
        return self._run(read)

    def close(self) -> None:
        """Stop after what is running, and close every connection, so that the write-ahead log can go."""
        self._pool.shutdown(wait=True)
        self._recalls.shutdown(wait=True)
        while self._opened:
            self._opened.pop().close()

    def _run(self, read: Callable[[Tx], T]) -> T:
        database = cast("Database | None", getattr(self._threads, "database", None))
        if database is None:
            database = self._threads.database = self._open()
            self._opened.append(database)
        return read(database.tx)
