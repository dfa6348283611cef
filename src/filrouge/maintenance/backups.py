"""Backups in the course of things: when the next one is due, which go, and what is said of them."""

from __future__ import annotations

import logging
import os
from typing import Any, Final

from filrouge.core.clock import from_text, to_text
from filrouge.core.errors import Busy, FilrougeError, NotFound
from filrouge.core.paths import DATABASE, inside
from filrouge.maintenance import backup_files
from filrouge.maintenance.backup_files import Manifest
from filrouge.maintenance.backup_service import in_a_process
from filrouge.runtime.feed_messages import BackupMade
from filrouge.runtime.services import Parts
from filrouge.runtime.signals import Every
from filrouge.runtime.soundness import progress

_LOG = logging.getLogger(__name__)
_LOOK_SECONDS: Final = 300.0
_HOUR: Final = 3600.0
#: A backup that failed is tried again so much later, not at every look.
_AGAIN_SECONDS: Final = _HOUR


def by_hand(parts: Parts) -> dict[str, Any]:
    """Make a backup now; what it holds.

    Raises:
        FilrougeError: as `back_up` does.
    """
    return _made(parts, "hand").to_json()


def described(home: str) -> dict[str, Any]:
    """Every backup, newest first; when the newest good one was made; and how the last one failed, if it did."""
    found, good = backup_files.listed(home), backup_files.newest(home)
    return {
        "backups": [one.to_json() | {"path": backup_files.path_of(home, one.name)} for one in found],
        "newest": good.at if good else None,
        "failed": backup_files.failure(home),
    }


def in_brief(home: str) -> dict[str, Any]:
    """The same for a status: how many there are instead of each."""
    found = described(home)
    return found | {"backups": len(found["backups"])}


def back_up_if_due(parts: Parts) -> Manifest | None:
    """Make the scheduled backup, and let go of those that are too many; None where none is due.

    Raises:
        FilrougeError: it failed, which `status` and `doctor` say until one succeeds.
    """
    settings, mark = parts.readers.here(lambda tx: (parts.settings(tx), progress(tx)))
    if not settings.backup_hours or not _is_due(parts, settings.backup_hours * _HOUR, mark):
        return None
    made = _made(parts, "scheduled")
    gone = backup_files.rotate(parts.home, keep=settings.backup_keep, weeks=settings.backup_keep_weeks)
    _LOG.info("backup %s, %d MB; %d older ones removed", made.name, made.bytes >> 20, len(gone))
    return made


def backup_watch(parts: Parts) -> Every:
    """Looks every five minutes whether a backup is due."""
    return Every(_LOOK_SECONDS, lambda: back_up_if_due(parts), name="backup", failed="the scheduled backup failed")


def _made(parts: Parts, kind: backup_files.Kind) -> Manifest:
    try:
        made = in_a_process(parts.home, kind, parts.clock.now(), parts.leaving)
    except (Busy, NotFound):
        raise  # nothing is wrong with the memory or its place
    except FilrougeError as error:
        backup_files.note_failure(parts.home, to_text(parts.clock.now()), error.message)
        raise
    backup_files.forget_failure(parts.home)
    parts.bus.publish(BackupMade(name=made.name, bytes=made.bytes, at=made.at))
    return made


def _is_due(parts: Parts, seconds: float, mark: str) -> bool:
    """True where so long ago nothing was backed up, something has changed since, and none failed just now."""
    now, last, failed = parts.clock.now(), backup_files.newest(parts.home), backup_files.failure(parts.home)
    if failed and (now - from_text(failed["at"])).total_seconds() < min(seconds, _AGAIN_SECONDS):
        return False
    if last is None:
        return bool(os.path.exists(inside(parts.home, DATABASE)) and any(word != "0" for word in mark.split()[:3]))
    return last.mark != mark and (now - from_text(last.at)).total_seconds() >= seconds
