"""Moving turns between threads: one thread into another, or some prompts with what followed them.

Both ends are named anew and get new vectors in the same transaction; bridges follow, and so does where the work stood.
A thread that is left without a prompt goes into the one that took its last.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from filrouge.app.parts import Parts
from filrouge.app.syntheses import queue_synthesis
from filrouge.app.thread_questions import queue_better_name
from filrouge.app.thread_upkeep import refit
from filrouge.app.ties import follow_merge, queue_ties
from filrouge.model.thread import Thread
from filrouge.ports import Tx
from filrouge.store.syntheses import Syntheses
from filrouge.store.thread_traces import ThreadVectors
from filrouge.store.threads import Threads
from filrouge.threads.lifecycle import moved


def move_turns(parts: Parts, tx: Tx, turn_ids: Collection[str], target: Thread, at: datetime, space_id: str) -> Thread:
    """Put turns, and what followed the prompts among them, into a thread that is not archived by a merge.

    Args:
        turn_ids: each in a thread, of the same user and project as the target.
    """
    threads = Threads(tx)
    former = [id_ for id_ in dict.fromkeys(threads.of_turns(turn_ids).values()) if id_ != target.id]
    sources = threads.some(former)
    before = len(threads.turns(target.id, routed=True))
    threads.move(threads.with_followers(turn_ids), target.id)
    target = moved(target, "use" if target.state == "active" else "reactivate", at)
    for source in sources:
        if threads.turns(source.id, routed=True, limit=1):
            refit(parts, tx, [source], space_id)
            queue_ties(parts, tx, source.id)
            _tell_anew(parts, tx, turn_ids)
        else:
            target = take_in(parts, tx, source, target, at)
    [target] = refit(parts, tx, [target], space_id)
    after = len(threads.turns(target.id, routed=True))
    queue_better_name(parts, tx, target, before=before, after=after)
    queue_ties(parts, tx, target.id)
    return target


def _tell_anew(parts: Parts, tx: Tx, turn_ids: Collection[str]) -> None:
    """Have it said again where the work of these turns' sessions stands, thread by thread as they are now."""
    syntheses = Syntheses(tx)
    sessions = syntheses.sessions(turn_ids)
    syntheses.forget(turn_ids)
    for session in sessions:
        queue_synthesis(parts, tx, session, "quiet")


def take_in(parts: Parts, tx: Tx, source: Thread, target: Thread, at: datetime) -> Thread:
    """Put every turn of one thread into another; the emptied one is archived and names the other.

    Returns:
        The other, not yet with a new name or vector.

    Raises:
        BadInput: one of them was merged before.
    """
    threads = Threads(tx)
    follow_merge(parts, tx, merged=source.id, into=target.id)
    queue_ties(parts, tx, target.id)
    Syntheses(tx).tie(source.id, target.id)
    threads.move(threads.turns(source.id), target.id)
    emptied = moved(source, "merge", at)
    threads.update(replace(emptied, merged_into=target.id, summary="", topics=(), drifts=()))
    ThreadVectors(tx).drop([source.id])
    drifts = sorted([*target.drifts, *source.drifts], key=lambda one: one.at)
    parent = None if target.parent == source.id else target.parent
    used = moved(target, "use" if target.state == "active" else "reactivate", max(at, source.last_active))
    return replace(used, drifts=tuple(one for one in drifts if one.became != target.id), parent=parent)
