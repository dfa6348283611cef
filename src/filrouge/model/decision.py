"""What becomes of a statement: Add, Update, Delete, Noop or Conflict (AUDN).

A closed union, consumed with `match`. Ids name memories that were shown to the decider; whoever applies a
decision checks them again, because a decider may be a model and models invent ids.
"""

from __future__ import annotations

from dataclasses import dataclass

from filrouge.model.memory import Memory, Statement


@dataclass(frozen=True, kw_only=True, slots=True)
class Add:
    """Nothing like it is known."""

    statement: Statement
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Update:
    """It replaces `old_ids`: the first is the one it continues, the others end with it."""

    statement: Statement
    old_ids: tuple[str, ...]
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Delete:
    """It only says that `old_ids` no longer hold."""

    statement: Statement
    old_ids: tuple[str, ...]
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Noop:
    """It is already known as `existing_id`, which gains a mention."""

    statement: Statement
    existing_id: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Conflict:
    """It contradicts `existing_id` and nobody said which holds: a person decides."""

    statement: Statement
    existing_id: str
    reason: str


Decision = Add | Update | Delete | Noop | Conflict


@dataclass(frozen=True, kw_only=True, slots=True)
class Neighbour:
    """A stored memory near a statement.

    Attributes:
        similarity: calibrated, 0 = unrelated, 1 = same text (EMBEDDING: s = max(0, (cos - m0)/(1 - m0))).
    """

    memory: Memory
    similarity: float
