"""Reconsidering: a model is asked where a prompt belongs that the rules were not sure of (THR-3, ADR 13).

The rules placed it, and what they decided stands unless the model is sure of something else. Then the prompt goes where
it belongs, with what the session said after it and the rules put into the same thread; or it leaves the thread that the
rules woke for it, which sleeps again. Who answers too late, or what nobody can read, leaves it as it is, and is not
asked again.

Between the question and its answer a user may have moved the prompt, or something merged, grown or gone. So the case is
read again in the transaction that writes, and nothing is written unless it is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from filrouge.app.answering import Answering
from filrouge.app.parts import Parts
from filrouge.app.thread_moves import move_turns
from filrouge.app.thread_questions import is_too_late, who
from filrouge.app.thread_upkeep import Caps
from filrouge.app.worker import Outcome, Payload
from filrouge.clock import new_id
from filrouge.errors import ModelUnavailable, Unreadable
from filrouge.extraction.summaries import vote
from filrouge.model.thread import Drift, Routing, Thread
from filrouge.model.turn import Turn
from filrouge.ports import Tx
from filrouge.store.thread_rows import Decided
from filrouge.store.thread_traces import ThreadDecisions
from filrouge.store.threads import Threads
from filrouge.threads.asking import asking
from filrouge.threads.lifecycle import moved
from filrouge.threads.routing import Item
from filrouge.threads.subjects import subjects


@dataclass(frozen=True, kw_only=True, slots=True)
class _Case:
    """A prompt that the rules left open.

    Attributes:
        decided: every decision about it, the last of which is open.
        source: the thread that it is in.
        candidate: the one that it may belong to.
    """

    turn: Turn
    decided: Sequence[Decided]
    source: Thread
    candidate: Thread

    @property
    def routing(self) -> Routing:
        """What the rules decided."""
        return self.decided[-1].routing


def reconsider(parts: Parts, payload: Payload) -> Outcome:
    """The job: ask a model where a prompt belongs, and do what it is sure of.

    Raises:
        ModelUnavailable: nobody answers, or the budget is spent; what the rules decided stands.
    """
    settings = parts.readers.here(lambda tx: parts.settings(tx))
    model = who(parts, settings)
    case = parts.readers.here(lambda tx: _case(parts, tx, payload["turn"])) if model else None
    if case is None:
        return Outcome(write=lambda _: None)
    turn = case.turn
    thought = asking(
        Item(text=turn.text, topics=subjects(turn), at=turn.at),
        case.routing,
        case.candidate,
        parts.models.prompts,
        vote([turn.text], settings.language if settings.language != "auto" else "en"),
        seconds=parts.models.pace.related,
    )
    try:
        routing = Answering(parts, parts.meaning, settings).run(thought)
    except Unreadable:
        routing = replace(case.routing, reason="A model was asked, and its answer cannot be read.", model=model)
    except ModelUnavailable as error:
        if not any(one.kind == "late" for one in error.failures):
            raise
        routing = replace(case.routing, reason="A model was asked, and did not answer in time.", model=model)

    def write(tx: Tx) -> None:
        now = _case(parts, tx, turn.id)
        if now is not None and now.decided == case.decided:
            _carry_out(parts, tx, now, routing)

    return Outcome(write=write)


def _case(parts: Parts, tx: Tx, turn_id: str) -> _Case | None:
    """The case of a prompt; None where there is nothing to be asked any more."""
    turns, decided = parts.turns(tx).get([turn_id]), ThreadDecisions(tx).about([turn_id])
    if not turns or not decided or is_too_late(turns[0].at, parts.clock.now()):
        return None
    last = decided[-1]
    if last.actor != "rules" or not last.routing.borderline or not last.routing.weighed:
        return None
    best = last.routing.weighed[0].thread_id
    known = {one.id: one for one in Threads(tx).some([last.thread_id, best])}
    source, candidate = known.get(last.thread_id), known.get(best)
    if source is None or candidate is None or candidate.merged_into is not None or source.title_by == "user":
        return None
    caps = Caps.of(parts.settings(tx))
    is_there = Threads(tx).of_turns([turn_id]).get(turn_id) == source.id
    if not is_there or caps.place_of(turns[0]) != caps.place_beside(candidate):
        return None
    return _Case(turn=turns[0], decided=decided, source=source, candidate=candidate)


def _carry_out(parts: Parts, tx: Tx, case: _Case, routing: Routing) -> None:
    """Log what was answered, and move what is to move."""
    going = _going(tx, case)
    parts_off = routing.thread_id is None
    if parts_off and set(Threads(tx).turns(case.source.id, routed=True)) <= set(going):  # nothing to be parted from
        routing, parts_off = replace(routing, thread_id=case.source.id, parent=None), False
    if routing.thread_id == case.source.id:
        ThreadDecisions(tx).log(case.turn.id, case.source.id, routing, at=parts.clock.now(), actor="model")
        return
    if parts_off:
        routing, target = _opened(parts, tx, case, routing)
    else:
        target = case.candidate
    _log(parts, tx, case, going, target, routing)
    until = max(turn.at for turn in parts.turns(tx).get(going))
    move_turns(parts, tx, going, target, until, parts.meaning.space.id)
    if parts_off:
        _put_down(parts, tx, case)


def _going(tx: Tx, case: _Case) -> list[str]:
    """The prompt, and the session's next ones that the rules put into its thread, up to the first that they did not."""
    threads = Threads(tx)
    beside = [id_ for id_, _ in takewhile(lambda it: it[1] == case.source.id, threads.from_prompt(case.turn))]
    placed_by = {one.turn_id: one.actor for one in ThreadDecisions(tx).about(beside)}
    return [case.turn.id, *takewhile(lambda id_: placed_by.get(id_) == "rules", beside[1:])]


def _opened(parts: Parts, tx: Tx, case: _Case, routing: Routing) -> tuple[Routing, Thread]:
    """A thread for a prompt that is parted off, not named yet; where it was forked off, that is noted there."""
    threads, turn = Threads(tx), case.turn
    parent = next((one for one in threads.some([routing.parent or ""]) if one.merged_into is None), None)
    if parent is None:
        routing = replace(routing, action="new", parent=None)
    fresh = Thread(
        id=new_id(parts.clock.now()),
        user=turn.scope.user,
        project=turn.scope.project,
        agent=turn.scope.agent,
        channel=turn.scope.channel,
        title="",
        origin=turn.source,
        parent=routing.parent,
        opened_at=turn.at,
        last_active=turn.at,
    )
    threads.add(fresh)
    if parent is not None:
        own = next((one.similarity for one in routing.weighed if one.own), routing.similarity)
        drift = Drift(turn_id=turn.id, at=turn.at, similarity=own, became=fresh.id)
        threads.update(replace(parent, drifts=(*parent.drifts, drift)))
    return routing, fresh


def _log(parts: Parts, tx: Tx, case: _Case, going: Sequence[str], target: Thread, routing: Routing) -> None:
    along = Routing(
        action="continue",
        thread_id=target.id,
        similarity=routing.similarity,
        weighed=(),
        reason="It goes with the prompt before it, of which a model was asked.",
        model=routing.model,
    )
    for id_ in going:
        one = routing if id_ == case.turn.id else along
        ThreadDecisions(tx).log(id_, target.id, one, at=parts.clock.now(), actor="model")


def _put_down(parts: Parts, tx: Tx, case: _Case) -> None:
    """Let a thread sleep again that was woken for nothing but what has gone."""
    threads = Threads(tx)
    [thread] = threads.some([case.source.id])
    last = parts.turns(tx).get(threads.turns(thread.id, limit=1, newest=True))[0].at
    if thread.state == "active" and last < case.turn.at:
        act = "archive" if case.routing.weighed[0].state == "archived" else "suspend"
        threads.update(replace(moved(thread, act, parts.clock.now()), last_active=last))
