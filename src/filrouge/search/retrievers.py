"""Retrievers of candidates by words and by vectors, need vectors of memories, and the hybrid query of the API.

A retriever returns the candidates of one question from one table, and how rare the question's words are there. There
are three, chosen by `retriever_for`, and ranking does not depend on which one is used:

- a small table without a filter: the full-text index in the database (`_FtsRetriever`),
- a small filtered table, or a filter that the word index does not support: the passing rows are counted
  (`FilteredRetriever`),
- a large table, filtered or not: the word index (`IndexRetriever`).

A background job computes the need vectors that retrieval for a prompt reads. The hybrid query mixes words and vectors
as the caller specifies, within a filter given as a mapping of names to values (`search.filters`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, Final, Literal, Protocol, get_args

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from filrouge.capture.models import Turn
from filrouge.core.errors import BadInput, EmbedderUnavailable
from filrouge.core.protocols import Analyser, Tx, Vector, VectorIndex, Vectors, WordSnapshot
from filrouge.core.rows import number_of
from filrouge.core.scope import LOCAL_USER
from filrouge.memories.models import SUMS, Filters, Memory
from filrouge.projects.repository import project_id
from filrouge.providers.models import Nearest
from filrouge.runtime.jobs import JobResult, Jobs
from filrouge.runtime.services import Parts
from filrouge.search.analyser import Terms, any_of, common_times
from filrouge.search.filters import is_indexed, parse_filters
from filrouge.search.models import Hit, IndexedTable, Ranking, Selection, WordCounts
from filrouge.search.ranking import (
    BACKEND_OKAPI,
    USUAL_OKAPI,
    CollectionStatistics,
    Fused,
    Fusion,
    Okapi,
    WeightedQuestion,
    bm25,
    bm25_of_counts,
    diverse,
    fuse_scores,
    judge_relevance,
    softmax,
    standalone_features,
)
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
    build_selection,
    passes,
)
from filrouge.search.vector_search import VectorSearch
from filrouge.search.weights import ALONE_MEANING, ALONE_WORDS

# The memories nearest to a text, and the need vectors of memories.
#
# One background job computes need vectors; retrieval for a prompt reads them. A need vector is what prompts that need
# the memory are matched against.

_BATCH_SIZE: Final = 32
#: How many missing need vectors of new memories a prompt computes itself, at about 8 ms each.
_MAX_COMPUTED_FOR_A_PROMPT: Final = 6


def queue_need_vectors(tx: Tx, vectors: VectorSearch, at: datetime) -> None:
    """Queue the job that computes missing need vectors, if the embedder has a model for what prompts need."""
    if _revision(vectors):
        Jobs(tx).enqueue(NEED_VECTORS_JOB, {"after": 0}, dedupe=NEED_VECTORS_JOB, at=at)


def resume_need_vectors(parts: Parts) -> None:
    """Queue need vectors that an earlier run or an earlier version of the daemon left missing."""
    vectors = parts.vectors
    revision = _revision(vectors)
    if revision and parts.readers.here(lambda tx: NeedVectors(tx).missing(revision, 1)):
        parts.writer.run(lambda tx: queue_need_vectors(tx, vectors, parts.clock.now()))


def make_need_vectors(parts: Parts, payload: Mapping[str, Any]) -> JobResult:
    """Job handler: compute need vectors for some of the memories that lack them.

    Raises:
        EmbedderUnavailable: the model cannot be used; the job is tried again.
    """
    vectors, after = parts.vectors, int(payload["after"])
    revision = _revision(vectors)

    def read(tx: Tx) -> tuple[list[MissingNeedVector], list[StatementInContext]]:
        missing = NeedVectors(tx).missing(revision, _BATCH_SIZE, after=after) if revision else []
        return missing, NeedVectors(tx).in_context([memory.id for memory in missing])

    missing, statements = parts.readers.here(read)
    if not missing:
        return JobResult(write=lambda _: None)
    encoded = _encode_needs(vectors, statements)
    return JobResult(
        write=lambda tx: NeedVectors(tx).put(revision, encoded),
        again=lambda: {"after": missing[-1].seq},
    )


def need_vectors(tx: Tx, vectors: VectorSearch, ids: Collection[str]) -> dict[str, Vector]:
    """Return the need vectors of these memories; if only a few are missing, compute those immediately."""
    revision = _revision(vectors)
    found = NeedVectors(tx).some(ids, revision)
    missing = [id_ for id_ in ids if id_ not in found]
    if 0 < len(missing) <= _MAX_COMPUTED_FOR_A_PROMPT:
        statements = NeedVectors(tx).in_context(missing)
        found |= {statement.memory_id: vector for statement, vector in encode_needs(vectors, statements)}
    return found


def stored_need_vectors(tx: Tx, vectors: VectorSearch, ids: Collection[str]) -> dict[str, Vector]:
    """Return the need vectors of those of these memories that have one."""
    return NeedVectors(tx).some(ids, _revision(vectors))


def store_need_vector(tx: Tx, vectors: VectorSearch, statement: StatementInContext, vector: Vector) -> None:
    """Store the need vector of a memory."""
    NeedVectors(tx).put(_revision(vectors), [(statement, vector)])


def _revision(vectors: VectorSearch) -> str:
    return vectors.for_prompts.need_revision if vectors.for_prompts else ""


def encode_needs(
    vectors: VectorSearch, statements: Sequence[StatementInContext]
) -> list[tuple[StatementInContext, Vector]]:
    """Return the need vectors of statements; an empty list if the embedder is unavailable or has no model for need."""
    try:
        return _encode_needs(vectors, statements)
    except EmbedderUnavailable:
        return []


def _encode_needs(
    vectors: VectorSearch, statements: Sequence[StatementInContext]
) -> list[tuple[StatementInContext, Vector]]:
    if vectors.for_prompts is None or not statements:
        return []
    encoded = vectors.for_prompts.need_vectors([(statement.before, statement.text) for statement in statements])
    return [] if encoded is None else list(zip(statements, encoded, strict=True))


# Nearest memories, without summaries (kinds in `SUMS`). Summaries repeat other memories and would displace them. They
# have vectors for queries that request their kind.

#: Factor by which the search is widened when too few results remain.
_WIDENING: Final = 4


def nearest_live_memories(
    tx: Tx, index: VectorIndex, vector: Vector, limit: int, groups: frozenset[str] | None
) -> dict[str, float]:
    """Return the nearest memories in these groups with their cosines, best first, by id; None = all groups."""
    count = limit
    while True:
        nearest = index.nearest(vector, count, groups)
        ids = [neighbour.owner_id for neighbour in nearest]
        summaries = {row["id"] for row in tx.all("memories.sums", {"ids": json.dumps(ids)})}
        cosines = {neighbour.owner_id: neighbour.cosine for neighbour in nearest if neighbour.owner_id not in summaries}
        if len(cosines) >= limit or len(nearest) < count:
            return dict(list(cosines.items())[:limit])
        count *= _WIDENING


# Filtered retrieval: both searches run over the rows that pass the filter, and are cut only afterwards.


class TableQuestion(Struct, frozen=True, kw_only=True):
    """What one question asks of one table.

    Attributes:
        tx: the transaction that everything is read in.
        owner: the table.
        scope: whose rows are searched, and in which projects.
        filters: further conditions on the rows.
        terms: the words to find, each with the forms it may be indexed under.
    """

    tx: Tx
    owner: IndexedTable
    scope: SearchScope
    filters: Filters
    terms: Terms


class _TableRetriever:
    """The base class of all retrievers."""

    def __init__(self, question: TableQuestion) -> None:
        self._tx, self._scope, self._terms = question.tx, question.scope, question.terms
        self._owner: IndexedTable = question.owner

    def __bool__(self) -> bool:
        """Return True: a retriever without rows is still valid."""
        return True


class FilteredRetriever(_TableRetriever):
    """Retriever for a filtered question without a word index: reads the rows that pass the filter."""

    def __init__(self, question: TableQuestion, analyser: Analyser) -> None:
        super().__init__(question)
        self._passing = FilteredRows(self._tx, self._owner, self._scope, question.filters)
        forms = [form for forms in self._terms for form in forms]
        match = any_of(self._terms)
        if set(SUMS) & set(question.filters.kinds):
            self._count_summaries(forms, analyser)
        else:
            self._lengths = self._passing.lengths
            self._matching = self._passing.matching(match) if match else []
            self._counts = self._passing.counts(forms, self._matching, analyser)
        having = {form: sum(form in row for row in self._counts.values()) for form in forms}
        self.frequencies: Mapping[str, int] = {form: count for form, count in having.items() if count}

    def __len__(self) -> int:
        """Return how many items pass the filter."""
        return len(self._passing)

    @property
    def total_tokens(self) -> int:
        """Return how many tokens the passing rows are indexed under."""
        return sum(self._lengths.values())

    def passes_filter(self, row: Mapping[str, Any]) -> bool:
        """Return True if this row of the table passes the filter."""
        return row["id"] in self._passing.ids

    def by_words(self, limit: int) -> dict[str, float]:
        """Return the best rows by full text; BM25 statistics come from the passing rows only."""
        lengths = self._lengths
        mean = sum(lengths.values()) / len(lengths) if lengths else 0.0
        collection = CollectionStatistics(rows=len(lengths), mean=mean, frequencies=self.frequencies, is_floored=True)
        scores = bm25_of_counts(self._terms, self._counts, lengths, collection, BACKEND_OKAPI)
        return _best({id_: scores.get(id_, 0.0) for id_ in self._matching}, limit)

    def by_meaning(self, vectors: VectorSearch, vector: Vector, limit: int) -> dict[str, float]:
        """Return the nearest rows by vector; memories that have left the vector index are read from the store."""
        index = vectors.memory_index if self._owner == "memory" else vectors.turn_index
        nearest = index.nearest(vector, limit, None, self._passing.numbers)
        found = _cosines(nearest)
        stored = StoredVectors(self._tx).some(self._owner, self._passing.ended, vectors.space.id)
        found |= {id_: float((windows @ vector).max()) for id_, windows in stored.items()}
        return _best(found, limit)

    def _count_summaries(self, forms: Sequence[str], analyser: Analyser) -> None:
        """Compute tokens from the texts of the rows, because summaries (`SUMS`) are not in the full-text index."""
        rows = self._tx.all("memories.searched", {"ids": json.dumps(sorted(self._passing.ids))})
        tokens = {row["id"]: Counter(analyser.tokens(row["text"]).split()) for row in rows}
        self._lengths = {id_: counts.total() for id_, counts in tokens.items()}
        found = {id_: {form: counts[form] for form in forms if form in counts} for id_, counts in tokens.items()}
        self._counts = {id_: counts for id_, counts in found.items() if counts}
        self._matching = list(self._counts)


def _cosines(nearest: Iterable[Nearest]) -> dict[str, float]:
    return {neighbour.owner_id: neighbour.cosine for neighbour in nearest}


def _best(found: Mapping[str, float], limit: int) -> dict[str, float]:
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0]))[:limit])


# Retrieval from a large table: the word index for the rows it holds, the store for rows that came later.
#
# Statistics of a filtered question (rows that pass, rows per word) are counted within the filter. Rows of about the
# last second, and memories that changed in it, are found by the store's full text and scored by the same formula.

#: A filter is applied to the vector index in one of two ways. Giving the index the numbers of the rows that pass costs
#: 0.2 µs for each of them. Searching without the filter costs as much for each neighbour that is then discarded. Both
#: take equally long where the square of the number of passing rows is this many times the index size: at 25,000 of
#: 100,000 rows, and at 80,000 of a million.
_BREAK_EVEN: Final = 6000
#: Extra candidates to fetch where candidates are rescored.
_EXTRA_CANDIDATES: Final = 20
_NOTHING: Final = WordCounts(rows=0, tokens=0, having={})


class IndexRetriever(_TableRetriever):
    """Retriever for one question in a table that has a word index."""

    def __init__(self, question: TableQuestion, snapshot: WordSnapshot, analyser: Analyser) -> None:
        super().__init__(question)
        self._filters = question.filters
        self._snapshot, self._analyser = snapshot, analyser
        self._is_narrow = self._filters.narrow  # read for every neighbour
        self._rows = WordRows(self._tx, self._owner)
        newest = self._rows.newest()
        changed = self._rows.changed(snapshot.mark.change, newest.change)
        self._selection = build_selection(self._owner, self._scope, self._filters)
        is_behind = bool(changed) or newest.row > snapshot.mark.row
        self._fresh = (
            self._rows.new_or_changed(snapshot.mark.row, changed, self._selection)
            if self._selection and is_behind
            else {}
        )
        self._indexed = replace(self._selection, without=changed) if self._selection else None
        self._fresh_tokens = self._tokens_of_fresh(changed)

    def __len__(self) -> int:
        """Return how many rows the word statistics cover: those that pass the filter, or all without a filter."""
        return self._counts.rows

    @property
    def frequencies(self) -> Mapping[str, int]:
        """Return in how many of these rows each form occurs."""
        return self._counts.having

    @property
    def total_tokens(self) -> int:
        """Return how many tokens these rows are indexed under."""
        return self._counts.tokens

    def passes_filter(self, row: Mapping[str, Any]) -> bool:
        """Return True if a row of the table `turns` passes the filter; neighbours are always of the same project."""
        if self._selection is None or not self._is_narrow:
            return self._selection is not None
        return passes({**row, "agent": row["agent"] or row["channel"], "begins": row["at"]}, self._selection)

    def by_words(self, limit: int) -> dict[str, float]:
        """Return the best rows by BM25; for a filtered question, rarity is counted within the filter."""
        if self._indexed is None:
            return {}
        rarity = {form: self._collection.rarity(form) for form in self.frequencies} if self._filters.narrow else None
        extra = _EXTRA_CANDIDATES if _restricts_visibility(self._filters) else 0
        found = self._snapshot.best(self._terms, self._indexed, limit + extra, rarity)
        if _restricts_visibility(self._filters):
            texts = self._rows.texts(found)
            found = self._scored({number: self._analyser.tokens(text).split() for number, text in texts.items()})
        found |= self._scored(self._fresh_tokens)
        best = sorted(found.items(), key=lambda item: (-item[1], item[0]))[:limit]
        ids = self._rows.ids([number for number, _ in best])
        return {ids[number]: score for number, score in best if number in ids}

    def by_meaning(self, vectors: VectorSearch, vector: Vector, limit: int) -> dict[str, float]:
        """Return the nearest passing rows by vector."""
        index = vectors.memory_index if self._owner == "memory" else vectors.turn_index
        groups = groups_of(self._owner, self._scope)
        if not self._filters.narrow and self._owner == "memory":
            return nearest_live_memories(self._tx, index, vector, limit, groups)
        if not self._filters.narrow:
            return _cosines(index.nearest(vector, limit, groups))
        if self._indexed is None or self._selection is None:
            return {}
        passing, found = self._counts.rows, dict[str, float]()
        if passing * passing <= _BREAK_EVEN * len(index):
            numbers = np.append(self._snapshot.numbers(self._indexed, passing), list(self._fresh)).astype(np.int64)
            found = _cosines(index.nearest(vector, limit, groups, numbers))
        else:
            count, enough = limit + limit * len(index) // passing, False
            while not enough:
                nearest = index.nearest(vector, count, groups)
                allowed = self._rows.passing([neighbour.owner_id for neighbour in nearest], self._selection)
                found = {id_: cosine for id_, cosine in _cosines(nearest).items() if id_ in allowed}
                enough = len(found) >= limit or len(nearest) < count
                count *= 2
        if self._filters.as_of:
            found |= self._ended(self._indexed, vectors, vector)
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0]))[:limit])

    def _ended(self, selection: Selection, vectors: VectorSearch, vector: Vector) -> dict[str, float]:
        """Return memories that were valid at `as_of` and have ended since; the vector index no longer holds them."""
        states = frozenset({"state:superseded", "state:binned"})
        ended = replace(selection, labels=(*selection.labels, states))
        numbers = self._snapshot.numbers(ended, self._counts.rows or 1)
        ids = [*self._rows.ids(numbers.tolist()).values(), *self._fresh.values()]
        stored = StoredVectors(self._tx).some(self._owner, ids, vectors.space.id)
        return {id_: float((windows @ vector).max()) for id_, windows in stored.items()}

    @cached_property
    def _counts(self) -> WordCounts:
        forms = list(dict.fromkeys(form for forms in self._terms for form in forms))
        if self._filters.narrow:
            indexed = self._snapshot.counted(forms, self._indexed) if self._indexed else _NOTHING
        else:
            indexed = self._snapshot.counted(forms, None)
        fresh = self._fresh_tokens.values()
        having = {form: indexed.having.get(form, 0) + sum(form in tokens for tokens in fresh) for form in forms}
        tokens = indexed.tokens + sum(map(len, fresh))
        # New rows without any of the words are counted without reading them; they get the mean length.
        unread = (len(self._fresh) - len(fresh)) * (tokens // max(1, indexed.rows + len(fresh)))
        having = {form: count for form, count in having.items() if count}
        return WordCounts(rows=indexed.rows + len(self._fresh), tokens=tokens + unread, having=having)

    @cached_property
    def _collection(self) -> CollectionStatistics:
        counts = self._counts
        return CollectionStatistics(rows=counts.rows, mean=counts.mean, frequencies=counts.having)

    def _scored(self, rows: Mapping[int, Sequence[str]]) -> dict[int, float]:
        by_id = {str(number): tokens for number, tokens in rows.items()}
        return {int(id_): score for id_, score in bm25(self._terms, by_id, self._collection, BACKEND_OKAPI).items()}

    def _tokens_of_fresh(self, changed: frozenset[int]) -> dict[int, list[str]]:
        """Return the tokens of the new or changed rows that contain a word of the question."""
        match = any_of(self._terms)
        if not match or not self._fresh:
            return {}
        matching = {*self._rows.matching_after(match, self._snapshot.mark.row), *changed} & self._fresh.keys()
        question_forms = {form for forms in self._terms for form in forms}
        texts = self._rows.texts(matching)
        tokens = {number: self._analyser.tokens(text).split() for number, text in texts.items()}
        return {
            number: forms
            for number, forms in tokens.items()
            if number not in changed or not question_forms.isdisjoint(forms)
        }


def groups_of(owner: IndexedTable, scope: SearchScope) -> frozenset[str] | None:
    """Return the groups of a vector index that belong to a scope; None = all."""
    if scope.everywhere:
        return None
    return frozenset({scope.project or ""} if owner == "turn" else {scope.project or "", f"user:{scope.user}"})


def _restricts_visibility(filters: Filters) -> bool:
    """Return True if the filter restricts what the caller may see.

    The scores then use no statistic of other rows, not even their length. Other questions use the mean row length of
    the whole index.
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
    def total_tokens(self) -> int:
        """Return how many tokens these rows are indexed under, in total."""
        ...

    def by_words(self, limit: int) -> dict[str, float]:
        """Return the best rows by full text with their scores, best first, by id."""
        ...

    def by_meaning(self, vectors: VectorSearch, vector: Vector, limit: int) -> dict[str, float]:
        """Return the nearest rows by vector with their cosines, best first, by id."""
        ...

    def passes_filter(self, row: Mapping[str, Any]) -> bool:
        """Return True if a row of the table `turns` passes the filter."""
        ...


def retriever_for(
    parts: Parts, tx: Tx, owner: IndexedTable, scope: SearchScope, filters: Filters, terms: Terms
) -> Retriever:
    """Return the retriever for a question with these terms."""
    snapshot = parts.words.view(tx, owner)
    question = TableQuestion(tx=tx, owner=owner, scope=scope, filters=filters, terms=terms)
    # A word index holds no summaries, and few rows pass a filter that it cannot apply.
    if snapshot and not set(SUMS) & set(filters.kinds) and is_indexed(filters):
        return IndexRetriever(question, snapshot, parts.analyser)
    if filters.narrow:
        return FilteredRetriever(question, parts.analyser)
    return _FtsRetriever(question, parts.analyser)


class _FtsRetriever(_TableRetriever):
    """Retriever for an unfiltered question in a table searched by the full-text index in the database."""

    def __init__(self, question: TableQuestion, analyser: Analyser) -> None:
        super().__init__(question)
        self._analyser = analyser

    @property
    def frequencies(self) -> Mapping[str, int]:
        """Return in how many rows, of any scope and state, each form occurs."""
        forms = [form for forms in self._terms for form in forms]
        return FullTextIndex(self._tx, self._analyser, self._owner).frequencies(forms)

    def __len__(self) -> int:
        """Return how many rows there are, of any scope and state."""
        return number_of(self._tx, "memories.size" if self._owner == "memory" else "turns.count")

    @property
    def total_tokens(self) -> int:
        """Return how many tokens all rows are indexed under."""
        return FullTextIndex(self._tx, self._analyser, self._owner).totals().tokens

    def by_words(self, limit: int) -> dict[str, float]:
        """Return the best rows by FTS5's own bm25()."""
        match, scope = any_of(self._terms), self._scope
        if not match:
            return {}
        where = {"project_id": scope.project, "user_id": scope.user, "everywhere": scope.everywhere}
        query = "turns.best" if self._owner == "turn" else "memories.best"
        rows = self._tx.all(query, {**where, "match": match, "limit": limit})
        times = common_times(self._terms)
        return {row["id"]: times * float(row["bm25"]) for row in rows}

    def by_meaning(self, vectors: VectorSearch, vector: Vector, limit: int) -> dict[str, float]:
        """Return the nearest rows in the groups of the scope."""
        groups = groups_of(self._owner, self._scope)
        if self._owner == "memory":
            return nearest_live_memories(self._tx, vectors.memory_index, vector, limit, groups)
        return _cosines(vectors.turn_index.nearest(vector, limit, groups))

    def passes_filter(self, row: Mapping[str, Any]) -> bool:
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
MAX_QUERY_CHARACTERS: Final = 2000
_TEXTS: Final[Mapping[IndexedTable, str]] = {"turn": "turns.searched", "memory": "memories.searched"}


class HybridQuery(Struct, frozen=True, kw_only=True):
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
    okapi: Okapi = USUAL_OKAPI
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
        found.append(_answer(parts, tx, query))
    return found[0]


def _answer(parts: Parts, tx: Tx, query: HybridQuery) -> Ranking:
    filters, project = parse_filters(query.where)
    scope = SearchScope(
        project=project_id(tx, [project] if project else []), user=LOCAL_USER, everywhere=project is None
    )
    vectors, text = parts.vectors, query.text[:MAX_QUERY_CHARACTERS]
    vector, notices = vectors.question(text) if query.alpha > 0 else (None, ())
    if vector is None and query.alpha == 1:
        raise EmbedderUnavailable(
            "Vector search is not possible: the embedding model is not available.",
            remedy="Search words with alpha=0; `filrouge doctor` says what is wrong with the model.",
        )
    search = _Search(parts, tx, vectors, query, parts.analyser.terms(text), vector)
    for owner in COLLECTIONS[query.collection]:
        search.add_table(owner, scope, filters)
    hits = search.hits()
    if query.rerank == "mmr":
        hits = diverse(hits, search.mean_vectors(), query.n_results, similarity=vectors.space.calibrated)
    return Ranking(query=query.text, hits=tuple(hits[: query.n_results]), notices=notices, known=search.known)


class _Search:
    """Collects the candidates of one query and their scores, table by table."""

    def __init__(
        self,
        parts: Parts,
        tx: Tx,
        vectors: VectorSearch,
        query: HybridQuery,
        terms: Sequence[Sequence[str]],
        vector: Vector | None,
    ) -> None:
        self._parts, self._tx, self._vectors, self._query = parts, tx, vectors, query
        self._terms = terms
        self._vector = vector
        self._pool = max(POOL, _POOL_PER_RESULT * query.n_results)
        self._tokens = dict[str, list[str]]()
        self._windows = dict[str, Vectors]()
        self._items = dict[str, Memory | Turn]()
        self._frequencies = Counter[str]()
        self._rows = self._length = 0
        self.known = 0.0

    def add_table(self, owner: IndexedTable, scope: SearchScope, filters: Filters) -> None:
        """Add the candidates of one table, with its word frequencies and row lengths."""
        retriever = retriever_for(self._parts, self._tx, owner, scope, filters, self._terms)
        words = retriever.by_words(self._pool) if self._query.alpha < 1 else {}
        nearest = retriever.by_meaning(self._vectors, self._vector, self._pool) if self._vector is not None else {}
        items = self._read(owner, [*words, *nearest])
        ids = [id_ for id_, item in items.items() if filters.narrow or isinstance(item, Turn) or item.state == "live"]
        self._items |= {id_: items[id_] for id_ in ids}
        self._tokens |= {id_: list[str]() for id_ in ids}
        for row in self._tx.all(_TEXTS[owner], {"ids": json.dumps(ids)}):
            self._tokens[row["id"]] = self._parts.analyser.tokens(row["text"]).split()
        if self._vector is not None or self._query.rerank == "mmr":
            self._windows |= StoredVectors(self._tx).some(owner, ids, self._vectors.space.id)
        self._frequencies.update(retriever.frequencies)
        self._rows += len(retriever)
        self._length += retriever.total_tokens

    def hits(self) -> Sequence[Hit]:
        """Return the candidates that pass both thresholds, best first."""
        query = self._query
        collection = CollectionStatistics(
            rows=self._rows, mean=self._length / self._rows if self._rows else 0.0, frequencies=self._frequencies
        )
        lexical = bm25(self._terms, self._tokens, collection, query.okapi)
        cosines = self._cosines()
        alpha = query.alpha if self._vector is not None else 0.0
        found = self._build_hits(fuse_scores(lexical, cosines, alpha=alpha, fusion=query.fusion), cosines)
        scored = [hit for hit in found if hit.score >= query.score_threshold]
        relevant = [hit for hit in scored if hit.relevance >= query.min_relevance]
        self._parts.metrics.count_filtered("below_threshold", len(found) - len(scored))
        self._parts.metrics.count_filtered("below_relevance", len(scored) - len(relevant))
        return relevant

    def mean_vectors(self) -> dict[str, Vector]:
        """Return one unit vector for each candidate that has vectors: the mean of its windows."""
        means = {id_: windows.mean(axis=0) for id_, windows in self._windows.items()}
        return {id_: mean / max(float(mean @ mean) ** 0.5, 1e-9) for id_, mean in means.items()}

    def _read(self, owner: IndexedTable, ids: Sequence[str]) -> Mapping[str, Memory | Turn]:
        unique_ids = list(dict.fromkeys(ids))
        turns = owner == "turn"
        found = (
            self._parts.turns(self._tx).get(unique_ids) if turns else self._parts.memories(self._tx).known(unique_ids)
        )
        return {item.id: item for item in found}

    def _cosines(self) -> dict[str, float]:
        if self._vector is None:
            return {}
        return {id_: float((windows @ self._vector).max()) for id_, windows in self._windows.items()}

    def _build_hits(self, candidates: Sequence[Fused], cosines: Mapping[str, float]) -> list[Hit]:
        weighted_question = WeightedQuestion(self._terms, self._frequencies, self._rows)
        shares = softmax(
            [ALONE_WORDS * candidate.bm25_score + ALONE_MEANING * candidate.vector_score for candidate in candidates]
        )
        matched = [weighted_question.matched(frozenset(self._tokens[candidate.id])) for candidate in candidates]
        space = self._vectors.space
        features = [
            standalone_features(
                weighted_question,
                matched_words,
                similarity=space.calibrated_to_question(cosines[candidate.id]) if candidate.id in cosines else None,
                share=share,
            )
            for candidate, matched_words, share in zip(candidates, matched, shares, strict=True)
        ]
        by_meaning = self._vector is not None and space.is_measured
        probabilities, self.known = judge_relevance(weighted_question, features, matched, by_meaning=by_meaning)
        return [
            Hit(
                item=self._items[candidate.id],
                bm25_score=candidate.bm25_score,
                vector_score=candidate.vector_score,
                score=candidate.score,
                similarity=candidate_features.similarity if candidate.id in cosines else None,
                coverage=candidate_features.covered,
                relevance=probability,
                boosts=(("words", candidate.words), ("meaning", candidate.meaning)),
            )
            for candidate, candidate_features, probability in zip(candidates, features, probabilities, strict=True)
        ]


def _one_of(name: str, value: str, choices: Iterable[str]) -> None:
    if value not in choices:
        raise BadInput(f"There is no {name} {value!r}.", remedy=f"There are: {', '.join(choices)}.")
