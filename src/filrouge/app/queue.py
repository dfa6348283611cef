"""The queue, as a person looks at it: what waits, runs and was set aside, and another try for what was.

A job is told by its kind, its state and the ids that it is about; what it failed of names the failure and repeats no
words of a conversation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from filrouge.app.parts import Parts
from filrouge.errors import NotFound
from filrouge.ports import Tx
from filrouge.store.events import Events
from filrouge.store.jobs import Jobs

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
