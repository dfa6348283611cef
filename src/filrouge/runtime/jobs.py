"""The worker: a thread that takes jobs of its lane from the outbox; and the queue as a person looks at it."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from threading import Event as Flag
from threading import Thread
from typing import Any

from filrouge.capture.repository import Events
from filrouge.core.clock import after, from_text, monotonic, new_id, next_day, to_text
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
from filrouge.runtime.services import Parts

# Jobs: the outbox. What must happen because of a row is written in the same transaction as the row.
#
# At least once: a job is leased, and a worker that dies lets its lease run out. Handlers make their effects and the
# job's end one transaction, so a job done twice has its effects once. A job that keeps failing backs off, and after
# eight tries is set aside with its error (a dead letter), in nobody's way.
#
# Jobs of one kind may be leased together. A process may die natively of one of them, and be started, and die again:
# whoever takes over cannot know which it was, nor whether it was any. So every job that was in hand at a death is
# leased alone from then on, as if never tried, and one that was in hand at a second death waits, longer each time.
# What is in hand at eight deaths, all but the first of them alone and over more than two minutes, is set aside as
# dead. A daemon that is killed at any moments, however often, buries nothing by that: a good job is done when its
# turn comes, and a long one that got somewhere is counted afresh.

LEASE_SECONDS = 120.0
MOST_ATTEMPTS = 8
MOST_DEATHS = 8
#: What understands a conversation goes before what makes vectors: a prompt does not wait for a whole history.
_FIRST = frozenset({"read_turns", "analyse", "reconcile", "brief"})
#: What sums up or ties together goes last, and what catches up with the past: nobody waits for it. A prompt is placed
#: in a thread once nothing is left to be embedded, so that its vector is there.
_LAST = frozenset({"thread", "digest", "synthesise", "bridge", "regroup", "thread_earlier", "retain", "garden"})
#: What waits for a model is done by workers of its own, so that nothing else ever waits for one.
_SLOW = frozenset({"extract", "recount", "reconsider", "entitle"})
#: What was said long ago and is read in now waits for everything else.
_PAST = frozenset({"backfill"})
#: What is said of a job that processes die of.
DEADLY = f"The process ended {MOST_DEATHS} times while this was being done."
#: So far ahead others of the first job's kind are looked for.
_AHEAD = 256


@dataclass(frozen=True, kw_only=True, slots=True)
class Lane:
    """Jobs that the same workers do: their places in the order, and how long one may be in hand, in seconds."""

    places: tuple[int, ...]
    lease_seconds: float = LEASE_SECONDS


ORDINARY = Lane(places=(0, 1, 2, 4))
MODELS = Lane(places=(3,), lease_seconds=900.0)
EVERY = Lane(places=(0, 1, 2, 3, 4))


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A leased piece of work."""

    id: str
    kind: str
    payload: Mapping[str, Any]
    attempts: int
    worker: str


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueCount:
    """How much is waiting, being worked on, and set aside."""

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
        """Add a job, unless one with this dedupe key is queued already; says whether it was added."""
        return bool(
            self._tx.run(
                "jobs.enqueue",
                {
                    "id": new_id(at),
                    "kind": kind,
                    "place": _place(kind),
                    "dedupe_key": dedupe,
                    "payload": json.dumps(dict(payload)),
                    "created_at": to_text(at),
                    "run_at": to_text(after(at, delay)),
                },
            )
        )

    def lease(self, worker: str, at: datetime, most: Mapping[str, int] | None = None, lane: Lane = EVERY) -> list[Job]:
        """Take the next job that is due, with those of its kind that come soon after it; none is due: none.

        What was tried before is taken alone.

        Args:
            most: how many of a kind may be taken together; one of what is not named.
        """
        self._tx.run("jobs.expire", {"now": to_text(at)})
        due = self._tx.all("jobs.due", _within(lane) | {"now": to_text(at), "limit": _AHEAD})
        if not due:
            return []
        kind = due[0]["kind"]
        fresh = [row["seq"] for row in due if row["kind"] == kind and not row["tried"]]
        seqs = [due[0]["seq"]] if due[0]["tried"] else fresh[: (most or {}).get(kind, 1)]
        until = to_text(after(at, lane.lease_seconds))
        leased = {"worker": worker, "now": to_text(at), "lease_until": until, "seqs": json.dumps(seqs)}
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
        """End a job in the transaction of its effects; False if the lease was lost, and then undo them."""
        return bool(self._tx.run("jobs.finish", {"id": job.id, "worker": job.worker}))

    def again(self, job: Job, payload: Mapping[str, object], at: datetime) -> bool:
        """Put a job back behind what is due by now, with what is left of it; False if the lease was lost."""
        row = {"id": job.id, "worker": job.worker, "payload": json.dumps(dict(payload)), "run_at": to_text(at)}
        return bool(self._tx.run("jobs.again", row))

    def hurry(self, dedupe: str, at: datetime) -> None:
        """Take a job up at once that waits for its next try, or was set aside; its tries are counted afresh.

        One that was in hand at a death waits all the same.
        """
        self._tx.run("jobs.hurry", {"dedupe_key": dedupe, "run_at": to_text(at)})

    def sooner(self, dedupe: str, run_at: datetime) -> None:
        """Let a job that waits for its first try be due by then."""
        self._tx.run("jobs.sooner", {"dedupe_key": dedupe, "run_at": to_text(run_at)})

    def drop(self, dedupes: Sequence[str]) -> None:
        """Take out the jobs of these keys; what one of them has in hand is not written."""
        self._tx.run("jobs.erase", {"dedupe_keys": json.dumps(list(dedupes))})

    def known_as(self, dedupe: str) -> dict[str, Any] | None:
        """State (queued, running, dead), attempts, last error and due time of the job with this key, or None."""
        return self._tx.one("jobs.known_as", {"dedupe_key": dedupe})

    def fail(self, job: Job, error: str, at: datetime) -> bool:
        """Try again later with back-off (2, 4, 8 … seconds), or set the job aside; True if it is dead now."""
        dead = job.attempts >= MOST_ATTEMPTS
        held = self._tx.run(
            "jobs.fail",
            {
                "id": job.id,
                "worker": job.worker,
                "state": "dead" if dead else "queued",
                "error": error[:2000],
                "run_at": to_text(after(at, float(2**job.attempts))),
            },
        )
        return dead and bool(held)

    def postpone(self, job: Job, error: str, until: datetime) -> None:
        """Give a job back until then, as if it was never taken: what it needs is not there."""
        row = {"id": job.id, "worker": job.worker, "error": error[:2000], "run_at": to_text(until)}
        self._tx.run("jobs.postpone", row)

    def release(self, worker: str, jobs: Sequence[Job] | None = None) -> int:
        """Give back what a worker holds, all or these, as if it was never taken."""
        ids = None if jobs is None else json.dumps([job.id for job in jobs])
        return self._tx.run("jobs.release", {"worker": worker, "ids": ids})

    def reclaim(self, crew: str, at: datetime) -> list[Mapping[str, Any]]:
        """Take over what was held by workers whose name does not begin with `crew`, those of this process: right only
        for the process that holds the lock.

        Returns:
            The payloads of those that are set aside, because too many processes died with them in hand.
        """
        buried: list[Mapping[str, Any]] = []
        for row in self._tx.all("jobs.orphans", {"crew": crew}):
            deaths, leased = int(row["deaths"]) + 1, from_text(row["leased_at"]) if row["leased_at"] else at
            dead = deaths >= MOST_DEATHS
            self._tx.run(
                "jobs.reclaim",
                {
                    "id": row["id"],
                    "state": "dead" if dead else "queued",
                    "error": DEADLY if dead else None,
                    "deaths": deaths,
                    "run_at": to_text(after(min(leased, at), 2.0 ** (deaths - 1))) if deaths > 1 else "",
                },
            )
            if dead:
                buried.append(json.loads(row["payload"]))
        return buried

    def count(self) -> QueueCount:
        """The queue at a glance."""
        counts = {row["state"]: row["n"] for row in self._tx.all("jobs.count")}
        return QueueCount(waiting=counts.get("queued", 0), running=counts.get("running", 0), dead=counts.get("dead", 0))

    def waiting(self, lane: Lane) -> list[dict[str, Any]]:
        """How many wait in a lane, by the reason why (empty: for their time)."""
        return self._tx.all("jobs.waiting", _within(lane))

    def next_due(self, lane: Lane = EVERY) -> str | None:
        """When the next waiting job is due, as stored text, or None."""
        row = self._tx.one("jobs.next_due", _within(lane))
        return row["run_at"] if row else None

    def listed(
        self, *, state: str | None = None, kind: str | None = None, behind: int = 0, limit: int = 100
    ) -> list[dict[str, Any]]:
        """Jobs behind the one with that number, in the order in which they were queued, with what they are about."""
        asked = {"state": state, "kind": kind, "behind": behind, "limit": limit}
        return [row | {"payload": json.loads(row["payload"])} for row in self._tx.all("jobs.listed", asked)]

    def kinds(self) -> list[dict[str, Any]]:
        """How many jobs of each kind are in each state."""
        return self._tx.all("jobs.kinds")

    def retry(self, job_id: str, at: datetime) -> Mapping[str, Any] | None:
        """Queue a dead letter as if it was never tried; what it is about, or None if there is none of this id."""
        row = self._tx.one("jobs.dead_letter", {"id": job_id})
        self._tx.run("jobs.retry", {"id": job_id, "run_at": to_text(at)})
        return json.loads(row["payload"]) if row else None

    def discard(self, job_id: str) -> bool:
        """Drop a dead letter; False if there is none of this id."""
        if self._tx.one("jobs.dead_letter", {"id": job_id}) is None:
            return False
        self._tx.run("jobs.drop", {"ids": json.dumps([job_id])})
        return True

    def dead(self) -> list[dict[str, Any]]:
        """The dead letters, newest first."""
        return self._tx.all("jobs.dead")


def _place(kind: str) -> int:
    """Where jobs of a kind stand in the order."""
    places = {2: _LAST, 3: _SLOW, 4: _PAST, 0: _FIRST}
    return next((place for place, kinds in places.items() if kind in kinds), 1)


def _within(lane: Lane) -> dict[str, object]:
    return {"places": json.dumps(lane.places)}


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
