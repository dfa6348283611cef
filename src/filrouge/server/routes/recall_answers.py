"""What the routes that search and inject answer: hits with every part of their score, blocks, and the log."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from filrouge.capture.models import Role
from filrouge.context.models import Section
from filrouge.memories.models import Kind
from filrouge.search.models import Outcome
from filrouge.server.responses import Answer
from filrouge.server.routes.threads_answers import ThreadAnswer


class Success(Answer):
    """It is done."""

    success: Literal[True]


class HitAnswer(Answer):
    """A turn or a memory that was found, with each part of its score."""

    id: str
    content: str
    channel: str
    branch: str = Field(description="The git branch that was checked out when it was said; may be empty.")
    type: Kind | Literal["turn"]
    role: Role | None = Field(description="Who said it; null for a memory.")
    project: str | None
    project_name: str
    created_at: str
    boosts: dict[str, float] = Field(description="What each feature added to the score, by name.")
    bm25_score: float
    vector_score: float
    score: float = Field(description="What the order is by; it compares within one search alone.")
    similarity: float | None = Field(description="Calibrated cosine; null where there is no vector.")
    coverage: float
    relevance: float = Field(ge=0, le=1, description="The probability that it holds what was asked.")


class ThreadHitAnswer(ThreadAnswer):
    """A thread that was found."""

    type: Literal["thread"]
    content: str
    score: float
    bm25_score: float
    vector_score: float
    similarity: float | None
    words: list[str]
    why: str


class ResultAnswer(HitAnswer):
    """A memory that was found, with the names that programs know its fields by."""

    text: str
    source: str
    similarity: float  # pyright: ignore[reportIncompatibleVariableOverride]


class SearchAnswer(Answer):
    """What was found for a question."""

    results: list[ResultAnswer]
    notices: list[str]
    known: float = Field(ge=0, le=1, description="The probability that anything about the question is known.")
    nothing_known: bool
    message: str = Field(
        description="That nothing is known, in the language of the settings or the question; else empty."
    )


class StatsAnswer(Answer):
    """The counts of the memory page."""

    factsCount: int = Field(ge=0)  # noqa: N815 (the names of the page)
    messagesCount: int = Field(ge=0)  # noqa: N815
    vectorsCount: int = Field(ge=0)  # noqa: N815
    lastIndexedAt: str | None  # noqa: N815


class CandidateAnswer(Answer):
    """A candidate for a block: what it is, whether it is in and why, and the scores that its source gave."""

    id: str
    kind: str
    injected: bool
    reason: str
    section: Section
    value: float = Field(description="The probability that it helps.")
    boosts: dict[str, float] | None = None
    bm25_score: float | None = None
    vector_score: float | None = None
    score: float | None = None
    similarity: float | None = None
    coverage: float | None = None
    relevance: float | None = None
    known: float | None = None
    bears: float | None = None
    state: str | None = None
    tie: str | None = None
    work: list[str] | None = None
    strength: float | None = None


class RetrievalAnswer(Answer):
    """One row of the recall log."""

    id: str
    channel: str
    user_message_preview: str
    memories_injected: int = Field(ge=0)
    obsidian_notes_injected: int = Field(ge=0)
    total_tokens_added: int = Field(ge=0)
    items: list[CandidateAnswer]
    omitted: dict[str, int] = Field(description="How many candidates are not listed, by the reason.")
    notices: list[str]
    latency_ms: float
    created_at: str
    outcome: Outcome = Field(description="Delivered, late (the agent had gone on before), or empty.")


class GivenMemory(Answer):
    """A memory in a block, as a program wants it that injects by itself."""

    id: str
    content: str
    score: float
    channel: str
    timestamp: str | None
    time_ago: str
    type: str
    section: Section
    verified: bool


class GivenNote(Answer):
    """A note in a block."""

    path: str
    content: str


class ContextAnswer(Answer):
    """What is put in front of a prompt."""

    context: str = Field(description="The block; empty where nothing is worth saying.")
    memories: list[GivenMemory]
    notes: list[GivenNote]
    notices: list[str]


class ShownCandidate(CandidateAnswer):
    """A candidate with the beginning of its text."""

    content: str


class PreviewAnswer(ContextAnswer):
    """The same, with every candidate and why it is in or out."""

    enabled: bool
    language: Literal["en", "fr", "es", ""]
    tokens: int = Field(ge=0)
    latency_ms: float
    candidates: list[ShownCandidate]


class DeliveredAnswer(Answer):
    """What became of events."""

    accepted: int = Field(ge=0)
    duplicates: int = Field(ge=0)
    context: str
    recall: str = Field("", description="To be sent to /hooks/delivered once the context was printed; may be empty.")
