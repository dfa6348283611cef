"""Stored settings: one row per key; they override the defaults and are overridden by files and the environment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from filrouge.core.clock import to_text
from filrouge.core.protocols import Tx


class StoredSettings:
    """The table `memory_settings`."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def all(self) -> dict[str, Any]:
        """Every stored value by key."""
        return {row["key"]: json.loads(row["value"]) for row in self._tx.all("settings.all")}

    def seed(self, defaults: Mapping[str, object], at: datetime) -> None:
        """Insert the defaults for keys that are missing."""
        self._tx.many("settings.seed", [_row(key, value, at) for key, value in defaults.items()])

    def put(self, changes: Mapping[str, object], at: datetime) -> None:
        """Store these values; other keys stay unchanged."""
        self._tx.many("settings.put", [_row(key, value, at) for key, value in changes.items()])


def _row(key: str, value: object, at: datetime) -> dict[str, object]:
    return {"key": key, "value": json.dumps(value, ensure_ascii=False), "updated_at": to_text(at)}
