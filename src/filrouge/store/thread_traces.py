"""What goes with threads: the decisions that placed turns, the vectors of threads, and the days that were worked on.

Decisions are a log: none is ever changed, and a turn may have several, the last of which holds. They repeat no words.
Vectors are derived from those of a thread's turns, one a space, and may be made again at any time.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from datetime import datetime

import numpy as np

from filrouge.clock import from_text, to_text
from filrouge.model.thread import Routing
from filrouge.ports import Tx, Vector, Vectors
from filrouge.store.thread_rows import Decided, decided_from_row
from filrouge.store.threads import ThreadPlace
from filrouge.store.words import varints


class ThreadDecisions:
    """The log of how turns came to be where they are."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def log(self, turn_id: str, thread_id: str, routing: Routing, *, at: datetime, actor: str = "rules") -> None:
        """Note a decision about a turn.

        Args:
            thread_id: where it went, also where the routing asked for a new one.
            actor: rules, model or user.
        """
        self._tx.run(
            "thread_decisions.add",
            {
                "turn_id": turn_id,
                "at": to_text(at),
                "action": routing.action,
                "thread_id": thread_id,
                "parent_id": routing.parent,
                "similarity": routing.similarity,
                "reason": routing.reason,
                "borderline": routing.borderline,
                "model": routing.model,
                "actor": actor,
                "weighed": json.dumps([one.to_json() for one in routing.weighed]),
            },
        )

    def about(self, turn_ids: Collection[str]) -> list[Decided]:
        """Every decision about these turns, oldest first."""
        rows = self._tx.all("thread_decisions.about", {"ids": json.dumps(list(turn_ids))})
        return [decided_from_row(row) for row in rows]

    def last(self) -> int:
        """The number of the latest decision; 0 where there is none."""
        row = self._tx.one("thread_decisions.last")
        return int(row["seq"] or 0) if row else 0

    def asked(self, latest: int) -> tuple[int, int]:
        """About how many prompts a model was asked or is to be, and how many the rules placed, among so many of the
        latest decisions."""
        row = self._tx.one("thread_decisions.asked", {"latest": latest})
        return (int(row["asked"]), int(row["decided"])) if row else (0, 0)

    def asked_about(self, user: str, project: str | None) -> list[Decided]:
        """What models and users decided about the prompts of a project that a model was asked about, oldest first."""
        rows = self._tx.all("thread_decisions.asked_about", {"user_id": user, "project_id": project})
        return [decided_from_row(row) for row in rows]

    def placed_by(self, moment: datetime) -> dict[str, list[tuple[datetime, str]]]:
        """Of each thread, the prompts that were in it at a moment, whatever was decided since: when each came, and its
        session."""
        found: dict[str, list[tuple[datetime, str]]] = {}
        for row in self._tx.all("thread_decisions.placed_by", {"at": to_text(moment)}):
            found.setdefault(row["thread_id"], []).append((from_text(row["at"]), row["session_id"]))
        return found

    def held(self, user: str, project: str | None) -> set[str]:
        """The threads of a project that a user moved something into, or out of."""
        rows = self._tx.all("thread_decisions.held", {"user_id": user, "project_id": project})
        return {row["id"] for row in rows}


class ThreadVectors:
    """The vectors of threads, as precise as those of turns are stored."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def put(self, thread_id: str, space_id: str, vector: Vector) -> None:
        """Keep a thread's vector in a space."""
        self._tx.run("thread_vectors.put", {"thread_id": thread_id, "space_id": space_id, "vector": _blob(vector)})

    def drop(self, thread_ids: Collection[str]) -> None:
        """Take the vectors of these threads out of every space."""
        self._tx.run("thread_vectors.drop", {"ids": json.dumps(list(thread_ids))})

    def some(self, thread_ids: Collection[str], space_id: str) -> dict[str, Vector]:
        """The vectors of these threads; those that have none are left out."""
        rows = self._tx.all("thread_vectors.some", {"ids": json.dumps(list(thread_ids)), "space_id": space_id})
        return dict(zip((row["thread_id"] for row in rows), _matrix([row["vector"] for row in rows]), strict=True))

    def archived(self, place: ThreadPlace, space_id: str) -> tuple[list[str], Vectors]:
        """The ids of a place's archived threads that have a vector, and their vectors, shape (n, dimension)."""
        rows = self._tx.all("thread_vectors.archived", place.row() | {"space_id": space_id})
        return [row["thread_id"] for row in rows], _matrix([row["vector"] for row in rows])

    def missing(self, space_id: str, after: int, limit: int) -> dict[int, str]:
        """The next threads behind a place in their table that have no vector in this space and could, by their place: a
        prompt of theirs has one."""
        rows = self._tx.all("thread_vectors.missing", {"space_id": space_id, "after": after, "limit": limit})
        return {row["seq"]: row["id"] for row in rows}

    def clear_retired(self) -> None:
        """Take the vectors of retired spaces out."""
        self._tx.run("thread_vectors.clear_retired")


class ThreadWords:
    """The words of the prompts of threads, as the full text of turns has them."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def lengths(self, thread_ids: Collection[str]) -> dict[str, int]:
        """How many tokens the prompts of each thread are indexed under, together; threads without any are left out."""
        found: dict[str, int] = {}
        for row in self._tx.all("threads.lengths", {"ids": json.dumps(list(thread_ids))}):
            found[row["thread_id"]] = found.get(row["thread_id"], 0) + varints(row["sz"])[0]
        return found

    def counts(self, thread_ids: Collection[str], forms: Collection[str]) -> dict[str, dict[str, int]]:
        """How often each of these tokens occurs in the prompts of each thread; threads with none are left out."""
        found: dict[str, dict[str, int]] = {}
        asked = {"ids": json.dumps(list(thread_ids)), "forms": json.dumps(list(forms))}
        for row in self._tx.all("threads.words", asked):
            found.setdefault(row["thread_id"], {})[row["term"]] = row["n"]
        return found


class ActiveDays:
    """The days (UTC) on which something was said in a project."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def note(self, project: str | None, at: datetime) -> None:
        """Something was said then."""
        self._tx.run("active_days.note", {"project_id": project or "", "day": to_text(at)[:10]})


def _blob(vector: Vector) -> bytes:
    return vector.astype("<f2").tobytes()


def _matrix(blobs: Sequence[bytes]) -> Vectors:
    if not blobs:
        return np.empty((0, 0), dtype=np.float32)
    return np.frombuffer(b"".join(blobs), dtype="<f2").reshape(len(blobs), -1).astype(np.float32)
