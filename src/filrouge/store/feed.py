"""What has been written since a moment, for the live feed: ids, kinds and states, never a text.

Entries of the journal, events and decisions about threads are numbered as they are committed, so each is followed by a
mark. What has no number is followed by what is known of it: the open events, the dead jobs, the latest moment.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final

from filrouge.model.live import (
    EventCaptured,
    EventSettled,
    Forgotten,
    JobDead,
    MemoryDecided,
    SettingChanged,
    ThreadChanged,
    ThreadPlaced,
    Told,
)
from filrouge.ports import Tx

#: Rows of each kind that are read at once.
_AT_ONCE: Final = 500
#: Events that are followed until they are settled; of more, the oldest are let go.
_MOST_OPEN: Final = 2_000
#: What the journal notes that is no memory's life: retention, repairs, tokens, and what was forgotten, of which only
#: the receipt is told.
_NOT_TOLD: Final = frozenset({"erase", "retain", "repaired", "token_create", "token_revoke", "session_create"})
_OF_THREADS: Final = "thread_"


@dataclass(kw_only=True)
class UpTo:
    """Up to where somebody has been told."""

    entry: int = 0
    event: int = 0
    decision: int = 0
    setting: str = ""
    receipt: str = ""
    open_events: dict[str, None] = field(default_factory=dict[str, None])
    dead_jobs: frozenset[str] = frozenset()


class FeedRows:
    """Reads behind marks."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def now(self) -> UpTo:
        """Marks from which on only what is new is told; events that wait to be understood are followed."""
        row = self._newest()
        waiting = self._tx.all("feed.open", {"limit": _MOST_OPEN})
        return UpTo(
            entry=row["entry"],
            event=row["event"],
            decision=row["decision"],
            setting=row["setting"],
            receipt=row["receipt"],
            open_events={one["id"]: None for one in reversed(waiting)},
            dead_jobs=frozenset(one["id"] for one in self._tx.all("feed.dead")),
        )

    def behind(self, marks: UpTo) -> tuple[list[Told], bool]:
        """What came behind marks, which are moved on, and whether there may be more."""
        newest = self._newest()
        # Rows may be gone, and a restored database is an older one: what has that number next is new.
        marks.entry = min(marks.entry, newest["entry"])
        marks.event = min(marks.event, newest["event"])
        marks.decision = min(marks.decision, newest["decision"])
        captured, decisions, entries = self._captured(marks), self._placed(marks), self._decided(marks)
        told = [*captured, *decisions, *entries, *self._settled(marks), *self._dead(marks)]
        if newest["setting"] > marks.setting:
            told += [SettingChanged(**row) for row in self._tx.all("feed.settings", {"after": marks.setting})]
        if newest["receipt"] > marks.receipt:
            told += [Forgotten(**row) for row in self._tx.all("feed.receipts", {"after": marks.receipt})]
        marks.setting, marks.receipt = newest["setting"], newest["receipt"]
        has_more = marks.entry < newest["entry"] or marks.event < newest["event"] or marks.decision < newest["decision"]
        return told, has_more

    def _newest(self) -> dict[str, Any]:
        row = self._tx.one("feed.newest")
        assert row is not None
        return row

    def _captured(self, marks: UpTo) -> list[Told]:
        found = self._tx.all("feed.events", {"after": marks.event, "limit": _AT_ONCE})
        for row in found:
            marks.event = row.pop("seq")
            marks.open_events[row["id"]] = None
        while len(marks.open_events) > _MOST_OPEN:
            del marks.open_events[next(iter(marks.open_events))]
        return [EventCaptured(**row) for row in found]

    def _settled(self, marks: UpTo) -> list[Told]:
        if not marks.open_events:
            return []
        found = self._tx.all("feed.settled", {"ids": json.dumps(list(marks.open_events))})
        for row in found:
            del marks.open_events[row["id"]]
        return [EventSettled(**row) for row in found]

    def _placed(self, marks: UpTo) -> list[Told]:
        found = self._tx.all("feed.decisions", {"after": marks.decision, "limit": _AT_ONCE})
        for row in found:
            marks.decision = row.pop("seq")
        return [ThreadPlaced(**row) for row in found]

    def _decided(self, marks: UpTo) -> list[Told]:
        found = list[Told]()
        for row in self._tx.all("feed.entries", {"after": marks.entry, "limit": _AT_ONCE}):
            marks.entry = row["seq"]
            if row["action"] not in _NOT_TOLD:
                found.append(_entry(row, tuple(sorted({*json.loads(row["touches"])} - {row["subject_id"]}))))
        return found

    def _dead(self, marks: UpTo) -> list[Told]:
        found = self._tx.all("feed.dead")
        known, marks.dead_jobs = marks.dead_jobs, frozenset(row["id"] for row in found)
        return _new(found, known)


def _new(dead: list[dict[str, Any]], known: Collection[str]) -> list[Told]:
    return [JobDead(**row) for row in dead if row["id"] not in known]


def _entry(row: dict[str, Any], others: tuple[str, ...]) -> Told:
    action, subject = str(row["action"]), str(row["subject_id"])
    if action.startswith(_OF_THREADS):
        name = action.removeprefix(_OF_THREADS)
        return ThreadChanged(thread_id=subject, action=name, others=others, actor=row["actor"], at=row["at"])
    return MemoryDecided(
        entry=row["seq"],
        action=action,
        memory_id=subject,
        touches=others,
        actor=row["actor"],
        made_by=row["made_by"],
        prompt_version=row["prompt_version"],
        at=row["at"],
    )
