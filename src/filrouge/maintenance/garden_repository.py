"""Runs of the garden and their steps in the database, and merging two memories that say the same."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from statistics import median
from typing import Any

from filrouge.core.clock import from_text, to_text
from filrouge.core.errors import Busy, NotFound
from filrouge.core.protocols import Analyser, Tx
from filrouge.maintenance.models import Garden, GardenStep, Occasion, StepKind
from filrouge.memories.repository import MemoryWriter, Origin, life_of, memory_from_row
from filrouge.runtime.journal import Journal

# Runs of the garden and their steps: what is planned, what is done, and what came of it.
#
# A step's mark and its counts are written in the transaction of its effects, so a step is done once, wherever a
# process ends; what a run came to is the sum over its steps. One run is at work at a time: an index of the schema
# says so.

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


# Merging: of two memories that say the same, one stays and gets what speaks for the other, which becomes its history.
#
# What goes keeps its words, its evidence and its sessions: it is superseded by the other, so it is found for its own
# time, and erasing what it rests on takes it along. What stays gets copies of them, and what was added is noted in
# the journal, so that an undo takes exactly that away again. Trust, confidence and words of what stays are its own.

ACTION = "merge"


class Merging:
    """Merges memories of one database. Whether two are one is for the caller to say."""

    def __init__(self, tx: Tx, analyser: Analyser) -> None:
        self._tx = tx
        self._writer = MemoryWriter(tx, analyser)

    def merge(self, kept: str, gone: str, origin: Origin, reason: str) -> bool:
        """Let `gone` go into `kept`, in the caller's transaction; False where not both are live."""
        rows = {row["id"]: row for row in self._tx.all("memories.some", {"ids": json.dumps([kept, gone])})}
        if len(rows) < 2 or any(row["state"] != "live" for row in rows.values()):
            return False
        memory = memory_from_row(rows[gone])
        before = life_of(memory)
        after = replace(
            before, state="superseded", valid_to=max(before.valid_from, to_text(origin.at)), superseded_by=kept
        )
        self._writer.lives.write({gone: after}, origin.at)
        merged = self._copied(rows[kept], rows[gone])
        payload = self._writer.said(memory.text, reason, origin) | {"merged": merged}
        self._writer.record(origin, ACTION, gone, payload, before={gone: before}, after={gone: after}, touches=[kept])
        return True

    def take_back(self, merged: Mapping[str, Any]) -> dict[str, Any]:
        """Take away from the kept memory what a merge gave it, or give it again; what the journal is to say of it."""
        kept, back = merged["kept"], -int(merged["by"])
        self._tx.run(
            "memories.merge_mentions",
            {"id": kept, "by": back * merged["mentions"]}
            | {f"{name}_{place}": merged[name][place] for name in ("first", "last") for place in (0, 1)}
            | {"back": back < 0},
        )
        for turn_id, start, stop in merged["evidence"]:
            row = {"memory_id": kept, "turn_id": turn_id, "start": start, "stop": stop}
            self._tx.run("evidence.withdraw" if back < 0 else "evidence.add", row)
        for host, session_id, first_at, last_at in merged["sessions"]:
            row = {"memory_id": kept, "host": host, "session_id": session_id}
            if back < 0:
                self._tx.run("analyses.unmention_once", row)
            else:
                self._tx.run("analyses.mention_between", row | {"first_at": first_at, "last_at": last_at})
        return {**merged, "by": back}

    def was_merged(self, one: str, other: str) -> bool:
        """True where these two were merged once and set apart again: a user said that they are not one."""
        found = Journal(self._tx).of(one)
        return any(entry.action == ACTION and {one, other} <= entry.touches for entry in found)

    def _copied(self, kept: Mapping[str, Any], gone: Mapping[str, Any]) -> dict[str, Any]:
        """Give the kept memory what speaks for the other; what it did not have before."""
        pair = {"kept": kept["id"], "gone": gone["id"]}
        evidence = [[row["turn_id"], row["start"], row["stop"]] for row in self._tx.all("evidence.copy", pair)]
        sessions = [
            [row["host"], row["session_id"], row["first_at"], row["last_at"]]
            for row in self._tx.all("analyses.copy_mentions", pair)
        ]
        first = [kept["first_mention"], min(kept["first_mention"], gone["first_mention"])]
        last = [kept["last_mention"], max(kept["last_mention"], gone["last_mention"])]
        # A concept counts the sessions that speak of it, and one session may speak of both.
        mentions = len(sessions) if kept["kind"] == "concept" else int(gone["mention_count"])
        row = {"id": kept["id"], "by": mentions, "first_0": first[0], "first_1": first[1], "last_0": last[0]}
        self._tx.run("memories.merge_mentions", row | {"last_1": last[1], "back": False})
        return {
            "kept": kept["id"],
            "by": 1,
            "mentions": mentions,
            "first": first,
            "last": last,
            "evidence": evidence,
            "sessions": sessions,
        }
