"""Bridges between threads, and what they are made from: the threads of one place with their vectors, and their prompts.

What the user removed stays as a row that nothing lists, so that it is not made again. Everything else here that was
not made by hand is derived.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np

from filrouge.core.clock import from_text, to_text
from filrouge.core.errors import NotFound
from filrouge.core.protocols import Tx, Vector
from filrouge.threads.models import Bridge, ThreadState

#: Threads that are looked at together: the latest of many years.
MOST_THREADS: Final = 2000


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where threads stand beside one another; nothing is tied across places.

    Attributes:
        agent: where agents are isolated, whose threads alone (its id, or its channel).
    """

    user: str
    project: str | None
    agent: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """A thread as its row tells of it."""

    id: str
    title: str
    summary: str
    topics: tuple[str, ...]
    state: ThreadState
    parent: str | None
    place: Place
    last_active: datetime
    merged: bool
    vector: Vector | None = None


class Bridges:
    """The bridges of one database."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def get(self, bridge_id: str) -> Bridge:
        """One bridge.

        Raises:
            NotFound: naming the id.
        """
        row = self._tx.one("bridges.get", {"id": bridge_id})
        if row is None:
            raise NotFound(f"There is no bridge {bridge_id!r}.", remedy="List those that are: `filrouge bridges`.")
        return _bridge(row)

    def oldest(self, place: Place, limit: int) -> list[Bridge]:
        """Those of a user and project that nothing has confirmed for longest, without what the user made."""
        asked = {"user_id": place.user, "project_id": place.project, "limit": limit}
        return [_bridge(row) for row in self._tx.all("bridges.oldest", asked)]

    def around(self, thread_ids: Collection[str]) -> tuple[list[Bridge], list[Bridge]]:
        """Those that one end of is among these threads, faded ones too, and those of them that the user removed."""
        rows = self._tx.all("bridges.around", {"ids": json.dumps(sorted(thread_ids))})
        kept = [_bridge(row) for row in rows if row["removed_at"] is None]
        return kept, [_bridge(row) for row in rows if row["removed_at"] is not None]

    def some(self, ids: Collection[str]) -> list[Bridge]:
        """Those of these ids that are there and were not removed."""
        rows = self._tx.all("bridges.some", {"ids": json.dumps(list(ids))}) if ids else []
        return [_bridge(row) for row in rows]

    def shown(
        self,
        *,
        user: str,
        project: str | None = None,
        everywhere: bool = True,
        thread_id: str | None = None,
        kind: str | None = None,
        isolated: bool = False,
    ) -> list[tuple[Bridge, dict[str, Any]]]:
        """Bridges with their rows, which know `source_title`, `target_title` and `project_id`; faded ones too.

        Args:
            isolated: none from one agent's thread to another's, as they may be from before agents were isolated.
        """
        asked = {
            "user_id": user, "project_id": project, "everywhere": everywhere, "thread_id": thread_id, "kind": kind,
            "isolated": isolated,
        }  # fmt: skip
        return [(_bridge(row), row) for row in self._tx.all("bridges.shown", asked)]

    def put(self, bridge: Bridge) -> None:
        """Store a bridge, or bring the one of this id up to date."""
        self._tx.run("bridges.put", _row(bridge))

    def drop(self, ids: Collection[str]) -> None:
        """Take bridges out."""
        if ids:
            self._tx.run("bridges.drop", {"ids": json.dumps(list(ids))})

    def refuse(self, bridge_id: str, at: datetime) -> None:
        """Remove a bridge, and remember that it is not wanted."""
        self._tx.run("bridges.refuse", {"id": bridge_id, "at": to_text(at)})

    def count(self) -> tuple[int, int]:
        """How many are stored, and how many of them are under a confidence of one half, which the table forbids."""
        row = self._tx.one("bridges.count")
        return (int(row["n"]), int(row["unsure"])) if row else (0, 0)

    def active_days(self, project: str | None, today: datetime, limit: int) -> list[str]:
        """The last days on which a project was worked on, the newest first."""
        asked = {"project_id": project, "today": to_text(today)[:10], "limit": limit}
        return [row["day"] for row in self._tx.all("bridges.active_days", asked)]


class SeenThreads:
    """What bridges are made from. Threads themselves are kept elsewhere."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def find(self, thread_id: str) -> Seen | None:
        """One thread without its vector, or None."""
        row = self._tx.one("bridges.thread", {"id": thread_id})
        return _seen(row) if row else None

    def beside(self, place: Place, space_id: str, *, everywhere: bool = False) -> list[Seen]:
        """The threads of a place, or of all projects, that were not merged into another, latest first."""
        asked = {
            "user_id": place.user, "project_id": place.project, "agent": place.agent, "space_id": space_id,
            "everywhere": everywhere, "limit": MOST_THREADS,
        }  # fmt: skip
        return [_seen(row) for row in self._tx.all("bridges.threads", asked)]

    def said(self, thread_ids: Collection[str], *, limit: int, length: int) -> dict[str, tuple[str, ...]]:
        """The beginnings of each thread's newest prompts, the newest first."""
        found = dict[str, tuple[str, ...]]()
        asked = {"ids": json.dumps(list(thread_ids)), "limit": limit, "length": length}
        for row in self._tx.all("bridges.said", asked):
            found[row["thread_id"]] = (*found.get(row["thread_id"], ()), row["text"])
        return found

    def replaced(self, thread_id: str) -> list[dict[str, Any]]:
        """`thread_id`, `text`, `former` and `conflict` of what the thread's memories replaced or speak against."""
        return self._tx.all("bridges.replaced", {"thread_id": thread_id})


def _seen(row: Mapping[str, Any]) -> Seen:
    blob = row.get("vector")
    return Seen(
        id=row["id"],
        title=row["title"],
        summary=row["summary"],
        topics=tuple(json.loads(row["topics"])),
        state=row["state"],
        parent=row["parent_id"],
        place=Place(user=row["user_id"], project=row["project_id"], agent=row["agent"] or row["channel"]),
        last_active=from_text(row["last_active"]),
        merged=row["merged_into"] is not None,
        vector=_unit(blob) if blob else None,
    )


def _unit(blob: bytes) -> Vector:
    vector = np.frombuffer(blob, dtype="<f2").astype(np.float32)
    length = float(np.linalg.norm(vector))
    return vector / np.float32(length) if length else vector


def _bridge(row: Mapping[str, Any]) -> Bridge:
    return Bridge(
        id=row["id"],
        source=row["source_id"],
        target=row["target_id"],
        kind=row["kind"],
        reason=row["reason"],
        confidence=row["confidence"],
        made_by=row["made_by"],
        created_at=from_text(row["created_at"]),
        reinforced_at=from_text(row["reinforced_at"]),
        depth=row["depth"],
    )


def _row(bridge: Bridge) -> dict[str, object]:
    return {
        "id": bridge.id,
        "source_id": bridge.source,
        "target_id": bridge.target,
        "kind": bridge.kind,
        "reason": bridge.reason,
        "confidence": bridge.confidence,
        "depth": bridge.depth,
        "made_by": bridge.made_by,
        "created_at": to_text(bridge.created_at),
        "reinforced_at": to_text(bridge.reinforced_at),
    }
