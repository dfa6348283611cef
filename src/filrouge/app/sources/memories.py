"""Source: what memory holds about a prompt, the rules included that bear on it.

Something is offered only where it is more probable than not that anything about the prompt is known at all; then what
is probable enough by itself. A rule passes like everything else.
"""

from __future__ import annotations

from collections.abc import Sequence

from filrouge.app.asking import LONGEST_QUERY, Question, recall
from filrouge.app.moment import Moment
from filrouge.app.parts import Parts
from filrouge.app.sources.telling import piece_of
from filrouge.model.filters import Filters
from filrouge.model.memory import LEAST_TO_INJECT, Memory
from filrouge.model.piece import Piece
from filrouge.model.recall import Hit
from filrouge.ports import Tx

#: Of the threshold that a whole block must pass, the share that each of its items must.
SHARE_OF_THRESHOLD = 0.1


def memories(parts: Parts, tx: Tx, moment: Moment) -> Sequence[Piece]:
    """What is recalled for the prompt, the most relevant first."""
    question = Question(text=moment.prompt[:LONGEST_QUERY], project=moment.project, filters=Filters(agent=moment.agent))
    ranking = recall(parts, tx, question)
    moment.notices.extend(ranking.notices)
    threshold = moment.settings.auto_retrieve_min_score
    hits = sorted(ranking.hits, key=lambda hit: (-round(hit.relevance, 6), -hit.score))
    return [_piece(hit, threshold, is_known=ranking.known >= threshold) for hit in hits]


def _piece(hit: Hit, threshold: float, *, is_known: bool) -> Piece:
    memory = hit.item
    if not isinstance(memory, Memory):
        raise TypeError("only memories are recalled")
    section = "rules" if memory.kind == "rule" else "memories"
    why_not = _why_not(hit, memory, threshold, is_known=is_known)
    return piece_of(memory, section, value=hit.relevance, scores=hit.explain(), refused=why_not)


def _why_not(hit: Hit, memory: Memory, threshold: float, *, is_known: bool) -> str:
    """Why a hit is not offered, or empty."""
    if not is_known:
        return "nothing is known of this"
    if memory.confidence < LEAST_TO_INJECT:
        return "not sure enough"
    return "" if hit.relevance >= threshold * SHARE_OF_THRESHOLD else "below the threshold"
