"""Digests: the daemon analyses sessions by itself, when they end, are compacted, or fall silent.

One job a session, behind all other work; whatever else asks for it meanwhile is the same job. A session in which next
to nothing was said is marked as looked at and leaves no memory; when it goes on it is read from its beginning.
"""

from __future__ import annotations

import logging
from typing import Final

from filrouge.app.analysis import Material, gather, keep, prepare
from filrouge.app.every import Every
from filrouge.app.parts import Parts
from filrouge.app.regrouping import queue_quiet_places
from filrouge.app.store_context import StoreContext
from filrouge.app.syntheses import queue_quiet
from filrouge.app.worker import Outcome, Payload
from filrouge.clock import after
from filrouge.extraction.summaries import speaker_of
from filrouge.model.analysis import NOTHING, Analysis
from filrouge.ports import Tx
from filrouge.store.analyses import Analyses, Session
from filrouge.store.jobs import Jobs

_LOG = logging.getLogger(__name__)
#: Messages of the user or the agent that a session must hold to be summed up.
LEAST: Final = 2
#: A transcript is read two seconds after the event that tells of it.
AFTER_TRANSCRIPT_SECONDS: Final = 4.0
IDLE_SECONDS: Final = 15 * 60.0
_LOOK_SECONDS: Final = 60.0
#: So many turns are looked at for idle sessions: some days of one user's work.
_NEWEST, _AT_ONCE = 2000, 20


def queue_digest(parts: StoreContext, tx: Tx, session: Session, *, delay: float = 0.0) -> None:
    """Have a session analysed, once all that waits before it is done."""
    if session.id and parts.settings(tx).extract_provider != "off":
        work = {"host": session.host, "session": session.id}
        name = f"digest:{session.host}:{session.id}"
        Jobs(tx).enqueue("digest", work, dedupe=name, at=parts.clock.now(), delay=delay)


def digest(parts: Parts, payload: Payload) -> Outcome:
    """Analyse what is new in a session."""
    found = read_new(parts, Session(host=payload["host"], id=payload["session"]))
    if found is None:
        return Outcome(write=lambda _: None)

    def write(tx: Tx) -> None:
        keep(parts, tx, *found)

    return Outcome(write=write)


def read_new(parts: Parts, session: Session) -> tuple[Material, Analysis] | None:
    """Read what is new in a session, and what it comes to; None where nothing is new, or nothing is to be read."""
    material = parts.readers.here(lambda tx: gather(parts, tx, session))
    spoken = sum(speaker_of(turn) is not None for turn in material.turns)
    if not material.turns or not parts.extracting():
        return None
    too_little = spoken < LEAST and material.former == NOTHING
    return material, NOTHING if too_little else prepare(parts, material)


def queue_idle(parts: Parts) -> int:
    """Have those sessions analysed that fell silent, and say where their work stands; returns how many."""
    before = after(parts.clock.now(), -IDLE_SECONDS)
    queue_quiet(parts, before)
    queue_quiet_places(parts, before)
    sessions = parts.readers.here(lambda tx: Analyses(tx, parts.analyser).idle(before, newest=_NEWEST, limit=_AT_ONCE))
    if sessions:
        parts.writer.run(lambda tx: [queue_digest(parts, tx, session) for session in sessions])
        parts.work_waiting.set()
    return len(sessions)


def idle_watch(parts: Parts) -> Every:
    """Looks once a minute for sessions that fell silent."""
    return Every(_LOOK_SECONDS, lambda: queue_idle(parts), name="idle", failed="idle sessions could not be looked for")
