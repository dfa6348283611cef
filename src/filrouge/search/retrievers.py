"""Retrievers of candidates by words and by vectors, filters, and the hybrid query of the API.

A retriever returns the candidates of one question from one table, and how rare the question's words are there. There
are three, chosen by `retriever_for`, and ranking does not depend on which one is used:

- a small table without a filter: the full-text index in the database (`_FtsRetriever`), - a small filtered table, or a
filter that the word index does not support: the passing rows are counted (`FilteredRetriever`), - a large table,
filtered or not: the word index (`IndexRetriever`).

The hybrid query mixes words and vectors as the caller specifies, within a filter given as a mapping of names to values.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Final, Literal, Protocol, get_args

import numpy as np

from filrouge.capture.models import Turn
from filrouge.core.errors import BadInput, EmbedderUnavailable
from filrouge.core.protocols import Analyser, PromptEmbedder, Tx, Vector, VectorIndex, Vectors, WordSnapshot
from filrouge.core.rows import number_of
from filrouge.core.scope import LOCAL_USER
from filrouge.memories.models import SUMS, Filters, Memory
from filrouge.projects.repository import project_id
from filrouge.runtime.jobs import JobResult, Jobs
from filrouge.runtime.services import Parts
from filrouge.search.analyser import Terms, any_of
from filrouge.search.filters import is_indexed, parse_filters
from filrouge.search.models import Hit, IndexedTable, Ranking, Selection, WordCounts
from filrouge.search.ranking import (
    BUILT_IN,
    OKAPI,
    Fused,
    Fusion,
    Okapi,
    WeightedQuestion,
    bm25,
    bm25_of_counts,
    diverse,
    fused,
    judged,
    shares,
    standalone_features,
)
from filrouge.search.ranking import Collection as Collection_fusion
from filrouge.search.repository import (
    NEED_VECTORS_JOB,
    FilteredRows,
    FullTextIndex,
    MissingNeedVector,
    NeedVectors,
    SearchScope,
    StatementInContext,
    StoredVectors,
    WordRows,
    passes,
    selection,
)
from filrouge.search.vector_search import VectorSearch
from filrouge.search.weights import ALONE_MEANING, ALONE_WORDS

# The memories nearest to a text, and the need vectors of memories.
#
# One background job computes need vectors; retrieval for a prompt reads them. A need vector is what prompts that need
# the memory are matched against.

_AT_ONCE: Final = 32
#: How many missing need vectors of new memories a prompt computes itself, at about 8 ms each.
_FOR_A_PROMPT: Final = 6


def queue_need_vectors(tx: Tx, meaning: VectorSearch, at: datetime) -> None:
    """Queue the job that computes missing need vectors, if the embedder has a model for what prompts need."""
    if _revision(meaning):
        Jobs(tx).enqueue(NEED_VECTORS_JOB, {"after": 0}, dedupe=NEED_VECTORS_JOB, at=at)


def resume_need_vectors(parts: Parts) -> None:
    """Queue need vectors that an earlier run or an earlier version of the daemon left missing."""
    meaning = parts.vectors
    revision = _revision(meaning)
    if revision and parts.readers.here(lambda tx: NeedVectors(tx).missing(revision, 1)):
        parts.writer.run(lambda tx: queue_need_vectors(tx, meaning, parts.clock.now()))


def make_need_vectors(parts: Parts, payload: Mapping[str, Any]) -> JobResult:
    """Job handler: compute need vectors for some of the memories that lack them."""
    meaning, after = parts.vectors, int(payload["after"])
    revision = _revision(meaning)

    def look(tx: Tx) -> tuple[list[MissingNeedVector], list[StatementInContext]]:
        lacking = NeedVectors(tx).missing(revision, _AT_ONCE, after=after) if revision else []
        return lacking, NeedVectors(tx).settings([one.id for one in lacking])

    lacking, given = parts.readers.here(look)
    if not lacking:
        return JobResult(write=lambda _: None)
    made = _made(meaning, given)
    return JobResult(
        write=lambda tx: NeedVectors(tx).put(revision, made),
        again=lambda: {"after": lacking[-1].seq},
    )


def need_vectors(tx: Tx, meaning: VectorSearch, ids: Collection[str]) -> dict[str, Vector]:
    """Return the need vectors of these memories; if only a few are missing, compute those immediately."""
    revision = _revision(meaning)
    found = NeedVectors(tx).some(ids, revision)
    lacking = [id_ for id_ in ids if id_ not in found]
    if 0 < len(lacking) <= _FOR_A_PROMPT:
        found |= {one.memory_id: vector for one, vector in _made(meaning, NeedVectors(tx).settings(lacking))}
    return found


def _revision(meaning: VectorSearch) -> str:
    return meaning.embedder.need_revision if isinstance(meaning.embedder, PromptEmbedder) else ""


def _made(meaning: VectorSearch, given: Sequence[StatementInContext]) -> list[tuple[StatementInContext, Vector]]:
    """Return the need vectors of memories; an empty list if the embedder is unavailable."""
    if not isinstance(meaning.embedder, PromptEmbedder) or not given:
        return []
    try:
        vectors = meaning.embedder.need_vectors([(one.before, one.text) for one in given])
    except EmbedderUnavailable:
        return []
    return [] if vectors is None else list(zip(given, vectors, strict=True))


# Nearest memories, without summaries (kinds in `SUMS`). Summaries repeat other memories and would take their places.
# They have vectors for queries that request their kind (`search.retrievers`).

#: Factor by which the search is widened when too few results remain.
_WIDER: Final = 4


def nearest_live_memories(
    tx: Tx, index: VectorIndex, vector: Vector, limit: int, groups: frozenset[str] | None
) -> dict[str, float]:
    """Return the nearest memories in these groups with their cosines, best first, by id; None = all groups."""
    asked = limit
    while True:
        near = index.nearest(vector, asked, groups)
        sums = {row["id"] for row in tx.all("memories.sums", {"ids": json.dumps([one.owner_id for one in near])})}
        kept = {one.owner_id: one.cosine for one in near if one.owner_id not in sums}
        if len(kept) >= limit or len(near) < asked:
            return dict(list(kept.items())[:limit])
        asked *= _WIDER


# Filtered retrieval: both searches run over the rows that pass the filter, and are cut only afterwards.


class FilteredRetriever:
    """Retriever for a filtered question without a word index: reads the rows that pass the filter."""

    def __init__(
        self,
        tx: Tx,
        owner: IndexedTable,
        place: SearchScope,
        filters: Filters,
        terms: Sequence[Sequence[str]],
        match: str,
        analyser: Analyser,
    ) -> None:
        self._tx = tx
        self._owner: IndexedTable = owner
        self._share = FilteredRows(tx, owner, place, filters)
        forms = [form for forms in terms for form in forms]
        self._terms = terms
        if set(SUMS) & set(filters.kinds):
            self._read(forms, analyser)
        else:
            self._lengths = self._share.lengths
            self._matching = self._share.matching(match) if match else []
            self._counts = self._share.counts(forms, self._matching, analyser)
        having = {form: sum(form in row for row in self._counts.values()) for form in forms}
        self.frequencies: Mapping[str, int] = {form: count for form, count in having.items() if count}

    def __bool__(self) -> bool:
        """Return True: a filtered set without rows is still a valid retriever."""
        return True

    def __len__(self) -> int:
        """Return how many items pass the filter."""
        return len(self._share)

    @property
    def tokens(self) -> int:
        """Return how many tokens the passing rows are indexed under."""
        return sum(self._lengths.values())

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Return True if this row of the table passes the filter."""
        return row["id"] in self._share.ids

    def by_words(self, limit: int) -> dict[str, float]:
        """Return the best rows by full text; BM25 statistics come from the passing rows only."""
        lengths = self._lengths
        mean = sum(lengths.values()) / len(lengths) if lengths else 0.0
        collection = Collection_fusion(rows=len(lengths), mean=mean, frequencies=self.frequencies, is_floored=True)
        counted = bm25_of_counts(self._terms, self._counts, lengths, collection, BUILT_IN)
        return _best({id_: counted.get(id_, 0.0) for id_ in self._matching}, limit)

    def by_meaning(self, meaning: VectorSearch, vector: Vector, limit: int) -> dict[str, float]:
        """Return the nearest rows by vector; memories that have left the vector index are read from the store."""
        index = meaning.memory_index if self._owner == "memory" else meaning.turn_index
        near = index.nearest(vector, limit, None, self._share.numbers)
        found = {one.owner_id: one.cosine for one in near}
        stored = StoredVectors(self._tx).some(self._owner, self._share.ended, meaning.space.id)
        found |= {id_: float((windows @ vector).max()) for id_, windows in stored.items()}
        return _best(found, limit)

    def _read(self, forms: Sequence[str], analyser: Analyser) -> None:
        """Compute tokens from the texts of the rows, because summaries (`SUMS`) are not in the full-text index."""
        rows = self._tx.all("memories.searched", {"ids": json.dumps(sorted(self._share.ids))})
        tokens = {row["id"]: Counter(analyser.tokens(row["text"]).split()) for row in rows}
        self._lengths = {id_: own.total() for id_, own in tokens.items()}
        found = {id_: {form: own[form] for form in forms if form in own} for id_, own in tokens.items()}
        self._counts = {id_: occurring for id_, occurring in found.items() if occurring}
        self._matching = list(self._counts)


def _best(found: Mapping[str, float], limit: int) -> dict[str, float]:
    return dict(sorted(found.items(), key=lambda one: (-one[1], one[0]))[:limit])


# Retrieval from a large table: the word index for the rows it holds, the store for rows that came later.
#
# Statistics of a filtered question (rows that pass, rows per word) are counted within the filter. Rows of about the
# last second, and memories that changed in it, are found by the store's full text and scored by the same formula.

#: A filter is applied to the vector index in one of two ways. Passing row numbers costs a fifth of a microsecond for
#: each row that passes. Searching without the filter and discarding costs as much for each neighbour that does not
#: pass. Both take equally long where the square of the passing rows is this many times the index size: at 25,000 of
#: 100,000, at 80,000 of a million.
_BREAK_EVEN: Final = 6000
#: Extra candidates to fetch where candidates are rescored.
_EXTRA_CANDIDATES: Final = 20
_NOTHING: Final = WordCounts(rows=0, tokens=0, having={})


class IndexRetriever:
    """Retriever for one question in a table that has a word index."""

    def __init__(
        self,
        tx: Tx,
        owner: IndexedTable,
        place: SearchScope,
        filters: Filters,
        terms: Terms,
        view: WordSnapshot,
        analyser: Analyser,
    ) -> None:
        self._tx, self._place, self._filters = tx, place, filters
        self._owner: IndexedTable = owner
        self._terms: Sequence[Sequence[str]] = terms
        self._view, self._analyser = view, analyser
        self._is_narrow = filters.narrow  # read for every neighbour
        self._rows = WordRows(tx, owner)
        newest = self._rows.newest()
        changed = self._rows.changed(view.mark.change, newest.change)
        self._wanted = selection(owner, place, filters)
        is_behind = bool(changed) or newest.row > view.mark.row
        self._fresh = self._rows.fresh(view.mark.row, changed, self._wanted) if self._wanted and is_behind else {}
        self._indexed = replace(self._wanted, without=changed) if self._wanted else None
        self._fresh_tokens = self._tokens_of_fresh(changed)

    def __len__(self) -> int:
        """Return how many rows the word statistics cover: those that pass the filter, or all without a filter."""
        return self._counted.rows

    def __bool__(self) -> bool:
        """Return True: a filtered set without rows is still a valid retriever."""
        return True

    @property
    def frequencies(self) -> Mapping[str, int]:
        """Return in how many of these rows each form occurs."""
        return self._counted.having

    @property
    def tokens(self) -> int:
        """Return how many tokens these rows are indexed under."""
        return self._counted.tokens

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Return True if a row of the table `turns` passes the filter; neighbours are always of the same project."""
        if self._wanted is None or not self._is_narrow:
            return self._wanted is not None
        return passes({**row, "agent": row["agent"] or row["channel"], "begins": row["at"]}, self._wanted)

    def by_words(self, limit: int) -> dict[str, float]:
        """Return the best rows by BM25; for a filtered question, rarity is counted within the filter."""
        if self._indexed is None:
            return {}
        rarity = {form: self._collection.rarity(form) for form in self.frequencies} if self._filters.narrow else None
        spare = _EXTRA_CANDIDATES if _hides(self._filters) else 0
        found = self._view.best(self._terms, self._indexed, limit + spare, rarity)
        if _hides(self._filters):
            texts = self._rows.texts(found)
            found = self._scored({number: self._analyser.tokens(text).split() for number, text in texts.items()})
        found |= self._scored(self._fresh_tokens)
        best = sorted(found.items(), key=lambda one: (-one[1], one[0]))[:limit]
        ids = self._rows.ids([number for number, _ in best])
        return {ids[number]: score for number, score in best if number in ids}

    def by_meaning(self, meaning: VectorSearch, vector: Vector, limit: int) -> dict[str, float]:
        """Return the nearest passing rows by vector."""
        index = meaning.memory_index if self._owner == "memory" else meaning.turn_index
        groups = groups_of(self._owner, self._place)
        if not self._filters.narrow and self._owner == "memory":
            return nearest_live_memories(self._tx, index, vector, limit, groups)
        if not self._filters.narrow:
            return {one.owner_id: one.cosine for one in index.nearest(vector, limit, groups)}
        if self._indexed is None or self._wanted is None:
            return {}
        passing, found = self._counted.rows, dict[str, float]()
        if passing * passing <= _BREAK_EVEN * len(index):
            numbers = np.append(self._view.numbers(self._indexed, passing), list(self._fresh)).astype(np.int64)
            found = {one.owner_id: one.cosine for one in index.nearest(vector, limit, groups, numbers)}
        else:
            asked, enough = limit + limit * len(index) // passing, False
            while not enough:
                near = index.nearest(vector, asked, groups)
                kept = self._rows.passing([one.owner_id for one in near], self._wanted)
                found = {one.owner_id: one.cosine for one in near if one.owner_id in kept}
                enough = len(found) >= limit or len(near) < asked
                asked *= 2
        if self._filters.as_of:
            found |= self._ended(self._indexed, meaning, vector)
        return dict(sorted(found.items(), key=lambda one: (-one[1], one[0]))[:limit])

    def _ended(self, wanted: Selection, meaning: VectorSearch, vector: Vector) -> dict[str, float]:
        """Return memories that were valid at `as_of` and have ended since; the vector index no longer holds them."""
        gone = frozenset({"state:superseded", "state:binned"})
        ended = replace(wanted, labels=(*wanted.labels, gone))
        numbers = self._view.numbers(ended, self._counted.rows or 1)
        ids = [*self._rows.ids(numbers.tolist()).values(), *self._fresh.values()]
        stored = StoredVectors(self._tx).some(self._owner, ids, meaning.space.id)
        return {id_: float((windows @ vector).max()) for id_, windows in stored.items()}

    @cached_property
    def _counted(self) -> WordCounts:
        forms = list(dict.fromkeys(form for forms in self._terms for form in forms))
        if self._filters.narrow:
            held = self._view.counted(forms, self._indexed) if self._indexed else _NOTHING
        else:
            held = self._view.counted(forms, None)
        fresh = self._fresh_tokens.values()
        having = {form: held.having.get(form, 0) + sum(form in tokens for tokens in fresh) for form in forms}
        tokens = held.tokens + sum(map(len, fresh))
        # New rows without any of the words are counted without reading them; they get the mean length.
        unread = (len(self._fresh) - len(fresh)) * (tokens // max(1, held.rows + len(fresh)))
        having = {form: count for form, count in having.items() if count}
        return WordCounts(rows=held.rows + len(self._fresh), tokens=tokens + unread, having=having)

    @cached_property
    def _collection(self) -> Collection_fusion:
        counted = self._counted
        return Collection_fusion(rows=counted.rows, mean=counted.mean, frequencies=counted.having)

    def _scored(self, rows: Mapping[int, Sequence[str]]) -> dict[int, float]:
        named = {str(number): tokens for number, tokens in rows.items()}
        return {int(name): score for name, score in bm25(self._terms, named, self._collection, BUILT_IN).items()}

    def _tokens_of_fresh(self, changed: frozenset[int]) -> dict[int, list[str]]:
        """Return the tokens of the new or changed rows that contain a word of the question."""
        match = any_of(self._terms)
        if not match or not self._fresh:
            return {}
        matching = {*self._rows.matching_behind(match, self._view.mark.row), *changed} & self._fresh.keys()
        asked = {form for forms in self._terms for form in forms}
        texts = self._rows.texts(matching)
        tokens = {number: self._analyser.tokens(text).split() for number, text in texts.items()}
        return {number: own for number, own in tokens.items() if number not in changed or not asked.isdisjoint(own)}


def groups_of(owner: IndexedTable, place: SearchScope) -> frozenset[str] | None:
    """Return the groups of a vector index that belong to a place; None = all."""
    if place.everywhere:
        return None
    return frozenset({place.project or ""} if owner == "turn" else {place.project or "", f"user:{place.user}"})


def _hides(filters: Filters) -> bool:
    """Return True if the filter restricts what the caller may see.

    Then no statistic of other rows may show through the scores, not even their length. Other questions use the mean row
    length of the whole index.
    """
    return filters.agent is not None or filters.user is not None or filters.trust > 0


# Retrievers: the common interface, and the choice between the three.


class Retriever(Protocol):
    """Returns the candidates of one question from one table, and the rarity of its words there."""

    @property
    def frequencies(self) -> Mapping[str, int]:
        """Return in how many rows each form of a word occurs; forms that occur nowhere may be left out."""
        ...

    def __len__(self) -> int:
        """Return how many rows the word statistics cover."""
        ...

    @property
    def tokens(self) -> int:
        """Return how many tokens these rows are indexed under, in total."""
        ...

    def by_words(self, limit: int) -> dict[str, float]:
        """Return the best rows by full text with their scores, best first, by id."""
        ...

    def by_meaning(self, meaning: VectorSearch, vector: Vector, limit: int) -> dict[str, float]:
        """Return the nearest rows by vector with their cosines, best first, by id."""
        ...

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Return True if a row of the table `turns` passes the filter."""
        ...


def retriever_for(
    parts: Parts, tx: Tx, owner: IndexedTable, place: SearchScope, filters: Filters, terms: Terms
) -> Retriever:
    """Return the retriever for a question with these terms."""
    view = parts.words.view(tx, owner)
    # A word index holds no summaries, and few rows pass a filter that it cannot apply.
    if view and not set(SUMS) & set(filters.kinds) and is_indexed(filters):
        return IndexRetriever(tx, owner, place, filters, terms, view, parts.analyser)
    if filters.narrow:
        return FilteredRetriever(tx, owner, place, filters, terms, any_of(terms), parts.analyser)
    return _FtsRetriever(parts, tx, owner, place, terms)


class _FtsRetriever:
    """Retriever for an unfiltered question in a table searched by the full-text index in the database."""

    def __init__(self, parts: Parts, tx: Tx, owner: IndexedTable, place: SearchScope, terms: Terms) -> None:
        self._parts, self._tx, self._place = parts, tx, place
        self._owner: IndexedTable = owner
        self._terms: Sequence[Sequence[str]] = terms

    @property
    def frequencies(self) -> Mapping[str, int]:
        """Return in how many rows, of any scope and state, each form occurs."""
        forms = [form for forms in self._terms for form in forms]
        return FullTextIndex(self._tx, self._parts.analyser, self._owner).frequencies(forms)

    def __len__(self) -> int:
        """Return how many rows there are, of any scope and state."""
        return number_of(self._tx, "memories.size" if self._owner == "memory" else "turns.count")

    def __bool__(self) -> bool:
        """Return True: an empty table is still a valid retriever."""
        return True

    @property
    def tokens(self) -> int:
        """Return how many tokens all rows are indexed under."""
        return FullTextIndex(self._tx, self._parts.analyser, self._owner).totals().tokens

    def by_words(self, limit: int) -> dict[str, float]:
        """Return the best rows by FTS5's own bm25()."""
        match, place = any_of(self._terms), self._place
        if not match:
            return {}
        where = {"project_id": place.project, "user_id": place.user, "everywhere": place.everywhere}
        query = "turns.best" if self._owner == "turn" else "memories.best"
        rows = self._tx.all(query, {**where, "match": match, "limit": limit})
        return {row["id"]: float(row["bm25"]) for row in rows}

    def by_meaning(self, meaning: VectorSearch, vector: Vector, limit: int) -> dict[str, float]:
        """Return the nearest rows in the groups of the place."""
        groups = groups_of(self._owner, self._place)
        if self._owner == "memory":
            return nearest_live_memories(self._tx, meaning.memory_index, vector, limit, groups)
        return {one.owner_id: one.cosine for one in meaning.turn_index.nearest(vector, limit, groups)}

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Return True: there is no filter, and neighbours are always of the same project."""
        del row
        return True


# The hybrid query: words and vectors mixed by the caller's alpha, over turns, memories, or both in one ranking.
#
# Each of the two searches contributes its best candidates. Both scores are then computed for every candidate: BM25 with
# the caller's k1 and b, and the cosine of the stored vectors. So the order does not depend on which search found a
# candidate. Neighbouring turns, times and speakers are not considered; `filrouge search` does that.

Rerank = Literal["none", "mmr"]

COLLECTIONS: Final[Mapping[str, tuple[IndexedTable, ...]]] = {
    "turns": ("turn",),
    "memories": ("memory",),
    "all": ("memory", "turn"),
}
#: Candidates from each search; more if more results are requested.
POOL: Final = 50
_POOL_PER_RESULT: Final = 2
#: Maximum number of characters of a query that are used.
LONGEST_QUERY: Final = 2000
_TEXTS: Final[Mapping[IndexedTable, str]] = {"turn": "turns.searched", "memory": "memories.searched"}


@dataclass(frozen=True, kw_only=True, slots=True)
class HybridQuery:
    """The parameters of a hybrid query; every value is checked on construction.

    Attributes:
        collection: `turns`, `memories` or `all`.
        where: the filter, with the names in `search.filters.NAMES`.
        alpha: 0 = words only, 1 = vectors only.
        score_threshold: minimum `score` of a hit; 0.3 to 0.5 is moderate, 0.7 and above is strict.
        min_relevance: minimum `relevance` of a hit.
        fusion: how the two scores are combined, see `search.ranking`.
        rerank: `mmr` moves hits that repeat a better hit further back.

    Raises:
        BadInput: a value is invalid; the message names it and the allowed values.
    """

    collection: str
    text: str
    n_results: int = 5
    where: Mapping[str, Any] | None = None
    alpha: float = 0.5
    score_threshold: float = 0.0
    okapi: Okapi = OKAPI
    min_relevance: float = 0.0
    fusion: Fusion = "convex"
    rerank: Rerank = "none"

    def __post_init__(self) -> None:
        _one_of("collection", self.collection, COLLECTIONS)
        _one_of("fusion", self.fusion, get_args(Fusion))
        _one_of("rerank", self.rerank, get_args(Rerank))
        if not self.text.strip():
            raise BadInput("query_text is empty.", remedy="Give it a few words.")
        if self.n_results < 1:
            raise BadInput(f"n_results must be at least 1, not {self.n_results}.", remedy="The default is 5.")
        for name in ("alpha", "score_threshold", "min_relevance"):
            value = getattr(self, name)
            if not 0.0 <= value <= 1.0:
                raise BadInput(f"{name} must lie in [0, 1], not {value}.", remedy="Leave it out for the default.")


def okapi_of(k1: float, b: float) -> Okapi:
    """Return the BM25 parameters for k1 and b.

    Raises:
        BadInput: a value is out of its range.
    """
    try:
        return Okapi(k1=k1, b=b)
    except ValueError as error:
        raise BadInput(f"{error}.", remedy="The defaults are 1.5 and 0.75.") from None


def hybrid_query(parts: Parts, tx: Tx, query: HybridQuery) -> Ranking:
    """Rank a collection for a query; without an embedder only words are searched, and a notice says so.

    Raises:
        BadInput: the filter has an unknown field or value.
        NotFound: the filter names a project that does not exist.
        EmbedderUnavailable: alpha is 1 and the embedder is not available.
    """
    with parts.metrics.search() as found:
        found.append(_queried(parts, tx, query))
    return found[0]


def _queried(parts: Parts, tx: Tx, query: HybridQuery) -> Ranking:
    filters, named = parse_filters(query.where)
    place = SearchScope(project=project_id(tx, [named] if named else []), user=LOCAL_USER, everywhere=named is None)
    meaning, text = parts.vectors, query.text[:LONGEST_QUERY]
    vector, notices = meaning.question(text) if query.alpha > 0 else (None, ())
    if vector is None and query.alpha == 1:
        raise EmbedderUnavailable(
            "Vector search is not possible: the embedding model is not available.",
            remedy="Search words with alpha=0; `filrouge doctor` says what is wrong with the model.",
        )
    search = _Search(parts, tx, meaning, query, parts.analyser.terms(text), vector)
    for owner in COLLECTIONS[query.collection]:
        search.look_into(owner, place, filters)
    hits = search.hits()
    if query.rerank == "mmr":
        hits = diverse(hits, search.middles(), query.n_results, similarity=meaning.space.calibrated)
    return Ranking(query=query.text, hits=tuple(hits[: query.n_results]), notices=notices, known=search.known)


class _Search:
    """Collects the candidates of one query and their scores, table by table."""

    def __init__(
        self,
        parts: Parts,
        tx: Tx,
        meaning: VectorSearch,
        query: HybridQuery,
        terms: Sequence[Sequence[str]],
        vector: Vector | None,
    ) -> None:
        self._parts, self._tx, self._meaning, self._query = parts, tx, meaning, query
        self._terms = terms
        self._vector = vector
        self._pool = max(POOL, _POOL_PER_RESULT * query.n_results)
        self._tokens = dict[str, list[str]]()
        self._windows = dict[str, Vectors]()
        self._items = dict[str, Memory | Turn]()
        self._frequencies = Counter[str]()
        self._rows = self._length = 0
        self.known = 0.0

    def look_into(self, owner: IndexedTable, place: SearchScope, filters: Filters) -> None:
        """Add the candidates of one table, with its word frequencies and row lengths."""
        searched = retriever_for(self._parts, self._tx, owner, place, filters, self._terms)
        words = searched.by_words(self._pool) if self._query.alpha < 1 else {}
        near = searched.by_meaning(self._meaning, self._vector, self._pool) if self._vector is not None else {}
        items = self._read(owner, [*words, *near])
        ids = [id_ for id_, item in items.items() if filters.narrow or isinstance(item, Turn) or item.state == "live"]
        self._items |= {id_: items[id_] for id_ in ids}
        self._tokens |= {id_: list[str]() for id_ in ids}
        for row in self._tx.all(_TEXTS[owner], {"ids": json.dumps(ids)}):
            self._tokens[row["id"]] = self._parts.analyser.tokens(row["text"]).split()
        if self._vector is not None or self._query.rerank == "mmr":
            self._windows |= StoredVectors(self._tx).some(owner, ids, self._meaning.space.id)
        self._frequencies.update(searched.frequencies)
        self._rows += len(searched)
        self._length += searched.tokens

    def hits(self) -> Sequence[Hit]:
        """Return the candidates that pass both thresholds, best first."""
        query = self._query
        collection = Collection_fusion(
            rows=self._rows, mean=self._length / self._rows if self._rows else 0.0, frequencies=self._frequencies
        )
        lexical = bm25(self._terms, self._tokens, collection, query.okapi)
        cosines = self._cosines()
        alpha = query.alpha if self._vector is not None else 0.0
        found = self._judged(fused(lexical, cosines, alpha=alpha, fusion=query.fusion), cosines)
        scored = [hit for hit in found if hit.score >= query.score_threshold]
        kept = [hit for hit in scored if hit.relevance >= query.min_relevance]
        self._parts.metrics.count_filtered("below_threshold", len(found) - len(scored))
        self._parts.metrics.count_filtered("below_relevance", len(scored) - len(kept))
        return kept

    def middles(self) -> dict[str, Vector]:
        """Return one unit vector for each candidate that has vectors: the mean of its windows."""
        means = {id_: windows.mean(axis=0) for id_, windows in self._windows.items()}
        return {id_: mean / max(float(mean @ mean) ** 0.5, 1e-9) for id_, mean in means.items()}

    def _read(self, owner: IndexedTable, ids: Sequence[str]) -> Mapping[str, Memory | Turn]:
        once = list(dict.fromkeys(ids))
        turns = owner == "turn"
        found = self._parts.turns(self._tx).get(once) if turns else self._parts.memories(self._tx).known(once)
        return {item.id: item for item in found}

    def _cosines(self) -> dict[str, float]:
        if self._vector is None:
            return {}
        return {id_: float((windows @ self._vector).max()) for id_, windows in self._windows.items()}

    def _judged(self, ordered: Sequence[Fused], cosines: Mapping[str, float]) -> list[Hit]:
        questioned = WeightedQuestion(self._terms, self._frequencies, self._rows)
        parts = shares([ALONE_WORDS * one.bm25_score + ALONE_MEANING * one.vector_score for one in ordered])
        matched = [questioned.matched(frozenset(self._tokens[one.id])) for one in ordered]
        space = self._meaning.space
        signs = [
            standalone_features(
                questioned,
                words,
                similarity=space.calibrated_to_question(cosines[one.id]) if one.id in cosines else None,
                share=part,
            )
            for one, words, part in zip(ordered, matched, parts, strict=True)
        ]
        by_meaning = self._vector is not None and space.is_measured
        chances, self.known = judged(questioned, signs, matched, by_meaning=by_meaning)
        return [
            Hit(
                item=self._items[one.id],
                bm25_score=one.bm25_score,
                vector_score=one.vector_score,
                score=one.score,
                similarity=sign.similarity if one.id in cosines else None,
                coverage=sign.covered,
                relevance=chance,
                boosts=(("words", one.words), ("meaning", one.meaning)),
            )
            for one, sign, chance in zip(ordered, signs, chances, strict=True)
        ]


def _one_of(name: str, value: str, known: Iterable[str]) -> None:
    if value not in known:
        raise BadInput(f"There is no {name} {value!r}.", remedy=f"There are: {', '.join(known)}.")
