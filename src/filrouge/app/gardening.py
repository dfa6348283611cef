"""Tending the garden: what was said and learned is consolidated step by step, while everything else goes on (GARD-1).

A run is planned first and kept with its steps. The job `garden` stands behind all other work and does one step each
time it is taken up: prepared outside any transaction, its effects, its mark and its counts written in one. So a process
may end between any two instructions, and the run goes on where it was; what it came to is the sum over its steps. What
comes up meanwhile is the next run's.

A step that fails by itself is counted and passed over. Progress is published once a step is on disk; as it is a
function of the steps that are done, whoever asks later is told the same.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from filrouge.app.garden_looking import compared, unread_sessions
from filrouge.app.garden_works import DOERS, FINDERS, Counts, Effects
from filrouge.app.parts import Parts
from filrouge.app.topics import language_of
from filrouge.app.worker import Outcome
from filrouge.clock import new_id, to_text
from filrouge.errors import CannotWrite
from filrouge.garden.plan import GardenPlan, estimate, in_order
from filrouge.garden.progress import PHASE_OF, MemoryProgress, completed, kinds_of, label, message, messages
from filrouge.model.garden import KINDS, Garden, GardenStep, Occasion
from filrouge.model.when import Language
from filrouge.ports import Tx
from filrouge.store.gardens import Gardens
from filrouge.store.jobs import Jobs

_LOG = logging.getLogger(__name__)
GARDEN: Final = "garden"
_FILLING_SECONDS: Final = 20.0
#: What a run is said to have failed of whose job is no more.
_LOST: Final = "Its job was lost, or set aside after too many tries."


@dataclass(frozen=True, kw_only=True, slots=True)
class Begun:
    """A plan, and the run that was begun with it; None where there was nothing to do."""

    plan: GardenPlan
    garden_id: str | None


def plan(parts: Parts) -> GardenPlan:
    """What a run would do now; right after a start it waits for the index in memory, some seconds at the most."""
    parts.meaning.ready.wait(_FILLING_SECONDS)
    return parts.readers.here(lambda tx: _plan(parts, tx))


def begin(parts: Parts, occasion: Occasion = "hand") -> Begun:
    """Plan a run and begin it; it goes on in the background.

    Raises:
        Busy: one is at work already.
    """
    found, garden_id = plan(parts), new_id(parts.clock.now())

    def write(tx: Tx) -> None:
        now = parts.clock.now()
        end_lost(parts, tx)
        steps = [GardenStep(place=n, kind=one.kind, subject=one.subject) for n, one in enumerate(found.steps)]
        Gardens(tx).begin(garden_id, occasion, found.kept(), steps, now)
        Jobs(tx).enqueue(GARDEN, {"garden": garden_id}, dedupe=GARDEN, at=now)

    def note(tx: Tx) -> None:
        """A run without a step: the next one goes on behind what was compared for this."""
        if Gardens(tx).running() is None and found.memories_until > _compared_until(tx):
            now = parts.clock.now()
            Gardens(tx).begin(garden_id, occasion, found.kept(), [], now)
            Gardens(tx).end(garden_id, now)

    if not found.steps:
        parts.writer.run(note)
        return Begun(plan=found, garden_id=None)
    parts.writer.run(write)
    parts.work_waiting.set()
    return Begun(plan=found, garden_id=garden_id)


def tend(parts: Parts, payload: Mapping[str, Any]) -> Outcome:
    """The job: do the next step of a run, or end it where none is left."""
    garden_id = str(payload["garden"])
    garden, step = parts.readers.here(lambda tx: (Gardens(tx).get(garden_id), Gardens(tx).next(garden_id)))
    if garden.state != "running":
        return Outcome(write=lambda _: None)
    return _ended(parts, garden) if step is None else _done(parts, garden, step)


def end_lost(parts: Parts, tx: Tx) -> None:
    """End a run whose job is no more, so that another may begin."""
    garden = Gardens(tx).running()
    if garden is not None and (error := _trouble(tx)):
        Gardens(tx).end(garden.id, parts.clock.now(), error=error)


def described(tx: Tx, garden: Garden) -> dict[str, Any]:
    """A run for programs: how far it is, and what it came to so far."""
    gardens = Gardens(tx)
    trouble = _trouble(tx) if garden.state == "running" else ""
    if trouble:
        garden = gardens.get(garden.id)  # its job is gone where it ended since it was read
    is_running, is_over = garden.state == "running", garden.state == "completed"
    error = (trouble if is_running else "") or garden.error
    return {
        "id": garden.id,
        "occasion": garden.occasion,
        "state": "failed" if error else garden.state,
        "error": error,
        "started_at": to_text(garden.started_at),
        "ended_at": to_text(garden.ended_at) if garden.ended_at else None,
        "counts": dict(garden.counts),
        "steps": {"done": garden.steps if is_over else gardens.done_of(garden.id, KINDS), "total": garden.steps},
        "totals": gardens.totals(garden.id) if is_running else dict(garden.totals),
    }


def progress(parts: Parts, tx: Tx, garden_id: str, after: int) -> dict[str, Any]:
    """The messages of a run behind the first `after` of them, as they went over the wire, each with its label.

    Raises:
        NotFound: naming the id.
    """
    gardens = Gardens(tx)
    garden, language = gardens.get(garden_id), language_of(parts, tx)
    found = [one.to_json() for one in messages(garden, gardens.done(garden_id))]
    told = [one | {"label": label(one["payload"], language)} for one in found[after:]]
    return {"garden": described(tx, garden), "messages": told, "next": len(found)}


def language_shown(parts: Parts) -> Language:
    """The language in which plans are shown."""
    return parts.readers.here(lambda tx: language_of(parts, tx))


def _plan(parts: Parts, tx: Tx) -> GardenPlan:
    sessions, left = unread_sessions(parts, tx)
    others = compared(parts, tx, _compared_until(tx))
    found = in_order([*sessions, *others.steps, *(step for finder in FINDERS for step in finder(parts, tx))])
    return GardenPlan(
        steps=found,
        estimate=estimate(found, Gardens(tx).seconds()),
        memories_until=others.until,
        left=left + others.left,
    )


def _compared_until(tx: Tx) -> int:
    """The number of the last memory that a completed run compared with others."""
    last = Gardens(tx).last_completed()
    return last.memories_until if last else 0


def _done(parts: Parts, garden: Garden, step: GardenStep) -> Outcome:
    try:
        prepared = DOERS[step.kind](parts, step.subject)
    except CannotWrite:
        raise
    except Exception as error:  # one session that cannot be read holds up neither the others nor the run
        _LOG.warning("step %d (%s) of the garden %s is passed over", step.place, step.kind, garden.id, exc_info=error)
        prepared = Effects(write=_failed)
    told = list[MemoryProgress]()

    def write(tx: Tx) -> None:
        counts = prepared.write(tx)
        if counts is not None:
            gardens = Gardens(tx)
            gardens.mark(garden.id, step.place, {name: n for name, n in counts.items() if n}, parts.clock.now())
            told[:] = [message(garden, step, gardens.done_of(garden.id, kinds_of(PHASE_OF[step.kind])))]

    def afterwards() -> None:
        prepared.afterwards()
        _publish(parts, told)

    return Outcome(write=write, afterwards=afterwards, again=lambda: {"garden": garden.id})


def _failed(_: Tx) -> Counts:
    return {"failed": 1}


def _ended(parts: Parts, garden: Garden) -> Outcome:
    told = list[MemoryProgress]()

    def write(tx: Tx) -> None:
        Gardens(tx).end(garden.id, parts.clock.now())
        told[:] = [completed(Gardens(tx).get(garden.id))]

    return Outcome(write=write, afterwards=lambda: _publish(parts, told))


def _publish(parts: Parts, told: Sequence[MemoryProgress]) -> None:
    for one in told:
        parts.bus.publish(one)


def _trouble(tx: Tx) -> str:
    """Why the run at work will not go on; empty while it will."""
    known = Jobs(tx).known_as(GARDEN)
    if known is None:
        return _LOST
    return str(known["error"] or _LOST) if known["state"] == "dead" else ""
