"""Scheduling of model reading: after a reply, at a conversation's end, or after a quiet period (EXT-2)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from filrouge.capture.events import Event
from filrouge.capture.models import Turn
from filrouge.core.clock import add_seconds
from filrouge.core.protocols import Tx
from filrouge.providers.service import PROVIDERS_WITHOUT_MODEL
from filrouge.runtime.jobs import Jobs
from filrouge.runtime.services import Parts

EXTRACT = "extract"


def queue_reading(parts: Parts, tx: Tx, turns: Sequence[Turn]) -> None:
    """Queue reading of the conversations of new turns: soon after the agent's reply, or after a quiet period."""
    spoken = [turn for turn in turns if turn.scope.session and turn.role != "tool"]
    if not spoken or (settings := parts.settings(tx)).extract_provider in PROVIDERS_WITHOUT_MODEL:
        return
    pace, now = parts.models.pace, parts.clock.now()
    for turn in spoken:
        at_once = turn.role == "assistant" and settings.mode != "light"
        _queue(tx, turn.host, turn.scope.session, now, pace.after_reply if at_once else pace.quiet)


def queue_last_reading(parts: Parts, tx: Tx, event: Event) -> None:
    """Queue reading of a conversation that ends or is about to be compacted."""
    if (
        event.kind in ("pre_compact", "session_end")
        and parts.settings(tx).extract_provider not in PROVIDERS_WITHOUT_MODEL
    ):
        _queue(tx, event.host, event.session, parts.clock.now(), parts.models.pace.after_reply)


def _queue(tx: Tx, host: str, session: str, now: datetime, delay: float) -> None:
    """Queue one job per conversation, at the earliest time requested."""
    name = f"{EXTRACT}:{host}:{session}"
    if not Jobs(tx).enqueue(EXTRACT, {"host": host, "session": session}, dedupe=name, at=now, delay=delay):
        Jobs(tx).sooner(name, add_seconds(now, delay))
