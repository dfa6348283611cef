"""The recall log: one row per retrieval for a prompt or a session start, even when nothing was injected.

A row explains the block: all injected items and the best of the others, up to 2,200 bytes. Items left out are counted
by reason.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal

from filrouge.core.clock import from_text, to_text
from filrouge.core.protocols import Tx
from filrouge.core.rows import pick_columns
from filrouge.search.models import START_PREVIEW, DeliveryOutcome, Recall, RecallItem

MAX_BYTES: Final = 2200
"""Maximum size of the items of one row, unless the injected items alone are larger."""
#: Scores dropped when space is short; they only explain the other scores.
_DETAILS: Final = ("boosts", "bm25_score", "vector_score", "score", "coverage")
#: A text that sorts after every id.
_AFTER_EVERY_ID: Final = "~"
#: Maximum characters of an item's text.
_MAX_TEXT: Final = 300
_REQUIRED: Final = ("id", "kind", "injected", "reason", "section", "value")


def compact_items(
    items: Sequence[Mapping[str, Any]], omitted: Mapping[str, int] | None = None, *, max_bytes: int = MAX_BYTES
) -> tuple[str, dict[str, int]]:
    """The items as JSON of at most `max_bytes` bytes, and how many items were left out, by reason.

    All injected items stay, with fewer scores if they do not fit. Of the others, the most valuable stay.

    Args:
        omitted: how many were left out earlier, by reason.
    """
    injected = [item for item in items if item["injected"]]
    others = sorted((item for item in items if not item["injected"]), key=lambda item: -float(item.get("value") or 0))
    counts = Counter[str](omitted or {})
    texts = [_json(item) for item in injected]
    if _total_size(texts) > max_bytes // 2:
        texts = [_json({name: item[name] for name in item if name not in _DETAILS}) for item in injected]
    if _total_size(texts) > max_bytes // 2:
        texts = [_json({name: item[name] for name in _REQUIRED if name in item}) for item in injected]
    size = _total_size(texts)
    for item in others:
        text = _json({name: value for name, value in item.items() if name not in _DETAILS})
        if size + len(text.encode()) + 1 > max_bytes:
            counts[str(item["reason"])] += 1
            continue
        texts.append(text)
        size += len(text.encode()) + 1
    return f"[{','.join(texts)}]", dict(counts)


def _json(item: Mapping[str, Any]) -> str:
    return json.dumps(item, ensure_ascii=False, separators=(",", ":"))


def _total_size(texts: Sequence[str]) -> int:
    return 2 + sum(len(text.encode()) + 1 for text in texts)


class Recalls:
    """The table `memory_retrievals`."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def add(self, recall: Recall) -> None:
        """Store one recall."""
        items, omitted = compact_items([item.to_json() for item in recall.items], recall.omitted)
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
                "items": items,
                "omitted": json.dumps(omitted, ensure_ascii=False),
                "outcome": recall.outcome,
                "notices": json.dumps(list(recall.notices), ensure_ascii=False),
                "nonce": recall.nonce,
                "latency_ms": recall.latency_ms,
                "created_at": to_text(recall.at),
            },
        )

    def last(
        self, limit: int, *, before: str = "", outcome: DeliveryOutcome | Literal[""] = ""
    ) -> list[dict[str, Any]]:
        """The newest recalls, with their items.

        Args:
            before: only recalls made before the one with this id.
            outcome: only recalls with this outcome.
        """
        values = {"limit": limit, "before": before or _AFTER_EVERY_ID, "outcome": outcome}
        return [_parsed(row) for row in self._tx.all("recalls.last", values)]

    def with_texts(self, recalls: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """These recalls with the beginning of each item's text as it is now, and the channel that it is from.

        Both are empty for what was forgotten, and for what is no memory, turn or thread.
        """
        ids = {item["id"] for recall in recalls for item in recall["items"]}
        rows = self._tx.all("recalls.texts", {"ids": json.dumps(sorted(ids)), "characters": _MAX_TEXT})
        found = {row["id"]: {"text": row["text"], "channel": row["channel"]} for row in rows}
        nothing = {"text": "", "channel": ""}
        return [
            {**recall, "items": [item | found.get(item["id"], nothing) for item in recall["items"]]}
            for recall in recalls
        ]

    def by_day(self, since: datetime) -> list[dict[str, Any]]:
        """Number of recalls and what they added, per day and project since that day, newest day first."""
        return self._tx.all("recalls.by_day", {"since": to_text(since)[:10]})

    def useful(self, since: datetime) -> dict[str | None, int]:
        """How many different memories were injected and are still live, by project."""
        rows = self._tx.all("recalls.useful", {"since": to_text(since)[:10]})
        return {row["project"]: int(row["memories"]) for row in rows}

    def get(self, recall_id: str) -> dict[str, Any] | None:
        """One recall as a row, or None."""
        row = self._tx.one("recalls.get", {"id": recall_id})
        return row and _parsed(row)

    def read(self, recall_id: str) -> Recall | None:
        """One recall as a value, without its nonce and with the logged items; None if there is none."""
        row = self.get(recall_id)
        if row is None:
            return None
        item_fields = ("id", "kind", "injected", "reason")
        return Recall(
            **pick_columns(row, ("id", "channel", "memories_injected", "latency_ms", "outcome", "omitted")),
            at=from_text(row["created_at"]),
            session=row["session_id"],
            project=row["project_id"],
            preview=row["user_message_preview"],
            notes_injected=row["obsidian_notes_injected"],
            tokens_added=row["total_tokens_added"],
            items=tuple(
                RecallItem(
                    **pick_columns(item, item_fields),
                    scores={name: value for name, value in item.items() if name not in item_fields},
                )
                for item in row["items"]
            ),
            notices=tuple(row["notices"]),
            nonce="",
        )

    def deliver(self, recall_id: str) -> None:
        """Mark a recall that was logged as late as delivered."""
        self._tx.run("recalls.deliver", {"id": recall_id})

    def began(self, channel: str, session: str, since: str) -> bool:
        """Whether an agent received the block or the brief for this session's start after `since`."""
        values = {"channel": channel, "session_id": session, "since": since, "preview": START_PREVIEW}
        return self._tx.one("recalls.began", values) is not None

    def shrink(self, limit: int) -> int:
        """Shorten up to `limit` rows of earlier releases, which list every candidate; returns how many."""
        rows = self._tx.all("recalls.long", {"limit": limit})
        for row in rows:
            items, omitted = compact_items(json.loads(row["items"]), json.loads(row["omitted"]))
            short = {"id": row["id"], "items": items, "omitted": json.dumps(omitted, ensure_ascii=False)}
            self._tx.run("recalls.shorten", short)
        return len(rows)


def _parsed(row: Mapping[str, Any]) -> dict[str, Any]:
    return dict(row) | {name: json.loads(row[name]) for name in ("items", "notices", "omitted")}
