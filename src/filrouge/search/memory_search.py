"""Memory search: the memories that answer a question, ranked.

An explicit search covers all projects, with each hit labelled by project, unless the question is limited to one. If a
part of the search fails (the embedder is down, an index is still loading), a notice says so and the other parts still
answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from filrouge.core.protocols import Tx
from filrouge.core.scope import LOCAL_USER
from filrouge.memories.models import NO_FILTERS, Filters, Memory
from filrouge.providers.models import EmbeddingSpace
from filrouge.runtime.services import Parts
from filrouge.search.analyser import Terms
from filrouge.search.fusion import RecipeName
from filrouge.search.models import Ranking
from filrouge.search.nearest_memories import need_vectors
from filrouge.search.relevance import ALPHA, RetrievedMemory, WeightedQuestion, rank
from filrouge.search.retrievers import Retriever, retriever_for
from filrouge.search.word_repository import IndexedTable, SearchScope

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
    with parts.meters.search() as found:
        found.append(_search(parts, tx, question))
    return found[0]


def _search(parts: Parts, tx: Tx, question: Question) -> Ranking:
    meaning = parts.meaning
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
