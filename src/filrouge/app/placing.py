"""Placing: which thread every prompt belongs to, decided in the background, and what its session's other turns follow.

A prompt is placed once its vector is there, or at once where none is to come: its title and topics then stand in. The
decision is made within the transaction that writes it, so it sees the threads as they are, and being killed in between
leaves nothing half. Prompts of one session are placed in their order; a prompt that is in a thread stays there,
however often its job is done, so what a user moved by hand stays too. What the agent says and does after a prompt goes
where the prompt went, at once or together with it.

Archived threads are found by their stored vectors, read anew for each batch of jobs: five thousand of them cost some
thirty milliseconds in the background and no memory in between, so they have no index of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from filrouge.app.meaning import Meaning
from filrouge.app.parting import parted
from filrouge.app.parts import Parts
from filrouge.app.spaces import REINDEX
from filrouge.app.syntheses import follow_placing
from filrouge.app.thread_candidates import candidates, known_of, nearest
from filrouge.app.thread_moves import take_in
from filrouge.app.thread_questions import queue_better_name, queue_reconsidering
from filrouge.app.thread_upkeep import Caps, is_routed, renamed, revectored
from filrouge.app.thread_words import words_of
from filrouge.app.ties import queue_ties
from filrouge.app.worker import Outcome, Payload
from filrouge.clock import new_id
from filrouge.model.thread import Drift, Routing, Thread
from filrouge.model.turn import Turn
from filrouge.ports import Tx, Vector, Vectors
from filrouge.store.jobs import Jobs
from filrouge.store.thread_traces import ActiveDays, ThreadDecisions, ThreadVectors
from filrouge.store.threads import ThreadPlace, Threads
from filrouge.store.vectors import StoredVectors
from filrouge.threads.ground import Ground
from filrouge.threads.joining import YOUNG, join
from filrouge.threads.levelled import Levelled
from filrouge.threads.lifecycle import moved
from filrouge.threads.naming import is_due, name
from filrouge.threads.routing import route
from filrouge.threads.subjects import subjects
from filrouge.threads.vectors import MOST_PARTS, prompt_vector
from filrouge.threads.weighing import Item, Known

#: Job kinds: one prompt; those of before there were threads.
THREAD, EARLIER = "thread", "thread_earlier"
#: Prompts that are placed in one transaction; each takes some ten milliseconds of the lane that takes events in where
#: fifty threads are active, and more with more (bench/placed.py).
TOGETHER: Final = 8
_REINDEX_SECONDS: Final = 2.0
_LONGEST_TITLE: Final = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """A prompt, ready to be placed.

    Attributes:
        vector: None where there is none.
        is_coming: a job is about to make its vector.
        ground: of its user's prompts; None while too little is known. It has been taken off what is `beside`, so that
            this does not hold up the lane that writes.
        beside: the nearest archived threads, and those that were not archived: a sweep may come in between.
    """

    turn: Turn
    topics: tuple[str, ...]
    vector: Vector | None
    is_coming: bool
    ground: Ground | None
    beside: tuple[str, ...]


def queue_placing(parts: Parts, tx: Tx, turns: Sequence[Turn]) -> None:
    """Queue the placing of new prompts; what follows a prompt that is placed already goes with it."""
    threads, jobs = Threads(tx), Jobs(tx)
    for turn in turns:
        if is_routed(turn):
            jobs.enqueue(THREAD, {"turn": turn.id}, dedupe=f"{THREAD}:{turn.id}", at=parts.clock.now())
        elif turn.scope.session and (thread_id := threads.led_by(turn)):
            threads.place(turn.id, thread_id, turn.at)


def queue_earlier(parts: Parts) -> None:
    """Have prompts placed that were captured before there were threads."""
    if parts.readers.here(lambda tx: Threads(tx).unplaced(0, 1)):
        parts.writer.run(lambda tx: Jobs(tx).enqueue(EARLIER, {"after": 0}, dedupe=EARLIER, at=parts.clock.now()))


def place(parts: Parts, payloads: Sequence[Payload]) -> list[Outcome]:
    """The job: place prompts."""
    meaning, caps = parts.meaning, Caps.of(parts.readers.here(lambda tx: parts.settings(tx)))
    ids = [str(payload["turn"]) for payload in payloads]
    _learn(parts, ids, meaning)
    ready = {one.turn.id: one for one in parts.readers.here(lambda tx: prepared(parts, tx, ids, meaning, caps))}
    return [_outcome(parts, payload, ready.get(id_), meaning, caps) for payload, id_ in zip(payloads, ids, strict=True)]


def place_earlier(parts: Parts, payload: Payload) -> Outcome:
    """The job: place the next prompts of before there were threads, oldest first."""
    meaning, caps = parts.meaning, Caps.of(parts.readers.here(lambda tx: parts.settings(tx)))
    if parts.readers.here(lambda tx: _is_under_way(tx, REINDEX)):
        return Outcome(write=lambda _: None, again=lambda: payload, delay=_REINDEX_SECONDS)
    rows = parts.readers.here(lambda tx: Threads(tx).unplaced(int(payload["after"]), TOGETHER))
    if not rows:
        return Outcome(write=lambda _: None)
    ids = [str(row["id"]) for row in rows]
    _learn(parts, ids, meaning)
    ready = parts.readers.here(lambda tx: prepared(parts, tx, ids, meaning, caps))

    def write(tx: Tx) -> None:
        for one in ready:
            placed(parts, tx, one, meaning, caps)

    return Outcome(write=write, again=lambda: {"after": rows[-1]["seq"]})


def _learn(parts: Parts, ids: Sequence[str], meaning: Meaning) -> None:
    """Have what the ground needs beside prompts, once one of them has a vector."""
    if parts.readers.here(lambda tx: StoredVectors(tx).some("turn", ids, meaning.space.id)):
        parts.grounds.learn(meaning)


def prepared(parts: Parts, tx: Tx, ids: Sequence[str], meaning: Meaning, caps: Caps) -> list[Prepared]:
    """What is needed to place these prompts, those that are gone left out."""
    stored, space = StoredVectors(tx), meaning.space
    coming = {id_ for id_ in ids if _is_under_way(tx, f"index_turn:{id_}")}  # before its vector is looked for
    complete = [id_ for id_ in ids if stored.first_part("turn", id_, space.id) == 0]
    windows = stored.some("turn", complete, space.id)
    turns = parts.turns(tx).get(ids)
    come = Counter(turn.scope.user for turn in turns if turn.id in windows)
    made = {user: parts.grounds.of(tx, meaning, user, count) for user, count in come.items()}
    grounds = {user: Levelled.over(ground) for user, ground in made.items() if ground}
    archives: dict[ThreadPlace, tuple[list[str], Vectors]] = {}
    live: dict[ThreadPlace, list[str]] = {}
    found: list[Prepared] = []
    for turn in turns:
        where, vector = caps.place_of(turn), prompt_vector(windows.get(turn.id))
        ground = grounds.get(turn.scope.user)
        if where not in archives:
            live[where] = [thread.id for thread in Threads(tx).at_place(where, ("active", "suspended"))]
            archived, vectors = ThreadVectors(tx).archived(where, space.id)
            archives[where] = archived, Ground.off(ground, vectors) if ground and archived else vectors
        found.append(
            Prepared(
                turn=turn,
                topics=subjects(turn),
                vector=vector,
                is_coming=vector is None and turn.id in coming,
                ground=ground,
                beside=(*nearest(vector, *archives[where], ground), *live[where]),
            )
        )
    for user, ground in grounds.items():
        beside = {id_ for one in found if one.turn.scope.user == user for id_ in one.beside}
        held = ThreadVectors(tx).parts(sorted(beside), space.id)
        ground.learn([part.vector for own in held.values() for part in own[-MOST_PARTS:]])
    return found


def placed(parts: Parts, tx: Tx, one: Prepared, meaning: Meaning, caps: Caps) -> str | None:
    """Place a prompt in the caller's transaction; its thread, or None where it was placed or erased meanwhile."""
    threads, turn, where = Threads(tx), one.turn, caps.place_of(one.turn)
    if threads.of_turns([turn.id]) or not parts.turns(tx).get([turn.id]):
        return None
    own = threads.of_session(turn)
    beside = (*one.beside, *([own] if own else []))
    known = candidates(tx, where, beside, turn.at, caps.mode, meaning.space.id)
    item = Item(text=turn.text, topics=one.topics, vector=one.vector, at=turn.at, own=own)
    routing = route(item, list(known.values()), meaning.space, one.ground)
    thread = carry_out(parts, tx, one, routing, {id_: it.thread for id_, it in known.items()}, meaning, caps)
    if thread.id == own and (left := parted(parts, tx, turn, thread, known, one.ground)) is not None:
        return left.id
    _joined(parts, tx, thread, known, one.ground, meaning, caps)
    return thread.id


def carry_out(
    parts: Parts,
    tx: Tx,
    one: Prepared,
    routing: Routing,
    known: Mapping[str, Thread],
    meaning: Meaning,
    caps: Caps,
) -> Thread:
    """Put a prompt where the routing says, with what followed it; the thread as it is then."""
    threads, turn = Threads(tx), one.turn
    chosen = known.get(routing.thread_id or "")
    if chosen is None:
        thread = _opened(tx, turn, routing, caps.place_of(turn))
        threads.add(thread)
        parent = known.get(routing.parent or "")
        if parent is not None:
            own = next((it.similarity for it in routing.weighed if it.own), routing.similarity)
            drift = Drift(turn_id=turn.id, at=turn.at, similarity=own, became=thread.id)
            threads.update(replace(parent, drifts=(*parent.drifts, drift)))
    else:
        thread = moved(chosen, "use" if chosen.state == "active" else "reactivate", turn.at)
    threads.place(turn.id, thread.id, turn.at, one.topics)
    threads.follow(turn)
    if chosen is not None:
        count = len(threads.turns(thread.id, routed=True))
        if is_due(count):
            thread = renamed(parts, tx, thread, caps.place_of(turn))
        threads.update(thread)
        queue_better_name(parts, tx, thread, before=count - 1, after=count)
    if one.vector is not None:
        revectored(tx, thread.id, meaning.space.id)
    ThreadDecisions(tx).log(turn.id, thread.id, routing, at=turn.at)
    queue_reconsidering(parts, tx, turn, routing)
    ActiveDays(tx).note(turn.scope.project, turn.at)
    queue_ties(parts, tx, thread.id)
    follow_placing(parts, tx, turn)
    return thread


def _outcome(parts: Parts, payload: Payload, one: Prepared | None, meaning: Meaning, caps: Caps) -> Outcome:
    if one is None:  # erased meanwhile
        return Outcome(write=lambda _: None)
    left = list[Payload]()

    def write(tx: Tx) -> None:
        if one.is_coming or Threads(tx).waits(one.turn):
            left.append(payload)
        else:
            placed(parts, tx, one, meaning, caps)

    return Outcome(write=write, again=lambda: left[-1] if left else None)


def _opened(tx: Tx, turn: Turn, routing: Routing, where: ThreadPlace) -> Thread:
    named = name([turn], list(Threads(tx).titles(where).values()))
    return Thread(
        id=new_id(turn.at),
        user=turn.scope.user,
        project=turn.scope.project,
        agent=turn.scope.agent,
        channel=turn.scope.channel,
        title=named.title or " ".join(turn.text.split())[:_LONGEST_TITLE],
        summary=named.summary,
        topics=named.topics,
        origin=turn.source,
        parent=routing.parent,
        opened_at=turn.at,
        last_active=turn.at,
    )


def _joined(
    parts: Parts,
    tx: Tx,
    thread: Thread,
    known: Mapping[str, Known],
    ground: Ground | None,
    meaning: Meaning,
    caps: Caps,
) -> None:
    """Let a young thread go into the older one that it turns out to continue; never what a user named or moved."""
    threads, decisions = Threads(tx), ThreadDecisions(tx)
    prompts = threads.turns(thread.id, routed=True)
    if not 1 < len(prompts) <= YOUNG or thread.title_by == "user":
        return
    decided = decisions.about(prompts)
    if any(one.actor == "user" for one in decided):
        return
    strange = words_of(decided).apart
    young = known_of(tx, [thread], meaning.space.id)[thread.id]
    if len(young.parts) > 1:  # of two sessions: `regroup` looks at it
        return
    others = [one for id_, one in known.items() if id_ != thread.id and id_ not in strange]
    older = [one for one in others if one.thread.opened_at < thread.opened_at]
    routing = join(young, older, meaning.space, ground)
    into = known.get(routing.thread_id or "") if routing else None
    if routing is None or into is None:
        return
    there = threads.turns(into.thread.id, routed=True)
    if thread.id in words_of(decisions.about(there)).apart:
        return
    target = take_in(parts, tx, thread, into.thread, thread.last_active)
    target = renamed(parts, tx, target, caps.place_beside(target))
    threads.update(target)
    queue_better_name(parts, tx, target, before=len(there), after=len(there) + len(prompts))
    revectored(tx, target.id, meaning.space.id)
    for turn_id in prompts:
        decisions.log(turn_id, target.id, routing, at=thread.last_active)


def _is_under_way(tx: Tx, dedupe: str) -> bool:
    """True for a job that is to be done and has not failed."""
    known = Jobs(tx).known_as(dedupe)
    return known is not None and known["state"] != "dead" and not known["error"]
