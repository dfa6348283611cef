"""What the routes about memories answer: memories with their proof and their history, rules, reviews, and undo."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from filrouge.core.scope import ScopeName
from filrouge.memories.models import Kind, Outcome, ReviewKind, Sentiment, State
from filrouge.memories.repository import ActionName
from filrouge.server.responses import Answer


class Cited(Answer):
    """Words of a turn that a memory rests on."""

    turn_id: str
    start: int = Field(ge=0, description="The first character, counted from 0.")
    end: int = Field(ge=0, description="The character behind the last.")


class MemoryAnswer(Answer):
    """A memory as it is listed."""

    id: str
    key: str = Field(description="The key of a core fact; the id of a memory without one.")
    value: str
    text: str
    kind: Kind
    state: State
    scope: ScopeName
    project: str | None
    project_name: str
    channel: str
    session_id: str
    branch: str = Field(description="The git branch, or the beginning of the commit, it was learned on; may be empty.")
    subject: str
    confidence: float = Field(ge=0, le=1)
    sentiment: Sentiment
    timeframe: str
    trust: int = Field(ge=0, le=3)
    created_at: str
    valid_from: str
    valid_to: str | None
    supersedes: str | None
    superseded_by: str | None
    previous_text: str | None
    pinned: bool
    disabled: bool
    mention_count: int = Field(ge=0)
    vitality: float = Field(ge=0, le=1, description="How lively it is; 1 = met just now.")
    uses: int = Field(ge=0)
    last_used: str | None
    evidence: list[Cited]
    made_by: str = Field(description="Who understood it: `heuristic`, `user`, or a model's name.")


class Quote(Answer):
    """The words themselves."""

    turn_id: str
    text: str
    at: str
    channel: str


class JournalEntry(Answer):
    """A decision about a memory, as the journal has it."""

    entry: int = Field(ge=1, description="Its number, which `undo` takes.")
    at: str
    actor: str
    action: str
    memory_id: str
    payload: dict[str, Any] | None = Field(description="What was decided and why; null where it was forgotten.")
    undone: bool


class MemoryWithProof(MemoryAnswer):
    """A memory, and the words that it rests on."""

    quotes: list[Quote]


class MemoryWithHistory(MemoryWithProof):
    """A memory, its words, and every decision that touched it."""

    journal: list[JournalEntry]


class MemoryVersions(Answer):
    """A memory in every version, oldest first."""

    id: str
    text: str
    state: State
    versions: list[MemoryWithProof]
    journal: list[JournalEntry]


class RuleSource(Answer):
    """Who said a rule, when and where."""

    turn_id: str
    at: str
    by: str = Field(description="`you`, or the channel.")
    channel: str
    session_id: str
    text: str


class RuleAnswer(MemoryAnswer):
    """A rule as it is listed."""

    standing: Literal["standing", "waiting", "disabled", "live", "superseded", "binned", "quarantined"]
    source: list[RuleSource]


class ActionAnswer(Answer):
    """What a decision came to."""

    action: ActionName
    id: str
    superseded: list[str] = Field(description="The ids of memories that it ended.")
    reason: str
    review: str = Field(description="The id under which its statement waits for a person; empty = it does not.")


class ActionsAnswer(Answer):
    """What each statement of a text came to."""

    actions: list[ActionAnswer]


class SupersededAnswer(Answer):
    """A memory that was replaced."""

    success: Literal[True]
    old_id: str
    new_id: str
    previous_text: str


class ReviewAnswer(Answer):
    """What waits for a person, or waited."""

    id: str
    kind: ReviewKind
    outcome: Outcome
    reason: str
    at: str
    settled_at: str | None
    text: str
    statement: MemoryAnswer
    quotes: list[Quote]
    against: MemoryAnswer | None


class TakenBackAnswer(Answer):
    """A decision that is taken back."""

    entry: int
    at: str
    actor: str
    action: str
    memory_id: str
    reason: str


class EffectAnswer(Answer):
    """What becomes of one memory."""

    id: str
    text: str
    what: str
    before: State
    after: State


class UndoAnswer(Answer):
    """What was taken back, or would be."""

    entry: int
    decisions: list[TakenBackAnswer]
    changes: list[EffectAnswer]
    dry_run: bool
    text: str


class AuditAnswer(Answer):
    """Whether the journal is as it was written."""

    sound: bool
    entries: int = Field(ge=0)
    redacted: int = Field(ge=0)
    broken_at: int | None
    reason: str


class ConceptAnswer(Answer):
    """What sessions were about."""

    id: str
    concept: str
    project: str | None
    project_name: str
    mention_count: int
    first_date: str | None
    last_date: str | None
    summary: str
    sessions: list[str]
    thread_ids: list[str]
