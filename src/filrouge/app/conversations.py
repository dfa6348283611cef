"""Searching what was said: verbatim turns, judged in their neighbourhood.

Candidates are the best by words, the best by meaning, and the turns beside them, since an answer often stands next
to the turn that has the question's words. Their vectors are read from the store, so the ranking does not depend
on which index found them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from filrouge.app.arms import Arm
from filrouge.app.asking import LONGEST_QUERY, Mode, Question, arm_of
from filrouge.app.parts import Parts
from filrouge.index.lexical import Terms
from filrouge.model.recall import Hit, Ranking
from filrouge.ports import Tx, Vector, Vectors
from filrouge.recall.neighbourhood import NAMES, Asked, Features, Spoken, features
from filrouge.recall.relevance import coverage, rarity, relevance, telling
from filrouge.recall.times import spans
from filrouge.recall.weights import TURN_WEIGHTS
from filrouge.store.turns import turn_from_row
from filrouge.store.vectors import StoredVectors

#: Candidates of each of the two searches; their neighbours come on top.
POOL = 50
#: Turns whose words are known beside those: a neighbour below this has too little to count.
_WORDED = 200
#: Hits that are judged and shown; ranking has put them first.
_JUDGED = 10
#: How far the neighbourhood of a candidate, and of a candidate's neighbour, reaches.
_REACH = 3


def search_turns(parts: Parts, tx: Tx, question: Question) -> Ranking:
    """Rank the verbatim turns for a question; by words or by meaning alone where its mode says so."""
    meaning, mode = parts.meaning, question.mode
    terms = parts.analyser.terms(question.text[:LONGEST_QUERY])
    arm = arm_of(parts, tx, "turn", question, terms)
    words = arm.by_words(_WORDED) if mode != "semantic" else {}
    vector, notices = meaning.question(question.text) if mode != "text" else (None, ())
    near = arm.by_meaning(meaning, vector, POOL) if vector is not None else {}
    found = list(dict.fromkeys([*list(words)[:POOL], *near]))
    if not found:
        return Ranking(query=question.text, hits=(), notices=notices)
    around = tx.all("turns.around", {"ids": json.dumps(found), "reach": _REACH if mode == "hybrid" else 0})
    around = [row for row in around if arm.holds(row)]  # what does not pass is no neighbour either
    vectors = StoredVectors(tx).some("turn", [row["id"] for row in around], meaning.space.id) if near else {}
    spoken = _spoken(around, frozenset(found), words, vectors, vector)
    asked = Asked(text=question.text, vector=vector, times=spans(question.text, parts.clock.now().date()))
    weights = _weights(mode)
    shares = features(asked, spoken) * weights
    judge = _Judge(parts, terms, arm, float(weights.clip(min=0).sum()))
    places = [place for place, one in enumerate(spoken) if one.candidate]
    best = sorted(places, key=lambda place: (-float(shares[place].sum()), spoken[place].turn.id))
    hits = [judge.hit(spoken[place], shares[place]) for place in best[: max(question.limit, _JUDGED)]]
    return Ranking(query=question.text, hits=tuple(hits), notices=notices)


def _weights(mode: Mode) -> Features:
    if mode == "hybrid":
        return TURN_WEIGHTS
    return np.array([name == ("words" if mode == "text" else "meaning") for name in NAMES], dtype=np.float32)


def _spoken(
    rows: Sequence[Mapping[str, Any]],
    found: frozenset[str],
    words: Mapping[str, float],
    vectors: Mapping[str, Vectors],
    question: Vector | None,
) -> list[Spoken]:
    places = {row["id"]: place for place, row in enumerate(rows)}
    before = [places.get(row["before_id"] or "") for row in rows]
    after: dict[int, int] = {earlier: place for place, earlier in enumerate(before) if earlier is not None}
    beside = {
        other
        for place, row in enumerate(rows)
        if row["id"] in found
        for other in (before[place], after.get(place))
        if other is not None
    }
    spoken: list[Spoken] = []
    for place, row in enumerate(rows):
        windows = vectors.get(row["id"])
        spoken.append(
            Spoken(
                turn=turn_from_row(dict(row)),
                words=words.get(row["id"], 0.0),
                vector=_middle(windows),
                nearest=float((windows @ question).max()) if windows is not None and question is not None else None,
                before=before[place],
                after=after.get(place),
                candidate=row["id"] in found or place in beside,
            )
        )
    return spoken


def _middle(windows: Vectors | None) -> Vector | None:
    if windows is None or len(windows) == 1:
        return None if windows is None else windows[0]
    return windows.mean(axis=0)


class _Judge:
    """Turns what ranking found into hits: the score, its parts, and the relevance."""

    def __init__(self, parts: Parts, terms: Terms, arm: Arm, whole: float) -> None:
        self._size, frequencies = len(arm), arm.frequencies
        self._frequencies = {forms[0]: max(frequencies.get(form, 0) for form in forms) for forms in terms}
        self._rarities = {word: rarity(often, self._size) for word, often in self._frequencies.items()}
        self._analyser = parts.analyser
        self._terms = terms
        self._space = parts.meaning.space
        self._whole = whole

    def hit(self, one: Spoken, shares: Features) -> Hit:
        tokens = frozenset(self._analyser.tokens(one.turn.text).split())
        matched = [forms[0] for forms in self._terms if not tokens.isdisjoint(forms)]
        told = sum(telling(word, self._frequencies[word], self._size) for word in matched)
        similarity = None if one.nearest is None else self._space.calibrated_to_question(one.nearest)
        covered = coverage(matched, self._rarities)
        parts = dict(zip(NAMES, map(float, shares), strict=True))
        return Hit(
            item=one.turn,
            bm25_score=parts["words"] / self._whole,
            vector_score=parts["meaning"] / self._whole,
            score=min(1.0, max(0.0, float(shares.sum()) / self._whole)),
            similarity=similarity,
            coverage=covered,
            relevance=relevance(similarity=similarity, covered=covered, telling_words=told),
            boosts=tuple((name, round(share / self._whole, 4)) for name, share in parts.items() if share),
        )
