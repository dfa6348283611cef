"""Jobs: the outbox table, the worker threads that run its jobs, and the queue as users see it.

A job is written in the same transaction as the row that causes it. Delivery is at least once: a worker leases a job,
and the lease expires if the worker dies. A handler's writes and the end of its job are one transaction, so a job that
runs twice takes effect once. A failing job is retried with back-off and set aside (a dead letter) after eight
attempts.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from msgspec import Struct

from filrouge.capture.repository import Events
from filrouge.core.clock import Clock, add_seconds, from_text, monotonic, new_id, next_day, to_text
from filrouge.core.errors import (
    Busy,
    CannotWrite,
    EmbedderUnavailable,
    FilrougeError,
    ModelUnavailable,
    NotFound,
    OverBudget,
)
from filrouge.core.guard import logged
from filrouge.core.protocols import Tx
from filrouge.runtime.executors import Background, Writer
from filrouge.runtime.services import Parts

# The outbox.
#
# Jobs of one kind may be leased together. When the process dies, the next one cannot tell which of the leased jobs
# caused it, if any. So after a first death every job that was leased is leased alone, as if never tried. After a
# second death it also waits, longer each time. After eight deaths (all but the first alone, over more than two
# minutes) it is set aside as dead. A daemon that is killed at random times therefore does not lose a good job: such a
# job finishes when its turn comes, and a long one that made progress has its counters reset.

LEASE_SECONDS = 120.0
MAX_ATTEMPTS = 8
MAX_DEATHS = 8
#: Understanding comes before embedding, so that a prompt does not wait until a whole history is embedded.
_UNDERSTANDING = frozenset({"read_turns", "analyse", "reconcile", "brief"})
#: Summaries, links and catching up on the past come last, because nobody waits for them. A prompt is placed in a thread
#: after all embedding jobs, so that its vector exists.
_BACKGROUND = frozenset(
    {"thread", "digest", "synthesise", "bridge", "regroup", "rename", "thread_earlier", "retain", "garden"}
)
#: Jobs that call a model have their own workers, so that no other job waits for a model.
_MODEL_CALLS = frozenset({"extract", "recount", "reconsider", "entitle"})
#: Imported history waits for everything else.
_IMPORTS = frozenset({"backfill"})
#: The error of a job that was leased at too many process deaths.
TOO_MANY_DEATHS = f"The process ended {MAX_DEATHS} times while this was being done."
#: Number of due jobs that are searched for others of the first job's kind.
_LOOKAHEAD = 256


class Lane(Struct, frozen=True, kw_only=True):
    """A group of jobs served by the same workers.

    Attributes:
        priorities: the priority classes in this lane, see `_priority`.
        lease_seconds: how long a worker may keep a job.
    """

    priorities: tuple[int, ...]
    lease_seconds: float = LEASE_SECONDS


ORDINARY = Lane(priorities=(0, 1, 2, 4))
MODELS = Lane(priorities=(3,), lease_seconds=900.0)
ALL_JOBS = Lane(priorities=(0, 1, 2, 3, 4))


class Job(Struct, frozen=True, kw_only=True):
    """A leased job.

    Attributes:
        payload: what the job is about, as ids and options; its handler defines the keys.
        attempts: the number of attempts, including this one.
        worker: the name of the worker that leased it.
    """

    id: str
    kind: str
    payload: Mapping[str, Any]
    attempts: int
    worker: str


class QueueCount(Struct, frozen=True, kw_only=True):
    """How many jobs wait, run, and are dead."""

    waiting: int
    running: int
    dead: int


class Jobs:
    """The outbox of one database."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def enqueue(
        self, kind: str, payload: Mapping[str, object], *, dedupe: str, at: datetime, delay: float = 0.0
    ) -> bool:
        """Add a job and return True. If a job with this dedupe key waits or runs, do nothing and return False."""
        return bool(
            self._tx.run(
                "jobs.enqueue",
                {
                    "id": new_id(at),
                    "kind": kind,
                    "place": _priority(kind),
                    "dedupe_key": dedupe,
                    "payload": json.dumps(dict(payload)),
                    "created_at": to_text(at),
                    "run_at": to_text(add_seconds(at, delay)),
                },
            )
        )

    def lease(
        self, worker: str, at: datetime, max_together: Mapping[str, int] | None = None, lane: Lane = ALL_JOBS
    ) -> list[Job]:
        """Lease the next due job, together with other due jobs of its kind; an empty list if none is due.

        A job that was tried before is leased alone.

        Args:
            max_together: how many jobs of a kind may be leased together; one for kinds not listed.
        """
        self._tx.run("jobs.expire", {"now": to_text(at)})
        due = self._tx.all("jobs.due", _priority_parameter(lane) | {"now": to_text(at), "limit": _LOOKAHEAD})
        if not due:
            return []
        kind = due[0]["kind"]
        untried = [row["seq"] for row in due if row["kind"] == kind and not row["tried"]]
        seqs = [due[0]["seq"]] if due[0]["tried"] else untried[: (max_together or {}).get(kind, 1)]
        lease_until = to_text(add_seconds(at, lane.lease_seconds))
        leased = {"worker": worker, "now": to_text(at), "lease_until": lease_until, "seqs": json.dumps(seqs)}
        rows = self._tx.all("jobs.lease", leased)
        return [
            Job(
                id=row["id"],
                kind=row["kind"],
                payload=json.loads(row["payload"]),
                attempts=row["attempts"],
                worker=worker,
            )
            for row in sorted(rows, key=lambda row: seqs.index(row["seq"]))
        ]

    def finish(self, job: Job) -> bool:
        """End a job in the transaction of its writes; False if the lease was lost: the caller must then roll back."""
        return bool(self._tx.run("jobs.finish", {"id": job.id, "worker": job.worker}))

    def again(self, job: Job, payload: Mapping[str, object], at: datetime) -> bool:
        """Queue the rest of a job's work after all jobs that are due by now; False if the lease was lost."""
        row = {"id": job.id, "worker": job.worker, "payload": json.dumps(dict(payload)), "run_at": to_text(at)}
        return bool(self._tx.run("jobs.again", row))

    def make_due(self, dedupe: str, at: datetime) -> None:
        """Make a job due now that waits for its next attempt or is dead, and reset its attempts.

        A job that was leased at a process death keeps waiting.
        """
        self._tx.run("jobs.hurry", {"dedupe_key": dedupe, "run_at": to_text(at)})

    def move_forward(self, dedupe: str, run_at: datetime) -> None:
        """Move a job that waits for its first attempt forward to `run_at`, if that is earlier."""
        self._tx.run("jobs.sooner", {"dedupe_key": dedupe, "run_at": to_text(run_at)})

    def drop(self, dedupes: Sequence[str]) -> None:
        """Delete the jobs with these keys; one that is running can no longer write its results."""
        self._tx.run("jobs.erase", {"dedupe_keys": json.dumps(list(dedupes))})

    def get_by_key(self, dedupe: str) -> dict[str, Any] | None:
        """Return state (queued, running, dead), attempts, last error and due time of a job; None if there is none."""
        return self._tx.one("jobs.known_as", {"dedupe_key": dedupe})

    def fail(self, job: Job, error: str, at: datetime) -> bool:
        """Retry later with back-off (2, 4, 8 … seconds), or set the job aside; True if it is dead now."""
        is_dead = job.attempts >= MAX_ATTEMPTS
        had_lease = self._tx.run(
            "jobs.fail",
            {
                "id": job.id,
                "worker": job.worker,
                "state": "dead" if is_dead else "queued",
                "error": error[:2000],
                "run_at": to_text(add_seconds(at, float(2**job.attempts))),
            },
        )
        return is_dead and bool(had_lease)

    def postpone(self, job: Job, error: str, until: datetime) -> None:
        """Requeue a job until `until` because something it needs is missing; not counted as an attempt."""
        row = {"id": job.id, "worker": job.worker, "error": error[:2000], "run_at": to_text(until)}
        self._tx.run("jobs.postpone", row)

    def release(self, worker: str, jobs: Sequence[Job] | None = None) -> int:
        """Return a worker's leased jobs to the queue without counting an attempt: all of them, or only `jobs`."""
        ids = None if jobs is None else json.dumps([job.id for job in jobs])
        return self._tx.run("jobs.release", {"worker": worker, "ids": ids})

    def reclaim(self, worker_group: str, at: datetime) -> list[Mapping[str, Any]]:
        """Requeue jobs that workers of other processes leased; their names do not begin with `worker_group`.

        Only the process that holds the home's lock may call this.

        Returns:
            The payloads of jobs set aside because too many processes died while they were leased.
        """
        dead_payloads: list[Mapping[str, Any]] = []
        for row in self._tx.all("jobs.orphans", {"crew": worker_group}):
            deaths, leased_at = int(row["deaths"]) + 1, from_text(row["leased_at"]) if row["leased_at"] else at
            is_dead = deaths >= MAX_DEATHS
            self._tx.run(
                "jobs.reclaim",
                {
                    "id": row["id"],
                    "state": "dead" if is_dead else "queued",
                    "error": TOO_MANY_DEATHS if is_dead else None,
                    "deaths": deaths,
                    "run_at": to_text(add_seconds(min(leased_at, at), 2.0 ** (deaths - 1))) if deaths > 1 else "",
                },
            )
            if is_dead:
                dead_payloads.append(json.loads(row["payload"]))
        return dead_payloads

    def count(self) -> QueueCount:
        """Return how many jobs wait, run and are dead."""
        counts = {row["state"]: row["n"] for row in self._tx.all("jobs.count")}
        return QueueCount(waiting=counts.get("queued", 0), running=counts.get("running", 0), dead=counts.get("dead", 0))

    def waiting(self, lane: Lane) -> list[dict[str, Any]]:
        """Return how many jobs of a lane wait, by reason (empty: waiting for their due time)."""
        return self._tx.all("jobs.waiting", _priority_parameter(lane))

    def next_due(self, lane: Lane = ALL_JOBS) -> str | None:
        """Return when the next waiting job is due, as stored text, or None."""
        row = self._tx.one("jobs.next_due", _priority_parameter(lane))
        return row["run_at"] if row else None

    def list_page(
        self, *, state: str | None = None, kind: str | None = None, after: int = 0, limit: int = 100
    ) -> list[dict[str, Any]]:
        """Return jobs numbered above `after`, in the order they were queued, with their decoded payloads."""
        parameters = {"state": state, "kind": kind, "behind": after, "limit": limit}
        return [row | {"payload": json.loads(row["payload"])} for row in self._tx.all("jobs.listed", parameters)]

    def kinds(self) -> list[dict[str, Any]]:
        """Return how many jobs of each kind are in each state."""
        return self._tx.all("jobs.kinds")

    def retry(self, job_id: str, at: datetime) -> Mapping[str, Any] | None:
        """Requeue a dead letter with its attempts reset; returns its payload, or None if there is none."""
        row = self._tx.one("jobs.dead_letter", {"id": job_id})
        self._tx.run("jobs.retry", {"id": job_id, "run_at": to_text(at)})
        return json.loads(row["payload"]) if row else None

    def discard(self, job_id: str) -> bool:
        """Delete a dead letter; False if there is none with this id."""
        if self._tx.one("jobs.dead_letter", {"id": job_id}) is None:
            return False
        self._tx.run("jobs.drop", {"ids": json.dumps([job_id])})
        return True

    def dead(self) -> list[dict[str, Any]]:
        """Return the dead letters, latest due time first."""
        return self._tx.all("jobs.dead")


def _priority(kind: str) -> int:
    """Return the priority class of a job kind: 0 first, 1 default, 2 last, 3 model calls, 4 imported history."""
    kinds_by_priority = {2: _BACKGROUND, 3: _MODEL_CALLS, 4: _IMPORTS, 0: _UNDERSTANDING}
    return next((priority for priority, kinds in kinds_by_priority.items() if kind in kinds), 1)


def _priority_parameter(lane: Lane) -> dict[str, object]:
    return {"places": json.dumps(lane.priorities)}


# The worker.
#
# A handler prepares (reads, computes, embeds) outside any transaction and returns what to write. The writes and the
# end of the job are one transaction, so a kill costs at most repeating the preparation. If the lease was lost in the
# meantime, nothing is written.
#
# Short jobs of one kind are leased and prepared together and share one commit, each in its own savepoint. If preparing
# them together fails, each is prepared alone, so that only the faulty one fails.
#
# Jobs that call a model have their own workers. If no model answers, the job is not at fault: it is requeued without
# counting an attempt, and the lane pauses.

_LOG = logging.getLogger(__name__)
_MAX_WAIT_SECONDS = 5.0
#: While events arrive at shorter intervals than the first number, the worker yields, but at most for the second.
_BURST_SECONDS, _MAX_YIELD_SECONDS = 0.02, 0.5


class JobResult(Struct, frozen=True, kw_only=True):
    """What a handler wants written, and what to do once it is on disk.

    Attributes:
        write: writes the result, in the transaction that ends the job.
        afterwards: called when that transaction is committed.
        again: called after `write`; returns the payload of the remaining work, which is queued after newer jobs, or
            None if the job is done.
        delay: seconds before the remaining work continues.
    """

    write: Callable[[Tx], None]
    afterwards: Callable[[], None] = lambda: None
    again: Callable[[], Mapping[str, object] | None] = lambda: None
    delay: float = 0.0


Payload = Mapping[str, Any]


class Handler(Struct, frozen=True, kw_only=True):
    """How jobs of one kind are run.

    Attributes:
        prepare: receives payloads and returns results for the first ones, in order, at least one; jobs without a
            result are requeued.
        max_together: how many jobs may be leased together.
    """

    prepare: Callable[[Parts, Sequence[Payload]], Sequence[JobResult]]
    max_together: int = 1


def single(prepare: Callable[[Parts, Payload], JobResult]) -> Handler:
    """Return a handler for jobs that run one at a time."""
    return Handler(prepare=lambda parts, payloads: [prepare(parts, payloads[0])])


def new_worker_group(clock: Clock) -> str:
    """Return a name that the workers of one process share.

    The pid alone could repeat after a crash in a container, and the dead process's leases would look like ours.
    """
    return f"worker-{os.getpid()}-{new_id(clock.now())}"


class Worker(Background):
    """Runs jobs until stopped; at its start it reclaims the leases of dead workers.

    Args:
        handlers: the handler of each kind of job.
        lane: the jobs that this worker takes.
        worker_group: the name that the workers of one process share; empty = a new one.
        number: tells the workers of one lane apart.
    """

    def __init__(
        self,
        parts: Parts,
        handlers: Mapping[str, Handler],
        *,
        lane: Lane = ORDINARY,
        worker_group: str = "",
        number: int = 0,
    ) -> None:
        self._parts = parts
        self._handlers = handlers
        self._lane = lane
        self._worker_group = worker_group or new_worker_group(parts.clock)
        self._name = f"{self._worker_group}/{lane.priorities[0]}.{number}"
        super().__init__(f"worker-{lane.priorities[0]}.{number}", parts.work_waiting.listener())

    def _work(self) -> None:
        leases_reset, was_woken = False, False
        while not self._stopping.is_set():
            # No error of a job may end the loop.
            with logged(_LOG, "the worker failed and retries") as attempt:
                if not leases_reset:
                    self._parts.writer.run_patient(self._reset_leases)
                    leases_reset = True
                worked = (not was_woken or self._is_due()) and self._run_due_jobs()
                was_woken = False if worked else self._wait_for_work()
            if attempt.failed:
                leases_reset = False
                self._stopping.wait(1.0)

    def _reset_leases(self, tx: Tx) -> None:
        """Reclaim the leases of dead workers and release this worker's own leases after an error."""
        for payload in Jobs(tx).reclaim(self._worker_group, self._parts.clock.now()):
            _mark_event_dead(tx, payload, TOO_MANY_DEATHS)
        Jobs(tx).release(self._name)

    def _is_due(self) -> bool:
        """Return True if a job may be due. A cheap read, because the notifier wakes the workers of all lanes."""
        due = self._parts.readers.here(lambda tx: Jobs(tx).next_due(self._lane))
        return due is not None and from_text(due) <= self._parts.clock.now()

    def _run_due_jobs(self) -> bool:
        """Run the next due jobs; False if there are none."""
        parts, max_together = self._parts, {kind: handler.max_together for kind, handler in self._handlers.items()}
        parts.idle.mark_busy(self._name)
        self._yield_to_agents()
        jobs = parts.writer.run_patient(
            lambda tx: Jobs(tx).lease(self._name, parts.clock.now(), max_together, self._lane)
        )
        if jobs:
            self._run_jobs(jobs)
        return bool(jobs)

    def _yield_to_agents(self) -> None:
        """Yield while events arrive or a context is built: agents wait for those; nobody waits for the jobs."""
        parts, start = self._parts, monotonic()
        while (now := monotonic()) - start < _MAX_YIELD_SECONDS and (
            now - parts.last_capture < _BURST_SECONDS or parts.readers.is_recalling
        ):
            self._stopping.wait(_BURST_SECONDS)

    def _run_jobs(self, jobs: Sequence[Job]) -> None:
        """Prepare jobs together and write their outcomes."""
        try:
            outcomes = self._handlers[jobs[0].kind].prepare(self._parts, [job.payload for job in jobs])
        except CannotWrite:
            raise  # not the job's fault: it is requeued without counting an attempt
        except EmbedderUnavailable as error:
            self._fail(jobs, error)  # the others would fail too; next time each is leased alone
        except ModelUnavailable as error:
            self._postpone(jobs, error)
        except Exception as error:
            if len(jobs) == 1:
                self._fail(jobs, error)
            else:
                for job in jobs:
                    self._run_jobs([job])
        else:
            self._write_outcomes(jobs, outcomes)

    def _write_outcomes(self, jobs: Sequence[Job], outcomes: Sequence[JobResult]) -> None:
        """Write the outcomes at low priority and requeue jobs that have none."""
        now, unfinished = self._parts.clock.now(), jobs[len(outcomes) :]
        writes: list[Callable[[Tx], object]] = [
            partial(_finish, job=job, outcome=result, now=now) for job, result in zip(jobs, outcomes, strict=False)
        ]
        if unfinished:
            writes.append(lambda tx: Jobs(tx).release(self._name, unfinished))
        write_error: CannotWrite | None = None
        for end, job, outcome in zip(self._parts.writer.submit_patient(writes), jobs, outcomes, strict=False):
            try:
                end.result()
            except CannotWrite as error:
                write_error = error
            except Exception as error:
                self._fail([job], error)
            else:
                _follow_up(job, outcome)
        if write_error:
            raise write_error
        self._parts.work_waiting.set()  # the new jobs may belong to another lane

    def _fail(self, jobs: Sequence[Job], error: Exception) -> None:
        # The stored error only names the kind of failure: a message may quote text that the user forgets later.
        cause = error.message if isinstance(error, FilrougeError) else type(error).__name__
        for job in jobs:
            _LOG.warning("job %s %s failed (attempt %d)", job.kind, job.id, job.attempts, exc_info=error)
        now = self._parts.clock.now()
        self._parts.writer.run_patient(lambda tx: [_fail_job(tx, job, cause, now) for job in jobs])

    def _postpone(self, jobs: Sequence[Job], error: ModelUnavailable) -> None:
        """Requeue jobs that need a model, then pause the lane, so that not every job makes a failing call."""
        models, now = self._parts.models, self._parts.clock.now()
        is_over_budget = isinstance(error, OverBudget)
        until = next_day(now) if is_over_budget else add_seconds(now, models.pace.rest)
        self._parts.writer.run_patient(lambda tx: [Jobs(tx).postpone(job, error.message, until) for job in jobs])
        if not is_over_budget:
            models.changed.clear()
            self._parts.idle.mark_idle(self._name)
            models.changed.wait(models.pace.rest)

    def _wait_for_work(self) -> bool:
        """Wait for work; True if the notifier woke the worker."""
        self._parts.idle.mark_idle(self._name)
        due = self._parts.readers.here(lambda tx: Jobs(tx).next_due(self._lane))
        seconds = _MAX_WAIT_SECONDS
        if due is not None:
            seconds = (from_text(due) - self._parts.clock.now()).total_seconds()
        was_woken = self._wake.wait(min(max(seconds, 0.01), _MAX_WAIT_SECONDS))
        self._wake.clear()
        return was_woken


def _finish(tx: Tx, *, job: Job, outcome: JobResult, now: datetime) -> None:
    outcome.write(tx)
    remaining = outcome.again()
    if not (
        Jobs(tx).finish(job) if remaining is None else Jobs(tx).again(job, remaining, add_seconds(now, outcome.delay))
    ):
        raise Busy(f"The lease of job {job.id} ran out; its work is rolled back and left to the worker that has it.")


def _follow_up(job: Job, outcome: JobResult) -> None:
    # The commit stands; the next start rebuilds what is in memory.
    with logged(_LOG, "the follow-up of job %s %s failed", job.kind, job.id):
        outcome.afterwards()


def _fail_job(tx: Tx, job: Job, error: str, now: datetime) -> None:
    if Jobs(tx).fail(job, error, now):
        _mark_event_dead(tx, job.payload, error)


def _mark_event_dead(tx: Tx, payload: Payload, error: str) -> None:
    """Mark the event that a dead job was about as dead, with the error."""
    event = payload.get("event")
    if isinstance(event, str):
        Events(tx).settle(event, "dead", error)


# The queue as users see it: waiting, running and dead jobs, and a retry for dead ones.
#
# A job is described by its kind, its state and the ids it is about. Its error names the failure and quotes nothing
# from a conversation.

_PAYLOAD_IDS = ("event", "turn", "memory", "thread", "session", "project")


def jobs(
    tx: Tx, *, state: str | None = None, kind: str | None = None, after: int = 0, limit: int = 100
) -> tuple[dict[str, Any], int | None]:
    """Return the counts of the queue with one page of its jobs, oldest first, and the next page's cursor or None."""
    rows = Jobs(tx).list_page(state=state, kind=kind, after=after, limit=limit + 1)
    count = Jobs(tx).count()
    body = {
        "waiting": count.waiting,
        "running": count.running,
        "dead": count.dead,
        "kinds": Jobs(tx).kinds(),
        "jobs": [_render_job(row) for row in rows[:limit]],
    }
    return body, rows[limit - 1]["seq"] if len(rows) > limit else None


def dead_jobs(tx: Tx, *, after: int = 0, limit: int = 100) -> tuple[list[dict[str, Any]], int | None]:
    """Return a page of the dead jobs, oldest first, and the cursor of the next page or None."""
    body, next_cursor = jobs(tx, state="dead", after=after, limit=limit)
    return body["jobs"], next_cursor


def retry(parts: Parts, job_id: str) -> None:
    """Queue a dead job again.

    Raises:
        NotFound: there is no dead letter with this id.
    """

    def write(tx: Tx) -> None:
        payload = Jobs(tx).retry(job_id, parts.clock.now())
        if payload is None:
            raise _no_dead_letter(job_id)
        if isinstance(event := payload.get("event"), str):
            Events(tx).settle(event, "queued")

    parts.writer.run(write)
    parts.work_waiting.set()


def discard(writer: Writer, job_id: str) -> None:
    """Delete a dead job; what it was about stays unchanged.

    Raises:
        NotFound: there is no dead letter with this id.
    """

    def write(tx: Tx) -> None:
        if not Jobs(tx).discard(job_id):
            raise _no_dead_letter(job_id)

    writer.run(write)


def _no_dead_letter(job_id: str) -> NotFound:
    return NotFound(f"There is no dead letter {job_id!r}.", remedy="See `GET /api/memory/dead-letters`.")


def _render_job(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": row["id"],
        "kind": row["kind"],
        "state": row["state"],
        "attempts": row["attempts"],
        "deaths": row["deaths"],
        "error": row["error"],
        "created_at": row["created_at"],
        "next_try": row["run_at"] if row["state"] == "queued" else None,
        "about": {name: str(row["payload"][name]) for name in _PAYLOAD_IDS if row["payload"].get(name)},
    }
