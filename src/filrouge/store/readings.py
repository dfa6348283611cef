"""How far a model has read each conversation, and its answers that nobody can read (the dead letters of EXT-12)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from filrouge.clock import new_id, to_text
from filrouge.model.turn import Turn
from filrouge.ports import Tx
from filrouge.store.turns import turn_from_row

_INJECTED = 50
_FILES = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class Unread:
    """Turns that no model has read, in the order they came in, and the place of each in the store."""

    turns: tuple[Turn, ...]
    places: tuple[int, ...]


class Readings:
    """The conversations of one database, as models see them."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def unread(self, host: str, session: str, limit: int) -> Unread:
        """The next turns to read."""
        where = {"host": host, "session_id": session}
        row = self._tx.one("readings.get", where)
        rows = self._tx.all("readings.turns", where | {"seq": row["seq"] if row else 0, "limit": limit})
        return Unread(turns=tuple(turn_from_row(one) for one in rows), places=tuple(one["seq"] for one in rows))

    def read_up_to(self, host: str, session: str, place: int, at: datetime) -> None:
        """Everything of a conversation up to this place is read."""
        self._tx.run("readings.put", {"host": host, "session_id": session, "seq": place, "at": to_text(at)})

    def behind(self) -> int:
        """How many conversations no model has read to their end."""
        row = self._tx.one("readings.behind")
        return int(row["n"]) if row else 0

    def files(self, host: str, session: str) -> list[Turn]:
        """The last files that the agent was shown in a conversation, newest first."""
        rows = self._tx.all("readings.files", {"host": host, "session_id": session, "limit": _FILES})
        return [turn_from_row(row) for row in rows]

    def injected(self, host: str, session: str) -> tuple[str, ...]:
        """The memories that were put in front of a conversation's last prompts."""
        rows = self._tx.all("readings.injected", {"host": host, "session_id": session, "limit": _INJECTED})
        return tuple(row["text"] for row in rows)

    def keep_unreadable(
        self,
        turns: Sequence[Turn],
        *,
        operation: str,
        prompt_version: str,
        reason: str,
        answer: str,
        at: datetime,
    ) -> None:
        """Set an answer aside that nobody can read, with the turns it was about."""
        first = turns[0]
        self._tx.run(
            "unread.add",
            {
                "id": new_id(at),
                "at": to_text(at),
                "host": first.host,
                "session_id": first.scope.session,
                "operation": operation,
                "prompt_version": prompt_version,
                "reason": reason,
                "turns": json.dumps([turn.id for turn in turns]),
                "answer": answer,
            },
        )

    def unreadable(self, limit: int = 50) -> list[dict[str, Any]]:
        """The answers that were set aside, newest first."""
        return self._tx.all("unread.all", {"limit": limit})

    def unreadable_count(self) -> int:
        """How many were set aside."""
        row = self._tx.one("unread.count")
        return int(row["n"]) if row else 0
