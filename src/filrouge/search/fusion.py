"""Scores of words and of meaning as one: BM25, normalisation, hybrid mixing, diversity (MMR), and named recipes.

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

# The weights of ranking turns and of relevance. `bench/fit_recall.py --write` writes this file.

TABLE: Final = {
    "words": 2.603,
    "words_before": 0.915,
    "words_after": 0.291,
    "meaning": 1.34,
    "meaning_before": 1.069,
    "meaning_around": 0.267,
    "meaning_wide": 2.157,
    "session_words": 2.489,
    "session_meaning": 1.836,
    "length": 1.886,
    "asks": -0.906,
    "time": 2.82,
    "speaker": 0.783,
    "dated": 1.635,
    "reply": -3.384,
}
#: One weight for each feature of a turn, in the order of `NAMES`.
TURN_WEIGHTS: Final[Features] = np.array([TABLE[name] for name in NAMES], dtype=np.float32)
#: What words and meaning count for a text that stands alone: it is its own neighbourhood.
ALONE_WORDS: Final = sum(TABLE[name] for name in ("words", "words_before", "words_after", "session_words"))
ALONE_MEANING: Final = sum(value for name, value in TABLE.items() if "meaning" in name)

#: Log-odds that a result holds what was asked, with vectors and by words alone (`relevance.Signs.named`).
RELEVANCE: Final = {
    "one": -1.822,
    "similarity": 4.788,
    "covered": 1.756,
    "telling": 0.24,
    "stands_out": 0.984,
    "words": -0.881,
    "time": 0.837,
    "speaker": 0.364,
    "dated": 0.053,
    "asks": 0.05,
}
RELEVANCE_BY_WORDS: Final = {
    "one": -1.621,
    "covered": 3.35,
    "telling": 0.22,
    "stands_out": 1.034,
    "words": 0.196,
    "time": 0.633,
    "speaker": 0.509,
    "dated": -0.005,
    "asks": 0.233,
}
#: Log-odds that anything about the question is known (`relevance.summary`).
KNOWN: Final = {
    "one": -1.387,
    "any": 1.477,
    "similarity": 3.279,
    "wide": 7.795,
    "covered": 0.347,
    "words_found": 0.564,
    "words_missing": -1.339,
    "similar_and_covered": 5.289,
}
KNOWN_BY_WORDS: Final = {
    "one": 0.16,
    "any": 1.854,
    "covered": 2.402,
    "words_found": 1.432,
    "words_missing": -0.431,
}


# Fusion: one score out of two that cannot be compared.
#
# Both arms are normalised per query to [0, 1] (min-max over the candidate pool) and mixed by alpha: `score = (1 -
# alpha) x lexical + alpha x vector`. An item that one arm did not return counts 0 there.


def normalised(scores: Mapping[str, float]) -> dict[str, float]:
    """Min-max to [0, 1]; a single distinct value becomes 1, because it is the best there is."""
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


# BM25 over rows whose tokens are counted: with k1 and b to choose, or as the full-text backends reckon it.
#
# FTS5 and tantivy find candidates with k1 = 1.2 and b = 0.75 built in, and know nothing of how far two forms belong
# to one word. Scored again over their own tokens, the best fifty can be put in the order that other values give:
# short turns want a length that counts less and a repetition that says less. Rows that an index does not hold yet,
# and shares of a table that nothing else may show through, are scored here by the backends' own formula.

_FORMS_OF_A_WORD: Final = 2
_LEAST_RARITY: Final = 1e-6


@dataclass(frozen=True, kw_only=True, slots=True)
class Okapi:
    """The two free values of BM25.

    Attributes:
        k1: how much a repetition still adds; 0 = a word counts once.
        b: how much length counts; 0 = not at all, 1 = in full.
    """

    k1: float = 0.6
    b: float = 0.4

    def __post_init__(self) -> None:
        if self.k1 < 0 or not 0 <= self.b <= 1:
            raise ValueError(f"k1 must not be negative and b must lie in [0, 1], not {self.k1} and {self.b}")


#: The values that FTS5 and tantivy have built in.
BUILT_IN: Final = Okapi(k1=1.2, b=0.75)


@dataclass(frozen=True, kw_only=True, slots=True)
class Collection:
    """What is known of all the rows that the candidates come from.

    Attributes:
        rows: how many there are.
        mean: tokens of an average one.
        frequencies: in how many of them each token occurs; one that is missing occurs nowhere.
        is_floored: reckon rarity as FTS5 does (https://sqlite.org/fts5.html): what more than half of the rows have
            weighs next to nothing. Otherwise smoothed, as Lucene and tantivy do.
    """

    rows: int
    mean: float
    frequencies: Mapping[str, int]
    is_floored: bool = False

    def rarity(self, form: str) -> float:
        """Inverse document frequency, never negative."""
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
    """The score of each candidate; higher is better, 0 where nothing of the question occurs.

    Args:
        terms: the words of the question with their forms. Every word weighs the same: one that is its own stem counts
            twice, as in the expression that found the candidates.
        candidates: the tokens that each item is indexed under, repeated as they are.
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
    """The same where it is known how often each token occurs, and how many there are.

    Args:
        counts: of each candidate; other tokens than the question's do not matter.
        lengths: of each candidate at least.
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


# Hybrid retrieval as pure functions: the scores of words and of meaning in, one explained order out.
#
# Two ways to join them. *Convex*: each arm is stretched to [0, 1] over the candidates (min-max), and alpha mixes both.
# *RRF*, reciprocal rank fusion (Cormack, Clarke, Büttcher, SIGIR 2009): only the ranks count, `1 / (60 + rank)`; here
# weighted by alpha and scaled so that whoever is first in both arms scores 1. With alpha = 0.5 the order is theirs.

Fusion = Literal["convex", "rrf"]

#: The usual values of Okapi BM25 for texts of any length.
OKAPI: Final = Okapi(k1=1.5, b=0.75)
#: The constant of the paper: how little the first ranks stand out.
RRF_K: Final = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class Fused:
    """One candidate with its scores, all in [0, 1] and comparable within one query alone.

    Attributes:
        bm25_score, vector_score: what each arm gives it, stretched over the candidates; 0 where an arm knows nothing.
        score: the sum of `words` and `meaning`.
        words, meaning: what each arm added to the score.
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
    """Join two tables of raw scores, best first; equal scores stand in the order of their ids.

    Args:
        lexical: BM25 of the candidates; 0 = none of the words.
        vector: similarity of the candidates, on any scale; one that is missing has none.
        alpha: 0 = words only, 1 = meaning only.

    Raises:
        BadInput: alpha, the fusion or a score is none.
    """
    if not 0.0 <= alpha <= 1.0:
        raise BadInput(f"alpha must lie in [0, 1], not {alpha}.", remedy="0 searches words only, 1 meaning only.")
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
    """Rank given texts by their words and by vector results that were had elsewhere; see `fused`.

    Args:
        corpus: every text by its id; words are rare or frequent, and texts long or short, within it.
        vector_results: similarities of texts of the corpus, as many as there are.

    Returns:
        Whoever has a word of the query (unless alpha is 1) or a vector result (unless alpha is 0).

    Raises:
        BadInput: a value is out of its range, or a vector result is about no text of the corpus.
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
    """RRF of one arm, 1 for its first; equal scores share a rank, and what is not `above` has none."""
    ranked = sorted(-score for score in scores.values() if score > above)
    return {
        id_: (RRF_K + 1) / (RRF_K + 1 + bisect_left(ranked, -score)) for id_, score in scores.items() if score > above
    }


# Diversity: what says the same as a better hit steps back (MMR; Carbonell and Goldstein, SIGIR 1998).
#
# Hits are taken one after the other, each time the one with the greatest `trade x score - (1 - trade) x (its
# similarity to the nearest hit already taken)`.

#: Score and novelty weigh the same.
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
    """At most `limit` of the hits in the order in which they are taken; scores stay as they were.

    Args:
        hits: best first, each with its score in [0, 1].
        vectors: the unit vector of each hit by its id; one without a vector is like no other.
        trade: 1 = the order of the scores, 0 = novelty alone once the best is taken.
        similarity: reads a cosine; a space's `calibrated` makes 0 of unrelated texts, whatever their cosine.

    Raises:
        BadInput: `trade` is not in [0, 1].
    """
    if not 0.0 <= trade <= 1.0:
        raise BadInput(f"trade must lie in [0, 1], not {trade}.", remedy="1 keeps the order of the scores.")
    left = list(hits)
    nearest = dict.fromkeys((hit.id for hit in left), 0.0)
    taken: list[Hit] = []
    while left and len(taken) < limit:
        # The first is the best by score, whatever the trade: there is nothing yet that it could repeat.
        best = max(left, key=lambda hit: trade * hit.score - (1 - trade) * nearest[hit.id]) if taken else left[0]
        left.remove(best)
        taken.append(best)
        vector = vectors.get(best.id)
        for hit in left:
            other = vectors.get(hit.id)
            if vector is not None and other is not None:
                nearest[hit.id] = max(nearest[hit.id], similarity(float(vector @ other)))
    return tuple(taken)


# Recipes: how turns are ranked, by name. What each gives and costs is in `bench/results/README.md`.

RecipeName = Literal["fast", "balanced", "deep", "rrf"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """How to rank.

    Attributes:
        pool: candidates of each of the two searches; their neighbours come on top.
        reach: how many turns around a candidate are read.
        weights: what each feature counts (`neighbourhood.NAMES`).
        by_rank: only the places in the two searches count, not their scores.
    """

    name: RecipeName
    pool: int
    reach: int
    weights: Features
    by_rank: bool = False


def only(**weights: float) -> Features:
    """Weights of some features; the others do not count."""
    return np.array([weights.get(name, 0.0) for name in NAMES], dtype=np.float32)


#: A turn by itself: words and meaning.
FAST: Final = Recipe(name="fast", pool=50, reach=0, weights=only(words=ALONE_WORDS, meaning=ALONE_MEANING))
#: A turn in its neighbourhood.
BALANCED: Final = Recipe(name="balanced", pool=50, reach=3, weights=TURN_WEIGHTS)
#: The same over four times as many candidates.
DEEP: Final = Recipe(name="deep", pool=200, reach=3, weights=TURN_WEIGHTS)
#: Reciprocal rank fusion (Cormack et al. 2009), for comparison: it needs no scores that can be compared.
RRF: Final = Recipe(name="rrf", pool=50, reach=0, weights=only(words=1.0, meaning=1.0), by_rank=True)
_BY_NAME: Final = {recipe.name: recipe for recipe in (FAST, BALANCED, DEEP, RRF)}


def recipe(name: str) -> Recipe:
    """The recipe of that name.

    Raises:
        BadInput: there is none.
    """
    for known, found in _BY_NAME.items():
        if known == name:
            return found
    raise BadInput(f"There is no recipe {name!r}.", remedy=f"One of: {', '.join(_BY_NAME)}.")


def by_places(features: Features) -> Features:
    """Each feature as its reciprocal rank, 1 / (k + place); what a search did not find counts nothing there."""
    order = np.argsort(np.argsort(-features, axis=0, kind="stable"), axis=0)
    return np.where(features > 0, 1.0 / (RRF_K + 1 + order), 0.0).astype(np.float32)
