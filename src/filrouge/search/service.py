"""Search: the memories that answer a question, and the turns, ranked with the turns around them.

An explicit search covers all projects, with each hit labelled by project, unless the question is limited to one. If a
part of the search fails (the embedder is down, an index is still loading), a notice says so and the other parts still
answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from filrouge.capture.models import Turn
from filrouge.core.clock import from_text
from filrouge.core.protocols import Tx, Vector, Vectors
from filrouge.core.scope import LOCAL_USER
from filrouge.memories.models import NO_FILTERS, Filters, Memory
from filrouge.providers.models import EmbeddingSpace
from filrouge.runtime.services import Parts
from filrouge.search.analyser import Terms
from filrouge.search.models import FEATURE_NAMES, Hit, IndexedTable, Ranking
from filrouge.search.ranking import (
    ALPHA,
    JUDGED,
    Features,
    Recipe,
    RecipeName,
    RelevanceFeatures,
    RetrievedMemory,
    TurnFeatures,
    TurnQuestion,
    TurnTable,
    WeightedQuestion,
    by_places,
    following,
    judged,
    only,
    parse_times,
    rank,
    recipe,
    shares,
    turn_features,
)
from filrouge.search.repository import SearchScope, StoredVectors, TurnWindow, turns_with_neighbours
from filrouge.search.retrievers import Retriever, need_vectors, retriever_for

CANDIDATES_PER_RETRIEVER = 50
LONGEST_QUERY = 2000
Mode = Literal["text", "semantic", "hybrid"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A question, and where to search.

    Attributes:
        project: the project to stay in; None with `everywhere` false means "outside every project".
        everywhere: search all projects.
        user: the user whose own memories are searched in every project.
        private: return only memories of this user, within a project too.
        filters: further conditions on the results.
        recipe: how turns are ranked.
        by_need: the text is a prompt, and memories are judged by whether the prompt needs them.
    """

    text: str
    project: str | None = None
    everywhere: bool = False
    user: str = LOCAL_USER
    private: bool = False
    mode: Mode = "hybrid"
    limit: int = 10
    filters: Filters = NO_FILTERS
    recipe: RecipeName = "balanced"
    by_need: bool = False


def recall(parts: Parts, tx: Tx, question: Question) -> Ranking:
    """Rank the live memories for a question."""
    with parts.metrics.search() as found:
        found.append(_rank_memories(parts, tx, question))
    return found[0]


def _rank_memories(parts: Parts, tx: Tx, question: Question) -> Ranking:
    meaning = parts.vectors
    words = parts.bridging.words(question.text[:LONGEST_QUERY])
    vector, notices = meaning.question(question.text) if question.mode != "text" else (None, ())
    store = parts.memories(tx)
    searched = retriever_for_question(parts, tx, "memory", question, words.searched)
    lexical = searched.by_words(CANDIDATES_PER_RETRIEVER) if question.mode != "semantic" else {}
    cosines = searched.by_meaning(meaning, vector, CANDIDATES_PER_RETRIEVER) if vector is not None else {}
    need = meaning.need(question.text) if question.by_need and vector is not None else None
    nearest = searched.by_meaning(meaning, need.vector, CANDIDATES_PER_RETRIEVER) if need else {}
    found = store.some(list({**lexical, **cosines, **nearest}))
    narrow = question.filters.narrow
    items = {
        id_: one
        for id_, one in found.items()
        if not one.disabled
        and (narrow or one.state == "live")
        and (not question.private or one.scope.user == question.user)
    }
    questioned = WeightedQuestion(words.meant, searched.frequencies, len(searched))
    vectors = need_vectors(tx, meaning, items.keys()) if need else {}
    needed = {id_: float(vector @ need.vector) - need.nothing for id_, vector in vectors.items()} if need else {}
    candidates = _candidates(meaning.space, items, store.tokens(list(items)), lexical, cosines, needed)
    alpha = 1.0 if question.mode == "semantic" else ALPHA
    return rank(
        question.text, questioned, candidates, alpha=alpha, by_meaning=meaning.space.is_measured, notices=notices
    )


def retriever_for_question(parts: Parts, tx: Tx, owner: IndexedTable, question: Question, terms: Terms) -> Retriever:
    """Return the retriever for a question with these terms."""
    place = SearchScope(project=question.project, user=question.user, everywhere=question.everywhere)
    return retriever_for(parts, tx, owner, place, question.filters, terms)


def _candidates(
    space: EmbeddingSpace,
    items: Mapping[str, Memory],
    tokens: Mapping[str, frozenset[str]],
    lexical: Mapping[str, float],
    cosines: Mapping[str, float],
    needed: Mapping[str, float],
) -> list[RetrievedMemory]:
    return [
        RetrievedMemory(
            item=item,
            tokens=tokens.get(id_, frozenset()),
            bm25=lexical.get(id_),
            cosine=cosines.get(id_),
            similarity=space.calibrated_to_question(cosines[id_]) if id_ in cosines else None,
            needed=needed.get(id_),
        )
        for id_, item in items.items()
    ]


# Turn search: verbatim turns, ranked together with the turns around them.
#
# Candidates are the best turns by words, the best by vectors, and the turns next to them, because an answer often
# stands next to the turn that contains the question's words. Their vectors are read from the store, so the ranking
# does not depend on which index found them.

#: How many of the best turns keep their word score, beyond the pool; a neighbour below that scores too low to matter.
_WORDED = 200
#: Factor by which the vector search is widened where some turns may not be shown.
_OVERFETCH = 4
_COLUMN = {name: place for place, name in enumerate(FEATURE_NAMES)}


@dataclass(frozen=True, kw_only=True, slots=True)
class Showable:
    """Which turns may be returned, where not all may be shown.

    Attributes:
        ids: returns the permitted ids among those found. It is called before ranking, so that a hidden turn neither
            affects the scores nor counts as known.
        turn: checks the turn itself; called only for the best turns.
    """

    ids: Callable[[Sequence[str]], Collection[str]]
    turn: Callable[[Turn], bool]


def search_turns(parts: Parts, tx: Tx, question: Question, showable: Showable | None = None) -> Ranking:
    """Rank the verbatim turns for a question, by words only or vectors only if its mode says so."""
    with parts.metrics.search() as found:
        found.append(_rank_turns(parts, tx, question, showable))
    return found[0]


def _rank_turns(parts: Parts, tx: Tx, question: Question, showable: Showable | None) -> Ranking:
    meaning, mode, how = parts.vectors, question.mode, _recipe(question)
    words = parts.bridging.words(question.text[:LONGEST_QUERY])
    # Without bridged synonyms: turns are many and mostly in one language, so synonyms would mainly add irrelevant hits.
    arm = retriever_for_question(parts, tx, "turn", question, words.own)
    by_words = arm.by_words(max(_WORDED, how.pool)) if mode != "semantic" else {}
    vector, notices = meaning.question(question.text) if mode != "text" else (None, ())
    near = arm.by_meaning(meaning, vector, how.pool * (_OVERFETCH if showable else 1)) if vector is not None else {}
    if showable:
        kept = showable.ids([*by_words, *near])
        by_words = {id_: score for id_, score in by_words.items() if id_ in kept}
        near = {id_: cosine for id_, cosine in near.items() if id_ in kept}
    found = list(dict.fromkeys([*list(by_words)[: how.pool], *list(near)[: how.pool]]))
    if not found:
        return Ranking(query=question.text, hits=(), notices=notices)
    around = turns_with_neighbours(tx, found, how.reach, arm.holds)
    if not around.rows:
        return Ranking(query=question.text, hits=(), notices=notices)
    ids = [row["id"] for row in around.rows]
    times = parse_times(question.text, parts.clock.now().date())
    vectors, nearest = _turn_vectors(tx, ids, meaning.space.id, vector if near else None)
    spoken = _spoken(around, frozenset(found), by_words, vectors, nearest, dated=bool(times))
    asked = TurnQuestion(text=question.text, vector=vector, times=times)
    values = turn_features(asked, spoken)
    counted = (by_places(values.features) if how.by_rank else values.features) * how.weights
    scores: list[float] = counted.sum(axis=1).tolist()
    candidates: list[int] = np.flatnonzero(spoken.candidates).tolist()
    order = sorted(candidates, key=lambda place: (-scores[place], ids[place]))
    first = order[: max(question.limit, JUDGED)]
    parts_of_pool = dict(zip(order, shares([scores[place] for place in order]), strict=True))
    turns = {turn.id: turn for turn in parts.turns(tx).get([ids[place] for place in first])}
    best = [place for place in first if ids[place] in turns]  # a turn may have been erased in the meantime
    if showable:
        beside = showable.ids([ids[place] for place in best])
        best = [place for place in best if ids[place] in beside and showable.turn(turns[ids[place]])]
    judge = _Judge(WeightedQuestion(words.meant, arm.frequencies, len(arm)), meaning.space, values, nearest)
    matched = [judge.questioned.matched(_tokens(parts, turns[ids[place]])) for place in best]
    signs = [judge.signs(place, own, parts_of_pool[place]) for place, own in zip(best, matched, strict=True)]
    chances, known = judged(
        judge.questioned, signs, matched, by_meaning=vector is not None and meaning.space.is_measured
    )
    whole = float(how.weights.clip(min=0).sum()) * (float(counted.max()) / 1.0 if how.by_rank else 1.0)
    hits = tuple(
        _hit(turns[ids[place]], counted[place], whole or 1.0, one, chance, has_vector=not np.isnan(nearest[place]))
        for place, one, chance in zip(best, signs, chances, strict=True)
    )
    return Ranking(query=question.text, hits=hits, notices=notices, known=known)


def _recipe(question: Question) -> Recipe:
    """Return the question's recipe, or a single-feature recipe for the modes "text" and "semantic"."""
    chosen = recipe(question.recipe)
    match question.mode:
        case "hybrid":
            return chosen
        case "text":
            return Recipe(name=chosen.name, pool=chosen.pool, reach=0, weights=only(words=1.0))
        case "semantic":
            return Recipe(name=chosen.name, pool=chosen.pool, reach=0, weights=only(meaning=1.0))


def _spoken(
    around: TurnWindow,
    found: frozenset[str],
    words: Mapping[str, float],
    vectors: Vectors | None,
    nearest: Features,
    *,
    dated: bool,
) -> TurnTable:
    rows, before = around.rows, np.array(around.before, dtype=np.int64)
    hits = np.array([row["id"] in found for row in rows], dtype=bool)
    candidates = hits.copy()
    for beside in (before[hits], following(before)[hits]):
        candidates[beside[beside >= 0]] = True
    return TurnTable(
        candidates=candidates,
        texts=[row["text"] for row in rows],
        days=[from_text(row["at"]).date() for row in rows] if dated else (),
        sessions=[(row["host"], row["session_id"]) for row in rows],
        replies=np.array([row["role"] == "assistant" for row in rows], dtype=bool),
        words=np.array([words.get(row["id"], 0.0) for row in rows], dtype=np.float32),
        vectors=vectors,
        nearest=nearest,
        before=before,
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


def _tokens(parts: Parts, turn: Turn) -> frozenset[str]:
    return frozenset(parts.analyser.tokens(turn.text).split())


class _Judge:
    """Computes the relevance features of a turn."""

    def __init__(
        self, questioned: WeightedQuestion, space: EmbeddingSpace, values: TurnFeatures, nearest: Features
    ) -> None:
        self.questioned = questioned
        self._space = space
        self._values = values
        self._nearest = nearest

    def signs(self, place: int, matched: Sequence[str], share: float) -> RelevanceFeatures:
        """Return the relevance features of the turn at this index."""
        row = self._values.features[place]
        return RelevanceFeatures(
            similarity=self._similarity(self._nearest[place]),
            around=self._similarity(self._values.around[place]),
            wide=self._similarity(self._values.wide[place]),
            covered=self.questioned.covered(matched),
            telling=self.questioned.is_telling(matched),
            share=share,
            words=len(self.questioned),
            time=float(row[_COLUMN["time"]]),
            speaker=float(row[_COLUMN["speaker"]]),
            dated=float(row[_COLUMN["dated"]]),
            asks=float(row[_COLUMN["asks"]]),
        )

    def _similarity(self, cosine: np.float32) -> float:
        return 0.0 if np.isnan(cosine) else self._space.calibrated_to_question(float(cosine))


def _hit(
    turn: Turn, counted: Features, whole: float, signs: RelevanceFeatures, chance: float, *, has_vector: bool
) -> Hit:
    parts = dict(zip(FEATURE_NAMES, map(float, counted), strict=True))
    return Hit(
        item=turn,
        bm25_score=parts["words"] / whole,
        vector_score=parts["meaning"] / whole,
        score=min(1.0, max(0.0, float(counted.sum()) / whole)),
        similarity=signs.similarity if has_vector else None,
        coverage=signs.covered,
        relevance=chance,
        boosts=tuple((name, round(part / whole, 4)) for name, part in parts.items() if part),
    )
