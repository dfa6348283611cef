"""Background jobs that place prompts in threads: by rules, by regrouping, and by a model.

- `place_prompts`: decide which thread each new prompt belongs to. The turns that follow a prompt go with it.
- `regroup_threads`: look at the prompts of a project again as a whole, once its sessions are quiet.
- `reconsider`: ask a model about a prompt that the rules were unsure of.
- `request_name`: let a model give a thread a better name.

Each job decides or re-checks inside the transaction that writes, so it never overwrites a change it has not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache, partial
from itertools import takewhile
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from filrouge.capture.models import Turn
from filrouge.core.clock import Clock, new_id
from filrouge.core.errors import ModelUnavailable, Unreadable
from filrouge.core.protocols import Tx, Vector, Vectors
from filrouge.core.scope import LOCAL_USER
from filrouge.extraction.statement_model import EMBEDDER
from filrouge.extraction.summaries import MAX_TITLE_CHARS
from filrouge.extraction.understanding import RequestRunner
from filrouge.extraction.vocabulary import detect_language
from filrouge.providers.hashing import HASHED
from filrouge.runtime.jobs import JobResult, Jobs, Payload
from filrouge.runtime.services import Parts, StoreContext
from filrouge.search.repository import StoredVectors
from filrouge.search.spaces import REINDEX
from filrouge.search.vector_search import VectorSearch
from filrouge.threads.assignment import (
    MAX_REGROUPED_PROMPTS,
    ComparedThread,
    Exchange,
    PlacedPrompt,
    Regrouping,
    RoutedPrompt,
    TableKind,
    Whitening,
    compare_pairs,
    prompt_vector,
    regroup,
    roots,
    route,
)
from filrouge.threads.bridge_service import queue_bridges
from filrouge.threads.models import Drift, Routing, Thread
from filrouge.threads.repository import (
    ActiveDays,
    LoggedDecision,
    ThreadDecisions,
    Threads,
    ThreadScope,
    ThreadVectors,
)
from filrouge.threads.service import move_turns, transfer_turns
from filrouge.threads.synthesis_service import queue_synthesis_after_placing
from filrouge.threads.upkeep import (
    ModelAnswers,
    ThreadName,
    ThreadSettings,
    answers_by_prompt,
    apply_act,
    apply_due_transitions,
    ask_membership,
    extract_topics,
    is_rename_due,
    is_routed,
    is_too_late,
    make_distinct,
    name_by_model,
    name_by_rules,
    prompts_of,
    queue_reconsidering,
    queue_renaming,
    thread_model,
    update_vector,
)

# Exchanges: prompts with the turns that followed them, prepared for comparison.

#: Maximum number of characters read of a prompt and of its replies, and of turns searched for the replies.
_MAX_PROMPT_CHARS, _MAX_REPLIES_CHARS, MAX_FOLLOWING_TURNS = 1200, 600, 6
#: Words said before a prompt that are read with it, and words of the prompt. More of what was said before tells less.
_WORDS_BEFORE, _WORDS_OF_PROMPT = 45, 135


class PromptBatch(Struct, frozen=True, kw_only=True):
    """Stored prompts, in the order in which they were said.

    Attributes:
        replies: by prompt, the texts of the turns that followed it, joined. They are turns of the agent, and of the
            user if too short to be placed by themselves.
        vectors: prompt vectors by prompt, as they are stored.
        vectors_with_replies: the same, joined with the vectors of the replies.
        whitening: whitening transform of the user's prompts; None while there is too little data.
    """

    prompts: Sequence[Turn]
    replies: Mapping[str, str]
    vectors: Mapping[str, Vector]
    vectors_with_replies: Mapping[str, Vector]
    whitening: Whitening | None


def load_batch(
    parts: StoreContext, tx: Tx, vectors: VectorSearch, ids: Sequence[str], whitening: Whitening | None
) -> PromptBatch:
    """Read these prompts; prompts that were deleted are left out."""
    following_turns = Threads(tx).following_turns(ids, MAX_FOLLOWING_TURNS)
    reply_ids = [id_ for turn_ids in following_turns.values() for id_ in turn_ids]
    turns = {turn.id: turn for turn in parts.turns(tx).get([*ids, *reply_ids])}
    prompt_vectors, vectors_with_replies = dict[str, Vector](), dict[str, Vector]()
    if whitening is not None:
        stored, space_id = StoredVectors(tx), vectors.space.id
        windows = stored.some("turn", ids, space_id)
        prompt_vectors = {id_: vector for id_, rows in windows.items() if (vector := prompt_vector(rows)) is not None}
        reply_vectors = stored.first_windows("turn", reply_ids, space_id)
        vectors_with_replies = {
            id_: vector_with_replies(
                turns[id_].text,
                vector,
                [(turns[reply].text, reply_vectors.get(reply)) for reply in following_turns[id_]],
            )
            for id_, vector in prompt_vectors.items()
            if id_ in turns
        }
    return PromptBatch(
        prompts=sorted((turns[id_] for id_ in dict.fromkeys(ids) if id_ in turns), key=lambda turn: (turn.at, turn.id)),
        replies={
            id_: join_replies(turns[turn_id].text for turn_id in turn_ids) for id_, turn_ids in following_turns.items()
        },
        vectors=prompt_vectors,
        vectors_with_replies=vectors_with_replies,
        whitening=whitening,
    )


def vector_with_replies(prompt: str, vector: Vector, replies: Iterable[tuple[str, Vector | None]]) -> Vector:
    """Return the mean direction of a prompt and its replies, weighted by the characters read of each; of length 1.

    Args:
        vector: of the prompt.
        replies: texts with the vectors of their beginnings; one without a vector does not count.
    """
    total, room = vector * min(len(prompt), _MAX_PROMPT_CHARS), _MAX_REPLIES_CHARS
    for text, reply_vector in replies:
        read = min(len(text), room)
        room -= read
        if reply_vector is not None:
            total = total + reply_vector * read
    return np.asarray(total / max(float(np.linalg.norm(total)), 1e-9), dtype=np.float32)


def build_exchanges(batch: PromptBatch, vectors: VectorSearch) -> tuple[list[Exchange], TableKind]:
    """Convert prompts into exchanges, and return which kind of comparison to use."""
    exchanges = [build_exchange(_session(turn), turn.text, batch.replies[turn.id]) for turn in batch.prompts]
    if batch.whitening is None or not batch.vectors or vectors.space.model == HASHED:
        return exchanges, "words"  # hashed words carry less than the words themselves
    ids = [turn.id for turn in batch.prompts]
    prompt_vectors = _whiten(batch.whitening, batch.vectors)
    vectors_with_replies = _whiten(batch.whitening, batch.vectors_with_replies)
    is_bundled = vectors.space.model == EMBEDDER
    in_sessions = _vectors_in_sessions(batch, vectors) if is_bundled else {}
    vectors_in_sessions = prompt_vectors | _whiten(batch.whitening, in_sessions)
    return [
        replace(
            exchange,
            prompt_vector=prompt_vectors.get(id_),
            vector_with_reply=vectors_with_replies.get(id_),
            vector_in_session=vectors_in_sessions.get(id_),
            model_vector=batch.vectors.get(id_) if is_bundled else None,
        )
        for id_, exchange in zip(ids, exchanges, strict=True)
    ], "vectors"


def _session(turn: Turn) -> str:
    return f"{turn.host} {turn.scope.session}"


def _vectors_in_sessions(batch: PromptBatch, vectors: VectorSearch) -> dict[str, Vector]:
    """Embed prompts behind what was said before them; those that begin a session or have no vector are left out.

    These vectors are not stored: the embedder's cache keeps those of the newest prompts.
    """
    texts = texts_in_sessions([(_session(turn), turn.text, batch.replies[turn.id]) for turn in batch.prompts])
    found = {
        turn.id: text
        for turn, text in zip(batch.prompts, texts, strict=True)
        if text is not None and turn.id in batch.vectors
    }
    embedded = vectors.passages(list(found.values())) if found else None
    return {} if embedded is None else dict(zip(found, embedded, strict=True))


def texts_in_sessions(exchanges: Iterable[tuple[str, str, str]]) -> list[str | None]:
    """Return each prompt behind the end of the exchange before it in its session; None for the first of a session.

    Args:
        exchanges: session, prompt and replies of each, in the order of the prompts.
    """
    texts, last = list[str | None](), dict[str, str]()
    for session, prompt, replies in exchanges:
        own = " ".join(prompt[:_MAX_PROMPT_CHARS].split()[:_WORDS_OF_PROMPT])
        before = last.get(session, "")
        texts.append(f"{before}\n{own}" if before else None)
        last[session] = " ".join(f"{prompt[:_MAX_PROMPT_CHARS]} {replies}".split()[-_WORDS_BEFORE:])
    return texts


def join_replies(texts: Iterable[str]) -> str:
    """Join the beginnings of several texts."""
    return "\n".join(text[:_MAX_REPLIES_CHARS] for text in texts)[:_MAX_REPLIES_CHARS]


def build_exchange(session: str, text: str, replies: str) -> Exchange:
    """Build the exchange of a prompt and its replies, without vectors."""
    return Exchange(
        session=session,
        prompt_roots=roots([text[:_MAX_PROMPT_CHARS]]),
        reply_roots=roots([replies]),
        prompt_chars=len(text),
        reply_asks=replies.rstrip().endswith("?"),
    )


def _whiten(whitening: Whitening, vectors: Mapping[str, Vector]) -> dict[str, Vector]:
    return dict(zip(vectors, whitening.whiten(np.stack(list(vectors.values()))), strict=True)) if vectors else {}


# Candidate threads: those of the same scope, and the nearest of its archived threads.

#: Maximum number of archived threads that a prompt is compared with: the nearest of so many that were active last.
_MAX_ARCHIVED_THREADS, _MAX_ARCHIVED_READ = 8, 1000


def update_states_and_load_candidates(
    tx: Tx, scope: ThreadScope, ids: Iterable[str], now: datetime, mode: str
) -> dict[str, Thread]:
    """Suspend and archive the threads that are due, and return those among `ids` that a prompt may belong to, by id."""
    updated = {thread.id: thread for thread in apply_due_transitions(tx, scope, now, mode)}
    found = [updated.get(thread.id, thread) for thread in Threads(tx).some(list(ids), sessions=False)]
    return {thread.id: thread for thread in found if thread.merged_into is None}


def nearest_threads(
    vector: Vector | None, ids: Sequence[str], vectors: Vectors, whitening: Whitening | None
) -> tuple[str, ...]:
    """Return the threads nearest to a prompt; none if the prompt has no vector.

    Args:
        vectors: vectors of the threads, whitened if there is a transform.
    """
    if vector is None or not ids:
        return ()
    whitened = vector if whitening is None else whitening.whiten(vector[None, :])[0]
    best = np.argsort(-(vectors @ whitened), kind="stable")[:_MAX_ARCHIVED_THREADS]
    return tuple(ids[int(index)] for index in best)


# Placing of new prompts.

#: Job kinds: one prompt; prompts from before threads existed.
PLACE, PLACE_EARLIER = "thread", "thread_earlier"
#: Maximum number of prompts that are compared together, since they are compared with the same prompts. They are written
#: one by one, so that an event waits for one of them at most: about 10 ms with fifty active threads (bench/placed.py).
PROMPTS_TOGETHER: Final = 24
#: Number of prompts from before threads existed that are placed in one transaction.
_EARLIER_PROMPTS_PER_TX: Final = 8
#: Number of prompts to compare with: the newest before the prompt, and per nearest archived thread.
MAX_EARLIER_PROMPTS, _MAX_PROMPTS_PER_ARCHIVED = 128, 2
_REINDEX_SECONDS: Final = 2.0
#: A prompt compared with another: probability of one thread, similarity, word similarity; shape (3,).
PairScores = NDArray[np.float32]
#: Ids of archived threads, and their vectors, whitened if there is a transform, shape (n, dimension).
ArchivedThreads = tuple[list[str], Vectors]


class PreparedPrompt(Struct, frozen=True, kw_only=True):
    """A prompt that is ready to be placed.

    Attributes:
        awaits_vector: a job is about to compute its vector.
        scores: the comparison with other prompts, by id.
    """

    turn: Turn
    topics: tuple[str, ...]
    awaits_vector: bool
    scores: Mapping[str, PairScores]


def queue_placing(clock: Clock, tx: Tx, turns: Sequence[Turn]) -> None:
    """Queue the placing of new prompts; turns that follow a placed prompt are put into its thread at once."""
    threads, jobs = Threads(tx), Jobs(tx)
    for turn in turns:
        if is_routed(turn):
            jobs.enqueue(PLACE, {"turn": turn.id}, dedupe=f"{PLACE}:{turn.id}", at=clock.now())
        elif turn.scope.session and (thread_id := threads.of_preceding_prompt(turn)):
            threads.place(turn.id, thread_id, turn.at)


def queue_earlier(parts: Parts) -> None:
    """Queue the placing of prompts that were captured before threads existed."""
    if parts.readers.here(lambda tx: Threads(tx).unplaced(0, 1)):
        parts.writer.run(
            lambda tx: Jobs(tx).enqueue(PLACE_EARLIER, {"after": 0}, dedupe=PLACE_EARLIER, at=parts.clock.now())
        )


def place_prompts(parts: Parts, payloads: Sequence[Payload]) -> list[JobResult]:
    """Run the job that places prompts.

    A prompt is placed once its vector exists, or at once if none will come. The decision is made in the transaction
    that writes it, so it sees the current threads, and a crash leaves nothing half done. The prompts of one session are
    placed in order. A placed prompt is not placed again, however often its job runs, so manual moves persist.

    A prompt is compared with the newest prompts of its project, and with some prompts of the nearest archived threads.
    The vectors of archived threads are read for each batch of jobs. A thousand take about 10 ms in the background and
    no memory in between, so they need no index. Regrouping can revise these decisions later, when more is known.
    """
    vectors, thread_settings = parts.vectors, ThreadSettings.of(parts.readers.here(lambda tx: parts.settings(tx)))
    ids = [str(payload["turn"]) for payload in payloads]
    ready = {prepared.turn.id: prepared for prepared in prepare_prompts(parts, ids, vectors, thread_settings)}
    return [
        _place_result(parts, payload, ready.get(id_), vectors, thread_settings)
        for payload, id_ in zip(payloads, ids, strict=True)
    ]


def place_earlier(parts: Parts, payload: Payload) -> JobResult:
    """Run the job that places the next prompts from before threads existed, oldest first."""
    vectors, thread_settings = parts.vectors, ThreadSettings.of(parts.readers.here(lambda tx: parts.settings(tx)))
    if parts.readers.here(lambda tx: _is_pending(tx, REINDEX)):
        return JobResult(write=lambda _: None, again=lambda: payload, delay=_REINDEX_SECONDS)
    rows = parts.readers.here(lambda tx: Threads(tx).unplaced(int(payload["after"]), _EARLIER_PROMPTS_PER_TX))
    if not rows:
        return JobResult(write=lambda _: None)
    ids = [str(row["id"]) for row in rows]
    ready = prepare_prompts(parts, ids, vectors, thread_settings)

    def write(tx: Tx) -> None:
        for prepared in ready:
            assign_prompt(parts, tx, prepared, vectors, thread_settings)

    return JobResult(write=write, again=lambda: {"after": rows[-1]["seq"]})


def prepare_prompts(
    parts: Parts, ids: Sequence[str], vectors: VectorSearch, thread_settings: ThreadSettings
) -> list[PreparedPrompt]:
    """Prepare these prompts for placing, outside any transaction; prompts that were deleted are left out."""
    if parts.readers.here(lambda tx: StoredVectors(tx).some("turn", ids, vectors.space.id)):
        parts.whitening.embed_sample(vectors)  # as soon as one of them has a vector
    by_scope: dict[ThreadScope, list[Turn]] = {}
    for turn in parts.readers.here(lambda tx: parts.turns(tx).get(ids)):
        by_scope.setdefault(thread_settings.scope_of_turn(turn), []).append(turn)
    prepared = [one for scope, turns in by_scope.items() for one in _prepare_in_scope(parts, scope, turns, vectors)]
    return sorted(prepared, key=lambda one: ids.index(one.turn.id))


def _prepare_in_scope(
    parts: Parts, scope: ThreadScope, turns: Sequence[Turn], vectors: VectorSearch
) -> list[PreparedPrompt]:
    """Prepare prompts of one scope. Most are compared with the same prompts, which are read only once."""

    def read(tx: Tx) -> tuple[list[_PromptToCompare], PromptBatch]:
        whitening = parts.whitening.fit_for(tx, vectors, scope.user, len(turns))
        archive = _read_archive(tx, scope, vectors.space.id, whitening)
        newest = cache(partial(Threads(tx).turns, routed=True, limit=_MAX_PROMPTS_PER_ARCHIVED, newest=True))
        found = [_find_compared(tx, turn, scope, vectors.space.id, archive, whitening, newest) for turn in turns]
        ids = dict.fromkeys(id_ for one in found if not one.awaits_vector for id_ in one.compared_ids)
        return found, load_batch(parts, tx, vectors, list(ids), whitening)

    prompts, batch = parts.readers.here(read)
    exchanges, kind = build_exchanges(batch, vectors)
    ready = [prompt for prompt in prompts if not prompt.awaits_vector]
    scores = _score([prompt for prompt in ready if prompt.has_vector], batch, exchanges, kind)
    scores |= _score([prompt for prompt in ready if not prompt.has_vector], batch, exchanges, "words")
    return [
        PreparedPrompt(
            turn=prompt.turn,
            topics=extract_topics(prompt.turn),
            awaits_vector=prompt.awaits_vector,
            scores=scores.get(prompt.turn.id, {}),
        )
        for prompt in prompts
    ]


class _PromptToCompare(Struct, frozen=True, kw_only=True):
    """A prompt, and the prompts to compare it with.

    Attributes:
        awaits_vector: a job is about to compute its vector.
        has_vector: its vectors are complete; otherwise only words are compared.
        compared_ids: its id and those of the other prompts.
    """

    turn: Turn
    awaits_vector: bool
    has_vector: bool
    compared_ids: frozenset[str]


def _read_archive(tx: Tx, scope: ThreadScope, space_id: str, whitening: Whitening | None) -> ArchivedThreads:
    ids, thread_vectors = ThreadVectors(tx).archived(scope, space_id, _MAX_ARCHIVED_READ)
    return ids, whitening.whiten(thread_vectors) if whitening is not None and ids else thread_vectors


def _find_compared(
    tx: Tx,
    turn: Turn,
    scope: ThreadScope,
    space_id: str,
    archive: ArchivedThreads,
    whitening: Whitening | None,
    newest_prompts: Callable[[str], list[str]],
) -> _PromptToCompare:
    """Find what a prompt is compared with; `newest_prompts` returns those of an archived thread."""
    is_pending = _is_pending(tx, f"index_turn:{turn.id}")
    complete = StoredVectors(tx).first_part("turn", turn.id, space_id) == 0
    vector = prompt_vector(StoredVectors(tx).some("turn", [turn.id], space_id).get(turn.id)) if complete else None
    archived = [id_ for thread_id in nearest_threads(vector, *archive, whitening) for id_ in newest_prompts(thread_id)]
    return _PromptToCompare(
        turn=turn,
        awaits_vector=is_pending and vector is None,
        has_vector=vector is not None,
        compared_ids=frozenset([turn.id, *Threads(tx).latest(scope, MAX_EARLIER_PROMPTS, turn), *archived]),
    )


def _score(
    prompts: Sequence[_PromptToCompare], batch: PromptBatch, exchanges: Sequence[Exchange], kind: TableKind
) -> dict[str, dict[str, PairScores]]:
    """Compare prompts with the others of their batch, and return for each its scores.

    A comparison reads all pairs as context of the others, so prompts that are placed together are compared together:
    each also sees what was said after it, if it is in the batch.

    Args:
        exchanges: of `batch.prompts`, in their order.
    """
    positions = {turn.id: position for position, turn in enumerate(batch.prompts)}
    present = [prompt for prompt in prompts if prompt.turn.id in positions]  # the others were erased in the meantime
    if not present:
        return {}
    found = compare_pairs(exchanges, kind, [positions[prompt.turn.id] for prompt in present])
    rows = np.stack([found.probabilities, found.similarities, found.word_similarities], axis=2)
    return {
        prompt.turn.id: {
            id_: row[position]
            for id_, position in positions.items()
            if id_ in prompt.compared_ids and id_ != prompt.turn.id
        }
        for prompt, row in zip(present, rows, strict=True)
    }


def assign_prompt(
    parts: StoreContext, tx: Tx, prepared: PreparedPrompt, vectors: VectorSearch, thread_settings: ThreadSettings
) -> str | None:
    """Place a prompt in the caller's transaction.

    Returns:
        Its thread, or None if it was placed or erased in the meantime.
    """
    threads, turn, scope = Threads(tx), prepared.turn, thread_settings.scope_of_turn(prepared.turn)
    if threads.of_turns([turn.id]) or not parts.turns(tx).get([turn.id]):
        return None
    session_thread = threads.of_session(turn)
    members: dict[str, list[PairScores]] = {}
    for turn_id, thread_id in threads.of_turns(prepared.scores).items():
        members.setdefault(thread_id, []).append(prepared.scores[turn_id])
    found = update_states_and_load_candidates(tx, scope, members, turn.at, thread_settings.mode)
    candidates = {id_: thread for id_, thread in found.items() if thread_settings.scope_of_thread(thread) == scope}
    prompt = RoutedPrompt(text=turn.text, topics=prepared.topics, at=turn.at, session_thread=session_thread)
    routing = route(
        prompt,
        [
            ComparedThread(thread=thread, state=thread.state, scores=np.stack(members[thread.id]))
            for thread in candidates.values()
        ],
    )
    return apply_routing(parts, tx, prepared, routing, candidates, vectors, thread_settings).id


def apply_routing(
    parts: StoreContext,
    tx: Tx,
    prepared: PreparedPrompt,
    routing: Routing,
    candidates: Mapping[str, Thread],
    vectors: VectorSearch,
    thread_settings: ThreadSettings,
) -> Thread:
    """Put a prompt and the turns that follow it into the chosen thread; return the updated thread."""
    threads, turn = Threads(tx), prepared.turn
    chosen = candidates.get(routing.thread_id or "")
    if chosen is None:
        thread = _new_thread(tx, turn, routing, thread_settings.scope_of_turn(turn))
        threads.add(thread)
        parent = candidates.get(routing.parent or "")
        if parent is not None:
            similarity = next(
                (candidate.similarity for candidate in routing.candidates if candidate.own), routing.similarity
            )
            drift = Drift(turn_id=turn.id, at=turn.at, similarity=similarity, became=thread.id)
            threads.update(replace(parent, drifts=(*parent.drifts, drift)))
    else:
        thread = apply_act(chosen, "use" if chosen.state == "active" else "reactivate", turn.at)
    threads.place(turn.id, thread.id, turn.at, prepared.topics)
    threads.place_following_turns(turn)
    if chosen is not None:
        count = threads.prompt_count(thread.id)
        threads.update(thread)
        if is_rename_due(count):
            queue_renaming(parts.clock, tx, thread.id)
    update_vector(tx, thread.id, vectors.space.id)
    ThreadDecisions(tx).log(turn.id, thread.id, routing, at=turn.at)
    queue_reconsidering(parts, tx, turn, routing)
    ActiveDays(tx).note(turn.scope.project, turn.at)
    queue_bridges(parts, tx, thread.id)
    queue_synthesis_after_placing(parts, tx, turn)
    return thread


def _place_result(
    parts: StoreContext,
    payload: Payload,
    prepared: PreparedPrompt | None,
    vectors: VectorSearch,
    thread_settings: ThreadSettings,
) -> JobResult:
    if prepared is None:  # erased in the meantime
        return JobResult(write=lambda _: None)
    retried = list[Payload]()

    def write(tx: Tx) -> None:
        if prepared.awaits_vector or Threads(tx).has_waiting_before(prepared.turn):
            retried.append(payload)
        else:
            assign_prompt(parts, tx, prepared, vectors, thread_settings)

    return JobResult(write=write, again=lambda: retried[-1] if retried else None)


def _new_thread(tx: Tx, turn: Turn, routing: Routing, scope: ThreadScope) -> Thread:
    new_name = name_by_rules([turn], list(Threads(tx).titles(scope).values()))
    return Thread(
        id=new_id(turn.at),
        user=turn.scope.user,
        project=turn.scope.project,
        agent=turn.scope.agent,
        channel=turn.scope.channel,
        title=new_name.title or " ".join(turn.text.split())[:MAX_TITLE_CHARS],
        summary=new_name.summary,
        topics=new_name.topics,
        origin=turn.source,
        parent=routing.parent,
        opened_at=turn.at,
        last_active=turn.at,
    )


def _is_pending(tx: Tx, dedupe: str) -> bool:
    """Return True if the job is pending and has not failed."""
    job = Jobs(tx).get_by_key(dedupe)
    return job is not None and job["state"] != "dead" and not job["error"]


# Regrouping: prompts that were placed one by one are looked at again together.

REGROUP: Final = "regroup"
#: Number of times that a regrouping starts over because something was placed or moved in the meantime.
_MAX_RESTARTS: Final = 8


class _RegroupingPlan(Struct, frozen=True, kw_only=True):
    """The moves to make, and the number of the last decision when they were computed."""

    moves: Sequence[Regrouping]
    last_decision: int


def queue_regrouping(clock: Clock, tx: Tx, user: str, project: str | None, *, delay: float = 0.0) -> None:
    """Queue the regrouping of a project, after the work that is already waiting."""
    payload: dict[str, object] = {"user": user, "project": project}
    Jobs(tx).enqueue(REGROUP, payload, dedupe=f"{REGROUP}:{user}:{project}", at=clock.now(), delay=delay)


def queue_quiet_projects(parts: Parts, before: datetime) -> int:
    """Queue the regrouping of projects that changed since their last one and are quiet; return how many.

    While prompts wait for their place, as in an import, no project is quiet: when they were said tells nothing then.

    Args:
        before: a project is quiet if nothing was placed in it since this time.
    """
    if parts.readers.here(_is_placing):
        return 0
    found = parts.readers.here(lambda tx: Threads(tx).last_active())
    due = [
        (project, last_active)
        for project, last_active in found.items()
        if last_active < before and parts.regrouped.get(project) != last_active
    ]
    if due:
        parts.writer.run(lambda tx: [queue_regrouping(parts.clock, tx, *project) for project, _ in due])
        parts.regrouped.update(due)
        parts.work_waiting.set()
    return len(due)


def _is_placing(tx: Tx) -> bool:
    """Return True if prompts wait for their place."""
    return any(row["kind"] in (PLACE, PLACE_EARLIER) and row["state"] != "dead" for row in Jobs(tx).kinds())


def regroup_threads(parts: Parts, payload: Payload) -> JobResult:
    """Run the job that regroups the threads of a project.

    The job reads the newest prompts of a project, clusters them (`threads.assignment`), and moves prompts with the
    turns that follow them, group by group. Each move is a write of its own, so that an event waits for one at most
    (about a millisecond a prompt), and is logged as a decision of the rules. Threads that a user named, or moved
    something into or out of, stay as they are. A confident answer of a model holds for its prompt. If anything else was
    placed or moved in the meantime, the job starts over.
    """
    project, restarts = payload["project"], int(payload.get("restarts", 0))
    scope = ThreadScope(user=str(payload.get("user") or LOCAL_USER), project=project)
    plan = _plan_regrouping(parts, scope, parts.vectors)
    regrouper = _Regrouper(parts, plan.last_decision, parts.vectors.space.id)
    made = [one.result() for one in parts.writer.submit_patient([partial(regrouper.move, move) for move in plan.moves])]
    if all(made) or restarts >= _MAX_RESTARTS:
        return JobResult(write=lambda _: None)
    return JobResult(
        write=lambda _: None, again=lambda: {"user": scope.user, "project": project, "restarts": restarts + 1}
    )


class _Regrouper:
    """Makes moves of a plan, one per write, as long as nobody else decides anything."""

    def __init__(self, parts: StoreContext, last_decision: int, space_id: str) -> None:
        self._parts = parts
        self._last_decision = last_decision
        self._space_id = space_id

    def move(self, move: Regrouping, tx: Tx) -> bool:
        """Make a move; False if something else was placed or moved since the plan was made."""
        if ThreadDecisions(tx).last() != self._last_decision:
            return False
        for thread_id in dict.fromkeys(_apply_regrouping(self._parts, tx, move)):
            update_vector(tx, thread_id, self._space_id)
            queue_renaming(self._parts.clock, tx, thread_id, afresh=True)
        self._last_decision = ThreadDecisions(tx).last()
        return True


def _plan_regrouping(parts: Parts, scope: ThreadScope, vectors: VectorSearch) -> _RegroupingPlan:
    last_decision, groups = parts.readers.here(lambda tx: _load_placed_prompts(parts, tx, scope, vectors))
    moves = list[Regrouping]()
    for prompts, batch in groups:
        exchanges, kind = build_exchanges(batch, vectors)
        by_id = {prompt.id: prompt for prompt in prompts}
        moves += regroup([by_id[turn.id] for turn in batch.prompts], compare_pairs(exchanges, kind).probabilities)
    return _RegroupingPlan(moves=moves, last_decision=last_decision)


def _load_placed_prompts(
    parts: Parts, tx: Tx, scope: ThreadScope, vectors: VectorSearch
) -> tuple[int, list[tuple[list[PlacedPrompt], PromptBatch]]]:
    """Return the last decision and the newest placed prompts, grouped by agent if agents are isolated."""
    threads, thread_settings = Threads(tx), ThreadSettings.of(parts.settings(tx))
    moved_by_user = ThreadDecisions(tx).moved_by_user(scope.user, scope.project)
    answers_by_turn = answers_by_prompt(tx, scope.user, scope.project)
    placed = threads.of_turns(threads.latest(scope, MAX_REGROUPED_PROMPTS))
    prompts_by_scope: dict[ThreadScope, list[PlacedPrompt]] = {}
    threads_by_id = {thread.id: thread for thread in threads.some(list(dict.fromkeys(placed.values())))}
    for turn_id, thread_id in placed.items():
        thread, answers = threads_by_id[thread_id], answers_by_turn.get(turn_id, ModelAnswers())
        prompt = PlacedPrompt(
            id=turn_id,
            thread=thread,
            is_moved_by_user=thread_id in moved_by_user,
            is_confirmed=thread_id in answers.belongs,
            excluded=answers.excluded,
        )
        prompts_by_scope.setdefault(thread_settings.scope_of_thread(thread), []).append(prompt)
    whitening = parts.whitening.fit_for(tx, vectors, scope.user)
    groups = [
        (prompts, load_batch(parts, tx, vectors, [placed_prompt.id for placed_prompt in prompts], whitening))
        for prompts in prompts_by_scope.values()
    ]
    return ThreadDecisions(tx).last(), groups


def _apply_regrouping(parts: StoreContext, tx: Tx, move: Regrouping) -> list[str]:
    """Apply one move; skip it if an earlier move emptied or merged its thread.

    Returns:
        The threads on both ends, whose names and vectors are still the old ones.
    """
    threads, prompts = Threads(tx), parts.turns(tx).get(move.prompt_ids)
    if not prompts:
        return []
    prompts = sorted(prompts, key=lambda turn: (turn.at, turn.id))
    first_at, last_at = prompts[0].at, prompts[-1].at
    base_thread = next(iter(threads.some([move.into or move.routing.parent or ""])), None)
    if base_thread is None or base_thread.merged_into is not None:
        return []
    target = base_thread
    if move.into is None:
        scope = ThreadSettings.of(parts.settings(tx)).scope_of_thread(base_thread)
        target = replace(
            base_thread,
            id=new_id(parts.clock.now()),
            title=make_distinct(base_thread.title, (), threads.titles(scope).values(), first_at),
            title_by="rules",
            summary="",
            topics=(),
            state="active",
            suspended_at=None,
            parent=base_thread.id,
            drifts=(),
            weight=1.0,
            opened_at=first_at,
            last_active=last_at,
        )
        threads.add(target)
    for turn in prompts:
        ThreadDecisions(tx).log(turn.id, target.id, move.routing, at=parts.clock.now())
    return [thread.id for thread in transfer_turns(parts, tx, [turn.id for turn in prompts], target, last_at)]


# Reconsidering: a model is asked where a prompt belongs if the rules were unsure (ADR 13).


class _UncertainPlacement(Struct, frozen=True, kw_only=True):
    """A prompt that the rules were unsure of.

    Attributes:
        decisions: all decisions about it; the last one is the uncertain one.
        current_thread: the thread that it is in.
        candidate: the thread that it may belong to.
    """

    turn: Turn
    decisions: Sequence[LoggedDecision]
    current_thread: Thread
    candidate: Thread

    @property
    def routing(self) -> Routing:
        """Return the decision of the rules."""
        return self.decisions[-1].routing


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
    model = thread_model(parts.models, settings)
    case = parts.readers.here(lambda tx: _load_case(parts, tx, payload["turn"])) if model else None
    if case is None:
        return JobResult(write=lambda _: None)
    turn = case.turn
    request = ask_membership(
        RoutedPrompt(text=turn.text, topics=extract_topics(turn), at=turn.at),
        case.routing,
        case.candidate,
        parts.models.prompts,
        detect_language([turn.text], settings.language if settings.language != "auto" else "en"),
        seconds=parts.models.pace.related,
    )
    try:
        routing = RequestRunner(parts, parts.vectors, settings).run(request)
    except Unreadable:
        routing = replace(case.routing, reason="A model was asked; its answer was unreadable.", model=model)
    except ModelUnavailable as error:
        if not any(failure.kind == "late" for failure in error.failures):
            raise
        routing = replace(case.routing, reason="A model was asked; it did not answer in time.", model=model)

    def write(tx: Tx) -> None:
        current_case = _load_case(parts, tx, turn.id)
        if current_case is not None and current_case.decisions == case.decisions:
            _apply_model_answer(parts, tx, current_case, routing)

    return JobResult(write=write)


def _load_case(parts: StoreContext, tx: Tx, turn_id: str) -> _UncertainPlacement | None:
    """Return the case of a prompt; None if there is nothing left to ask."""
    turns, decisions = parts.turns(tx).get([turn_id]), ThreadDecisions(tx).about([turn_id])
    if not turns or not decisions or is_too_late(turns[0].at, parts.clock.now()):
        return None
    last = decisions[-1]
    if last.actor != "rules" or not last.routing.borderline or not last.routing.candidates:
        return None
    best = last.routing.candidates[0].thread_id
    threads_by_id = {thread.id: thread for thread in Threads(tx).some([last.thread_id, best])}
    current_thread, candidate = threads_by_id.get(last.thread_id), threads_by_id.get(best)
    if (
        current_thread is None
        or candidate is None
        or candidate.merged_into is not None
        or current_thread.title_by == "user"
    ):
        return None
    thread_settings = ThreadSettings.of(parts.settings(tx))
    is_there = Threads(tx).of_turns([turn_id]).get(turn_id) == current_thread.id
    if not is_there or thread_settings.scope_of_turn(turns[0]) != thread_settings.scope_of_thread(candidate):
        return None
    return _UncertainPlacement(turn=turns[0], decisions=decisions, current_thread=current_thread, candidate=candidate)


def _apply_model_answer(parts: Parts, tx: Tx, case: _UncertainPlacement, routing: Routing) -> None:
    """Log the answer, and move the prompts concerned."""
    prompt_ids = _prompts_to_move(tx, case)
    leaves = routing.thread_id is None
    if leaves and set(Threads(tx).turns(case.current_thread.id, routed=True)) <= set(
        prompt_ids
    ):  # nothing would be left
        routing, leaves = replace(routing, thread_id=case.current_thread.id, parent=None), False
    if routing.thread_id == case.current_thread.id:
        ThreadDecisions(tx).log(case.turn.id, case.current_thread.id, routing, at=parts.clock.now(), actor="model")
        return
    if leaves:
        routing, target = _open_thread_for(parts.clock, tx, case, routing)
    else:
        target = case.candidate
    _log_moves(parts.clock, tx, case, prompt_ids, target, routing)
    until = max(turn.at for turn in parts.turns(tx).get(prompt_ids))
    move_turns(parts, tx, prompt_ids, target, until, parts.vectors.space.id)
    if leaves:
        _deactivate_again(parts, tx, case)


def _prompts_to_move(tx: Tx, case: _UncertainPlacement) -> list[str]:
    """Return the prompt and the session's next prompts, as far as the rules put them into the same thread."""
    threads = Threads(tx)
    later_prompts = [
        id_ for id_, _ in takewhile(lambda placed: placed[1] == case.current_thread.id, threads.prompts_from(case.turn))
    ]
    placed_by = {decision.turn_id: decision.actor for decision in ThreadDecisions(tx).about(later_prompts)}
    return [case.turn.id, *takewhile(lambda id_: placed_by.get(id_) == "rules", later_prompts[1:])]


def _open_thread_for(clock: Clock, tx: Tx, case: _UncertainPlacement, routing: Routing) -> tuple[Routing, Thread]:
    """Open a thread, not named yet, for a prompt that leaves its thread; record a fork as a drift of its parent."""
    threads, turn = Threads(tx), case.turn
    parent = next((thread for thread in threads.some([routing.parent or ""]) if thread.merged_into is None), None)
    if parent is None:
        routing = replace(routing, action="new", parent=None)
    opened = Thread(
        id=new_id(clock.now()),
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
    threads.add(opened)
    if parent is not None:
        similarity = next(
            (candidate.similarity for candidate in routing.candidates if candidate.own), routing.similarity
        )
        drift = Drift(turn_id=turn.id, at=turn.at, similarity=similarity, became=opened.id)
        threads.update(replace(parent, drifts=(*parent.drifts, drift)))
    return routing, opened


def _log_moves(
    clock: Clock, tx: Tx, case: _UncertainPlacement, prompt_ids: Sequence[str], target: Thread, routing: Routing
) -> None:
    followed = Routing(
        action="continue",
        thread_id=target.id,
        similarity=routing.similarity,
        candidates=(),
        reason="Moved with the preceding prompt, about which a model was asked.",
        model=routing.model,
    )
    for id_ in prompt_ids:
        decision = routing if id_ == case.turn.id else followed
        ThreadDecisions(tx).log(id_, target.id, decision, at=clock.now(), actor="model")


def _deactivate_again(parts: StoreContext, tx: Tx, case: _UncertainPlacement) -> None:
    """Suspend or archive a thread again if only the prompts that left had reactivated it."""
    threads = Threads(tx)
    [thread] = threads.some([case.current_thread.id])
    last = parts.turns(tx).get(threads.turns(thread.id, limit=1, newest=True))[0].at
    if thread.state == "active" and last < case.turn.at:
        act = "archive" if case.routing.candidates[0].state == "archived" else "suspend"
        threads.update(replace(apply_act(thread, act, parts.clock.now()), last_active=last))


# Naming: a model gives a thread a better name and a summary, after the rules did (ADR 13).


class _NamingCase(Struct, frozen=True, kw_only=True):
    """A thread that may get a better name.

    Attributes:
        used_titles: titles of the other threads of its scope.
        former: its name according to the rules.
    """

    thread: Thread
    prompts: Sequence[Turn]
    used_titles: Sequence[str]
    former: ThreadName


def request_name(parts: Parts, payload: Payload) -> JobResult:
    """Run the job that asks a model for a thread name.

    A name set by a user is never changed. Between the question and the answer, the thread may have been named by the
    user or merged, or may have lost a turn that the answer rests on. Nothing is written then, and the model is asked
    again if there is still something to ask.

    Raises:
        ModelUnavailable: no model answers, or the budget is spent; the name by the rules stands.
    """
    settings = parts.readers.here(lambda tx: parts.settings(tx))
    has_model = bool(thread_model(parts.models, settings))
    naming_case = parts.readers.here(lambda tx: _load_naming_case(parts, tx, payload["thread"])) if has_model else None
    if naming_case is None:
        return JobResult(write=lambda _: None)
    language = detect_language(
        [turn.text for turn in naming_case.prompts], settings.language if settings.language != "auto" else "en"
    )
    try:
        new_name = RequestRunner(parts, parts.vectors, settings).run(
            name_by_model(
                naming_case.prompts, naming_case.used_titles, naming_case.former, parts.models.prompts, language
            )
        )
    except Unreadable:
        new_name = naming_case.former
    if new_name == naming_case.former:
        return JobResult(write=lambda _: None)
    retried = list[Payload]()

    def write(tx: Tx) -> None:
        current_case, threads = _load_naming_case(parts, tx, naming_case.thread.id), Threads(tx)
        if current_case is None:
            return
        prompt_ids = [turn.id for turn in naming_case.prompts]
        threads_now = threads.of_turns(prompt_ids)
        if any(threads_now.get(id_) != current_case.thread.id for id_ in prompt_ids):
            retried.append(payload)
            return
        title = make_distinct(
            new_name.title, current_case.former.topics, current_case.used_titles, current_case.prompts[0].at
        )
        threads.update(replace(current_case.thread, title=title, summary=new_name.summary, title_by=new_name.title_by))

    return JobResult(write=write, again=lambda: retried[-1] if retried else None)


def _load_naming_case(parts: StoreContext, tx: Tx, thread_id: str) -> _NamingCase | None:
    """Return what to ask about a thread; None if it is gone or merged, or a user named it."""
    thread = next(iter(Threads(tx).some([thread_id])), None)
    prompts = prompts_of(parts, tx, thread_id)
    if thread is None or thread.merged_into is not None or thread.title_by == "user" or not prompts:
        return None
    scope = ThreadSettings.of(parts.settings(tx)).scope_of_thread(thread)
    used_titles = [title for id_, title in Threads(tx).titles(scope).items() if id_ != thread_id]
    return _NamingCase(
        thread=thread, prompts=prompts, used_titles=used_titles, former=name_by_rules(prompts, used_titles, thread)
    )
