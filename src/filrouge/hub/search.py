"""Search over the live memories of a tenant, by words and by meaning, within one transaction of one member.

Words: a version is stored with the tokens of the analyser. A question reads the memories of its rarest words, up to a
budget, and BM25 scores the best of them over all its words. How rare a word is, the tenant's own counts say.
Meaning: few vectors are compared one by one; many are searched by HNSW, where it would read fewer of them. HNSW filters
what it finds, so it can find too little; the vectors are then compared one by one after all. Both results are ranked
as the local search ranks memories (`search.ranking.rank`).

A memory that a live one supersedes is not found, nor the losing side of a settled conflict.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cache
from itertools import combinations
from typing import Annotated, Any, Final, LiteralString

from msgspec import Struct
from msgspec.structs import replace
from pgvector import HalfVector
from psycopg import sql
from pydantic import AwareDatetime, Field

from filrouge.core.clock import Clock
from filrouge.core.protocols import Analyser, Vector
from filrouge.core.scope import Scope
from filrouge.hub.database import Connection, Session
from filrouge.hub.models import SharedKind, Value
from filrouge.memories.models import Memory
from filrouge.providers.models import EmbeddingSpace
from filrouge.search.analyser import TextAnalyser
from filrouge.search.models import Ranking
from filrouge.search.ranking import (
    BACKEND_OKAPI,
    Bridging,
    CollectionStatistics,
    QuestionWords,
    RetrievedMemory,
    WeightedQuestion,
    bm25_of_counts,
    rank,
    rarity,
)

MAX_QUERY_CHARS: Final = 2000
MAX_RESULTS: Final = 50
#: Memories of each kind of search that are ranked together.
_RANKED: Final = 50
#: Words beyond `max_read` from which pairs are formed: two frequent words are rare together.
_PAIRED: Final = 3
#: A tsvector stores positions up to this one.
_MAX_TOKENS: Final = 16_383
_TRUST_OF_COLLEAGUE: Final = 1
#: Dimensions that have an index (`0002_search.sql`).
_INDEXED_DIMENSIONS: Final = (384, 768, 1024, 1536, 3072)


class SearchOptions(Struct, frozen=True, kw_only=True):
    """How much a search reads, and from where on it uses which index.

    Attributes:
        max_read: about how many memories a question reads by their words. Reading one took 7 µs where the table did
            not fit into the server's memory.
        max_scored: how many of them BM25 scores.
        exact_below: up to this many memories that pass the filters, vectors are compared one by one.
        visit: to visit a vector by HNSW takes as long as to compare this many one by one.
        breadth: how many memories that pass HNSW looks for, of which the nearest are taken; more find better and take
            longer.
        max_scanned: how many vectors HNSW may visit for a filter before it gives up.
    """

    max_read: int = 3_000
    max_scored: int = 200
    exact_below: int = 20_000
    visit: int = 10
    breadth: int = 500
    max_scanned: int = 20_000


Name = Annotated[str, Field(max_length=500, pattern=r"^[^\x00]*$")]
"""The name of a project or a member; PostgreSQL stores no NUL."""


class Question(Value):
    """A question of an agent, and the filters that a memory must pass; an empty filter passes all."""

    query: Annotated[str, Field(min_length=1, max_length=MAX_QUERY_CHARS)]
    projects: Annotated[tuple[Name, ...], Field(max_length=50)] = ()
    kinds: Annotated[tuple[SharedKind, ...], Field(max_length=10)] = ()
    author: Annotated[Name, Field(description="The name of a member, or their id.")] = ""
    since: Annotated[AwareDatetime | None, Field(description="Said at this time or later.")] = None
    until: Annotated[AwareDatetime | None, Field(description="Said before this time.")] = None
    as_of: Annotated[AwareDatetime | None, Field(description="Valid at this time; none = now.")] = None
    limit: Annotated[int, Field(ge=1, le=MAX_RESULTS)] = 10


class QuestionVector(Struct, frozen=True, kw_only=True):
    """The vector of a question, and the space that it belongs to."""

    vector: Vector
    space: EmbeddingSpace


# The analyser, and what a push stores.


@cache
def analyser() -> Analyser:
    """Return the analyser of memories and questions."""
    return TextAnalyser()


@cache
def _bridging() -> Bridging:
    return Bridging(analyser().terms)


def words_of(text: str) -> str:
    """Return the tokens of a text with their positions, in the syntax of a tsvector.

    PostgreSQL's own parser would split some tokens again, so it does not see them.
    """
    positions = defaultdict[str, list[str]](list)
    for position, token in enumerate(analyser().tokens(text).split()[:_MAX_TOKENS], start=1):
        positions[token].append(str(position))
    return " ".join(f"'{token}':{','.join(found)}" for token, found in positions.items())


def space_of_tenant(session: Session) -> tuple[str, int]:
    """Return the space of the tenant's vectors and their dimension; empty and 0 before the first vector."""
    row = session.connection.execute("SELECT space, dimension FROM hub.tenants").fetchone()
    return (row["space"], row["dimension"]) if row else ("", 0)


def claim_space(session: Session, space: str, dimension: int) -> tuple[str, int]:
    """Make a space the tenant's if it has none yet; return the tenant's space and dimension."""
    session.connection.execute("UPDATE hub.tenants SET space = %s, dimension = %s WHERE space = ''", [space, dimension])
    return space_of_tenant(session)


def analyse_all(connection: Connection) -> int:
    """Store the tokens of memories that have none of this analyser; return how many. Connects as the owner."""
    done = 0
    while True:
        with connection.transaction():
            rows = connection.execute(
                "SELECT tenant, memory, version, text FROM hub.versions WHERE is_latest AND state = 'live'"
                " AND analyser <> %s LIMIT 500 FOR UPDATE",
                [analyser().version],
            ).fetchall()
            for row in rows:
                connection.execute(
                    "UPDATE hub.versions SET words = %s::tsvector, analyser = %s"
                    " WHERE tenant = %s AND memory = %s AND version = %s",
                    [words_of(row["text"]), analyser().version, row["tenant"], row["memory"], row["version"]],
                )
        if not rows:
            return done
        done += len(rows)


# Search.


def search(
    session: Session,
    clock: Clock,
    question: Question,
    asked: QuestionVector | None = None,
    options: SearchOptions | None = None,
) -> Ranking:
    """Rank the live memories of the tenant for a question, best first.

    Args:
        asked: the question's vector in the tenant's space; None = search by words alone.

    Returns:
        At most `question.limit` hits. The channel of a hit's scope is the name of its author.

    Raises:
        Forbidden: the token may not read.
    """
    session.require("read")
    return _Search(session, clock, question, asked, options or SearchOptions()).ranking()


class _Search:
    """One question within one transaction."""

    def __init__(
        self, session: Session, clock: Clock, question: Question, asked: QuestionVector | None, options: SearchOptions
    ) -> None:
        self._connection, self._tenant = session.connection, session.identity.tenant
        self._question, self._asked, self._options = question, asked, options
        self._words = _bridging().words(question.query)
        self._filters = _filters(question, clock.now()) | {"authors": self._authors()}
        self._condition = _condition(self._filters)
        self._total, self._frequencies = self._counts()
        self._indexed = self._count_indexed()
        self._passing = self._count_passing()

    def ranking(self) -> Ranking:
        """Return the ranked memories."""
        lexical = self._by_words()
        nearest = self._by_meaning() if self._asked is not None else []
        candidates = self._candidates({**lexical, **dict.fromkeys(nearest)}, lexical)
        weighted = WeightedQuestion(self._words.meant, self._frequencies, self._total)
        measured = self._asked is not None and self._asked.space.is_measured
        ranking = rank(self._question.query, weighted, candidates, by_meaning=measured)
        # The nearest of few memories may have nothing in common with the question.
        return replace(ranking, hits=tuple(hit for hit in ranking.hits if hit.score > 0)).top(self._question.limit)

    @property
    def _forms(self) -> list[str]:
        return _forms_of(self._words)

    def _authors(self) -> list[str] | None:
        """Return the ids of the members whom the filter names; None = any."""
        if not self._question.author:
            return None
        rows = self._connection.execute(
            "SELECT member FROM hub.members WHERE member = %(author)s OR lower(name) = lower(%(author)s)",
            {"author": self._question.author},
        )
        return [row["member"] for row in rows]

    def _counts(self) -> tuple[int, dict[str, int]]:
        """Return the number of the tenant's memories, and in how many each word occurs."""
        rows = self._connection.execute(
            # One look-up for each word; as a join, it may read all counts of the tenant.
            "SELECT word, memories FROM unnest(%(words)s::text[]) AS word CROSS JOIN LATERAL ("
            " SELECT memories FROM hub.word_counts WHERE key = hub.word_key(%(tenant)s, word) OFFSET 0) AS counted",
            {"words": ["", *self._forms], "tenant": self._tenant},
        )
        counts = {row["word"]: row["memories"] for row in rows}
        return counts.pop("", 0), counts

    def _count_indexed(self) -> int:
        """Return about how many vectors of the question's dimension HNSW has, of all tenants; 0 if it has none."""
        dimension = 0 if self._asked is None else len(self._asked.vector)
        if dimension not in _INDEXED_DIMENSIONS:
            return 0
        row = self._connection.execute(
            "SELECT reltuples FROM pg_class WHERE oid = %s::regclass", [f"hub.versions_by_vector_{dimension}"]
        ).fetchone()
        return max(0, int(row["reltuples"])) if row else 0

    def _count_passing(self) -> int:
        """Return how many memories pass the filters; where more would change nothing, counting ends."""
        if not self._question.model_fields_set - {"query", "limit"}:
            return self._total
        options = self._options
        for_index = math.isqrt(options.breadth * options.visit * self._indexed)
        enough = max(options.max_read, options.exact_below, for_index) + 1
        row = self._connection.execute(
            sql.SQL(
                "SELECT count(*) AS count FROM (SELECT FROM hub.versions WHERE {} LIMIT %(enough)s) AS passing"
            ).format(self._condition),
            self._filters | {"enough": enough},
            prepare=False,
        ).fetchone()
        return row["count"] if row else 0

    # By words.

    def _by_words(self) -> dict[str, float]:
        """Return the best memories by BM25 with their scores."""
        if not self._frequencies or not self._passing:
            return {}
        is_narrow = self._passing <= self._options.max_read
        probes = [(form, self._weight(form)) for form in self._frequencies] if is_narrow else self._probes()
        source = sql.SQL(_NARROW).format(self._condition) if is_narrow else sql.SQL(_WIDE)
        rows = self._connection.execute(
            sql.SQL(_SCORED).format(source),
            self._filters
            | {
                "probes": [probe for probe, _ in probes],
                "weights": [weight for _, weight in probes],
                "any": " | ".join(f"'{form}'" for form in self._frequencies),
                "forms": list(self._frequencies),
                "cap": max(self._options.max_read, self._options.max_scored),
                "top": self._options.max_scored,
            },
            prepare=False,
        ).fetchall()
        counts = {row["memory"]: row["counts"] for row in rows}
        lengths = {row["memory"]: float(row["length"]) for row in rows}
        mean = sum(lengths.values()) / len(lengths) if lengths else 0.0
        collection = CollectionStatistics(rows=self._total, mean=mean, frequencies=self._frequencies)
        scores = bm25_of_counts(self._words.searched, counts, lengths, collection, BACKEND_OKAPI)
        return dict(sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:_RANKED])

    def _probes(self) -> list[tuple[str, float]]:
        """Return the words to read memories by, with their weights: the rarest ones, then pairs of others."""
        rarest = sorted(self._frequencies, key=lambda form: (self._frequencies[form], form))
        probes, read = list[tuple[str, float]](), 0
        for position, form in enumerate(rarest):
            read += self._frequencies[form]
            if probes and read > self._options.max_read:
                others = rarest[position : position + _PAIRED]
                return probes + [
                    (f"{one} {other}", self._weight(one, other))
                    for one, other in combinations(others, 2)
                    if not self._is_one_word(one, other)
                ]
            probes.append((form, self._weight(form)))
        return probes

    def _is_one_word(self, one: str, other: str) -> bool:
        """Return whether two forms are of one word of the question; together they are no rarer than alone."""
        return any(one in forms and other in forms for forms in self._words.searched)

    def _weight(self, *forms: str) -> float:
        return sum(rarity(self._frequencies[form], self._total) for form in forms)

    # By meaning.

    def _by_meaning(self) -> list[str]:
        """Return the nearest memories, nearest first."""
        assert self._asked is not None
        dimension = len(self._asked.vector)
        if self._uses_index(dimension):
            found = self._nearest_by_index(dimension)
            if len(found) >= min(_RANKED, self._passing):
                return found
        return self._nearest_exactly(dimension)

    def _uses_index(self, dimension: int) -> bool:
        """Return True if HNSW is faster than to compare all vectors that pass the filters.

        Its graph has the vectors of all tenants. For one that passes, it visits as many as their share says.
        """
        if self._passing <= self._options.exact_below or dimension not in _INDEXED_DIMENSIONS:
            return False
        visited = self._options.breadth * self._options.visit * max(self._indexed, self._passing) / self._passing
        return visited <= self._passing

    def _nearest_by_index(self, dimension: int) -> list[str]:
        # The settings end with the transaction; they take no parameters. Without the last one the planner, which takes
        # every tenant for one of average size, would sort what it thinks are few rows.
        self._connection.execute(
            sql.SQL(
                "SET LOCAL hnsw.iterative_scan = relaxed_order; SET LOCAL hnsw.ef_search = {};"
                " SET LOCAL hnsw.max_scan_tuples = {}; SET LOCAL enable_sort = off"
            ).format(sql.Literal(self._options.breadth), sql.Literal(self._options.max_scanned))
        )
        distance = sql.SQL("vector::halfvec({0}) <=> %(vector)s::halfvec({0})").format(sql.Literal(dimension))
        found = self._nearest(distance, dimension, at_most=max(self._options.breadth, _RANKED))
        self._connection.execute("SET LOCAL enable_sort = on")
        return found

    def _nearest_exactly(self, dimension: int) -> list[str]:
        # No index orders by a sum, so this compares every vector.
        return self._nearest(sql.SQL("(vector <=> %(vector)s::halfvec) + 0"), dimension, at_most=_RANKED)

    def _nearest(self, distance: sql.Composable, dimension: int, *, at_most: int) -> list[str]:
        assert self._asked is not None
        rows = self._connection.execute(
            sql.SQL(
                "SELECT memory, {} AS distance FROM hub.versions WHERE {} AND vector_dims(vector) = {}"
                " ORDER BY distance LIMIT %(at_most)s"
            ).format(distance, self._condition, sql.Literal(dimension)),
            self._filters | {"vector": HalfVector(self._asked.vector).to_text(), "at_most": at_most},
            prepare=False,
        ).fetchall()
        found = [(row["distance"], row["memory"]) for row in rows if not math.isnan(row["distance"])]
        return [memory for _, memory in sorted(found)[:_RANKED]]

    # Both.

    def _candidates(self, found: Mapping[str, object], lexical: Mapping[str, float]) -> list[RetrievedMemory]:
        """Return the memories that were found, with what they are ranked by."""
        vector = None if self._asked is None else HalfVector(self._asked.vector).to_text()
        rows = self._connection.execute(
            _CANDIDATES, {"found": list(found), "forms": self._forms, "vector": vector, "at": self._filters["lasting"]}
        )
        return [self._candidate(row, lexical) for row in rows]

    def _candidate(self, row: Mapping[str, Any], lexical: Mapping[str, float]) -> RetrievedMemory:
        distance = row["distance"]
        cosine = None if distance is None or math.isnan(distance) else 1.0 - distance
        space = self._asked.space if self._asked else None
        return RetrievedMemory(
            item=memory_of_row(row),
            tokens=frozenset(row["tokens"]),
            bm25=lexical.get(row["memory"]),
            cosine=cosine,
            similarity=None if cosine is None or space is None else space.calibrated_to_question(cosine),
        )


def memory_of_row(row: Mapping[str, Any]) -> Memory:
    """Return a shared memory; the channel of its scope is the name of its author."""
    return Memory(
        id=row["memory"],
        scope=Scope(user=row["author"], project=row["project"], channel=row["author_name"]),
        scope_name="project",
        kind=row["kind"],
        text=row["text"],
        trust=_TRUST_OF_COLLEAGUE,
        created_at=row["received_at"],
        valid_from=row["valid_from"],
        valid_to=row["valid_to"],
        confidence=row["confidence"],
        language=row["language"],
    )


def _forms_of(words: QuestionWords) -> list[str]:
    return list(dict.fromkeys(form for forms in words.searched for form in forms))


# Statements.

#: All memories that pass, where they are few.
_NARROW: Final[LiteralString] = """
SELECT memory FROM hub.versions WHERE {} AND words @@ %(any)s::tsquery
ORDER BY (SELECT sum(weight) FROM unnest(%(probes)s::text[], %(weights)s::float8[]) AS probe (word, weight)
          WHERE word = ANY (tsvector_to_array(words))) DESC, memory LIMIT %(top)s
"""
#: The memories of the rarest words.
_WIDE: Final[LiteralString] = """
SELECT memory FROM hub.match_words(%(probes)s, %(weights)s, %(projects)s, %(kinds)s, %(authors)s, %(since)s, %(until)s,
                                   %(lasting)s, %(cap)s, %(top)s) AS memory
"""
#: What BM25 needs of them: how often each word of the question occurs, and the number of tokens.
_SCORED: Final[LiteralString] = """
SELECT memory, counted.length, counted.counts
FROM hub.versions
CROSS JOIN LATERAL (
  SELECT sum(cardinality(positions)) AS length,
    jsonb_object_agg(lexeme, cardinality(positions)) FILTER (WHERE lexeme = ANY (%(forms)s)) AS counts
  FROM unnest(words)
) AS counted
WHERE memory = ANY (ARRAY({})) AND is_latest AND state = 'live' AND counted.counts IS NOT NULL
"""
#: Columns of a memory, joined with its author.
MEMORY_COLUMNS: Final = sql.SQL(
    "versions.memory, author, members.name AS author_name, project, kind, text, confidence, language, valid_from,"
    " valid_to, received_at"
)
#: That nothing replaced a memory of `hub.versions` by the time `at`.
IN_FORCE: Final = sql.SQL(
    """
is_latest AND state = 'live'
AND NOT EXISTS (
  SELECT 1 FROM hub.versions AS newer
  WHERE newer.supersedes = versions.memory AND newer.memory <> versions.memory AND newer.is_latest
    AND newer.state = 'live' AND newer.valid_from <= %(at)s)
AND NOT EXISTS (
  SELECT 1 FROM hub.conflicts
  WHERE settled_at IS NOT NULL AND ((keep = 'first' AND conflicts.second = versions.memory)
                                    OR (keep = 'second' AND conflicts.first = versions.memory)))
"""
)
_CANDIDATES: Final = sql.SQL(
    """
SELECT {}, vector <=> %(vector)s::halfvec AS distance,
  ARRAY(SELECT lexeme FROM unnest(words) WHERE lexeme = ANY (%(forms)s)) AS tokens
FROM hub.versions JOIN hub.members ON members.tenant = versions.tenant AND member = author
WHERE versions.memory = ANY (%(found)s) AND {}
"""
).format(MEMORY_COLUMNS, IN_FORCE)
_CONDITIONS: Final[Mapping[str, LiteralString]] = {
    "projects": "project = ANY (%(projects)s)",
    "kinds": "kind = ANY (%(kinds)s)",
    "authors": "author = ANY (%(authors)s)",
    "since": "valid_from >= %(since)s",
    "until": "valid_from < %(until)s",
    "lasting": "(valid_to IS NULL OR valid_to > %(lasting)s)",
}


def _filters(question: Question, now: datetime) -> dict[str, Any]:
    """Return the parameters of the filters; None = any."""
    until = question.until
    if question.as_of is not None:
        begun = question.as_of + timedelta(microseconds=1)
        until = begun if until is None else min(until, begun)
    return {
        "projects": list(question.projects) or None,
        "kinds": list(question.kinds) or None,
        "since": question.since,
        "until": until,
        "lasting": question.as_of or now,
    }


def _condition(filters: Mapping[str, Any]) -> sql.Composed:
    """Return the condition on a row of `hub.versions`. Only filters that are set are in it, so that the plan fits."""
    conditions = [
        sql.SQL("is_latest AND state = 'live'"),
        *(sql.SQL(text) for name, text in _CONDITIONS.items() if filters[name] is not None),
    ]
    return sql.SQL(" AND ").join(conditions)
