"""Runs of the garden and their steps: what is planned, what is done, and what came of it.

A step's mark and its counts are written in the transaction of its effects, so a step is done once, wherever a process
ends; what a run came to is the sum over its steps. One run is at work at a time: an index of the schema says so.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from statistics import median
from typing import Any

from filrouge.clock import from_text, to_text
from filrouge.errors import Busy, NotFound
from filrouge.model.garden import Garden, GardenStep, Occasion, StepKind
from filrouge.ports import Tx

#: Runs whose pace the next one is estimated by, and whose steps are kept.
_TIMED, _KEPT = 5, 20


class Gardens:
    """The runs of one database."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def begin(
        self,
        garden_id: str,
        occasion: Occasion,
        plan: Mapping[str, Any],
        steps: Sequence[GardenStep],
        at: datetime,
    ) -> None:
        """Note a run with its steps.

        Raises:
            Busy: another one is at work.
        """
        if (other := self.running()) is not None:
            raise Busy(
                f"The garden is at work already ({other.id}).", remedy="Watch it with `filrouge garden`, or wait."
            )
        row = {"id": garden_id, "occasion": occasion, "plan": json.dumps(dict(plan)), "at": to_text(at)}
        self._tx.run("gardens.begin", row)
        self._tx.many(
            "gardens.add_step",
            [
                {
                    "garden_id": garden_id,
                    "place": one.place,
                    "phase": one.kind,
                    "subject": json.dumps(dict(one.subject)),
                }
                for one in steps
            ],
        )

    def get(self, garden_id: str) -> Garden:
        """One run.

        Raises:
            NotFound: naming the id.
        """
        row = self._tx.one("gardens.get", {"id": garden_id})
        if row is None:
            raise NotFound(f"There is no run {garden_id!r} of the garden.", remedy="See `filrouge garden --list`.")
        return _garden(row)

    def newest(self, limit: int) -> list[Garden]:
        """The latest runs, the newest first."""
        return [_garden(row) for row in self._tx.all("gardens.newest", {"limit": limit})]

    def running(self) -> Garden | None:
        """The run that is at work."""
        row = self._tx.one("gardens.running")
        return _garden(row) if row else None

    def last_completed(self) -> Garden | None:
        """The latest run that was done to its end."""
        row = self._tx.one("gardens.last_completed")
        return _garden(row) if row else None

    def next(self, garden_id: str) -> GardenStep | None:
        """The first step that is not done; None where none is left."""
        row = self._tx.one("gardens.next_step", {"garden_id": garden_id})
        return _step(row) if row else None

    def mark(self, garden_id: str, place: int, counts: Mapping[str, int], at: datetime) -> None:
        """Mark a step as done with what came of it, in the transaction of its effects.

        Raises:
            Busy: it was done meanwhile, or the run is over; the effects must be undone.
        """
        row = {"garden_id": garden_id, "place": place, "result": json.dumps(dict(counts)), "at": to_text(at)}
        if not self._tx.run("gardens.mark_step", row):
            raise Busy(f"Step {place} of the garden {garden_id} was done by another.")

    def done(self, garden_id: str, *, behind: int = -1) -> list[GardenStep]:
        """The steps that are done, in order, behind a place."""
        rows = self._tx.all("gardens.steps_done", {"garden_id": garden_id, "behind": behind})
        return [_step(row) for row in rows]

    def done_of(self, garden_id: str, kinds: Sequence[StepKind]) -> int:
        """How many steps of these kinds are done."""
        row = self._tx.one("gardens.count_done", {"garden_id": garden_id, "kinds": json.dumps(list(kinds))})
        return int(row["n"]) if row else 0

    def totals(self, garden_id: str) -> dict[str, int]:
        """What the steps that are done came to together."""
        found = Counter[str]()
        for row in self._tx.all("gardens.results", {"garden_id": garden_id}):
            found.update(json.loads(row["result"]))
        return dict(sorted(found.items()))

    def end(self, garden_id: str, at: datetime, *, error: str = "") -> None:
        """End a run, with what it came to; with an error it failed. Of runs long ago the steps go."""
        state = "failed" if error else "completed"
        totals = json.dumps(self.totals(garden_id))
        row = {"id": garden_id, "state": state, "totals": totals, "error": error, "at": to_text(at)}
        self._tx.run("gardens.end", row)
        self._tx.run("gardens.prune", {"keep": _KEPT})

    def seconds(self) -> dict[str, float]:
        """How long a step of each kind took in the latest runs: the median of what lay between two marks."""
        spans: dict[str, list[float]] = {}
        before: tuple[str, datetime] | None = None
        for row in self._tx.all("gardens.marks", {"limit": _TIMED}):
            at = from_text(row["done_at"])
            begun = before[1] if before and before[0] == row["garden_id"] else from_text(row["started_at"])
            spans.setdefault(row["phase"], []).append(max(0.0, (at - begun).total_seconds()))
            before = row["garden_id"], at
        return {kind: median(found) for kind, found in spans.items()}


def _garden(row: Mapping[str, Any]) -> Garden:
    plan = json.loads(row["plan"])
    return Garden(
        id=row["id"],
        occasion=row["occasion"],
        state=row["state"],
        counts=plan["counts"],
        memories_until=int(plan["memories_until"]),
        totals=json.loads(row["totals"]),
        started_at=from_text(row["started_at"]),
        ended_at=from_text(row["ended_at"]) if row["ended_at"] else None,
        error=row["error"],
    )


def _step(row: Mapping[str, Any]) -> GardenStep:
    return GardenStep(place=row["place"], kind=row["phase"], subject=json.loads(row["subject"]))
