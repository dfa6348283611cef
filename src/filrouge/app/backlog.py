"""Backlog: what was left for the daemon while it was away.

Hooks that found no daemon wrote to the spool. Files are taken oldest first, and a file is removed only after
its events are on disk in the database; read twice, they are recognised.
"""

from __future__ import annotations

import logging
import os

from filrouge.app.every import Every
from filrouge.app.observe import observe
from filrouge.app.parts import Parts
from filrouge.capture import inbox
from filrouge.errors import Busy, CannotWrite, Corrupt
from filrouge.home import SPOOL, inside
from filrouge.model.event import Event, event_from_json

_LOG = logging.getLogger(__name__)
_LOOK_SECONDS = 1.0
#: A hook lives for a second at the most; a file it began longer ago than this stays as it is.
_ABANDONED_SECONDS = 60.0
#: Spool files that are taken in while somebody waits: a few milliseconds each.
_FEW = 32


def drain_spool(parts: Parts) -> int:
    """Take in every waiting spool file; returns how many events were new."""
    accepted = 0
    long_ago = parts.clock.now().timestamp() - _ABANDONED_SECONDS
    for path in inbox.waiting(inside(parts.home, SPOOL), abandoned_before=long_ago):
        try:
            accepted += _take_in(parts, path)
        except (CannotWrite, Corrupt, Busy):
            raise  # the database's trouble, not the file's: every file stays
        except OSError as error:
            _LOG.warning("spool file %s cannot be read: %s", os.path.basename(path), error)
        except Exception:  # one file that nobody can take in must not hold up those behind it
            _LOG.exception("spool file %s is set aside", os.path.basename(path))
            inbox.set_aside(path)
    return accepted


def take_in_few(parts: Parts) -> None:
    """Take in what hooks left a moment ago, while somebody waits for an answer; too many files are left lying."""
    waiting = inbox.waiting(inside(parts.home, SPOOL))
    try:
        for path in waiting if len(waiting) <= _FEW else ():
            _take_in(parts, path)
    except Exception:  # whoever drains the spool meets it again, and knows what to do with it
        _LOG.info("the spool was not taken in before a session's start", exc_info=True)


def _take_in(parts: Parts, path: str) -> int:
    spooled = inbox.read(path)
    if spooled.torn or spooled.bad:
        _LOG.warning("spool file %s: last record torn or %d bad", os.path.basename(path), spooled.bad)
    events = [event for raw in spooled.events if (event := _event(raw)) is not None]
    accepted = observe(parts, events).result().accepted if events else 0
    inbox.remove(path)
    return accepted


def spool_watch(parts: Parts) -> Every:
    """Looks for spool files once a second: a hook that gave up on a busy daemon leaves one behind."""
    failed = "the spool could not be drained; its files are kept"
    return Every(_LOOK_SECONDS, lambda: drain_spool(parts), name="spool", failed=failed)


def _event(raw: dict[str, object]) -> Event | None:
    try:
        return event_from_json(raw)
    except ValueError as error:
        _LOG.warning("a spooled event was dropped: %s", error)
        return None
