"""Threads on show: listed, one with its turns, its ties and where its work stood, and why a turn is where it is.

What is shown is the state of that moment, whether a sweep has written it yet or not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, Literal

from filrouge.app import report, thread_upkeep
from filrouge.app.parts import Parts
from filrouge.app.syntheses import state_of_thread
from filrouge.app.thread_upkeep import Caps, is_routed
from filrouge.app.ties import Linked, linked
from filrouge.clock import to_text
from filrouge.errors import NotFound
from filrouge.model.scope import LOCAL_USER
from filrouge.model.synthesis import Point, Synthesis
from filrouge.model.thread import Thread, ThreadState
from filrouge.model.turn import Turn
from filrouge.ports import Tx
from filrouge.store.thread_rows import Decided, drift_json
from filrouge.store.thread_traces import ThreadDecisions
from filrouge.store.threads import ThreadPlace, Threads
from filrouge.threads.lifecycle import weight_at
from filrouge.threads.replay import as_it_was

Status = Literal["active", "suspended", "archived", "all"]
#: Turns that are shown of a thread, the newest.
_SHOWN: Final = 200


def threads_now(
    parts: Parts,
    tx: Tx,
    *,
    user: str | None = LOCAL_USER,
    project: str | None = None,
    everywhere: bool = True,
    agent: str | None = None,
    status: Status = "all",
    limit: int = -1,
) -> list[Thread]:
    """Threads as they are now, the latest first, with their counts.

    Args:
        agent: only those that this agent opened: its id, or its channel.
        limit: at most so many; -1 = all.
    """
    threads, now, caps = Threads(tx), parts.clock.now(), Caps.of(parts.settings(tx))
    places: dict[ThreadPlace, list[Thread]] = {}
    stored = threads.listed(
        user=user, project=project, everywhere=everywhere, agent=agent, states=("active", "suspended")
    )
    for thread in stored:
        places.setdefault(caps.place_beside(thread), []).append(thread)
    found = [thread for beside in places.values() for thread in thread_upkeep.as_of(beside, now, caps.mode)]
    if status in ("archived", "all"):
        found += threads.listed(
            user=user, project=project, everywhere=everywhere, agent=agent, states=("archived",), limit=limit
        )
    wanted = [thread for thread in found if status in ("all", thread.state)]
    wanted.sort(key=lambda one: (one.last_active, one.id), reverse=True)
    return wanted if limit < 0 else wanted[:limit]


def threads_then(
    tx: Tx, moment: datetime, *, project: str | None, everywhere: bool, agent: str | None, status: Status, limit: int
) -> list[Thread]:
    """Threads as they were at a moment, the latest first; they have the names of now, and count their prompts."""
    placed = ThreadDecisions(tx).placed_by(moment)
    found = [
        replace(as_it_was(one, [at for at, _ in prompts], moment), sessions=len({session for _, session in prompts}))
        for one in Threads(tx).some(list(placed))
        if (everywhere or one.project == project) and agent in (None, one.agent or one.channel)
        for prompts in [placed[one.id]]
    ]
    wanted = [thread for thread in found if status in ("all", thread.state)]
    return sorted(wanted, key=lambda one: (one.last_active, one.id), reverse=True)[:limit]


def listing(
    parts: Parts,
    tx: Tx,
    names: Sequence[str],
    *,
    status: Status,
    limit: int,
    agent: str | None = None,
    as_of: datetime | None = None,
) -> list[dict[str, Any]]:
    """The threads of a project, or of all where none is named, the latest first; with `as_of` those of then."""
    project, known = report.project_id(tx, names), report.names_of(tx)
    narrowed: dict[str, Any] = {"project": project, "everywhere": not names, "agent": agent, "status": status}
    if as_of is not None:
        return [thread_json(one, known, as_of) for one in threads_then(tx, as_of, **narrowed, limit=limit)]
    found = threads_now(parts, tx, **narrowed, limit=limit)
    return [thread_json(one, known, parts.clock.now()) for one in found]


def detail(parts: Parts, tx: Tx, name: str) -> dict[str, Any]:
    """A thread with where its work stood, its ties, its newest turns, its drifts, and what led every prompt into it.

    Args:
        name: its id, or the beginning of it.
    """
    threads = Threads(tx)
    thread = as_it_is(parts, tx, threads.named(name))
    turns = parts.turns(tx).get(threads.turns(thread.id, limit=_SHOWN, newest=True))
    decided = ThreadDecisions(tx).about([turn.id for turn in turns])
    last = {one.turn_id: one for one in decided}
    children = threads.children(thread.id)
    titles = threads.title_of([*children, *(drift.became for drift in thread.drifts), thread.parent or ""])
    stood = state_of_thread(tx, thread.id)
    agent = (thread.agent or thread.channel) if parts.settings(tx).isolation else None
    return thread_json(thread, report.names_of(tx), parts.clock.now()) | {
        "parent_title": titles.get(thread.parent or ""),
        "children": [{"id": id_, "title": titles[id_]} for id_ in children],
        "drift": [drift_json(drift) | {"title": titles.get(drift.became, "")} for drift in thread.drifts],
        "state": _state_json(stood) if stood else None,
        "bridges": [_bridge_json(one) for one in linked(parts, tx, thread.id, parts.clock.now(), agent=agent)],
        "turns_shown": [_turn_json(turn, last.get(turn.id)) for turn in turns],
    }


def why(parts: Parts, tx: Tx, turn_id: str) -> dict[str, Any]:
    """Where a turn is, and every decision about it with what was weighed.

    Raises:
        NotFound: there is no such turn.
    """
    threads, turn = Threads(tx), turn_of(parts, tx, turn_id)
    decided = ThreadDecisions(tx).about([turn.id])
    thread_id = threads.of_turns([turn.id]).get(turn.id)
    weighed = {one.thread_id for it in decided for one in it.routing.weighed}
    titles = threads.title_of({*weighed, *(it.thread_id for it in decided), thread_id or ""})
    return {
        "turn_id": turn.id,
        "text": turn.text,
        "at": to_text(turn.at),
        "thread_id": thread_id,
        "title": titles.get(thread_id or ""),
        "follows": thread_id is not None and not is_routed(turn),
        "decisions": [_decision_json(it, titles) for it in decided],
    }


def thread_json(thread: Thread, names: Mapping[str, str], now: datetime) -> dict[str, Any]:
    """A thread as the API answers it."""
    return {
        "id": thread.id,
        "title": thread.title,
        "title_by": thread.title_by,
        "summary": thread.summary,
        "status": thread.state,
        "weight": round(weight_at(thread, now), 3),
        "topics": list(thread.topics),
        "messages": thread.turns,
        "conversations": thread.sessions,
        "project": thread.project,
        "project_name": names.get(thread.project or "", ""),
        "agent": thread.agent,
        "channel": thread.channel,
        "origin": thread.origin,
        "opened_at": to_text(thread.opened_at),
        "last_active": to_text(thread.last_active),
        "suspended_at": to_text(thread.suspended_at) if thread.suspended_at else None,
        "parent": thread.parent,
        "merged_into": thread.merged_into,
    }


def as_it_is(parts: Parts, tx: Tx, thread: Thread) -> Thread:
    """A thread as it is now, which those beside it have a part in."""
    if thread.state == "archived":
        return thread
    caps = Caps.of(parts.settings(tx))
    states: tuple[ThreadState, ...] = ("active", "suspended")
    beside = thread_upkeep.as_of(Threads(tx).at_place(caps.place_beside(thread), states), parts.clock.now(), caps.mode)
    found = next((it for it in beside if it.id == thread.id), thread)
    return replace(found, turns=thread.turns, sessions=thread.sessions)


def turn_of(parts: Parts, tx: Tx, turn_id: str) -> Turn:
    """The turn of an id.

    Raises:
        NotFound: there is none.
    """
    found = parts.turns(tx).get([turn_id])
    if not found:
        raise NotFound(f"There is no turn {turn_id!r}.", remedy="`filrouge thread ID` lists those of a thread.")
    return found[0]


def _state_json(one: Synthesis) -> dict[str, Any]:
    return {
        "at": to_text(one.at),
        "occasion": one.occasion,
        "made_by": one.made_by,
        "state": [_point_json(point) for point in one.state],
        "decisions": [_point_json(point) for point in one.decisions],
        "questions": [_point_json(point) for point in one.questions],
        "files": list(one.files),
        "error": _point_json(one.error) if one.error else None,
    }


def _point_json(point: Point) -> dict[str, str]:
    return {"text": point.text, "turn_id": point.turn_id}


def _bridge_json(one: Linked) -> dict[str, Any]:
    return {
        "type": one.kind,
        "strength": round(one.strength, 3),
        "thread_id": one.thread_id,
        "title": one.title,
        "outgoing": one.outgoing,
    }


def _turn_json(turn: Turn, decided: Decided | None) -> dict[str, Any]:
    return {
        "id": turn.id,
        "at": to_text(turn.at),
        "role": turn.role,
        "channel": turn.scope.channel,
        "session_id": turn.scope.session,
        "text": turn.text,
        "action": decided.routing.action if decided else "follow",
        "similarity": round(decided.routing.similarity, 4) if decided else None,
    }


def _decision_json(it: Decided, titles: Mapping[str, str]) -> dict[str, Any]:
    return {
        "at": to_text(it.at),
        "action": it.routing.action,
        "thread_id": it.thread_id,
        "title": titles.get(it.thread_id, ""),
        "parent": it.routing.parent,
        "similarity": round(it.routing.similarity, 4),
        "reason": it.routing.reason,
        "borderline": it.routing.borderline,
        "model": it.routing.model or None,
        "actor": it.actor,
        "weighed": [one.to_json() | {"title": titles.get(one.thread_id, "")} for one in it.routing.weighed],
    }
