"""Parting: what a session said last leaves its thread, when two prompts in a row have to do with nothing before them.

Looked at after each prompt that stayed in its session's thread, in the transaction that placed it. The thread keeps the
drift, both prompts take along what followed them, and the decision about each is in the log. What a user moved, and
what was parted before, stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from filrouge.app.parts import Parts
from filrouge.app.thread_moves import move_turns
from filrouge.clock import new_id
from filrouge.model.thread import Drift, Thread
from filrouge.model.turn import Turn
from filrouge.ports import Tx
from filrouge.store.thread_traces import ThreadDecisions
from filrouge.store.threads import Threads
from filrouge.store.vectors import StoredVectors
from filrouge.threads.ground import Ground
from filrouge.threads.parting import BEFORE, LEAVING, part_off
from filrouge.threads.vectors import prompt_vector
from filrouge.threads.weighing import Known, Part

#: Prompts of a thread that are looked at, the newest.
_LATEST: Final = 32


def parted(
    parts: Parts, tx: Tx, turn: Turn, thread: Thread, known: Mapping[str, Known], ground: Ground | None
) -> Thread | None:
    """Let the last prompts of a session leave its thread, if they have left it; the thread that they are in then.

    Args:
        turn: the prompt that was placed, in the thread that its session was in.
        known: the threads of its place as they were before it, by id.
    """
    threads, decisions, space = Threads(tx), ThreadDecisions(tx), parts.meaning.space
    session = f"{turn.host} {turn.scope.session}"
    said = [(id_, topics) for id_, where, topics in threads.spoken(thread.id, _LATEST) if where == session]
    said = said[-BEFORE - LEAVING :]
    going = [id_ for id_, _ in said[-LEAVING:]]
    own = known.get(thread.id)
    if own is None or turn.id not in going or any(one.actor == "user" for one in decisions.about(going)):
        return None
    vectors = StoredVectors(tx).some("turn", [id_ for id_, _ in said], space.id)
    prompts = [Part(vector=prompt_vector(vectors.get(id_)), topics=topics) for id_, topics in said]
    others = [one for id_, one in known.items() if id_ != thread.id]
    routing = part_off(prompts, replace(own, thread=thread), others, space, ground)
    if routing is None:
        return None
    [first, *_] = leaving = parts.turns(tx).get(going)
    chosen = known.get(routing.thread_id or "")
    target = chosen.thread if chosen else _forked(tx, thread, first, turn)
    for one in leaving:
        decisions.log(one.id, target.id, routing, at=turn.at)
    if chosen is None:
        drift = Drift(turn_id=first.id, at=first.at, similarity=routing.similarity, became=target.id)
        threads.update(replace(thread, drifts=(*thread.drifts, drift)))
    return move_turns(parts, tx, going, target, turn.at, space.id)


def _forked(tx: Tx, thread: Thread, first: Turn, last: Turn) -> Thread:
    """A thread beside the one that was left, still without a name."""
    opened = replace(
        thread,
        id=new_id(first.at),
        title="",
        title_by="rules",
        summary="",
        topics=(),
        origin=first.source,
        parent=thread.id,
        drifts=(),
        weight=1.0,
        opened_at=first.at,
        last_active=last.at,
    )
    Threads(tx).add(opened)
    return opened
