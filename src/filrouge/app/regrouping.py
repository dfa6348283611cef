"""Regrouping: what was placed prompt by prompt is looked at again as a whole, when its sessions have fallen silent.

The job reads every part of a project's threads, asks `threads.regrouping` what belongs together, and moves whole
sessions' shares of threads, a few at a time, each with what followed its prompts. Every move is logged as a decision of
the rules. What a user named stays, and so do threads that a user moved something into or out of; what a model was sure
of holds for the part that it was asked about. Where anything was
placed or moved between reading and writing, it looks again, so it never undoes what it has not seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from filrouge.app.parts import Parts
from filrouge.app.thread_moves import move_turns
from filrouge.app.thread_upkeep import Caps
from filrouge.app.thread_words import Words, words_by_part
from filrouge.app.worker import Outcome, Payload
from filrouge.clock import new_id
from filrouge.model.scope import LOCAL_USER
from filrouge.model.thread import Thread
from filrouge.ports import Tx
from filrouge.store.jobs import Jobs
from filrouge.store.thread_traces import ThreadDecisions, ThreadVectors
from filrouge.store.threads import ThreadPlace, Threads
from filrouge.threads.regrouping import MOST, Regrouping, Unit, regroup
from filrouge.threads.weighing import Part

REGROUP: Final = "regroup"
#: Moves of one transaction, each of some ten milliseconds, and transactions of one job.
_AT_ONCE, _ROUNDS = 4, 64


@dataclass(frozen=True, kw_only=True, slots=True)
class _Found:
    """What is to be moved, and the last decision that was known then."""

    moves: Sequence[Regrouping]
    last: int


def queue_regrouping(parts: Parts, tx: Tx, user: str, project: str | None, *, delay: float = 0.0) -> None:
    """Have the threads of a project looked at, once all that waits before it is done."""
    place: dict[str, object] = {"user": user, "project": project}
    Jobs(tx).enqueue(REGROUP, place, dedupe=f"{REGROUP}:{user}:{project}", at=parts.clock.now(), delay=delay)


def queue_quiet_places(parts: Parts, before: datetime) -> int:
    """Have those projects looked at in which something was placed since, and nothing since that moment; how many."""
    found = parts.readers.here(lambda tx: Threads(tx).last_active())
    due = [(place, at) for place, at in found.items() if at < before and parts.regrouped.get(place) != at]
    if due:
        parts.writer.run(lambda tx: [queue_regrouping(parts, tx, *place) for place, _ in due])
        parts.regrouped.update(due)
        parts.work_waiting.set()
    return len(due)


def regrouping(parts: Parts, payload: Payload) -> Outcome:
    """The job: bring together what belongs together among the threads of a project."""
    user, project, done = str(payload.get("user") or LOCAL_USER), payload["project"], int(payload.get("done", 0))
    space_id = parts.meaning.space.id
    found = parts.readers.here(lambda tx: _found(parts, tx, ThreadPlace(user=user, project=project)))
    if not found.moves or done >= _ROUNDS:
        return Outcome(write=lambda _: None)

    def write(tx: Tx) -> None:
        if ThreadDecisions(tx).last() == found.last:
            for one in found.moves[:_AT_ONCE]:
                _carry_out(parts, tx, one, space_id)

    return Outcome(write=write, again=lambda: {"user": user, "project": project, "done": done + 1})


def _found(parts: Parts, tx: Tx, where: ThreadPlace) -> _Found:
    caps, threads = Caps.of(parts.settings(tx)), Threads(tx)
    held = ThreadDecisions(tx).held(where.user, where.project)
    words = words_by_part(tx, where.user, where.project)
    beside: dict[ThreadPlace, list[Thread]] = {}
    for thread in threads.at_place(where, ("active", "suspended", "archived")):
        beside.setdefault(caps.place_beside(thread), []).append(thread)
    ground = parts.grounds.of(tx, parts.meaning, where.user)
    last = ThreadDecisions(tx).last()
    space_id = parts.meaning.space.id
    moves = [one for own in beside.values() for one in regroup(_units(tx, own, held, words, space_id), ground)]
    return _Found(moves=moves, last=last)


def _units(tx: Tx, threads: Sequence[Thread], held: set[str], words: Mapping[str, Words], space_id: str) -> list[Unit]:
    """The parts of threads, those of the latest threads where there are too many."""
    parts = ThreadVectors(tx).parts([one.id for one in threads], space_id)
    units = [
        Unit(
            id=(id_ := f"{thread.id} {part.session}"),
            thread=thread,
            part=Part(vector=part.vector, topics=part.topics),
            is_held=thread.id in held,
            belongs=id_ in words and thread.id in words[id_].belongs,
            apart=words[id_].apart if id_ in words else frozenset(),
        )
        for thread in threads
        for part in parts.get(thread.id, ())
    ]
    return units[:MOST]


def _carry_out(parts: Parts, tx: Tx, one: Regrouping, space_id: str) -> None:
    """Move what goes elsewhere; what an earlier move of the same transaction emptied or ended stays as it is."""
    threads = Threads(tx)
    prompts = parts.turns(tx).get(
        [id_ for unit in one.units for id_ in threads.said_in(*unit.split(" ", maxsplit=1))],
    )
    if not prompts:
        return
    prompts = sorted(prompts, key=lambda turn: (turn.at, turn.id))
    begun, until = prompts[0].at, prompts[-1].at
    former = next(iter(threads.some([one.into or one.routing.parent or ""])), None)
    if former is None or former.merged_into is not None:
        return
    target = former
    if one.into is None:
        target = replace(
            former,
            id=new_id(parts.clock.now()),
            title="",
            title_by="rules",
            summary="",
            topics=(),
            state="active",
            suspended_at=None,
            parent=former.id,
            drifts=(),
            weight=1.0,
            opened_at=begun,
            last_active=until,
        )
        threads.add(target)
    for turn in prompts:
        ThreadDecisions(tx).log(turn.id, target.id, one.routing, at=parts.clock.now())
    move_turns(parts, tx, [turn.id for turn in prompts], target, until, space_id)
