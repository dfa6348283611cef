"""Hybrid retrieval as pure functions: the scores of words and of meaning in, one explained order out.

Two ways to join them. *Convex*: each arm is stretched to [0, 1] over the candidates (min-max) and alpha mixes the two.
*RRF*, reciprocal rank fusion (Cormack, Clarke, Büttcher, SIGIR 2009): only the ranks count, `1 / (60 + rank)`; here
weighted by alpha and scaled so that whoever is first in both arms scores 1. With alpha = 0.5 the order is theirs.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from filrouge.errors import BadInput
from filrouge.ports import Analyser
from filrouge.recall.bm25 import Collection, Okapi, bm25
from filrouge.recall.fusion import normalised

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
