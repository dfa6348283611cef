"""Notes of one database: memories of kind `note`, which stand for files that a model keeps."""

from __future__ import annotations

from filrouge.model.memory import Memory
from filrouge.ports import Tx
from filrouge.store.memory_rows import memory_from_row


class Notes:
    """The notes of one database."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def live(self, *, project: str | None, user: str) -> list[Memory]:
        """Those of a project, or those outside every project, oldest first, without their evidence."""
        rows = self._tx.all("notes.live", {"project_id": project, "user_id": user})
        return [memory_from_row(row) for row in rows]
