"""A memory as a piece."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from filrouge.context.models import Piece, Section
from filrouge.memories.models import Memory

#: Trust from which on words are the user's own.
_THE_USERS = 2


def piece_of(
    memory: Memory, section: Section, *, value: float, scores: Mapping[str, Any] | None = None, refused: str = ""
) -> Piece:
    """A memory as it is shown: by the last time that it was said; a fact without a text as `key: value`."""
    return Piece(
        id=memory.id,
        kind=memory.kind,
        section=section,
        text=memory.text or f"{memory.key}: {memory.value}",
        said=memory.last_mention or memory.created_at,
        source=memory.scope.channel,
        verified=memory.trust >= _THE_USERS,
        value=value,
        turns=tuple(cited.turn_id for cited in memory.evidence),
        scores=scores or {},
        refused=refused,
    )
