"""The read path as one pure function: candidates of both arms in, a ranking that explains itself out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from filrouge.model.memory import Memory
from filrouge.model.recall import Hit, Ranking
from filrouge.model.turn import Turn
from filrouge.recall.fusion import fuse, normalised
from filrouge.recall.relevance import coverage, rarity, relevance, telling

ALPHA = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Term:
    """A meaningful word of the prompt: the forms it may be indexed under, and how many memories have it."""

    forms: tuple[str, ...]
    frequency: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """An item that one arm or both returned.

    Attributes:
        tokens: every token the item is indexed under.
        bm25: higher is better; None if the lexical arm did not return it.
        cosine: None if the vector arm did not return it.
        similarity: the calibrated cosine.
    """

    item: Memory | Turn
    tokens: frozenset[str]
    bm25: float | None
    cosine: float | None
    similarity: float | None


def rank(
    query: str,
    terms: Sequence[Term],
    candidates: Sequence[Candidate],
    *,
    size: int,
    alpha: float = ALPHA,
    notices: tuple[str, ...] = (),
) -> Ranking:
    """Fuse and judge the candidates, best first.

    Args:
        size: how many items the scope holds, for the rarity of words.
    """
    lexical = normalised({c.item.id: c.bm25 for c in candidates if c.bm25 is not None})
    vector = normalised({c.item.id: c.cosine for c in candidates if c.cosine is not None})
    fused = fuse(lexical, vector, alpha if vector else 0.0)
    weights = {term.forms[0]: rarity(term.frequency, size) for term in terms}
    hits = [_judge(candidate, terms, weights, size, lexical, vector, fused) for candidate in candidates]
    hits.sort(key=lambda hit: (-round(hit.score, 9), -hit.relevance, hit.id))
    return Ranking(query=query, hits=tuple(hits), notices=notices)


def _judge(
    candidate: Candidate,
    terms: Sequence[Term],
    weights: Mapping[str, float],
    size: int,
    lexical: Mapping[str, float],
    vector: Mapping[str, float],
    fused: Mapping[str, float],
) -> Hit:
    matched = [term for term in terms if not candidate.tokens.isdisjoint(term.forms)]
    covered = coverage([term.forms[0] for term in matched], weights)
    told = sum(telling(term.forms[0], term.frequency, size) for term in matched)
    id_ = candidate.item.id
    return Hit(
        item=candidate.item,
        bm25_score=lexical.get(id_, 0.0),
        vector_score=vector.get(id_, 0.0),
        score=fused[id_],
        similarity=candidate.similarity,
        coverage=covered,
        relevance=relevance(similarity=candidate.similarity, covered=covered, telling_words=told),
    )
