"""Events, projects and turns in the database.

An event is stored as received, after redaction. Its key makes it unique in its session, so a hook that sends twice or a
spool that is read twice changes nothing.

A turn is one verbatim message, stored once. The same message arrives twice: from the hook as it happens, and later from
the host's transcript. The hook's copy has the host's prompt id, the transcript's copy has a record id, and neither has
the other's. So a copy is recognised by session, role and text, and both ids are stored on one row.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal

from filrouge.capture.events import Event, event_from_json
from filrouge.capture.models import TRUST_TYPED, Turn
from filrouge.core.clock import add_seconds, from_epoch, from_text, to_text
from filrouge.core.protocols import Analyser, Tx
from filrouge.core.rows import fields_of, number_of, pick_columns
from filrouge.core.scope import Scope
from filrouge.projects.repository import Projects
from filrouge.runtime import journal
from filrouge.search.repository import FullTextIndex


def event_key(event: Event) -> str:
    """Return the host's own id of the event, else a hash that is the same for repeated deliveries."""
    if event.key:
        return event.key
    body = json.dumps([event.kind, event.agent, event.data], sort_keys=True, ensure_ascii=True, default=str)
    return f"{event.kind}:{event.id}:{hashlib.sha256(body.encode()).hexdigest()[:16]}"


class Events:
    """The table of events."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def add(self, event: Event, *, received_at: datetime) -> str | None:
        """Store an event; return its project's id (or ''), or None if it was already stored."""
        project = Projects(self._tx).resolve(event.project, at=received_at) or ""
        payload = event.to_json()
        sealed = journal.seal(payload)
        added = self._tx.run(
            "events.add",
            {
                "id": event.id,
                "key": event_key(event),
                "host": event.host,
                "session_id": event.session,
                "kind": event.kind,
                "project_id": project or None,
                "at": to_text(from_epoch(event.at)),
                "received_at": to_text(received_at),
                "payload": json.dumps(payload, ensure_ascii=True),
                "row_key": sealed.key,
                "row_hash": sealed.hash,
            },
        )
        return project if added else None

    def add_forgotten(self, event: Event, *, received_at: datetime) -> str | None:
        """Store an event that was forgotten before it arrived (again), without its content; same result as `add`."""
        project = self.add(event._replace(data={}), received_at=received_at)
        if project is not None:
            self._tx.run("events.erase", {"ids": json.dumps([event.id])})
        return project

    def get(self, event_id: str) -> tuple[Event, str] | None:
        """Return an event and its project's id (or ''), or None."""
        row = self._tx.one("events.get", {"id": event_id})
        return (event_from_json(json.loads(row["payload"])), row["project_id"] or "") if row else None

    def settle(self, event_id: str, state: str, reason: str = "") -> None:
        """Set the final state of an event: done, skipped (with the reason) or dead."""
        self._tx.run("events.settle", {"id": event_id, "state": state, "reason": reason})

    def ledger(self) -> dict[str, int]:
        """Return the number of events by state: received = queued + done + skipped + dead + forgotten."""
        counts = {row["state"]: int(row["n"]) for row in self._tx.all("events.ledger")}
        return {state: counts.get(state, 0) for state in ("queued", "done", "skipped", "dead", "forgotten")}

    def newest(
        self,
        *,
        before: int,
        limit: int,
        channel: str | None = None,
        outcome: Outcome | None = None,
        since: datetime | None = None,
    ) -> list[dict[str, Any]]:
        """Return the events before a number, newest first, each with its outcome and the memories it led to.

        Args:
            before: the number of the last event of the previous page.
            channel: only events of this host.
            outcome: only events with this outcome.
            since: only events that happened then or later.
        """
        page: dict[str, object] = {
            "before": before,
            "host": channel,
            "limit": limit,
            "since": to_text(since) if since else "",
        }
        if outcome is None:
            found = self._tx.all("events.page", page)
        else:
            found = [row for part in _PARTS[outcome] for row in self._tx.all("events.page_of_state", page | part)]
        seqs = sorted((row["seq"] for row in found), reverse=True)[:limit]
        rows = self._tx.all("events.shown", {"seqs": json.dumps(seqs), "characters": _EXCERPT_CHARS})
        ids = json.dumps([row["id"] for row in rows])
        learned = dict[str, list[dict[str, Any]]]()
        for memory in self._tx.all("events.learned", {"ids": ids, "characters": _EXCERPT_CHARS}):
            learned.setdefault(memory.pop("event_id"), []).append(memory)
        return [_with_outcome(row, learned.get(row["id"], [])) for row in rows]

    def received(self) -> int:
        """Return the highest event number; it equals the ledger's sum unless rows were lost."""
        return number_of(self._tx, "events.received")

    def abandoned(self) -> int:
        """Return how many events are queued without a job that would process them."""
        return number_of(self._tx, "events.abandoned")


Outcome = Literal["queued", "remembered", "read", "skipped", "dead", "forgotten"]
#: Characters of a turn or a memory that a list of events quotes.
_EXCERPT_CHARS: Final = 200
#: The events with each outcome, as parameters of `events.page_of_state`. The state `done` has three outcomes.
_PARTS: Final[Mapping[Outcome, Sequence[dict[str, object]]]] = {
    "queued": [{"state": "queued", "learned": None, "passed": None}],
    "remembered": [{"state": "done", "learned": True, "passed": None}],
    "read": [{"state": "done", "learned": False, "passed": False}],
    "skipped": [
        {"state": "skipped", "learned": None, "passed": None},
        {"state": "done", "learned": False, "passed": True},
    ],
    "dead": [{"state": "dead", "learned": None, "passed": None}],
    "forgotten": [{"state": "forgotten", "learned": None, "passed": None}],
}


def _with_outcome(row: Mapping[str, Any], memories: list[dict[str, Any]]) -> dict[str, Any]:
    """Return an event with its outcome as its state, and the reason for it."""
    shown = {name: value for name, value in row.items() if name != "passed_over"} | {"memories": memories}
    if row["state"] != "done":
        return shown
    if memories:
        return shown | {"state": "remembered"}
    return shown | {"state": "skipped" if row["passed_over"] else "read", "reason": row["passed_over"] or ""}


def event_intact(row: dict[str, Any]) -> bool:
    """Return True if the row's seal is valid."""
    try:
        return journal.matches_seal(row["row_key"], row["row_hash"], json.loads(row["payload"]))
    except ValueError:
        return False


#: Time window for equal prompts of two hosts: an editor may run another agent's hooks for the same prompt.
SAME_PROMPT_SECONDS = 10.0


def text_hash(text: str) -> str:
    """Return the SHA-256 of the text without outer white space."""
    return hashlib.sha256(text.strip().encode("utf-8", "surrogatepass")).hexdigest()


class Turns:
    """The table of turns."""

    def __init__(self, tx: Tx, analyser: Analyser) -> None:
        self._tx = tx
        self._analyser = analyser

    def add(self, turn: Turn, tokens: str | None = None) -> bool:
        """Store a turn that a hook reported; return False if it is already stored, from any source.

        A statement that the user made to Filrouge itself is stored every time, because no second host reports it.

        Args:
            tokens: the analyser's tokens of the text, if already computed.
        """
        digest = text_hash(turn.text)
        if self._tx.run("turns.claim_from_transcript", _identity_columns(turn) | {"text_hash": digest}):
            return False
        if turn.role == "user" and turn.trust < TRUST_TYPED and self._is_stored_from_another_host(turn, digest):
            return False
        return self._insert(turn, digest, transcript_key=None, tokens=tokens)

    def last_heard(self) -> dict[str, str]:
        """Return when the latest message of each host was said, tool output aside."""
        return {row["host"]: row["at"] for row in self._tx.all("turns.last_heard") if row["at"]}

    def add_from_transcript(self, turn: Turn) -> bool:
        """Store a turn from a transcript, with the record's id as `turn.key`; return False if it is already stored."""
        digest = text_hash(turn.text)
        names = _identity_columns(turn)
        if self._tx.one("turns.by_transcript_key", names):
            return False
        if self._tx.run("turns.claim_from_hook", names | {"text_hash": digest}):
            return False
        if turn.role == "user" and self._is_stored_from_another_host(turn, digest):
            return False
        return self._insert(turn, digest, transcript_key=turn.key)

    def raise_trust(self, turn: Turn) -> str | None:
        """Raise the trust of an imported turn to that of this one; return its id, or None if nothing changed."""
        rows = self._tx.all("turns.vouch", _identity_columns(turn) | {"trust": turn.trust})
        return str(rows[0]["id"]) if rows else None

    def restore(self, turn: Turn, transcript_key: str | None) -> bool:
        """Store a turn from an export, even if an equal one exists; return False if this one is already stored."""
        return self._insert(turn, text_hash(turn.text), transcript_key=transcript_key)

    def get(self, ids: Sequence[str]) -> list[Turn]:
        """Return the turns with these ids, in the given order."""
        return [turn_from_row(row) for row in self._tx.all("turns.get", {"ids": json.dumps(list(ids))})]

    def ids_of_session(self, session: str) -> frozenset[str]:
        """Return the ids of all turns of a session."""
        return frozenset(row["id"] for row in self._tx.all("turns.ids_of_session", {"session_id": session}))

    def uncited(self, ids: Sequence[str]) -> frozenset[str]:
        """Return those of these turns that no memory of any state cites and that no job is about to read."""
        return frozenset(row["id"] for row in self._tx.all("turns.proving_nothing", {"ids": json.dumps(list(ids))}))

    def skip(self, turn_id: str, reason: str) -> None:
        """Record why extraction skipped the turn."""
        self._tx.run("turns.skip", {"id": turn_id, "reason": reason})

    def answered_message(self, turn: Turn) -> Turn | None:
        """Return the agent's message right before this turn in its session, or None."""
        names = {"host": turn.host, "session_id": turn.scope.session, "at": to_text(turn.at)}
        row = self._tx.one("turns.before", names)
        return turn_from_row(row) if row is not None and row["role"] == "assistant" else None

    def last_user_texts(self, host: str, session: str, limit: int = 5) -> list[str]:
        """Return the session's most recent prompts, newest first."""
        rows = self._tx.all("turns.last_user_texts", {"host": host, "session_id": session, "limit": limit})
        return [row["text"] for row in rows]

    def last_user_texts_of_project(self, project: str | None, limit: int = 5) -> list[str]:
        """Return the project's most recent prompts, newest first."""
        rows = self._tx.all("turns.last_user_texts_of_project", {"project_id": project, "limit": limit})
        return [row["text"] for row in rows]

    def recent(self, channel: str, session: str | None, limit: int, *, user: str | None = None) -> list[dict[str, Any]]:
        """Return the latest messages of a channel, newest first, optionally of one session or user."""
        filters = {"channel": channel, "session_id": session, "user_id": user, "limit": limit}
        return self._tx.all("turns.recent", filters)

    def _is_stored_from_another_host(self, turn: Turn, digest: str) -> bool:
        return (
            self._tx.one(
                "turns.same_prompt",
                {
                    "project_id": turn.scope.project,
                    "host": turn.host,
                    "user_id": turn.scope.user,
                    "text_hash": digest,
                    "since": to_text(add_seconds(turn.at, -SAME_PROMPT_SECONDS)),
                    "until": to_text(add_seconds(turn.at, SAME_PROMPT_SECONDS)),
                },
            )
            is not None
        )

    def _insert(self, turn: Turn, digest: str, *, transcript_key: str | None, tokens: str | None = None) -> bool:
        sealed = journal.seal(_sealed_content(turn.id, turn.role, turn.text, turn.at))
        row = fields_of(turn, _SAME_NAMED_COLUMNS) | turn.scope.row()
        row |= {
            "transcript_key": transcript_key,
            "event_id": turn.event_id or None,
            "text_hash": digest,
            "analyser": self._analyser.version,
            "at": to_text(turn.at),
            "row_key": sealed.key,
            "row_hash": sealed.hash,
        }
        if not self._tx.run("turns.add", row):
            return False
        FullTextIndex(self._tx, self._analyser, "turn").put(turn.id, turn.text, tokens)
        return True


#: Columns that are named like the fields of a turn.
_SAME_NAMED_COLUMNS = ("id", "key", "host", "role", "source", "text", "trust", "skipped")


def turn_from_row(row: dict[str, Any]) -> Turn:
    """Build a turn from its row."""
    return Turn(
        **pick_columns(row, _SAME_NAMED_COLUMNS),
        scope=Scope.from_row(row),
        at=from_text(row["at"]),
        event_id=row["event_id"] or "",
    )


def _identity_columns(turn: Turn) -> dict[str, object]:
    return {**fields_of(turn, ("id", "key", "host", "role")), "session_id": turn.scope.session}


def _sealed_content(id_: str, role: str, text: str, at: datetime) -> dict[str, object]:
    return {"id": id_, "role": role, "text": text, "at": to_text(at)}


def turn_intact(row: dict[str, Any]) -> bool:
    """Return True if the row's seal is valid."""
    content = _sealed_content(row["id"], row["role"], row["text"], from_text(row["at"]))
    return journal.matches_seal(row["row_key"], row["row_hash"], content)
