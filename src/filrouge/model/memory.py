"""A memory: one atomic statement that stands on its own, with the words that prove it.

`Statement` is what the extractor proposes, before anyone decided anything; `Memory` is what is stored.
A memory is never overwritten: an update closes its validity and a new memory links back to it.
A standing instruction is a memory of kind `rule`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from filrouge.model.scope import Scope, ScopeName

Kind = Literal["fact", "decision", "preference", "intent", "constraint", "episode", "concept", "note", "rule"]
#: Kinds that sum sessions up. They repeat what other memories and turns say, so nothing automatic reads them.
LEAST_TO_INJECT = 0.6
"""Confidence from which on a memory is put in front of an agent unasked (EXT-7)."""
LEAST_TO_KEEP = 0.3
"""Confidence below which a statement is dropped; between the two it is kept and found, and never injected."""
SUMS: tuple[Kind, ...] = ("episode", "concept")
State = Literal["live", "superseded", "binned", "quarantined"]
Sentiment = Literal["positive", "neutral", "negative"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """Characters `start` to `end` (exclusive) of a turn's text."""

    start: int
    end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """The words of one turn that prove a memory."""

    turn_id: str
    span: Span


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """A candidate memory: what the extractor read in one turn.

    Attributes:
        subject: what it is about, in a few normalised words (`production port`), so that a newer value
            of the same subject can be recognised without a model.
        key, value: set for a core fact (`user_name`, `Ana Beltran`).
        corrects: words for the old value that this statement says no longer holds (`8443`, `Typst`).
        is_correction: the sentence itself says that something changed.
    """

    kind: Kind
    text: str
    span: Span
    scope: ScopeName = "project"
    subject: str = ""
    key: str | None = None
    value: str | None = None
    corrects: tuple[str, ...] = ()
    is_correction: bool = False
    confidence: float = 0.8
    sentiment: Sentiment = "neutral"
    timeframe: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """One stored statement with its whole life.

    Attributes:
        disabled: a rule that the user switched off: it is kept, and in front of no model.
        uses: how often it went in front of a prompt, because it bore on it.
    """

    id: str
    scope: Scope
    scope_name: ScopeName
    kind: Kind
    text: str
    trust: int
    created_at: datetime
    valid_from: datetime
    valid_to: datetime | None = None
    state: State = "live"
    subject: str = ""
    key: str | None = None
    value: str | None = None
    confidence: float = 0.8
    sentiment: Sentiment = "neutral"
    timeframe: str = ""
    evidence: tuple[Evidence, ...] = ()
    supersedes: str | None = None
    superseded_by: str | None = None
    previous_text: str | None = None
    pinned: bool = False
    disabled: bool = False
    mention_count: int = 1
    last_mention: datetime | None = None
    uses: int = 0
    last_used: datetime | None = None
    made_by: str = "heuristic"
    prompt_version: str = ""
