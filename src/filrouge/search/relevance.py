"""Relevance: the probability that a memory or a turn helps, and that a prompt needs a memory at all.

All probabilities are logistic models fitted on labels (`bench/fit_recall.py`, `bench/fit_needed.py`). The module also
expands a question with synonyms (`Bridging`), and ranks memories (`rank`).

Pure: no database, no file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from filrouge.extraction.vocabulary import PLAIN_WORDS, canonical, fold, is_bridged, tokens, variants
from filrouge.memories.models import Memory
from filrouge.search.fusion import normalised
from filrouge.search.models import Hit, Ranking
from filrouge.search.weights import ALONE_MEANING, ALONE_WORDS, KNOWN, KNOWN_BY_WORDS, RELEVANCE, RELEVANCE_BY_WORDS

# Bridging: a question's words, extended with words of the same meaning in other languages or other developers' usage.

FormTuple = tuple[str, ...]
Terms = tuple[FormTuple, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class QuestionWords:
    """The words of a question.

    Attributes:
        own: the question's words, each with the forms it may be indexed under.
        searched: `own`, followed by other words of the same meaning.
        meant: the question's own words, each with every form that counts as a match.
    """

    own: Terms
    searched: Terms
    meant: Terms


class Bridging:
    """Adds words of the same meaning (`extraction.vocabulary`).

    Args:
        analyse: returns the terms of a query (`core.protocols.Analyser.terms`).
    """

    def __init__(self, analyse: Callable[[str], Terms]) -> None:
        self._analyse = analyse
        self._others = lru_cache(maxsize=2048)(self._others_of)

    def words(self, text: str) -> QuestionWords:
        """Return the words of a question; a phrase with one meaning ("continuous integration") counts as one word."""
        own = self._analyse(text)
        meant, searched = list(own), dict.fromkeys(own)
        for word in dict.fromkeys(tokens(fold(text))):
            others = self._others(canonical(word))
            if not others:
                continue
            searched |= dict.fromkeys(others)
            forms = dict.fromkeys(form for term in others for form in term)
            at = next((place for place, term in enumerate(meant) if not forms.keys().isdisjoint(term)), None)
            if at is None:
                meant.append(tuple(forms))
            else:
                meant[at] = tuple(dict.fromkeys([*meant[at], *forms]))
        return QuestionWords(own=own, searched=tuple(searched), meant=tuple(meant))

    def _others_of(self, word: str) -> Terms:
        """Return all single words of the same meaning, analysed; empty for a word without synonyms."""
        if not is_bridged(word):
            return ()
        analysed = [self._analyse(one) for one in variants(word)]
        return tuple(terms[0] for terms in analysed if len(terms) == 1)


# Relevance: the probability that a result helps, on one scale for every kind of result. There are two separate models.
#
# `chances` gives the probability that each result contains what was asked. Its features have the same meaning in every
# store: calibrated similarities, the share of the question's words, and how far the result stands out from the other
# candidates. `known` gives the probability that anything about the question is stored, from the best features of the
# first few results. It allows an empty answer where nothing is known, although one result is always the least unlikely.
#
# Both are logistic. `bench/fit_recall.py` fitted the weights on questions asked where their answer is stored and where
# it is not. They were validated on held-out sources (`bench/results/relevance.md`). Where there are no vectors,
# separate weights for words only are used.

Numbers = NDArray[np.float64]
LogOdds = Mapping[str, float]

#: The number of best results that decide whether anything is known: as many as are injected before a prompt.
FIRST: Final = 4
_MANY_WORDS: Final = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class RelevanceFeatures:
    """The features of one result.

    Attributes:
        similarity: calibrated similarity of the question and the result's best window; 0 without a vector.
        around, wide: similarity of the question and the neighbourhood, with one turn and with two turns on each side;
            equal to `similarity` for a text without neighbours.
        covered: the share of the question's words that the result contains, weighted by rarity.
        telling: it contains a word of the question that identifies the topic.
        share: its softmax weight among the scores of the pool, in (0, 1].
        words: how many meaningful words the question has.
        time, speaker, dated, asks: ranking features (`turn_ranking.NAMES`); 0 for results other than turns.
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

    def named(self) -> dict[str, float]:
        """Return the features by name, as the models use them."""
        return {
            "similarity": self.similarity,
            "around": self.around,
            "wide": self.wide,
            "covered": self.covered,
            "telling": float(self.telling),
            "stands_out": math.log(max(self.share, 1e-6)),
            "words": min(self.words, _MANY_WORDS) / _MANY_WORDS,
            "similar_and_covered": self.similarity * self.covered,
            "wide_and_covered": self.wide * self.covered,
            "time": self.time,
            "speaker": self.speaker,
            "dated": self.dated,
            "asks": self.asks,
        }


def chances(signs: Sequence[RelevanceFeatures], weights: LogOdds) -> list[float]:
    """Return for each result the probability that it contains what was asked."""
    return [logistic(one.named(), weights) for one in signs]


def known(signs: Sequence[RelevanceFeatures], found: Sequence[float], words_found: float, weights: LogOdds) -> float:
    """Return the probability that anything about the question is known; 0 if nothing was found.

    Args:
        found: the results' `chances`.
        words_found: the share of the question's words, weighted by rarity, that occur in any of the results.
    """
    return logistic(summary(signs, found, words_found), weights) if signs else 0.0


def summary(signs: Sequence[RelevanceFeatures], found: Sequence[float], words_found: float) -> dict[str, float]:
    """Return the features that `known` uses."""
    best = sorted(range(len(signs)), key=lambda place: -found[place])[:FIRST]
    any_of_them = 1.0 - math.prod(1.0 - found[place] for place in best)
    similar = max(signs[place].similarity for place in best)
    covered = max(signs[place].covered for place in best)
    return {
        "any": log_odds(any_of_them),
        "similarity": similar,
        "wide": max(signs[place].wide for place in best),
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
    few = frequency <= max(5, size * 0.05)
    return few and len(word) >= 2 and word not in PLAIN_WORDS and not (word.isdigit() and len(word) < 3)


def coverage(matched: Sequence[str], weights: Mapping[str, float]) -> float:
    """Return the share of a prompt's words that an item contains, weighted by rarity, in [0, 1]."""
    total = sum(weights.values())
    return sum(weights[word] for word in matched) / total if total else 0.0


def shares(scores: Sequence[float]) -> list[float]:
    """Return the softmax of the scores."""
    if not scores:
        return []
    parts = np.exp(np.asarray(scores, dtype=np.float64) - max(scores))
    return [float(part) for part in parts / parts.sum()]


def logistic(numbers: Mapping[str, float], weights: LogOdds) -> float:
    """Return the logistic probability of weighted features; features without a weight are ignored."""
    total = weights["one"] + sum(weights[name] * number for name, number in numbers.items() if name in weights)
    return 1.0 / (1.0 + math.exp(-max(-50.0, min(50.0, total))))


def log_odds(chance: float) -> float:
    """Return the log odds of a probability, clipped to [1e-4, 1 - 1e-4]."""
    held = min(max(chance, 1e-4), 1 - 1e-4)
    return math.log(held / (1 - held))


# Judging: how much of a question's words a text contains, and the relevance of results of any kind.

Forms = Sequence[str]
#: The number of top-ranked results that are judged and shown.
JUDGED: Final = 10
#: Minimum collection size for word rarity. In a smaller collection rarity cannot be estimated: with a single memory,
#: each of its words occurs "in all memories".
_SMALLEST: Final = 20


class WeightedQuestion:
    """The words of a question, weighted by their rarity in the searched collection.

    Args:
        terms: its meaningful words, each with every form that counts as a match.
        frequencies: in how many items each form occurs.
        size: how many items there are.
    """

    def __init__(self, terms: Sequence[Forms], frequencies: Mapping[str, int], size: int) -> None:
        self._terms = terms
        self._often = {forms[0]: max(frequencies.get(form, 0) for form in forms) for forms in terms}
        self._size = max(size, _SMALLEST)
        self._rarities = {word: rarity(often, self._size) for word, often in self._often.items()}

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
        return any(is_topic_word(word, self._often[word], self._size) for word in words)


def standalone_features(
    questioned: WeightedQuestion, matched: Sequence[str], *, similarity: float | None, share: float
) -> RelevanceFeatures:
    """Return the features of a text without neighbours, such as a memory or a passage."""
    near = similarity or 0.0
    return RelevanceFeatures(
        similarity=near,
        around=near,
        wide=near,
        covered=questioned.covered(matched),
        telling=questioned.is_telling(matched),
        share=share,
        words=len(questioned),
    )


def judged(
    questioned: WeightedQuestion,
    signs: Sequence[RelevanceFeatures],
    matched: Sequence[Sequence[str]],
    *,
    by_meaning: bool,
) -> tuple[list[float], float]:
    """Return the relevance of each result, and the probability that anything is known, from the first results.

    Args:
        matched: the question's words in each result.
        by_meaning: False if vectors were not used.
    """
    found = chances(signs, RELEVANCE if by_meaning else RELEVANCE_BY_WORDS)
    words = questioned.covered(list(dict.fromkeys(word for one in matched[:JUDGED] for word in one)))
    return found, known(signs[:JUDGED], found[:JUDGED], words, KNOWN if by_meaning else KNOWN_BY_WORDS)


# Need: the probability that a prompt needs a memory, if the embedder has a model for what prompts need.
#
# This is a different question from whether two texts have the same topic (relevance, above). A memory is compared with
# the other memories that were found. The features are: how far its cosine with the need vector of the prompt
# (`core.protocols.PromptEmbedder`) exceeds theirs, the coverage, and the similarity. The model is logistic;
# `bench/fit_needed.py` fitted the weights on labelled conversations that the embedder was not trained on.
#
# Whether the prompt needs anything depends on whether anything about it is known, and on how much nearer the best
# memory is than "nothing". The thresholds were chosen on the same conversations (`bench/results/needed.md`). Labels
# name only a few memories per prompt, so a probability of 0.3 is high.

#: Cosines lie close together; dividing by this spreads them in the softmax.
TEMPERATURE: Final = 0.03
#: Minimum probability; less probable memories are not injected before a prompt.
MIN_PROBABILITY: Final = 0.145
#: Log-odds weights for "this memory is needed".
WEIGHTS: Final = {"one": -1.75, "ahead": 0.422, "covered": 2.323, "similarity": 2.867}
#: Thresholds for `NeedFeatures.needed` of the best memory. Below `NO_NEED_BELOW` a prompt needs nothing. From
#: `NEED_FROM` on it probably needs something, even if relevance says that nothing is known.
NO_NEED_BELOW, NEED_FROM = -0.11, -0.02
#: The minimum probability that a prompt needs something, from `NEED_FROM` on.
NEED_PROBABILITY: Final = 0.9


@dataclass(frozen=True, kw_only=True, slots=True)
class NeedFeatures:
    """The need features of one memory.

    Attributes:
        needed: how much nearer it is to what the prompt needs than "nothing" is, as a difference of two cosines.
        covered, similarity: as in `RelevanceFeatures`.
    """

    needed: float
    covered: float
    similarity: float


def needed_chances(found: Sequence[NeedFeatures], weights: LogOdds = WEIGHTS) -> list[float]:
    """Return for each of the memories found together the probability that the prompt needs it."""
    return [logistic(row, weights) for row in needed_signs(found)]


def needed_signs(found: Sequence[NeedFeatures]) -> list[Mapping[str, float]]:
    """Return the features that `needed_chances` uses."""
    parts = shares([one.needed / TEMPERATURE for one in found])
    return [
        {"ahead": math.log(max(part, 1e-6)), "covered": one.covered, "similarity": one.similarity}
        for one, part in zip(found, parts, strict=True)
    ]


def anything_needed(nearest: float, known: float) -> float:
    """Return the probability that the prompt needs any of the memories found.

    Args:
        nearest: the highest `NeedFeatures.needed`.
        known: the probability that anything about the prompt is known.
    """
    if nearest < NO_NEED_BELOW:
        return 0.0
    return max(known, NEED_PROBABILITY) if nearest >= NEED_FROM else known


# Ranking of memories: candidates of both retrievers in, one explained ranking out.
#
# `score = (1 - alpha) x words + alpha x similarity`. Both parts are absolute values in [0, 1]: the share of the
# question's words that the memory contains, weighted by rarity, and the calibrated similarity. Min-max normalisation
# would give the best of several poor candidates a perfect score, and the second of two candidates zero. If need is
# computed, the need probability is the score.

ALPHA = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class RetrievedMemory:
    """A memory that one or both retrievers returned.

    Attributes:
        tokens: every token the memory is indexed under.
        bm25: higher is better; None if the word search did not return it.
        cosine: None if the vector search did not return it.
        similarity: the calibrated cosine.
        needed: how much nearer it is to what the prompt needs than "nothing" is, as a difference of two cosines; None
            if need was not computed.
    """

    item: Memory
    tokens: frozenset[str]
    bm25: float | None
    cosine: float | None
    similarity: float | None
    needed: float | None = None


def rank(
    query: str,
    questioned: WeightedQuestion,
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
    lexical = normalised({c.item.id: c.bm25 for c in candidates if c.bm25 is not None})
    vector = normalised({c.item.id: c.cosine for c in candidates if c.cosine is not None})
    matched = {c.item.id: questioned.matched(c.tokens) for c in candidates}
    covered = {id_: questioned.covered(words) for id_, words in matched.items()}
    alpha = alpha if vector else 0.0
    scores = {c.item.id: (1 - alpha) * covered[c.item.id] + alpha * (c.similarity or 0.0) for c in candidates}
    ordered = sorted(candidates, key=lambda c: (-round(scores[c.item.id], 9), -lexical.get(c.item.id, 0.0), c.item.id))
    first = ordered[:JUDGED]
    best_words = max(covered.values(), default=0.0) or 1.0
    best_meaning = max((c.similarity or 0.0 for c in candidates), default=0.0) or 1.0
    parts = shares(
        [
            ALONE_WORDS * covered[c.item.id] / best_words + ALONE_MEANING * (c.similarity or 0.0) / best_meaning
            for c in ordered
        ]
    )
    signs = [
        standalone_features(questioned, matched[c.item.id], similarity=c.similarity, share=part)
        for c, part in zip(ordered, parts, strict=True)
    ]
    found, known = judged(
        questioned, signs, [matched[c.item.id] for c in first], by_meaning=by_meaning and bool(vector)
    )
    standing = [
        NeedFeatures(needed=c.needed, covered=covered[c.item.id], similarity=c.similarity or 0.0)
        for c in ordered
        if c.needed is not None
    ]
    by_need = bool(standing) and len(standing) == len(ordered)
    if by_need:
        found = needed_chances(standing)
        scores = {c.item.id: chance for c, chance in zip(ordered, found, strict=True)}
    hits = [
        Hit(
            item=c.item,
            bm25_score=lexical.get(c.item.id, 0.0),
            vector_score=vector.get(c.item.id, 0.0),
            score=scores[c.item.id],
            similarity=c.similarity,
            coverage=covered[c.item.id],
            relevance=chance,
            needed=c.needed,
        )
        for c, chance in zip(ordered, found, strict=True)
    ]
    if by_need:
        hits.sort(key=lambda hit: -hit.score)
    return Ranking(query=query, hits=tuple(hits), notices=notices, known=known, by_need=by_need)
