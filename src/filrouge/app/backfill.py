"""Backfill: what follows from messages that were read in from elsewhere, a few at a time behind all other work.

A history of ten thousand messages would keep a prompt that is typed now waiting for minutes, if its messages were
queued like others. So one job a page holds their ids, in the last place of all, and lets in a few of them whenever
nothing else is due. A model is not asked about the past by itself: that would cost its reader days and money.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from filrouge.app.follow import follow_import
from filrouge.app.parts import Parts
from filrouge.app.worker import Outcome
from filrouge.ports import Tx
from filrouge.store.jobs import Jobs

BACKFILL: Final = "backfill"
#: Messages whose work may stand before that of a prompt that comes in just then.
AT_ONCE: Final = 8


def queue_backfill(parts: Parts, tx: Tx, turn_ids: Sequence[str]) -> None:
    """Have what follows from these turns done, once nothing else is to be done."""
    if turn_ids:
        work = {"turns": list(turn_ids)}
        Jobs(tx).enqueue(BACKFILL, work, dedupe=f"{BACKFILL}:{turn_ids[0]}", at=parts.clock.now())


def backfill(parts: Parts, payload: Mapping[str, Any]) -> Outcome:
    """The job: queue what follows from the next few; what was erased meanwhile has nothing to follow from it."""
    ids: list[str] = list(payload["turns"])

    def write(tx: Tx) -> None:
        follow_import(parts, tx, parts.turns(tx).get(ids[:AT_ONCE]))

    return Outcome(write=write, again=lambda: {"turns": ids[AT_ONCE:]} if ids[AT_ONCE:] else None)
