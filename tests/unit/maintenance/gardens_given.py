"""What the tests of the garden begin with: sessions that nobody read, memories that say the same."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from filrouge.capture.events import Event
from filrouge.capture.service import store_events
from filrouge.core.protocols import Tx
from filrouge.core.scope import Scope, ScopeName
from filrouge.maintenance import garden_service
from filrouge.maintenance.garden_service import ConsolidationRuns
from filrouge.memories.models import Kind, Memory, Span, Statement
from filrouge.memories.repository import Origin
from filrouge.projects.repository import Projects
from filrouge.runtime.services import Parts
from filrouge.search.spaces import queue_vectors
from filrouge.testing import idle
from tests.support.given import event

THEN = datetime(2026, 3, 1, tzinfo=UTC)
PROJECT = "origin:forge.example/ana/shop"


def converse(parts: Parts, session: str, *said: str) -> None:
    """A session in which the user says these things, and an agent answers each."""
    events: list[Event] = []
    for text in said:
        events += [event(session=session, text=text), event("reply", session=session, text="Done, all tests pass.")]
    store_events(parts, events).result(60)


def known(
    parts: Parts,
    *texts: str,
    kind: Kind = "fact",
    project: str | None = PROJECT,
    user: str = "local",
    agent: str = "",
    trust: int = 2,
    at: datetime = THEN,
    scope: ScopeName = "project",
    **more: Any,
) -> list[str]:
    """Store statements as they are, compared with nothing, with their vectors; their ids."""

    def write(tx: Tx) -> list[str]:
        if project is not None:
            Projects(tx).resolve((project,), at=at)
        origin = Origin(scope=Scope(user=user, project=project, agent=agent, channel="claude-code"), trust=trust, at=at)
        ids = [
            parts.memories(tx)
            .add(Statement(kind=kind, text=text, span=Span(start=0, end=0), scope=scope, **more), origin, "given")
            .memory_id
            for text in texts
        ]
        for id_ in ids:
            queue_vectors(tx, "memory", id_, parts.clock.now())
        return ids

    ids = parts.writer.run(write)
    parts.work_waiting.set()
    idle(parts)
    return ids


def memory(parts: Parts, memory_id: str) -> Memory:
    return parts.readers.here(lambda tx: parts.memories(tx).get(memory_id))


def live(parts: Parts) -> list[str]:
    """The texts of what is believed, sorted."""
    found = parts.readers.here(lambda tx: parts.memories(tx).within(project=None, user="local", everywhere=True))
    return sorted(one.text for one in found)


def tended(parts: Parts) -> dict[str, Any]:
    """Tend the garden to its end; the run as its route tells it."""
    begun = garden_service.begin(parts)
    assert begun.garden_id is not None
    return over(parts, begun.garden_id)


def over(parts: Parts, garden_id: str, seconds: float = 30.0) -> dict[str, Any]:
    """Wait until a run is over; the run as its route tells it."""
    deadline = time.monotonic() + seconds
    while True:
        found = parts.readers.here(lambda tx: garden_service.run_to_json(tx, ConsolidationRuns(tx).get(garden_id)))
        if found["state"] != "running":
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.01)


def messages(parts: Parts, garden_id: str, after: int = 0) -> Sequence[dict[str, Any]]:
    """The messages of a run, as its route tells them."""
    return parts.readers.here(lambda tx: garden_service.progress(parts, tx, garden_id, after))["messages"]
