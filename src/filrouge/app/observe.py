"""Observe: take events in. They are acknowledged once they are on disk, and understood afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from filrouge.app.parts import Parts
from filrouge.capture.intake import Cut, cleaned
from filrouge.clock import monotonic
from filrouge.model.event import Event
from filrouge.model.scope import display_name
from filrouge.ports import Tx
from filrouge.store.events import Events, Projects
from filrouge.store.jobs import Jobs

#: Hosts write their transcript a moment after they run the hook.
_TRANSCRIPT_LAG_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Receipt:
    """What became of a delivery.

    Attributes:
        projects: each event's project id, in their order; '' for no project, None where capture is off.
        new: whether each event was stored now, in their order.
    """

    accepted: int
    duplicates: int
    projects: tuple[str | None, ...]
    new: tuple[bool, ...]


def observe(parts: Parts, events: Sequence[Event]) -> Future[Receipt]:
    """Store events; the future ends when they are on disk. Where capture is switched off nothing is stored.

    A hook obeys its switches by itself, but it reads a mirror of them, and not every program has our hook.
    """
    parts.captured = monotonic()
    directories = {event.cwd for event in events}
    settings = parts.readers.here(lambda tx: {cwd: parts.settings(tx, cwd) for cwd in directories})
    cut = Cut()
    clean = [
        (cleaned(event, parts.redact, cut), frozenset(held.disabled_projects)) if held.auto_capture else None
        for event in events
        for held in (settings[event.cwd],)
    ]
    parts.meters.cut(cut)
    future = parts.writer.submit(lambda tx: _store_all(parts, tx, clean))
    future.add_done_callback(lambda _: parts.work_waiting.set())
    return future


def _store_all(parts: Parts, tx: Tx, deliveries: Sequence[tuple[Event, frozenset[str]] | None]) -> Receipt:
    projects, new = list[str | None](), list[bool]()
    for delivery in deliveries:
        if delivery is None or _disabled(tx, *delivery):
            projects.append(None)
            new.append(False)
            continue
        event = delivery[0]
        project = _store(parts, tx, event)
        new.append(project is not None)
        projects.append(project if project is not None else Projects(tx).find(event.project) or "")
    known = len(projects) - projects.count(None)
    return Receipt(accepted=sum(new), duplicates=known - sum(new), projects=tuple(projects), new=tuple(new))


def _disabled(tx: Tx, event: Event, disabled: frozenset[str]) -> bool:
    """True where the user switched capture off for the event's project, by whatever name."""
    return is_off(tx, event.project, disabled)


def is_off(tx: Tx, names: tuple[str, ...], disabled: frozenset[str]) -> bool:
    """True where one of the names that the user switched off is one of this project."""
    if not disabled or not names:
        return False
    project = Projects(tx).find(names)
    aliases = Projects(tx).aliases(project) if project else []
    return bool(disabled & {*names, display_name(names), project or "", *aliases})


def _store(parts: Parts, tx: Tx, event: Event) -> str | None:
    """Store one event with the jobs that follow from it; its project's id, or None if it was stored before."""
    now, jobs = parts.clock.now(), Jobs(tx)
    passed = parts.gate.passed(tx, event)
    if passed is None:
        return Events(tx).add_forgotten(event, received_at=now)
    event = passed
    project = Events(tx).add(event, received_at=now)
    if project is None:
        return None
    jobs.enqueue("read_turns", {"event": event.id}, dedupe=f"read_turns:{event.id}", at=now)
    if event.transcript and event.kind in ("prompt", "reply", "pre_compact", "session_end"):
        place = {
            "path": event.transcript,
            "host": event.host,
            "session": event.session,
            "project": project,
            "cwd": event.cwd,
            "branch": event.branch,
        }
        # One waiting look serves all events before it; the last ones of a conversation get their own, because a
        # look that is running just then may have read too early.
        own = f":{event.id}" if event.kind in ("pre_compact", "session_end") else ""
        name = f"reconcile:{event.transcript}{own}"
        jobs.enqueue("reconcile", place, dedupe=name, at=now, delay=_TRANSCRIPT_LAG_SECONDS)
    return project
