"""The worker: a thread that takes jobs of its lane from the outbox; and the queue as a person looks at it."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from threading import Event as Flag
from threading import Thread
from typing import Any

from filrouge.capture.event_repository import Events
from filrouge.core.clock import after, from_text, monotonic, new_id, next_day
from filrouge.core.errors import (
    Busy,
    CannotWrite,
    EmbedderUnavailable,
    FilrougeError,
    ModelUnavailable,
    NotFound,
    OverBudget,
)
from filrouge.core.protocols import Tx
from filrouge.runtime.jobs import DEADLY, ORDINARY, Job, Jobs, Lane
from filrouge.runtime.services import Parts

# The worker: a thread that takes jobs of its lane from the outbox and does them.
#
# A handler prepares (reads, thinks, embeds) outside any transaction and returns what to write. A job's writes and its
# end are then one transaction, so being killed between any two instructions costs at most doing the preparation
# again. If the lease was lost meanwhile, nothing is written.
#
# Short jobs of one kind are taken and prepared together, and their ends share one commit, each in a savepoint of its
# own. Where preparing them together fails, each is prepared by itself, so that only the one that is to blame fails.
#
# What waits for a model has workers of its own. Where no model answers that is no fault of a job: it is put back as
# if it was never taken, and the lane rests.

_LOG = logging.getLogger(__name__)
_LONGEST_REST_SECONDS = 5.0
#: While events come in faster than this, the worker lets them pass, but no longer than that before each step.
_BURST_SECONDS, _PATIENCE_SECONDS = 0.02, 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What a handler wants written, and what to do once it is on disk.

    Attributes:
        again: asked after `write`: what is left of the work, which goes on behind what came up meanwhile; None = done.
        delay: seconds until it goes on.
    """

    write: Callable[[Tx], None]
    afterwards: Callable[[], None] = lambda: None
    again: Callable[[], Mapping[str, object] | None] = lambda: None
    delay: float = 0.0


Payload = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Handler:
    """How jobs of one kind are done.

    Attributes:
        prepare: given payloads, the outcomes of the first of them, in order, at least of one; the rest is given back.
        most: how many may be taken together.
    """

    prepare: Callable[[Parts, Sequence[Payload]], Sequence[Outcome]]
    most: int = 1


def alone(prepare: Callable[[Parts, Payload], Outcome]) -> Handler:
    """The handler of jobs that are done one at a time."""
    return Handler(prepare=lambda parts, payloads: [prepare(parts, payloads[0])])


def new_crew(parts: Parts) -> str:
    """A name for the workers of one process.

    The pid alone would be the same again after a crash in a container, and the dead one's leases ours.
    """
    return f"worker-{os.getpid()}-{new_id(parts.clock.now())}"


class Worker:
    """Runs until stopped. `handlers` is the table of job names; workers of one process share a crew."""

    def __init__(
        self, parts: Parts, handlers: Mapping[str, Handler], *, lane: Lane = ORDINARY, crew: str = "", number: int = 0
    ) -> None:
        self._parts = parts
        self._handlers = handlers
        self._lane = lane
        self._crew = crew or new_crew(parts)
        self._name = f"{self._crew}/{lane.places[0]}.{number}"
        self._stopping = Flag()
        self._wake = parts.work_waiting.listener()
        self._thread = Thread(target=self._work, name=f"filrouge-worker-{lane.places[0]}.{number}", daemon=True)

    def start(self) -> None:
        """Begin; what a dead worker held is taken over first."""
        self._thread.start()

    def stop(self) -> None:
        """Finish the jobs at hand, then end."""
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def _work(self) -> None:
        in_order, rung = False, False
        while not self._stopping.is_set():
            try:
                if not in_order:
                    self._parts.writer.run_patient(self._put_in_order)
                    in_order = True
                worked = (not rung or self._is_due()) and self._some()
                rung = False if worked else self._rest()
            except Exception:  # the loop outlives anything a job can throw
                _LOG.exception("the worker stumbled")
                in_order = False
                self._stopping.wait(1.0)

    def _put_in_order(self, tx: Tx) -> None:
        """Take over what a dead worker held, and give back what was in our own hands when we stumbled."""
        for payload in Jobs(tx).reclaim(self._crew, self._parts.clock.now()):
            _bury(tx, payload, DEADLY)
        Jobs(tx).release(self._name)

    def _is_due(self) -> bool:
        """True if there may be something to do; a look costs no write, and the bell rings for every lane."""
        due = self._parts.readers.here(lambda tx: Jobs(tx).next_due(self._lane))
        return due is not None and from_text(due) <= self._parts.clock.now()

    def _some(self) -> bool:
        """Do the next jobs that are due; False if there are none."""
        parts, most = self._parts, {kind: handler.most for kind, handler in self._handlers.items()}
        parts.resting.leave(self._name)
        self._let_pass()
        jobs = parts.writer.run_patient(lambda tx: Jobs(tx).lease(self._name, parts.clock.now(), most, self._lane))
        if jobs:
            self._do(jobs)
        return bool(jobs)

    def _let_pass(self) -> None:
        """Agents wait for their events to be on disk; nobody waits for what follows from them."""
        begun = monotonic()
        while (now := monotonic()) - self._parts.captured < _BURST_SECONDS and now - begun < _PATIENCE_SECONDS:
            self._stopping.wait(_BURST_SECONDS)

    def _do(self, jobs: Sequence[Job]) -> None:
        """Prepare jobs together and end them."""
        try:
            outcomes = self._handlers[jobs[0].kind].prepare(self._parts, [job.payload for job in jobs])
        except CannotWrite:
            raise  # the disk's fault, not the job's: it keeps its attempts and is given back
        except EmbedderUnavailable as error:
            self._fail(jobs, error)  # of no use to the others either; each is tried alone next time
        except ModelUnavailable as error:
            self._put_off(jobs, error)
        except Exception as error:
            if len(jobs) == 1:
                self._fail(jobs, error)
            else:
                for job in jobs:
                    self._do([job])
        else:
            self._end(jobs, outcomes)

    def _end(self, jobs: Sequence[Job], outcomes: Sequence[Outcome]) -> None:
        """Write what was prepared, letting whoever waits pass; what was not is given back."""
        now, left = self._parts.clock.now(), jobs[len(outcomes) :]
        writes: list[Callable[[Tx], object]] = [
            partial(_finish, job=job, outcome=one, now=now) for job, one in zip(jobs, outcomes, strict=False)
        ]
        if left:
            writes.append(lambda tx: Jobs(tx).release(self._name, left))
        trouble: CannotWrite | None = None
        for end, job, outcome in zip(self._parts.writer.submit_patient(writes), jobs, outcomes, strict=False):
            try:
                end.result()
            except CannotWrite as error:
                trouble = error
            except Exception as error:
                self._fail([job], error)
            else:
                _follow_up(job, outcome)
        if trouble:
            raise trouble
        self._parts.work_waiting.set()  # what follows from these may be another lane's work

    def _fail(self, jobs: Sequence[Job], error: Exception) -> None:
        # The stored error names the kind of failure only: a message may quote what the user will forget.
        told = error.message if isinstance(error, FilrougeError) else type(error).__name__
        for job in jobs:
            _LOG.warning("job %s %s failed (attempt %d)", job.kind, job.id, job.attempts, exc_info=error)
        now = self._parts.clock.now()
        self._parts.writer.run_patient(lambda tx: [_set_back(tx, job, told, now) for job in jobs])

    def _put_off(self, jobs: Sequence[Job], error: ModelUnavailable) -> None:
        """Give jobs back that need a model, until one may answer, and rest as long: one question finds out for all."""
        models, now = self._parts.models, self._parts.clock.now()
        over = isinstance(error, OverBudget)
        until = next_day(now) if over else after(now, models.pace.rest)
        self._parts.writer.run_patient(lambda tx: [Jobs(tx).postpone(job, error.message, until) for job in jobs])
        if not over:
            models.changed.clear()
            self._parts.resting.enter(self._name)
            models.changed.wait(models.pace.rest)

    def _rest(self) -> bool:
        """Wait for work; True if somebody rang."""
        self._parts.resting.enter(self._name)
        due = self._parts.readers.here(lambda tx: Jobs(tx).next_due(self._lane))
        seconds = _LONGEST_REST_SECONDS
        if due is not None:
            seconds = (from_text(due) - self._parts.clock.now()).total_seconds()
        rung = self._wake.wait(min(max(seconds, 0.01), _LONGEST_REST_SECONDS))
        self._wake.clear()
        return rung


def _finish(tx: Tx, *, job: Job, outcome: Outcome, now: datetime) -> None:
    outcome.write(tx)
    rest = outcome.again()
    if not (Jobs(tx).finish(job) if rest is None else Jobs(tx).again(job, rest, after(now, outcome.delay))):
        raise Busy(f"The lease of job {job.id} ran out; its work is undone and left to whoever has it.")


def _follow_up(job: Job, outcome: Outcome) -> None:
    try:
        outcome.afterwards()
    except Exception:  # what is on disk stands; what is in memory is made again at the next start
        _LOG.exception("what follows job %s %s failed", job.kind, job.id)


def _set_back(tx: Tx, job: Job, error: str, now: datetime) -> None:
    if Jobs(tx).fail(job, error, now):
        _bury(tx, job.payload, error)


def _bury(tx: Tx, payload: Payload, error: str) -> None:
    """Say of the event that a job set aside was about how it ended."""
    event = payload.get("event")
    if isinstance(event, str):
        Events(tx).settle(event, "dead", error)


# The queue, as a person looks at it: what waits, runs and was set aside, and another try for what was.
#
# A job is told by its kind, its state and the ids that it is about; what it failed of names the failure and repeats
# no words of a conversation.

_ABOUT = ("event", "turn", "memory", "thread", "session", "project")


def jobs(
    tx: Tx, *, state: str | None = None, kind: str | None = None, behind: int = 0, limit: int = 100
) -> tuple[dict[str, Any], int | None]:
    """The queue in counts and a page of its jobs, oldest first; and the number that the next page is behind, if any."""
    rows = Jobs(tx).listed(state=state, kind=kind, behind=behind, limit=limit + 1)
    count = Jobs(tx).count()
    body = {
        "waiting": count.waiting,
        "running": count.running,
        "dead": count.dead,
        "kinds": Jobs(tx).kinds(),
        "jobs": [_shown(row) for row in rows[:limit]],
    }
    return body, rows[limit - 1]["seq"] if len(rows) > limit else None


def dead_jobs(tx: Tx, *, behind: int = 0, limit: int = 100) -> tuple[list[dict[str, Any]], int | None]:
    """A page of the jobs that were set aside, oldest first, as `jobs`."""
    body, following = jobs(tx, state="dead", behind=behind, limit=limit)
    return body["jobs"], following


def retry(parts: Parts, job_id: str) -> None:
    """Have a job that was set aside done again.

    Raises:
        NotFound: no dead letter has this id.
    """

    def write(tx: Tx) -> None:
        about = Jobs(tx).retry(job_id, parts.clock.now())
        if about is None:
            raise _unknown(job_id)
        if isinstance(event := about.get("event"), str):
            Events(tx).settle(event, "queued")

    parts.writer.run(write)
    parts.work_waiting.set()


def discard(parts: Parts, job_id: str) -> None:
    """Give a job up that was set aside; what it was about stays as it is.

    Raises:
        NotFound: no dead letter has this id.
    """

    def write(tx: Tx) -> None:
        if not Jobs(tx).discard(job_id):
            raise _unknown(job_id)

    parts.writer.run(write)


def _unknown(job_id: str) -> NotFound:
    return NotFound(f"There is no dead letter {job_id!r}.", remedy="See `GET /api/memory/dead-letters`.")


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": row["id"],
        "kind": row["kind"],
        "state": row["state"],
        "attempts": row["attempts"],
        "deaths": row["deaths"],
        "error": row["error"],
        "created_at": row["created_at"],
        "next_try": row["run_at"] if row["state"] == "queued" else None,
        "about": {name: str(row["payload"][name]) for name in _ABOUT if row["payload"].get(name)},
    }
