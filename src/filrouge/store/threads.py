"""Threads: topics that live across sessions, and which turn is in which.

A turn is in one thread or in none. How many turns and sessions a thread has is counted when it is asked, never stored,
so it cannot be wrong. A thread that was merged into another stays as an empty, archived row, so that what named it
still leads somewhere.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from filrouge.clock import from_text, to_text
from filrouge.errors import BadInput, NotFound
from filrouge.model.thread import Thread, ThreadState
from filrouge.model.turn import Turn
from filrouge.ports import Tx
from filrouge.store.thread_rows import row_of, thread_from_row

#: So much of an id is enough where it names one thread alone.
SHORTEST_PREFIX: Final = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadPlace:
    """Where threads stand beside one another.

    Attributes:
        project: None = outside every project.
        agent: where agents are isolated, whose threads alone count: an agent's id, or its channel.
    """

    user: str
    project: str | None
    agent: str | None = None

    def row(self) -> dict[str, object]:
        """The parameters of a query about it."""
        return {"user_id": self.user, "project_id": self.project, "only_agent": self.agent}


class Threads:
    """The threads of one database."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def add(self, thread: Thread) -> None:
        """Store a new thread; its turns are placed apart."""
        self._tx.run("threads.add", row_of(thread))

    def update(self, thread: Thread) -> None:
        """Write everything of a thread that may change."""
        self._tx.run("threads.update", row_of(thread))

    def get(self, thread_id: str) -> Thread:
        """One thread with its counts.

        Raises:
            NotFound: naming the id.
        """
        found = self.some([thread_id])
        if not found:
            raise NotFound(f"There is no thread {thread_id!r}.", remedy="See `filrouge threads --status all`.")
        return found[0]

    def named(self, name: str) -> Thread:
        """The thread of an id, or of the beginning of one.

        Raises:
            NotFound: there is none.
            BadInput: several begin so.
        """
        begin = name.strip().lower()
        ids = [begin]
        if SHORTEST_PREFIX <= len(begin) < _LENGTH_OF_ID:
            ids = [row["id"] for row in self._tx.all("threads.beginning", {"prefix": begin, "limit": 2})] or ids
        if len(ids) > 1:
            raise BadInput(f"Several threads begin with {name!r}.", remedy="Give more of the id.")
        return self.get(ids[0])

    def some(self, ids: Sequence[str]) -> list[Thread]:
        """These threads with their counts, in the order given; unknown ids are left out."""
        return [thread_from_row(row) for row in self._tx.all("threads.some", {"ids": json.dumps(list(ids))})]

    def at_place(self, place: ThreadPlace, states: Collection[ThreadState]) -> list[Thread]:
        """The threads of a place in these states, the latest first, without their counts; none that was merged away."""
        asked = place.row() | {"states": json.dumps(sorted(states))}
        return [thread_from_row(row) for row in self._tx.all("threads.at_place", asked)]

    def live(self) -> list[Thread]:
        """The threads of all places that are not archived as stored, without their counts."""
        return [thread_from_row(row) for row in self._tx.all("threads.live")]

    def archived_count(self) -> int:
        """How many threads of all places are archived; none that was merged away."""
        row = self._tx.one("threads.archived_count")
        return int(row["n"]) if row else 0

    def listed(
        self,
        *,
        user: str | None,
        project: str | None,
        everywhere: bool,
        agent: str | None = None,
        states: Collection[ThreadState] = (),
        limit: int = -1,
    ) -> list[Thread]:
        """Threads with their counts, the latest first; none that was merged away.

        Args:
            states: as stored; none = all.
        """
        asked = {
            "user_id": user,
            "project_id": project,
            "everywhere": everywhere,
            "only_agent": agent,
            "states": json.dumps(sorted(states)) if states else None,
            "limit": limit,
        }
        return self.some([row["id"] for row in self._tx.all("threads.listed", asked)])

    def children(self, thread_id: str) -> list[str]:
        """The ids of the threads that were forked or split off, oldest first."""
        return [row["id"] for row in self._tx.all("threads.children", {"id": thread_id})]

    def titles(self, place: ThreadPlace) -> dict[str, str]:
        """The titles of the threads of a place that are not archived, by id."""
        return {row["id"]: row["title"] for row in self._tx.all("threads.titles", place.row())}

    def title_of(self, ids: Collection[str]) -> dict[str, str]:
        """The titles of these threads, whatever their state, by id."""
        rows = self._tx.all("threads.title_of", {"ids": json.dumps(list(ids))})
        return {row["id"]: row["title"] for row in rows}

    def place(self, turn_id: str, thread_id: str, at: datetime, topics: Sequence[str] = ()) -> bool:
        """Put a turn into a thread; False if it is in one already, and then it stays there.

        Args:
            topics: of a prompt, kept so that they need not be found again.
        """
        where = {"turn_id": turn_id, "thread_id": thread_id, "at": to_text(at)}
        return bool(self._tx.run("threads.place", where | {"topics": json.dumps(list(topics))}))

    def move(self, turn_ids: Collection[str], thread_id: str) -> None:
        """Put turns that are in threads into this one."""
        self._tx.run("threads.move", {"ids": json.dumps(list(turn_ids)), "thread_id": thread_id})

    def of_turns(self, turn_ids: Collection[str]) -> dict[str, str]:
        """The threads of these turns, by turn; those in none are left out."""
        rows = self._tx.all("threads.of_turns", {"ids": json.dumps(list(turn_ids))})
        return {row["turn_id"]: row["thread_id"] for row in rows}

    def of_prompt(self, turn_id: str) -> str | None:
        """The thread that a prompt was placed in; None for any other turn."""
        row = self._tx.one("threads.of_prompt", {"turn_id": turn_id})
        return row["thread_id"] if row else None

    def of_memories(self, memory_ids: Collection[str]) -> dict[str, list[str]]:
        """The threads of these memories, by memory: those of the turns that are their evidence, oldest first."""
        found: dict[str, list[str]] = {}
        for row in self._tx.all("threads.of_memories", {"ids": json.dumps(list(memory_ids))}):
            found.setdefault(row["memory_id"], []).append(row["thread_id"])
        return found

    def of_session(self, turn: Turn) -> str | None:
        """The thread that a turn's session was in just before the turn, in the turn's project and for its user."""
        row = self._tx.one("threads.of_session", _said(turn))
        return row["thread_id"] if row else None

    def in_session(self, host: str, session: str, *, but: str = "") -> dict[str, str]:
        """The threads of a session's prompts with the time of the last in each as it is stored, the latest first.

        Args:
            but: a prompt that does not count: the one that is being answered.
        """
        asked = {"host": host, "session_id": session, "but": but}
        return {row["thread_id"]: row["at"] for row in self._tx.all("threads.in_session", asked)}

    def led_by(self, turn: Turn) -> str | None:
        """The thread of the prompt that a turn follows; None where it follows none, or one that is not placed yet."""
        row = self._tx.one("threads.prompt_before", _said(turn))
        return row["thread_id"] if row else None

    def from_prompt(self, turn: Turn) -> list[tuple[str, str | None]]:
        """The prompts of a session from this one on in their order, and the thread of each that is in one."""
        return [(row["turn_id"], row["thread_id"]) for row in self._tx.all("threads.from_prompt", _said(turn))]

    def waits(self, turn: Turn) -> bool:
        """True while an earlier prompt of the turn's session is still to be placed by a job."""
        return self._tx.one("threads.waiting_before", _said(turn)) is not None

    def follow(self, turn: Turn) -> int:
        """Put what followed a prompt, up to the session's next one, into its thread; how many turns that were."""
        return self._tx.run("threads.follow", _said(turn))

    def turns(self, thread_id: str, *, routed: bool = False, limit: int = -1, newest: bool = False) -> list[str]:
        """The ids of a thread's turns, oldest first.

        Args:
            routed: only the prompts that were placed by what they say.
            newest: of more than `limit` the last ones, not the first.
        """
        asked = {"id": thread_id, "routed": routed, "limit": limit}
        ids = [row["turn_id"] for row in self._tx.all("threads.newest" if newest else "threads.oldest", asked)]
        return ids[::-1] if newest else ids

    def latest(self, place: ThreadPlace, limit: int, upto: Turn | None = None) -> list[str]:
        """The ids of the newest prompts of a place, wherever they are, the newest first.

        Args:
            upto: none that was stored after this turn.
        """
        asked = place.row() | {"limit": limit, "upto": upto.id if upto else None}
        return [row["id"] for row in self._tx.all("threads.latest", asked)]

    def followers(self, prompt_ids: Collection[str], limit: int) -> dict[str, list[str]]:
        """Of each of these prompts the first turns after it, tools apart, up to its session's next prompt."""
        rows = self._tx.all("threads.followers", {"ids": json.dumps(list(prompt_ids)), "limit": limit})
        return {row["prompt"]: str(row["followers"] or "").split() for row in rows}

    def spoken_between(self, thread_ids: Collection[str], since: datetime | None, until: datetime | None) -> set[str]:
        """Those of these threads in which something was said from one moment on and before another; None = any."""
        asked = {
            "ids": json.dumps(list(thread_ids)),
            "since": to_text(since) if since else None,
            "until": to_text(until) if until else None,
        }
        return {row["thread_id"] for row in self._tx.all("threads.spoken_between", asked)}

    def last_active(self) -> dict[tuple[str, str | None], datetime]:
        """When something was last said in the threads of each user and project."""
        rows = self._tx.all("threads.last_active")
        return {(row["user_id"], row["project_id"]): from_text(row["at"]) for row in rows}

    def with_followers(self, turn_ids: Collection[str]) -> list[str]:
        """These turns of a thread and, of the prompts among them, what followed in the same thread."""
        rows = self._tx.all("threads.with_followers", {"ids": json.dumps(list(turn_ids))})
        return [row["turn_id"] for row in rows]

    def unplaced(self, after: int, limit: int) -> list[dict[str, Any]]:
        """The next prompts behind a place in the table that belong into a thread and are in none: `seq` and `id`."""
        return self._tx.all("threads.unplaced", {"after": after, "limit": limit})

    def continuation(self) -> tuple[int, int]:
        """How many threads have prompts of at least two sessions, and how many could.

        One could where another session of its user said something in its project after it began.
        """
        last: dict[tuple[str, str | None], dict[str, str]] = {}
        for row in self._tx.all("threads.last_prompts"):
            last.setdefault((row["user_id"], row["project_id"]), {})[row["session"]] = row["at"]
        # The two that spoke last are enough: one of them is another than the thread's own.
        latest = {
            place: sorted(sessions.items(), key=lambda one: one[1], reverse=True)[:2]
            for place, sessions in last.items()
        }
        continued = could = 0
        for row in self._tx.all("threads.reach"):
            others = [
                at for session, at in latest.get((row["user_id"], row["project_id"]), []) if session != row["session"]
            ]
            continued += row["sessions"] > 1
            could += row["sessions"] > 1 or (row["sessions"] == 1 and any(at > row["opened_at"] for at in others))
        return continued, could


#: Of a ULID.
_LENGTH_OF_ID: Final = 26


def _said(turn: Turn) -> dict[str, object]:
    return {
        "turn_id": turn.id,
        "host": turn.host,
        "session_id": turn.scope.session,
        "user_id": turn.scope.user,
        "project_id": turn.scope.project,
        "at": to_text(turn.at),
    }
