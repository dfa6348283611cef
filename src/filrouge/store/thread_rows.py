"""Rows of the table `threads` and of the log of decisions as the values they stand for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from filrouge.clock import from_text, to_text
from filrouge.model.thread import Drift, Routing, Thread, Weighed


@dataclass(frozen=True, kw_only=True, slots=True)
class Decided:
    """A decision as it was logged.

    Attributes:
        thread_id: where the turn went, which may have been merged since.
        actor: rules, model or user.
    """

    turn_id: str
    at: datetime
    thread_id: str
    routing: Routing
    actor: str


def thread_from_row(row: Mapping[str, Any]) -> Thread:
    """The value a row stands for; without its counts where the query has none."""
    return Thread(
        id=row["id"],
        user=row["user_id"],
        project=row["project_id"],
        agent=row["agent"],
        channel=row["channel"],
        title=row["title"],
        title_by=row["title_by"],
        summary=row["summary"],
        topics=tuple(json.loads(row["topics"])),
        state=row["state"],
        origin=row["origin"],
        parent=row["parent_id"],
        merged_into=row["merged_into"],
        weight=row["weight"],
        opened_at=from_text(row["opened_at"]),
        last_active=from_text(row["last_active"]),
        suspended_at=from_text(row["suspended_at"]) if row["suspended_at"] else None,
        drifts=tuple(_drift(one) for one in json.loads(row["drifts"])),
        turns=row.get("turns", 0),
        sessions=row.get("sessions", 0),
    )


def row_of(thread: Thread) -> dict[str, object]:
    """The columns of a thread."""
    return {
        "id": thread.id,
        "user_id": thread.user,
        "project_id": thread.project,
        "agent": thread.agent,
        "channel": thread.channel,
        "title": thread.title,
        "title_by": thread.title_by,
        "summary": thread.summary,
        "topics": json.dumps(thread.topics, ensure_ascii=False),
        "state": thread.state,
        "origin": thread.origin,
        "parent_id": thread.parent,
        "merged_into": thread.merged_into,
        "weight": thread.weight,
        "opened_at": to_text(thread.opened_at),
        "last_active": to_text(thread.last_active),
        "suspended_at": to_text(thread.suspended_at) if thread.suspended_at else None,
        "drifts": json.dumps([drift_json(one) for one in thread.drifts]),
    }


def drift_json(drift: Drift) -> dict[str, Any]:
    """A drift as it is stored and shown."""
    return {
        "turn_id": drift.turn_id,
        "at": to_text(drift.at),
        "similarity": round(drift.similarity, 4),
        "became": drift.became,
    }


def decided_from_row(row: Mapping[str, Any]) -> Decided:
    """The decision that a row stands for."""
    routing = Routing(
        action=row["action"],
        thread_id=row["thread_id"],
        similarity=row["similarity"],
        weighed=tuple(Weighed(**one) for one in json.loads(row["weighed"])),
        reason=row["reason"],
        parent=row["parent_id"],
        borderline=bool(row["borderline"]),
        model=row["model"],
    )
    return Decided(
        turn_id=row["turn_id"],
        at=from_text(row["at"]),
        thread_id=row["thread_id"],
        routing=routing,
        actor=row["actor"],
    )


def _drift(raw: Mapping[str, Any]) -> Drift:
    return Drift(
        turn_id=raw["turn_id"], at=from_text(raw["at"]), similarity=float(raw["similarity"]), became=raw["became"]
    )
