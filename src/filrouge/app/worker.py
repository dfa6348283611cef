"""The worker: one thread that takes jobs from the outbox and does them.

A handler prepares (reads, thinks, embeds) outside any transaction and returns what to write. Its writes and
the job's end are then one transaction, so being killed between any two instructions costs at most doing the
preparation again. If the lease was lost meanwhile, nothing is written.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from threading import Event as Flag
from threading import Thread
from typing import Any

from filrouge.app.parts import Parts
from filrouge.clock import from_text, new_id
from filrouge.errors import Busy, CannotWrite, FilrougeError
from filrouge.ports import Tx
from filrouge.store.events import Events
from filrouge.store.jobs import Job, Jobs

_LOG = logging.getLogger(__name__)
_LONGEST_REST_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What a handler wants written, and what to do once it is on disk.

    Attributes:
        again: asked after `write`: what is left of the work, which goes on behind what came up meanwhile; None = done.
    """

    write: Callable[[Tx], None]
    afterwards: Callable[[], None] = lambda: None
    again: Callable[[], Mapping[str, object] | None] = lambda: None


Handler = Callable[[Parts, Mapping[str, Any]], Outcome]


class Worker:
    """Runs until stopped. `handlers` is the table of job names."""

    def __init__(self, parts: Parts, handlers: Mapping[str, Handler]) -> None:
        self._parts = parts
        self._handlers = handlers
        # The pid alone would be the same again after a crash in a container, and the dead one's leases ours.
        self._name = f"worker-{os.getpid()}-{new_id(parts.clock.now())}"
        self._stopping = Flag()
        self._thread = Thread(target=self._work, name="filrouge-worker", daemon=True)

    def start(self) -> None:
        """Begin; what a dead worker held is taken over first."""
        self._thread.start()

    def stop(self) -> None:
        """Finish the job at hand, then end."""
        self._stopping.set()
        self._parts.work_waiting.set()
        if self._thread.is_alive():
            self._thread.join()

    def _work(self) -> None:
        in_order = False
        while not self._stopping.is_set():
            try:
                if not in_order:
                    self._parts.writer.run(self._put_in_order)
                    in_order = True
                if not self._one():
                    self._rest()
            except Exception:  # the loop outlives anything a job can throw
                _LOG.exception("the worker stumbled")
                in_order = False
                self._stopping.wait(1.0)

    def _put_in_order(self, tx: Tx) -> None:
        """Give back what a dead worker held, and what was in our own hands when we stumbled."""
        Jobs(tx).reclaim(self._name)
        Jobs(tx).release(self._name)

    def _one(self) -> bool:
        """Do the next job that is due; False if there is none."""
        parts = self._parts
        job = parts.writer.run(lambda tx: Jobs(tx).lease(self._name, parts.clock.now()))
        if job is None:
            return False
        try:
            outcome = self._handlers[job.kind](parts, job.payload)
            parts.writer.run(lambda tx: _finish(tx, job, outcome, parts.clock.now()))
        except CannotWrite:
            raise  # the disk's fault, not the job's: it keeps its attempts and is given back
        except Exception as error:
            self._fail(job, error)
        else:
            outcome.afterwards()
        return True

    def _fail(self, job: Job, error: Exception) -> None:
        _LOG.warning("job %s %s failed (attempt %d)", job.kind, job.id, job.attempts, exc_info=error)
        # The stored error names the kind of failure only: a message may quote what the user will forget.
        told = error.message if isinstance(error, FilrougeError) else type(error).__name__
        now = self._parts.clock.now()
        self._parts.writer.run(lambda tx: _set_back(tx, job, told, now))

    def _rest(self) -> None:
        due = self._parts.readers.here(lambda tx: Jobs(tx).next_due())
        seconds = _LONGEST_REST_SECONDS
        if due is not None:
            seconds = (from_text(due) - self._parts.clock.now()).total_seconds()
        self._parts.work_waiting.wait(min(max(seconds, 0.01), _LONGEST_REST_SECONDS))
        self._parts.work_waiting.clear()


def _finish(tx: Tx, job: Job, outcome: Outcome, now: datetime) -> None:
    outcome.write(tx)
    rest = outcome.again()
    if not (Jobs(tx).finish(job) if rest is None else Jobs(tx).again(job, rest, now)):
        raise Busy(f"The lease of job {job.id} ran out; its work is undone and left to whoever has it.")


def _set_back(tx: Tx, job: Job, error: str, now: datetime) -> None:
    dead = Jobs(tx).fail(job, error, now)
    event = job.payload.get("event")
    if dead and isinstance(event, str):
        Events(tx).settle(event, "dead", error)
