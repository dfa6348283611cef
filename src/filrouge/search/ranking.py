"""Ranking: the probability that a memory or a turn helps, score fusion, and the order of the results.

All probabilities are logistic models fitted on labels (`bench/fit_recall.py`, `bench/fit_needed.py`). The module also
adds synonyms to the words of a question (`Bridging`), and ranks memories (`rank`).

Scores of words and of vectors cannot be compared directly. Score fusion normalises them per query, or replaces them by
ranks, before it mixes them. `rank` mixes two absolute values instead.

An answer rarely repeats the words of its question, so each turn is scored by its own words and vector, by those of the
turns around it, and by the best of its session. The module also parses the times that a question names.

Pure: no database, no file.
"""

from __future__ import annotations

import calendar
import math
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Final, Literal, get_args

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from filrouge.core import lazy_re as re
from filrouge.core.errors import BadInput
from filrouge.core.protocols import Analyser, Vector, Vectors
from filrouge.extraction.vocabulary import PLAIN_WORDS, canonical, content, fold, is_bridged, tokens, topic, variants
from filrouge.memories.models import Memory
from filrouge.search.models import FEATURE_NAMES, Hit, Ranking
from filrouge.search.weights import (
    ALONE_MEANING,
    ALONE_WORDS,
    KNOWN,
    KNOWN_BY_WORDS,
    RELEVANCE,
    RELEVANCE_BY_WORDS,
    TURN_WEIGHTS,
)

# Scores: normalisation, BM25, mixing by rank (RRF), diversity (MMR), and ranking recipes.


def normalise(scores: Mapping[str, float]) -> dict[str, float]:
    """Normalise by min-max to [0, 1]; if all values are equal, each becomes 1."""
    if not scores:
        return {}
    low, high = min(scores.values()), max(scores.values())
    if high == low:
        return dict.fromkeys(scores, 1.0)
    return {key: (value - low) / (high - low) for key, value in scores.items()}


# BM25 over rows with known token counts, with free k1 and b or with the values of the full-text backends.
#
# FTS5 and tantivy use k1 = 1.2 and b = 0.75, and treat the forms of one word as independent. Rescoring the best fifty
# over their tokens allows other values: for short turns, length and repetition should count less. Rows that an index
# does not hold yet, and filtered shares of a table, are scored here with the backends' own formula.

#: How often a word that is its own stem counts: as often as a word with a stem, which has two forms.
_FORMS_PER_WORD: Final = 2
_LEAST_RARITY: Final = 1e-6


class Okapi(Struct, frozen=True, kw_only=True):
    """The two free parameters of BM25; the defaults suit short turns.

    Attributes:
        k1: how much a repetition still adds; 0 = a word counts once.
        b: how much length counts; 0 = not at all, 1 = in full.
    """

    k1: float = 0.6
    b: float = 0.4

    def __post_init__(self) -> None:
        if self.k1 < 0 or not 0 <= self.b <= 1:
            raise ValueError(f"k1 must not be negative and b must lie in [0, 1], not {self.k1} and {self.b}")


#: The parameters that FTS5 and tantivy use.
BACKEND_OKAPI: Final = Okapi(k1=1.2, b=0.75)


class CollectionStatistics(Struct, frozen=True, kw_only=True):
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
        return rarity(having, self.rows)


def bm25(
    terms: Sequence[Sequence[str]],
    candidates: Mapping[str, Sequence[str]],
    collection: CollectionStatistics,
    okapi: Okapi | None = None,
) -> dict[str, float]:
    """Return the BM25 score of each candidate; higher is better, 0 if no word of the question occurs.

    Args:
        terms: the words of the question with their forms. Every word has the same weight: a word that is its own stem
            counts twice, as in the full-text expression that found the candidates.
        candidates: the tokens that each item is indexed under, with repetitions.
    """
    counts = {id_: Counter(tokens) for id_, tokens in candidates.items()}
    lengths = {id_: len(tokens) for id_, tokens in candidates.items()}
    return bm25_of_counts(terms, counts, lengths, collection, okapi)


def bm25_of_counts(
    terms: Sequence[Sequence[str]],
    counts: Mapping[str, Mapping[str, int]],
    lengths: Mapping[str, float],
    collection: CollectionStatistics,
    okapi: Okapi | None = None,
) -> dict[str, float]:
    """Return the same as `bm25`, from token counts and lengths.

    Args:
        counts: token counts of each candidate; only tokens of the question matter.
        lengths: the length of each candidate in tokens; other items may be included.
    """
    okapi, weights, mean = okapi or Okapi(), _weights(terms, collection), collection.mean or 1.0
    found = dict[str, float]()
    for id_, occurring in counts.items():
        norm = okapi.k1 * (1 - okapi.b + okapi.b * lengths[id_] / mean)
        found[id_] = sum(
            weights[form] * n * (okapi.k1 + 1) / (n + norm) for form, n in occurring.items() if form in weights
        )
    return found


def _weights(terms: Sequence[Sequence[str]], collection: CollectionStatistics) -> dict[str, float]:
    multiplicity = dict[str, int]()
    for forms in terms:
        for form in forms:
            multiplicity[form] = max(multiplicity.get(form, 0), _FORMS_PER_WORD if len(forms) == 1 else 1)
    return {form: count * collection.rarity(form) for form, count in multiplicity.items()}


# Hybrid retrieval: word scores and vector scores in, one explained order out.
#
# There are two ways to combine them. Convex: each score is min-max normalised over the candidates, and alpha mixes
# both. RRF, reciprocal rank fusion (Cormack, Clarke, Büttcher, SIGIR 2009): only ranks count, as `1 / (60 + rank)`.
# Here RRF is weighted by alpha, and scaled so that a candidate ranked first by both scores 1. With alpha = 0.5 the
# order is that of the paper.

Fusion = Literal["convex", "rrf"]

#: The usual parameters of BM25, for texts of any length.
USUAL_OKAPI: Final = Okapi(k1=1.5, b=0.75)
#: The constant of the RRF paper; the larger it is, the less the first ranks stand out.
RRF_K: Final = 60


class Fused(Struct, frozen=True, kw_only=True):
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


def fuse_scores(
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
    not_finite = [id_ for table in (lexical, vector) for id_, score in table.items() if not math.isfinite(score)]
    if not_finite:
        raise BadInput(
            f"The score of {not_finite[0]!r} is not a number.", remedy="Leave out the candidates that have no score."
        )
    has_match = any(score > 0 for score in lexical.values())
    by_words = normalise(lexical) if has_match else dict.fromkeys(lexical, 0.0)
    by_meaning = normalise(vector)
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
    return sorted(found, key=lambda candidate: (-candidate.score, candidate.id))


def hybrid_fusion(
    corpus: Mapping[str, str],
    query: str,
    vector_results: Mapping[str, float],
    analyser: Analyser,
    *,
    alpha: float = 0.5,
    okapi: Okapi = USUAL_OKAPI,
    fusion: Fusion = "convex",
) -> list[Fused]:
    """Rank given texts by their words and by vector results computed elsewhere; see `fuse_scores`.

    Args:
        corpus: all texts by id; word rarity and mean length are computed over them.
        vector_results: similarities of texts of the corpus; texts may be missing.

    Returns:
        Every text with a word of the query (unless alpha is 1) or a vector result (unless alpha is 0).

    Raises:
        BadInput: a value is out of range, or a vector result has an id that is not in the corpus.
    """
    unknown_id = next((id_ for id_ in vector_results if id_ not in corpus), None)
    if unknown_id is not None:
        raise BadInput(f"The corpus has no text for the vector result {unknown_id!r}.", remedy="Leave it out.")
    tokens = {id_: analyser.tokens(text).split() for id_, text in corpus.items()}
    not_empty = [words for words in tokens.values() if words]
    collection = CollectionStatistics(
        rows=len(not_empty),
        mean=sum(map(len, not_empty)) / len(not_empty) if not_empty else 0.0,
        frequencies=Counter(token for words in not_empty for token in set(words)),
    )
    scores = bm25(analyser.terms(query), tokens, collection, okapi)
    ids = {id_ for id_, score in scores.items() if score > 0} if alpha < 1 else set[str]()
    ids |= vector_results.keys() if alpha > 0 else set[str]()
    lexical = {id_: scores[id_] for id_ in ids}
    vector = {id_: float(score) for id_, score in vector_results.items() if id_ in ids}
    return fuse_scores(lexical, vector, alpha=alpha, fusion=fusion)


def _by_rank(scores: Mapping[str, float], above: float = -math.inf) -> dict[str, float]:
    """Return the scaled RRF score, 1 for the first; equal scores share a rank, and scores up to `above` get none."""
    ranked = sorted(-score for score in scores.values() if score > above)
    return {
        id_: (RRF_K + 1) / (RRF_K + 1 + bisect_left(ranked, -score)) for id_, score in scores.items() if score > above
    }


# Diversity: hits that repeat a better hit are moved back (MMR; Carbonell and Goldstein, SIGIR 1998). Each step takes
# the hit with the greatest `trade x score - (1 - trade) x (similarity to the nearest hit already taken)`.

#: Score and novelty have equal weight.
DEFAULT_TRADE: Final = 0.5


def _unchanged(cosine: float) -> float:
    return cosine


def diverse(
    hits: Sequence[Hit],
    vectors: Mapping[str, Vector],
    limit: int,
    *,
    trade: float = DEFAULT_TRADE,
    similarity: Callable[[float], float] = _unchanged,
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
    remaining = list(hits)
    nearest = dict.fromkeys((hit.id for hit in remaining), 0.0)
    taken: list[Hit] = []
    while remaining and len(taken) < limit:
        # The first hit is always the best by score, because there is nothing yet that it could repeat.
        best = remaining[0]
        if taken:
            best = max(remaining, key=lambda hit: trade * hit.score - (1 - trade) * nearest[hit.id])
        remaining.remove(best)
        taken.append(best)
        vector = vectors.get(best.id)
        for hit in remaining:
            other = vectors.get(hit.id)
            if vector is not None and other is not None:
                nearest[hit.id] = max(nearest[hit.id], similarity(float(vector @ other)))
    return tuple(taken)


# Ranking recipes for turns, by name. Quality and cost of each are in `bench/results/README.md`.

RecipeName = Literal["fast", "balanced", "deep", "rrf"]


class Recipe(Struct, frozen=True, kw_only=True):
    """How turns are ranked.

    Attributes:
        pool: candidates from each of the two searches; their neighbours are added.
        reach: how many turns before and after a candidate are read.
        weights: the weight of each feature (`search.models.FEATURE_NAMES`).
        by_rank: use only the ranks in the two searches, not the scores.
    """

    name: RecipeName
    pool: int
    reach: int
    weights: Features
    by_rank: bool = False


def feature_weights(**weights: float) -> Features:
    """Return feature weights with the given ones set and all others 0."""
    return np.array([weights.get(name, 0.0) for name in FEATURE_NAMES], dtype=np.float32)


#: Each turn by itself: words and vectors.
FAST: Final = Recipe(name="fast", pool=50, reach=0, weights=feature_weights(words=ALONE_WORDS, meaning=ALONE_MEANING))
#: Each turn with its neighbourhood.
BALANCED: Final = Recipe(name="balanced", pool=50, reach=3, weights=TURN_WEIGHTS)
#: The same with four times as many candidates.
DEEP: Final = Recipe(name="deep", pool=200, reach=3, weights=TURN_WEIGHTS)
#: Reciprocal rank fusion (Cormack et al. 2009), for comparison; it needs no comparable scores.
RRF: Final = Recipe(name="rrf", pool=50, reach=0, weights=feature_weights(words=1.0, meaning=1.0), by_rank=True)
_BY_NAME: Final = {recipe.name: recipe for recipe in (FAST, BALANCED, DEEP, RRF)}


def recipe_named(name: str) -> Recipe:
    """Return the recipe with this name.

    Raises:
        BadInput: no recipe has this name.
    """
    for recipe_name, recipe in _BY_NAME.items():
        if recipe_name == name:
            return recipe
    raise BadInput(f"There is no recipe {name!r}.", remedy=f"One of: {', '.join(_BY_NAME)}.")


def reciprocal_ranks(features: Features) -> Features:
    """Return each feature as its reciprocal rank, 1 / (k + rank); a feature of 0 stays 0."""
    order = np.argsort(np.argsort(-features, axis=0, kind="stable"), axis=0)
    return np.where(features > 0, 1.0 / (RRF_K + 1 + order), 0.0).astype(np.float32)


# Relevance: the probability that a memory or a turn helps, and that a prompt needs a memory at all.

# Synonyms: a question's words, and words of the same meaning in other languages or in other developers' usage. This has
# nothing to do with bridges between threads.

QuestionTerms = tuple[tuple[str, ...], ...]
"""Words, each with its forms."""


class QuestionWords(Struct, frozen=True, kw_only=True):
    """The words of a question; synonyms are words of the same meaning.

    Attributes:
        own_words: the question's words, each with the forms it may be indexed under.
        searched: what memories are searched for: `own_words`, then each synonym as a word of its own.
        meant: what counts as a match: `own_words`, where the forms of a word include those of its synonyms. A phrase
            with synonyms is one more word.
    """

    own_words: QuestionTerms
    searched: QuestionTerms
    meant: QuestionTerms


class Bridging:
    """Adds synonyms to a question: words of the same meaning (`extraction.vocabulary`).

    Args:
        analyse: returns the terms of a query (`core.protocols.Analyser.terms`).
    """

    def __init__(self, analyse: Callable[[str], QuestionTerms]) -> None:
        self._analyse = analyse
        self._synonyms = lru_cache(maxsize=2048)(self._synonyms_of)

    def words(self, text: str) -> QuestionWords:
        """Return the words of a question; a phrase with one meaning ("continuous integration") counts as one word."""
        own_words = self._analyse(text)
        meant, searched = list(own_words), dict.fromkeys(own_words)
        for word in dict.fromkeys(tokens(fold(text))):
            synonyms = self._synonyms(canonical(word))
            if not synonyms:
                continue
            searched |= dict.fromkeys(synonyms)
            forms = dict.fromkeys(form for term in synonyms for form in term)
            index = next((index for index, term in enumerate(meant) if not forms.keys().isdisjoint(term)), None)
            if index is None:
                meant.append(tuple(forms))
            else:
                meant[index] = tuple(dict.fromkeys([*meant[index], *forms]))
        return QuestionWords(own_words=own_words, searched=tuple(searched), meant=tuple(meant))

    def _synonyms_of(self, word: str) -> QuestionTerms:
        """Return all single words of the same meaning, analysed; empty for a word without synonyms."""
        if not is_bridged(word):
            return ()
        analysed = [self._analyse(variant) for variant in variants(word)]
        return tuple(terms[0] for terms in analysed if len(terms) == 1)


# Relevance: the probability that a result helps, on one scale for every kind of result. There are two separate models.
#
# `relevance_probabilities` gives the probability that each result contains what was asked. Its features have the same
# meaning in every store: calibrated similarities, the share of the question's words, and how far the result stands out
# from the other candidates. `known_probability` gives the probability that anything about the question is stored, from
# the best features of the first few results. One result is always the most probable, even if nothing is known, so
# only this probability can tell that the answer is empty.
#
# Both are logistic. `bench/fit_recall.py` fitted the weights on questions asked where their answer is stored and where
# it is not. They were validated on held-out sources (`bench/results/relevance.md`). Where there are no vectors,
# separate weights for words only are used.

LogOdds = Mapping[str, float]

#: The number of best results that decide whether anything is known: as many as are injected before a prompt.
MAX_DECIDING: Final = 4
_MAX_WORDS: Final = 10


class RelevanceFeatures(Struct, frozen=True, kw_only=True):
    """The features of one result.

    Attributes:
        similarity: calibrated similarity of the question and the result's best window; 0 without a vector.
        around, wide: similarity of the question and the neighbourhood, with one turn and with two turns on each side;
            equal to `similarity` for a text without neighbours.
        covered: the share of the question's words that the result contains, weighted by rarity.
        telling: it contains a word of the question that identifies the topic.
        share: its softmax weight among the scores of the pool, in (0, 1].
        words: how many meaningful words the question has.
        time, speaker, dated, asks: ranking features (`search.models.FEATURE_NAMES`); 0 for results other than turns.
    """

    similarity: float
    around: float
    wide: float
    covered: float
    telling: bool
    share: float
    words: int
    time: float = 0.0
    speaker: float = 0.0
    dated: float = 0.0
    asks: float = 0.0

    def by_name(self) -> dict[str, float]:
        """Return the features by name, as the models use them."""
        return {
            "similarity": self.similarity,
            "around": self.around,
            "wide": self.wide,
            "covered": self.covered,
            "telling": float(self.telling),
            "stands_out": math.log(max(self.share, 1e-6)),
            "words": min(self.words, _MAX_WORDS) / _MAX_WORDS,
            "similar_and_covered": self.similarity * self.covered,
            "wide_and_covered": self.wide * self.covered,
            "time": self.time,
            "speaker": self.speaker,
            "dated": self.dated,
            "asks": self.asks,
        }


def relevance_probabilities(features: Sequence[RelevanceFeatures], weights: LogOdds) -> list[float]:
    """Return for each result the probability that it contains what was asked."""
    return [logistic(result.by_name(), weights) for result in features]


def known_probability(
    features: Sequence[RelevanceFeatures], probabilities: Sequence[float], words_found: float, weights: LogOdds
) -> float:
    """Return the probability that anything about the question is known; 0 if nothing was found.

    Args:
        probabilities: the results' `relevance_probabilities`.
        words_found: the share of the question's words, weighted by rarity, that occur in any of the results.
    """
    return logistic(known_features(features, probabilities, words_found), weights) if features else 0.0


def known_features(
    features: Sequence[RelevanceFeatures], probabilities: Sequence[float], words_found: float
) -> dict[str, float]:
    """Return the features that `known_probability` uses."""
    best = sorted(range(len(features)), key=lambda index: -probabilities[index])[:MAX_DECIDING]
    any_of_them = 1.0 - math.prod(1.0 - probabilities[index] for index in best)
    similar = max(features[index].similarity for index in best)
    covered = max(features[index].covered for index in best)
    return {
        "any": log_odds(any_of_them),
        "similarity": similar,
        "wide": max(features[index].wide for index in best),
        "covered": covered,
        "words_found": words_found,
        "words_missing": float(words_found < 1.0 - 1e-9),
        "similar_and_covered": similar * covered,
    }


def rarity(frequency: int, size: int) -> float:
    """Return the smoothed inverse document frequency: ln(1 + (N - n + 0.5) / (n + 0.5)) (Robertson, Okapi BM25)."""
    return math.log(1 + (max(size, frequency) - frequency + 0.5) / (frequency + 0.5))


def is_topic_word(word: str, frequency: int, size: int) -> bool:
    """Return True for a word that identifies the topic: it occurs in few items and is not an everyday word."""
    is_rare = frequency <= max(5, size * 0.05)
    return is_rare and len(word) >= 2 and word not in PLAIN_WORDS and not (word.isdigit() and len(word) < 3)


def coverage(matched: Sequence[str], weights: Mapping[str, float]) -> float:
    """Return the share of a prompt's words that an item contains, weighted by rarity, in [0, 1]."""
    total = sum(weights.values())
    return sum(weights[word] for word in matched) / total if total else 0.0


def softmax(scores: Sequence[float]) -> list[float]:
    """Return the softmax of the scores."""
    if not scores:
        return []
    powers = np.exp(np.asarray(scores, dtype=np.float64) - max(scores))
    return [float(share) for share in powers / powers.sum()]


def logistic(features: Mapping[str, float], weights: LogOdds) -> float:
    """Return the logistic probability of weighted features; features without a weight are ignored."""
    total = weights["one"] + sum(weights[name] * number for name, number in features.items() if name in weights)
    return 1.0 / (1.0 + math.exp(-max(-50.0, min(50.0, total))))


def log_odds(probability: float) -> float:
    """Return the log odds of a probability, clipped to [1e-4, 1 - 1e-4]."""
    clipped = min(max(probability, 1e-4), 1 - 1e-4)
    return math.log(clipped / (1 - clipped))


# Judging: how much of a question's words a text contains, and the relevance of results of any kind.

Forms = Sequence[str]
#: The number of first results from which `known` is computed: the best `MAX_DECIDING` of them, and the words that any
#: of them contains. Turn search reads at least this many turns.
MAX_KNOWN_RESULTS: Final = 10
#: Minimum collection size for word rarity. In a smaller collection rarity cannot be estimated: with a single memory,
#: each of its words occurs "in all memories".
_MIN_COLLECTION_SIZE: Final = 20


class WeightedQuestion:
    """The words of a question, weighted by their rarity in the searched collection.

    Args:
        terms: its meaningful words, each with every form that counts as a match.
        frequencies: in how many items each form occurs.
        size: how many items there are.
    """

    def __init__(self, terms: Sequence[Forms], frequencies: Mapping[str, int], size: int) -> None:
        self._terms = terms
        self._frequencies = {forms[0]: max(frequencies.get(form, 0) for form in forms) for forms in terms}
        self._size = max(size, _MIN_COLLECTION_SIZE)
        self._rarities = {word: rarity(frequency, self._size) for word, frequency in self._frequencies.items()}

    def __len__(self) -> int:
        """Return the number of words."""
        return len(self._terms)

    def matched(self, tokens: frozenset[str]) -> list[str]:
        """Return the words of the question that occur in a text, given its tokens."""
        return [forms[0] for forms in self._terms if not tokens.isdisjoint(forms)]

    def covered(self, words: Sequence[str]) -> float:
        """Return the share of the question that these words make up, weighted by rarity."""
        return coverage(words, self._rarities)

    def is_telling(self, words: Iterable[str]) -> bool:
        """Return True if one of the words identifies the topic."""
        return any(is_topic_word(word, self._frequencies[word], self._size) for word in words)


def standalone_features(
    question: WeightedQuestion, matched: Sequence[str], *, similarity: float | None, share: float
) -> RelevanceFeatures:
    """Return the features of a text without neighbours, such as a memory or a passage."""
    similarity = similarity or 0.0
    return RelevanceFeatures(
        similarity=similarity,
        around=similarity,
        wide=similarity,
        covered=question.covered(matched),
        telling=question.is_telling(matched),
        share=share,
        words=len(question),
    )


def judge_relevance(
    question: WeightedQuestion,
    features: Sequence[RelevanceFeatures],
    matched: Sequence[Sequence[str]],
    *,
    by_meaning: bool,
) -> tuple[list[float], float]:
    """Return the relevance of each result, and the probability that anything is known.

    That probability is computed from the first `MAX_KNOWN_RESULTS` results.

    Args:
        matched: the question's words in each result.
        by_meaning: False if vectors were not used.
    """
    probabilities = relevance_probabilities(features, RELEVANCE if by_meaning else RELEVANCE_BY_WORDS)
    words_found = question.covered(list(dict.fromkeys(word for words in matched[:MAX_KNOWN_RESULTS] for word in words)))
    known_weights = KNOWN if by_meaning else KNOWN_BY_WORDS
    return probabilities, known_probability(
        features[:MAX_KNOWN_RESULTS], probabilities[:MAX_KNOWN_RESULTS], words_found, known_weights
    )


# Need: the probability that a prompt needs a memory, if the embedder has a model for what prompts need.
#
# This is a different question from whether two texts have the same topic (relevance, above), and the vector of the
# prompt as a question does not help to answer it (`bench/results/needed.md`). A memory is compared with the others that
# were found: how far its cosine with the need vector of the prompt (`core.protocols.PromptEmbedder`) exceeds theirs,
# and how much of the prompt's words it contains. The model is logistic; `bench/fit_needed.py` fitted the weights on
# labelled conversations that the embedder was not trained on. Labels name only a few memories per prompt, so a
# probability of 0.3 is high.
#
# Whether the prompt needs anything is decided by one memory: how much nearer than "nothing" it is, and whether it
# shares words with the prompt.

#: Cosines lie close together; dividing by this spreads them in the softmax.
NEED_TEMPERATURE: Final = 0.03
#: Minimum probability; less probable memories are not injected before a prompt.
MIN_NEED_PROBABILITY: Final = 0.15
#: Log-odds weights for "this memory is needed".
NEED_WEIGHTS: Final = {"one": -1.082, "ahead": 0.398, "covered": 3.445}
#: Log-odds weights for "the prompt needs a memory". Fitted on talk alone, words have less weight, and then more
#: prompts of other people go without the memory that they need (ADR 33).
ANYTHING_WEIGHTS: Final = {"one": 0.25, "needed": 25.0, "words": 1.5}
#: The share of the prompt's words that a memory must contain to share words with it; a common word alone is less.
_MIN_COVERED: Final = 0.05


class NeedFeatures(Struct, frozen=True, kw_only=True):
    """The need features of one memory.

    Attributes:
        needed: how much nearer it is to what the prompt needs than "nothing" is, as a difference of two cosines.
        covered: as in `RelevanceFeatures`.
    """

    needed: float
    covered: float


def need_probabilities(found: Sequence[NeedFeatures], weights: LogOdds = NEED_WEIGHTS) -> list[float]:
    """Return for each of the memories found together the probability that the prompt needs it."""
    return [logistic(row, weights) for row in need_inputs(found)]


def need_inputs(found: Sequence[NeedFeatures]) -> list[Mapping[str, float]]:
    """Return the inputs of the model that `need_probabilities` evaluates."""
    shares = softmax([memory.needed / NEED_TEMPERATURE for memory in found])
    return [
        {"ahead": math.log(max(share, 1e-6)), "covered": memory.covered}
        for memory, share in zip(found, shares, strict=True)
    ]


def anything_needed(found: Sequence[NeedFeatures]) -> float:
    """Return the probability that the prompt needs any of the memories found."""
    return logistic(anything_inputs(found), ANYTHING_WEIGHTS) if found else 0.0


def anything_inputs(found: Sequence[NeedFeatures]) -> Mapping[str, float]:
    """Return the inputs of the model that `anything_needed` evaluates: of several memories those with the best odds.

    Args:
        found: at least one memory.
    """
    inputs = [{"needed": memory.needed, "words": float(memory.covered > _MIN_COVERED)} for memory in found]
    return max(inputs, key=lambda row: logistic(row, ANYTHING_WEIGHTS))


class MemoryForPrompt(Struct, frozen=True, kw_only=True):
    """A memory that may be needed.

    Attributes:
        tokens: every token the memory is indexed under.
        bm25: higher is better; None if the word search did not return it.
        needed: as in `NeedFeatures`.
    """

    item: Memory
    tokens: frozenset[str]
    bm25: float | None
    needed: float


def rank_by_need(query: str, question: WeightedQuestion, candidates: Sequence[MemoryForPrompt]) -> Ranking:
    """Return the memories by the probability that a prompt needs them, the most probable first."""
    lexical = normalise({c.item.id: c.bm25 for c in candidates if c.bm25 is not None})
    nearness = normalise({c.item.id: c.needed for c in candidates})
    features = [NeedFeatures(needed=c.needed, covered=question.covered(question.matched(c.tokens))) for c in candidates]
    hits = [
        Hit(
            item=c.item,
            bm25_score=lexical.get(c.item.id, 0.0),
            vector_score=nearness[c.item.id],
            score=probability,
            similarity=None,
            coverage=found.covered,
            relevance=probability,
            needed=c.needed,
        )
        for c, found, probability in zip(candidates, features, need_probabilities(features), strict=True)
    ]
    hits.sort(key=lambda hit: (-hit.score, hit.id))
    return Ranking(query=query, hits=tuple(hits), known=anything_needed(features), by_need=True)


# Ranking of memories: candidates of both retrievers in, one explained ranking out.
#
# `score = (1 - alpha) x words + alpha x similarity`. Both parts are absolute values in [0, 1]: the share of the
# question's words that the memory contains, weighted by rarity, and the calibrated similarity. Min-max normalisation
# would give the best of several poor candidates a perfect score, and the second of two candidates zero.

ALPHA = 0.5


class RetrievedMemory(Struct, frozen=True, kw_only=True):
    """A memory that one or both retrievers returned.

    Attributes:
        tokens: every token the memory is indexed under.
        bm25: higher is better; None if the word search did not return it.
        cosine: None if the vector search did not return it.
        similarity: the calibrated cosine.
    """

    item: Memory
    tokens: frozenset[str]
    bm25: float | None
    cosine: float | None
    similarity: float | None


def rank(
    query: str,
    question: WeightedQuestion,
    candidates: Sequence[RetrievedMemory],
    *,
    alpha: float = ALPHA,
    by_meaning: bool = True,
    notices: tuple[str, ...] = (),
) -> Ranking:
    """Fuse and judge the candidates, best first; without vectors, only words count.

    Args:
        by_meaning: False if the space is not calibrated; relevance is then computed from words only.
    """
    lexical = normalise({c.item.id: c.bm25 for c in candidates if c.bm25 is not None})
    vector = normalise({c.item.id: c.cosine for c in candidates if c.cosine is not None})
    matched = {c.item.id: question.matched(c.tokens) for c in candidates}
    covered = {id_: question.covered(words) for id_, words in matched.items()}
    alpha = alpha if vector else 0.0
    scores = {c.item.id: (1 - alpha) * covered[c.item.id] + alpha * (c.similarity or 0.0) for c in candidates}
    ordered = sorted(candidates, key=lambda c: (-round(scores[c.item.id], 9), -lexical.get(c.item.id, 0.0), c.item.id))
    first = ordered[:MAX_KNOWN_RESULTS]
    best_words = max(covered.values(), default=0.0) or 1.0
    best_meaning = max((c.similarity or 0.0 for c in candidates), default=0.0) or 1.0
    shares = softmax(
        [
            ALONE_WORDS * covered[c.item.id] / best_words + ALONE_MEANING * (c.similarity or 0.0) / best_meaning
            for c in ordered
        ]
    )
    features = [
        standalone_features(question, matched[c.item.id], similarity=c.similarity, share=share)
        for c, share in zip(ordered, shares, strict=True)
    ]
    probabilities, known = judge_relevance(
        question, features, [matched[c.item.id] for c in first], by_meaning=by_meaning and bool(vector)
    )
    hits = [
        Hit(
            item=c.item,
            bm25_score=lexical.get(c.item.id, 0.0),
            vector_score=vector.get(c.item.id, 0.0),
            score=scores[c.item.id],
            similarity=c.similarity,
            coverage=covered[c.item.id],
            relevance=probability,
        )
        for c, probability in zip(ordered, probabilities, strict=True)
    ]
    return Ranking(query=query, hits=tuple(hits), notices=notices, known=known)


# Turn ranking: features of each turn and of the turns around it, and detection of outdated turns.

# The time a question is about: months, years, dates, and expressions like "yesterday" or "la semaine dernière".
#
# A time in the question raises the score of turns from that time. It never excludes other turns, because people
# misremember dates and report things later. Each expression becomes a span of days, relative to the day of the
# question. English and French are supported.

_MONTHS: Final = {
    name: number
    for number, names in enumerate(
        (
            "january jan janvier janv",
            "february feb fevrier fevr",
            "march mar mars",
            "april apr avril avr",
            "may mai",
            "june jun juin",
            "july jul juillet juil",
            "august aug aout",
            "september sep sept septembre",
            "october oct octobre",
            "november nov novembre",
            "december dec decembre",
        ),
        start=1,
    )
    for name in names.split()
}
_MONTH_NAMES: Final = "|".join(sorted(_MONTHS, key=len, reverse=True))
#: "may", "mar" and "mars" are also ordinary words: alone they need a preposition or a number next to them.
_MONTH: Final = re.compile(
    rf"(?:\b(?:in|of|on|during|since|until|before|after|en|de|du|le|last|this|next|debut|fin|mi)[ -]+)?"
    rf"(?:\b(?P<day>\d{{1,2}})(?:st|nd|rd|th|er)?(?: of)? )?\b(?P<month>{_MONTH_NAMES})\b\.?"
    rf"(?: (?P<after>\d{{1,2}})(?:st|nd|rd|th)?\b(?!\d))?(?:,? (?P<year>(?:19|20)\d\d))?"
)
_AMBIGUOUS_MONTHS: Final = frozenset("may march mar mars mai jan sept dec oct nov jun jul apr".split())
_ISO: Final = re.compile(r"\b((?:19|20)\d\d)-(\d\d)-(\d\d)\b")
_YEAR: Final = re.compile(r"\b(?:in|of|during|since|en|de) ((?:19|20)\d\d)\b")
_AGO: Final = re.compile(
    r"\b(?:(\d{1,3}|an?|one|two|three|four|five|six) (day|week|month|year)s? ago"
    r"|il y a (\d{1,3}|une?|deux|trois|quatre|cinq|six) (jour|semaine|mois|an)s?)\b"
)
_COUNTS: Final = {
    word: number
    for number, words in enumerate(
        ("a an one un une", "two deux", "three trois", "four quatre", "five cinq", "six"), start=1
    )
    for word in words.split()
}
_UNIT_DAYS: Final = {"day": 1, "jour": 1, "week": 7, "semaine": 7, "month": 30, "mois": 30, "year": 365, "an": 365}
#: Expressions with the first and the last day they can mean, in days before today.
_RELATIVE: Final = (
    (re.compile(r"\b(?:today|this morning|this afternoon|tonight|aujourd'?hui|ce matin|ce soir)\b"), 0, 0),
    (re.compile(r"\b(?:yesterday|last night|hier)\b"), 1, 1),
    (re.compile(r"\b(?:the other day|l'autre jour|recently|recemment|lately|dernierement)\b"), 10, 1),
    (re.compile(r"\b(?:last week|past week|la semaine derniere|la semaine passee)\b"), 14, 5),
    (re.compile(r"\b(?:this week|cette semaine)\b"), 7, 0),
    (re.compile(r"\b(?:last month|past month|le mois dernier|le mois passe)\b"), 62, 25),
    (re.compile(r"\b(?:this month|ce mois-ci|ce mois)\b"), 31, 0),
    (re.compile(r"\b(?:last year|l'annee derniere|l'an dernier|l'an passe)\b"), 730, 180),
)


class Span(Struct, frozen=True, kw_only=True):
    """Days from `first` to `last`, both included."""

    first: date
    last: date

    def closeness(self, day: date) -> float:
        """Return 1 within the span, falling to 0 over a month outside it, because reports precede or follow events."""
        distance = max((self.first - day).days, (day - self.last).days, 0)
        return max(0.0, 1.0 - distance / 31) if distance else 1.0


def parse_times(question: str, today: date) -> tuple[Span, ...]:
    """Return the time spans that a question names."""
    plain = _plain(question)
    found = [Span(first=day, last=day) for match in _ISO.finditer(plain) if (day := _day(*match.groups()))]
    found += [span for match in _MONTH.finditer(plain) if (span := _month(match, today))]
    if not found:
        found += [Span(first=date(int(y), 1, 1), last=date(int(y), 12, 31)) for y in _YEAR.findall(plain)]
    for match in _AGO.finditer(plain):
        count, unit = (match[1], match[2]) if match[1] else (match[3], match[4])
        days = _UNIT_DAYS[unit] * (_COUNTS.get(count) or int(count))
        margin = max(1, days // 4) if _UNIT_DAYS[unit] > 1 else 0
        found.append(Span(first=_before(today, days + margin), last=_before(today, days - margin)))
    for pattern, first, last in _RELATIVE:
        if pattern.search(plain):
            found.append(Span(first=_before(today, first), last=_before(today, last)))
    return tuple(found)


def closeness(spans: tuple[Span, ...], day: date) -> float:
    """Return how near a day is to the nearest span, in [0, 1]; 0 if the question names no time."""
    return max((span.closeness(day) for span in spans), default=0.0)


def _plain(text: str) -> str:
    folded = unicodedata.normalize("NFKD", text.casefold().replace("\u2019", "'"))
    return "".join(char for char in folded if not unicodedata.combining(char))


def _month(match: re.Match[str], today: date) -> Span | None:
    name = match["month"]
    number = _MONTHS[name]
    day = match["day"] or match["after"]
    if name in _AMBIGUOUS_MONTHS and not (day or match["year"] or match[0].strip(" .") != name):
        return None
    year = int(match["year"]) if match["year"] else today.year - (number > today.month)
    if day and 1 <= int(day) <= 31:
        exact = _day(year, number, day)
        return Span(first=exact, last=exact) if exact else None
    return Span(first=date(year, number, 1), last=date(year, number, calendar.monthrange(year, number)[1]))


def _day(year: str | int, month: str | int, day: str | int) -> date | None:
    try:
        return date(int(year), int(month), int(day))
    except ValueError:
        return None


def _before(today: date, days: int) -> date:
    try:
        return today - timedelta(days=days)
    except OverflowError:
        return date.min


# Features of a turn and its neighbourhood.
#
# No feature is stored. The vector of a neighbourhood is the mean of its turns' vectors, weighted by length. This is
# close to what the model returns for the joined text, because the model averages token vectors.
#
# Every feature is in [0, 1]. Features of words and of vectors are relative to the candidates: 1 is the best of them,
# and 0 means no word of the question, or for vectors the farthest candidate. The others (length, asks, time, speaker,
# dated, reply) are computed for each turn by itself. `bench/fit_recall.py` fitted the weights; the results in
# `bench/results` leave each group of conversations out in turn.

Features = NDArray[np.float32]
Indices = NDArray[np.int64]

#: Characters from which a turn counts as long.
_LONG: Final = 300
_SPEAKER: Final = re.compile(r"\s*([A-Z][\w.'\u2019-]{1,24}(?: [A-Z][\w.'\u2019-]{1,24})?):\s")
_ASKS_WHEN: Final = re.compile(
    r"\b(?:when|how long|what (?:date|day|month|year|time)"
    r"|quand|depuis combien|quel(?:le)? (?:date|jour|mois|ann[ée]e))\b",
    re.IGNORECASE,
)
_DIGIT: Final = re.compile(r"\d")
_WORD: Final = re.compile(r"\w+")
_TIME_WORDS: Final = frozenset(
    "yesterday today tomorrow last next ago week weeks month months year years since hier aujourd demain dernier"
    " derniere dernièr dernière prochain prochaine semaine mois an ans depuis".split()
)


class TurnTable(Struct, frozen=True, kw_only=True):
    """Turns to be ranked, as columns; a neighbour is given by its index.

    Attributes:
        candidates: False for a turn that is only present as a neighbour.
        days: the day of each turn; read only if the question names a time, otherwise it may be empty.
        sessions: one value per session.
        replies: True for the agent's words.
        words: BM25; 0 if the question's words do not occur, or if the word search did not return the turn.
        vectors: the vector of each turn, a row of zeros if it has none; for a text of several windows, their mean. None
            if no turn has a vector.
        nearest: the cosine of the best window to the question, NaN without a vector.
        previous: the index of the previous turn, -1 if a session begins or the neighbour was not fetched.
    """

    candidates: NDArray[np.bool_]
    texts: Sequence[str]
    days: Sequence[date]
    sessions: Sequence[Hashable]
    replies: NDArray[np.bool_]
    words: Features
    vectors: Vectors | None
    nearest: Features
    previous: Indices

    def __len__(self) -> int:
        """Return the number of turns."""
        return len(self.texts)


class TurnQuestion(Struct, frozen=True, kw_only=True):
    """A question as used for ranking turns."""

    text: str
    vector: Vector | None
    times: tuple[Span, ...]


class TurnFeatures(Struct, frozen=True, kw_only=True):
    """The features of turns, in their order; only candidates have values.

    Attributes:
        features: one row per turn, columns in the order of `FEATURE_NAMES`; zeros for turns that are not candidates.
        around, wide: the cosine of the question to the mean of the turn with one turn on each side, and with two; -1
            without vectors, and for turns that are not candidates.
    """

    features: Features
    around: Features
    wide: Features


def turn_features(question: TurnQuestion, table: TurnTable) -> TurnFeatures:
    """Compute the features of every candidate; the other turns contribute as neighbours only."""
    indices = np.flatnonzero(table.candidates)
    index_list: list[int] = indices.tolist()
    previous, following = table.previous, next_turns(table.previous)
    neighbours = (_follow(previous, indices), _follow(following, indices))
    second_neighbours = (_follow(previous, neighbours[0]), _follow(following, neighbours[1]))
    with_previous, with_neighbours, with_second_neighbours = _neighbourhood_cosines(
        question, table, indices, neighbours, second_neighbours
    )
    # A text without neighbours is its own neighbourhood, in words and in vectors.
    alone = (neighbours[0] < 0) & (neighbours[1] < 0)
    padded = np.append(table.words, np.float32(0.0))
    words = _scaled(padded[indices], 0.0)
    meaning = _scaled(np.nan_to_num(table.nearest[indices], nan=-1.0))
    texts = [table.texts[index] for index in index_list]
    sessions = [table.sessions[index] for index in index_list]
    columns: Mapping[str, Features] = {
        "words": words,
        "words_before": _scaled(np.where(alone, padded[indices], padded[neighbours[0]]), 0.0),
        "words_after": _scaled(np.where(alone, padded[indices], padded[neighbours[1]]), 0.0),
        "meaning": meaning,
        "meaning_before": _scaled(with_previous),
        "meaning_around": _scaled(with_neighbours),
        "meaning_wide": _scaled(with_second_neighbours),
        "session_words": _best_of_session(words, sessions),
        "session_meaning": _best_of_session(meaning, sessions),
        "length": np.array([min(1.0, len(text) / _LONG) for text in texts], dtype=np.float32),
        "asks": np.array([text.rstrip().endswith("?") for text in texts], dtype=np.float32),
        "time": _times(question, table, index_list),
        "speaker": _by_named_speaker(question.text, table.texts)[indices],
        "dated": _dated(question.text, texts),
        "reply": table.replies[indices].astype(np.float32),
    }
    return TurnFeatures(
        features=_scatter(np.stack([columns[name] for name in FEATURE_NAMES], axis=1), indices, len(table), 0.0),
        around=_scatter(with_neighbours, indices, len(table), -1.0),
        wide=_scatter(with_second_neighbours, indices, len(table), -1.0),
    )


def next_turns(previous: Indices) -> Indices:
    """Return the index of the turn after each turn, -1 if there is none."""
    following = np.full_like(previous, -1)
    with_previous = np.flatnonzero(previous >= 0)
    following[previous[with_previous]] = with_previous
    return following


def speaker_of(text: str) -> str:
    """Return the speaker named at the beginning of a chat turn ("Caroline: …"), or an empty string."""
    found = _SPEAKER.match(text)
    return found[1] if found else ""


def _by_named_speaker(question: str, texts: Sequence[str]) -> Features:
    """Return 1 for turns of the one speaker that the question names; all 0 if it names none or several."""
    speakers = [speaker_of(text) if ":" in text else "" for text in texts]
    names = {*speakers} - {""}
    named = [name for name in names if re.search(rf"\b{re.escape(name.split()[0])}\b", question, re.IGNORECASE)]
    if len(named) != 1:
        return np.zeros(len(texts), dtype=np.float32)
    return np.array([speaker == named[0] for speaker in speakers], dtype=np.float32)


def _times(question: TurnQuestion, table: TurnTable, indices: Sequence[int]) -> Features:
    if not question.times:
        return np.zeros(len(indices), dtype=np.float32)
    return np.array([closeness(question.times, table.days[index]) for index in indices], dtype=np.float32)


def _dated(question: str, texts: Sequence[str]) -> Features:
    if not _ASKS_WHEN.search(question):
        return np.zeros(len(texts), dtype=np.float32)
    return np.array([_is_dated(text) for text in texts], dtype=np.float32)


def _is_dated(text: str) -> bool:
    return bool(_DIGIT.search(text)) or not _TIME_WORDS.isdisjoint(_WORD.findall(text.lower()))


def _follow(steps: Indices, indices: Indices) -> Indices:
    """Follow one step from each of these indices; -1 stays -1."""
    return np.append(steps, -1)[indices]


def _neighbourhood_cosines(
    question: TurnQuestion,
    table: TurnTable,
    indices: Indices,
    neighbours: tuple[Indices, Indices],
    second_neighbours: tuple[Indices, Indices],
) -> tuple[Features, Features, Features]:
    """Return cosines of the question to the means of the turn with the one before, with one on each side, with two."""
    if question.vector is None or table.vectors is None:
        none = np.full(len(indices), -1.0, dtype=np.float32)
        return none, none, none
    lengths = np.array([1 + len(text) for text in table.texts], dtype=np.float32)
    weighted = np.zeros((len(table) + 1, len(question.vector)), dtype=np.float32)  # index -1 points to a zero row
    np.multiply(table.vectors, lengths[:, None], out=weighted[:-1])
    with_previous = weighted[indices] + weighted[neighbours[0]]
    with_neighbours = with_previous + weighted[neighbours[1]]
    with_second_neighbours = with_neighbours + weighted[second_neighbours[0]] + weighted[second_neighbours[1]]
    return (
        _cosines(with_previous, question.vector),
        _cosines(with_neighbours, question.vector),
        _cosines(with_second_neighbours, question.vector),
    )


def _cosines(means: Vectors, question: Vector) -> Features:
    """Return the cosine of the question to each mean of any length; -1 for a mean without any vector."""
    lengths = np.sqrt(np.vecdot(means, means))
    return np.where(lengths > 0, np.vecdot(means, question) / np.maximum(lengths, 1e-9), -1.0).astype(np.float32)


def _scaled(values: Features, low: float | None = None) -> Features:
    """Scale values to [0, 1], from `low` to the largest; without `low`, from the smallest."""
    if not values.size:
        return values
    low, high = float(values.min()) if low is None else low, float(values.max())
    if high <= low:
        return np.zeros_like(values)
    return np.clip((values - low) / (high - low), 0.0, 1.0)


def _best_of_session(values: Features, sessions: Sequence[Hashable]) -> Features:
    numbers: dict[Hashable, int] = {}
    session_numbers = np.array([numbers.setdefault(session, len(numbers)) for session in sessions], dtype=np.int64)
    best = np.zeros(len(numbers), dtype=np.float32)
    np.maximum.at(best, session_numbers, values)
    return best[session_numbers]


def _scatter(values: Features, indices: Indices, size: int, other: float) -> Features:
    """Return the values at their indices in an array of length `size`, with `other` everywhere else."""
    scattered = np.full((size, *values.shape[1:]), other, dtype=np.float32)
    scattered[indices] = values
    return scattered


# Outdated turns: turns that repeat a memory that has ended, so that they are not shown as valid.
#
# A correction ends a memory, but not the turns that say the same: the agent's confirmation, an answer of last month, a
# summary. A turn is outdated if it is older than the end and shares with the ended memory at least two words and at
# least half of the words of the shorter text. Words are compared across languages (`extraction.vocabulary`). The turn
# with the correction, and later turns, are kept.

_MIN_SHARED_RATIO: Final = 0.5
_MIN_SHARED_WORDS: Final = 2


class EndedMemory(Struct, frozen=True, kw_only=True):
    """A memory that was valid until `at`.

    Attributes:
        words: its topic words (`topic_words`).
    """

    words: frozenset[str]
    at: datetime


def topic_words(text: str) -> frozenset[str]:
    """Return the topic words of a text, normalised across languages."""
    return frozenset(topic(content(text)))


def is_outdated(words: frozenset[str], at: datetime, ended: Iterable[EndedMemory]) -> bool:
    """Return True if a turn with these words, said at this time, repeats something that has ended since."""
    return any(at < memory.at and _repeats(words, memory.words) for memory in ended)


def _repeats(words: frozenset[str], ended_words: frozenset[str]) -> bool:
    shared = len(words & ended_words)
    return shared >= _MIN_SHARED_WORDS and shared >= _MIN_SHARED_RATIO * min(len(words), len(ended_words))
