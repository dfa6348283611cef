"""Making, verifying and scheduling backups.

A backup is a copy of the database while it is in use; it counts as a backup only after it is verified. Copying and
verifying run in a separate process at low priority, because hashing rows in the daemon would delay its hooks:

    python -m filrouge.maintenance.backup_service HOME KIND MOMENT
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from contextlib import suppress
from datetime import datetime
from threading import Event as Flag
from typing import Any, Final, cast, get_args

from filrouge._version import __version__
from filrouge.core import errors
from filrouge.core.clock import Clock, from_text, monotonic, to_text
from filrouge.core.errors import Busy, CannotWrite, Corrupt, FilrougeError, NotFound
from filrouge.core.guard import on_failure
from filrouge.core.paths import DATABASE, inside, unlink_quietly
from filrouge.maintenance import backup_files, copies
from filrouge.maintenance.backup_files import BackupKind, Manifest
from filrouge.runtime.executors import PeriodicTask
from filrouge.runtime.feed_messages import BackupMade
from filrouge.runtime.services import Parts
from filrouge.runtime.soundness import problems, progress
from filrouge.runtime.sqlite import Database

_ALL_CHECKS: Final = ("equal", "sound", "seals", "journal")
#: Timeout: enough for a copy of several gigabytes on a slow disk.
_TIMEOUT_SECONDS: Final = 3600.0
_NICE: Final = 10
_POLL_SECONDS: Final = 0.2


def back_up(
    home: str, kind: BackupKind, at: datetime, *, reserved_bytes: int = backup_files.MIN_FREE_BYTES
) -> Manifest:
    """Make a backup of the home's database in this process.

    Args:
        kind: `before-migration` verifies only equality, because this version does not know an older schema's seals.
        at: the time recorded in the backup.
        reserved_bytes: bytes that must stay free.

    Raises:
        NotFound: there is no database.
        Busy: another backup is being made.
        CannotWrite: there is no room, or the directory cannot be written.
        Corrupt: the database is damaged; the copy is removed, older backups stay.
    """
    database = inside(home, DATABASE)
    if not os.path.exists(database):
        raise NotFound("There is no memory yet to back up.", remedy="It begins with the first hook or `remember`.")
    with backup_files.backup_lock(home):
        backup_files.check_space(
            backup_files.backup_directory(home), backup_files.database_size(database), reserved_bytes=reserved_bytes
        )
        temporary = backup_files.temporary_path(backup_files.backup_directory(home))
        with on_failure(lambda: unlink_quietly(temporary)):
            content = copies.copy(database, temporary)
            manifest = Manifest(
                name=backup_files.unused_name(home, at, kind),
                kind=kind,
                version=__version__,
                schema=content.schema,
                at=to_text(at),
                bytes=os.path.getsize(temporary),
                rows=content.rows,
                hash=content.hash,
                mark="" if kind == "before-migration" else _read_progress(temporary),
                verified=verify(temporary, content.hash, full=kind != "before-migration"),
            )
            backup_files.publish(temporary, backup_files.path_of(home, manifest.name), manifest)
    return manifest


def verify(path: str, expected: str | None, *, full: bool = True) -> tuple[str, ...]:
    """Verify a copy and return the passed checks: `equal` to its source, `sound`, every `seal`, the `journal`.

    Args:
        expected: hash of the source; None if unknown.
        full: also check the database, seals and journal, which needs the present schema.

    Raises:
        Corrupt: a check failed; the message says which.
    """
    remedy = "Run `filrouge doctor --deep`; older backups are untouched."
    if expected is not None and copies.content(path).hash != expected:
        raise Corrupt("The copy differs from its source.", remedy=remedy)
    passed = _ALL_CHECKS[:1] if expected is not None else ()
    if not full:
        return passed
    if damage := copies.integrity_errors(path):
        raise Corrupt(f"The memory database is damaged: {damage[0]}.", remedy=remedy)
    database = Database(path, readonly=True)
    try:
        faults = problems(database.tx)
    finally:
        database.close()
    if faults:
        raise Corrupt(f"The memory database is damaged: {'; '.join(faults)}.", remedy=remedy)
    return (*passed, *_ALL_CHECKS[1:])


def run_in_subprocess(home: str, kind: BackupKind, at: datetime, stopping: Flag) -> Manifest:
    """Run `back_up` in a separate process and wait for it.

    Args:
        stopping: if set, the process is killed and the backup is abandoned.

    Raises:
        FilrougeError: as from `back_up`; `Busy` if the process was killed.
    """
    command = [sys.executable, "-P", "-m", __name__, home, kind, to_text(at)]
    try:
        process = subprocess.Popen(  # noqa: S603 (our own interpreter)
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
    except OSError as error:
        raise CannotWrite(f"The backup process cannot be started: {error.strerror}.") from error
    with process:
        result = _read_result(process, stopping)
    if "error" in result:
        error_class = (
            getattr(errors, result["error"], FilrougeError) if result["error"] in errors.__all__ else FilrougeError
        )
        raise error_class(result["message"], remedy=result["remedy"])
    return backup_files.manifest_from_json(result)


def _read_result(process: subprocess.Popen[str], stopping: Flag) -> dict[str, Any]:
    """Wait for the process and return its output, parsed from JSON."""
    deadline = monotonic() + _TIMEOUT_SECONDS
    while True:
        try:
            out, _ = process.communicate(timeout=_POLL_SECONDS)
            return dict(json.loads(out))
        except subprocess.TimeoutExpired:
            if stopping.is_set() or monotonic() > deadline:
                process.kill()
                raise Busy("The backup was cancelled because Filrouge is stopping.") from None
        except ValueError as error:
            raise CannotWrite("The backup process ended without a result.") from error


def main(arguments: list[str]) -> int:
    """Make one backup and print its manifest or the error as JSON."""
    home, kind, at = arguments
    if kind not in get_args(BackupKind):
        raise ValueError(f"not a kind of backup: {kind}")
    with suppress(OSError):
        os.nice(_NICE)
    os.umask(0o077)
    result: dict[str, Any]
    try:
        result = back_up(home, cast("BackupKind", kind), from_text(at)).to_json()
    except FilrougeError as error:
        result = {"error": type(error).__name__, "message": error.message, "remedy": error.remedy}
    sys.stdout.write(json.dumps(result))
    return 0


def _read_progress(path: str) -> str:
    database = Database(path, readonly=True)
    try:
        return progress(database.tx)
    finally:
        database.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))


_LOG = logging.getLogger(__name__)
_SCHEDULE_SECONDS: Final = 300.0
_HOUR: Final = 3600.0
#: Delay before a failed backup is tried again.
_RETRY_SECONDS: Final = _HOUR


def backup_now(parts: Parts) -> dict[str, Any]:
    """Make a backup now and return its manifest.

    Raises:
        FilrougeError: as from `back_up`.
    """
    return _make_and_publish(parts, "hand").to_json()


def backup_report(home: str) -> dict[str, Any]:
    """Return every backup, newest first, the time of the newest good one, and the last failure, if any."""
    manifests, newest = backup_files.list_backups(home), backup_files.newest(home)
    return {
        "backups": [manifest.to_json() | {"path": backup_files.path_of(home, manifest.name)} for manifest in manifests],
        "newest": newest.at if newest else None,
        "failed": backup_files.last_failure(home),
    }


def backup_summary(home: str) -> dict[str, Any]:
    """Return the same for a status, with the number of backups instead of the list."""
    report = backup_report(home)
    return report | {"backups": len(report["backups"])}


def back_up_if_due(parts: Parts) -> Manifest | None:
    """Make the scheduled backup and remove surplus ones; return None if none is due.

    Raises:
        FilrougeError: it failed; `status` and `doctor` report it until a backup succeeds.
    """
    settings, mark = parts.readers.here(lambda tx: (parts.settings(tx), progress(tx)))
    if not settings.backup_hours or not _is_due(parts.clock, parts.home, settings.backup_hours * _HOUR, mark):
        return None
    manifest = _make_and_publish(parts, "scheduled")
    removed = backup_files.rotate(parts.home, keep=settings.backup_keep, weeks=settings.backup_keep_weeks)
    _LOG.info("backup %s, %d MB; %d older ones removed", manifest.name, manifest.bytes >> 20, len(removed))
    return manifest


def backup_watch(parts: Parts) -> PeriodicTask:
    """Return a periodic task that checks every five minutes whether a backup is due."""
    return PeriodicTask(
        _SCHEDULE_SECONDS, lambda: back_up_if_due(parts), name="backup", failure_message="the scheduled backup failed"
    )


def _make_and_publish(parts: Parts, kind: backup_files.BackupKind) -> Manifest:
    try:
        manifest = run_in_subprocess(parts.home, kind, parts.clock.now(), parts.stopping)
    except (Busy, NotFound):
        raise  # neither is a fault of the memory or of the backup directory
    except FilrougeError as error:
        backup_files.record_failure(parts.home, to_text(parts.clock.now()), error.message)
        raise
    backup_files.clear_failure(parts.home)
    parts.bus.publish(BackupMade(name=manifest.name, bytes=manifest.bytes, at=manifest.at))
    return manifest


def _is_due(clock: Clock, home: str, seconds: float, mark: str) -> bool:
    """Return True if the last backup is old enough, something has changed since, and none failed recently."""
    now, last, failed = clock.now(), backup_files.newest(home), backup_files.last_failure(home)
    if failed and (now - from_text(failed["at"])).total_seconds() < min(seconds, _RETRY_SECONDS):
        return False
    if last is None:
        return bool(os.path.exists(inside(home, DATABASE)) and any(word != "0" for word in mark.split()[:3]))
    return last.mark != mark and (now - from_text(last.at)).total_seconds() >= seconds
