"""Rows of the table `memories` as the values they stand for, and what of them is sealed."""

from __future__ import annotations

from typing import Any

from filrouge.clock import from_text, to_text
from filrouge.model.memory import Memory
from filrouge.model.scope import Scope
from filrouge.store import seals


def memory_from_row(row: dict[str, Any]) -> Memory:
    """The value a row stands for, without its evidence."""
    return Memory(
        id=row["id"],
        scope=Scope(
            user=row["user_id"],
            project=row["project_id"],
            agent=row["agent"],
            channel=row["channel"],
            session=row["session_id"],
            branch=row["branch"],
        ),
        scope_name=row["scope"],
        kind=row["kind"],
        text=row["text"],
        trust=row["trust"],
        created_at=from_text(row["created_at"]),
        valid_from=from_text(row["valid_from"]),
        valid_to=from_text(row["valid_to"]) if row["valid_to"] else None,
        state=row["state"],
        subject=row["subject"],
        key=row["key"],
        value=row["value"],
        confidence=row["confidence"],
        sentiment=row["sentiment"],
        timeframe=row["timeframe"],
        supersedes=row["supersedes"],
        superseded_by=row["superseded_by"],
        previous_text=row["previous_text"],
        pinned=bool(row["pinned"]),
        disabled=bool(row["disabled"]),
        mention_count=row["mention_count"],
        last_mention=from_text(row["last_mention"]),
        uses=row["uses"],
        last_used=from_text(row["last_used"]) if row["last_used"] else None,
        made_by=row["made_by"],
        prompt_version=row["prompt_version"],
    )


def row_of(memory: Memory) -> dict[str, object]:
    """The columns a new memory brings by itself, sealed."""
    sealed = seals.seal(content_of(memory))
    scope = memory.scope
    return {
        "id": memory.id,
        "user_id": scope.user,
        "scope": memory.scope_name,
        "project_id": scope.project if memory.scope_name == "project" else None,
        "agent": scope.agent,
        "channel": scope.channel,
        "session_id": scope.session,
        "branch": scope.branch,
        "kind": memory.kind,
        "text": memory.text,
        "subject": memory.subject,
        "key": memory.key,
        "value": memory.value,
        "confidence": memory.confidence,
        "sentiment": memory.sentiment,
        "timeframe": memory.timeframe,
        "trust": memory.trust,
        "at": to_text(memory.created_at),
        "made_by": memory.made_by,
        "prompt_version": memory.prompt_version,
        "row_key": sealed.key,
        "row_hash": sealed.hash,
    }


def intact(row: dict[str, Any]) -> bool:
    """True if the row's seal holds."""
    return seals.holds(row["row_key"], row["row_hash"], content_of(memory_from_row(row)))


def content_of(memory: Memory) -> dict[str, object]:
    """What never changes in a memory's life: this is sealed."""
    return {
        "id": memory.id,
        "kind": memory.kind,
        "text": memory.text,
        "key": memory.key,
        "value": memory.value,
        "scope": memory.scope_name,
        "project": memory.scope.project,
        "trust": memory.trust,
        "created_at": to_text(memory.created_at),
    }
