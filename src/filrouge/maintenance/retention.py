"""Retention: a daily job that deletes old tool output, noise and logs, and shrinks the database file.

A turn that any memory cites stays, whether the memory is live or not. The event of a deleted turn keeps its row, so a
repeated delivery is recognised, but loses its payload.

A run is one job that deletes a few rows per transaction until nothing is due, behind all other work. Its result is one
journal entry, in counts. If the home exceeds its size cap, the run continues with shorter retention times.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from filrouge.capture import inbox
from filrouge.context.log import Recalls
from filrouge.core.clock import from_text, to_text
from filrouge.core.protocols import Analyser, Tx
from filrouge.core.settings import Settings
from filrouge.maintenance.consolidation import Cutoffs, Policy, cutoffs, next_pressure
from filrouge.runtime.disk import RESERVE_BYTES, delete_reserve, ensure_reserve, sizes
from filrouge.runtime.executors import PeriodicTask
from filrouge.runtime.jobs import JobResult, Jobs, Payload
from filrouge.runtime.journal import Journal
from filrouge.runtime.services import Parts
from filrouge.search.repository import FullTextIndex

#: A position among the expired turns: (time, id) of the last one deleted.
Place = tuple[str, str]
FIRST: Place = ("", "")


@dataclass(frozen=True, kw_only=True, slots=True)
class Expired:
    """Turns past their retention time, oldest first."""

    rows: tuple[Mapping[str, Any], ...]

    @property
    def ids(self) -> list[str]:
        """The ids of the turns."""
        return [str(row["id"]) for row in self.rows]

    @property
    def last(self) -> Place:
        """The position of the last turn, after which the next batch starts."""
        return (str(self.rows[-1]["at"]), str(self.rows[-1]["id"]))


class Retaining:
    """Deletes expired rows of one database."""

    def __init__(self, tx: Tx, analyser: Analyser) -> None:
        self._tx = tx
        self._analyser = analyser
        self._words = FullTextIndex(tx, analyser, "turn")

    def expired(self, before: Cutoffs, after: Place, limit: int) -> Expired:
        """Return up to `limit` expired turns after a position."""
        at, id_ = after
        rows = self._tx.all("turns.expired", _moments(before) | {"at": at, "id": id_, "limit": limit})
        return Expired(rows=tuple(rows))

    def waiting(self, before: Cutoffs) -> dict[str, dict[str, int]]:
        """Count the expired turns and their characters, by `tools` and `noise`."""
        rows = self._tx.all("turns.expired_count", _moments(before))
        return {row["what"]: {"turns": row["turns"], "characters": row["characters"]} for row in rows}

    def take(self, expired: Expired) -> None:
        """Delete turns with everything derived from them alone."""
        ids = json.dumps(expired.ids)
        self._unindex(expired.rows)
        self._tx.run("vectors.erase", {"owner_kind": "turn", "ids": ids})
        self._tx.run("need_vectors.erase", {"memories": "[]", "turns": ids})
        self._tx.run("thread_decisions.erase", {"turns": ids})
        self._tx.run("threads.displace", {"turns": ids})
        self._tx.run("turns.erase", {"ids": ids})
        events = [row["event_id"] for row in expired.rows if row["event_id"]]
        self._tx.run("events.hollow", {"ids": json.dumps(events)})

    def take_logs(self, before: datetime, limit: int) -> int:
        """Delete up to `limit` old recalls and as many old unread answers; return how many were deleted."""
        when = {"before": to_text(before), "limit": limit}
        return self._tx.run("recalls.expire", when) + self._tx.run("unread.expire", when)

    def _unindex(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Remove rows from the full-text index by their tokens.

        The tokens are computed again, because reading them back would scan the whole index.
        """
        for row in rows:
            if row["analyser"] != self._analyser.version:
                self._words.remove([row["id"]])
            elif tokens := self._analyser.tokens(row["text"]):
                self._tx.run("turns.unindex_as", {"id": row["id"], "tokens": tokens})


def _moments(before: Cutoffs) -> dict[str, object]:
    return {
        "tools": to_text(before.tools) if before.tools else "",
        "noise": to_text(before.noise) if before.noise else "",
    }


RETAIN: Final = "retain"
#: Turns or log rows deleted per transaction, which takes some milliseconds.
_BATCH: Final = 32
#: Pages given back to the disk at once: one megabyte.
_PAGES: Final = 256
_EVERY: Final = timedelta(days=1)
_LOOK_SECONDS: Final = 60.0


def policy_of(settings: Settings) -> Policy:
    """Return the retention policy from the settings."""
    return Policy(
        tools=settings.retention_tool_days,
        noise=settings.retention_noise_days,
        logs=settings.retention_log_days,
        cap=settings.size_cap_mb * 1_000_000,
    )


def retention_watch(parts: Parts) -> PeriodicTask:
    """Return a task that runs each minute: keep the disk reserve, and queue retention once a day."""
    failed = "the retention check failed"
    return PeriodicTask(_LOOK_SECONDS, lambda: _look(parts), name="retention", failure_message=failed)


def _look(parts: Parts) -> None:
    ensure_reserve(parts.home)
    inbox.reserve_record(parts.home)
    queue_retention(parts)


def queue_retention(parts: Parts) -> bool:
    """Queue a run if the last one is at least a day old; return whether it was queued."""
    now = parts.clock.now()
    last = parts.readers.here(last_run)
    if last is not None and timedelta() <= now - from_text(last["at"]) < _EVERY:
        return False
    queued = parts.writer.run(lambda tx: begin_retention(parts, tx))
    parts.work_waiting.set()
    return queued


def begin_retention(parts: Parts, tx: Tx) -> bool:
    """Queue a run in the caller's transaction, unless one is queued or running."""
    now = parts.clock.now()
    return Jobs(tx).enqueue(RETAIN, _begun(now), dedupe=RETAIN, at=now)


def is_due(parts: Parts, tx: Tx) -> bool:
    """Return True if any turn has passed its retention time."""
    before = cutoffs(policy_of(parts.settings(tx)), parts.clock.now())
    return bool(Retaining(tx, parts.analyser).expired(before, FIRST, 1).rows)


def last_run(tx: Tx) -> dict[str, Any] | None:
    """Return when retention last ran and what it deleted, in counts; None if it never ran."""
    row = tx.one("journal.last_of", {"action": RETAIN})
    return None if row is None else {"at": row["at"], "taken": Journal(tx).entry(row["seq"]).payload or {}}


def retain(parts: Parts, payload: Payload) -> JobResult:
    """Job: delete the next expired turns, then old logs, then shrink the file, then write the journal entry."""
    if shutil.disk_usage(parts.home).free < RESERVE_BYTES:
        delete_reserve(parts.home)
    settings = parts.readers.here(lambda tx: parts.settings(tx))
    policy, pressure = policy_of(settings), int(payload["pressure"])
    before = cutoffs(policy, from_text(payload["began"]), pressure)
    place = (str(payload["place"][0]), str(payload["place"][1]))
    expired = parts.readers.here(lambda tx: Retaining(tx, parts.analyser).expired(before, place, _BATCH))
    taken = Counter[str](payload["taken"])
    if expired.rows:
        taken.update("tools" if row["role"] == "tool" else "noise" for row in expired.rows)
        following = {**payload, "place": expired.last, "taken": dict(taken)}
        return JobResult(
            write=lambda tx: Retaining(tx, parts.analyser).take(expired),
            afterwards=lambda: _leave_index(parts, expired),
            again=lambda: following,
        )
    return _finish(parts, payload, policy, before, taken)


def _leave_index(parts: Parts, expired: Expired) -> None:
    for id_ in expired.ids:
        parts.vectors.turn_index.remove(id_)


def _finish(parts: Parts, payload: Payload, policy: Policy, before: Cutoffs, taken: Counter[str]) -> JobResult:
    """Delete logs, then shrink the file, then start again with shorter times if the home exceeds its cap."""
    left, size = list[Payload](), sum(sizes(parts.home).values())

    def write(tx: Tx) -> None:
        gone = Retaining(tx, parts.analyser).take_logs(before.logs, _BATCH) if before.logs else 0
        if gone:
            left.append({**payload, "taken": dict(taken + Counter(logs=gone))})
        elif Recalls(tx).shrink(_BATCH) or _shrunk(tx):
            left.append(payload)
        elif pressure := next_pressure(policy, size, int(payload["pressure"])):
            left.append({**payload, "pressure": pressure, "place": FIRST})
        else:
            counts = dict(taken) | {"pressure": payload["pressure"]}
            Journal(tx).append(at=parts.clock.now(), actor="policy", action=RETAIN, subject_id=RETAIN, payload=counts)

    def afterwards() -> None:
        if not left and taken["tools"] + taken["noise"]:
            parts.words.forget("turn", ("all",))

    return JobResult(write=write, afterwards=afterwards, again=lambda: left[-1] if left else None)


def _shrunk(tx: Tx) -> bool:
    """Give free pages back to the disk; return False if there were too few or none was given back."""
    room = tx.one("pages.free") or {"free": 0, "whole": 0}
    if room["free"] < max(_PAGES, room["whole"] // 10):
        return False
    tx.all("pages.give_back")
    after = tx.one("pages.free") or room
    return bool(after["free"] < room["free"])


def _begun(now: datetime) -> dict[str, Any]:
    return {"began": to_text(now), "pressure": 0, "place": FIRST, "taken": {}}
