"""Extract the statements of turns, decide on each, and store the result.

`read_turns` extracts and embeds statements outside the transaction. `apply_reading` compares each statement, inside the
caller's transaction, with the memories of that moment and applies the decision with its journal entry and its vector;
so statements of one turn, or of two, see each other. `update_index` updates the in-memory index after the commit; that
index can be rebuilt at any time. A statement that arrives late is stored as if it had arrived in order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from itertools import accumulate, islice
from typing import Any, Final, TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from filrouge.capture.events import Event
from filrouge.capture.models import TRUST_PROMPT, Turn
from filrouge.core.clock import add_seconds, monotonic, to_text
from filrouge.core.errors import ModelUnavailable, Unreadable
from filrouge.core.protocols import Tx, Vector, Vectors
from filrouge.core.settings import Settings
from filrouge.extraction import reader, replacing
from filrouge.extraction.decide import decide, retrieval_terms, statement_of
from filrouge.extraction.heuristics import extract
from filrouge.extraction.model_answers import (
    ExtractionRequest,
    FactCandidate,
    NeighboursRequest,
    SimilarityRequest,
    defer_to_higher_trust,
    is_supported,
    permitted_statements,
)
from filrouge.extraction.reading import says_change
from filrouge.extraction.repository import output_hash
from filrouge.extraction.sentences import without_masked
from filrouge.extraction.statement_model import EMBEDDER
from filrouge.extraction.tool_output import Judgement, judge_by_model, judge_by_rules
from filrouge.extraction.vocabulary import content, fold
from filrouge.memories.models import (
    MIN_CONFIDENCE_KEEP,
    NO_FILTERS,
    Add,
    Conflict,
    Decision,
    Delete,
    Evidence,
    Memory,
    Neighbour,
    Noop,
    Statement,
    Update,
)
from filrouge.memories.repository import Action, Doubts, Origin, StateStore
from filrouge.providers.embedders import windows
from filrouge.providers.models import Completion, CompletionRequest
from filrouge.providers.service import PROVIDERS_WITHOUT_MODEL
from filrouge.runtime.jobs import Jobs
from filrouge.runtime.services import Parts, StoreContext
from filrouge.search.repository import SearchScope, StatementInContext, StoredVectors, statement_in_context
from filrouge.search.retrievers import (
    encode_needs,
    nearest_live_memories,
    retriever_for,
    store_need_vector,
    stored_need_vectors,
)
from filrouge.search.spaces import store_or_queue_vectors
from filrouge.search.vector_search import VectorSearch

# Judging tool output. The same command gives the same output again, and a model's judgement costs money. Judgements
# are therefore cached by a hash of the text, and erased with the turns that they came from. Runs in the daemon only,
# never in a hook.

Judge = Callable[[str], Judgement]
#: Sources whose output is judged; of others, only the first line is kept, which names the file or page.
_JUDGED_SOURCES: Final = frozenset({"task", "command"})
_MAX_FIRST_LINE_CHARS: Final = 200
_MAX_CACHED_JUDGEMENTS: Final = 2000


def trim_tool_output(parts: Parts, turns: Sequence[Turn], judge: Judge = judge_by_rules) -> list[Turn]:
    """Return the turns with tool output cut to its summary; uninformative output is dropped."""
    judgements = _judge_tool_output(
        parts, [turn for turn in turns if turn.role == "tool" and turn.source in _JUDGED_SOURCES], judge
    )
    trimmed: list[Turn] = []
    for turn in turns:
        if turn.role != "tool":
            trimmed.append(turn)
        elif turn.source not in _JUDGED_SOURCES:
            trimmed.append(replace(turn, text=turn.text.partition("\n")[0][:_MAX_FIRST_LINE_CHARS]))
        elif judgements[turn.id].is_kept:
            trimmed.append(replace(turn, text=judgements[turn.id].summary))
    return trimmed


def _judge_tool_output(parts: Parts, turns: Sequence[Turn], judge: Judge) -> dict[str, Judgement]:
    """Return the judgement of each of these turns, by turn id."""
    hashes = {turn.id: output_hash(turn.text) for turn in turns}
    rows = parts.readers.here(lambda tx: tx.all("informed.some", {"hashes": json.dumps(list(hashes.values()))}))
    cached = {
        row["content_hash"]: Judgement(score=row["score"], summary=row["summary"], made_by=row["made_by"])
        for row in rows
    }
    unjudged = {hashes[turn.id]: turn for turn in turns if hashes[turn.id] not in cached}
    new_judgements = {content_hash: judge(turn.text) for content_hash, turn in unjudged.items()}

    def write(tx: Tx) -> None:
        at = to_text(parts.clock.now())
        for content_hash, judgement in new_judgements.items():
            row = {
                "content_hash": content_hash,
                "score": judgement.score,
                "summary": judgement.summary,
                "made_by": judgement.made_by,
            }
            tx.run("informed.add", row | {"at": at, "turn_id": unjudged[content_hash].id})
        tx.run("informed.evict", {"keep": _MAX_CACHED_JUDGEMENTS})

    if new_judgements:
        parts.writer.run(write)
    return {id_: (cached | new_judgements)[content_hash] for id_, content_hash in hashes.items()}


# Late arrivals: statements that arrive after something that was said later. Missed hooks are read from the spool the
# next day, a transcript is read long after its session, and a model reads later what the rules read at once. Such a
# statement is compared with what was said before it, as usual. It is also compared with what was said after it, with
# the roles swapped: would the later statement have replaced this one, had both come in order? Then this one becomes
# history at once, and ends what it would have replaced itself. So the order of arrival does not change which dated
# statements are live. Exception: a retraction that arrives before the statement it retracts leaves no trace, and is
# missed.


class Superseded(Struct, frozen=True, kw_only=True):
    """A statement that a later one supersedes, repeats or contradicts.

    Attributes:
        by: the later statement.
        decision: the decision on the later statement with the earlier one as its only neighbour.
    """

    by: LaterStatement
    decision: Update | Noop | Conflict


class LaterStatement(Struct, frozen=True, kw_only=True):
    """Something said after a statement.

    Attributes:
        memory: the memory that holds it now.
        statement: the statement as it was made then.
        at: when it was said.
        similarity: calibrated similarity to the earlier statement.
    """

    memory: Memory
    statement: Statement
    at: datetime
    similarity: float


def later_statements(parts: StoreContext, tx: Tx, near: Sequence[Neighbour], turn: Turn) -> list[LaterStatement]:
    """Return the later statements of these memories and of those they replaced; earliest first."""
    said_later = {
        neighbour.memory.id: neighbour.similarity for neighbour in near if _was_said_after(neighbour.memory, turn)
    }
    if not said_later:
        return []
    versions = StateStore(tx).with_versions(said_later)
    ids = [id_ for id_, version in versions.items() if version.state.state in ("live", "superseded")]
    memories = parts.memories(tx).known(sorted(ids))
    cited = {evidence.turn_id for memory in memories for evidence in memory.evidence}
    turns = {cited_turn.id: cited_turn for cited_turn in parts.turns(tx).get(sorted(cited))}
    closest = max(said_later.values())
    later = [
        LaterStatement(memory=memory, statement=stated, at=at, similarity=said_later.get(memory.id, closest))
        for memory in memories
        for at, stated in _find_mentions(memory, turns)
        if at > turn.at
    ]
    return sorted(later, key=lambda statement: (statement.at, statement.memory.id))


def _was_said_after(memory: Memory, turn: Turn) -> bool:
    """Return whether the memory was last stated after the turn."""
    return (memory.last_mention or turn.at) > turn.at


def superseded_by(statement: Statement, turn: Turn, later: Sequence[LaterStatement]) -> Superseded | None:
    """Return the first later statement that would have superseded, repeated or contradicted this one, or None."""
    memory = _hypothetical_memory(statement, turn)
    for later_statement in later:
        decision: Decision = decide(
            later_statement.statement, [Neighbour(memory=memory, similarity=later_statement.similarity)]
        )
        if isinstance(decision, Update | Noop) or (
            isinstance(decision, Conflict) and later_statement.memory.state == "live"
        ):
            return Superseded(by=later_statement, decision=decision)
    return None


def _hypothetical_memory(statement: Statement, turn: Turn) -> Memory:
    """Return the memory that the statement would be, had it arrived in time."""
    return Memory(
        id=turn.id,
        scope=turn.scope,
        scope_name=statement.scope,
        kind=statement.kind,
        text=statement.text,
        trust=turn.trust,
        created_at=turn.at,
        valid_from=turn.at,
        subject=statement.subject,
        key=statement.key,
        value=statement.value,
        confidence=statement.confidence,
    )


def _find_mentions(memory: Memory, turns: Mapping[str, Turn]) -> list[tuple[datetime, Statement]]:
    """Return when and how a memory was stated; without a stored turn as evidence, once, at its start of validity."""
    mentions = [
        (turns[evidence.turn_id].at, _statement_from_turn(memory, evidence, turns[evidence.turn_id]))
        for evidence in memory.evidence
        if evidence.turn_id in turns
    ]
    return mentions or [(memory.valid_from, _statement_from_memory(memory))]


def _statement_from_turn(memory: Memory, evidence: Evidence, turn: Turn) -> Statement:
    """Return the statement as its turn makes it; the memory keeps fewer fields."""
    return next(
        (statement for statement in extract(turn) if statement.span == evidence.span), _statement_from_memory(memory)
    )


def _statement_from_memory(memory: Memory) -> Statement:
    """Return the statement that the memory was made from, with the fields that a decision uses."""
    return replace(
        statement_of(memory),
        key=memory.key,
        value=memory.value,
        is_correction=says_change(fold(memory.text)),
        timeframe="",
    )


# Reading, deciding and applying.

_NEIGHBOURS_BY_WORDS = 20
_NEIGHBOURS_BY_MEANING = 20
#: Maximum windows that are embedded while a caller waits: one or two seconds of the bundled model.
_MAX_WINDOWS_INLINE = 16
#: Number of turns whose units are embedded together, and of such groups at a time.
_TURNS_TOGETHER, _GROUPS_EMBEDDED = 16, 2


class PendingStatement(Struct, frozen=True, kw_only=True):
    """A statement of a turn, ready to be decided on.

    Attributes:
        vectors: one row per window of the text; None if the embedder is down, or if a job makes them.
        refusal: why the statement is kept out of memory, or empty.
        decision: the model's decision; None if the rules decide, on the memories of that moment.
        need: the statement's need vector and what it was encoded with; None if a job makes it.
        made_by: `heuristic`, or the provider and model that read the statement.
        prompt_version: the version of the model's prompt; empty for the rules.
        note: why the rules decided instead of the model, for the journal; or empty.
    """

    statement: Statement
    vectors: Vectors | None
    refusal: str = ""
    decision: Decision | None = None
    need: tuple[StatementInContext, Vector] | None = None
    made_by: str = "heuristic"
    prompt_version: str = ""
    note: str = ""


class Reading(Struct, frozen=True, kw_only=True):
    """The statements of a turn, before they are decided on.

    Attributes:
        turn: the turn whose text the statements' spans refer to.
        vectors: the vector search whose embedder made the statements' vectors.
        pending: the statements, in the order of the text.
        agreed: what the user agreed to in this turn, or None. Its turn has the words of the agent's message before, and
            the time and trust of this turn.
    """

    turn: Turn
    vectors: VectorSearch
    pending: tuple[PendingStatement, ...]
    agreed: Reading | None = None


class _Split(Struct, frozen=True, kw_only=True):
    """A turn before the statement model reads it.

    Attributes:
        stated: the statements that patterns find in it.
        prompt: the turn with what it answers, if there is anything to read.
        states: whether its own statements are read; one that says too little is only read for what it agrees to.
    """

    stated: tuple[Statement, ...]
    prompt: reader.Prompt | None
    states: bool


_Found = tuple[tuple[Statement, ...], tuple[Statement, ...]]
"""The statements of a turn; and those of the message before that it agrees to."""


PendingVectors = dict[str, tuple[str, Vectors]]
"""Group (see `group_of`) and vectors of memories that are not in the index yet, by memory id."""


def read_turns(parts: Parts, turns: Sequence[Turn]) -> list[Reading]:
    """Extract the statements of turns with rules, if the settings allow it, and embed them together.

    Nothing is written.
    """
    if not _rules_enabled(parts.readers.here(lambda tx: parts.settings(tx))):
        return embed_statements(parts, [(turn, ()) for turn in turns])
    answered = parts.readers.here(lambda tx: [_answered(parts, tx, turn) for turn in turns])
    found = _extract_by_rules(parts.vectors, turns, answered)
    stated = embed_statements(parts, [(turn, statements) for turn, (statements, _) in zip(turns, found, strict=True)])
    agreed_by_index = {
        index: (replace(message, at=turn.at, trust=turn.trust), agreed)
        for index, (turn, message, (_, agreed)) in enumerate(zip(turns, answered, found, strict=True))
        if message and agreed
    }
    agreed = dict(zip(agreed_by_index, embed_statements(parts, list(agreed_by_index.values())), strict=True))
    return [replace(reading, agreed=agreed.get(index)) for index, reading in enumerate(stated)]


def _answered(parts: StoreContext, tx: Tx, turn: Turn) -> Turn | None:
    """Return the agent's message that a prompt answers, or None."""
    return parts.turns(tx).answered_message(turn) if reader.may_agree(turn) else None


def _extract_by_rules(
    vector_search: VectorSearch, turns: Sequence[Turn], answered: Sequence[Turn | None]
) -> list[_Found]:
    """Return what each turn states and agrees to: the statement model reads prompts, patterns alone read the rest.

    Of many turns, some are embedded while patterns read the next ones.
    """
    pairs = list(zip(turns, answered, strict=True))
    if len(turns) <= _TURNS_TOGETHER:
        split = [_split_by_patterns(*pair) for pair in pairs]
        return _read_by_model(split, _vectors_of_prompts(vector_search, _prompts(split)))
    groups = [pairs[start : start + _TURNS_TOGETHER] for start in range(0, len(pairs), _TURNS_TOGETHER)]
    waiting = list[tuple[list[_Split], Future[list[reader.PromptVectors | None]]]]()
    with ThreadPoolExecutor(_GROUPS_EMBEDDED, thread_name_prefix="filrouge-units") as embedding:
        for group in groups:
            split = [_split_by_patterns(*pair) for pair in group]
            waiting.append((split, embedding.submit(_vectors_of_prompts, vector_search, _prompts(split))))
        return [found for split, vectors in waiting for found in _read_by_model(split, vectors.result())]


def _split_by_patterns(turn: Turn, message: Turn | None) -> _Split:
    stated, states = () if turn.skipped else permitted_statements(turn), reader.is_read(turn)
    prompt = reader.split_prompt(turn.text, stated, message.text if message else "") if states or message else None
    return _Split(stated=stated, prompt=prompt, states=states)


def _prompts(split: Sequence[_Split]) -> list[reader.Prompt]:
    return [one.prompt for one in split if one.prompt is not None]


def _read_by_model(split: Sequence[_Split], vectors: Sequence[reader.PromptVectors | None]) -> list[_Found]:
    """Return what each turn states and agrees to, given the vectors of each prompt's parts."""
    remaining, found = iter(vectors), list[_Found]()
    for one in split:
        if one.prompt is None:
            found.append((one.stated, ()))
            continue
        of_prompt = next(remaining)
        stated = reader.statements(one.prompt, of_prompt) if one.states else one.stated
        agreed = reader.find_agreed(one.prompt, of_prompt)
        found.append((stated, tuple(statement for statement in agreed if not _is_said(statement, stated))))
    return found


def _is_said(agreed: Statement, stated: Sequence[Statement]) -> bool:
    """Return whether the user said in own words what the agent's sentence says: half of its words."""
    words = set(content(agreed.text))
    said = {word for statement in stated if not statement.only_replaces for word in content(statement.text)}
    return 2 * len(words & said) >= len(words)


def _vectors_of_prompts(
    vector_search: VectorSearch, prompts: Sequence[reader.Prompt]
) -> list[reader.PromptVectors | None]:
    """Return the vectors of each prompt's parts; None without the bundled embedder."""
    if not prompts or vector_search.space.model != EMBEDDER or vector_search.is_lost:
        return [None] * len(prompts)
    passages_of = [reader.passages(prompt, windows(prompt.text)) for prompt in prompts]
    found = vector_search.parts([passage for passages in passages_of for passage in passages])
    if found is None:
        return [None] * len(prompts)
    remaining = iter(found)
    return [
        reader.vectors_of(prompt, list(islice(remaining, len(passages))))
        for prompt, passages in zip(prompts, passages_of, strict=True)
    ]


def _rules_enabled(settings: Settings) -> bool:
    """Return whether the rules extract statements: not if extraction is off or only a model may do it."""
    if settings.extract_provider == "off":
        return False
    return settings.analyzer_allow_offline or settings.extract_provider in PROVIDERS_WITHOUT_MODEL


def embed_statements(parts: Parts, stated: Sequence[tuple[Turn, tuple[Statement, ...]]]) -> list[Reading]:
    """Return the statements of turns with their vectors; unsupported statements get a refusal."""
    vector_search = parts.vectors
    all_vectors = iter(
        embed_inline(vector_search, [statement.text for _, statements in stated for statement in statements])
    )
    all_needs = iter(_encode_needs(parts, vector_search, stated))
    return [
        Reading(
            turn=turn,
            vectors=vector_search,
            pending=tuple(
                PendingStatement(
                    statement=statement,
                    vectors=statement_vectors,
                    need=need,
                    refusal="" if is_supported(statement, turn.text) else "its words are not in the turn",
                )
                for statement, statement_vectors, need in zip(
                    statements, islice(all_vectors, len(statements)), islice(all_needs, len(statements)), strict=True
                )
            ),
        )
        for turn, statements in stated
    ]


def _encode_needs(
    parts: Parts, vector_search: VectorSearch, stated: Sequence[tuple[Turn, tuple[Statement, ...]]]
) -> Sequence[tuple[StatementInContext, Vector] | None]:
    """Return the need vector of every statement of these turns, in their order; None if there is no model for it."""

    def read(tx: Tx) -> list[StatementInContext]:
        return [
            in_context
            for turn, statements in stated
            if statements
            for in_context in _in_context(parts, tx, turn, statements)
        ]

    if not any(statements for _, statements in stated):
        return []
    in_context = parts.readers.here(read)
    return encode_needs(vector_search, in_context) or [None] * len(in_context)


def _in_context(
    parts: StoreContext, tx: Tx, turn: Turn, statements: Sequence[Statement]
) -> Iterator[StatementInContext]:
    """Yield statements with the words before them in their turn, or with those of the message that the turn answers."""
    answered = parts.turns(tx).answered_message(turn)
    earlier = [(answered.text, answered.id)] if answered else []
    for statement in statements:
        yield statement_in_context(statement.text, (turn.text[: statement.span.start], turn.id), *earlier)


def embed_inline(vector_search: VectorSearch, texts: Sequence[str]) -> list[Vectors | None]:
    """Return the vectors of each text, or None if the embedder is down or the text is so long that a job embeds it."""
    windows_of = [
        text_windows if len(text_windows) <= _MAX_WINDOWS_INLINE else [] for text_windows in map(windows, texts)
    ]
    all_windows = [window for text_windows in windows_of for window in text_windows]
    window_vectors = vector_search.passages(all_windows) if all_windows else None
    if window_vectors is None:
        return [None] * len(texts)
    ends = accumulate(map(len, windows_of))
    return [
        window_vectors[end - len(text_windows) : end] if text_windows else None
        for text_windows, end in zip(windows_of, ends, strict=True)
    ]


def apply_reading(
    parts: Parts, tx: Tx, reading: Reading, pending_vectors: PendingVectors | None = None
) -> list[tuple[Action, Vectors | None]]:
    """Decide on every statement and apply the decision, in the caller's transaction.

    Args:
        parts: the services.
        tx: the caller's transaction.
        reading: the statements of the turn.
        pending_vectors: vectors not yet in the index; shared by turns that are settled before the index is updated.
    """
    done: list[tuple[Action, Vectors | None]] = []
    pending_vectors = {} if pending_vectors is None else pending_vectors
    for pending in reading.pending:
        if pending.statement.confidence < MIN_CONFIDENCE_KEEP:
            continue
        holds_mask = not without_masked([pending.statement], reading.turn.text)
        if holds_mask:
            continue
        if pending.refusal:
            quarantined = parts.memories(tx).quarantine(
                pending.statement, _origin(reading.turn, pending), pending.refusal
            )
            done.append((quarantined, None))
            continue
        action = _decide_and_apply(parts, tx, reading, pending, pending_vectors)
        if action is None:
            continue
        if action.name in ("add", "update"):
            store_or_queue_vectors(tx, reading.vectors, "memory", action.memory_id, pending.vectors, parts.clock.now())
            if pending.need is not None:
                in_context, need_vector = pending.need
                store_need_vector(tx, reading.vectors, replace(in_context, memory_id=action.memory_id), need_vector)
            if pending.vectors is not None:
                pending_vectors[action.memory_id] = (_group(reading.turn, pending.statement), pending.vectors)
        done.append((action, pending.vectors))
    return done


def _origin(turn: Turn, pending: PendingStatement) -> Origin:
    return Origin(
        scope=turn.scope,
        trust=turn.trust,
        at=turn.at,
        turn_id=turn.id,
        made_by=pending.made_by,
        prompt_version=pending.prompt_version,
    )


def _decide_and_apply(
    parts: Parts, tx: Tx, reading: Reading, pending: PendingStatement, pending_vectors: PendingVectors
) -> Action | None:
    """Decide on a statement, in the order in which things were said, and apply the decision.

    A model's decision was made with the neighbours of its time; it is applied if all of them are still live.

    Returns:
        What was done; None for a statement that replaces nothing, but is only remembered if it does.
    """
    store, origin, turn = parts.memories(tx), _origin(reading.turn, pending), reading.turn
    if pending.decision is not None and _is_still_applicable(parts, tx, pending.decision):
        return store.apply(pending.decision, origin)
    near = neighbours(parts, tx, turn, reading.vectors, pending.statement, pending.vectors, pending_vectors)
    later = later_statements(parts, tx, near, turn)
    later_ids = frozenset(later_statement.memory.id for later_statement in later)
    decision = _decide_by_rules(pending, near, later_ids)
    earlier = [neighbour.memory for neighbour in near if neighbour.memory.id not in later_ids]
    compared = _compared_statement(reading, pending) if isinstance(decision, Add) or later else None
    known = _compared_memories(tx, reading.vectors, [neighbour.memory for neighbour in near]) if compared else {}
    old, probability = _find_likely_replaced(compared, known, earlier) if isinstance(decision, Add) else (None, 0.0)
    if old and probability >= replacing.REPLACE_THRESHOLD:
        decision = _replacement_decision(pending.statement, old, probability)
    if pending.statement.only_replaces and not isinstance(decision, Update):
        return None
    if turn.trust < TRUST_PROMPT:
        decision = defer_to_higher_trust(decision, turn.trust, near)
    superseded = None
    if not isinstance(decision, Delete):
        superseded = superseded_by(pending.statement, turn, later) or _find_likely_replacing(
            compared, known, earlier, later, turn
        )
    if superseded is None:
        action = store.apply(decision, origin)
        is_doubt = probability >= replacing.DOUBT_THRESHOLD and len(known) >= replacing.MIN_COMPARED_FOR_DOUBT
        if old and is_doubt and action.name == "add" and turn.trust >= TRUST_PROMPT:
            Doubts(tx).add(old.id, action.memory_id)
        return action
    by, reason = superseded.by, superseded.decision.reason
    if isinstance(superseded.decision, Conflict):
        return store.apply(Conflict(statement=pending.statement, existing_id=by.memory.id, reason=reason), origin)
    if isinstance(superseded.decision, Noop) and by.memory.state == "live":
        return store.apply(Noop(statement=pending.statement, existing_id=by.memory.id, reason=reason), origin)
    ends = decision.old_ids if isinstance(decision, Update) else ()
    return store.put_late(pending.statement, origin, reason, by=by.memory, at=by.at, ends=ends)


def _decide_by_rules(pending: PendingStatement, near: Sequence[Neighbour], later_ids: frozenset[str]) -> Decision:
    """Return the decision of the rules, based on what was said before the statement."""
    decision = decide(pending.statement, [neighbour for neighbour in near if neighbour.memory.id not in later_ids])
    if later_ids and isinstance(decision, Add):
        with_later = decide(pending.statement, near)
        decision = with_later if isinstance(with_later, Noop) else decision  # it adds nothing to what was said later
    return replace(decision, reason=f"{decision.reason} ({pending.note})") if pending.note else decision


class _Compared(Struct, frozen=True, kw_only=True):
    """A statement or a memory as the learned model compares it.

    Attributes:
        vectors: one row per window of the text.
        need: the need vector.
        turn_ids, session: where it was said.
    """

    compared: replacing.ComparedText
    vectors: Vectors
    need: Vector
    turn_ids: frozenset[str]
    session: str | None


def _compared_statement(reading: Reading, pending: PendingStatement) -> _Compared | None:
    """Return a statement as it is compared; None if the model cannot judge it."""
    statement, turn = pending.statement, reading.turn
    if pending.vectors is None or pending.need is None or statement.key is not None:
        return None
    if reading.vectors.space.model != EMBEDDER:
        return None
    return _Compared(
        compared=_compared_text(statement),
        vectors=pending.vectors,
        need=pending.need[1],
        turn_ids=frozenset({turn.id}),
        session=turn.scope.session,
    )


def _compared_text(statement: Statement) -> replacing.ComparedText:
    return replacing.ComparedText(
        text=statement.text,
        kind=statement.kind,
        corrects=statement.corrects,
        is_correction=statement.is_correction,
    )


def _compared_memories(tx: Tx, vector_search: VectorSearch, memories: Sequence[Memory]) -> dict[str, _Compared]:
    """Return memories as they are compared, by id; those that lack a vector are left out."""
    ids = [memory.id for memory in memories]
    stored, needs = (
        StoredVectors(tx).some("memory", ids, vector_search.space.id),
        stored_need_vectors(tx, vector_search, ids),
    )
    return {
        memory.id: _Compared(
            compared=replacing.ComparedText(text=memory.text, kind=memory.kind),
            vectors=stored[memory.id],
            need=needs[memory.id],
            turn_ids=frozenset(evidence.turn_id for evidence in memory.evidence),
            session=memory.scope.session,
        )
        for memory in memories
        if memory.id in stored and memory.id in needs
    }


def _candidates(new: _Compared, olds: Sequence[_Compared]) -> list[replacing.ReplaceCandidate]:
    return [
        replacing.ReplaceCandidate(
            compared=old.compared,
            similarity=float((old.vectors @ new.vectors[0]).max()),
            need_similarity=float(old.need @ new.need),
            same_turn=bool(old.turn_ids & new.turn_ids),
            same_session=old.session == new.session,
        )
        for old in olds
    ]


def _find_likely_replaced(
    new: _Compared | None, known: Mapping[str, _Compared], earlier: Sequence[Memory]
) -> tuple[Memory | None, float]:
    """Return the memory that the statement most likely replaces, by the learned model, and the probability."""
    olds = [memory for memory in earlier if memory.id in known]
    if new is None or not olds:
        return None, 0.0
    candidates = _candidates(new, [known[memory.id] for memory in olds])
    index, probability = replacing.find_most_likely(new.compared, candidates)
    return olds[index], probability


def _find_likely_replacing(
    old: _Compared | None,
    known: Mapping[str, _Compared],
    earlier: Sequence[Memory],
    later: Sequence[LaterStatement],
    turn: Turn,
) -> Superseded | None:
    """Return the first later statement that replaces this one by the learned model, or None."""
    if old is None:
        return None
    others = [known[memory.id] for memory in earlier if memory.id in known]
    for later_statement in later:
        if later_statement.memory.id not in known or later_statement.memory.state != "live":
            continue
        new = replace(known[later_statement.memory.id], compared=_compared_text(later_statement.statement))
        probability = replacing.is_most_likely(
            new.compared, _candidates(new, [old, *others]), replacing.REPLACE_THRESHOLD
        )
        if probability is not None:
            reason = _reason(probability)
            decision = Update(statement=later_statement.statement, old_ids=(turn.id,), reason=reason)
            return Superseded(by=later_statement, decision=decision)
    return None


def _reason(probability: float) -> str:
    return f"another value of the same subject (probability {probability:.2f})"


def _replacement_decision(statement: Statement, memory: Memory, probability: float) -> Decision:
    reason = _reason(probability)
    if memory.pinned:
        return Conflict(statement=statement, existing_id=memory.id, reason=f"{reason}, but the memory is pinned")
    return Update(statement=statement, old_ids=(memory.id,), reason=reason)


def _is_still_applicable(parts: StoreContext, tx: Tx, decision: Decision) -> bool:
    match decision:
        case Add():
            ids: tuple[str, ...] = ()
        case Update(old_ids=old_ids) | Delete(old_ids=old_ids):
            ids = old_ids
        case Noop(existing_id=existing) | Conflict(existing_id=existing):
            ids = (existing,)
    memories = parts.memories(tx).some(ids)
    return all(id_ in memories and memories[id_].state == "live" for id_ in ids)


def update_index(parts: Parts, vector_search: VectorSearch, done: Sequence[tuple[Action, Vectors | None]]) -> None:
    """Update the in-memory index with what was committed."""
    for action, statement_vectors in done:
        for closed in action.closed:
            vector_search.memory_index.remove(closed)
            parts.vectors.memory_index.remove(closed)  # a different index if the vector space changed meanwhile
        if action.name in ("add", "update") and statement_vectors is not None:
            memory = parts.readers.here(lambda tx, id_=action.memory_id: parts.memories(tx).get(id_))
            number = parts.readers.here(lambda tx, id_=memory.id: StoredVectors(tx).number("memory", id_))
            if number is not None:
                vector_search.memory_index.put(memory.id, number, group_of(memory), statement_vectors)


def group_of(memory: Memory) -> str:
    """Return the group that a memory is searched in: its project, or its user."""
    return f"user:{memory.scope.user}" if memory.scope_name == "user" else memory.scope.project or ""


def neighbours(
    parts: Parts,
    tx: Tx,
    turn: Turn,
    vector_search: VectorSearch,
    statement: Statement,
    statement_vectors: Vectors | None,
    pending_vectors: PendingVectors,
) -> list[Neighbour]:
    """Return the live memories of the same scope that are near by words or by meaning, nearest first."""
    similarity = _similarities(tx, turn, vector_search, statement, statement_vectors, pending_vectors)
    store = parts.memories(tx)
    terms = parts.analyser.terms(" ".join([statement.text, *retrieval_terms(statement)]))
    search_scope = SearchScope(project=turn.scope.project, user=turn.scope.user, everywhere=False)
    by_words = retriever_for(parts, tx, "memory", search_scope, NO_FILTERS, terms).by_words(_NEIGHBOURS_BY_WORDS)
    memories = store.some(list({**by_words, **similarity}))
    nearby = {id_: memories[id_] for id_ in {**by_words, **similarity} if id_ in memories}
    return [
        Neighbour(memory=memory, similarity=similarity.get(memory.id, 0.0))
        for memory in sorted(nearby.values(), key=lambda m: -similarity.get(m.id, 0.0))
        if memory.state == "live"
        and memory.kind != "note"
        and (memory.scope_name, memory.scope.user) == (statement.scope, turn.scope.user)
    ]


def _similarities(
    tx: Tx,
    turn: Turn,
    vector_search: VectorSearch,
    statement: Statement,
    statement_vectors: Vectors | None,
    pending_vectors: PendingVectors,
) -> dict[str, float]:
    if statement_vectors is None:
        return {}
    space, group = vector_search.space, _group(turn, statement)
    cosines = nearest_live_memories(
        tx, vector_search.memory_index, statement_vectors[0], _NEIGHBOURS_BY_MEANING, frozenset({group})
    )
    cosines |= {
        id_: float((memory_vectors @ statement_vectors[0]).max())
        for id_, (pending_group, memory_vectors) in pending_vectors.items()
        if pending_group == group
    }
    return {id_: space.calibrated(cosine) for id_, cosine in cosines.items()}


def _group(turn: Turn, statement: Statement) -> str:
    """Return the group that a statement of a turn is compared in."""
    return f"user:{turn.scope.user}" if statement.scope == "user" else turn.scope.project or ""


# Answering the requests of the generators in `extraction.model_answers`.

T = TypeVar("T")


class RequestRunner(Struct, frozen=True):
    """Runs a generator of requests: model answers, text similarities, memories near a statement."""

    parts: Parts
    vectors: VectorSearch
    settings: Settings

    def run(self, requests: Generator[ExtractionRequest, Any, T]) -> T:
        """Run a generator to its end and return its result; a failed request is raised inside the generator."""
        answer: object = None
        failure: Exception | None = None
        try:
            while True:
                request = requests.send(answer) if failure is None else requests.throw(failure)
                answer, failure = None, None
                try:
                    answer = self._answer(request)
                except (ModelUnavailable, Unreadable) as error:
                    failure = error
        except StopIteration as end:
            return end.value

    def judge(self, language: str) -> Judge:
        """Return the judge of tool output: the model in heavy and max mode, one question each; otherwise the rules."""

        def by_model(text: str) -> Judgement:
            try:
                return self.run(judge_by_model(text, self.parts.models.prompts, language))
            except (ModelUnavailable, Unreadable):
                return judge_by_rules(text)

        return by_model if self.settings.mode in ("heavy", "max") else judge_by_rules

    def _answer(self, request: ExtractionRequest) -> Completion | tuple[float, ...] | tuple[Sequence[Neighbour], ...]:
        match request:
            case CompletionRequest():
                return self._ask_model(request)
            case SimilarityRequest(pairs=pairs):
                return self._similarities(pairs)
            case NeighboursRequest(candidates=candidates):
                text_vectors = embed_inline(self.vectors, [candidate.statement.text for candidate in candidates])
                return self.parts.readers.here(lambda tx: self._near(tx, candidates, text_vectors))

    def _ask_model(self, ask: CompletionRequest) -> Completion:
        meters, begun = self.parts.metrics, monotonic()
        try:
            done = self.parts.models.ask(ask, self.settings)
        except ModelUnavailable as error:
            meters.count_model_calls(ask.operation, error.spent)
            meters.record_analysis_failure(self.settings.extract_provider, error)
            raise
        meters.count_model_calls(ask.operation, done.spent)
        meters.record_analysis(done.provider, monotonic() - begun)
        return done

    def _similarities(self, pairs: Sequence[tuple[str, str]]) -> tuple[float, ...]:
        text_vectors = embed_inline(self.vectors, [text for pair in pairs for text in pair])
        space = self.vectors.space
        return tuple(
            space.calibrated(float(np.max(first @ second.T))) if first is not None and second is not None else 0.0
            for first, second in zip(text_vectors[::2], text_vectors[1::2], strict=True)
        )

    def _near(
        self, tx: Tx, candidates: Sequence[FactCandidate], text_vectors: Sequence[Vectors | None]
    ) -> tuple[Sequence[Neighbour], ...]:
        return tuple(
            neighbours(self.parts, tx, candidate.turn, self.vectors, candidate.statement, statement_vectors, {})
            for candidate, statement_vectors in zip(candidates, text_vectors, strict=True)
        )


# Scheduling of model reading: after a reply, at a conversation's end, or after a quiet period.

EXTRACT = "extract"


def queue_reading(parts: Parts, tx: Tx, turns: Sequence[Turn]) -> None:
    """Queue reading of the conversations of new turns: soon after the agent's reply, or after a quiet period."""
    messages = [turn for turn in turns if turn.scope.session and turn.role != "tool"]
    if not messages or (settings := parts.settings(tx)).extract_provider in PROVIDERS_WITHOUT_MODEL:
        return
    pace, now = parts.models.pace, parts.clock.now()
    for turn in messages:
        at_once = turn.role == "assistant" and settings.mode != "light"
        _queue(tx, turn.host, turn.scope.session, now, pace.after_reply if at_once else pace.quiet)


def queue_last_reading(parts: Parts, tx: Tx, event: Event) -> None:
    """Queue reading of a conversation that ends or is about to be compacted."""
    if (
        event.kind in ("pre_compact", "session_end")
        and parts.settings(tx).extract_provider not in PROVIDERS_WITHOUT_MODEL
    ):
        _queue(tx, event.host, event.session, parts.clock.now(), parts.models.pace.after_reply)


def _queue(tx: Tx, host: str, session: str, now: datetime, delay: float) -> None:
    """Queue one job per conversation, at the earliest time requested."""
    name = f"{EXTRACT}:{host}:{session}"
    if not Jobs(tx).enqueue(EXTRACT, {"host": host, "session": session}, dedupe=name, at=now, delay=delay):
        Jobs(tx).move_forward(name, add_seconds(now, delay))
