"""The read path of memories as one pure function: candidates of both arms in, a ranking that explains itself out.

`score = (1 - alpha) x words + alpha x meaning`. Both are absolute, in [0, 1]: the share of the question's words that
the memory has, weighted by rarity, and the calibrated similarity. A min-max over the candidates would call the best
of a poor lot perfect, and the second of two nothing. Where the candidates are judged by what a prompt needs
(`recall.needed`), that probability is the score.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from filrouge.model.memory import Memory
from filrouge.model.recall import Hit, Ranking
from filrouge.recall.fusion import normalised
from filrouge.recall.judging import JUDGED, Questioned, alone, judged
from filrouge.recall.needed import Found, chances
from filrouge.recall.relevance import shares
from filrouge.recall.weights import ALONE_MEANING, ALONE_WORDS

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
        found = chances(standing)
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
