"""Observe: take events in. They are acknowledged once they are on disk, and understood afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from filrouge.app.parts import Parts
from filrouge.capture.intake import cleaned
from filrouge.model.event import Event
from filrouge.ports import Tx
from filrouge.store.events import Events, Projects
from filrouge.store.jobs import Jobs

#: Hosts write their transcript a moment after they run the hook.
_TRANSCRIPT_LAG_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Receipt:
    """What became of a delivery.

    Attributes:
        projects: each event's project id, in their order; '' for none.
    """

    accepted: int
    duplicates: int
    projects: tuple[str, ...]


def observe(parts: Parts, events: Sequence[Event]) -> Future[Receipt]:
    """Store events; the future ends when they are on disk."""
    clean = [cleaned(event, parts.redact) for event in events]
    future = parts.writer.submit(lambda tx: _store(parts, tx, clean))
    future.add_done_callback(lambda _: parts.work_waiting.set())
    return future


def _store(parts: Parts, tx: Tx, events: Sequence[Event]) -> Receipt:
    now = parts.clock.now()
    store, jobs, projects = Events(tx), Jobs(tx), list[str]()
    duplicates = 0
    for event in events:
        project = store.add(event, received_at=now)
        if project is None:
            duplicates += 1
            projects.append(Projects(tx).find(event.project) or "")
            continue
        projects.append(project)
        jobs.enqueue("read_turns", {"event": event.id}, dedupe=f"read_turns:{event.id}", at=now)
        if event.transcript and event.kind in ("prompt", "reply", "pre_compact", "session_end"):
            place = {
                "path": event.transcript,
                "host": event.host,
                "session": event.session,
                "project": project,
            }
            # One waiting look serves all events before it; the last ones of a conversation get their own, because a
            # look that is running just then may have read too early.
            own = f":{event.id}" if event.kind in ("pre_compact", "session_end") else ""
            name = f"reconcile:{event.transcript}{own}"
            jobs.enqueue("reconcile", place, dedupe=name, at=now, delay=_TRANSCRIPT_LAG_SECONDS)
    return Receipt(accepted=len(events) - duplicates, duplicates=duplicates, projects=tuple(projects))
