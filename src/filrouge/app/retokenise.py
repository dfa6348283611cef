"""Retokenise: rows that another analyser indexed are indexed again, in the background, a batch at a time.

A batch is one transaction with the job that asks for the next, so being killed costs at most one batch. Search goes
on meanwhile: a row not yet reached is found by its words as they are written, because every analyser indexes those.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from filrouge.app.parts import Parts
from filrouge.app.worker import Outcome
from filrouge.ports import Tx
from filrouge.store.jobs import Jobs
from filrouge.store.words import Owner, Words

_LOG = logging.getLogger(__name__)
JOB: Final = "retokenise"
#: A batch reads the index once and holds up other writes for as long: it is a hundredth of the rows, or this many.
FEWEST, SHARE = 200, 100
_OWNERS: tuple[Owner, ...] = ("memory", "turn")


def queue_stale_words(parts: Parts) -> None:
    """Queue the indexing of memories and turns that another analyser indexed."""

    def queue(tx: Tx) -> None:
        for owner in _OWNERS:
            if Words(tx, parts.analyser, owner).stale(1):
                _LOG.info("the words of every %s are analysed again", owner)
                _next(parts, tx, owner, "start")

    parts.writer.run(queue)


def retokenise(parts: Parts, payload: Mapping[str, Any]) -> Outcome:
    """Index one batch again."""
    owner: Owner = "memory" if payload["owner"] == "memory" else "turn"

    def write(tx: Tx) -> None:
        words = Words(tx, parts.analyser, owner)
        rows = words.stale(max(FEWEST, words.totals().rows // SHARE))
        words.renew(rows)
        if rows:
            _next(parts, tx, owner, rows[-1][0])

    return Outcome(write=write)


def _next(parts: Parts, tx: Tx, owner: Owner, after: str) -> None:
    Jobs(tx).enqueue(JOB, {"owner": owner}, dedupe=f"{JOB}:{owner}:{after}", at=parts.clock.now())
