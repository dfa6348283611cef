"""Values of search: hits, rankings, recall log rows, and the input and queries of a word index.

Scores are named by type, because a fused score, a BM25 score and a cosine are not comparable: `score` orders the hits
of one query, while `relevance` is a probability that can be compared across queries. A `Ranking` can be filtered again
without another search. A word index refers to rows by their number and filters only by labels (such as `project:…`) and
two times.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from filrouge.capture.models import Turn
from filrouge.memories.models import Memory


class Scores(Struct, frozen=True, kw_only=True):
    """The scores of one candidate.

    Attributes:
        bm25_score, vector_score: the score of each retriever, normalised within the query to [0, 1].
        score: the ranking order, in [0, 1].
        similarity: calibrated cosine, None if the item has no vector.
        coverage: the share of the query's meaningful words, weighted by rarity, that the item contains.
        relevance: the probability that the item contains what was asked; thresholds apply to it.
        boosts: the contribution of each feature by name, if the score is a weighted sum; otherwise empty.
    """

    bm25_score: float
    vector_score: float
    score: float
    similarity: float | None
    coverage: float
    relevance: float
    boosts: tuple[tuple[str, float], ...] = ()

    def explain(self) -> dict[str, Any]:
        """Return each part of the score."""
        return {
            "boosts": dict(self.boosts),
            "bm25_score": round(self.bm25_score, 4),
            "vector_score": round(self.vector_score, 4),
            "score": round(self.score, 4),
            "similarity": None if self.similarity is None else round(self.similarity, 4),
            "coverage": round(self.coverage, 4),
            "relevance": round(self.relevance, 4),
        }


class Hit(Scores, frozen=True, kw_only=True):
    """One candidate with its scores.

    Attributes:
        needed: how much nearer the item is to what the prompt needs than the "needs nothing" vector is; None if need
            was not computed.
    """

    item: Memory | Turn
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
        """Return each part of the score."""
        return Scores.explain(self) | ({} if self.needed is None else {"needed": round(self.needed, 4)})


class Ranking(Struct, frozen=True, kw_only=True):
    """Hits, best first, with the notices raised during the search.

    Attributes:
        known: the probability that anything about the question is stored here.
        by_need: if True, `relevance` is the probability that a prompt needs the hit, and `known` that it needs any of
            them (`search.ranking`).
    """

    query: str
    hits: tuple[Hit, ...]
    notices: tuple[str, ...] = ()
    known: float = 0.0
    by_need: bool = False

    def recut(self, min_relevance: float) -> Ranking:
        """Return the hits at or above a relevance threshold, without searching again."""
        return replace(self, hits=tuple(hit for hit in self.hits if hit.relevance >= min_relevance))

    def top(self, limit: int) -> Ranking:
        """Return the first `limit` hits."""
        return replace(self, hits=self.hits[:limit])


Omission = Literal[
    "below the threshold", "nothing relevant is known", "confidence too low", "beyond the limit", "section is full",
    "over the budget", "duplicate", "supporting item, and nothing relevant to support", "said in this session",
    "already in this session", "repeats a shown item", "covered by its turn", "covered by a memory",
    "shown on another memory's line", "its state is already shown", "its memory is no longer valid",
    "repeats an outdated memory", "perhaps replaced", "the prompt does not resume it", "too old",
]  # fmt: skip
"""Why a candidate is not injected, as the recall log says it."""
Refusal = Omission | Literal[""]
"""Why the source of a candidate would not show it; empty if it would."""


class RecallItem(Struct, frozen=True, kw_only=True):
    """One candidate as stored in the recall log; it has no text, so forgetting a memory leaves the log unchanged."""

    id: str
    kind: str
    injected: bool
    reason: str
    scores: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return the stored form."""
        return {"id": self.id, "kind": self.kind, "injected": self.injected, "reason": self.reason, **self.scores}


DeliveryOutcome = Literal["delivered", "late", "empty"]
"""What became of a recall: an agent got its block; the block was ready after the agent had gone on; there was none."""

START_PREVIEW: Final = "[session_start]"
"""What the log shows in place of a prompt for the start of a session."""


class Recall(Struct, frozen=True, kw_only=True):
    """One row of the recall log: one retrieval made for a prompt.

    Attributes:
        preview: the beginning of the prompt, or `START_PREVIEW`.
        items: the logged candidates, injected or not.
        nonce: the nonce of the block's delimiter.
        tokens_added: estimated tokens of the block.
        memories_injected, notes_injected: how many items of each kind are in the block.
        omitted: how many candidates are not in `items`, by the reason why they were not injected.
    """

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
    outcome: DeliveryOutcome = "delivered"
    omitted: dict[str, int] = field(default_factory=dict[str, int])


# Input and queries of a word index for large tables.


class WordRow(Struct, frozen=True, kw_only=True):
    """One row as it is indexed.

    Attributes:
        number: its row number in its table; later rows have larger numbers.
        tokens: the analyser's token string, the same that the store indexes.
        begins, ends: microseconds since 1970; `ends` is `NEVER` for a row without an end.
    """

    number: int
    tokens: str
    labels: Collection[str]
    begins: int
    ends: int


#: The value of `ends` for a row without an end.
NEVER = 2**62


class Selection(Struct, frozen=True, kw_only=True):
    """The filter of a query: which rows may match.

    Attributes:
        labels: a row must have at least one label of every set; empty = all rows.
        begins: the earliest and the latest value allowed for a row's `begins`.
        lasts_beyond: a row must end after this time.
        without: numbers of rows that are always excluded.
    """

    labels: tuple[frozenset[str], ...] = ()
    begins: tuple[int | None, int | None] = (None, None)
    lasts_beyond: int | None = None
    without: frozenset[int] = frozenset()


class IndexPosition(NamedTuple):
    """How far an index has followed its store: the last row, and the last change to an older row."""

    row: int
    change: int


class WordCounts(Struct, frozen=True, kw_only=True):
    """Counts over a set of rows.

    Attributes:
        tokens: tokens of all rows, with repetitions.
        having: in how many rows each queried token occurs.
    """

    rows: int
    tokens: int
    having: Mapping[str, int]

    @property
    def mean(self) -> float:
        """Return the mean number of tokens per row."""
        return self.tokens / self.rows if self.rows else 0.0


FEATURE_NAMES: Final = (
    "words",
    "words_before",
    "words_after",
    "meaning",
    "meaning_before",
    "meaning_around",
    "meaning_wide",
    "session_words",
    "session_meaning",
    "length",
    "asks",
    "time",
    "speaker",
    "dated",
    "reply",
)

IndexedTable = Literal["turn", "memory"]
