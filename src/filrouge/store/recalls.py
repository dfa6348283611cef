"""The recall log: one row for each retrieval made for a prompt, also when nothing was injected."""

from __future__ import annotations

import json
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

    def get(self, recall_id: str) -> dict[str, Any] | None:
        """One recall, with where it was made."""
        row = self._tx.one("recalls.get", {"id": recall_id})
        return row and row | {"items": json.loads(row["items"]), "notices": json.loads(row["notices"])}
