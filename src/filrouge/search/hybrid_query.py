"""The hybrid query of programs: words and meaning mixed as the caller says, within a filter that the caller writes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, cast, get_args

from filrouge.capture.models import Role, Turn
from filrouge.core.dates import moment
from filrouge.core.errors import BadInput, EmbedderUnavailable
from filrouge.core.protocols import Tx, Vector, Vectors
from filrouge.core.scope import LOCAL_USER
from filrouge.maintenance.health import project_id
from filrouge.memories.models import TURN, Filters, Kind, Memory
from filrouge.runtime.services import Parts
from filrouge.search.fusion import OKAPI, Collection, Fused, Fusion, Okapi, bm25, diverse, fused
from filrouge.search.models import Hit, Ranking
from filrouge.search.relevance import Questioned, alone, judged, shares
from filrouge.search.retrievers import arm
from filrouge.search.vector_repository import StoredVectors
from filrouge.search.vector_search import Meaning
from filrouge.search.weights import ALONE_MEANING, ALONE_WORDS
from filrouge.search.word_repository import Owner, Place

# Where: a filter as a program writes it, a mapping of names to values, read into `Filters` and a project.

#: Every field there is; `project` names where to look, the others are those of `Filters`.
FIELDS: Final = (
    "agent", "as_of", "branch", "channel", "kind", "project", "role", "since", "thread", "trust", "until", "user",
)  # fmt: skip
_KINDS: Final = (*get_args(Kind), TURN)
#: Fields whose day counts up to its end.
_TO_THE_END: Final = ("until", "as_of")


def read(where: Mapping[str, Any] | None) -> tuple[Filters, str | None]:
    """The filters that these fields spell, and the project they name; a field that is None does not matter.

    Raises:
        BadInput: a field that does not exist, or a value that it cannot have.
    """
    given = {name: value for name, value in (where or {}).items() if value is not None}
    unknown = sorted(set(given) - set(FIELDS))
    if unknown:
        raise BadInput(f"There is no filter {unknown[0]!r}.", remedy=f"There are: {', '.join(FIELDS)}.")
    role = _text(given, "role")
    if role is not None and role not in get_args(Role):
        raise BadInput(f"There is no role {role!r}.", remedy=f"There are: {', '.join(get_args(Role))}.")
    filters = Filters(
        user=_text(given, "user"),
        agent=_text(given, "agent"),
        channel=_text(given, "channel"),
        kinds=_kinds(given.get("kind", ())),
        since=_moment(given, "since"),
        until=_moment(given, "until"),
        as_of=_moment(given, "as_of"),
        trust=_trust(given.get("trust", 0)),
        role=cast("Role | None", role),
        thread=_text(given, "thread"),
        branch=_text(given, "branch"),
    )
    return filters, _text(given, "project")


def _text(given: Mapping[str, Any], name: str) -> str | None:
    value = given.get(name)
    if value is not None and not (isinstance(value, str) and value):
        raise BadInput(f"The filter {name!r} needs a text, not {value!r}.", remedy="Leave it out to look everywhere.")
    return value


def _kinds(value: object) -> tuple[str, ...]:
    kinds = (value,) if isinstance(value, str) or not isinstance(value, Iterable) else cast("Iterable[object]", value)
    named = tuple(str(kind) for kind in kinds)
    unknown = next((kind for kind in named if kind not in _KINDS), None)
    if unknown is not None:
        raise BadInput(f"There is no kind {unknown!r}.", remedy=f"There are: {', '.join(_KINDS)}.")
    return named


def _trust(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value <= 3:
        raise BadInput(f"trust is a whole number from 0 to 3, not {value!r}.", remedy="3 is the user's own hand.")
    return value


def _moment(given: Mapping[str, Any], name: str) -> datetime | None:
    value = given.get(name)
    if value is None:
        return None
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    try:
        return moment(value if isinstance(value, str) else "", end=name in _TO_THE_END)
    except ValueError:
        remedy = "Write 2026-05-01 or 2026-05-01T14:30, or give a datetime with its zone."
        raise BadInput(f"{name} is no moment: {value!r}.", remedy=remedy) from None


# The hybrid query of programs: words and meaning mixed as the caller says, over turns, memories, or both as one.
#
# Both arms of a search (`search.retrievers`) name candidates, each its best; both scores are then known of every
# candidate, by BM25 with the caller's k1 and b and by the stored vectors. So the order does not depend on which of the
# two found whom. Nothing here knows of neighbours, times or speakers: that is `filrouge search`.

Rerank = Literal["none", "mmr"]

COLLECTIONS: Final[Mapping[str, tuple[Owner, ...]]] = {
    "turns": ("turn",),
    "memories": ("memory",),
    "all": ("memory", "turn"),
}
#: Candidates of each arm, and more where more results are wanted.
POOL: Final = 50
_POOL_PER_RESULT: Final = 2
#: Characters of a question that are read.
LONGEST_QUERY: Final = 2000
_TEXTS: Final[Mapping[Owner, str]] = {"turn": "turns.searched", "memory": "memories.searched"}


@dataclass(frozen=True, kw_only=True, slots=True)
class HybridQuery:
    """What is asked; every value is checked when it is made.

    Attributes:
        collection: `turns`, `memories` or `all`.
        where: the fields of `search.hybrid_query`.
        alpha: 0 = words only, 1 = meaning only.
        score_threshold: least `score` of a hit; 0.3 to 0.5 is moderate, from 0.7 on strict.
        min_relevance: least `relevance` of a hit.
        fusion: how the two scores are joined, see `search.fusion`.
        rerank: `mmr` puts what repeats a better hit further back.

    Raises:
        BadInput: naming the value and what it may be.
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
            raise BadInput("There is nothing to search for: query_text is empty.", remedy="Give it a few words.")
        if self.n_results < 1:
            raise BadInput(f"n_results must be at least 1, not {self.n_results}.", remedy="The default is 5.")
        for name in ("alpha", "score_threshold", "min_relevance"):
            value = getattr(self, name)
            if not 0.0 <= value <= 1.0:
                raise BadInput(f"{name} must lie in [0, 1], not {value}.", remedy="Leave it out for the default.")


def okapi_of(k1: float, b: float) -> Okapi:
    """The two values of BM25.

    Raises:
        BadInput: one is out of its range.
    """
    try:
        return Okapi(k1=k1, b=b)
    except ValueError as error:
        raise BadInput(f"{error}.", remedy="The defaults are 1.5 and 0.75.") from None


def hybrid_query(parts: Parts, tx: Tx, query: HybridQuery) -> Ranking:
    """Rank a collection for a query; without an embedder by words alone, which a notice says.

    Raises:
        BadInput: the filter has an unknown field or value.
        NotFound: the filter names a project that is not there.
        EmbedderUnavailable: meaning alone is asked for, and cannot be had.
    """
    with parts.meters.search() as found:
        found.append(_queried(parts, tx, query))
    return found[0]


def _queried(parts: Parts, tx: Tx, query: HybridQuery) -> Ranking:
    filters, named = read(query.where)
    place = Place(project=project_id(tx, [named] if named else []), user=LOCAL_USER, everywhere=named is None)
    meaning, text = parts.meaning, query.text[:LONGEST_QUERY]
    vector, notices = meaning.question(text) if query.alpha > 0 else (None, ())
    if vector is None and query.alpha == 1:
        raise EmbedderUnavailable(
            "Nothing can be searched by meaning: the embedding model is not available.",
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
    """The candidates of one query and all that is known of them, gathered table by table."""

    def __init__(
        self,
        parts: Parts,
        tx: Tx,
        meaning: Meaning,
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

    def look_into(self, owner: Owner, place: Place, filters: Filters) -> None:
        """Add the candidates of one table, with how rare words are in it and how long its rows."""
        searched = arm(self._parts, self._tx, owner, place, filters, self._terms)
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
        """The candidates that pass both thresholds, best first."""
        query = self._query
        collection = Collection(
            rows=self._rows, mean=self._length / self._rows if self._rows else 0.0, frequencies=self._frequencies
        )
        lexical = bm25(self._terms, self._tokens, collection, query.okapi)
        cosines = self._cosines()
        alpha = query.alpha if self._vector is not None else 0.0
        found = self._judged(fused(lexical, cosines, alpha=alpha, fusion=query.fusion), cosines)
        scored = [hit for hit in found if hit.score >= query.score_threshold]
        kept = [hit for hit in scored if hit.relevance >= query.min_relevance]
        self._parts.meters.left_out("below_threshold", len(found) - len(scored))
        self._parts.meters.left_out("below_relevance", len(scored) - len(kept))
        return kept

    def middles(self) -> dict[str, Vector]:
        """One unit vector for each candidate that has any: the mean of its windows."""
        means = {id_: windows.mean(axis=0) for id_, windows in self._windows.items()}
        return {id_: mean / max(float(mean @ mean) ** 0.5, 1e-9) for id_, mean in means.items()}

    def _read(self, owner: Owner, ids: Sequence[str]) -> Mapping[str, Memory | Turn]:
        once = list(dict.fromkeys(ids))
        turns = owner == "turn"
        found = self._parts.turns(self._tx).get(once) if turns else self._parts.memories(self._tx).known(once)
        return {item.id: item for item in found}

    def _cosines(self) -> dict[str, float]:
        if self._vector is None:
            return {}
        return {id_: float((windows @ self._vector).max()) for id_, windows in self._windows.items()}

    def _judged(self, ordered: Sequence[Fused], cosines: Mapping[str, float]) -> list[Hit]:
        questioned = Questioned(self._terms, self._frequencies, self._rows)
        parts = shares([ALONE_WORDS * one.bm25_score + ALONE_MEANING * one.vector_score for one in ordered])
        matched = [questioned.matched(frozenset(self._tokens[one.id])) for one in ordered]
        space = self._meaning.space
        signs = [
            alone(
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
