"""Rows as earlier schemas held them, written without the repositories, which know the present schema only."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from filrouge.core.clock import to_text
from filrouge.runtime.sqlite import Database

#: The last schema whose rows held the analyser's token string.
STORED_TOKENS = 3

_COMMON: dict[str, object] = {"trust": 2, "analyser": 1, "row_key": b"key", "row_hash": b"hash"}
_ROWS: dict[str, dict[str, object]] = {
    "turns": {"host": "codex", "session_id": "s", "channel": "codex", "role": "user", "source": "prompt"},
    "memories": {"scope": "user", "kind": "decision", "confidence": 0.9, "made_by": "heuristic"},
}


def insert(database: Database, table: Literal["turns", "memories"], *, at: datetime, **columns: object) -> None:
    """Insert a row as an earlier release did."""
    when = to_text(at)
    moments: dict[str, object] = (
        {"at": when, "text_hash": str(columns["text"])}
        if table == "turns"
        else dict.fromkeys(["created_at", "valid_from", "first_mention", "last_mention"], when)
    )
    row = _COMMON | _ROWS[table] | moments | columns
    names, places = ", ".join(row), ", ".join(f":{name}" for name in row)
    connection: Any = database.tx._connection  # pyright: ignore[reportPrivateUsage] (an earlier schema has no queries)
    connection.execute(f"insert into {table} ({names}) values ({places})", row)
