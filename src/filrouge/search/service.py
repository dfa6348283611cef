"""Search: the memories that answer a question, and the turns, ranked with the turns around them.

An explicit search covers all projects, with each hit labelled by project, unless the question is limited to one. If a
part of the search fails (the embedder is down, an index is still loading), a notice says so and the other parts still
answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Literal

import numpy as np
from msgspec import Struct

from filrouge.capture.models import Turn
from filrouge.core.clock import from_text
from filrouge.core.protocols import Analyser, Tx, Vector, Vectors
from filrouge.core.scope import LOCAL_USER
from filrouge.memories.models import NO_FILTERS, Filters, Memory
from filrouge.providers.models import EmbeddingSpace
from filrouge.runtime.services import Parts
from filrouge.search.analyser import stems
from filrouge.search.models import FEATURE_NAMES, Hit, Ranking
from filrouge.search.ranking import (
    ALPHA,
    MAX_KNOWN_RESULTS,
    Features,
    MemoryForPrompt,
    QuestionWords,
    Recipe,
    RecipeName,
    RelevanceFeatures,
    RetrievedMemory,
    TurnFeatures,
    TurnQuestion,
    TurnTable,
    WeightedQuestion,
    feature_weights,
    judge_relevance,
    next_turns,
    parse_times,
    rank,
    rank_by_need,
    recipe_named,
    reciprocal_ranks,
    softmax,
    turn_features,
)
from filrouge.search.repository import SearchScope, StoredVectors, TurnWindow, turns_with_neighbours
from filrouge.search.retrievers import MAX_QUERY_CHARACTERS, need_vectors, retriever_for

CANDIDATES_PER_RETRIEVER = 50
Mode = Literal["text", "semantic", "hybrid"]


class Question(Struct, frozen=True, kw_only=True):
    """A question, and where to search.

    Attributes:
        project: the project to stay in; None with `everywhere` false means "outside every project".
        everywhere: search all projects.
        user: the user whose own memories are searched in every project.
        own_only: return only memories of this user, within a project too.
        filters: further conditions on the results.
        recipe: how turns are ranked.
        by_need: the text is a prompt, and memories are judged by whether the prompt needs them.
    """

    text: str
    project: str | None = None
    everywhere: bool = False
    user: str = LOCAL_USER
    own_only: bool = False
    mode: Mode = "hybrid"
    limit: int = 10
    filters: Filters = NO_FILTERS
    recipe: RecipeName = "balanced"
    by_need: bool = False


def recall(parts: Parts, tx: Tx, question: Question) -> Ranking:
    """Rank the memories for a question: the live ones, with a filter also those that have ended."""
    with parts.metrics.search() as found:
        found.append(_rank_memories(parts, tx, question))
    return found[0]


def _rank_memories(parts: Parts, tx: Tx, question: Question) -> Ranking:
    vectors = parts.vectors
    words = parts.bridging.words(question.text[:MAX_QUERY_CHARACTERS])
    if question.by_need:
        ranking = _rank_by_need(parts, tx, question, words)
        if ranking is not None:
            return ranking
    retriever = retriever_for(parts, tx, "memory", _scope_of(question), question.filters, words.searched)
    lexical = retriever.by_words(CANDIDATES_PER_RETRIEVER) if question.mode != "semantic" else {}
    vector, notices = vectors.question(question.text) if question.mode != "text" else (None, ())
    cosines = retriever.by_meaning(vectors, vector, CANDIDATES_PER_RETRIEVER) if vector is not None else {}
    memories = _admitted(parts, tx, question, {**lexical, **cosines})
    weighted_question = WeightedQuestion(words.meant, retriever.frequencies, len(retriever))
    tokens = parts.memories(tx).tokens(list(memories))
    candidates = _candidates(vectors.space, memories, tokens, lexical, cosines)
    alpha = 1.0 if question.mode == "semantic" else ALPHA
    return rank(
        question.text,
        weighted_question,
        candidates,
        alpha=alpha,
        by_meaning=vectors.space.is_measured,
        notices=notices,
    )


def _rank_by_need(parts: Parts, tx: Tx, question: Question, words: QuestionWords) -> Ranking | None:
    """Rank the memories for a prompt by whether it needs them; None if that cannot be told of each of them."""
    vectors = parts.vectors
    need = vectors.need(question.text)
    if need is None:
        return None
    retriever = retriever_for(parts, tx, "memory", _scope_of(question), question.filters, stems(words.searched))
    lexical = retriever.by_words(CANDIDATES_PER_RETRIEVER)
    nearest = retriever.by_meaning(vectors, need.vector, CANDIDATES_PER_RETRIEVER)
    memories = _admitted(parts, tx, question, {**lexical, **nearest})
    stored = need_vectors(tx, vectors, memories.keys())
    if not memories or len(stored) < len(memories):
        return None
    # A memory that the word search did not find contains none of the words, unless the search was cut off.
    with_words = [id_ for id_ in memories if id_ in lexical or len(lexical) >= CANDIDATES_PER_RETRIEVER]
    tokens = parts.memories(tx).tokens(with_words) if with_words else {}
    frequencies: Mapping[str, int] = retriever.frequencies if with_words else {}
    candidates = [
        MemoryForPrompt(
            item=memory,
            tokens=tokens.get(id_, frozenset()),
            bm25=lexical.get(id_),
            needed=float(stored[id_] @ need.vector) - need.nothing,
        )
        for id_, memory in memories.items()
    ]
    weighted_question = WeightedQuestion(words.meant, frequencies, len(retriever) if with_words else 0)
    return rank_by_need(question.text, weighted_question, candidates)


def _admitted(parts: Parts, tx: Tx, question: Question, found: Iterable[str]) -> dict[str, Memory]:
    """Return by id those of the memories found that may answer a question."""
    return {
        id_: memory
        for id_, memory in parts.memories(tx).some(list(found)).items()
        if not memory.disabled
        and (question.filters.narrow or memory.state == "live")
        and (not question.own_only or memory.scope.user == question.user)
    }


def _scope_of(question: Question) -> SearchScope:
    return SearchScope(project=question.project, user=question.user, everywhere=question.everywhere)


def _candidates(
    space: EmbeddingSpace,
    items: Mapping[str, Memory],
    tokens: Mapping[str, frozenset[str]],
    lexical: Mapping[str, float],
    cosines: Mapping[str, float],
) -> list[RetrievedMemory]:
    return [
        RetrievedMemory(
            item=item,
            tokens=tokens.get(id_, frozenset()),
            bm25=lexical.get(id_),
            cosine=cosines.get(id_),
            similarity=space.calibrated_to_question(cosines[id_]) if id_ in cosines else None,
        )
        for id_, item in items.items()
    ]


# Turn search: verbatim turns, ranked together with the turns around them.
#
# Candidates are the best turns by words, the best by vectors, and the turns next to them, because an answer often
# stands next to the turn that contains the question's words. Their vectors are read from the store, so the ranking
# does not depend on which index found them.

#: At least this many of the best turns keep their word score, even if the pool is smaller. A neighbour ranked lower
#: scores too low to matter.
_MIN_WORD_SCORES = 200
#: Factor by which the vector search is widened where some turns may not be shown.
_FILTER_FACTOR = 4
_COLUMN = {name: index for index, name in enumerate(FEATURE_NAMES)}


class TurnFilter(Struct, frozen=True, kw_only=True):
    """Which turns may be returned, where not all may be shown.

    Attributes:
        permitted_ids: returns the permitted ids among those it gets. It is called with what the searches found, so that
            a hidden turn neither affects their scores nor counts as known. It is called again with the best ranked
            turns, because their neighbours were added in between.
        permits: checks the turn itself; called only for the best turns.
    """

    permitted_ids: Callable[[Sequence[str]], Collection[str]]
    permits: Callable[[Turn], bool]


def search_turns(parts: Parts, tx: Tx, question: Question, turn_filter: TurnFilter | None = None) -> Ranking:
    """Rank the verbatim turns for a question, by words only or vectors only if its mode says so."""
    with parts.metrics.search() as found:
        found.append(_rank_turns(parts, tx, question, turn_filter))
    return found[0]


def turns_with_words(parts: Parts, tx: Tx, question: Question, limit: int) -> tuple[int, list[tuple[Turn, int]]]:
    """Return how many words a question has, and the best turns by words alone with how many of these each contains."""
    words = parts.bridging.words(question.text[:MAX_QUERY_CHARACTERS])
    retriever = retriever_for(parts, tx, "turn", _scope_of(question), question.filters, stems(words.own_words))
    turns = parts.turns(tx).get(list(retriever.by_words(limit)))
    counted = WeightedQuestion(words.meant, {}, 0)
    return len(counted), [(turn, len(counted.matched(_tokens(parts.analyser, turn)))) for turn in turns]


def _rank_turns(parts: Parts, tx: Tx, question: Question, turn_filter: TurnFilter | None) -> Ranking:
    vectors, mode, recipe = parts.vectors, question.mode, _recipe_of(question)
    words = parts.bridging.words(question.text[:MAX_QUERY_CHARACTERS])
    # Without synonyms: turns are many and mostly in one language, so synonyms would mainly add irrelevant hits.
    retriever = retriever_for(parts, tx, "turn", _scope_of(question), question.filters, words.own_words)
    by_words = retriever.by_words(max(_MIN_WORD_SCORES, recipe.pool)) if mode != "semantic" else {}
    vector, notices = vectors.question(question.text) if mode != "text" else (None, ())
    max_nearest = recipe.pool * (_FILTER_FACTOR if turn_filter else 1)
    by_vector = retriever.by_meaning(vectors, vector, max_nearest) if vector is not None else {}
    if turn_filter:
        permitted = turn_filter.permitted_ids([*by_words, *by_vector])
        by_words = {id_: score for id_, score in by_words.items() if id_ in permitted}
        by_vector = {id_: cosine for id_, cosine in by_vector.items() if id_ in permitted}
    found = list(dict.fromkeys([*list(by_words)[: recipe.pool], *list(by_vector)[: recipe.pool]]))
    if not found:
        return Ranking(query=question.text, hits=(), notices=notices)
    window = turns_with_neighbours(tx, found, recipe.reach, retriever.passes_filter)
    if not window.rows:
        return Ranking(query=question.text, hits=(), notices=notices)
    ids = [row["id"] for row in window.rows]
    times = parse_times(question.text, parts.clock.now().date())
    turn_vectors, nearest = _turn_vectors(tx, ids, vectors.space.id, vector if by_vector else None)
    table = _turn_table(window, frozenset(found), by_words, turn_vectors, nearest, dated=bool(times))
    features = turn_features(TurnQuestion(text=question.text, vector=vector, times=times), table)
    weighted = (reciprocal_ranks(features.features) if recipe.by_rank else features.features) * recipe.weights
    scores: list[float] = weighted.sum(axis=1).tolist()
    candidates: list[int] = np.flatnonzero(table.candidates).tolist()
    order = sorted(candidates, key=lambda index: (-scores[index], ids[index]))
    first = order[: max(question.limit, MAX_KNOWN_RESULTS)]
    shares = dict(zip(order, softmax([scores[index] for index in order]), strict=True))
    turns = {turn.id: turn for turn in parts.turns(tx).get([ids[index] for index in first])}
    best = [index for index in first if ids[index] in turns]  # a turn may have been erased in the meantime
    if turn_filter:
        permitted = turn_filter.permitted_ids([ids[index] for index in best])
        best = [index for index in best if ids[index] in permitted and turn_filter.permits(turns[ids[index]])]
    question_words = WeightedQuestion(words.meant, retriever.frequencies, len(retriever))
    builder = _RelevanceFeatureBuilder(question_words, vectors.space, features, nearest)
    matched = [question_words.matched(_tokens(parts.analyser, turns[ids[index]])) for index in best]
    best_features = [
        builder.features(index, matched_words, shares[index])
        for index, matched_words in zip(best, matched, strict=True)
    ]
    probabilities, known = judge_relevance(
        question_words, best_features, matched, by_meaning=vector is not None and vectors.space.is_measured
    )
    max_score = float(recipe.weights.clip(min=0).sum()) * (float(weighted.max()) / 1.0 if recipe.by_rank else 1.0)
    hits = tuple(
        _hit(
            turns[ids[index]],
            weighted[index],
            max_score or 1.0,
            relevance_features,
            probability,
            has_vector=not np.isnan(nearest[index]),
        )
        for index, relevance_features, probability in zip(best, best_features, probabilities, strict=True)
    )
    return Ranking(query=question.text, hits=hits, notices=notices, known=known)


def _recipe_of(question: Question) -> Recipe:
    """Return the question's recipe, or a single-feature recipe for the modes "text" and "semantic"."""
    chosen = recipe_named(question.recipe)
    match question.mode:
        case "hybrid":
            return chosen
        case "text":
            return Recipe(name=chosen.name, pool=chosen.pool, reach=0, weights=feature_weights(words=1.0))
        case "semantic":
            return Recipe(name=chosen.name, pool=chosen.pool, reach=0, weights=feature_weights(meaning=1.0))


def _turn_table(
    window: TurnWindow,
    found: frozenset[str],
    words: Mapping[str, float],
    vectors: Vectors | None,
    nearest: Features,
    *,
    dated: bool,
) -> TurnTable:
    rows, previous = window.rows, np.array(window.previous, dtype=np.int64)
    is_found = np.array([row["id"] in found for row in rows], dtype=bool)
    candidates = is_found.copy()
    for neighbours in (previous[is_found], next_turns(previous)[is_found]):
        candidates[neighbours[neighbours >= 0]] = True
    return TurnTable(
        candidates=candidates,
        texts=[row["text"] for row in rows],
        days=[from_text(row["at"]).date() for row in rows] if dated else (),
        sessions=[(row["host"], row["session_id"]) for row in rows],
        replies=np.array([row["role"] == "assistant" for row in rows], dtype=bool),
        words=np.array([words.get(row["id"], 0.0) for row in rows], dtype=np.float32),
        vectors=vectors,
        nearest=nearest,
        previous=previous,
    )


def _turn_vectors(
    tx: Tx, ids: Sequence[str], space_id: str, question: Vector | None
) -> tuple[Vectors | None, Features]:
    """Return the vector of each of these turns, and the cosine of its best window (`search.ranking`)."""
    nearest = np.full(len(ids), np.nan, dtype=np.float32)
    if question is None:
        return None, nearest
    windows, owners = StoredVectors(tx).windows("turn", ids, space_id)
    if not len(windows):
        return None, nearest
    first = np.flatnonzero(np.diff(owners, prepend=-1))
    # Row by row: a matrix product wakes the BLAS threads, and gives equal rows unequal cosines.
    nearest[owners[first]] = np.maximum.reduceat(np.vecdot(windows, question), first)
    if len(first) < len(owners):
        counts = np.diff(first, append=len(owners)).astype(np.float32)
        windows = (np.add.reduceat(windows, first) / counts[:, None]).astype(np.float32)
    if len(first) == len(ids):
        return windows, nearest
    vectors = np.zeros((len(ids), windows.shape[1]), dtype=np.float32)
    vectors[owners[first]] = windows
    return vectors, nearest


def _tokens(analyser: Analyser, turn: Turn) -> frozenset[str]:
    return frozenset(analyser.tokens(turn.text).split())


class _RelevanceFeatureBuilder:
    """Computes the relevance features of a turn."""

    def __init__(
        self, question: WeightedQuestion, space: EmbeddingSpace, turns: TurnFeatures, nearest: Features
    ) -> None:
        self._question = question
        self._space = space
        self._turns = turns
        self._nearest = nearest

    def features(self, index: int, matched: Sequence[str], share: float) -> RelevanceFeatures:
        """Return the relevance features of the turn at this index."""
        row = self._turns.features[index]
        return RelevanceFeatures(
            similarity=self._similarity(self._nearest[index]),
            around=self._similarity(self._turns.around[index]),
            wide=self._similarity(self._turns.wide[index]),
            covered=self._question.covered(matched),
            telling=self._question.is_telling(matched),
            share=share,
            words=len(self._question),
            time=float(row[_COLUMN["time"]]),
            speaker=float(row[_COLUMN["speaker"]]),
            dated=float(row[_COLUMN["dated"]]),
            asks=float(row[_COLUMN["asks"]]),
        )

    def _similarity(self, cosine: np.float32) -> float:
        return 0.0 if np.isnan(cosine) else self._space.calibrated_to_question(float(cosine))


def _hit(
    turn: Turn,
    weighted: Features,
    max_score: float,
    features: RelevanceFeatures,
    probability: float,
    *,
    has_vector: bool,
) -> Hit:
    contributions = dict(zip(FEATURE_NAMES, map(float, weighted), strict=True))
    return Hit(
        item=turn,
        bm25_score=contributions["words"] / max_score,
        vector_score=contributions["meaning"] / max_score,
        score=min(1.0, max(0.0, float(weighted.sum()) / max_score)),
        similarity=features.similarity if has_vector else None,
        coverage=features.covered,
        relevance=probability,
        boosts=tuple((name, round(value / max_score, 4)) for name, value in contributions.items() if value),
    )
