"""Score fusion: BM25, normalisation, convex and RRF mixing, diversity (MMR), and ranking recipes.

Scores of words and of vectors cannot be compared directly. They are normalised per query, or replaced by ranks, before
they are mixed.

Pure: no database, no file.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np

from filrouge.core.errors import BadInput
from filrouge.core.protocols import Analyser, Vector
from filrouge.search.models import Hit
from filrouge.search.turn_ranking import NAMES, Features
from filrouge.search.weights import ALONE_MEANING, ALONE_WORDS, TURN_WEIGHTS

# Convex fusion. Both score tables are min-max normalised to [0, 1] over the candidates of the query and mixed: `score =
# (1 - alpha) x lexical + alpha x vector`. A candidate missing from one table counts 0 there.


def normalised(scores: Mapping[str, float]) -> dict[str, float]:
    """Normalise by min-max to [0, 1]; if all values are equal, each becomes 1."""
    if not scores:
        return {}
    low, high = min(scores.values()), max(scores.values())
    if high == low:
        return dict.fromkeys(scores, 1.0)
    return {key: (value - low) / (high - low) for key, value in scores.items()}


def fuse(lexical: Mapping[str, float], vector: Mapping[str, float], alpha: float = 0.5) -> dict[str, float]:
    """Mix two normalised score tables.

    Args:
        alpha: 0 = lexical only, 1 = vector only.
    """
    if not 0.0 <= alpha <= 1.0:
        raise ValueError(f"alpha must lie in [0, 1], not {alpha}")
    return {key: (1 - alpha) * lexical.get(key, 0.0) + alpha * vector.get(key, 0.0) for key in {**lexical, **vector}}


# BM25 over rows with known token counts, with free k1 and b or with the values of the full-text backends.
#
# FTS5 and tantivy use k1 = 1.2 and b = 0.75, and treat the forms of one word as independent. Rescoring the best fifty
# over their tokens allows other values: for short turns, length and repetition should count less. Rows that an index
# does not hold yet, and filtered shares of a table, are scored here with the backends' own formula.

_FORMS_OF_A_WORD: Final = 2
_LEAST_RARITY: Final = 1e-6


@dataclass(frozen=True, kw_only=True, slots=True)
class Okapi:
    """The two free parameters of BM25.

    Attributes:
        k1: how much a repetition still adds; 0 = a word counts once.
        b: how much length counts; 0 = not at all, 1 = in full.
    """

    k1: float = 0.6
    b: float = 0.4

    def __post_init__(self) -> None:
        if self.k1 < 0 or not 0 <= self.b <= 1:
            raise ValueError(f"k1 must not be negative and b must lie in [0, 1], not {self.k1} and {self.b}")


#: The values built into FTS5 and tantivy.
BUILT_IN: Final = Okapi(k1=1.2, b=0.75)


@dataclass(frozen=True, kw_only=True, slots=True)
class Collection:
    """Statistics of the collection that the candidates come from.

    Attributes:
        rows: number of rows.
        mean: mean number of tokens per row.
        frequencies: in how many rows each token occurs; a missing token occurs nowhere.
        is_floored: compute rarity as FTS5 does (https://sqlite.org/fts5.html): a token in more than half of the rows
            weighs almost nothing. Otherwise it is smoothed, as in Lucene and tantivy.
    """

    rows: int
    mean: float
    frequencies: Mapping[str, int]
    is_floored: bool = False

    def rarity(self, form: str) -> float:
        """Return the inverse document frequency, never negative."""
        having = self.frequencies.get(form, 0)
        if self.is_floored:
            return max(math.log((self.rows - having + 0.5) / (having + 0.5)), _LEAST_RARITY)
        return math.log(1 + (max(self.rows, having) - having + 0.5) / (having + 0.5))


def bm25(
    terms: Sequence[Sequence[str]],
    candidates: Mapping[str, Sequence[str]],
    collection: Collection,
    okapi: Okapi | None = None,
) -> dict[str, float]:
    """Return the BM25 score of each candidate; higher is better, 0 if no word of the question occurs.

    Args:
        terms: the words of the question with their forms. Every word has the same weight: a word that is its own stem
            counts twice, as in the expression that found the candidates.
        candidates: the tokens that each item is indexed under, with repetitions.
    """
    counts = {id_: Counter(tokens) for id_, tokens in candidates.items()}
    lengths = {id_: len(tokens) for id_, tokens in candidates.items()}
    return bm25_of_counts(terms, counts, lengths, collection, okapi)


def bm25_of_counts(
    terms: Sequence[Sequence[str]],
    counts: Mapping[str, Mapping[str, int]],
    lengths: Mapping[str, int],
    collection: Collection,
    okapi: Okapi | None = None,
) -> dict[str, float]:
    """Return the same as `bm25`, from token counts and lengths.

    Args:
        counts: token counts of each candidate; only tokens of the question matter.
        lengths: the length of each candidate, at least.
    """
    okapi, weights, mean = okapi or Okapi(), _weights(terms, collection), collection.mean or 1.0
    found = dict[str, float]()
    for id_, occurring in counts.items():
        norm = okapi.k1 * (1 - okapi.b + okapi.b * lengths[id_] / mean)
        found[id_] = sum(
            weights[form] * n * (okapi.k1 + 1) / (n + norm) for form, n in occurring.items() if form in weights
        )
    return found


def _weights(terms: Sequence[Sequence[str]], collection: Collection) -> dict[str, float]:
    times = dict[str, int]()
    for forms in terms:
        for form in forms:
            times[form] = max(times.get(form, 0), _FORMS_OF_A_WORD if len(forms) == 1 else 1)
    return {form: count * collection.rarity(form) for form, count in times.items()}


# Hybrid retrieval: word scores and vector scores in, one explained order out.
#
# There are two ways to combine them. Convex: each score is min-max normalised over the candidates, and alpha mixes
# both. RRF, reciprocal rank fusion (Cormack, Clarke, Büttcher, SIGIR 2009): only ranks count, as `1 / (60 + rank)`.
# Here RRF is weighted by alpha, and scaled so that a candidate ranked first by both scores 1. With alpha = 0.5 the
# order is that of the paper.

Fusion = Literal["convex", "rrf"]

#: The usual Okapi BM25 parameters for texts of any length.
OKAPI: Final = Okapi(k1=1.5, b=0.75)
#: The constant of the RRF paper; the larger it is, the less the first ranks stand out.
RRF_K: Final = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class Fused:
    """One candidate with its scores, all in [0, 1] and comparable only within one query.

    Attributes:
        bm25_score, vector_score: the normalised score from each search; 0 if that search did not score it.
        score: the sum of `words` and `meaning`.
        words, meaning: the contribution of each search to the score.
    """

    id: str
    bm25_score: float
    vector_score: float
    score: float
    words: float
    meaning: float


def fused(
    lexical: Mapping[str, float], vector: Mapping[str, float], *, alpha: float = 0.5, fusion: Fusion = "convex"
) -> list[Fused]:
    """Combine two tables of raw scores, best first; equal scores are ordered by id.

    Args:
        lexical: BM25 of the candidates; 0 = none of the words.
        vector: similarity of the candidates, on any scale; a missing candidate has none.
        alpha: 0 = words only, 1 = vectors only.

    Raises:
        BadInput: alpha is out of range, the fusion is unknown, or a score is not finite.
    """
    if not 0.0 <= alpha <= 1.0:
        raise BadInput(f"alpha must lie in [0, 1], not {alpha}.", remedy="0 uses words only, 1 vectors only.")
    if fusion not in get_args(Fusion):
        raise BadInput(f"There is no fusion {fusion!r}.", remedy=f"There are: {', '.join(get_args(Fusion))}.")
    strange = [id_ for table in (lexical, vector) for id_, score in table.items() if not math.isfinite(score)]
    if strange:
        raise BadInput(f"The score of {strange[0]!r} is no number.", remedy="Leave out what has no score.")
    saying = any(score > 0 for score in lexical.values())
    by_words = normalised(lexical) if saying else dict.fromkeys(lexical, 0.0)
    by_meaning = normalised(vector)
    words, meaning = (by_words, by_meaning) if fusion == "convex" else (_by_rank(lexical, 0.0), _by_rank(vector))
    found = [
        Fused(
            id=id_,
            bm25_score=by_words.get(id_, 0.0),
            vector_score=by_meaning.get(id_, 0.0),
            score=min(1.0, (1 - alpha) * words.get(id_, 0.0) + alpha * meaning.get(id_, 0.0)),
            words=(1 - alpha) * words.get(id_, 0.0),
            meaning=alpha * meaning.get(id_, 0.0),
        )
        for id_ in {**lexical, **vector}
    ]
    return sorted(found, key=lambda one: (-one.score, one.id))


def hybrid_fusion(
    corpus: Mapping[str, str],
    query: str,
    vector_results: Mapping[str, float],
    analyser: Analyser,
    *,
    alpha: float = 0.5,
    okapi: Okapi = OKAPI,
    fusion: Fusion = "convex",
) -> list[Fused]:
    """Rank given texts by their words and by vector results computed elsewhere; see `fused`.

    Args:
        corpus: all texts by id; word rarity and mean length are computed over them.
        vector_results: similarities of texts of the corpus; texts may be missing.

    Returns:
        Every text with a word of the query (unless alpha is 1) or a vector result (unless alpha is 0).

    Raises:
        BadInput: a value is out of range, or a vector result has an id that is not in the corpus.
    """
    stray = next((id_ for id_ in vector_results if id_ not in corpus), None)
    if stray is not None:
        raise BadInput(f"The vector result {stray!r} is about no text of the corpus.", remedy="Leave it out.")
    tokens = {id_: analyser.tokens(text).split() for id_, text in corpus.items()}
    worded = [one for one in tokens.values() if one]
    collection = Collection(
        rows=len(worded),
        mean=sum(map(len, worded)) / len(worded) if worded else 0.0,
        frequencies=Counter(token for one in worded for token in set(one)),
    )
    scores = bm25(analyser.terms(query), tokens, collection, okapi)
    ids = {id_ for id_, score in scores.items() if score > 0} if alpha < 1 else set[str]()
    ids |= vector_results.keys() if alpha > 0 else set[str]()
    lexical = {id_: scores[id_] for id_ in ids}
    vector = {id_: float(score) for id_, score in vector_results.items() if id_ in ids}
    return fused(lexical, vector, alpha=alpha, fusion=fusion)


def _by_rank(scores: Mapping[str, float], above: float = -math.inf) -> dict[str, float]:
    """Return the scaled RRF score, 1 for the first; equal scores share a rank, and scores up to `above` get none."""
    ranked = sorted(-score for score in scores.values() if score > above)
    return {
        id_: (RRF_K + 1) / (RRF_K + 1 + bisect_left(ranked, -score)) for id_, score in scores.items() if score > above
    }


# Diversity: hits that repeat a better hit are moved back (MMR; Carbonell and Goldstein, SIGIR 1998). Each step takes
# the hit with the greatest `trade x score - (1 - trade) x (similarity to the nearest hit already taken)`.

#: Score and novelty have equal weight.
TRADE: Final = 0.5


def _as_it_is(cosine: float) -> float:
    return cosine


def diverse(
    hits: Sequence[Hit],
    vectors: Mapping[str, Vector],
    limit: int,
    *,
    trade: float = TRADE,
    similarity: Callable[[float], float] = _as_it_is,
) -> tuple[Hit, ...]:
    """Return at most `limit` hits in the order in which they are taken; their scores do not change.

    Args:
        hits: best first, each with its score in [0, 1].
        vectors: the unit vector of each hit by id; a hit without a vector is similar to no other.
        trade: 1 = order by score, 0 = novelty only, after the best hit.
        similarity: maps a cosine to a similarity; a space's `calibrated` maps unrelated texts to 0.

    Raises:
        BadInput: `trade` is not in [0, 1].
    """
    if not 0.0 <= trade <= 1.0:
        raise BadInput(f"trade must lie in [0, 1], not {trade}.", remedy="1 keeps the order of the scores.")
    left = list(hits)
    nearest = dict.fromkeys((hit.id for hit in left), 0.0)
    taken: list[Hit] = []
    while left and len(taken) < limit:
        # The first hit is always the best by score, because there is nothing yet that it could repeat.
        best = max(left, key=lambda hit: trade * hit.score - (1 - trade) * nearest[hit.id]) if taken else left[0]
        left.remove(best)
        taken.append(best)
        vector = vectors.get(best.id)
        for hit in left:
            other = vectors.get(hit.id)
            if vector is not None and other is not None:
                nearest[hit.id] = max(nearest[hit.id], similarity(float(vector @ other)))
    return tuple(taken)


# Ranking recipes for turns, by name. `bench/results/README.md` has their quality and cost.

RecipeName = Literal["fast", "balanced", "deep", "rrf"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """How turns are ranked.

    Attributes:
        pool: candidates from each of the two searches; their neighbours are added.
        reach: how many turns before and after a candidate are read.
        weights: the weight of each feature (`turn_ranking.NAMES`).
        by_rank: use only the ranks in the two searches, not the scores.
    """

    name: RecipeName
    pool: int
    reach: int
    weights: Features
    by_rank: bool = False


def only(**weights: float) -> Features:
    """Return feature weights with the given ones set and all others 0."""
    return np.array([weights.get(name, 0.0) for name in NAMES], dtype=np.float32)


#: Each turn by itself: words and vectors.
FAST: Final = Recipe(name="fast", pool=50, reach=0, weights=only(words=ALONE_WORDS, meaning=ALONE_MEANING))
#: Each turn with its neighbourhood.
BALANCED: Final = Recipe(name="balanced", pool=50, reach=3, weights=TURN_WEIGHTS)
#: The same with four times as many candidates.
DEEP: Final = Recipe(name="deep", pool=200, reach=3, weights=TURN_WEIGHTS)
#: Reciprocal rank fusion (Cormack et al. 2009), for comparison; it needs no comparable scores.
RRF: Final = Recipe(name="rrf", pool=50, reach=0, weights=only(words=1.0, meaning=1.0), by_rank=True)
_BY_NAME: Final = {recipe.name: recipe for recipe in (FAST, BALANCED, DEEP, RRF)}


def recipe(name: str) -> Recipe:
    """Return the recipe of that name.

    Raises:
        BadInput: there is none.
    """
    for known, found in _BY_NAME.items():
        if known == name:
            return found
    raise BadInput(f"There is no recipe {name!r}.", remedy=f"One of: {', '.join(_BY_NAME)}.")


def by_places(features: Features) -> Features:
    """Return each feature as its reciprocal rank, 1 / (k + rank); a feature of 0 stays 0."""
    order = np.argsort(np.argsort(-features, axis=0, kind="stable"), axis=0)
    return np.where(features > 0, 1.0 / (RRF_K + 1 + order), 0.0).astype(np.float32)
