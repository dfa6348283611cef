"""Executors and signals: one writer thread, a reader pool, a thread for long computations, periodic tasks.

SQLite allows one writer, so one thread does all writes. It takes up to 64 waiting writes and commits them together:
one fsync serves all of them, and a future completes only after the commit. A write that fails is rolled back alone.
Patient writes (those of jobs) yield: their batch is committed as soon as another write arrives, and they continue
after it. Reads run on a small pool with one connection per thread. Long computations have a thread of their own, so
that they do not delay other reads; a second one would only compete with it for the interpreter lock.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Condition, Event, Lock, Thread, local
from typing import Any, Final, TypeVar, cast

from filrouge.core.errors import Busy, FilrougeError
from filrouge.core.protocols import Database, Tx

_LOG = logging.getLogger(__name__)
MAX_WRITES_PER_COMMIT = 64
READER_THREADS = 4
#: After this many commits that overtook the patient queue, one batch of patient writes runs.
_MAX_OVERTAKING_COMMITS: Final = 8

T = TypeVar("T")
_Write = tuple[Callable[[Tx], Any], "Future[Any]"]


class Writer:
    """The only thread that writes. It calls `committed` after each commit; that callback must return quickly."""

    def __init__(self, open_database: Callable[[], Database], committed: Callable[[], None] = lambda: None) -> None:
        self._open = open_database
        self._committed = committed
        self._waiting: deque[_Write] = deque()
        #: Writes that yield to others. A bare future is a checkpoint; it runs after everything queued before it.
        self._patient: deque[_Write | Future[bool]] = deque()
        self._overtaking_commits = 0
        self._is_patient = False
        self._closed = False
        #: Why the last batch failed; None after the next successful batch.
        self.failure: Exception | None = None
        self._changed = Condition()
        self._thread = Thread(target=self._work, name="filrouge-writer", daemon=True)
        self._thread.start()

    def submit(self, write: Callable[[Tx], T]) -> Future[T]:
        """Run `write` in a transaction; the future completes when the commit is on disk.

        Raises:
            Busy: the executor is closed.
        """
        future = Future[T]()
        self._enqueue(self._waiting, [(write, future)])
        return future

    def submit_patient(self, writes: Sequence[Callable[[Tx], T]]) -> list[Future[T]]:
        """Queue several writes in order, at low priority. A write that fails does not affect the others.

        Raises:
            Busy: the executor is closed.
        """
        queued = [(write, Future[T]()) for write in writes]
        self._enqueue(self._patient, queued)
        return [future for _, future in queued]

    def run(self, write: Callable[[Tx], T]) -> T:
        """Call `submit` and wait for the result."""
        return self.submit(write).result()

    def run_patient(self, write: Callable[[Tx], T]) -> T:
        """Call `submit_patient` with one write and wait for the result."""
        return self.submit_patient([write])[0].result()

    def checkpoint(self) -> bool:
        """Empty the write-ahead log after the queued writes; False if a reader prevented it.

        Raises:
            Busy: the executor is closed.
        """
        future: Future[bool] = Future()
        self._enqueue(self._patient, [future])
        return future.result()

    def close(self) -> None:
        """Finish the queued writes, then stop."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _enqueue(self, queue: deque[Any], items: Iterable[Any]) -> None:
        with self._changed:
            if self._closed:  # no write may be queued after close
                raise Busy("Filrouge is stopping.")
            queue.extend(items)
            self._changed.notify()

    def _work(self) -> None:
        database: Database | None = None
        while (work := self._wait_for_work()) != "end":
            batch = list[_Write]() if isinstance(work, Future) else self._take_batch()
            try:
                database = database or self._open()
                if isinstance(work, Future):
                    work.set_result(database.checkpoint())
                elif batch:
                    _commit(database, batch, self._take_next_patient)
                    self.failure = None
                    self._committed()
            except Exception as error:  # a full disk, a lost file: fail the futures and continue
                self.failure = error
                _LOG.exception("a batch of %d writes failed", len(batch))
                for future in [*(future for _, future in batch), *([work] if isinstance(work, Future) else [])]:
                    if not future.done():
                        future.set_exception(error)
                # After a failed commit the connection is in an unknown state, so the next batch opens a new one.
                _close_database(database)
                database = None
        _close_database(database, checkpoint=True)

    def _wait_for_work(self) -> Future[bool] | str:
        """Wait for the next work, and return the future of a checkpoint, `"writes"`, or `"end"`."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._patient or self._closed)
            if self._waiting or (self._patient and isinstance(self._patient[0], tuple)):
                return "writes"
            return cast("Future[bool]", self._patient.popleft()) if self._patient else "end"

    def _take_batch(self) -> list[_Write]:
        """Take a batch of waiting writes, or one patient write when nothing else waits or its turn has come.

        Cancelled futures are dropped. From here on the remaining futures cannot be cancelled.
        """
        with self._changed:
            has_patient = bool(self._patient) and isinstance(self._patient[0], tuple)
            self._is_patient = has_patient and (
                not self._waiting or self._overtaking_commits >= _MAX_OVERTAKING_COMMITS
            )
            self._overtaking_commits = self._overtaking_commits + 1 if has_patient and not self._is_patient else 0
            queue: deque[Any] = self._patient if self._is_patient else self._waiting
            number = 1 if self._is_patient else min(MAX_WRITES_PER_COMMIT, len(queue))
            batch: list[_Write] = [queue.popleft() for _ in range(number)]
        return [write for write in batch if write[1].set_running_or_notify_cancel()]

    def _take_next_patient(self) -> _Write | None:
        """Take the next patient write for the same commit; None as soon as an ordinary write waits."""
        while True:
            with self._changed:
                if not self._is_patient or self._waiting or not self._patient:
                    return None
                write = self._patient[0]
                if not isinstance(write, tuple):
                    return None
                self._patient.popleft()
            if write[1].set_running_or_notify_cancel():
                return write


def _commit(database: Database, batch: list[_Write], take_next: Callable[[], _Write | None]) -> None:
    """Commit a batch and complete its futures. If the commit fails, no future has been completed yet.

    Args:
        batch: grows by what `take_next` returns.
    """
    outcomes: list[tuple[Any, BaseException | None]] = []
    with database.transaction():
        outcomes += [_attempt(database, write) for write, _ in batch]
        while len(batch) < MAX_WRITES_PER_COMMIT and (extra_write := take_next()) is not None:
            batch.append(extra_write)
            outcomes.append(_attempt(database, extra_write[0]))
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
            # On a full disk or a failed read, SQLite rolls back the whole transaction, so nothing of the batch is kept.
            raise
        return None, error  # the error belongs to this write, not to the batch


def _close_database(database: Database | None, *, checkpoint: bool = False) -> None:
    if database is None:
        return
    try:
        if checkpoint:
            database.checkpoint()
        database.close()
    except FilrougeError:
        _LOG.warning("the database was not closed cleanly; its log will be replayed at the next start", exc_info=True)


class ReaderPool:
    """Threads for reading, each with its own connection."""

    def __init__(self, open_database: Callable[[], Database]) -> None:
        self._open = open_database
        self._connections = local()
        self._opened: list[Database] = []
        self._pool = ThreadPoolExecutor(READER_THREADS, thread_name_prefix="filrouge-reader")
        self._recall_pool = ThreadPoolExecutor(1, thread_name_prefix="filrouge-recall")
        self._recalls = 0
        self._lock = Lock()

    @property
    def is_recalling(self) -> bool:
        """True while a long-running read runs or waits; somebody waits for it."""
        return self._recalls > 0

    def submit(self, read: Callable[[Tx], T]) -> Future[T]:
        """Run `read` on the pool."""
        return self._pool.submit(self._run, read)

    def submit_recall(self, read: Callable[[Tx], T]) -> Future[T]:
        """Run a long-running `read` on the thread for long computations."""
        with self._lock:
            self._recalls += 1
        future = self._recall_pool.submit(self._run, read)
        future.add_done_callback(self._end_recall)
        return future

    def here(self, read: Callable[[Tx], T]) -> T:
        """Run `read` on the calling thread with that thread's connection."""
        return self._run(read)

    def close(self) -> None:
        """Wait for running reads, then close every connection so that the write-ahead log can be removed."""
        self._pool.shutdown(wait=True)
        self._recall_pool.shutdown(wait=True)
        while self._opened:
            self._opened.pop().close()

    def _end_recall(self, _: Future[Any]) -> None:
        with self._lock:
            self._recalls -= 1

    def _run(self, read: Callable[[Tx], T]) -> T:
        database = cast("Database | None", getattr(self._connections, "database", None))
        if database is None:
            database = self._connections.database = self._open()
            self._opened.append(database)
        return read(database.tx)


# Signals between the threads of one process, and periodic tasks.
#
# `Notifier` wakes the workers, `IdleTracker` is set while all of them are idle, and `PeriodicTask` runs a function at
# an interval.


class Notifier:
    """Wakes all listeners, each once for any number of calls to `set`."""

    def __init__(self) -> None:
        self._listeners: list[Event] = []
        self._lock = Lock()

    def listener(self) -> Event:
        """Return a new flag that `set` raises; the listener clears it."""
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
        self._busy: set[str] = set()
        self._was_idle = False

    def mark_busy(self, name: str) -> None:
        """Mark worker `name` as busy."""
        with self._changed:
            self._busy.add(name)
            self._changed.notify_all()

    def mark_idle(self, name: str) -> None:
        """Mark worker `name` as idle."""
        with self._changed:
            self._was_idle = True
            self._busy.discard(name)
            self._changed.notify_all()

    def is_set(self) -> bool:
        """Return True while all workers are idle."""
        with self._changed:
            return self._was_idle and not self._busy

    def wait(self, seconds: float) -> bool:
        """Wait until all workers are idle; False if that takes longer than `seconds`."""
        with self._changed:
            return self._changed.wait_for(lambda: self._was_idle and not self._busy, seconds)


class Background:
    """A thread that runs until it is stopped. A subclass implements `_work`, which returns once `_stopping` is set."""

    def __init__(self, name: str, wake: Event | None = None, patience: float | None = None) -> None:
        """Take the thread's name, the flag that `stop` also sets, so that a wait for work ends, and its patience.

        Args:
            patience: the seconds that `stop` waits for the current work at most; None = until it is done.
        """
        self._wake, self._stopping, self._patience = wake or Event(), Event(), patience
        self._thread = Thread(target=self._work, name=f"filrouge-{name}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Finish the current work, then end the thread. One that waits longer than its patience ends on its own."""
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(self._patience)

    def _work(self) -> None:
        raise NotImplementedError


class PeriodicTask(Background):
    """Calls a function periodically on its own thread, until stopped; the first call comes after one interval.

    `wake` brings the next call forward. A failure is logged, and the function is called again after the next interval.
    """

    def __init__(
        self,
        seconds: float | Callable[[], float],
        task: Callable[[], object],
        *,
        name: str,
        failure_message: str,
        patience: float | None = None,
    ) -> None:
        """Take the interval, the function, the thread's name, the message logged on failure, and its patience.

        If the interval is a function, it is called before each wait, so that a task with nothing to do waits longer.
        A task that waits for the network needs a patience, so that `stop` does not wait as long.
        """
        self.has_varying_interval = callable(seconds)
        self._seconds = seconds
        self._task = task
        self._failure_message = failure_message
        super().__init__(name, patience=patience)

    def wake(self) -> None:
        """Call the function now, or once more if it is running."""
        self._wake.set()

    def _work(self) -> None:
        while True:
            self._wake.wait(self._seconds() if callable(self._seconds) else self._seconds)
            if self._stopping.is_set():
                return
            self._wake.clear()
            try:
                self._task()
            except (FilrougeError, OSError):
                _LOG.exception(self._failure_message)
