"""Regrouping: what was placed prompt by prompt is looked at again as a whole, when its sessions have fallen silent.

The job reads the newest prompts of a project, asks `threads.regrouping` what belongs together, and moves prompts, a few
groups at a time, each with what followed it. Every move is logged as a decision of the rules. What a user named stays,
and so do threads that a user moved something into or out of; what a model was sure of holds for the prompt that it was
asked about. Where anything was placed or moved between reading and writing, it looks again, so it never undoes what it
has not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from filrouge.app.exchanges import Talk, exchanges_of, talk_of
from filrouge.app.meaning import Meaning
from filrouge.app.parts import Parts
from filrouge.app.thread_moves import move_turns
from filrouge.app.thread_upkeep import Caps
from filrouge.app.thread_words import Words, words_by_prompt
from filrouge.app.worker import Outcome, Payload
from filrouge.clock import new_id
from filrouge.model.scope import LOCAL_USER
from filrouge.ports import Tx
from filrouge.store.jobs import Jobs
from filrouge.store.thread_traces import ThreadDecisions
from filrouge.store.threads import ThreadPlace, Threads
from filrouge.threads.pairs import compared
from filrouge.threads.regrouping import MOST, Regrouping, Unit, regroup

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
    meaning = parts.meaning
    found = _found(parts, ThreadPlace(user=user, project=project), meaning)
    if not found.moves or done >= _ROUNDS:
        return Outcome(write=lambda _: None)

    def write(tx: Tx) -> None:
        if ThreadDecisions(tx).last() == found.last:
            for one in found.moves[:_AT_ONCE]:
                _carry_out(parts, tx, one, meaning.space.id)

    return Outcome(write=write, again=lambda: {"user": user, "project": project, "done": done + 1})


def _found(parts: Parts, where: ThreadPlace, meaning: Meaning) -> _Found:
    last, looked_at = parts.readers.here(lambda tx: _read(parts, tx, where, meaning))
    moves = list[Regrouping]()
    for units, talk in looked_at:
        exchanges, kind = exchanges_of(parts, talk, meaning)
        by_id = {one.id: one for one in units}
        moves += regroup([by_id[turn.id] for turn in talk.prompts], compared(exchanges, kind).chances)
    return _Found(moves=moves, last=last)


def _read(parts: Parts, tx: Tx, where: ThreadPlace, meaning: Meaning) -> tuple[int, list[tuple[list[Unit], Talk]]]:
    """The last decision, and the newest prompts that are placed, those of every agent apart where it has threads of its
    own."""
    threads, caps = Threads(tx), Caps.of(parts.settings(tx))
    held = ThreadDecisions(tx).held(where.user, where.project)
    words = words_by_prompt(tx, where.user, where.project)
    placed = threads.of_turns(threads.latest(where, MOST))
    beside: dict[ThreadPlace, list[Unit]] = {}
    known = {one.id: one for one in threads.some(list(dict.fromkeys(placed.values())))}
    for turn_id, thread_id in placed.items():
        thread, said = known[thread_id], words.get(turn_id, Words())
        unit = Unit(
            id=turn_id,
            thread=thread,
            is_held=thread_id in held,
            belongs=thread_id in said.belongs,
            apart=said.apart,
        )
        beside.setdefault(caps.place_beside(thread), []).append(unit)
    ground = parts.grounds.of(tx, meaning, where.user)
    looked_at = [(own, talk_of(parts, tx, meaning, [one.id for one in own], ground)) for own in beside.values()]
    return ThreadDecisions(tx).last(), looked_at


def _carry_out(parts: Parts, tx: Tx, one: Regrouping, space_id: str) -> None:
    """Move what goes elsewhere; what an earlier move of the same transaction emptied or ended stays as it is."""
    threads, prompts = Threads(tx), parts.turns(tx).get(one.units)
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
