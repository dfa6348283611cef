"""A receipt of forgetting: who, when, how many rows of which table, which files, what was found then. No words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Receipt:
    """One act of forgetting.

    Attributes:
        content: `counts` by table and deed; `files` that were rewritten or removed; `backups` with the counts of each;
            `log_emptied`, False while a reader still holds the write-ahead log; `searched`, what a search for the same
            afterwards still found; `not_promised`; `seconds`.
    """

    id: str
    at: datetime
    actor: str
    content: Mapping[str, Any]
    signature: bytes = b""

    def signed(self, signature: bytes) -> Receipt:
        """The same with its signature."""
        return replace(self, signature=signature)

    def changed(self, **content: object) -> Receipt:
        """The same with more to say; its signature no longer holds."""
        return replace(self, content={**self.content, **content}, signature=b"")

    def to_json(self) -> dict[str, Any]:
        """The body of an answer."""
        head = {"receipt": self.id, "at": self.at.isoformat(), "actor": self.actor}
        return {**head, **self.content, "signature": self.signature.hex()}
