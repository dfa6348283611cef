"""Placing prompts in threads, in the background: by rules, again as a whole, and by a model where rules are unsure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import takewhile
from typing import Final

import numpy as np
from numpy.typing import NDArray

from filrouge.capture.models import Turn
from filrouge.core.clock import new_id
from filrouge.core.errors import ModelUnavailable, Unreadable
from filrouge.core.protocols import Tx, Vector, Vectors
from filrouge.core.scope import LOCAL_USER
from filrouge.extraction.summaries import vote
from filrouge.extraction.understanding import Answering
from filrouge.providers.hashing import HASHED
from filrouge.runtime.jobs import Jobs, Outcome, Payload
from filrouge.runtime.services import Parts
from filrouge.search.spaces import REINDEX
from filrouge.search.vector_repository import StoredVectors
from filrouge.search.vector_search import Meaning
from filrouge.threads.assignment import (
    MOST_REGROUPED,
    Exchange,
    Ground,
    Item,
    Kind,
    Known,
    Regrouping,
    Unit,
    compared,
    prompt_vector,
    regroup,
    roots,
    route,
)
from filrouge.threads.bridge_service import queue_ties
from filrouge.threads.model_questions import asking
from filrouge.threads.models import Drift, Routing, Thread
from filrouge.threads.naming import Name, distinct, is_due, moved, name, naming, subjects
from filrouge.threads.repository import ActiveDays, Decided, ThreadDecisions, ThreadPlace, Threads, ThreadVectors
from filrouge.threads.service import move_turns
from filrouge.threads.synthesis_service import follow_placing
from filrouge.threads.upkeep import (
    Caps,
    Words,
    is_routed,
    is_too_late,
    prompts_of,
    queue_better_name,
    queue_reconsidering,
    renamed,
    revectored,
    swept,
    who,
    words_by_prompt,
)

# Exchanges: the prompts of a project with what followed them, as they are held against each other.
#
# Prompts and their vectors are stored. The vector of a prompt and its replies as one text is derived: it is made when
# it is first asked for, where no transaction is open, and kept in memory (`Grounds`) until something is erased.

#: Characters of a prompt and of its replies that are read, and turns that these are looked for in.
_OF_PROMPT, _OF_REPLIES, _TURNS = 1200, 600, 6


@dataclass(frozen=True, kw_only=True, slots=True)
class Talk:
    """Prompts as they are stored, in the order in which they were said.

    Attributes:
        replies: by prompt, the ids and the words of what followed it: of the agent, and of the user where it was too
            short to be placed by itself.
        vectors: by prompt.
        ground: of the user's prompts; None while too little is known.
    """

    prompts: Sequence[Turn]
    replies: Mapping[str, tuple[str, str]]
    vectors: Mapping[str, Vector]
    ground: Ground | None


def talk_of(parts: Parts, tx: Tx, meaning: Meaning, ids: Sequence[str], ground: Ground | None) -> Talk:
    """Read these prompts, those that are gone left out."""
    followers = Threads(tx).followers(ids, _TURNS)
    turns = {turn.id: turn for turn in parts.turns(tx).get([*ids, *(id_ for own in followers.values() for id_ in own)])}
    windows = StoredVectors(tx).some("turn", ids, meaning.space.id) if ground is not None else {}
    vectors = {id_: prompt_vector(own) for id_, own in windows.items()}
    return Talk(
        prompts=sorted((turns[id_] for id_ in dict.fromkeys(ids) if id_ in turns), key=lambda one: (one.at, one.id)),
        replies={id_: (" ".join(own), in_one(turns[one].text for one in own)) for id_, own in followers.items()},
        vectors={id_: one for id_, one in vectors.items() if one is not None},
        ground=ground,
    )


def exchanges_of(parts: Parts, talk: Talk, meaning: Meaning) -> tuple[list[Exchange], Kind]:
    """The same as it is compared; for where no transaction is open, since texts may have to be embedded."""
    prompts, wholes = dict[str, Vector](), dict[str, Vector]()
    kind: Kind = "words"
    if talk.ground is not None and talk.vectors and meaning.space.model != HASHED:
        kind = "vectors"  # those of hashed words are words as well, and know less of them
        prompts = _levelled(talk.ground, talk.vectors)
        texts = {
            (turn.id, ids): as_one(turn.text, replies)
            for turn in talk.prompts
            if turn.id in prompts and (ids := talk.replies[turn.id][0]) and (replies := talk.replies[turn.id][1])
        }
        made = parts.grounds.wholes(meaning, texts)
        wholes = prompts | _levelled(talk.ground, {id_: one for (id_, _), one in made.items()})
    found = [
        exchange(
            f"{turn.host} {turn.scope.session}",
            turn.text,
            talk.replies[turn.id][1],
            prompts.get(turn.id),
            wholes.get(turn.id),
        )
        for turn in talk.prompts
    ]
    return found, kind


def in_one(texts: Iterable[str]) -> str:
    """The beginning of several texts as one."""
    return "\n".join(text[:_OF_REPLIES] for text in texts)[:_OF_REPLIES]


def as_one(prompt: str, replies: str) -> str:
    """A prompt and its replies as one text."""
    return f"{prompt[:_OF_PROMPT]}\n{replies}"


def exchange(session: str, text: str, replies: str, prompt: Vector | None, whole: Vector | None) -> Exchange:
    """A prompt with what followed it, and their vectors above the ground."""
    return Exchange(
        session=session,
        prompt=prompt,
        whole=whole,
        said=roots([text[:_OF_PROMPT]]),
        answered=roots([replies]),
        letters=len(text),
        asks=replies.rstrip().endswith("?"),
    )


def _levelled(ground: Ground, vectors: Mapping[str, Vector]) -> dict[str, Vector]:
    return dict(zip(vectors, ground.off(np.stack(list(vectors.values()))), strict=True)) if vectors else {}


# What a prompt is held against: the threads of its place, and of the archived ones those that are nearest to it.

#: Archived threads that a prompt is held against, the nearest.
_NEAREST: Final = 8


def candidates(tx: Tx, where: ThreadPlace, ids: Iterable[str], now: datetime, mode: str) -> dict[str, Thread]:
    """Those of these threads that a prompt may belong to, as they are at that moment, by id."""
    live = {thread.id: thread for thread in swept(tx, where, now, mode)}
    found = [live.get(thread.id, thread) for thread in Threads(tx).some(list(ids))]
    return {thread.id: thread for thread in found if thread.merged_into is None}


def nearest(vector: Vector | None, ids: Sequence[str], vectors: Vectors, ground: Ground | None) -> tuple[str, ...]:
    """The threads that are nearest to a prompt; none without its vector.

    Args:
        vectors: of the threads, with the ground off where there is one.
    """
    if vector is None or not ids:
        return ()
    own = vector if ground is None else ground.off(vector[None, :])[0]
    best = np.argsort(-(vectors @ own), kind="stable")[:_NEAREST]
    return tuple(ids[int(place)] for place in best)


# Placing: which thread every prompt belongs to, decided in the background, and what its session's other turns follow.
#
# A prompt is placed once its vector is there, or at once where none is to come: its title and topics then stand in.
# The decision is made within the transaction that writes it, so it sees the threads as they are, and being killed in
# between leaves nothing half. Prompts of one session are placed in their order; a prompt that is in a thread stays
# there, however often its job is done, so what a user moved by hand stays too. What the agent says and does after a
# prompt goes where the prompt went, at once or together with it.
#
# A prompt is held against the newest prompts of its project, and against some of those archived threads whose stored
# vectors are nearest. These are read for each batch of jobs: five thousand of them cost some thirty milliseconds in
# the background and no memory in between, so they have no index of their own. What regrouping knows when the session
# is over counts for more than what is decided here.

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


# Regrouping: what was placed prompt by prompt is looked at again as a whole, when its sessions have fallen silent.
#
# The job reads the newest prompts of a project, asks `threads.assignment` what belongs together, and moves prompts, a
# few groups at a time, each with what followed it. Every move is logged as a decision of the rules. What a user named
# stays, and so do threads that a user moved something into or out of; what a model was sure of holds for the prompt
# that it was asked about. Where anything was placed or moved between reading and writing, it looks again, so it never
# undoes what it has not seen.

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
    placed = threads.of_turns(threads.latest(where, MOST_REGROUPED))
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


# Reconsidering: a model is asked where a prompt belongs that the rules were not sure of (THR-3, ADR 13).
#
# The rules placed it, and what they decided stands unless the model is sure of something else. Then the prompt goes
# where it belongs, with what the session said after it and the rules put into the same thread; or it leaves the
# thread that the rules woke for it, which sleeps again. Who answers too late, or what nobody can read, leaves it as
# it is, and is not asked again.
#
# Between the question and its answer a user may have moved the prompt, or something merged, grown or gone. So the
# case is read again in the transaction that writes, and nothing is written unless it is the same.


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
            _reconsidering_carry_out(parts, tx, now, routing)

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


def _reconsidering_carry_out(parts: Parts, tx: Tx, case: _Case, routing: Routing) -> None:
    """Log what was answered, and move what is to move."""
    going = _going(tx, case)
    parts_off = routing.thread_id is None
    if parts_off and set(Threads(tx).turns(case.source.id, routed=True)) <= set(going):  # nothing to be parted from
        routing, parts_off = replace(routing, thread_id=case.source.id, parent=None), False
    if routing.thread_id == case.source.id:
        ThreadDecisions(tx).log(case.turn.id, case.source.id, routing, at=parts.clock.now(), actor="model")
        return
    if parts_off:
        routing, target = _reconsidering_opened(parts, tx, case, routing)
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


def _reconsidering_opened(parts: Parts, tx: Tx, case: _Case, routing: Routing) -> tuple[Routing, Thread]:
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


# Entitling: a model gives a thread a better name and sums it up, after the rules did (EXT-9, THR-9, ADR 13).
#
# What a user named is never touched. Between the question and its answer the thread may have been named, merged, or
# lost a turn that the answer quotes: then nothing is written, and it is asked once more where there is still
# something to ask.


@dataclass(frozen=True, kw_only=True, slots=True)
class _FoundName:
    """A thread that may get a better name.

    Attributes:
        taken: titles of those beside it.
        former: its name as the rules see it.
    """

    thread: Thread
    prompts: Sequence[Turn]
    taken: Sequence[str]
    former: Name


def entitle(parts: Parts, payload: Payload) -> Outcome:
    """The job: have a model name a thread.

    Raises:
        ModelUnavailable: nobody answers, or the budget is spent; the name by the rules stands.
    """
    settings = parts.readers.here(lambda tx: parts.settings(tx))
    asks = bool(who(parts, settings))
    found = parts.readers.here(lambda tx: _entitling_found(parts, tx, payload["thread"])) if asks else None
    if found is None:
        return Outcome(write=lambda _: None)
    language = vote([turn.text for turn in found.prompts], settings.language if settings.language != "auto" else "en")
    try:
        better = Answering(parts, parts.meaning, settings).run(
            naming(found.prompts, found.taken, found.former, parts.models.prompts, language)
        )
    except Unreadable:
        better = found.former
    if better == found.former:
        return Outcome(write=lambda _: None)
    left = list[Payload]()

    def write(tx: Tx) -> None:
        now, threads = _entitling_found(parts, tx, found.thread.id), Threads(tx)
        if now is None:
            return
        shown = [turn.id for turn in found.prompts]
        places = threads.of_turns(shown)
        if any(places.get(id_) != now.thread.id for id_ in shown):
            left.append(payload)
            return
        title = distinct(better.title, now.former.topics, now.taken, now.prompts[0].at)
        threads.update(replace(now.thread, title=title, summary=better.summary, title_by=better.title_by))

    return Outcome(write=write, again=lambda: left[-1] if left else None)


def _entitling_found(parts: Parts, tx: Tx, thread_id: str) -> _FoundName | None:
    """What of a thread is asked about; None where it is gone or merged, or a user named it."""
    thread = next(iter(Threads(tx).some([thread_id])), None)
    prompts = prompts_of(parts, tx, thread_id)
    if thread is None or thread.merged_into is not None or thread.title_by == "user" or not prompts:
        return None
    place = Caps.of(parts.settings(tx)).place_beside(thread)
    taken = [title for id_, title in Threads(tx).titles(place).items() if id_ != thread_id]
    return _FoundName(thread=thread, prompts=prompts, taken=taken, former=name(prompts, taken, thread))
