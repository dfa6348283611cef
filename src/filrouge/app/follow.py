"""What follows from a new turn, from wherever it came: analysis of the user's words, vectors for all, a place
in a thread, and a reading of the conversation by a model where there is one."""

from __future__ import annotations

from collections.abc import Sequence

from filrouge.app.due_readings import queue_reading
from filrouge.app.parts import Parts
from filrouge.app.placing import queue_placing
from filrouge.app.spaces import queue_vectors
from filrouge.model.turn import TRUST_PROMPT, Turn
from filrouge.ports import Tx
from filrouge.store.jobs import Jobs


def follow(parts: Parts, tx: Tx, turns: Sequence[Turn]) -> None:
    """Queue what follows from new turns."""
    now, jobs = parts.clock.now(), Jobs(tx)
    for turn in turns:
        if to_be_analysed(turn):
            work = {"turn": turn.id} | ({"event": turn.event_id} if turn.event_id else {})
            jobs.enqueue("analyse", work, dedupe=f"analyse:{turn.id}", at=now)
        if turn.role != "tool":
            queue_vectors(tx, "turn", turn.id, now)
    queue_placing(parts, tx, turns)
    queue_reading(parts, tx, turns)


def to_be_analysed(turn: Turn) -> bool:
    """Only the user's own words become memories, and only where they say something."""
    return turn.role == "user" and turn.trust >= TRUST_PROMPT and not turn.skipped
