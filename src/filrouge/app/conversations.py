"""Searching what was said: verbatim turns, judged in their neighbourhood.

Candidates are the best by words, the best by meaning, and the turns beside them, since an answer often stands next
to the turn that has the question's words. Their vectors are read from the store, so the ranking does not depend
on which index found them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from filrouge.app.asking import LONGEST_QUERY, Question, arm_of
from filrouge.app.parts import Parts
from filrouge.model.recall import Hit, Ranking
from filrouge.ports import EmbeddingSpace, Tx, Vector, Vectors
from filrouge.recall.judging import JUDGED, Questioned, judged
from filrouge.recall.neighbourhood import NAMES, Asked, Features, Measured, Spoken, measured
from filrouge.recall.recipes import Recipe, by_places, only, recipe
from filrouge.recall.relevance import Signs, shares
from filrouge.recall.times import spans
from filrouge.store.turns import turn_from_row
from filrouge.store.vectors import StoredVectors

#: Turns whose words are known beside the pool: a neighbour below this has too little to count.
_WORDED = 200
_COLUMN = {name: place for place, name in enumerate(NAMES)}


def search_turns(parts: Parts, tx: Tx, question: Question) -> Ranking:
    """Rank the verbatim turns for a question; by words or by meaning alone where its mode says so."""
    meaning, mode, how = parts.meaning, question.mode, _recipe(question)
    words = parts.bridging.words(question.text[:LONGEST_QUERY])
    # Turns are many and in one language mostly: other words for the same thing find more that is beside the point.
    arm = arm_of(parts, tx, "turn", question, words.own)
    by_words = arm.by_words(max(_WORDED, how.pool)) if mode != "semantic" else {}
    vector, notices = meaning.question(question.text) if mode != "text" else (None, ())
    near = arm.by_meaning(meaning, vector, how.pool) if vector is not None else {}
    found = list(dict.fromkeys([*list(by_words)[: how.pool], *near]))
    if not found:
        return Ranking(query=question.text, hits=(), notices=notices)
    around = tx.all("turns.around", {"ids": json.dumps(found), "reach": how.reach})
    around = [row for row in around if arm.holds(row)]  # what does not pass is no neighbour either
    vectors = StoredVectors(tx).some("turn", [row["id"] for row in around], meaning.space.id) if near else {}
    spoken = _spoken(around, frozenset(found), by_words, vectors, vector)
    asked = Asked(text=question.text, vector=vector, times=spans(question.text, parts.clock.now().date()))
    values = measured(asked, spoken)
    counted = (by_places(values.features) if how.by_rank else values.features) * how.weights
    scores = counted.sum(axis=1)
    places = [place for place, one in enumerate(spoken) if one.candidate]
    order = sorted(places, key=lambda place: (-float(scores[place]), spoken[place].turn.id))
    parts_of_pool = dict(zip(order, shares([float(scores[place]) for place in order]), strict=True))
    best = order[: max(question.limit, JUDGED)]
    judge = _Judge(Questioned(words.meant, arm.frequencies, len(arm)), meaning.space, values)
    matched = [judge.questioned.matched(_tokens(parts, spoken[place])) for place in best]
    signs = [
        judge.signs(place, spoken[place], own, parts_of_pool[place]) for place, own in zip(best, matched, strict=True)
    ]
    chances, known = judged(
        judge.questioned, signs, matched, by_meaning=vector is not None and meaning.space.is_measured
    )
    whole = float(how.weights.clip(min=0).sum()) * (float(counted.max()) / 1.0 if how.by_rank else 1.0)
    hits = tuple(
        _hit(spoken[place], counted[place], whole or 1.0, one, chance)
        for place, one, chance in zip(best, signs, chances, strict=True)
    )
    return Ranking(query=question.text, hits=hits, notices=notices, known=known)


def _recipe(question: Question) -> Recipe:
    """The question's own, or in a mode of one search alone that search."""
    chosen = recipe(question.recipe)
    match question.mode:
        case "hybrid":
            return chosen
        case "text":
            return Recipe(name=chosen.name, pool=chosen.pool, reach=0, weights=only(words=1.0))
        case "semantic":
            return Recipe(name=chosen.name, pool=chosen.pool, reach=0, weights=only(meaning=1.0))


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


def _tokens(parts: Parts, one: Spoken) -> frozenset[str]:
    return frozenset(parts.analyser.tokens(one.turn.text).split())


class _Judge:
    """Reads off a turn what speaks for it."""

    def __init__(self, questioned: Questioned, space: EmbeddingSpace, values: Measured) -> None:
        self.questioned = questioned
        self._space = space
        self._values = values

    def signs(self, place: int, one: Spoken, matched: Sequence[str], share: float) -> Signs:
        """What speaks for the turn at this place."""
        row = self._values.features[place]
        return Signs(
            similarity=self._similarity(one.nearest),
            around=self._similarity(float(self._values.around[place])),
            wide=self._similarity(float(self._values.wide[place])),
            covered=self.questioned.covered(matched),
            telling=self.questioned.is_telling(matched),
            share=share,
            words=len(self.questioned),
            time=float(row[_COLUMN["time"]]),
            speaker=float(row[_COLUMN["speaker"]]),
            dated=float(row[_COLUMN["dated"]]),
            asks=float(row[_COLUMN["asks"]]),
        )

    def _similarity(self, cosine: float | None) -> float:
        return 0.0 if cosine is None else self._space.calibrated_to_question(cosine)


def _hit(one: Spoken, counted: Features, whole: float, signs: Signs, chance: float) -> Hit:
    parts = dict(zip(NAMES, map(float, counted), strict=True))
    return Hit(
        item=one.turn,
        bm25_score=parts["words"] / whole,
        vector_score=parts["meaning"] / whole,
        score=min(1.0, max(0.0, float(counted.sum()) / whole)),
        similarity=None if one.nearest is None else signs.similarity,
        coverage=signs.covered,
        relevance=chance,
        boosts=tuple((name, round(part / whole, 4)) for name, part in parts.items() if part),
    )
