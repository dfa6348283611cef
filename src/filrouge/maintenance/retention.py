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
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec import Struct

from filrouge.capture import inbox
from filrouge.context.log import Recalls
from filrouge.core.clock import Clock, from_text, to_text
from filrouge.core.protocols import Analyser, Tx
from filrouge.core.settings import Settings
from filrouge.maintenance.consolidation import Cutoffs, Policy, cutoffs, next_pressure
from filrouge.runtime.disk import RESERVE_BYTES, delete_reserve, ensure_reserve, sizes
from filrouge.runtime.executors import PeriodicTask
from filrouge.runtime.jobs import JobResult, Jobs, Payload
from filrouge.runtime.journal import Journal
from filrouge.runtime.services import Parts, StoreContext
from filrouge.search.repository import FullTextIndex
from filrouge.search.vector_search import VectorSearch

#: A position among the expired turns: (time, id) of the last one deleted.
Position = tuple[str, str]
FIRST_POSITION: Position = ("", "")


class Expired(Struct, frozen=True, kw_only=True):
    """Turns past their retention time.

    Attributes:
        rows: rows of `turns.expired`, oldest first.
    """

    rows: tuple[Mapping[str, Any], ...]

    @property
    def ids(self) -> list[str]:
        """The ids of the turns."""
        return [str(row["id"]) for row in self.rows]

    @property
    def last(self) -> Position:
        """The position of the last turn, after which the next batch starts."""
        return (str(self.rows[-1]["at"]), str(self.rows[-1]["id"]))


class RetentionRows:
    """Deletes expired rows of one database."""

    def __init__(self, tx: Tx, analyser: Analyser) -> None:
        self._tx = tx
        self._analyser = analyser
        self._words = FullTextIndex(tx, analyser, "turn")

    def expired(self, before: Cutoffs, after: Position, limit: int) -> Expired:
        """Return up to `limit` expired turns after a position."""
        at, id_ = after
        rows = self._tx.all("turns.expired", _cutoff_parameters(before) | {"at": at, "id": id_, "limit": limit})
        return Expired(rows=tuple(rows))

    def delete(self, expired: Expired) -> None:
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

    def delete_logs(self, before: datetime, limit: int) -> int:
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


def _cutoff_parameters(before: Cutoffs) -> dict[str, object]:
    return {
        "tools": to_text(before.tools) if before.tools else "",
        "noise": to_text(before.noise) if before.noise else "",
    }


RETAIN: Final = "retain"
#: Turns or log rows deleted per transaction, which takes some milliseconds.
_ROWS_PER_TRANSACTION: Final = 32
#: The file is shrunk only if it has at least this many free pages (one megabyte).
_MIN_FREE_PAGES: Final = 256
_INTERVAL: Final = timedelta(days=1)
_CHECK_SECONDS: Final = 60.0


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
    return PeriodicTask(_CHECK_SECONDS, lambda: _check(parts), name="retention", failure_message=failed)


def _check(parts: Parts) -> None:
    ensure_reserve(parts.home)
    inbox.reserve_record(parts.home)
    queue_retention(parts)


def queue_retention(parts: Parts) -> bool:
    """Queue a run if the last one is at least a day old; return whether it was queued."""
    now = parts.clock.now()
    last = parts.readers.here(last_run)
    if last is not None and timedelta() <= now - from_text(last["at"]) < _INTERVAL:
        return False
    queued = parts.writer.run(lambda tx: begin_retention(parts.clock, tx))
    parts.work_waiting.set()
    return queued


def begin_retention(clock: Clock, tx: Tx) -> bool:
    """Queue a run in the caller's transaction, unless one is queued or running."""
    now = clock.now()
    return Jobs(tx).enqueue(RETAIN, _first_payload(now), dedupe=RETAIN, at=now)


def is_due(parts: StoreContext, tx: Tx) -> bool:
    """Return True if any turn has passed its retention time."""
    before = cutoffs(policy_of(parts.settings(tx)), parts.clock.now())
    return bool(RetentionRows(tx, parts.analyser).expired(before, FIRST_POSITION, 1).rows)


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
    position = (str(payload["place"][0]), str(payload["place"][1]))
    expired = parts.readers.here(
        lambda tx: RetentionRows(tx, parts.analyser).expired(before, position, _ROWS_PER_TRANSACTION)
    )
    deleted = Counter[str](payload["taken"])
    if expired.rows:
        deleted.update("tools" if row["role"] == "tool" else "noise" for row in expired.rows)
        next_payload = {**payload, "place": expired.last, "taken": dict(deleted)}
        return JobResult(
            write=lambda tx: RetentionRows(tx, parts.analyser).delete(expired),
            afterwards=lambda: _remove_from_index(parts.vectors, expired),
            again=lambda: next_payload,
        )
    return _finish(parts, payload, policy, before, deleted)


def _remove_from_index(vectors: VectorSearch, expired: Expired) -> None:
    for id_ in expired.ids:
        vectors.turn_index.remove(id_)


def _finish(parts: Parts, payload: Payload, policy: Policy, before: Cutoffs, deleted: Counter[str]) -> JobResult:
    """Delete logs, then shrink the file, then start again with shorter times if the home exceeds its cap."""
    next_payloads, size = list[Payload](), sum(sizes(parts.home).values())

    def write(tx: Tx) -> None:
        deleted_logs = (
            RetentionRows(tx, parts.analyser).delete_logs(before.logs, _ROWS_PER_TRANSACTION) if before.logs else 0
        )
        if deleted_logs:
            next_payloads.append({**payload, "taken": dict(deleted + Counter(logs=deleted_logs))})
        elif Recalls(tx).shrink(_ROWS_PER_TRANSACTION) or _shrink_file(tx):
            next_payloads.append(payload)
        elif pressure := next_pressure(policy, size, int(payload["pressure"])):
            next_payloads.append({**payload, "pressure": pressure, "place": FIRST_POSITION})
        else:
            counts = dict(deleted) | {"pressure": payload["pressure"]}
            Journal(tx).append(at=parts.clock.now(), actor="policy", action=RETAIN, subject_id=RETAIN, payload=counts)

    def afterwards() -> None:
        if not next_payloads and deleted["tools"] + deleted["noise"]:
            parts.words.forget("turn", ("all",))

    return JobResult(write=write, afterwards=afterwards, again=lambda: next_payloads[-1] if next_payloads else None)


def _shrink_file(tx: Tx) -> bool:
    """Give free pages back to the disk; return False if there were too few or none was given back."""
    pages = tx.one("pages.free") or {"free": 0, "whole": 0}
    if pages["free"] < max(_MIN_FREE_PAGES, pages["whole"] // 10):
        return False
    tx.all("pages.give_back")
    after = tx.one("pages.free") or pages
    return bool(after["free"] < pages["free"])


def _first_payload(now: datetime) -> dict[str, Any]:
    return {"began": to_text(now), "pressure": 0, "place": FIRST_POSITION, "taken": {}}
