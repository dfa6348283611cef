"""Background jobs that place prompts in threads: by rules, by regrouping, and by a model.

- `place`: decide which thread each new prompt belongs to. The turns that follow a prompt go with it.
- `regrouping`: look at the prompts of a project again as a whole, once its sessions are quiet.
- `reconsider`: ask a model about a prompt that the rules were unsure of.
- `request_name`: let a model give a thread a better name.

Each job decides or re-checks inside the transaction that writes, so it never overwrites a change it has not seen.
"""

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
from filrouge.extraction.understanding import RequestRunner
from filrouge.extraction.vocabulary import detect_language
from filrouge.providers.hashing import HASHED
from filrouge.runtime.jobs import JobResult, Jobs, Payload
from filrouge.runtime.services import Parts
from filrouge.search.repository import StoredVectors
from filrouge.search.spaces import REINDEX
from filrouge.search.vector_search import VectorSearch
from filrouge.threads.assignment import (
    MOST_REGROUPED,
    Exchange,
    Known,
    PlacedPrompt,
    Regrouping,
    RoutedPrompt,
    TableKind,
    Whitening,
    compared,
    prompt_vector,
    regroup,
    roots,
    route,
)
from filrouge.threads.bridge_service import queue_ties
from filrouge.threads.models import Drift, Routing, Thread
from filrouge.threads.repository import ActiveDays, Decided, ThreadDecisions, ThreadPlace, Threads, ThreadVectors
from filrouge.threads.service import move_turns
from filrouge.threads.synthesis_service import follow_placing
from filrouge.threads.upkeep import (
    ModelAnswers,
    Name,
    ThreadSettings,
    answers_by_prompt,
    asking,
    distinct,
    is_due,
    is_routed,
    is_too_late,
    moved,
    name,
    naming,
    prompts_of,
    queue_better_name,
    queue_reconsidering,
    renamed,
    revectored,
    subjects,
    swept,
    thread_model,
)

# Exchanges: prompts with the turns that followed them, prepared for comparison.

#: Maximum number of characters read of a prompt and of its replies, and of turns searched for the replies.
_OF_PROMPT, _OF_REPLIES, _TURNS = 1200, 600, 6


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptBatch:
    """Stored prompts, in the order in which they were said.

    Attributes:
        replies: by prompt, the ids and the text of the turns that followed it: of the agent, and of the user if the
            turn was too short to be placed by itself.
        vectors: prompt vectors by prompt.
        ground: whitening transform of the user's prompts; None while there is too little data.
    """

    prompts: Sequence[Turn]
    replies: Mapping[str, tuple[str, str]]
    vectors: Mapping[str, Vector]
    ground: Whitening | None


def load_batch(
    parts: Parts, tx: Tx, meaning: VectorSearch, ids: Sequence[str], ground: Whitening | None
) -> PromptBatch:
    """Read these prompts; prompts that were deleted are left out."""
    followers = Threads(tx).followers(ids, _TURNS)
    turns = {turn.id: turn for turn in parts.turns(tx).get([*ids, *(id_ for own in followers.values() for id_ in own)])}
    windows = StoredVectors(tx).some("turn", ids, meaning.space.id) if ground is not None else {}
    vectors = {id_: prompt_vector(own) for id_, own in windows.items()}
    return PromptBatch(
        prompts=sorted((turns[id_] for id_ in dict.fromkeys(ids) if id_ in turns), key=lambda one: (one.at, one.id)),
        replies={id_: (" ".join(own), join_replies(turns[one].text for one in own)) for id_, own in followers.items()},
        vectors={id_: one for id_, one in vectors.items() if one is not None},
        ground=ground,
    )


def exchanges_of(parts: Parts, talk: PromptBatch, meaning: VectorSearch) -> tuple[list[Exchange], TableKind]:
    """Convert prompts into exchanges, and return which kind of comparison to use.

    Call it outside a transaction, since texts may have to be embedded.

    Prompts and their vectors are stored. The vector of a prompt and its replies as one text is computed on first use
    and cached in memory (`WhiteningCache`) until something is erased.
    """
    prompts, wholes = dict[str, Vector](), dict[str, Vector]()
    kind: TableKind = "words"
    if talk.ground is not None and talk.vectors and meaning.space.model != HASHED:
        kind = "vectors"  # hashed words carry less than the words themselves
        prompts = _whitened(talk.ground, talk.vectors)
        texts = {
            (turn.id, ids): join_prompt_and_replies(turn.text, replies)
            for turn in talk.prompts
            if turn.id in prompts and (ids := talk.replies[turn.id][0]) and (replies := talk.replies[turn.id][1])
        }
        made = parts.whitening.wholes(meaning, texts)
        wholes = prompts | _whitened(talk.ground, {id_: one for (id_, _), one in made.items()})
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


def join_replies(texts: Iterable[str]) -> str:
    """Join the beginnings of several texts."""
    return "\n".join(text[:_OF_REPLIES] for text in texts)[:_OF_REPLIES]


def join_prompt_and_replies(prompt: str, replies: str) -> str:
    """Join a prompt and its replies into one text."""
    return f"{prompt[:_OF_PROMPT]}\n{replies}"


def exchange(session: str, text: str, replies: str, prompt: Vector | None, whole: Vector | None) -> Exchange:
    """Build the exchange of a prompt and its replies, with their whitened vectors."""
    return Exchange(
        session=session,
        prompt=prompt,
        whole=whole,
        said=roots([text[:_OF_PROMPT]]),
        answered=roots([replies]),
        letters=len(text),
        asks=replies.rstrip().endswith("?"),
    )


def _whitened(ground: Whitening, vectors: Mapping[str, Vector]) -> dict[str, Vector]:
    return dict(zip(vectors, ground.off(np.stack(list(vectors.values()))), strict=True)) if vectors else {}


# Candidate threads: those of the same place, and the nearest of its archived threads.

#: Maximum number of archived threads that a prompt is compared with.
_NEAREST: Final = 8


def sweep_and_load_candidates(
    tx: Tx, where: ThreadPlace, ids: Iterable[str], now: datetime, mode: str
) -> dict[str, Thread]:
    """Suspend and archive the threads that are due, and return those among `ids` that a prompt may belong to, by id."""
    live = {thread.id: thread for thread in swept(tx, where, now, mode)}
    found = [live.get(thread.id, thread) for thread in Threads(tx).some(list(ids))]
    return {thread.id: thread for thread in found if thread.merged_into is None}


def nearest(vector: Vector | None, ids: Sequence[str], vectors: Vectors, ground: Whitening | None) -> tuple[str, ...]:
    """Return the threads nearest to a prompt; none if the prompt has no vector.

    Args:
        vectors: vectors of the threads, whitened if there is a transform.
    """
    if vector is None or not ids:
        return ()
    own = vector if ground is None else ground.off(vector[None, :])[0]
    best = np.argsort(-(vectors @ own), kind="stable")[:_NEAREST]
    return tuple(ids[int(place)] for place in best)


# Placing of new prompts.

#: Job kinds: one prompt; prompts from before threads existed.
THREAD, EARLIER = "thread", "thread_earlier"
#: Number of prompts placed in one transaction. Each blocks the executor that takes in events for about 10 ms with fifty
#: active threads, and for longer with more (bench/placed.py).
PROMPTS_PER_TX: Final = 8
#: Number of prompts to compare with: the newest before the prompt, and per nearest archived thread.
BEFORE, _OF_ARCHIVED = 128, 2
_REINDEX_SECONDS: Final = 2.0
_LONGEST_TITLE: Final = 64
#: A prompt compared with another: probability of one thread, similarity, word similarity; shape (3,).
PairScores = NDArray[np.float32]
#: Ids of archived threads, and their vectors, whitened if there is a transform, shape (n, dimension).
Archive = tuple[list[str], Vectors]


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """A prompt that is ready to be placed.

    Attributes:
        is_coming: a job is about to compute its vector.
        near: the comparison with other prompts, by id.
    """

    turn: Turn
    topics: tuple[str, ...]
    is_coming: bool
    near: Mapping[str, PairScores]


def queue_placing(parts: Parts, tx: Tx, turns: Sequence[Turn]) -> None:
    """Queue the placing of new prompts; turns that follow a placed prompt are put into its thread at once."""
    threads, jobs = Threads(tx), Jobs(tx)
    for turn in turns:
        if is_routed(turn):
            jobs.enqueue(THREAD, {"turn": turn.id}, dedupe=f"{THREAD}:{turn.id}", at=parts.clock.now())
        elif turn.scope.session and (thread_id := threads.led_by(turn)):
            threads.place(turn.id, thread_id, turn.at)


def queue_earlier(parts: Parts) -> None:
    """Queue the placing of prompts that were captured before threads existed."""
    if parts.readers.here(lambda tx: Threads(tx).unplaced(0, 1)):
        parts.writer.run(lambda tx: Jobs(tx).enqueue(EARLIER, {"after": 0}, dedupe=EARLIER, at=parts.clock.now()))


def place(parts: Parts, payloads: Sequence[Payload]) -> list[JobResult]:
    """Run the job that places prompts.

    A prompt is placed once its vector exists, or at once if none will come. The decision is made in the transaction
    that writes it, so it sees the current threads, and a crash leaves nothing half done. The prompts of one session are
    placed in order. A placed prompt is not placed again, however often its job runs, so manual moves persist.

    A prompt is compared with the newest prompts of its project, and with some prompts of the nearest archived threads.
    The vectors of archived threads are read for each batch of jobs. Five thousand take about 30 ms in the background
    and no memory in between, so they need no index. Regrouping can revise these decisions later, when more is known.
    """
    meaning, caps = parts.vectors, ThreadSettings.of(parts.readers.here(lambda tx: parts.settings(tx)))
    ids = [str(payload["turn"]) for payload in payloads]
    ready = {one.turn.id: one for one in prepare(parts, ids, meaning, caps)}
    return [_outcome(parts, payload, ready.get(id_), meaning, caps) for payload, id_ in zip(payloads, ids, strict=True)]


def place_earlier(parts: Parts, payload: Payload) -> JobResult:
    """Run the job that places the next prompts from before threads existed, oldest first."""
    meaning, caps = parts.vectors, ThreadSettings.of(parts.readers.here(lambda tx: parts.settings(tx)))
    if parts.readers.here(lambda tx: _is_under_way(tx, REINDEX)):
        return JobResult(write=lambda _: None, again=lambda: payload, delay=_REINDEX_SECONDS)
    rows = parts.readers.here(lambda tx: Threads(tx).unplaced(int(payload["after"]), PROMPTS_PER_TX))
    if not rows:
        return JobResult(write=lambda _: None)
    ids = [str(row["id"]) for row in rows]
    ready = prepare(parts, ids, meaning, caps)

    def write(tx: Tx) -> None:
        for one in ready:
            assign_prompt(parts, tx, one, meaning, caps)

    return JobResult(write=write, again=lambda: {"after": rows[-1]["seq"]})


def prepare(parts: Parts, ids: Sequence[str], meaning: VectorSearch, caps: ThreadSettings) -> list[Prepared]:
    """Prepare these prompts for placing, outside any transaction; prompts that were deleted are left out."""
    if parts.readers.here(lambda tx: StoredVectors(tx).some("turn", ids, meaning.space.id)):
        parts.whitening.learn(meaning)  # as soon as one of them has a vector
    turns, grounds, archives = parts.readers.here(lambda tx: _batch(parts, tx, ids, meaning, caps))
    return [
        _prepared(parts, turn, meaning, caps.place_of(turn), grounds[turn.scope.user], archives[caps.place_of(turn)])
        for turn in turns
    ]


def _batch(
    parts: Parts, tx: Tx, ids: Sequence[str], meaning: VectorSearch, caps: ThreadSettings
) -> tuple[list[Turn], dict[str, Whitening | None], dict[ThreadPlace, Archive]]:
    """Return the prompts, the whitening transform of each user, and the archived threads of each place."""
    turns = parts.turns(tx).get(ids)
    come = Counter(turn.scope.user for turn in turns)
    grounds = {user: parts.whitening.of(tx, meaning, user, count) for user, count in come.items()}
    archives = dict[ThreadPlace, Archive]()
    for turn in turns:
        if (where := caps.place_of(turn)) not in archives:
            archived, vectors = ThreadVectors(tx).archived(where, meaning.space.id)
            ground = grounds[turn.scope.user]
            archives[where] = archived, ground.off(vectors) if ground is not None and archived else vectors
    return turns, grounds, archives


def _prepared(
    parts: Parts, turn: Turn, meaning: VectorSearch, where: ThreadPlace, ground: Whitening | None, archive: Archive
) -> Prepared:
    space_id = meaning.space.id

    def read(tx: Tx) -> tuple[bool, PromptBatch]:
        is_coming = _is_under_way(tx, f"index_turn:{turn.id}")  # read before looking for its vector
        complete = StoredVectors(tx).first_part("turn", turn.id, space_id) == 0
        vector = prompt_vector(StoredVectors(tx).some("turn", [turn.id], space_id).get(turn.id)) if complete else None
        beside = nearest(vector, *archive, ground)
        archived = [id_ for thread_id in beside for id_ in Threads(tx).turns(thread_id, routed=True)[-_OF_ARCHIVED:]]
        ids = [turn.id, *Threads(tx).latest(where, BEFORE, turn), *archived]
        talk = load_batch(parts, tx, meaning, ids, ground if vector is not None else None)
        return is_coming and vector is None, talk

    is_coming, talk = parts.readers.here(read)
    exchanges, kind = ([], "words") if is_coming else exchanges_of(parts, talk, meaning)
    near = dict[str, PairScores]()
    if exchanges:
        found = compared(exchanges, kind)
        place = next(at for at, one in enumerate(talk.prompts) if one.id == turn.id)
        rows = np.stack([found.chances[place], found.alike[place], found.words[place]], axis=1)
        near = {one.id: row for one, row in zip(talk.prompts, rows, strict=True) if one.id != turn.id}
    return Prepared(turn=turn, topics=subjects(turn), is_coming=is_coming, near=near)


def assign_prompt(parts: Parts, tx: Tx, one: Prepared, meaning: VectorSearch, caps: ThreadSettings) -> str | None:
    """Place a prompt in the caller's transaction.

    Returns:
        Its thread, or None if it was placed or erased in the meantime.
    """
    threads, turn, where = Threads(tx), one.turn, caps.place_of(one.turn)
    if threads.of_turns([turn.id]) or not parts.turns(tx).get([turn.id]):
        return None
    own = threads.of_session(turn)
    members: dict[str, list[PairScores]] = {}
    for turn_id, thread_id in threads.of_turns(one.near).items():
        members.setdefault(thread_id, []).append(one.near[turn_id])
    found = sweep_and_load_candidates(tx, where, members, turn.at, caps.mode)
    known = {id_: it for id_, it in found.items() if caps.place_beside(it) == where}
    item = RoutedPrompt(text=turn.text, topics=one.topics, at=turn.at, own=own)
    routing = route(item, [Known(thread=it, state=it.state, near=np.stack(members[it.id])) for it in known.values()])
    return apply_routing(parts, tx, one, routing, known, meaning, caps).id


def apply_routing(
    parts: Parts,
    tx: Tx,
    one: Prepared,
    routing: Routing,
    known: Mapping[str, Thread],
    meaning: VectorSearch,
    caps: ThreadSettings,
) -> Thread:
    """Put a prompt and the turns that follow it into the chosen thread; return the updated thread."""
    threads, turn = Threads(tx), one.turn
    chosen = known.get(routing.thread_id or "")
    if chosen is None:
        thread = _new_thread(tx, turn, routing, caps.place_of(turn))
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


def _outcome(
    parts: Parts, payload: Payload, one: Prepared | None, meaning: VectorSearch, caps: ThreadSettings
) -> JobResult:
    if one is None:  # erased in the meantime
        return JobResult(write=lambda _: None)
    left = list[Payload]()

    def write(tx: Tx) -> None:
        if one.is_coming or Threads(tx).waits(one.turn):
            left.append(payload)
        else:
            assign_prompt(parts, tx, one, meaning, caps)

    return JobResult(write=write, again=lambda: left[-1] if left else None)


def _new_thread(tx: Tx, turn: Turn, routing: Routing, where: ThreadPlace) -> Thread:
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
    """Return True if the job is pending and has not failed."""
    known = Jobs(tx).get_by_key(dedupe)
    return known is not None and known["state"] != "dead" and not known["error"]


# Regrouping: prompts that were placed one by one are looked at again together.

REGROUP: Final = "regroup"
#: Number of moves per transaction (about 10 ms each), and of transactions per job.
_MOVES_PER_TX, _MAX_TX = 4, 64


@dataclass(frozen=True, kw_only=True, slots=True)
class _RegroupingPlan:
    """The moves to make, and the last decision known when they were computed."""

    moves: Sequence[Regrouping]
    last: int


def queue_regrouping(parts: Parts, tx: Tx, user: str, project: str | None, *, delay: float = 0.0) -> None:
    """Queue the regrouping of a project, after the work that is already waiting."""
    place: dict[str, object] = {"user": user, "project": project}
    Jobs(tx).enqueue(REGROUP, place, dedupe=f"{REGROUP}:{user}:{project}", at=parts.clock.now(), delay=delay)


def queue_quiet_places(parts: Parts, before: datetime) -> int:
    """Queue the regrouping of projects that changed since their last one and are quiet; return how many.

    Args:
        before: a project is quiet if nothing was placed in it since this time.
    """
    found = parts.readers.here(lambda tx: Threads(tx).last_active())
    due = [(place, at) for place, at in found.items() if at < before and parts.regrouped.get(place) != at]
    if due:
        parts.writer.run(lambda tx: [queue_regrouping(parts, tx, *place) for place, _ in due])
        parts.regrouped.update(due)
        parts.work_waiting.set()
    return len(due)


def regrouping(parts: Parts, payload: Payload) -> JobResult:
    """Run the job that regroups the threads of a project.

    The job reads the newest prompts of a project, clusters them (`threads.assignment`), and moves prompts with the
    turns that follow them, a few groups at a time. Each move is logged as a decision of the rules. Threads that a user
    named, or moved something into or out of, stay as they are. A confident answer of a model holds for its prompt. If
    anything was placed or moved between reading and writing, the job starts over.
    """
    user, project, done = str(payload.get("user") or LOCAL_USER), payload["project"], int(payload.get("done", 0))
    meaning = parts.vectors
    found = _plan_regrouping(parts, ThreadPlace(user=user, project=project), meaning)
    if not found.moves or done >= _MAX_TX:
        return JobResult(write=lambda _: None)

    def write(tx: Tx) -> None:
        if ThreadDecisions(tx).last() == found.last:
            for one in found.moves[:_MOVES_PER_TX]:
                _apply_regrouping(parts, tx, one, meaning.space.id)

    return JobResult(write=write, again=lambda: {"user": user, "project": project, "done": done + 1})


def _plan_regrouping(parts: Parts, where: ThreadPlace, meaning: VectorSearch) -> _RegroupingPlan:
    last, looked_at = parts.readers.here(lambda tx: _load_placed_prompts(parts, tx, where, meaning))
    moves = list[Regrouping]()
    for units, talk in looked_at:
        exchanges, kind = exchanges_of(parts, talk, meaning)
        by_id = {one.id: one for one in units}
        moves += regroup([by_id[turn.id] for turn in talk.prompts], compared(exchanges, kind).chances)
    return _RegroupingPlan(moves=moves, last=last)


def _load_placed_prompts(
    parts: Parts, tx: Tx, where: ThreadPlace, meaning: VectorSearch
) -> tuple[int, list[tuple[list[PlacedPrompt], PromptBatch]]]:
    """Return the last decision and the newest placed prompts, grouped by agent if agents are isolated."""
    threads, caps = Threads(tx), ThreadSettings.of(parts.settings(tx))
    held = ThreadDecisions(tx).held(where.user, where.project)
    words = answers_by_prompt(tx, where.user, where.project)
    placed = threads.of_turns(threads.latest(where, MOST_REGROUPED))
    beside: dict[ThreadPlace, list[PlacedPrompt]] = {}
    known = {one.id: one for one in threads.some(list(dict.fromkeys(placed.values())))}
    for turn_id, thread_id in placed.items():
        thread, said = known[thread_id], words.get(turn_id, ModelAnswers())
        unit = PlacedPrompt(
            id=turn_id,
            thread=thread,
            is_held=thread_id in held,
            belongs=thread_id in said.belongs,
            apart=said.apart,
        )
        beside.setdefault(caps.place_beside(thread), []).append(unit)
    ground = parts.whitening.of(tx, meaning, where.user)
    looked_at = [(own, load_batch(parts, tx, meaning, [one.id for one in own], ground)) for own in beside.values()]
    return ThreadDecisions(tx).last(), looked_at


def _apply_regrouping(parts: Parts, tx: Tx, one: Regrouping, space_id: str) -> None:
    """Apply one move; skip it if an earlier move of the same transaction emptied or merged its thread."""
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


# Reconsidering: a model is asked where a prompt belongs if the rules were unsure (THR-3, ADR 13).


@dataclass(frozen=True, kw_only=True, slots=True)
class _Case:
    """A prompt that the rules were unsure of.

    Attributes:
        decided: all decisions about it; the last one is the uncertain one.
        source: its current thread.
        candidate: the thread that it may belong to.
    """

    turn: Turn
    decided: Sequence[Decided]
    source: Thread
    candidate: Thread

    @property
    def routing(self) -> Routing:
        """Return the decision of the rules."""
        return self.decided[-1].routing


def reconsider(parts: Parts, payload: Payload) -> JobResult:
    """Run the job that asks a model where a prompt belongs, and apply the answer if it is confident.

    The decision of the rules stands unless the model is confident of another one. Then the prompt moves, together with
    the later prompts of the session that the rules put into the same thread. Or it leaves the thread that it
    reactivated, which goes back to its former state. A late or unreadable answer changes nothing, and the model is not
    asked again.

    Between the question and the answer, a user may have moved the prompt, or a thread may have been merged, changed or
    deleted. So the case is read again in the writing transaction, and nothing is written if it differs.

    Raises:
        ModelUnavailable: no model answers, or the budget is spent; the decision of the rules stands.
    """
    settings = parts.readers.here(lambda tx: parts.settings(tx))
    model = thread_model(parts, settings)
    case = parts.readers.here(lambda tx: _case(parts, tx, payload["turn"])) if model else None
    if case is None:
        return JobResult(write=lambda _: None)
    turn = case.turn
    thought = asking(
        RoutedPrompt(text=turn.text, topics=subjects(turn), at=turn.at),
        case.routing,
        case.candidate,
        parts.models.prompts,
        detect_language([turn.text], settings.language if settings.language != "auto" else "en"),
        seconds=parts.models.pace.related,
    )
    try:
        routing = RequestRunner(parts, parts.vectors, settings).run(thought)
    except Unreadable:
        routing = replace(case.routing, reason="A model was asked; its answer was unreadable.", model=model)
    except ModelUnavailable as error:
        if not any(one.kind == "late" for one in error.failures):
            raise
        routing = replace(case.routing, reason="A model was asked; it did not answer in time.", model=model)

    def write(tx: Tx) -> None:
        now = _case(parts, tx, turn.id)
        if now is not None and now.decided == case.decided:
            _apply_model_answer(parts, tx, now, routing)

    return JobResult(write=write)


def _case(parts: Parts, tx: Tx, turn_id: str) -> _Case | None:
    """Return the case of a prompt; None if there is nothing left to ask."""
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
    caps = ThreadSettings.of(parts.settings(tx))
    is_there = Threads(tx).of_turns([turn_id]).get(turn_id) == source.id
    if not is_there or caps.place_of(turns[0]) != caps.place_beside(candidate):
        return None
    return _Case(turn=turns[0], decided=decided, source=source, candidate=candidate)


def _apply_model_answer(parts: Parts, tx: Tx, case: _Case, routing: Routing) -> None:
    """Log the answer, and move the prompts concerned."""
    going = _prompts_to_move(tx, case)
    parts_off = routing.thread_id is None
    if parts_off and set(Threads(tx).turns(case.source.id, routed=True)) <= set(going):  # nothing would be left
        routing, parts_off = replace(routing, thread_id=case.source.id, parent=None), False
    if routing.thread_id == case.source.id:
        ThreadDecisions(tx).log(case.turn.id, case.source.id, routing, at=parts.clock.now(), actor="model")
        return
    if parts_off:
        routing, target = _open_thread_for(parts, tx, case, routing)
    else:
        target = case.candidate
    _log(parts, tx, case, going, target, routing)
    until = max(turn.at for turn in parts.turns(tx).get(going))
    move_turns(parts, tx, going, target, until, parts.vectors.space.id)
    if parts_off:
        _deactivate_again(parts, tx, case)


def _prompts_to_move(tx: Tx, case: _Case) -> list[str]:
    """Return the prompt and the session's next prompts, as far as the rules put them into the same thread."""
    threads = Threads(tx)
    beside = [id_ for id_, _ in takewhile(lambda it: it[1] == case.source.id, threads.from_prompt(case.turn))]
    placed_by = {one.turn_id: one.actor for one in ThreadDecisions(tx).about(beside)}
    return [case.turn.id, *takewhile(lambda id_: placed_by.get(id_) == "rules", beside[1:])]


def _open_thread_for(parts: Parts, tx: Tx, case: _Case, routing: Routing) -> tuple[Routing, Thread]:
    """Open a thread, not named yet, for a prompt that leaves its thread; record a fork as a drift of its parent."""
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
        reason="Moved with the preceding prompt, about which a model was asked.",
        model=routing.model,
    )
    for id_ in going:
        one = routing if id_ == case.turn.id else along
        ThreadDecisions(tx).log(id_, target.id, one, at=parts.clock.now(), actor="model")


def _deactivate_again(parts: Parts, tx: Tx, case: _Case) -> None:
    """Suspend or archive a thread again if only the prompts that left had reactivated it."""
    threads = Threads(tx)
    [thread] = threads.some([case.source.id])
    last = parts.turns(tx).get(threads.turns(thread.id, limit=1, newest=True))[0].at
    if thread.state == "active" and last < case.turn.at:
        act = "archive" if case.routing.weighed[0].state == "archived" else "suspend"
        threads.update(replace(moved(thread, act, parts.clock.now()), last_active=last))


# Naming: a model gives a thread a better name and a summary, after the rules did (EXT-9, THR-9, ADR 13).


@dataclass(frozen=True, kw_only=True, slots=True)
class _NamingCase:
    """A thread that may get a better name.

    Attributes:
        taken: titles of the other threads of its place.
        former: its name according to the rules.
    """

    thread: Thread
    prompts: Sequence[Turn]
    taken: Sequence[str]
    former: Name


def request_name(parts: Parts, payload: Payload) -> JobResult:
    """Run the job that asks a model for a thread name.

    A name set by a user is never changed. Between the question and the answer, the thread may have been named by the
    user or merged, or may have lost a turn that the answer rests on. Nothing is written then, and the model is asked
    again if there is still something to ask.

    Raises:
        ModelUnavailable: no model answers, or the budget is spent; the name by the rules stands.
    """
    settings = parts.readers.here(lambda tx: parts.settings(tx))
    asks = bool(thread_model(parts, settings))
    found = parts.readers.here(lambda tx: _load_naming_case(parts, tx, payload["thread"])) if asks else None
    if found is None:
        return JobResult(write=lambda _: None)
    language = detect_language(
        [turn.text for turn in found.prompts], settings.language if settings.language != "auto" else "en"
    )
    try:
        better = RequestRunner(parts, parts.vectors, settings).run(
            naming(found.prompts, found.taken, found.former, parts.models.prompts, language)
        )
    except Unreadable:
        better = found.former
    if better == found.former:
        return JobResult(write=lambda _: None)
    left = list[Payload]()

    def write(tx: Tx) -> None:
        now, threads = _load_naming_case(parts, tx, found.thread.id), Threads(tx)
        if now is None:
            return
        shown = [turn.id for turn in found.prompts]
        places = threads.of_turns(shown)
        if any(places.get(id_) != now.thread.id for id_ in shown):
            left.append(payload)
            return
        title = distinct(better.title, now.former.topics, now.taken, now.prompts[0].at)
        threads.update(replace(now.thread, title=title, summary=better.summary, title_by=better.title_by))

    return JobResult(write=write, again=lambda: left[-1] if left else None)


def _load_naming_case(parts: Parts, tx: Tx, thread_id: str) -> _NamingCase | None:
    """Return what to ask about a thread; None if it is gone or merged, or a user named it."""
    thread = next(iter(Threads(tx).some([thread_id])), None)
    prompts = prompts_of(parts, tx, thread_id)
    if thread is None or thread.merged_into is not None or thread.title_by == "user" or not prompts:
        return None
    place = ThreadSettings.of(parts.settings(tx)).place_beside(thread)
    taken = [title for id_, title in Threads(tx).titles(place).items() if id_ != thread_id]
    return _NamingCase(thread=thread, prompts=prompts, taken=taken, former=name(prompts, taken, thread))
