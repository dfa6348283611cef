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
from dataclasses import replace
from datetime import datetime
from threading import Event as Flag
from typing import Any, Final, cast, get_args

from filrouge._version import __version__
from filrouge.core import errors
from filrouge.core.clock import from_text, monotonic, to_text
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

_ALL: Final = ("equal", "sound", "seals", "journal")
#: Timeout: enough for a copy of several gigabytes on a slow disk.
_LONGEST_SECONDS: Final = 3600.0
_NICE: Final = 10
_LOOK_SECONDS: Final = 0.2


def back_up(home: str, kind: BackupKind, at: datetime, *, left: int = backup_files.LEAST_LEFT) -> Manifest:
    """Make a backup of the home's database in this process.

    Args:
        kind: `before-migration` verifies only equality, because this version does not know an older schema's seals.
        at: the time recorded in the backup.
        left: bytes that must stay free.

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
        backup_files.check_space(backup_files.folder(home), backup_files.bytes_of(database), left=left)
        temporary = backup_files.temporary_path(backup_files.folder(home))
        with on_failure(lambda: unlink_quietly(temporary)):
            held = copies.copy(database, temporary)
            about = Manifest(
                name=backup_files.free_name(home, at, kind),
                kind=kind,
                version=__version__,
                schema=held.schema,
                at=to_text(at),
                bytes=os.path.getsize(temporary),
                rows=held.rows,
                hash=held.hash,
                mark="" if kind == "before-migration" else _mark(temporary),
                verified=verify(temporary, held.hash, sealed=kind != "before-migration"),
            )
            backup_files.publish(temporary, backup_files.path_of(home, about.name), about)
    return about


def rewritten(path: str, new: str) -> Manifest | None:
    """Replace the backup at `path` with a rewritten file, verify it and update its manifest.

    Args:
        new: the file, in the same directory, without a log, of the present schema.

    Returns:
        The new manifest; None if the backup had none.

    Raises:
        Corrupt: the new file is damaged; the backup is unchanged.
        CannotWrite: the file cannot be put in its place.
    """
    about, held = backup_files.read_manifest(path), copies.content(new)
    verified = (*_ALL[:1], *verify(new, None))
    if about is None:
        with backup_files.translate_oserror(path):
            os.replace(new, path)
        return None
    about = replace(
        about, schema=held.schema, bytes=os.path.getsize(new), rows=held.rows, hash=held.hash, verified=verified
    )
    backup_files.publish(new, path, about)
    return about


def verify(path: str, expected: str | None, *, sealed: bool = True) -> tuple[str, ...]:
    """Verify a copy and return the passed checks: `equal` to its source, `sound`, every `seal`, the `journal`.

    Args:
        expected: hash of the source; None if unknown.
        sealed: also check the database, seals and journal, which needs the present schema.

    Raises:
        Corrupt: a check failed; the message says which.
    """
    remedy = "Run `filrouge doctor --deep`; older backups are untouched."
    if expected is not None and copies.content(path).hash != expected:
        raise Corrupt("The copy differs from its source.", remedy=remedy)
    held = _ALL[:1] if expected is not None else ()
    if not sealed:
        return held
    if found := copies.complaints(path):
        raise Corrupt(f"The memory database is damaged: {found[0]}.", remedy=remedy)
    database = Database(path, readonly=True)
    try:
        wrong = problems(database.tx)
    finally:
        database.close()
    if wrong:
        raise Corrupt(f"The memory database is damaged: {'; '.join(wrong)}.", remedy=remedy)
    return (*held, *_ALL[1:])


def run_in_subprocess(home: str, kind: BackupKind, at: datetime, leaving: Flag) -> Manifest:
    """Run `back_up` in a separate process and wait for it.

    Args:
        leaving: if set, the process is killed and the backup is abandoned.

    Raises:
        FilrougeError: as from `back_up`; `Busy` if the process was killed.
    """
    command = [sys.executable, "-P", "-m", __name__, home, kind, to_text(at)]
    try:
        process = subprocess.Popen(  # noqa: S603 (it is ourselves)
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
    except OSError as error:
        raise CannotWrite(f"No process can be made that makes backups: {error.strerror}.") from error
    with process:
        said = _said(process, leaving)
    if "error" in said:
        kept = getattr(errors, said["error"], FilrougeError) if said["error"] in errors.__all__ else FilrougeError
        raise kept(said["message"], remedy=said["remedy"])
    return backup_files.manifest_from_json(said)


def _said(process: subprocess.Popen[str], leaving: Flag) -> dict[str, Any]:
    """Wait for the process and return its output, parsed from JSON."""
    deadline = monotonic() + _LONGEST_SECONDS
    while True:
        try:
            out, _ = process.communicate(timeout=_LOOK_SECONDS)
            return dict(json.loads(out))
        except subprocess.TimeoutExpired:
            if leaving.is_set() or monotonic() > deadline:
                process.kill()
                raise Busy("The backup was cancelled because Filrouge is stopping.") from None
        except ValueError as error:
            raise CannotWrite("The backup process ended without a result.") from error


def main(words: list[str]) -> int:
    """Make one backup and print its manifest or the error as JSON."""
    home, kind, at = words
    if kind not in get_args(BackupKind):
        raise ValueError(f"no kind of backup: {kind}")
    with suppress(OSError):
        os.nice(_NICE)
    os.umask(0o077)
    said: dict[str, Any]
    try:
        said = back_up(home, cast("BackupKind", kind), from_text(at)).to_json()
    except FilrougeError as error:
        said = {"error": type(error).__name__, "message": error.message, "remedy": error.remedy}
    sys.stdout.write(json.dumps(said))
    return 0


def _mark(path: str) -> str:
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
_AGAIN_SECONDS: Final = _HOUR


def backup_now(parts: Parts) -> dict[str, Any]:
    """Make a backup now and return its manifest.

    Raises:
        FilrougeError: as from `back_up`.
    """
    return _made(parts, "hand").to_json()


def backup_report(home: str) -> dict[str, Any]:
    """Return every backup, newest first, the time of the newest good one, and the last failure, if any."""
    found, good = backup_files.listed(home), backup_files.newest(home)
    return {
        "backups": [one.to_json() | {"path": backup_files.path_of(home, one.name)} for one in found],
        "newest": good.at if good else None,
        "failed": backup_files.failure(home),
    }


def backup_summary(home: str) -> dict[str, Any]:
    """Return the same for a status, with the number of backups instead of the list."""
    found = backup_report(home)
    return found | {"backups": len(found["backups"])}


def back_up_if_due(parts: Parts) -> Manifest | None:
    """Make the scheduled backup and remove surplus ones; return None if none is due.

    Raises:
        FilrougeError: it failed; `status` and `doctor` report it until a backup succeeds.
    """
    settings, mark = parts.readers.here(lambda tx: (parts.settings(tx), progress(tx)))
    if not settings.backup_hours or not _is_due(parts, settings.backup_hours * _HOUR, mark):
        return None
    made = _made(parts, "scheduled")
    gone = backup_files.rotate(parts.home, keep=settings.backup_keep, weeks=settings.backup_keep_weeks)
    _LOG.info("backup %s, %d MB; %d older ones removed", made.name, made.bytes >> 20, len(gone))
    return made


def backup_watch(parts: Parts) -> PeriodicTask:
    """Return a periodic task that checks every five minutes whether a backup is due."""
    return PeriodicTask(
        _SCHEDULE_SECONDS, lambda: back_up_if_due(parts), name="backup", failure_message="the scheduled backup failed"
    )


def _made(parts: Parts, kind: backup_files.BackupKind) -> Manifest:
    try:
        made = run_in_subprocess(parts.home, kind, parts.clock.now(), parts.stopping)
    except (Busy, NotFound):
        raise  # neither is a fault of the memory or of the backup directory
    except FilrougeError as error:
        backup_files.note_failure(parts.home, to_text(parts.clock.now()), error.message)
        raise
    backup_files.forget_failure(parts.home)
    parts.bus.publish(BackupMade(name=made.name, bytes=made.bytes, at=made.at))
    return made


def _is_due(parts: Parts, seconds: float, mark: str) -> bool:
    """Return True if the last backup is old enough, something has changed since, and none failed recently."""
    now, last, failed = parts.clock.now(), backup_files.newest(parts.home), backup_files.failure(parts.home)
    if failed and (now - from_text(failed["at"])).total_seconds() < min(seconds, _AGAIN_SECONDS):
        return False
    if last is None:
        return bool(os.path.exists(inside(parts.home, DATABASE)) and any(word != "0" for word in mark.split()[:3]))
    return last.mark != mark and (now - from_text(last.at)).total_seconds() >= seconds
