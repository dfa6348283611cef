"""Job names and what they do.

read_turns   an event → its turns, and the jobs that follow from them
reconcile    a host's transcript → the turns that no hook reported
analyse      a user's turn → memories
index_turn   a turn → vectors
index_memory a memory that was stored while the embedder was down, or that is long → vectors
reindex      those that lack vectors in the space that is current or in building → vectors, and the new space in place
clear_spaces vectors of retired spaces → nothing
calibrate    a space that brought no calibration → how its cosines are read
retokenise   rows that another analyser indexed → their words, batch by batch
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from filrouge.app import understanding
from filrouge.app.calibrating import CALIBRATE, calibrate
from filrouge.app.follow import follow, to_be_analysed
from filrouge.app.mirror import write_briefs
from filrouge.app.parts import Parts
from filrouge.app.passes import next_pass
from filrouge.app.reconcile import reconcile
from filrouge.app.reindex import clear, embed_more
from filrouge.app.retokenise import retokenise
from filrouge.app.spaces import CLEAR, REINDEX
from filrouge.app.worker import Handler, Outcome
from filrouge.capture.intake import turns_of
from filrouge.errors import NotFound
from filrouge.ports import Tx
from filrouge.store.events import Events
from filrouge.store.vectors import Owner


def read_turns(parts: Parts, payload: Mapping[str, Any]) -> Outcome:
    """Turn an event into turns."""
    found = parts.readers.here(lambda tx: Events(tx).get(payload["event"]))
    if found is None:
        raise NotFound(f"Event {payload['event']} is gone.")
    event, project = found
    turns = turns_of(event, project)

    def write(tx: Tx) -> None:
        added = [turn for turn in turns if parts.turns(tx).add(turn)]
        follow(parts, tx, added)
        if not turns:
            Events(tx).settle(event.id, "skipped", "it marks a moment and says nothing")
        elif not added:
            Events(tx).settle(event.id, "skipped", "its turns were stored before")
        elif not any(to_be_analysed(turn) for turn in added):
            Events(tx).settle(event.id, "done")

    return Outcome(write=write)


def analyse(parts: Parts, payload: Mapping[str, Any]) -> Outcome:
    """Turn a user's turn into memories."""
    turns = parts.readers.here(lambda tx: parts.turns(tx).get([payload["turn"]]))
    if not turns:
        raise NotFound(f"Turn {payload['turn']} is gone.")
    turn = turns[0]
    reading = understanding.read(parts, turn)
    done: list[Any] = []

    def write(tx: Tx) -> None:
        done[:] = understanding.settle(parts, tx, reading)
        if turn.event_id:
            Events(tx).settle(turn.event_id, "done")

    def afterwards() -> None:
        understanding.reflect(parts, reading.meaning, done)
        if done:
            everywhere = any(statement.scope == "user" for statement in reading.statements)
            write_briefs(parts, turn.scope.project, everywhere=everywhere)

    return Outcome(write=write, afterwards=afterwards)


def index_turn(parts: Parts, payload: Mapping[str, Any]) -> Outcome:
    """Embed a turn, window by window."""
    turns = parts.readers.here(lambda tx: parts.turns(tx).get([payload["turn"]]))
    if not turns:
        return Outcome(write=lambda _: None)
    turn = turns[0]
    return _index(parts, payload, Owner(kind="turn", id=turn.id, seq=0, group=turn.scope.project or "", text=turn.text))


def index_memory(parts: Parts, payload: Mapping[str, Any]) -> Outcome:
    """Embed a memory, window by window."""
    memory = parts.readers.here(lambda tx: parts.memories(tx).some([payload["memory"]])).get(payload["memory"])
    if memory is None or memory.state != "live":
        return Outcome(write=lambda _: None)
    group = understanding.group_of(memory)
    return _index(parts, payload, Owner(kind="memory", id=memory.id, seq=0, group=group, text=memory.text))


def _index(parts: Parts, payload: Mapping[str, Any], owner: Owner) -> Outcome:
    meaning = parts.meaning
    # Where nobody makes the space, trying again is of no use: a reindex finds what lacks vectors.
    done = None if meaning.is_lost else next_pass(parts, meaning.embedder, meaning.space.id, owner)
    if done is None:
        return Outcome(write=lambda _: None)
    return Outcome(
        write=lambda tx: done.write(tx, meaning.space.id),
        afterwards=lambda: done.show(parts, meaning),
        again=lambda: payload if done.first else None,
    )


HANDLERS: Mapping[str, Handler] = {
    "read_turns": read_turns,
    "reconcile": reconcile,
    "analyse": analyse,
    "index_turn": index_turn,
    "index_memory": index_memory,
    "retokenise": retokenise,
    REINDEX: embed_more,
    CLEAR: clear,
    CALIBRATE: calibrate,
}
