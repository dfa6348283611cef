"""Background work: vectors for memories that came without one, tidying, and a daily check of each journal.

In: jobs of the queue; a push defers them in its transaction, and the worker at regular times. Out: vectors, fewer rows,
the result of each check. Any number of workers share one queue (`queue`).

A worker has the serving role's login and the secret of the installation's processes. With both it enters one tenant
at a time, and row security binds it there as it binds a member. Every job may run twice, because the job of a worker
that was killed is run again.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import psycopg
from msgspec import Struct
from msgspec.structs import asdict, replace
from pgvector import HalfVector
from procrastinate import App, JobContext, PsycopgConnector, RetryStrategy
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Status
from psycopg_pool import PoolTimeout

from filrouge.core.errors import Busy, EmbedderUnavailable, FilrougeError, HubUnavailable, Unauthorized
from filrouge.core.protocols import Embedder, Vectors
from filrouge.hub import journal, queue
from filrouge.hub.database import Connection, HubDatabase, lock_versions
from filrouge.runtime.journal import JournalReport

#: The waits between attempts are 3, 9, 27 … seconds: two hours and three quarters in all.
_MAX_ATTEMPTS: Final = 8
_RETRY: Final = RetryStrategy(max_attempts=_MAX_ATTEMPTS, exponential_wait=3)
#: A worker that is silent for so long is taken for dead; a live one reports every 10 seconds.
_STALLED_SECONDS: Final = 30.0
_AGAIN_SECONDS: Final = 5.0
_KEEP_HOURS: Final = 24
#: Versions that one round of `catch_up` puts into the queue.
_MAX_CATCH_UP: Final = 100_000
_LOST_ENTRY: Final = """
SELECT checks.entries FROM hub.journal_checks AS checks
LEFT JOIN hub.journal ON journal.tenant = checks.tenant AND number = checks.entries
WHERE checks.tenant = %s AND checks.head IS NOT NULL AND checks.head IS DISTINCT FROM journal.hash
"""
_SOUND: Final = """
INSERT INTO hub.journal_checks (tenant, entries, head) VALUES (%(tenant)s, %(entries)s,
  (SELECT hash FROM hub.journal WHERE tenant = %(tenant)s AND number = %(entries)s))
ON CONFLICT (tenant) DO UPDATE SET checked_at = now(), entries = excluded.entries, head = excluded.head,
  broken_at = NULL, reason = ''
"""
_BROKEN: Final = """
INSERT INTO hub.journal_checks (tenant, broken_at, reason) VALUES (%(tenant)s, %(broken_at)s, %(reason)s)
ON CONFLICT (tenant) DO UPDATE SET checked_at = now(), broken_at = excluded.broken_at, reason = excluded.reason
"""
#: Errors of a database that does not answer.
_LOST: Final = (ConnectorException, HubUnavailable, Busy, psycopg.OperationalError, PoolTimeout)
_LOG: Final = logging.getLogger(__name__)


class HubWorker(Struct, frozen=True, kw_only=True):
    """What a worker does, job by job.

    Attributes:
        process_secret: of the installation's processes; `schema.init` made it.
    """

    database: HubDatabase
    embedder: Embedder
    process_secret: str

    def __repr__(self) -> str:
        return f"HubWorker(database={self.database!r}, embedder={self.embedder!r})"  # never the secret

    def start(self) -> None:
        """Check the secret, and let pushes defer jobs from now on.

        Raises:
            Unauthorized: the secret is not the installation's.
        """
        with self._transaction() as connection:
            connection.execute("SELECT hub.start_work(%s)", [self.process_secret])

    def embed(self, tenant: str, memories: list[str]) -> int:
        """Store a vector for the live latest version of each memory that has none.

        The model works between two transactions. What was forgotten or changed in the meantime stays as it is. The
        first vector of a tenant decides its space; a tenant with another space is left to workers of that space.

        Returns:
            The number of vectors that were stored.

        Raises:
            EmbedderUnavailable: the embedder failed.
        """
        with self._transaction(tenant) as connection:
            rows = connection.execute(
                "SELECT memory, version, text FROM hub.versions JOIN hub.tenants USING (tenant)"
                " WHERE tenant = %s AND memory = ANY(%s) AND is_latest AND state = 'live' AND vector IS NULL"
                " AND tenants.space IN ('', %s)",
                [tenant, memories, self.embedder.space.id],
            ).fetchall()
        if not rows:
            return 0
        vectors = self._vectors([row["text"] for row in rows])
        with self._transaction(tenant) as connection, connection.cursor() as cursor:
            lock_versions(connection, tenant)
            if not self._claim_space(connection, tenant):
                return 0
            cursor.executemany(
                "UPDATE hub.versions SET space = %s, vector = %s::halfvec WHERE tenant = %s AND memory = %s"
                " AND version = %s AND is_latest AND state = 'live' AND vector IS NULL",
                [
                    (self.embedder.space.id, HalfVector(vector).to_text(), tenant, row["memory"], row["version"])
                    for row, vector in zip(rows, vectors, strict=True)
                ],
            )
            return cursor.rowcount

    def _claim_space(self, connection: Connection, tenant: str) -> bool:
        """Make the embedder's space the tenant's if it has none; return whether it is the tenant's."""
        space = self.embedder.space
        connection.execute(
            "UPDATE hub.tenants SET space = %s, dimension = %s WHERE tenant = %s AND space = ''",
            [space.id, space.dimension, tenant],
        )
        row = connection.execute(
            "SELECT 1 FROM hub.tenants WHERE tenant = %s AND space = %s", [tenant, space.id]
        ).fetchone()
        return row is not None

    def _vectors(self, texts: list[str]) -> Vectors:
        """Return the vectors of texts; an error says what kind it is, as its message may quote a text."""
        try:
            return self.embedder.passages(texts)
        except Exception as error:
            raise EmbedderUnavailable(f"The embedder failed: {type(error).__name__}.") from None

    def catch_up(self) -> None:
        """Defer what no push deferred: versions without a vector, and journals that are due for a check."""
        with self._transaction() as connection:
            waiting = dict[str, list[str]]()
            found = connection.execute(
                "SELECT * FROM hub.waiting(%s, %s, %s)", [self.process_secret, self.embedder.space.id, _MAX_CATCH_UP]
            )
            for row in found:
                waiting.setdefault(row["tenant"], []).append(row["memory"])
            for tenant, memories in waiting.items():
                queue.defer_embedding(connection, tenant, memories)
            unchecked = connection.execute("SELECT hub.unchecked(%s) AS tenant", [self.process_secret]).fetchall()
            queue.defer_checks(connection, [row["tenant"] for row in unchecked])

    def tidy(self) -> None:
        """Delete tokens that expired 30 days ago, and receipts of devices whose member was removed."""
        with self._transaction() as connection:
            connection.execute("SELECT hub.tidy(%s)", [self.process_secret])

    def verify(self, tenant: str) -> JournalReport:
        """Check the journal of a tenant, and keep the result for its status. A broken one is an error in the log.

        The last entry of the check before must still be there: the chain alone does not show that its end was cut off,
        or cut off and written anew.
        """
        with self._transaction(tenant) as connection:
            report = journal.verify(connection, tenant)
            lost = connection.execute(_LOST_ENTRY, [tenant]).fetchone()
            if report.sound and lost:
                report = replace(report, broken_at=lost["entries"], reason="entries that were checked are gone")
            connection.execute(_SOUND if report.sound else _BROKEN, {"tenant": tenant, **asdict(report)})
        if not report.sound:
            _LOG.error("The journal of team %s is broken at entry %s: %s", tenant, report.broken_at, report.reason)
        return report

    @contextmanager
    def _transaction(self, tenant: str = "") -> Generator[Connection]:
        """A transaction that sees the rows of a tenant; of none without a name."""
        with self.database.transaction() as connection:
            try:
                if tenant:
                    connection.execute("SELECT hub.enter_work(%s, %s)", [self.process_secret, tenant])
                yield connection
            except psycopg.errors.InsufficientPrivilege as error:
                raise Unauthorized(
                    "The hub refuses this process: its secret is missing or wrong.",
                    remedy="Set FILROUGE_HUB_PROCESS_SECRET; `filrouge hub init --new-process-secret` makes another.",
                ) from error


def create_app(worker: HubWorker, connector: PsycopgConnector) -> App:
    """Return procrastinate's application with the tasks of a worker."""
    app = App(connector=connector)

    @app.task(name="embed", retry=_RETRY)
    def embed(tenant: str, memories: list[str]) -> None:
        with _told_plainly("embed"):
            worker.embed(tenant, memories)

    @app.task(name="verify", retry=_RETRY)
    def verify(tenant: str) -> None:
        with _told_plainly("verify"):
            worker.verify(tenant)

    @app.periodic(cron="*/10 * * * *")
    @app.task(name="catch_up", queueing_lock="catch_up", priority=1)
    def catch_up(timestamp: int) -> None:  # noqa: ARG001 (procrastinate passes it)
        with _told_plainly("catch_up"):
            worker.catch_up()

    @app.periodic(cron="0 * * * *")
    @app.task(name="tidy", queueing_lock="tidy")
    async def tidy(timestamp: int) -> None:  # noqa: ARG001 (procrastinate passes it)
        with _told_plainly("tidy"):
            await asyncio.to_thread(worker.tidy)
            await app.job_manager.delete_old_jobs(
                nb_hours=_KEEP_HOURS, include_failed=True, include_cancelled=True, include_aborted=True
            )

    @app.periodic(cron="* * * * *")
    @app.task(name="retry_stalled", queueing_lock="retry_stalled", priority=1, pass_context=True)
    async def retry_stalled(context: JobContext, timestamp: int) -> None:  # noqa: ARG001 (procrastinate passes it)
        await _retry_stalled(context.app)

    _ = embed, verify, catch_up, tidy, retry_stalled
    return app


@contextmanager
def _told_plainly(task: str) -> Generator[None]:
    """Log an error and raise it without its causes: what the driver says of a statement may quote a memory."""
    try:
        yield
    except Exception as error:
        told = error.message if isinstance(error, FilrougeError) else type(error).__name__
        _LOG.warning("The job %s failed: %s", task, told)
        raise FilrougeError(told) from None


async def _retry_stalled(app: App) -> None:
    """Put the jobs of workers that died back into the queue; one that outlived too many attempts has failed."""
    for job in await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=_STALLED_SECONDS):
        _LOG.warning("The job %s %s was left by a worker that died.", job.task_name, job.id)
        try:
            if job.attempts < _MAX_ATTEMPTS:
                await app.job_manager.retry_job(job)
            else:
                await app.job_manager.finish_job(job, Status.FAILED, delete_job=False)
        except ConnectorException:  # it has ended in the meantime
            _LOG.debug("The job %s is not stalled any more.", job.id)


def run(url: str, worker: HubWorker, *, wait: bool = True) -> None:
    """Work until SIGINT or SIGTERM; the job at hand is finished first. A worker that loses the database tries again.

    Args:
        url: the database, as the serving role.
        wait: False = stop when the queue is empty.
    """
    asyncio.run(_run(url, worker, wait=wait))


async def _run(url: str, worker: HubWorker, *, wait: bool) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    stopped = asyncio.create_task(stop.wait())
    while not stop.is_set():
        working = asyncio.create_task(_work(url, worker, wait=wait))
        await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if stop.is_set():
            working.cancel()
        ended = (await asyncio.gather(working, return_exceptions=True))[0]
        if isinstance(ended, Exception) and not (wait and isinstance(ended, _LOST)):
            raise ended
        if not wait:
            break
        if not stop.is_set():
            _LOG.warning("The worker lost the database; it tries again in %d seconds.", _AGAIN_SECONDS)
            await asyncio.wait({stopped}, timeout=_AGAIN_SECONDS)
    stopped.cancel()


async def _work(url: str, worker: HubWorker, *, wait: bool) -> None:
    app = create_app(worker, queue.connector(url))
    async with app.open_async():
        await _retry_stalled(app)
        await asyncio.to_thread(worker.catch_up)
        await app.run_worker_async(wait=wait, install_signal_handlers=False, stalled_worker_timeout=_STALLED_SECONDS)
