"""Syntheses: where the work stood, one for each session and thread, and what they are made of.

A session's syntheses are written together and replace those it had, so there is never a mixture of two readings. They
are derived: a session with a turn that is erased loses them all, and they are made anew of what is left. A session in
which nothing was worth a synthesis has an empty one, which says how far it was looked at.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Final, cast

import numpy as np

from filrouge.capture.events import Event, event_from_json
from filrouge.capture.models import Turn
from filrouge.core.clock import from_text, to_text
from filrouge.core.errors import BadInput, NotFound
from filrouge.core.protocols import Tx, Vector, Vectors
from filrouge.extraction.repository import Session
from filrouge.memories.models import Evidence, Memory, Span
from filrouge.memories.repository import memory_from_row
from filrouge.search.word_repository import varints
from filrouge.threads.models import Bridge, Drift, Point, Routing, Synthesis, Thread, ThreadState, Weighed

# Threads in the database: their rows, their turns, the decisions about them, and what is erased with turns.

# Rows of the table `threads` and of the log of decisions as the values they stand for.


@dataclass(frozen=True, kw_only=True, slots=True)
class Decided:
    """A decision as it was logged.

    Attributes:
        thread_id: where the turn went, which may have been merged since.
        actor: rules, model or user.
    """

    turn_id: str
    at: datetime
    thread_id: str
    routing: Routing
    actor: str


def thread_from_row(row: Mapping[str, Any]) -> Thread:
    """The value a row stands for; without its counts where the query has none."""
    return Thread(
        id=row["id"],
        user=row["user_id"],
        project=row["project_id"],
        agent=row["agent"],
        channel=row["channel"],
        title=row["title"],
        title_by=row["title_by"],
        summary=row["summary"],
        topics=tuple(json.loads(row["topics"])),
        state=row["state"],
        origin=row["origin"],
        parent=row["parent_id"],
        merged_into=row["merged_into"],
        weight=row["weight"],
        opened_at=from_text(row["opened_at"]),
        last_active=from_text(row["last_active"]),
        suspended_at=from_text(row["suspended_at"]) if row["suspended_at"] else None,
        drifts=tuple(_drift(one) for one in json.loads(row["drifts"])),
        turns=row.get("turns", 0),
        sessions=row.get("sessions", 0),
    )


def row_of(thread: Thread) -> dict[str, object]:
    """The columns of a thread."""
    return {
        "id": thread.id,
        "user_id": thread.user,
        "project_id": thread.project,
        "agent": thread.agent,
        "channel": thread.channel,
        "title": thread.title,
        "title_by": thread.title_by,
        "summary": thread.summary,
        "topics": json.dumps(thread.topics, ensure_ascii=False),
        "state": thread.state,
        "origin": thread.origin,
        "parent_id": thread.parent,
        "merged_into": thread.merged_into,
        "weight": thread.weight,
        "opened_at": to_text(thread.opened_at),
        "last_active": to_text(thread.last_active),
        "suspended_at": to_text(thread.suspended_at) if thread.suspended_at else None,
        "drifts": json.dumps([drift_json(one) for one in thread.drifts]),
    }


def drift_json(drift: Drift) -> dict[str, Any]:
    """A drift as it is stored and shown."""
    return {
        "turn_id": drift.turn_id,
        "at": to_text(drift.at),
        "similarity": round(drift.similarity, 4),
        "became": drift.became,
    }


def decided_from_row(row: Mapping[str, Any]) -> Decided:
    """The decision that a row stands for."""
    routing = Routing(
        action=row["action"],
        thread_id=row["thread_id"],
        similarity=row["similarity"],
        weighed=tuple(Weighed(**one) for one in json.loads(row["weighed"])),
        reason=row["reason"],
        parent=row["parent_id"],
        borderline=bool(row["borderline"]),
        model=row["model"],
    )
    return Decided(
        turn_id=row["turn_id"],
        at=from_text(row["at"]),
        thread_id=row["thread_id"],
        routing=routing,
        actor=row["actor"],
    )


def _drift(raw: Mapping[str, Any]) -> Drift:
    return Drift(
        turn_id=raw["turn_id"], at=from_text(raw["at"]), similarity=float(raw["similarity"]), became=raw["became"]
    )


# Threads: topics that live across sessions, and which turn is in which.
#
# A turn is in one thread or in none. How many turns and sessions a thread has is counted when it is asked, never
# stored, so it cannot be wrong. A thread that was merged into another stays as an empty, archived row, so that what
# named it still leads somewhere.

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


# What goes with threads: the decisions that placed turns, the vectors of threads, and the days that were worked on.
#
# Decisions are a log: none is ever changed, and a turn may have several, the last of which holds. They repeat no
# words. Vectors are derived from those of a thread's turns, one a space, and may be made again at any time.


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


# Erasing what threads keep of turns that are erased: their place, the decisions about them, and what came of them.
#
# A thread that is left without a turn goes altogether, with whatever names it; of one that keeps others, title,
# summary and vector are the caller's to make again (`erasure.service`), since they may come from what is gone.


class ThreadErasing:
    """Takes traces of turns out of the threads of one database."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._threads = Threads(tx)

    def of(self, turn_ids: Collection[str]) -> list[str]:
        """The threads that these turns are in, and those that were merged into them."""
        ids = json.dumps(sorted(set(self._threads.of_turns(turn_ids).values())))
        return [row["id"] for row in self._tx.all("threads.with_merged", {"ids": ids})]

    def carry_out(self, turn_ids: Collection[str]) -> None:
        """Take the turns out; they themselves are erased afterwards."""
        touched, turns = self.of(turn_ids), json.dumps(list(turn_ids))
        self._undrift(turn_ids)
        self._tx.run("thread_decisions.erase", {"turns": turns})
        self._tx.run("threads.displace", {"turns": turns})
        ThreadVectors(self._tx).drop(touched)
        self._end(self.emptied(touched))

    def emptied(self, thread_ids: Collection[str], *, but: Collection[str] = ()) -> list[str]:
        """Those of these threads that no turn is left of, or would be without some."""
        asked = {"ids": json.dumps(list(thread_ids)), "but": json.dumps(list(but))}
        return [row["id"] for row in self._tx.all("threads.emptied", asked)]

    def _end(self, thread_ids: Collection[str]) -> None:
        """Take threads without turns out, and what speaks of them."""
        ids = {"ids": json.dumps(list(thread_ids))}
        self._tx.run("thread_decisions.about_none", ids)
        self._tx.run("thread_decisions.unparent", ids)
        self._tx.run("threads.unbridge", ids)
        self._tx.run("threads.unsum", ids)
        self._tx.run("threads.unparent", ids)
        ThreadVectors(self._tx).drop(thread_ids)
        self._tx.run("threads.erase", ids)

    def _undrift(self, turn_ids: Collection[str]) -> None:
        rows = self._tx.all("threads.drifted", {"turns": json.dumps(list(turn_ids))})
        for thread in self._threads.some([row["id"] for row in rows]):
            kept = tuple(one for one in thread.drifts if one.turn_id not in turn_ids)
            self._threads.update(replace(thread, drifts=kept))


# Bridges between threads, and what they are made from: the threads of one place with their vectors, and their
# prompts.
#
# What the user removed stays as a row that nothing lists, so that it is not made again. Everything else here that was
# not made by hand is derived.

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
        self._tx.run("bridges.put", _bridge_row(bridge))

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


def _bridge_row(bridge: Bridge) -> dict[str, object]:
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


_EMPTY = "{}"
_UNREAD = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkPlace:
    """Where work is looked for.

    Attributes:
        project: None = outside every project.
        agent: where agents are isolated, whose work alone counts: an agent's id, or its channel.
        but: the session that asks, whose own work does not count.
    """

    user: str
    project: str | None
    agent: str | None
    but: Session

    @property
    def parameters(self) -> dict[str, object]:
        """As named queries take it."""
        but: dict[str, object] = {"but_host": self.but.host, "but_session": self.but.id}
        return {"user_id": self.user, "project_id": self.project, "agent": self.agent} | but


class Syntheses:
    """The syntheses of one database."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def keep(self, session: Session, syntheses: Sequence[Synthesis]) -> None:
        """Write what a session came to, in the place of what it came to before."""
        self._tx.run("syntheses.clear", session.parameters)
        for one in syntheses:
            self._tx.run("syntheses.put", _synthesis_row(one))

    def of_session(self, session: Session) -> list[Synthesis]:
        """What a session came to, an empty one included; the latest first."""
        return [_from_row(row) for row in self._tx.all("syntheses.of_session", session.parameters)]

    def of_thread(self, thread_id: str, limit: int = 1) -> list[Synthesis]:
        """Where the work in a thread stood, in each session that worked on it; the latest first."""
        return [_from_row(row) for row in self._tx.all("syntheses.of_thread", {"thread_id": thread_id, "limit": limit})]

    def of_place(self, place: WorkPlace, limit: int) -> list[Synthesis]:
        """Where the work of other sessions of a project stood, the latest first."""
        return [_from_row(row) for row in self._tx.all("syntheses.of_place", place.parameters | {"limit": limit})]

    def tie(self, old: str, new: str) -> None:
        """What was said of one thread is said of another, since they were merged; what was said of that stays."""
        self._tx.run("syntheses.tie", {"from": old, "to": new})
        self._tx.run("syntheses.untie", {"from": old})

    def forget(self, turns: Collection[str]) -> None:
        """Take out what the sessions of these turns came to, before the turns go."""
        self._tx.run("syntheses.forget", {"turns": json.dumps(list(turns))})

    def sessions(self, turns: Collection[str]) -> list[Session]:
        """The sessions of these turns."""
        return _sessions(self._tx.all("syntheses.sessions", {"turns": json.dumps(list(turns))}))

    def threads(self, turns: Collection[str]) -> dict[str, str]:
        """The threads of these turns, by turn; those in none are left out."""
        rows = self._tx.all("syntheses.threads", {"ids": json.dumps(list(turns))})
        return {row["turn_id"]: row["thread_id"] for row in rows}

    def memories(self, turns: Collection[str]) -> list[Memory]:
        """What became of these turns, live or not, with the evidence."""
        rows = self._tx.all("syntheses.memories", {"turns": json.dumps(list(turns))})
        cited: dict[str, list[Evidence]] = {row["id"]: [] for row in rows}
        for one in self._tx.all("evidence.of", {"ids": json.dumps(list(cited))}):
            span = Span(start=one["start"], end=one["stop"])
            cited[one["memory_id"]].append(Evidence(turn_id=one["turn_id"], span=span))
        return [_with(memory_from_row(row), cited[row["id"]]) for row in rows]

    def calls(self, events: Collection[str]) -> dict[str, Mapping[str, Any]]:
        """The tool calls of these events, by the host's id of the call."""
        found: dict[str, Mapping[str, Any]] = {}
        for row in self._tx.all("syntheses.calls", {"ids": json.dumps(list(events))}):
            found |= calls_of(event_from_json(json.loads(row["payload"])))
        return found

    def unread(self, session: Session) -> list[tuple[Event, str]]:
        """The events of a session whose turns are not stored yet, oldest first, with their projects."""
        rows = self._tx.all("syntheses.unread", session.parameters | {"limit": _UNREAD})
        return [(event_from_json(json.loads(row["payload"])), row["project_id"]) for row in rows]

    def latest_sessions(self, place: WorkPlace, *, newest: int, limit: int) -> list[tuple[Session, int]]:
        """The sessions that worked in a place last, each with the number of its last prompt."""
        asked = place.parameters | {"newest": newest, "limit": limit}
        rows = self._tx.all("syntheses.fresh_sessions", asked)
        return [(Session(host=row["host"], id=row["session_id"]), int(row["seq"])) for row in rows]

    def quiet(self, before: datetime, *, newest: int, limit: int) -> list[Session]:
        """Sessions of the newest turns that said something since their last synthesis, and nothing since `before`."""
        asked = {"before": to_text(before), "newest": newest, "limit": limit}
        return _sessions(self._tx.all("syntheses.quiet_sessions", asked))


def calls_of(event: Event) -> dict[str, Mapping[str, Any]]:
    """The tool calls that an event holds, by the host's id of the call."""
    listed = event.data.get("calls")
    calls = cast("list[object]", listed) if isinstance(listed, list) else []
    held = [cast("Mapping[str, Any]", call) for call in calls if isinstance(call, dict)]
    return {str(call.get("id") or ""): call for call in held}


def _sessions(rows: Sequence[Mapping[str, Any]]) -> list[Session]:
    return [Session(host=row["host"], id=row["session_id"]) for row in rows]


def _with(memory: Memory, evidence: Sequence[Evidence]) -> Memory:
    return replace(memory, evidence=tuple(evidence))


def _synthesis_row(one: Synthesis) -> dict[str, object]:
    held = {
        "state": [asdict(point) for point in one.state],
        "decisions": [asdict(point) for point in one.decisions],
        "questions": [asdict(point) for point in one.questions],
        "files": list(one.files),
        "error": asdict(one.error) if one.error else None,
    }
    return {
        "id": one.id,
        "user_id": one.user,
        "project_id": one.project,
        "agent": one.agent,
        "channel": one.channel,
        "host": one.host,
        "session_id": one.session,
        "thread_id": one.thread_id,
        "occasion": one.occasion,
        "at": to_text(one.at),
        "until_seq": one.until,
        "content": json.dumps(held, ensure_ascii=False) if any(held.values()) else _EMPTY,
        "made_by": one.made_by,
    }


def _from_row(row: Mapping[str, Any]) -> Synthesis:
    held: Mapping[str, Any] = json.loads(row["content"])
    return Synthesis(
        id=row["id"],
        host=row["host"],
        session=row["session_id"],
        user=row["user_id"],
        project=row["project_id"],
        thread_id=row["thread_id"],
        occasion=row["occasion"],
        at=from_text(row["at"]),
        until=row["until_seq"],
        state=_points(held.get("state")),
        decisions=_points(held.get("decisions")),
        questions=_points(held.get("questions")),
        files=tuple(held.get("files") or ()),
        error=Point(**held["error"]) if held.get("error") else None,
        made_by=row["made_by"],
        agent=row["agent"],
        channel=row["channel"],
    )


def _points(raw: Sequence[Mapping[str, Any]] | None) -> tuple[Point, ...]:
    return tuple(Point(**one) for one in raw or ())
