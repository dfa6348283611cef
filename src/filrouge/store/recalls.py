"""The recall log: one row for each retrieval made for a prompt, also when nothing was injected."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from filrouge.clock import to_text
from filrouge.model.recall import Recall
from filrouge.ports import Tx


class Recalls:
    """The table `memory_retrievals`."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def add(self, recall: Recall) -> None:
        """Log one recall."""
        self._tx.run(
            "recalls.add",
            {
                "id": recall.id,
                "channel": recall.channel,
                "session_id": recall.session,
                "project_id": recall.project,
                "preview": recall.preview,
                "memories_injected": recall.memories_injected,
                "notes_injected": recall.notes_injected,
                "tokens": recall.tokens_added,
                "items": json.dumps([item.to_json() for item in recall.items], ensure_ascii=False),
                "notices": json.dumps(list(recall.notices), ensure_ascii=False),
                "nonce": recall.nonce,
                "latency_ms": recall.latency_ms,
                "created_at": to_text(recall.at),
            },
        )

    def last(self, limit: int) -> list[dict[str, Any]]:
        """The newest recalls, with their items."""
        rows = self._tx.all("recalls.last", {"limit": limit})
        return [row | {"items": json.loads(row["items"]), "notices": json.loads(row["notices"])} for row in rows]

    def by_day(self, since: datetime) -> list[dict[str, Any]]:
        """How many there were by day and project from that day on, with what they added; the newest day first."""
        return self._tx.all("recalls.by_day", {"since": to_text(since)[:10]})

    def useful(self, since: datetime) -> dict[str | None, int]:
        """How many different memories went in front of an agent and are still believed, by project."""
        rows = self._tx.all("recalls.useful", {"since": to_text(since)[:10]})
        return {row["project"]: int(row["memories"]) for row in rows}

    def get(self, recall_id: str) -> dict[str, Any] | None:
        """One recall, with where it was made."""
        row = self._tx.one("recalls.get", {"id": recall_id})
        return row and row | {"items": json.loads(row["items"]), "notices": json.loads(row["notices"])}
