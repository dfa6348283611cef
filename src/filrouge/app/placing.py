"""Placing: which thread every prompt belongs to, decided in the background, and what its session's other turns follow.

A prompt is placed once its vector is there, or at once where none is to come: its title and topics then stand in. The
decision is made within the transaction that writes it, so it sees the threads as they are, and being killed in between
leaves nothing half. Prompts of one session are placed in their order; a prompt that is in a thread stays there,
however often its job is done, so what a user moved by hand stays too. What the agent says and does after a prompt goes
where the prompt went, at once or together with it.

A prompt is held against the newest prompts of its project, and against some of those archived threads whose stored
vectors are nearest. These are read for each batch of jobs: five thousand of them cost some thirty milliseconds in the
background and no memory in between, so they have no index of their own. What regrouping knows when the session is over
counts for more than what is decided here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from filrouge.app.exchanges import Talk, exchanges_of, talk_of
from filrouge.app.meaning import Meaning
from filrouge.app.parts import Parts
from filrouge.app.spaces import REINDEX
from filrouge.app.syntheses import follow_placing
from filrouge.app.thread_candidates import candidates, nearest
from filrouge.app.thread_questions import queue_better_name, queue_reconsidering
from filrouge.app.thread_upkeep import Caps, is_routed, renamed, revectored
from filrouge.app.ties import queue_ties
from filrouge.app.worker import Outcome, Payload
from filrouge.clock import new_id
from filrouge.model.thread import Drift, Routing, Thread
from filrouge.model.turn import Turn
from filrouge.ports import Tx, Vectors
from filrouge.store.jobs import Jobs
from filrouge.store.thread_traces import ActiveDays, ThreadDecisions, ThreadVectors
from filrouge.store.threads import ThreadPlace, Threads
from filrouge.store.vectors import StoredVectors
from filrouge.threads.ground import Ground
from filrouge.threads.lifecycle import moved
from filrouge.threads.naming import is_due, name
from filrouge.threads.pairs import compared
from filrouge.threads.routing import Item, Known, route
from filrouge.threads.subjects import subjects
from filrouge.threads.vectors import prompt_vector

#: Job kinds: one prompt; those of before there were threads.
THREAD, EARLIER = "thread", "thread_earlier"
#: Prompts that are placed in one transaction; each takes some ten milliseconds of the lane that takes events in where
#: fifty threads are active, and more with more (bench/placed.py).
TOGETHER: Final = 8
#: Prompts that a prompt is held against: the newest before it, and of each near archived thread so many.
BEFORE, _OF_ARCHIVED = 128, 2
_REINDEX_SECONDS: Final = 2.0
_LONGEST_TITLE: Final = 64
#: A prompt held against another: the probability of one thread, the similarity, the share of words; shape (3,).
Near = NDArray[np.float32]
#: The ids of archived threads, and their vectors with the ground off where there is one, shape (n, dimension).
Archive = tuple[list[str], Vectors]


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """A prompt, ready to be placed.

    Attributes:
        is_coming: a job is about to make its vector.
        near: other prompts that it was held against, by id.
    """

    turn: Turn
    topics: tuple[str, ...]
    is_coming: bool
    near: Mapping[str, Near]


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
    ready = {one.turn.id: one for one in prepared(parts, ids, meaning, caps)}
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
    ready = prepared(parts, ids, meaning, caps)

    def write(tx: Tx) -> None:
        for one in ready:
            placed(parts, tx, one, meaning, caps)

    return Outcome(write=write, again=lambda: {"after": rows[-1]["seq"]})


def prepared(parts: Parts, ids: Sequence[str], meaning: Meaning, caps: Caps) -> list[Prepared]:
    """What is needed to place these prompts, those that are gone left out. No transaction is open."""
    if parts.readers.here(lambda tx: StoredVectors(tx).some("turn", ids, meaning.space.id)):
        parts.grounds.learn(meaning)  # once one of them has a vector
    turns, grounds, archives = parts.readers.here(lambda tx: _batch(parts, tx, ids, meaning, caps))
    return [
        _prepared(parts, turn, meaning, caps.place_of(turn), grounds[turn.scope.user], archives[caps.place_of(turn)])
        for turn in turns
    ]


def _batch(
    parts: Parts, tx: Tx, ids: Sequence[str], meaning: Meaning, caps: Caps
) -> tuple[list[Turn], dict[str, Ground | None], dict[ThreadPlace, Archive]]:
    """These prompts, the ground of each user, and the archived threads of each place."""
    turns = parts.turns(tx).get(ids)
    come = Counter(turn.scope.user for turn in turns)
    grounds = {user: parts.grounds.of(tx, meaning, user, count) for user, count in come.items()}
    archives = dict[ThreadPlace, Archive]()
    for turn in turns:
        if (where := caps.place_of(turn)) not in archives:
            archived, vectors = ThreadVectors(tx).archived(where, meaning.space.id)
            ground = grounds[turn.scope.user]
            archives[where] = archived, ground.off(vectors) if ground is not None and archived else vectors
    return turns, grounds, archives


def _prepared(
    parts: Parts, turn: Turn, meaning: Meaning, where: ThreadPlace, ground: Ground | None, archive: Archive
) -> Prepared:
    space_id = meaning.space.id

    def read(tx: Tx) -> tuple[bool, Talk]:
        is_coming = _is_under_way(tx, f"index_turn:{turn.id}")  # before its vector is looked for
        complete = StoredVectors(tx).first_part("turn", turn.id, space_id) == 0
        vector = prompt_vector(StoredVectors(tx).some("turn", [turn.id], space_id).get(turn.id)) if complete else None
        beside = nearest(vector, *archive, ground)
        archived = [id_ for thread_id in beside for id_ in Threads(tx).turns(thread_id, routed=True)[-_OF_ARCHIVED:]]
        ids = [turn.id, *Threads(tx).latest(where, BEFORE, turn), *archived]
        talk = talk_of(parts, tx, meaning, ids, ground if vector is not None else None)
        return is_coming and vector is None, talk

    is_coming, talk = parts.readers.here(read)
    exchanges, kind = ([], "words") if is_coming else exchanges_of(parts, talk, meaning)
    near = dict[str, Near]()
    if exchanges:
        found = compared(exchanges, kind)
        place = next(at for at, one in enumerate(talk.prompts) if one.id == turn.id)
        rows = np.stack([found.chances[place], found.alike[place], found.words[place]], axis=1)
        near = {one.id: row for one, row in zip(talk.prompts, rows, strict=True) if one.id != turn.id}
    return Prepared(turn=turn, topics=subjects(turn), is_coming=is_coming, near=near)


def placed(parts: Parts, tx: Tx, one: Prepared, meaning: Meaning, caps: Caps) -> str | None:
    """Place a prompt in the caller's transaction; its thread, or None where it was placed or erased meanwhile."""
    threads, turn, where = Threads(tx), one.turn, caps.place_of(one.turn)
    if threads.of_turns([turn.id]) or not parts.turns(tx).get([turn.id]):
        return None
    own = threads.of_session(turn)
    members: dict[str, list[Near]] = {}
    for turn_id, thread_id in threads.of_turns(one.near).items():
        members.setdefault(thread_id, []).append(one.near[turn_id])
    found = candidates(tx, where, members, turn.at, caps.mode)
    known = {id_: it for id_, it in found.items() if caps.place_beside(it) == where}
    item = Item(text=turn.text, topics=one.topics, at=turn.at, own=own)
    routing = route(item, [Known(thread=it, state=it.state, near=np.stack(members[it.id])) for it in known.values()])
    return carry_out(parts, tx, one, routing, known, meaning, caps).id


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


def _is_under_way(tx: Tx, dedupe: str) -> bool:
    """True for a job that is to be done and has not failed."""
    known = Jobs(tx).known_as(dedupe)
    return known is not None and known["state"] != "dead" and not known["error"]
