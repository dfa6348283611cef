"""What a search answers, and what a full-text index is told and asked."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Literal

from filrouge.capture.models import Turn
from filrouge.memories.models import Memory

# A recall: one retrieval made for a prompt, and everything that can be asked about it afterwards.
#
# Scores are typed by name, because a fused score, a BM25 and a cosine are not comparable: `score` ranks within one
# query, `relevance` is a probability and the same everywhere. A `Ranking` explains its hits and cuts itself again
# without searching.


@dataclass(frozen=True, kw_only=True, slots=True)
class Hit:
    """One candidate with its scores.

    Attributes:
        bm25_score, vector_score: of each arm, normalised within the query to [0, 1].
        score: what the ranking is ordered by, in [0, 1].
        similarity: calibrated cosine, None where the item has no vector.
        coverage: the share of the query's meaningful words, weighted by rarity, that the item has.
        relevance: the probability that it holds what was asked; what thresholds cut.
        boosts: what each feature added to a score that is a weighted sum, by name; empty where it is not one.
        needed: how much nearer it is to what the prompt needs than nothing is; None where nobody asked.
    """

    item: Memory | Turn
    bm25_score: float
    vector_score: float
    score: float
    similarity: float | None
    coverage: float
    relevance: float
    boosts: tuple[tuple[str, float], ...] = ()
    needed: float | None = None

    @property
    def id(self) -> str:
        """The item's id."""
        return self.item.id

    @property
    def text(self) -> str:
        """The item's text."""
        return self.item.text

    def explain(self) -> dict[str, Any]:
        """Each part of the score."""
        return {
            "boosts": dict(self.boosts),
            "bm25_score": round(self.bm25_score, 4),
            "vector_score": round(self.vector_score, 4),
            "score": round(self.score, 4),
            "similarity": None if self.similarity is None else round(self.similarity, 4),
            "coverage": round(self.coverage, 4),
            "relevance": round(self.relevance, 4),
            **({} if self.needed is None else {"needed": round(self.needed, 4)}),
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranking:
    """Hits, best first, with what went wrong on the way.

    Attributes:
        known: the probability that anything about the question is known here.
        by_need: relevance is the probability that a prompt needs the hit (`search.relevance`).
    """

    query: str
    hits: tuple[Hit, ...]
    notices: tuple[str, ...] = ()
    known: float = 0.0
    by_need: bool = False

    def recut(self, min_relevance: float) -> Ranking:
        """The hits at or above a relevance, without searching again."""
        return replace(self, hits=tuple(hit for hit in self.hits if hit.relevance >= min_relevance))

    def top(self, limit: int) -> Ranking:
        """The first hits."""
        return replace(self, hits=self.hits[:limit])


@dataclass(frozen=True, kw_only=True, slots=True)
class RecallItem:
    """One candidate as the log keeps it: no text, so that forgetting need not rewrite the log."""

    id: str
    kind: str
    injected: bool
    reason: str
    scores: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """The form that is stored."""
        return {"id": self.id, "kind": self.kind, "injected": self.injected, "reason": self.reason, **self.scores}


Outcome = Literal["delivered", "late", "empty"]
"""What became of a recall: an agent got its block; the block was ready after the agent had gone on; there was none."""

START_PREVIEW: Final = "[session_start]"
"""What the log shows in place of a prompt for the start of a session."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recall:
    """One row of the recall log."""

    id: str
    at: datetime
    channel: str
    session: str
    project: str | None
    preview: str
    memories_injected: int
    tokens_added: int
    items: tuple[RecallItem, ...]
    notices: tuple[str, ...]
    nonce: str
    latency_ms: float
    notes_injected: int = 0
    outcome: Outcome = "delivered"
    omitted: dict[str, int] = field(default_factory=dict[str, int])
    """How many candidates are not in `items`, by the reason why they were not injected."""


# What a large full-text index is told of a row, and what it is asked: labels, bounds, words.
#
# The index knows rows by their number in the store and nothing of tables; labels such as `project:…` and two times
# are all that it may narrow by.


@dataclass(frozen=True, kw_only=True, slots=True)
class WordRow:
    """One row as it is indexed.

    Attributes:
        number: its place in its table; whatever comes later has a larger one.
        tokens: the analyser's token string, the same that the store indexes.
        begins, ends: microseconds since 1970; a row without an end has `NEVER`.
    """

    number: int
    tokens: str
    labels: Collection[str]
    begins: int
    ends: int


#: The end of what has no end.
NEVER = 2**62


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """Which rows may answer.

    Attributes:
        labels: of every set a row must have one; nothing = all rows.
        begins: the first and the last moment that a row may begin at.
        lasts_beyond: a moment that a row must not have ended at.
        without: numbers of rows that may not answer whatever they are.
    """

    labels: tuple[frozenset[str], ...] = ()
    begins: tuple[int | None, int | None] = (None, None)
    lasts_beyond: int | None = None
    without: frozenset[int] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """How far an index follows its store: the last row, and the last change of an older row."""

    row: int
    change: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Counted:
    """Of some rows: how many there are, their tokens together, and in how many each asked token occurs."""

    rows: int
    tokens: int
    having: Mapping[str, int]

    @property
    def mean(self) -> float:
        """Tokens of an average row."""
        return self.tokens / self.rows if self.rows else 0.0
