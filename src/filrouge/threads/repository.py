"""Threads in the database: threads, their turns, decisions, vectors, bridges, and syntheses.

- `Threads`: rows of threads and which turn is in which. A turn is in at most one thread. Counts are computed on read. A
  merged thread stays as an empty, archived row, so that references to it still resolve.
- `ThreadDecisions`: an append-only log of why each turn is where it is; the last decision counts.
- `ThreadVectors`, `ThreadWords`, `ActiveDays`: derived data per thread and project.
- `ThreadErasing`: removes all traces of erased turns.
- `Bridges`, `BridgeInputs`: bridges, and the input for detecting them.
- `Syntheses`: where the work stood, per session and thread.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from threading import Lock
from typing import Any, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict, replace

from filrouge.capture.events import Event, event_from_json, tool_calls
from filrouge.capture.models import Turn
from filrouge.core.clock import from_text, text_or_none, time_or_none, to_text
from filrouge.core.errors import BadInput, NotFound
from filrouge.core.protocols import Tx, Vector, Vectors
from filrouge.core.rows import fields_of, number_of, pick_columns, require_row
from filrouge.extraction.repository import Session
from filrouge.extraction.statement_model import EMBEDDER
from filrouge.memories.models import Evidence, Memory, Span
from filrouge.memories.repository import memory_from_row
from filrouge.providers.calibration import load_sample, sample_texts, save_sample
from filrouge.providers.e5 import models_directory
from filrouge.search.repository import StoredVectors
from filrouge.search.vector_search import VectorSearch
from filrouge.threads.assignment import MAX_VECTORS, Whitening, merge_syntheses
from filrouge.threads.models import Bridge, Drift, Point, Routing, Synthesis, Thread, ThreadCandidate, ThreadState

# Rows of the table `threads` and of the decision log.


class LoggedDecision(Struct, frozen=True, kw_only=True):
    """A logged decision.

    Attributes:
        thread_id: the thread that the turn went to; it may have been merged since.
        actor: rules, model or user.
    """

    turn_id: str
    at: datetime
    thread_id: str
    routing: Routing
    actor: str


#: Columns that are named like the fields of a thread, of a decision, a bridge and a synthesis.
_SAME_IN_THREADS = (
    "id", "agent", "channel", "title", "title_by", "summary", "state", "origin", "merged_into", "weight",
)  # fmt: skip
_SAME_IN_DECISIONS = ("action", "similarity", "reason", "model")
_SAME_IN_BRIDGES = ("id", "kind", "reason", "confidence", "made_by", "depth")
_SAME_IN_SYNTHESES = ("id", "host", "thread_id", "occasion", "made_by", "agent", "channel")


def thread_from_row(row: Mapping[str, Any]) -> Thread:
    """Build a thread from its row; the counts are 0 if the query has none."""
    return Thread(
        **pick_columns(row, _SAME_IN_THREADS),
        user=row["user_id"],
        project=row["project_id"],
        topics=tuple(json.loads(row["topics"])),
        parent=row["parent_id"],
        opened_at=from_text(row["opened_at"]),
        last_active=from_text(row["last_active"]),
        suspended_at=time_or_none(row["suspended_at"]),
        drifts=tuple(_drift_from_json(drift) for drift in json.loads(row["drifts"])),
        turns=row.get("turns", 0),
        sessions=row.get("sessions", 0),
    )


def row_of(thread: Thread) -> dict[str, object]:
    """Return the columns of a thread."""
    return fields_of(thread, _SAME_IN_THREADS) | {
        "user_id": thread.user,
        "project_id": thread.project,
        "topics": json.dumps(thread.topics, ensure_ascii=False),
        "parent_id": thread.parent,
        "opened_at": to_text(thread.opened_at),
        "last_active": to_text(thread.last_active),
        "suspended_at": text_or_none(thread.suspended_at),
        "drifts": json.dumps([drift_json(drift) for drift in thread.drifts]),
    }


def drift_json(drift: Drift) -> dict[str, Any]:
    """Return the JSON form of a drift, as it is stored and shown."""
    return {
        "turn_id": drift.turn_id,
        "at": to_text(drift.at),
        "similarity": round(drift.similarity, 4),
        "became": drift.became,
    }


def decision_from_row(row: Mapping[str, Any]) -> LoggedDecision:
    """Build a decision from its row."""
    routing = Routing(
        **pick_columns(row, _SAME_IN_DECISIONS),
        thread_id=row["thread_id"],
        candidates=tuple(ThreadCandidate(**candidate) for candidate in json.loads(row["weighed"])),
        parent=row["parent_id"],
        borderline=bool(row["borderline"]),
    )
    return LoggedDecision(
        turn_id=row["turn_id"],
        at=from_text(row["at"]),
        thread_id=row["thread_id"],
        routing=routing,
        actor=row["actor"],
    )


def _drift_from_json(raw: Mapping[str, Any]) -> Drift:
    return Drift(
        turn_id=raw["turn_id"], at=from_text(raw["at"]), similarity=float(raw["similarity"]), became=raw["became"]
    )


#: Minimum length of an id prefix that identifies a thread.
MIN_PREFIX_LENGTH: Final = 6


class ThreadScope(Struct, frozen=True, kw_only=True):
    """The scope within which threads are compared; bridges never leave it.

    Attributes:
        project: None = outside all projects.
        agent: with isolation, only the threads of this agent (its id, or its channel); otherwise None.
    """

    user: str
    project: str | None
    agent: str | None = None

    @property
    def parameters(self) -> dict[str, object]:
        """Return the scope as query parameters."""
        return {"user_id": self.user, "project_id": self.project, "only_agent": self.agent}


class Threads:
    """Reads and writes threads and the placement of turns."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def add(self, thread: Thread) -> None:
        """Store a new thread; its turns are placed separately."""
        self._tx.run("threads.add", row_of(thread))

    def update(self, thread: Thread) -> None:
        """Write all mutable columns of a thread."""
        self._tx.run("threads.update", row_of(thread))

    def get(self, thread_id: str) -> Thread:
        """Return one thread with its counts.

        Raises:
            NotFound: no thread has this id.
        """
        found = self.some([thread_id])
        if not found:
            raise NotFound(f"There is no thread {thread_id!r}.", remedy="See `filrouge threads --status all`.")
        return found[0]

    def get_by_prefix(self, name: str) -> Thread:
        """Return the thread with an id, or with a prefix of an id.

        Raises:
            NotFound: there is none.
            BadInput: the prefix is ambiguous.
        """
        prefix = name.strip().lower()
        ids = [prefix]
        if MIN_PREFIX_LENGTH <= len(prefix) < _ULID_LENGTH:
            ids = [row["id"] for row in self._tx.all("threads.beginning", {"prefix": prefix, "limit": 2})] or ids
        if len(ids) > 1:
            raise BadInput(f"Several threads begin with {name!r}.", remedy="Give more of the id.")
        return self.get(ids[0])

    def some(self, ids: Sequence[str], *, sessions: bool = True) -> list[Thread]:
        """Return these threads with their counts, in the given order; unknown ids are left out.

        Args:
            sessions: also count the sessions, which reads every prompt.
        """
        parameters = {"ids": json.dumps(list(ids)), "sessions": sessions}
        return [thread_from_row(row) for row in self._tx.all("threads.some", parameters)]

    def unsettled(self, scope: ThreadScope, suspended_until: datetime) -> list[Thread]:
        """Return the threads of a scope that are active, or were suspended at this moment or before, without counts.

        The latest come first; merged threads are left out.
        """
        parameters = scope.parameters | {"suspended_until": to_text(suspended_until)}
        return [thread_from_row(row) for row in self._tx.all("threads.unsettled", parameters)]

    def unarchived(self) -> list[Thread]:
        """Return all threads that are not stored as archived, of all scopes, without counts."""
        return [thread_from_row(row) for row in self._tx.all("threads.live")]

    def archived_count(self) -> int:
        """Return the number of archived threads of all scopes, without merged ones."""
        return number_of(self._tx, "threads.archived_count")

    def list_threads(
        self,
        *,
        user: str | None,
        project: str | None,
        everywhere: bool,
        agent: str | None = None,
        states: Collection[ThreadState] = (),
        limit: int = -1,
        sessions: bool = True,
    ) -> list[Thread]:
        """Return threads with their counts, latest first; merged threads are left out.

        Args:
            states: states as stored; empty = all.
            sessions: also count the sessions.
        """
        parameters = {
            "user_id": user,
            "project_id": project,
            "everywhere": everywhere,
            "only_agent": agent,
            "states": json.dumps(sorted(states)) if states else None,
            "limit": limit,
        }
        return self.some([row["id"] for row in self._tx.all("threads.listed", parameters)], sessions=sessions)

    def children(self, thread_id: str) -> list[str]:
        """Return the ids of the threads that were forked or split off, oldest first."""
        return [row["id"] for row in self._tx.all("threads.children", {"id": thread_id})]

    def titles(self, scope: ThreadScope) -> dict[str, str]:
        """Return the titles of the threads of a scope that are not archived, by id."""
        return {row["id"]: row["title"] for row in self._tx.all("threads.titles", scope.parameters)}

    def titles_of(self, ids: Collection[str]) -> dict[str, str]:
        """Return the titles of these threads by id, in any state."""
        rows = self._tx.all("threads.title_of", {"ids": json.dumps(list(ids))})
        return {row["id"]: row["title"] for row in rows}

    def place(self, turn_id: str, thread_id: str, at: datetime, topics: Sequence[str] = ()) -> bool:
        """Put a turn into a thread; return False, and change nothing, if it is in one already.

        Args:
            topics: topics of a prompt, stored so that they need not be extracted again.
        """
        placement = {"turn_id": turn_id, "thread_id": thread_id, "at": to_text(at)}
        return bool(self._tx.run("threads.place", placement | {"topics": json.dumps(list(topics))}))

    def move(self, turn_ids: Collection[str], thread_id: str) -> None:
        """Move turns that are in threads into this thread."""
        self._tx.run("threads.move", {"ids": json.dumps(list(turn_ids)), "thread_id": thread_id})

    def of_turns(self, turn_ids: Collection[str]) -> dict[str, str]:
        """Return the threads of these turns, by turn; turns in no thread are left out."""
        rows = self._tx.all("threads.of_turns", {"ids": json.dumps(list(turn_ids))})
        return {row["turn_id"]: row["thread_id"] for row in rows}

    def of_prompt(self, turn_id: str) -> str | None:
        """Return the thread that a prompt was placed in; None for any other turn."""
        row = self._tx.one("threads.of_prompt", {"turn_id": turn_id})
        return row["thread_id"] if row else None

    def of_memories(self, memory_ids: Collection[str]) -> dict[str, list[str]]:
        """Return the threads of these memories, by memory: the threads of their evidence turns, oldest first."""
        found: dict[str, list[str]] = {}
        for row in self._tx.all("threads.of_memories", {"ids": json.dumps(list(memory_ids))}):
            found.setdefault(row["memory_id"], []).append(row["thread_id"])
        return found

    def of_session(self, turn: Turn) -> str | None:
        """Return the thread that the session was in just before a turn, for the turn's user and project."""
        row = self._tx.one("threads.of_session", _turn_parameters(turn))
        return row["thread_id"] if row else None

    def in_session(self, host: str, session: str, *, except_prompt: str = "") -> dict[str, str]:
        """Return the threads of a session's prompts with the stored time of the last prompt in each, latest first.

        Args:
            except_prompt: the prompt that is being answered; it is left out.
        """
        parameters = {"host": host, "session_id": session, "but": except_prompt}
        return {row["thread_id"]: row["at"] for row in self._tx.all("threads.in_session", parameters)}

    def of_preceding_prompt(self, turn: Turn) -> str | None:
        """Return the thread of the prompt that a turn follows; None if there is no such prompt, or it is not placed."""
        row = self._tx.one("threads.prompt_before", _turn_parameters(turn))
        return row["thread_id"] if row else None

    def prompts_from(self, turn: Turn) -> list[tuple[str, str | None]]:
        """Return the prompts of a session from this turn on, in order, each with its thread or None."""
        return [
            (row["turn_id"], row["thread_id"]) for row in self._tx.all("threads.from_prompt", _turn_parameters(turn))
        ]

    def has_waiting_before(self, turn: Turn) -> bool:
        """Return True while a job has yet to place an earlier prompt of the session."""
        return self._tx.one("threads.waiting_before", _turn_parameters(turn)) is not None

    def place_following_turns(self, turn: Turn) -> int:
        """Put the turns after a prompt, up to the session's next prompt, into its thread; return how many."""
        return self._tx.run("threads.follow", _turn_parameters(turn))

    def turns(self, thread_id: str, *, routed: bool = False, limit: int = -1, newest: bool = False) -> list[str]:
        """Return the ids of a thread's turns, oldest first.

        Args:
            routed: only prompts that were placed by their content.
            newest: if there are more than `limit`, return the last ones instead of the first.
        """
        parameters = {"id": thread_id, "routed": routed, "limit": limit}
        ids = [row["turn_id"] for row in self._tx.all("threads.newest" if newest else "threads.oldest", parameters)]
        return ids[::-1] if newest else ids

    def prompt_count(self, thread_id: str) -> int:
        """Return the number of prompts that were placed in a thread by their content."""
        row = self._tx.one("threads.prompt_count", {"id": thread_id})
        return int(row["n"]) if row else 0

    def latest(self, scope: ThreadScope, limit: int, upto: Turn | None = None) -> list[str]:
        """Return the ids of the newest prompts of a scope, in any thread or none, newest first.

        Args:
            upto: leave out prompts that were stored after this turn.
        """
        parameters = scope.parameters | {"limit": limit, "upto": upto.id if upto else None}
        return [row["id"] for row in self._tx.all("threads.latest", parameters)]

    def following_turns(self, prompt_ids: Collection[str], limit: int) -> dict[str, list[str]]:
        """Return the first turns after each of these prompts, without tool turns, up to the session's next prompt."""
        rows = self._tx.all("threads.followers", {"ids": json.dumps(list(prompt_ids)), "limit": limit})
        return {row["prompt"]: str(row["followers"] or "").split() for row in rows}

    def active_between(self, thread_ids: Collection[str], since: datetime | None, until: datetime | None) -> set[str]:
        """Return those of these threads that have a turn in the interval [since, until); None = unbounded."""
        parameters = {
            "ids": json.dumps(list(thread_ids)),
            "since": text_or_none(since),
            "until": text_or_none(until),
        }
        return {row["thread_id"] for row in self._tx.all("threads.spoken_between", parameters)}

    def last_active(self) -> dict[tuple[str, str | None], datetime]:
        """Return when something was last said in the threads of each user and project."""
        rows = self._tx.all("threads.last_active")
        return {(row["user_id"], row["project_id"]): from_text(row["at"]) for row in rows}

    def with_following_turns(self, turn_ids: Collection[str]) -> list[str]:
        """Return these turns, and the turns that followed the prompts among them in the same thread."""
        rows = self._tx.all("threads.with_followers", {"ids": json.dumps(list(turn_ids))})
        return [row["turn_id"] for row in rows]

    def unplaced(self, after: int, limit: int) -> list[dict[str, Any]]:
        """Return the next prompts after a position that should be in a thread and are not: `seq` and `id`."""
        return self._tx.all("threads.unplaced", {"after": after, "limit": limit})

    def continuation_counts(self) -> tuple[int, int]:
        """Return how many threads have prompts of at least two sessions, and how many could have them.

        A thread could have them if another session of its user was active in its project after the thread began.
        """
        sessions_by_thread = dict[str, list[Mapping[str, Any]]]()
        last_by_project = dict[tuple[str, str | None], dict[str, str]]()
        for row in self._tx.all("threads.spread"):
            sessions_by_thread.setdefault(row["thread_id"], []).append(row)
            last = last_by_project.setdefault((row["user_id"], row["project_id"]), {})
            last[row["session"]] = max(row["last"], last.get(row["session"], ""))
        # The two latest sessions are enough: at least one of them is not the thread's own.
        latest = {
            project: sorted(sessions.items(), key=lambda session: session[1], reverse=True)[:2]
            for project, sessions in last_by_project.items()
        }
        continued = possible = 0
        for sessions in sessions_by_thread.values():
            own = sessions[0]
            others = [at for name, at in latest[own["user_id"], own["project_id"]] if name != own["session"]]
            continued += len(sessions) > 1
            possible += len(sessions) > 1 or any(at > own["opened_at"] for at in others)
        return continued, possible


#: Length of a ULID.
_ULID_LENGTH: Final = 26


def _turn_parameters(turn: Turn) -> dict[str, object]:
    return {
        "turn_id": turn.id,
        "host": turn.host,
        "session_id": turn.scope.session,
        "user_id": turn.scope.user,
        "project_id": turn.scope.project,
        "at": to_text(turn.at),
    }


# Data kept per thread.


class ThreadDecisions:
    """The append-only log of decisions about turns.

    A turn may have several decisions, of which the last counts. They quote no text.
    """

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def log(self, turn_id: str, thread_id: str, routing: Routing, *, at: datetime, actor: str = "rules") -> None:
        """Log a decision about a turn.

        Args:
            thread_id: where it went; for a new thread, the id of that thread.
            actor: rules, model or user.
        """
        self._tx.run(
            "thread_decisions.add",
            fields_of(routing, _SAME_IN_DECISIONS)
            | {
                "turn_id": turn_id,
                "at": to_text(at),
                "thread_id": thread_id,
                "parent_id": routing.parent,
                "borderline": routing.borderline,
                "actor": actor,
                "weighed": json.dumps([candidate.to_json() for candidate in routing.candidates]),
            },
        )

    def about(self, turn_ids: Collection[str]) -> list[LoggedDecision]:
        """Return all decisions about these turns, oldest first."""
        rows = self._tx.all("thread_decisions.about", {"ids": json.dumps(list(turn_ids))})
        return [decision_from_row(row) for row in rows]

    def last(self) -> int:
        """Return the number of the latest decision; 0 if there is none."""
        row = self._tx.one("thread_decisions.last")
        return int(row["seq"] or 0) if row else 0

    def question_counts(self, latest: int) -> tuple[int, int]:
        """Return how many of the latest decisions a model was, or will be, asked about, and how many the rules made.

        Both numbers are approximate.

        Args:
            latest: number of latest decisions to look at.
        """
        row = self._tx.one("thread_decisions.asked", {"latest": latest})
        return (int(row["asked"]), int(row["decided"])) if row else (0, 0)

    def asked_about(self, user: str, project: str | None) -> list[LoggedDecision]:
        """Return the decisions of models and users about prompts that a model was asked about, oldest first."""
        rows = self._tx.all("thread_decisions.asked_about", {"user_id": user, "project_id": project})
        return [decision_from_row(row) for row in rows]

    def placed_before(self, moment: datetime) -> dict[str, list[tuple[datetime, str]]]:
        """Return the prompts that were in each thread at a moment, regardless of later decisions.

        Returns:
            For each thread, the time and the session of each prompt.
        """
        found: dict[str, list[tuple[datetime, str]]] = {}
        for row in self._tx.all("thread_decisions.placed_by", {"at": to_text(moment)}):
            found.setdefault(row["thread_id"], []).append((from_text(row["at"]), row["session_id"]))
        return found

    def moved_by_user(self, user: str, project: str | None) -> set[str]:
        """Return the threads of a project that a user moved something into or out of."""
        rows = self._tx.all("thread_decisions.held", {"user_id": user, "project_id": project})
        return {row["id"] for row in rows}


class ThreadVectors:
    """Vectors of threads, stored with the same precision as those of turns.

    They are derived from the turns, one per embedding space, and can be recomputed at any time.
    """

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def put(self, thread_id: str, space_id: str, vector: Vector) -> None:
        """Store a thread's vector in a space."""
        self._tx.run("thread_vectors.put", {"thread_id": thread_id, "space_id": space_id, "vector": _blob(vector)})

    def drop(self, thread_ids: Collection[str]) -> None:
        """Delete the vectors of these threads in all spaces."""
        self._tx.run("thread_vectors.drop", {"ids": json.dumps(list(thread_ids))})

    def some(self, thread_ids: Collection[str], space_id: str) -> dict[str, Vector]:
        """Return the vectors of these threads; threads without a vector are left out."""
        rows = self._tx.all("thread_vectors.some", {"ids": json.dumps(list(thread_ids)), "space_id": space_id})
        return dict(zip((row["thread_id"] for row in rows), _matrix([row["vector"] for row in rows]), strict=True))

    def archived(self, scope: ThreadScope, space_id: str, limit: int) -> tuple[list[str], Vectors]:
        """Return the archived threads of a scope that have a vector, the last active first.

        Returns:
            Ids, and vectors of shape (n, dimension).
        """
        rows = self._tx.all("thread_vectors.archived", scope.parameters | {"space_id": space_id, "limit": limit})
        return [row["thread_id"] for row in rows], _matrix([row["vector"] for row in rows])

    def missing(self, space_id: str, after: int, limit: int) -> dict[int, str]:
        """Return the next threads after a position that lack a vector in this space, by position.

        Only threads with a prompt that has a vector count.
        """
        rows = self._tx.all("thread_vectors.missing", {"space_id": space_id, "after": after, "limit": limit})
        return {row["seq"]: row["id"] for row in rows}

    def clear_retired(self) -> None:
        """Delete the vectors of retired spaces."""
        self._tx.run("thread_vectors.clear_retired")


class ThreadWords:
    """Words of the prompts of threads, from the full-text index of turns."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def counts(self, thread_ids: Collection[str], forms: Collection[str]) -> dict[str, dict[str, int]]:
        """Return how often each of these tokens occurs in each thread's prompts; threads without any are left out."""
        found: dict[str, dict[str, int]] = {}
        parameters = {"ids": json.dumps(list(thread_ids)), "forms": json.dumps(list(forms))}
        for row in self._tx.all("threads.words", parameters):
            found.setdefault(row["thread_id"], {})[row["term"]] = row["n"]
        return found


class ActiveDays:
    """The days (UTC) on which something was said in a project."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def note(self, project: str | None, at: datetime) -> None:
        """Record the day as active."""
        self._tx.run("active_days.note", {"project_id": project or "", "day": to_text(at)[:10]})


def _blob(vector: Vector) -> bytes:
    return vector.astype("<f2").tobytes()


def _matrix(blobs: Sequence[bytes]) -> Vectors:
    if not blobs:
        return np.empty((0, 0), dtype=np.float32)
    return np.frombuffer(b"".join(blobs), dtype="<f2").reshape(len(blobs), -1).astype(np.float32)


# Erasure.


class ThreadErasing:
    """Removes traces of turns from threads.

    It removes what threads store about erased turns: placement, decisions, vectors, drifts. A thread that loses its
    last turn is deleted with all references to it. For a thread that keeps turns, the caller rebuilds title, summary
    and vector (`erasure.service`), since they may contain erased content.
    """

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._threads = Threads(tx)

    def threads_of(self, turn_ids: Collection[str]) -> list[str]:
        """Return the threads of these turns, and the threads that were merged into them."""
        ids = json.dumps(sorted(set(self._threads.of_turns(turn_ids).values())))
        return [row["id"] for row in self._tx.all("threads.with_merged", {"ids": ids})]

    def remove_turns(self, turn_ids: Collection[str]) -> None:
        """Remove the turns from their threads; the turns themselves are erased by the caller afterwards."""
        touched, turns = self.threads_of(turn_ids), json.dumps(list(turn_ids))
        self._remove_drifts(turn_ids)
        self._tx.run("thread_decisions.erase", {"turns": turns})
        self._tx.run("threads.displace", {"turns": turns})
        ThreadVectors(self._tx).drop(touched)
        self._delete_threads(self.emptied(touched))

    def emptied(self, thread_ids: Collection[str], *, except_turns: Collection[str] = ()) -> list[str]:
        """Return those of these threads that have no turns, or would have none without `except_turns`."""
        parameters = {"ids": json.dumps(list(thread_ids)), "but": json.dumps(list(except_turns))}
        return [row["id"] for row in self._tx.all("threads.emptied", parameters)]

    def _delete_threads(self, thread_ids: Collection[str]) -> None:
        """Delete threads without turns, and all references to them."""
        ids = {"ids": json.dumps(list(thread_ids))}
        self._tx.run("thread_decisions.about_none", ids)
        self._tx.run("thread_decisions.unparent", ids)
        self._tx.run("threads.unbridge", ids)
        self._tx.run("threads.unsum", ids)
        self._tx.run("threads.unparent", ids)
        ThreadVectors(self._tx).drop(thread_ids)
        self._tx.run("threads.erase", ids)

    def _remove_drifts(self, turn_ids: Collection[str]) -> None:
        rows = self._tx.all("threads.drifted", {"turns": json.dumps(list(turn_ids))})
        for thread in self._threads.some([row["id"] for row in rows]):
            drifts = tuple(drift for drift in thread.drifts if drift.turn_id not in turn_ids)
            self._threads.update(replace(thread, drifts=drifts))


# Bridges, and the input for detecting them.

#: Maximum number of threads to compare: the latest, of many years.
MAX_COMPARED_THREADS: Final = 2000


class ThreadSnapshot(Struct, frozen=True, kw_only=True):
    """A thread as read for bridge detection."""

    id: str
    title: str
    summary: str
    topics: tuple[str, ...]
    state: ThreadState
    parent: str | None
    scope: ThreadScope
    last_active: datetime
    merged: bool
    vector: Vector | None = None


class Bridges:
    """Reads and writes bridges.

    A bridge that the user removed stays as a hidden row, so that it is not made again. All other bridges, except those
    made by hand, are derived data.
    """

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def get(self, bridge_id: str) -> Bridge:
        """Return one bridge.

        Raises:
            NotFound: no bridge has this id.
        """
        remedy = "List all bridges: `filrouge bridges`."
        return _bridge_from_row(
            require_row(self._tx, "bridges.get", {"id": bridge_id}, what=f"bridge {bridge_id!r}", remedy=remedy)
        )

    def oldest(self, scope: ThreadScope, limit: int) -> list[Bridge]:
        """Return the bridges of a user and project with the oldest confirmation, without those made by the user."""
        parameters = {"user_id": scope.user, "project_id": scope.project, "limit": limit}
        return [_bridge_from_row(row) for row in self._tx.all("bridges.oldest", parameters)]

    def of_threads(self, thread_ids: Collection[str]) -> tuple[list[Bridge], list[Bridge]]:
        """Return the bridges with an end among these threads.

        Returns:
            The stored bridges, including expired ones, and the bridges that the user removed.
        """
        rows = self._tx.all("bridges.around", {"ids": json.dumps(sorted(thread_ids))})
        stored = [_bridge_from_row(row) for row in rows if row["removed_at"] is None]
        return stored, [_bridge_from_row(row) for row in rows if row["removed_at"] is not None]

    def some(self, ids: Collection[str]) -> list[Bridge]:
        """Return the bridges with these ids that exist and were not removed."""
        rows = self._tx.all("bridges.some", {"ids": json.dumps(list(ids))}) if ids else []
        return [_bridge_from_row(row) for row in rows]

    def list_with_titles(
        self,
        *,
        user: str,
        project: str | None = None,
        everywhere: bool = True,
        thread_id: str | None = None,
        kind: str | None = None,
        isolated: bool = False,
    ) -> list[tuple[Bridge, dict[str, Any]]]:
        """Return bridges with their rows (`source_title`, `target_title`, `project_id`), including expired ones.

        Args:
            isolated: leave out bridges between threads of different agents, which may date from before isolation.
        """
        parameters = {
            "user_id": user, "project_id": project, "everywhere": everywhere, "thread_id": thread_id, "kind": kind,
            "isolated": isolated,
        }  # fmt: skip
        return [(_bridge_from_row(row), row) for row in self._tx.all("bridges.shown", parameters)]

    def put(self, bridge: Bridge) -> None:
        """Insert a bridge, or update the one with this id."""
        self._tx.run("bridges.put", _bridge_row(bridge))

    def drop(self, ids: Collection[str]) -> None:
        """Delete bridges."""
        if ids:
            self._tx.run("bridges.drop", {"ids": json.dumps(list(ids))})

    def refuse(self, bridge_id: str, at: datetime) -> None:
        """Remove a bridge and remember that the user does not want it."""
        self._tx.run("bridges.refuse", {"id": bridge_id, "at": to_text(at)})

    def count(self) -> tuple[int, int]:
        """Return the number of bridges, and how many have a confidence below 0.5 (the table forbids those)."""
        row = self._tx.one("bridges.count")
        return (int(row["n"]), int(row["unsure"])) if row else (0, 0)

    def active_days(self, project: str | None, today: datetime, limit: int) -> list[str]:
        """Return the last days on which a project was active, newest first."""
        parameters = {"project_id": project, "today": to_text(today)[:10], "limit": limit}
        return [row["day"] for row in self._tx.all("bridges.active_days", parameters)]


class BridgeInputs:
    """Reads the threads and memories from which bridges are made."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def find(self, thread_id: str) -> ThreadSnapshot | None:
        """Return one thread without its vector, or None."""
        row = self._tx.one("bridges.thread", {"id": thread_id})
        return _snapshot_from_row(row) if row else None

    def in_scope(self, scope: ThreadScope, space_id: str, *, everywhere: bool = False) -> list[ThreadSnapshot]:
        """Return the threads of a scope, or of all projects, latest first; merged threads are left out."""
        parameters = {
            "user_id": scope.user, "project_id": scope.project, "agent": scope.agent, "space_id": space_id,
            "everywhere": everywhere, "limit": MAX_COMPARED_THREADS,
        }  # fmt: skip
        return [_snapshot_from_row(row) for row in self._tx.all("bridges.threads", parameters)]

    def newest_prompts(self, thread_ids: Collection[str], *, limit: int, length: int) -> dict[str, tuple[str, ...]]:
        """Return the beginnings of each thread's newest prompts, newest first."""
        found = dict[str, tuple[str, ...]]()
        parameters = {"ids": json.dumps(list(thread_ids)), "limit": limit, "length": length}
        for row in self._tx.all("bridges.said", parameters):
            found[row["thread_id"]] = (*found.get(row["thread_id"], ()), row["text"])
        return found

    def replacements(self, thread_id: str) -> list[dict[str, Any]]:
        """Return `thread_id`, `text`, `former` and `conflict` for what the thread's memories replaced or contradict."""
        return self._tx.all("bridges.replaced", {"thread_id": thread_id})


def _snapshot_from_row(row: Mapping[str, Any]) -> ThreadSnapshot:
    blob = row.get("vector")
    return ThreadSnapshot(
        id=row["id"],
        title=row["title"],
        summary=row["summary"],
        topics=tuple(json.loads(row["topics"])),
        state=row["state"],
        parent=row["parent_id"],
        scope=ThreadScope(user=row["user_id"], project=row["project_id"], agent=row["agent"] or row["channel"]),
        last_active=from_text(row["last_active"]),
        merged=row["merged_into"] is not None,
        vector=_unit(blob) if blob else None,
    )


def _unit(blob: bytes) -> Vector:
    vector = np.frombuffer(blob, dtype="<f2").astype(np.float32)
    length = float(np.linalg.norm(vector))
    return vector / np.float32(length) if length else vector


def _bridge_from_row(row: Mapping[str, Any]) -> Bridge:
    return Bridge(
        **pick_columns(row, _SAME_IN_BRIDGES),
        source=row["source_id"],
        target=row["target_id"],
        created_at=from_text(row["created_at"]),
        reinforced_at=from_text(row["reinforced_at"]),
    )


def _bridge_row(bridge: Bridge) -> dict[str, object]:
    return fields_of(bridge, _SAME_IN_BRIDGES) | {
        "source_id": bridge.source,
        "target_id": bridge.target,
        "created_at": to_text(bridge.created_at),
        "reinforced_at": to_text(bridge.reinforced_at),
    }


_EMPTY_CONTENT = "{}"
_MAX_UNREAD_EVENTS = 50


class WorkScope(Struct, frozen=True, kw_only=True):
    """The scope in which to look for work of other sessions.

    Attributes:
        project: None = outside all projects.
        agent: with isolation, only the work of this agent (its id, or its channel).
        except_session: the current session, whose own work is left out.
    """

    user: str
    project: str | None
    agent: str | None
    except_session: Session

    @property
    def parameters(self) -> dict[str, object]:
        """Return the scope as query parameters."""
        excluded: dict[str, object] = {"but_host": self.except_session.host, "but_session": self.except_session.id}
        return {"user_id": self.user, "project_id": self.project, "agent": self.agent} | excluded


class Syntheses:
    """Syntheses of sessions, written per session and all at once, so that they never mix two readings.

    They are derived data: when a turn is erased, its session loses all of them, and they are made again from what is
    left. A session with nothing worth a synthesis has an empty one, which records how far it was read.
    """

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def replace_for_session(self, session: Session, syntheses: Sequence[Synthesis]) -> None:
        """Replace the syntheses of a session."""
        self._tx.run("syntheses.clear", session.parameters)
        for synthesis in syntheses:
            self._tx.run("syntheses.put", _synthesis_row(synthesis))

    def of_session(self, session: Session) -> list[Synthesis]:
        """Return the syntheses of a session, including an empty one, latest first."""
        return [_synthesis_from_row(row) for row in self._tx.all("syntheses.of_session", session.parameters)]

    def of_thread(self, thread_id: str, limit: int = 1) -> list[Synthesis]:
        """Return the syntheses of a thread, from each session that worked on it, latest first."""
        return [
            _synthesis_from_row(row)
            for row in self._tx.all("syntheses.of_thread", {"thread_id": thread_id, "limit": limit})
        ]

    def in_scope(self, scope: WorkScope, limit: int) -> list[Synthesis]:
        """Return the syntheses of other sessions in a project, latest first."""
        return [
            _synthesis_from_row(row) for row in self._tx.all("syntheses.of_place", scope.parameters | {"limit": limit})
        ]

    def reassign(self, old: str, new: str) -> None:
        """Reassign the syntheses of a merged thread to the other thread; those of one session become one."""
        for moved in self.of_thread(old, limit=-1):
            session = Session(host=moved.host, id=moved.session)
            of_session = self.of_session(session)
            kept = next((synthesis for synthesis in of_session if synthesis.thread_id == new), None)
            if kept is not None:
                older, newer = sorted((moved, kept), key=lambda synthesis: synthesis.at)
                merged = replace(merge_syntheses(newer, older), thread_id=new)
                others = [synthesis for synthesis in of_session if synthesis.thread_id not in {old, new}]
                self.replace_for_session(session, [merged, *others])
        self._tx.run("syntheses.tie", {"from": old, "to": new})
        self._tx.run("syntheses.untie", {"from": old})

    def forget(self, turns: Collection[str]) -> None:
        """Delete the syntheses of the sessions of these turns; call it before the turns are deleted."""
        self._tx.run("syntheses.forget", {"turns": json.dumps(list(turns))})

    def sessions(self, turns: Collection[str]) -> list[Session]:
        """Return the sessions of these turns."""
        return _sessions(self._tx.all("syntheses.sessions", {"turns": json.dumps(list(turns))}))

    def threads(self, turns: Collection[str]) -> dict[str, str]:
        """Return the threads of these turns, by turn; turns in no thread are left out."""
        rows = self._tx.all("syntheses.threads", {"ids": json.dumps(list(turns))})
        return {row["turn_id"]: row["thread_id"] for row in rows}

    def memories(self, turns: Collection[str]) -> list[Memory]:
        """Return the memories made from these turns, in any state, with their evidence."""
        rows = self._tx.all("syntheses.memories", {"turns": json.dumps(list(turns))})
        cited: dict[str, list[Evidence]] = {row["id"]: [] for row in rows}
        for row in self._tx.all("evidence.of", {"ids": json.dumps(list(cited))}):
            span = Span(start=row["start"], end=row["stop"])
            cited[row["memory_id"]].append(Evidence(turn_id=row["turn_id"], span=span))
        return [replace(memory_from_row(row), evidence=tuple(cited[row["id"]])) for row in rows]

    def calls(self, events: Collection[str]) -> dict[str, Mapping[str, Any]]:
        """Return the tool calls of these events, by the host's call id."""
        found: dict[str, Mapping[str, Any]] = {}
        for row in self._tx.all("syntheses.calls", {"ids": json.dumps(list(events))}):
            found |= calls_of(event_from_json(json.loads(row["payload"])))
        return found

    def unread_events(self, session: Session) -> list[tuple[Event, str]]:
        """Return the events of a session whose turns are not stored yet, oldest first, with their projects."""
        rows = self._tx.all("syntheses.unread", session.parameters | {"limit": _MAX_UNREAD_EVENTS})
        return [(event_from_json(json.loads(row["payload"])), row["project_id"]) for row in rows]

    def latest_sessions(self, scope: WorkScope, *, newest: int, limit: int) -> list[tuple[Session, int]]:
        """Return the sessions that worked in a scope last, each with the number of its last prompt."""
        parameters = scope.parameters | {"newest": newest, "limit": limit}
        rows = self._tx.all("syntheses.fresh_sessions", parameters)
        return [(Session(host=row["host"], id=row["session_id"]), int(row["seq"])) for row in rows]

    def quiet_sessions(self, before: datetime, *, newest: int, limit: int) -> list[Session]:
        """Return sessions with turns since their last synthesis and none since `before`, among the newest turns."""
        parameters = {"before": to_text(before), "newest": newest, "limit": limit}
        return _sessions(self._tx.all("syntheses.quiet_sessions", parameters))


def calls_of(event: Event) -> dict[str, Mapping[str, Any]]:
    """Return the tool calls in an event, by the host's call id."""
    return {str(call.get("id") or ""): call for call in tool_calls(event)}


def _sessions(rows: Sequence[Mapping[str, Any]]) -> list[Session]:
    return [Session(host=row["host"], id=row["session_id"]) for row in rows]


def _synthesis_row(synthesis: Synthesis) -> dict[str, object]:
    content = {
        "state": [asdict(point) for point in synthesis.state],
        "decisions": [asdict(point) for point in synthesis.decisions],
        "questions": [asdict(point) for point in synthesis.questions],
        "files": list(synthesis.files),
        "error": asdict(synthesis.error) if synthesis.error else None,
    }
    return fields_of(synthesis, _SAME_IN_SYNTHESES) | {
        "user_id": synthesis.user,
        "project_id": synthesis.project,
        "session_id": synthesis.session,
        "at": to_text(synthesis.at),
        "until_seq": synthesis.until,
        "content": json.dumps(content, ensure_ascii=False) if any(content.values()) else _EMPTY_CONTENT,
    }


def _synthesis_from_row(row: Mapping[str, Any]) -> Synthesis:
    content: Mapping[str, Any] = json.loads(row["content"])
    return Synthesis(
        **pick_columns(row, _SAME_IN_SYNTHESES),
        session=row["session_id"],
        user=row["user_id"],
        project=row["project_id"],
        at=from_text(row["at"]),
        until=row["until_seq"],
        state=_points_from_json(content.get("state")),
        decisions=_points_from_json(content.get("decisions")),
        questions=_points_from_json(content.get("questions")),
        files=tuple(content.get("files") or ()),
        error=Point(**content["error"]) if content.get("error") else None,
    )


def _points_from_json(raw: Sequence[Mapping[str, Any]] | None) -> tuple[Point, ...]:
    return tuple(Point(**point) for point in raw or ())


# Cache of whitening transforms, one per embedding space and user, computed from stored vectors.
#
# A transform is fitted to the user's newest prompts and the bundled sample. It is recomputed when the number of
# prompts has grown by 40 %, and after every erasure, so that it holds nothing of erased content. The sample is
# embedded in the background when the first prompt with a vector is placed. Until there is a transform, only words are
# compared.

_LOG = logging.getLogger(__name__)

#: Recompute when the number of prompts has grown by this factor, but not before there are this many.
_REFIT_GROWTH, _MIN_REFIT_PROMPTS = 1.4, 32


#: Vectors of the bundled sample, by space; shared by all stores of the process.
_SAMPLES: Final[dict[str, Vectors]] = {}


class _CachedWhitening(Struct):
    """A cached transform.

    Attributes:
        whitening: None while there is too little data.
        fitted_prompts: number of prompts it was fitted to.
        has_sample: it was fitted to the bundled sample too.
        added_prompts: number of prompts placed since.
    """

    whitening: Whitening | None
    fitted_prompts: int
    has_sample: bool
    added_prompts: int = 0

    @property
    def is_due(self) -> bool:
        return self.fitted_prompts + self.added_prompts >= max(_MIN_REFIT_PROMPTS, _REFIT_GROWTH * self.fitted_prompts)


class WhiteningCache:
    """Whitening transforms of one running Filrouge. Thread-safe."""

    def __init__(self) -> None:
        self._whitenings: dict[tuple[str, str], _CachedWhitening] = {}
        self._erasures = 0
        self._lock = Lock()

    def embed_sample(self, vectors: VectorSearch) -> None:
        """Embed the bundled sample if needed; it takes a few seconds, so call it outside any transaction.

        The bundled model embeds it once per machine; the vectors stay beside the model.
        """
        space = vectors.space
        if space.id in _SAMPLES or vectors.is_lost:
            return
        directory = models_directory() if space.model == EMBEDDER else ""
        embedded = load_sample(directory, space) if directory else None
        if embedded is None:
            embedded = vectors.passages(sample_texts())
            if embedded is None:
                return  # the next prompts try again
            _LOG.info("%d texts of the sample are embedded in %s", len(embedded), space.id)
            if directory:
                save_sample(directory, space, embedded)
        _SAMPLES[space.id] = embedded

    def fit_for(self, tx: Tx, vectors: VectorSearch, user: str, new_prompts: int = 0) -> Whitening | None:
        """Return the transform for a user's prompts in a space; None while there is too little data.

        Args:
            new_prompts: number of prompts with a vector that are about to be placed.
        """
        key = vectors.space.id, user
        with self._lock:
            cached, erasures = self._whitenings.get(key), self._erasures
        sample = _SAMPLES.get(vectors.space.id)
        if cached is not None and cached.has_sample == (sample is not None):
            cached.added_prompts += new_prompts
            if not cached.is_due:
                return cached.whitening
        prompts = StoredVectors(tx).prompts(vectors.space.id, user, MAX_VECTORS)
        tables = [table for table in (sample, prompts) if table is not None and len(table)]
        whitening = Whitening.fit(np.concatenate(tables)) if tables else None
        fitted = _CachedWhitening(whitening, len(prompts), has_sample=sample is not None)
        with self._lock:
            if erasures == self._erasures:  # otherwise it may contain erased content
                self._whitenings[key] = fitted
        return fitted.whitening

    def clear(self) -> None:
        """Drop everything computed from prompts; call it when prompts are erased."""
        with self._lock:
            self._whitenings.clear()
            self._erasures += 1
