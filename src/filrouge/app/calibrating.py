"""Calibrating: a space whose cosines nobody has measured is measured here, once on the bundled sample and once more on
the user's own turns, when there are enough of them. What a model brings with it is never replaced.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from filrouge.app.parts import Parts
from filrouge.app.spaces import recalibrate
from filrouge.app.worker import Outcome
from filrouge.ports import Tx
from filrouge.providers.calibration import SHORT_TURN, from_turns, measure
from filrouge.store.jobs import Jobs
from filrouge.store.vectors import StoredVectors

_LOG = logging.getLogger(__name__)

CALIBRATE = "calibrate"
_MOST_TURNS = 800


def queue_calibration(parts: Parts) -> None:
    """Queue the measuring of the current space, unless it came with a calibration or was measured on turns."""
    if not _is_due(parts):
        return
    now = parts.clock.now()
    parts.writer.run(lambda tx: Jobs(tx).enqueue(CALIBRATE, {}, dedupe=CALIBRATE, at=now))
    parts.work_waiting.set()


def calibrate(parts: Parts, _: Mapping[str, Any]) -> Outcome:
    """The job: measure the current space on the sample, and on the user's turns where there are enough."""
    meaning = parts.meaning
    if _is_due(parts):
        by_sample = measure(meaning.embedder)
        vectors, sessions = parts.readers.here(lambda tx: _short_turns(tx, meaning.space.id))
        found = from_turns(vectors, sessions, by_sample) or by_sample
        if parts.meaning.space.id == meaning.space.id:
            recalibrate(parts, found)
            _LOG.info("%s is calibrated on %s, %d pairs", meaning.space.id, found.origin, found.pairs)
    return Outcome(write=lambda _: None)


def _is_due(parts: Parts) -> bool:
    meaning = parts.meaning
    known = meaning.space.calibration
    return not meaning.is_lost and (known is None or known.origin == "sample")


def _short_turns(tx: Tx, space_id: str) -> tuple[Any, list[str]]:
    return StoredVectors(tx).short_turns(space_id, longest=SHORT_TURN, limit=_MOST_TURNS)
