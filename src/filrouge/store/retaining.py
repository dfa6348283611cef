"""Retaining: old tool output, noise and logs leave the tables.

What any memory cites stays, live or not. The event that brought a turn keeps its place, so that what is delivered again
is recognised, and loses its payload.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from filrouge.clock import to_text
from filrouge.model.retention import Cutoffs
from filrouge.ports import Analyser, Tx
from filrouge.store.words import Words

#: Behind this turn, of everything that is old enough: (when, id).
Place = tuple[str, str]
FIRST: Place = ("", "")


@dataclass(frozen=True, kw_only=True, slots=True)
class Expired:
    """Turns whose time is over, oldest first."""

    rows: tuple[Mapping[str, Any], ...]

    @property
    def ids(self) -> list[str]:
        """Their ids."""
        return [str(row["id"]) for row in self.rows]

    @property
    def last(self) -> Place:
        """Where to go on behind."""
        return (str(self.rows[-1]["at"]), str(self.rows[-1]["id"]))


class Retaining:
    """Takes what is old out of one database."""

    def __init__(self, tx: Tx, analyser: Analyser) -> None:
        self._tx = tx
        self._analyser = analyser
        self._words = Words(tx, analyser, "turn")

    def expired(self, before: Cutoffs, after: Place, limit: int) -> Expired:
        """Turns whose time is over, behind a place."""
        at, id_ = after
        rows = self._tx.all("turns.expired", _moments(before) | {"at": at, "id": id_, "limit": limit})
        return Expired(rows=tuple(rows))

    def waiting(self, before: Cutoffs) -> dict[str, dict[str, int]]:
        """How many turns are due, and how many characters they hold, of tools and of noise."""
        rows = self._tx.all("turns.expired_count", _moments(before))
        return {row["what"]: {"turns": row["turns"], "characters": row["characters"]} for row in rows}

    def take(self, expired: Expired) -> None:
        """Take them out, with all that is derived from them alone."""
        ids = json.dumps(expired.ids)
        self._unindex(expired.rows)
        self._tx.run("vectors.erase", {"owner_kind": "turn", "ids": ids})
        self._tx.run("need_vectors.erase", {"memories": "[]", "turns": ids})
        self._tx.run("thread_decisions.erase", {"turns": ids})
        self._tx.run("threads.displace", {"turns": ids})
        self._tx.run("turns.erase", {"ids": ids})
        events = [row["event_id"] for row in expired.rows if row["event_id"]]
        self._tx.run("events.hollow", {"ids": json.dumps(events)})

    def take_logs(self, before: datetime, limit: int) -> int:
        """Take old recalls and unread answers out, so many at a time; how many went."""
        when = {"before": to_text(before), "limit": limit}
        return self._tx.run("recalls.expire", when) + self._tx.run("unread.expire", when)

    def _unindex(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Take rows out of the full-text index by the tokens that they were put in under: made anew, since to read
        them back costs a walk through the whole index."""
        for row in rows:
            if row["analyser"] != self._analyser.version:
                self._words.remove([row["id"]])
            elif tokens := self._analyser.tokens(row["text"]):
                self._tx.run("turns.unindex_as", {"id": row["id"], "tokens": tokens})


def _moments(before: Cutoffs) -> dict[str, object]:
    return {
        "tools": to_text(before.tools) if before.tools else "",
        "noise": to_text(before.noise) if before.noise else "",
    }
