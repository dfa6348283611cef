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
from typing import Any, cast

from filrouge.capture.events import Event, event_from_json
from filrouge.core.clock import from_text, to_text
from filrouge.core.protocols import Tx
from filrouge.extraction.repository import Session
from filrouge.memories.models import Evidence, Memory, Span
from filrouge.memories.repository import memory_from_row
from filrouge.threads.models import Point, Synthesis

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
            self._tx.run("syntheses.put", _row(one))

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


def _row(one: Synthesis) -> dict[str, object]:
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
