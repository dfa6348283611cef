"""Jobs: the outbox. What must happen because of a row is written in the same transaction as the row.

At least once: a job is leased, and a worker that dies lets its lease run out. Handlers make their effects
and the job's end one transaction, so a job done twice has its effects once. A job that keeps failing backs
off, and after eight tries is set aside with its error (a dead letter), in nobody's way.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from filrouge.clock import after, new_id, to_text
from filrouge.ports import Tx

LEASE_SECONDS = 120.0
MOST_ATTEMPTS = 8


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
                    "dedupe_key": dedupe,
                    "payload": json.dumps(dict(payload)),
                    "created_at": to_text(at),
                    "run_at": to_text(after(at, delay)),
                },
            )
        )

    def lease(self, worker: str, at: datetime) -> Job | None:
        """Take the oldest job that is due, or whose worker let its lease run out."""
        row = self._tx.one(
            "jobs.lease",
            {"worker": worker, "now": to_text(at), "lease_until": to_text(after(at, LEASE_SECONDS))},
        )
        if row is None:
            return None
        return Job(
            id=row["id"],
            kind=row["kind"],
            payload=json.loads(row["payload"]),
            attempts=row["attempts"],
            worker=worker,
        )

    def finish(self, job: Job) -> bool:
        """End a job in the transaction of its effects; False if the lease was lost, and then undo them."""
        return bool(self._tx.run("jobs.finish", {"id": job.id, "worker": job.worker}))

    def again(self, job: Job, payload: Mapping[str, object], at: datetime) -> bool:
        """Put a job back behind what is due by now, with what is left of it; False if the lease was lost."""
        row = {"id": job.id, "worker": job.worker, "payload": json.dumps(dict(payload)), "run_at": to_text(at)}
        return bool(self._tx.run("jobs.again", row))

    def hurry(self, dedupe: str, at: datetime) -> None:
        """Take a job up at once that waits for its next try, or was set aside; its tries are counted afresh."""
        self._tx.run("jobs.hurry", {"dedupe_key": dedupe, "run_at": to_text(at)})

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

    def release(self, worker: str) -> int:
        """Give back what a stopping worker still holds."""
        return self._tx.run("jobs.release", {"worker": worker})

    def reclaim(self, worker: str) -> int:
        """Take over the leases of every other worker: right only for the process that holds the lock."""
        return self._tx.run("jobs.reclaim", {"worker": worker})

    def count(self) -> QueueCount:
        """The queue at a glance."""
        counts = {row["state"]: row["n"] for row in self._tx.all("jobs.count")}
        return QueueCount(waiting=counts.get("queued", 0), running=counts.get("running", 0), dead=counts.get("dead", 0))

    def next_due(self) -> str | None:
        """When the next waiting job is due, as stored text, or None."""
        row = self._tx.one("jobs.next_due")
        return row["run_at"] if row else None

    def dead(self) -> list[dict[str, Any]]:
        """The dead letters, newest first."""
        return self._tx.all("jobs.dead")
