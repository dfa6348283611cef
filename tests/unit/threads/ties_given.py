"""Threads that are there, as the tests of bridges begin with them: rows with prompts, memories and vectors."""

from __future__ import annotations

import json
import math
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import numpy as np

from filrouge.capture.models import Turn
from filrouge.core.clock import new_id, to_text
from filrouge.core.paths import DATABASE, inside
from filrouge.core.scope import Scope
from filrouge.projects.repository import Projects
from filrouge.runtime import wiring
from filrouge.runtime.services import Parts
from filrouge.testing import ManualClock
from filrouge.threads.bridge_service import update_bridges
from tests.support.given import SHOP

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def write(home: str, sql: str, row: Mapping[str, Any]) -> None:
    """Run a statement on a home's database, as whoever keeps threads would."""
    connection: Any = apsw.Connection(inside(home, DATABASE))
    connection.set_busy_timeout(5000)
    connection.execute(sql, dict(row))
    connection.close()


def put_thread(
    home: str,
    space: str,
    id_: str,
    *,
    project: str | None,
    at: datetime,
    title: str = "",
    topics: Sequence[str] = (),
    parent: str | None = None,
    agent: str = "",
    state: str = "active",
    vector: Sequence[float] | None = None,
) -> None:
    """Store a thread, with a vector if it has one."""
    row = {
        "id": id_, "project": project, "title": title or f"Title of {id_}", "topics": json.dumps(list(topics)),
        "parent": parent, "at": to_text(at), "agent": agent, "state": state,
    }  # fmt: skip
    write(
        home,
        "INSERT INTO threads (id, project_id, title, topics, parent_id, opened_at, last_active, agent, state)"
        " VALUES (:id, :project, :title, :topics, :parent, :at, :at, :agent, :state)",
        row,
    )
    if vector is not None:
        blob = np.asarray(vector, dtype="<f2").tobytes()
        sql = "INSERT INTO thread_vectors (thread_id, space_id, vector) VALUES (:id, :space, :vector)"
        write(home, sql, {"id": id_, "space": space, "vector": blob})


@dataclass(kw_only=True)
class Workshop:
    """A store with projects and a clock, in which nothing runs by itself."""

    parts: Parts
    clock: ManualClock
    projects: dict[str, str] = field(default_factory=dict[str, str])

    def thread(self, id_: str, project: tuple[str, ...] = SHOP, *, at: float | None = None, **how: Any) -> str:
        """A thread whose vector, if it has one, points so many degrees away from the first axis."""
        vector = None
        if at is not None:
            rest = [0.0] * (self.parts.vectors.space.dimension - 2)
            vector = [math.cos(math.radians(at)), math.sin(math.radians(at)), *rest]
        now, space = self.clock.now(), self.parts.vectors.space.id
        put_thread(self.parts.home, space, id_, project=self.project(project), at=now, vector=vector, **how)
        return id_

    def project(self, names: tuple[str, ...]) -> str:
        found = self.parts.writer.run(lambda tx: Projects(tx).resolve(names, at=self.clock.now()))
        assert found
        return found

    def say(self, thread_id: str, text: str, project: tuple[str, ...] = SHOP, session: str = "s") -> str:
        """A prompt in a thread; its turn's id."""
        at, place = self.clock.now(), self.project(project)
        scope = Scope(project=place, channel="codex", session=session)
        turn = Turn(
            id=new_id(at),
            key=new_id(at),
            scope=scope,
            host="codex",
            role="user",
            source="prompt",
            text=text,
            at=at,
            trust=2,
        )
        self.parts.writer.run(lambda tx: self.parts.turns(tx).add(turn))
        row = {"turn": turn.id, "thread": thread_id, "at": to_text(at), "project": place, "day": to_text(at)[:10]}
        home = self.parts.home
        write(home, "INSERT INTO thread_turns (turn_id, thread_id, at) VALUES (:turn, :thread, :at)", row)
        write(home, "INSERT OR IGNORE INTO active_days (project_id, day) VALUES (:project, :day)", row)
        write(home, "UPDATE threads SET last_active = :at WHERE id = :thread", row)
        return turn.id

    def change(self, *thread_ids: str) -> None:
        """What follows from a change of threads."""
        for thread_id in thread_ids:
            self.parts.writer.run(update_bridges(self.parts, {"thread": thread_id}).write)


@contextmanager
def workshop(home: Path, **environ: str) -> Generator[Workshop]:
    """An empty store."""
    clock = ManualClock(NOON)
    names = {"FILROUGE_EMBEDDING_MODEL": "hashing", **environ}
    parts = wiring.build(str(home), environ=names, clock=clock)
    try:
        yield Workshop(parts=parts, clock=clock)
    finally:
        parts.readers.close()
        parts.writer.close()
