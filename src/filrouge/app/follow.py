"""What follows from a new turn, from wherever it came: analysis of the user's words, vectors for all, a place
in a thread, and a reading of the conversation by a model where there is one."""

from __future__ import annotations

from collections.abc import Sequence

from filrouge.app.due_readings import queue_reading
from filrouge.app.parts import Parts
from filrouge.app.placing import queue_placing
from filrouge.app.spaces import queue_vectors
from filrouge.extraction import reader
from filrouge.model.turn import TRUST_PROMPT, Turn
from filrouge.ports import Tx
from filrouge.store.jobs import Jobs


def follow(parts: Parts, tx: Tx, turns: Sequence[Turn]) -> bool:
    """Queue what follows from new turns; True if any of them is to be analysed."""
    stating = [turn for turn in turns if to_be_analysed(turn) or _may_agree(parts, tx, turn)]
    _follow(parts, tx, turns, stating)
    queue_reading(parts, tx, turns)
    return bool(stating)


def follow_import(parts: Parts, tx: Tx, turns: Sequence[Turn]) -> None:
    """The same for turns that were read in from elsewhere: whoever may be trusted with it, they are looked through for
    what they state, and no model is asked."""
    _follow(parts, tx, turns, [turn for turn in turns if turn.role == "user" and not turn.skipped])


def _follow(parts: Parts, tx: Tx, turns: Sequence[Turn], stating: Sequence[Turn]) -> None:
    now, jobs, to_analyse = parts.clock.now(), Jobs(tx), {turn.id for turn in stating}
    for turn in turns:
        if turn.id in to_analyse:
            work = {"turn": turn.id} | ({"event": turn.event_id} if turn.event_id else {})
            jobs.enqueue("analyse", work, dedupe=f"analyse:{turn.id}", at=now)
        if turn.role != "tool":
            queue_vectors(tx, "turn", turn.id, now)
    queue_placing(parts, tx, turns)


def to_be_analysed(turn: Turn) -> bool:
    """Only the user's own words become memories, and only where they say something."""
    return turn.role == "user" and turn.trust >= TRUST_PROMPT and not turn.skipped


def _may_agree(parts: Parts, tx: Tx, turn: Turn) -> bool:
    """True for a prompt that says nothing by itself, but may say yes to what the agent said before it."""
    return bool(turn.skipped) and reader.may_agree(turn) and parts.turns(tx).answered(turn) is not None
