"""Backup files: copying a live database, manifests, rotation, replacing the database, and detecting damage.

A backup is `FILROUGE_HOME/backups/NAME.db`, a whole database in one file, with its manifest `NAME.json`. The manifest
records version, schema, time, row counts and a hash, and which checks passed; it holds no user text. A backup is
written under a temporary name and renamed only after it is verified, so a file with a backup's name is complete.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any, Final, Literal

from filrouge.core.clock import from_text
from filrouge.core.errors import Busy, CannotWrite, NotFound
from filrouge.core.paths import BACKUPS, BRIEFS, DATABASE, WORD_INDEXES, inside, make_private, sync

# File helpers: free space, copies, fsync, and errors with a remedy.

#: Prefix of a file while it is being written.
NEW: Final = ".new-"
#: Suffixes of the files that SQLite keeps beside a database.
LOGS: Final = ("-wal", "-shm", "-journal")


@contextmanager
def translate_oserror(path: str) -> Generator[None]:
    """Turn an `OSError` while writing a path into `CannotWrite`."""
    try:
        yield
    except OSError as error:
        raise CannotWrite(f"{error.filename or path} cannot be written: {error.strerror}.") from error


def check_space(directory: str, wanted: int, *, left: int = 0) -> None:
    """Raise `CannotWrite` unless a directory has room for `wanted` bytes and `left` bytes stay free."""
    there = directory
    while not os.path.exists(there):
        there = os.path.dirname(there)
    free = shutil.disk_usage(there).free
    if free < wanted + left:
        raise CannotWrite(
            f"A copy of the memory takes {_megabytes(wanted)} in {directory}, and {_megabytes(free)} are free"
            + (f", of which {_megabytes(left)} are left to capture." if left else "."),
            remedy="Free some space, for example by deleting old files in the `backups` directory.",
        )


def bytes_of(database: str) -> int:
    """Return the size of a database with its log; 0 if there is none."""
    return sum(size_of(f"{database}{suffix}") for suffix in ("", "-wal"))


def remove_database(path: str) -> None:
    """Remove a database and its logs, if present."""
    for suffix in ("", *LOGS):
        with suppress(FileNotFoundError):
            os.unlink(path + suffix)


def temporary_path(directory: str, suffix: str = ".db") -> str:
    """Return an unused temporary path in a directory; a later cleanup removes it unless it is renamed."""
    return os.path.join(directory, f"{NEW}{secrets.token_hex(8)}{suffix}")


def private_copy(source: str, target: str) -> bytes:
    """Copy a file to one that only this user can read, and sync it; return the SHA-256 of what was read."""
    digest = hashlib.sha256()
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(source, "rb") as read, os.fdopen(handle, "wb") as write:
        while piece := read.read(1 << 20):
            digest.update(piece)
            write.write(piece)
        write.flush()
        os.fsync(write.fileno())
    return digest.digest()


def size_of(path: str) -> int:
    """Return the size of a file in bytes; 0 if there is none."""
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0


def _megabytes(size: int) -> str:
    return f"{-(-size // (1 << 20))} MB"


# Backups and their manifests.

BackupKind = Literal["scheduled", "hand", "before-restore", "before-migration", "damaged"]
#: Bytes that a backup leaves free, so that capture continues.
LEAST_LEFT: Final = 200 << 20
_NAME: Final = re.compile(r"\d{8}T\d{6}Z-(scheduled|hand|before-restore|before-migration|damaged)(-\d+)?")
_LOCK: Final = ".lock"
#: Stored in the home itself, because an unwritable backup directory is one of the failures.
_FAILURE: Final = "backup.error"
#: Backups made before a change that are kept, per kind.
_KEPT_OF_KIND: Final = 2
_WEEK_SECONDS: Final = 7 * 86_400.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """The content of a backup, and which checks it passed.

    Attributes:
        at: when the backup began.
        rows: number of rows per table.
        hash: over all rows of all tables.
        mark: progress of the memory; a later backup with the same mark would hold nothing new.
        verified: passed checks: `equal` to its source, `sound` by SQLite's checks, every `seal`, the `journal`'s chain.
    """

    name: str
    kind: BackupKind
    version: str
    schema: int
    at: str
    bytes: int
    rows: Mapping[str, int]
    hash: str
    mark: str
    verified: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the manifest as in the API and in the file."""
        return asdict(self) | {"verified": list(self.verified)}


def manifest_from_json(about: Mapping[str, Any]) -> Manifest:
    """Return the manifest that `to_json` wrote.

    Raises:
        KeyError, TypeError: the document is not a manifest.
    """
    known: dict[str, Any] = {field.name: about[field.name] for field in fields(Manifest)}
    known["verified"] = tuple(about["verified"])
    return Manifest(**known)


def folder(home: str) -> str:
    """Return the backup directory of a home."""
    return os.path.join(home, BACKUPS)


def path_of(home: str, name: str) -> str:
    """Return the path of a backup's database."""
    return os.path.join(folder(home), f"{name}.db")


def is_name(word: str) -> bool:
    """Return True if the word has the form of a backup's name."""
    return _NAME.fullmatch(word) is not None


def listed(home: str) -> list[Manifest]:
    """Return every backup with a manifest, newest first."""
    found = [manifest(home, name) for name in _names(home)]
    return sorted((one for one in found if one), key=lambda one: (one.at, one.name), reverse=True)


def manifest(home: str, name: str) -> Manifest | None:
    """Return the manifest of a backup; None if file or manifest is missing, unreadable or of another size."""
    return read_manifest(path_of(home, name))


def read_manifest(path: str) -> Manifest | None:
    """Return the manifest beside a backup file in any directory, or None."""
    try:
        with open(f"{path.removesuffix('.db')}.json", encoding="utf-8") as file:
            about: dict[str, Any] = json.load(file)
        found = manifest_from_json(about)
        return found if os.path.getsize(path) == found.bytes else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def newest(home: str, *, kinds: Collection[BackupKind] = ("scheduled", "hand", "before-restore")) -> Manifest | None:
    """Return the newest backup that passed all checks, or None."""
    return next((one for one in listed(home) if one.kind in kinds and "journal" in one.verified), None)


def find(home: str, what: str) -> str:
    """Return the file of the backup that a user names: a backup's name, `latest`, or a path.

    Raises:
        NotFound: there is no such backup.
    """
    remedy = "See the backups in `filrouge backup --list`."
    if what == "latest":
        last = newest(home)
        if last is None:
            raise NotFound("There is no backup yet.", remedy="Make one with `filrouge backup`.")
        return path_of(home, last.name)
    path = path_of(home, what) if is_name(what) else os.path.abspath(os.path.expanduser(what))
    if not os.path.isfile(path):
        raise NotFound(f"There is no backup {what}.", remedy=remedy)
    return path


@contextmanager
def backup_lock(home: str) -> Generator[None]:
    """Hold the backup lock; first remove what an interrupted backup left behind.

    Raises:
        Busy: a backup is being made.
        CannotWrite: the directory cannot be made or written.
    """
    with translate_oserror(folder(home)):
        make_private(home)
        os.makedirs(folder(home), mode=0o700, exist_ok=True)
        os.chmod(folder(home), 0o700)
        handle = os.open(os.path.join(folder(home), _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Busy("A backup is being made.", remedy="See `filrouge backup --list` in a moment.") from error
        _clear(home)
        yield
    finally:
        os.close(handle)


def free_name(home: str, at: datetime, kind: BackupKind) -> str:
    """Return an unused backup name that sorts by time."""
    plain, number = f"{at:%Y%m%dT%H%M%SZ}-{kind}", 1
    name = plain
    while os.path.exists(path_of(home, name)):
        number += 1
        name = f"{plain}-{number}"
    return name


def publish(temporary: str, path: str, about: Manifest) -> None:
    """Rename a verified file to its path, after writing its manifest, so that a backup always has one."""
    with translate_oserror(path):
        describe(path, about)
        os.replace(temporary, path)
        sync(os.path.dirname(path))


def describe(path: str, about: Manifest) -> None:
    """Write the manifest of the file at `path`.

    Raises:
        CannotWrite: it cannot be written; the former manifest stays.
    """
    with translate_oserror(path):
        handle, new = tempfile.mkstemp(dir=os.path.dirname(path), prefix=NEW)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(about.to_json(), file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, f"{path.removesuffix('.db')}.json")
        sync(os.path.dirname(path))


def copy_out(home: str, name: str, to: str) -> None:
    """Copy a backup and its manifest to another path, and verify the copy by its hash.

    Raises:
        CannotWrite: it cannot be written there; nothing is left behind.
    """
    source, target = path_of(home, name), os.path.abspath(to)
    check_space(os.path.dirname(target), size_of(source))
    temporary = temporary_path(os.path.dirname(target))
    about = manifest(home, name)
    try:
        with translate_oserror(target):
            written = private_copy(source, temporary)
            with open(temporary, "rb") as file:
                if hashlib.file_digest(file, "sha256").digest() != written:
                    raise CannotWrite(f"{target} is not what was written to it.", remedy="Check that disk.")
        if about is not None:
            publish(temporary, target, about)
    finally:
        with suppress(OSError):
            os.unlink(temporary)


def remove_backup(home: str, name: str) -> None:
    """Remove a backup: the database first, because a manifest alone is not listed."""
    path = path_of(home, name)
    for file in (path, f"{path}-wal", f"{path}-shm", f"{path.removesuffix('.db')}.json"):
        with suppress(FileNotFoundError):
            os.unlink(file)


def rotate(home: str, *, keep: int, weeks: int) -> list[str]:
    """Remove surplus backups.

    Of scheduled backups, keep the newest `keep` and one for each of `weeks` earlier weeks. Of backups made before a
    change, keep the last two of each kind. Backups made by hand stay.

    Returns:
        The names of the removed backups.
    """
    found = listed(home)
    scheduled = [one for one in found if one.kind == "scheduled"]
    stay = {one.name for one in scheduled[:keep]} | _one_a_week(scheduled[keep:], weeks)
    for kind in ("before-restore", "before-migration"):
        stay |= {one.name for one in [one for one in found if one.kind == kind][:_KEPT_OF_KIND]}
    gone = [one.name for one in found if one.kind not in ("hand", "damaged") and one.name not in stay]
    for name in gone:
        remove_backup(home, name)
    return gone


def note_failure(home: str, at: str, error: str) -> None:
    """Record that a backup failed, until one succeeds."""
    with suppress(OSError), open(os.path.join(home, _FAILURE), "w", encoding="utf-8") as file:
        json.dump({"at": at, "error": error}, file)


def forget_failure(home: str) -> None:
    """Delete the record of a failed backup."""
    with suppress(OSError):
        os.unlink(os.path.join(home, _FAILURE))


def failure(home: str) -> dict[str, str] | None:
    """Return when and why the last backup failed; None if one has succeeded since."""
    try:
        with open(os.path.join(home, _FAILURE), encoding="utf-8") as file:
            return dict(json.load(file))
    except (OSError, ValueError):
        return None


def _one_a_week(older: list[Manifest], weeks: int) -> set[str]:
    """Return the oldest backup of each of the last weeks. The oldest survives each later call as weeks pass."""
    by_week: dict[int, str] = {}
    for one in older:  # newest first, so the last one set is the oldest of its week
        by_week[int(from_text(one.at).timestamp() // _WEEK_SECONDS)] = one.name
    return {by_week[week] for week in sorted(by_week, reverse=True)[:weeks]}


def _names(home: str) -> list[str]:
    try:
        found = os.listdir(folder(home))
    except OSError:
        return []
    return [name.removesuffix(".db") for name in found if name.endswith(".db") and is_name(name.removesuffix(".db"))]


def _clear(home: str) -> None:
    """Remove unfinished files, and manifests without a backup. Only for the holder of the lock."""
    for name in os.listdir(folder(home)):
        alone = is_name(name.removesuffix(".json")) and not os.path.exists(path_of(home, name.removesuffix(".json")))
        if name.startswith(NEW) or (name.endswith(".json") and alone):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(folder(home), name))


# Replacing the database of a home. Only for the holder of the home's lock.

#: A complete database that is waiting to replace the present one.
NEXT: Final = f"{DATABASE}.next"
#: The answer of a parent process that agrees to a plan.
GO: Final = "go"


def new_database_path(home: str) -> str:
    """Return a path for a new database while it is made; remove what an earlier attempt left behind."""
    clear(home)
    return temporary_path(home)


def replace(home: str, database: str) -> None:
    """Replace the home's database with a complete, synced one without a log.

    A log must never lie beside a database that it was not written for, and two files cannot be replaced atomically. So
    the new database is first renamed to `NEXT`, which commits the replacement; `finish` does the rest. If that is
    interrupted, even by a power cut, the next process that opens the home calls `finish`.

    Raises:
        CannotWrite: nothing was changed, or the next start finishes the replacement.
    """
    with translate_oserror(home):
        os.replace(database, inside(home, NEXT))
        sync(home)
    finish(home)


def finish(home: str) -> bool:
    """Finish a replacement that was begun; return False if there is none.

    Raises:
        CannotWrite: it cannot be finished now; the next start tries again.
    """
    waiting, place = inside(home, NEXT), inside(home, DATABASE)
    if not os.path.exists(waiting):
        return False
    with translate_oserror(home):
        for suffix in LOGS:
            with suppress(FileNotFoundError):
                os.unlink(place + suffix)
        for derived in (WORD_INDEXES, BRIEFS):
            with suppress(FileNotFoundError):
                shutil.rmtree(inside(home, derived))
        sync(home)
        os.replace(waiting, place)
        sync(home)
    return True


def clear(home: str) -> None:
    """Remove new databases that were never completed."""
    with suppress(FileNotFoundError), os.scandir(home) as found:
        for entry in found:
            if entry.name.startswith(NEW) and ".db" in entry.name:
                with suppress(FileNotFoundError):
                    os.unlink(entry.path)
