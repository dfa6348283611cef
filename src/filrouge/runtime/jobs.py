"""Jobs: the outbox. What must happen because of a row is written in the same transaction as the row.

At least once: a job is leased, and a worker that dies lets its lease run out. Handlers make their effects
and the job's end one transaction, so a job done twice has its effects once. A job that keeps failing backs
off, and after eight tries is set aside with its error (a dead letter), in nobody's way.

Jobs of one kind may be leased together. A process may die natively of one of them, and be started, and die again:
whoever takes over cannot know which it was, nor whether it was any. So every job that was in hand at a death is leased
alone from then on, as if never tried, and one that was in hand at a second death waits, longer each time. What is in
hand at eight deaths, all but the first of them alone and over more than two minutes, is set aside as dead. A daemon
that is killed at any moments, however often, buries nothing by that: a good job is done when its turn comes, and a
long one that got somewhere is counted afresh.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from filrouge.core.clock import after, from_text, new_id, to_text
from filrouge.core.protocols import Tx

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
