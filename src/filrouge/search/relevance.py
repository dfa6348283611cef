"""Relevance: the probability that a memory or a turn helps, and that a prompt needs a memory at all.

Learned from labels (`bench/fit_recall.py`, `bench/fit_needed.py`). Pure: no database, no file.
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
from filrouge.search.fusion import (
    ALONE_MEANING,
    ALONE_WORDS,
    KNOWN,
    KNOWN_BY_WORDS,
    RELEVANCE,
    RELEVANCE_BY_WORDS,
    normalised,
)
from filrouge.search.models import Hit, Ranking

# Bridging: the words of a question, joined with what other languages and other developers call the same thing.
#
# Pure: no database, no file.

FormTuple = tuple[str, ...]
Terms = tuple[FormTuple, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class QuestionWords:
    """The words of a question.

    Attributes:
        own: the words themselves, each as the forms it may be indexed under.
        searched: those, then others of the same meaning.
        meant: the question's own words, each with every form that counts as having it.
    """

    own: Terms
    searched: Terms
    meant: Terms


class Bridging:
    """Joins words of one meaning (`extraction.vocabulary`).

    Args:
        analyse: gives the terms of a query (`ports.Analyser.terms`).
    """

    def __init__(self, analyse: Callable[[str], Terms]) -> None:
        self._analyse = analyse
        self._others = lru_cache(maxsize=2048)(self._others_of)

    def words(self, text: str) -> QuestionWords:
        """The words of a question; a phrase of one meaning ("continuous integration") is a word of its own."""
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
        """Every single word of the same meaning, analysed; none for a word that stands for itself alone."""
        if not is_bridged(word):
            return ()
        analysed = [self._analyse(one) for one in variants(word)]
        return tuple(terms[0] for terms in analysed if len(terms) == 1)


# Relevance: the probability that a result helps, learned from labels, on one scale for whatever was found.
#
# Two questions are answered apart. **Is this the one?** `chances` gives each result the probability that it holds
# what was asked, from signs that mean the same in every store: calibrated similarities, the share of the question's
# words, how far the result stands out from what was found beside it. **Is anything known?** `known` gives the
# probability that the place holds something about the question at all, from the best of those signs over the first
# few results: so silence is right where nothing is known, even though something is always the least unlikely.
#
# Both are logistic; their weights were fitted by `bench/fit_recall.py` on questions asked where their answer is and
# where it is not, and checked on sources that they had not seen (`bench/results/relevance.md`). Where there are no
# vectors, the weights of words alone are used.

Numbers = NDArray[np.float64]
LogOdds = Mapping[str, float]

#: Results whose best signs tell whether anything is known: as many as go before a prompt.
FIRST: Final = 4
_MANY_WORDS: Final = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Signs:
    """What speaks for one result.

    Attributes:
        similarity: of the question and its best window, calibrated; 0 without a vector.
        around, wide: of the question and the neighbourhood of one turn on each side, and of two; as `similarity`
            for what stands alone.
        covered: the share of the question's words that it has, weighted by rarity.
        telling: it has a word of the question that says what the talk is about.
        share: of the pool's weight (softmax of the scores) that falls on it, in (0, 1].
        words: how many meaningful words the question has.
        time, speaker, dated, asks: features of ranking (`neighbourhood.NAMES`); 0 for what is no turn.
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
        """As the numbers that are weighed."""
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


def chances(signs: Sequence[Signs], weights: LogOdds) -> list[float]:
    """For each result the probability that it holds what was asked."""
    return [logistic(one.named(), weights) for one in signs]


def known(signs: Sequence[Signs], found: Sequence[float], words_found: float, weights: LogOdds) -> float:
    """The probability that anything about the question is known, 0 where nothing was found.

    Args:
        found: the results' `chances`.
        words_found: the share of the question's words, weighted by rarity, that occur in any of the results.
    """
    return logistic(summary(signs, found, words_found), weights) if signs else 0.0


def summary(signs: Sequence[Signs], found: Sequence[float], words_found: float) -> dict[str, float]:
    """The numbers that `known` weighs."""
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
    """Inverse document frequency, smoothed: ln(1 + (N - n + 0.5) / (n + 0.5)) (Robertson, Okapi BM25)."""
    return math.log(1 + (max(size, frequency) - frequency + 0.5) / (frequency + 0.5))


def telling(word: str, frequency: int, size: int) -> bool:
    """True for a word that says what the talk is about: known to few memories, and no everyday word."""
    few = frequency <= max(5, size * 0.05)
    return few and len(word) >= 2 and word not in PLAIN_WORDS and not (word.isdigit() and len(word) < 3)


def coverage(matched: Sequence[str], weights: Mapping[str, float]) -> float:
    """The share of a prompt's words that an item has, weighted by rarity, in [0, 1]."""
    total = sum(weights.values())
    return sum(weights[word] for word in matched) / total if total else 0.0


def shares(scores: Sequence[float]) -> list[float]:
    """The softmax of some scores."""
    if not scores:
        return []
    parts = np.exp(np.asarray(scores, dtype=np.float64) - max(scores))
    return [float(part) for part in parts / parts.sum()]


def logistic(numbers: Mapping[str, float], weights: LogOdds) -> float:
    """The probability by weighed numbers; one that has no weight has no say."""
    total = weights["one"] + sum(weights[name] * number for name, number in numbers.items() if name in weights)
    return 1.0 / (1.0 + math.exp(-max(-50.0, min(50.0, total))))


def log_odds(chance: float) -> float:
    """Of a probability; the certain ones are held at 1 in 10,000."""
    held = min(max(chance, 1e-4), 1 - 1e-4)
    return math.log(held / (1 - held))


# Judging: how far a question's words are in a text, and what that says of results, whatever kind they are.

Forms = Sequence[str]
#: Results that are judged and shown; ranking has put them first.
JUDGED: Final = 10
#: Of fewer items than this nothing can be learned of how rare a word is: the one memory that there is has its words
#: "in all memories".
_SMALLEST: Final = 20


class Questioned:
    """The words of a question, weighed by how rare they are where it is asked.

    Args:
        terms: its meaningful words, each with every form that counts as having it.
        frequencies: in how many items each form occurs.
        size: how many items there are.
    """

    def __init__(self, terms: Sequence[Forms], frequencies: Mapping[str, int], size: int) -> None:
        self._terms = terms
        self._often = {forms[0]: max(frequencies.get(form, 0) for form in forms) for forms in terms}
        self._size = max(size, _SMALLEST)
        self._rarities = {word: rarity(often, self._size) for word, often in self._often.items()}

    def __len__(self) -> int:
        """How many words there are."""
        return len(self._terms)

    def matched(self, tokens: frozenset[str]) -> list[str]:
        """The words that stand in a text, given its tokens."""
        return [forms[0] for forms in self._terms if not tokens.isdisjoint(forms)]

    def covered(self, words: Sequence[str]) -> float:
        """Which share of the question these words are."""
        return coverage(words, self._rarities)

    def is_telling(self, words: Iterable[str]) -> bool:
        """True where one of the words says what the talk is about."""
        return any(telling(word, self._often[word], self._size) for word in words)


def alone(questioned: Questioned, matched: Sequence[str], *, similarity: float | None, share: float) -> Signs:
    """What speaks for a text that is its own neighbourhood: a memory, a passage."""
    near = similarity or 0.0
    return Signs(
        similarity=near,
        around=near,
        wide=near,
        covered=questioned.covered(matched),
        telling=questioned.is_telling(matched),
        share=share,
        words=len(questioned),
    )


def judged(
    questioned: Questioned, signs: Sequence[Signs], matched: Sequence[Sequence[str]], *, by_meaning: bool
) -> tuple[list[float], float]:
    """The relevance of each result, and the probability that anything is known, which the first of them tell.

    Args:
        matched: the question's words in each result.
        by_meaning: false where no vector had a say.
    """
    found = chances(signs, RELEVANCE if by_meaning else RELEVANCE_BY_WORDS)
    words = questioned.covered(list(dict.fromkeys(word for one in matched[:JUDGED] for word in one)))
    return found, known(signs[:JUDGED], found[:JUDGED], words, KNOWN if by_meaning else KNOWN_BY_WORDS)


# Needed: the probability that a memory is what a prompt needs, where the embedder learned what prompts need.
#
# Whether two texts speak of one thing is another question (`search.relevance`). Here a memory is judged among the
# others that were found with it: by how far its cosine with what the prompt needs (`ports.Seeking`) stands above
# theirs, then by the signs of relevance; logistic, with weights that `bench/fit_needed.py` fitted on labelled talk
# that the embedder had not learned from. Whether the prompt needs anything at all depends on whether anything about
# it is known, and on how much nearer the best memory is than "nothing". The thresholds were chosen on the same talk
# (`bench/results/needed.md`). Labels name a few memories a prompt, so a probability of .3 is a high one.

#: Cosines lie close together; divided by this they spread over the softmax.
TEMPERATURE: Final = 0.03
#: What is less probable is not shown before a prompt.
LEAST: Final = 0.145
#: Log odds that a memory is needed.
WEIGHTS: Final = {"one": -1.75, "ahead": 0.422, "covered": 2.323, "similarity": 2.867}
#: `Found.needed` of the best memory: below the first a prompt needs nothing; from the second on it probably needs
#: something, even if relevance says that nothing is known.
FAR, NEAR = -0.11, -0.02
#: The probability that a prompt needs something from `NEAR` on.
CLEAR: Final = 0.9


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What speaks for one memory.

    Attributes:
        needed: how much nearer it is to what the prompt needs than nothing is, a difference of two cosines.
        covered, similarity: as `relevance.Signs` has them.
    """

    needed: float
    covered: float
    similarity: float


def needed_chances(found: Sequence[Found], weights: LogOdds = WEIGHTS) -> list[float]:
    """For each memory of those found together the probability that the prompt needs it."""
    return [logistic(row, weights) for row in needed_signs(found)]


def needed_signs(found: Sequence[Found]) -> list[Mapping[str, float]]:
    """The numbers that `chances` weighs."""
    parts = shares([one.needed / TEMPERATURE for one in found])
    return [
        {"ahead": math.log(max(part, 1e-6)), "covered": one.covered, "similarity": one.similarity}
        for one, part in zip(found, parts, strict=True)
    ]


def anything_needed(nearest: float, known: float) -> float:
    """The probability that the prompt needs anything of what was found.

    Args:
        nearest: the highest `Found.needed`.
        known: the probability that anything about the prompt is known.
    """
    if nearest < FAR:
        return 0.0
    return max(known, CLEAR) if nearest >= NEAR else known


# The read path of memories as one pure function: candidates of both arms in, a ranking that explains itself out.
#
# `score = (1 - alpha) x words + alpha x meaning`. Both are absolute, in [0, 1]: the share of the question's words
# that the memory has, weighted by rarity, and the calibrated similarity. A min-max over the candidates would call the
# best of a poor lot perfect, and the second of two nothing. Where the candidates are judged by what a prompt needs
# (`search.relevance`), that probability is the score.

ALPHA = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A memory that one arm or both returned.

    Attributes:
        tokens: every token the memory is indexed under.
        bm25: higher is better; None if the lexical arm did not return it.
        cosine: None if the vector arm did not return it.
        similarity: the calibrated cosine.
        needed: how much nearer it is to what the prompt needs than nothing is, a difference of two cosines; None where
            the embedder did not learn that.
    """

    item: Memory
    tokens: frozenset[str]
    bm25: float | None
    cosine: float | None
    similarity: float | None
    needed: float | None = None


def rank(
    query: str,
    questioned: Questioned,
    candidates: Sequence[Candidate],
    *,
    alpha: float = ALPHA,
    by_meaning: bool = True,
    notices: tuple[str, ...] = (),
) -> Ranking:
    """Fuse and judge the candidates, best first; where there are no vectors, words decide.

    Args:
        by_meaning: false where nothing is known of what a similarity means: relevance is then read off the words.
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
        alone(questioned, matched[c.item.id], similarity=c.similarity, share=part)
        for c, part in zip(ordered, parts, strict=True)
    ]
    found, known = judged(
        questioned, signs, [matched[c.item.id] for c in first], by_meaning=by_meaning and bool(vector)
    )
    standing = [
        Found(needed=c.needed, covered=covered[c.item.id], similarity=c.similarity or 0.0)
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
