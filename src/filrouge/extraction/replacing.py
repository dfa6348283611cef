"""The probability that a statement replaces a memory by giving another value for the same thing.

Most changes are not announced: "demo is on Friday then". Several weak signs together reveal them: shared words that
are rare among the memories, the same kind, another number or name, a word of change, different times, and how near the
two are for the encoder that learned what prompts need. The model is a logistic regression over such features.
`bench/fit_replacing.py` fitted it on pairs of labelled talk that replace each other, against all other near pairs, in
homes of a few to a thousand memories (`bench/results/replacing.md`).

Pure: no database, no file.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from msgspec import Struct

from filrouge.core import lazy_re as re
from filrouge.extraction.profile import profile
from filrouge.extraction.reading import measures
from filrouge.extraction.replacing_weights import FEATURE_MEANS, WEIGHTS
from filrouge.extraction.vocabulary import content, fold

#: Probability from which on the memory is replaced.
REPLACE_THRESHOLD: Final = 0.5
#: Probability from which on the memory is in doubt (`memories.repository`); chosen by the effect on prompts
#: (`bench/results/replacing.md`).
DOUBT_THRESHOLD: Final = 0.1
#: Minimum number of compared memories for a doubt: among fewer, one of ten memories in doubt was replaced.
MIN_COMPARED_FOR_DOUBT: Final = 10
#: Maximum number of memories compared, nearest first.
MAX_CANDIDATES: Final = 20
_DIGITS: Final = re.compile(r"\d[\d.,:]*")
_MID_SENTENCE_NAME: Final = re.compile(r"(?<!^)(?<![.!?] )\b[A-ZÀ-Ý][\w-]{2,}")
_CHANGE: Final = re.compile(
    r"\b(?:now|not|no longer|anymore|instead|moved?|switch\w*|chang\w*|new|out|over|dropp?\w*|replac\w*|actually"
    r"|back to|finally|bump\w*|rais\w*|lower\w*|until|was|were|maintenant|plus|desormais|finalement|plutot|nouveau"
    r"|nouvelle|passe\w*|remplac\w*|fini|etait|avant|ahora|ya no|al final|en vez|nuevo|nueva|pas[oa]\w*|cambi\w*|era"
    r"|antes|dejamos|mejor)\b"
)


class ComparedText(Struct, frozen=True, kw_only=True):
    """A statement or a memory in the form that is compared.

    Attributes:
        corrects: the old values that it names.
        is_correction: whether it says that something no longer holds.
    """

    text: str
    kind: str
    corrects: tuple[str, ...] = ()
    is_correction: bool = False


class Relation(Struct, frozen=True, kw_only=True):
    """How a memory relates to the statement, apart from the words.

    Attributes:
        similarity: the cosine of the two texts' vectors.
        standard: the cosine, standardised over the compared memories.
        rank: its rank by similarity, from 0.
        need_similarity, need_standard, need_rank: the same for the two need vectors.
        compared_count: the number of compared memories; the nearest of three stands out less than that of twenty.
        same_turn, same_session: whether both were said in the same turn and session.
    """

    similarity: float
    standard: float
    rank: int
    need_similarity: float
    need_standard: float
    need_rank: int
    compared_count: int
    same_turn: bool
    same_session: bool


class ReplaceCandidate(Struct, frozen=True, kw_only=True):
    """A memory to compare a statement with.

    Attributes:
        compared: the memory's text and kind.
        similarity: the cosine of the two.
        need_similarity: the cosine of their need vectors.
        same_turn, same_session: whether both were said in the same turn and session.
    """

    compared: ComparedText
    similarity: float
    need_similarity: float
    same_turn: bool
    same_session: bool


def nearest_candidates(candidates: Sequence[ReplaceCandidate]) -> list[tuple[int, Relation]]:
    """Return the indexes in `candidates` of the nearest memories, nearest first, with their positions."""
    order = sorted(range(len(candidates)), key=lambda index: -candidates[index].similarity)[:MAX_CANDIDATES]
    standard = _standardised([candidates[index].similarity for index in order])
    needs = [candidates[index].need_similarity for index in order]
    need_standard = _standardised(needs)
    need_ranks = np.argsort(np.argsort([-need for need in needs], kind="stable"))
    return [
        (
            index,
            Relation(
                similarity=candidates[index].similarity,
                standard=standard[rank],
                rank=rank,
                need_similarity=needs[rank],
                need_standard=need_standard[rank],
                need_rank=int(need_ranks[rank]),
                compared_count=len(order),
                same_turn=candidates[index].same_turn,
                same_session=candidates[index].same_session,
            ),
        )
        for rank, index in enumerate(order)
    ]


def _standardised(cosines: Sequence[float]) -> list[float]:
    values = np.array(cosines)
    return [float(value) for value in (values - values.mean()) / (values.std() + 0.01)]


def is_most_likely(new: ComparedText, candidates: Sequence[ReplaceCandidate], threshold: float) -> float | None:
    """Return the probability that the first candidate is replaced; None below `threshold`, or where another is it."""
    near = nearest_candidates(candidates)
    rarity = rarities([candidates[index].compared.text for index, _ in near])
    relation = next((relation for index, relation in near if index == 0), None)
    probability = chance(new, candidates[0].compared, relation, rarity) if relation else 0.0
    if probability < threshold:  # mostly, so that the others need no look
        return None
    others = (chance(new, candidates[index].compared, relation, rarity) for index, relation in near if index)
    return probability if all(other <= probability for other in others) else None


def find_most_likely(new: ComparedText, candidates: Sequence[ReplaceCandidate]) -> tuple[int, float]:
    """Return the index of the candidate that is most likely replaced, and the probability; there is at least one."""
    near = nearest_candidates(candidates)
    rarity = rarities([candidates[index].compared.text for index, _ in near])
    chances = {index: chance(new, candidates[index].compared, relation, rarity) for index, relation in near}
    best = max(chances, key=lambda index: chances[index])
    return best, chances[best]


def chance(new: ComparedText, old: ComparedText, relation: Relation, rarity: Mapping[str, float]) -> float:
    """Return the probability that `new` replaces `old`; `rarity` covers the words of the compared memories."""
    found = pair_features(new, old, relation, rarity)
    odds = WEIGHTS["one"] + sum(WEIGHTS[name] * (value - FEATURE_MEANS[name]) for name, value in found.items())
    return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, odds))))


class _TextFeatures(Struct, frozen=True):
    """What of a text alone is compared.

    Attributes:
        words: its content words.
        digits, names, measured: the numbers, the names within sentences, and the kinds of measures in it.
        says_change: whether it has a word of change.
    """

    words: frozenset[str]
    digits: frozenset[str]
    names: frozenset[str]
    measured: frozenset[str]
    says_change: bool


@lru_cache(maxsize=4096)
def _features_of(text: str) -> _TextFeatures:
    return _TextFeatures(
        words=frozenset(content(text)),
        digits=frozenset(_DIGITS.findall(text)),
        names=frozenset(_MID_SENTENCE_NAME.findall(text)),
        measured=frozenset(measure.kind for measure in measures(text)),
        says_change=_CHANGE.search(fold(text)) is not None,
    )


def rarities(texts: Sequence[str]) -> dict[str, float]:
    """Return the rarity of each word among these texts: ln(1 + n / occurrences)."""
    often = Counter(word for text in texts for word in _features_of(text).words)
    return {word: math.log(1 + len(texts) / number) for word, number in often.items()}


def pair_features(
    new: ComparedText, old: ComparedText, relation: Relation, rarity: Mapping[str, float]
) -> dict[str, float]:
    """Return the features of a pair, by name."""
    new_features, old_features = _features_of(new.text), _features_of(old.text)
    mine, theirs = new_features.words, old_features.words
    shared = mine & theirs
    weights = [rarity.get(word, 1.0) for word in shared]
    digits, old_digits = new_features.digits, old_features.digits
    names, old_names = new_features.names, old_features.names
    my_profile, their_profile = profile(new.text), profile(old.text)
    named = {word for phrase in new.corrects for word in content(phrase)}
    return {
        "similarity": relation.similarity,
        "standard": relation.standard,
        "first": float(relation.rank == 0),
        "rank": 1.0 / (1 + relation.rank),
        "need": relation.need_similarity,
        "need standard": relation.need_standard,
        "need first": float(relation.need_rank == 0),
        "need rank": 1.0 / (1 + relation.need_rank),
        "compared": math.log(relation.compared_count),
        "shared": float(len(shared)),
        "rare shared": sum(weights),
        "rarest shared": max(weights, default=0.0),
        "contained": len(shared) / max(1, min(len(mine), len(theirs))),
        "alike": len(shared) / max(1, len(mine | theirs)),
        "number": float(bool(digits)),
        "old number": float(bool(old_digits)),
        "same number": float(bool(digits & old_digits)),
        "other number": float(bool(digits - old_digits) and bool(old_digits - digits)),
        "same name": float(bool(names & old_names)),
        "other name": float(bool(names - old_names) and bool(old_names - names)),
        "same measure": float(bool(new_features.measured & old_features.measured)),
        "change": float(new_features.says_change),
        "correction": float(new.is_correction),
        "names the old": len(named & theirs) / len(named) if named else 0.0,
        "same kind": float(new.kind == old.kind),
        "decision": float(new.kind == "decision"),
        "old decision": float(old.kind == "decision"),
        "rule": float(new.kind == "rule"),
        "old rule": float(old.kind == "rule"),
        "intent": float(new.kind == "intent"),
        "same session": float(relation.same_session),
        "same turn": float(relation.same_turn),
        "words": min(len(mine), 20) / 10,
        "old words": min(len(theirs), 20) / 10,
        "short": float(len(mine) <= 4),
        "same value": float(bool(my_profile.current_texts & their_profile.current_texts)),
        "rejects it": float(bool(my_profile.rejects & their_profile.current_texts)),
        "same thing": float(bool(my_profile.entity) and my_profile.entity == their_profile.entity),
        "other mood": float(bool(my_profile.negated) != bool(their_profile.negated)),
    }
