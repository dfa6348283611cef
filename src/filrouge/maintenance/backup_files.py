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
from datetime import datetime
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import asdict

from filrouge.core.clock import from_text
from filrouge.core.errors import Busy, CannotWrite, NotFound
from filrouge.core.paths import BACKUPS, BRIEFS, DATABASE, WORD_INDEXES, inside, make_private, sync

# File helpers: free space, copies, fsync, and errors with a remedy.

#: Prefix of a file while it is being written.
TEMPORARY_PREFIX: Final = ".new-"
#: Suffixes of the logs that SQLite writes next to a database.
LOG_SUFFIXES: Final = ("-wal", "-shm", "-journal")


@contextmanager
def translate_oserror(path: str) -> Generator[None]:
    """Turn an `OSError` while writing a path into `CannotWrite`."""
    try:
        yield
    except OSError as error:
        raise CannotWrite(f"{error.filename or path} cannot be written: {error.strerror}.") from error


def check_space(directory: str, needed_bytes: int, *, reserved_bytes: int = 0) -> None:
    """Raise `CannotWrite` unless a directory has room for `needed_bytes` and keeps `reserved_bytes` free."""
    existing = directory
    while not os.path.exists(existing):
        existing = os.path.dirname(existing)
    free = shutil.disk_usage(existing).free
    if free < needed_bytes + reserved_bytes:
        raise CannotWrite(
            f"A copy of the memory takes {_megabytes(needed_bytes)} in {directory}, and {_megabytes(free)} are free"
            + (f", of which {_megabytes(reserved_bytes)} are reserved for capture." if reserved_bytes else "."),
            remedy="Free some space, for example by deleting old files in the `backups` directory.",
        )


def database_size(database: str) -> int:
    """Return the size of a database with its log; 0 if there is none."""
    return sum(file_size(f"{database}{suffix}") for suffix in ("", "-wal"))


def remove_database(path: str) -> None:
    """Remove a database and its logs, if present."""
    for suffix in ("", *LOG_SUFFIXES):
        with suppress(FileNotFoundError):
            os.unlink(path + suffix)


def temporary_path(directory: str, suffix: str = ".db") -> str:
    """Return an unused temporary path in a directory; a later cleanup removes it unless it is renamed."""
    return os.path.join(directory, f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}{suffix}")


def private_copy(source: str, target: str) -> bytes:
    """Copy a file to one that only this user can read, and sync it; return the SHA-256 of what was read."""
    digest = hashlib.sha256()
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(source, "rb") as read, os.fdopen(descriptor, "wb") as write:
        while chunk := read.read(1 << 20):
            digest.update(chunk)
            write.write(chunk)
        write.flush()
        os.fsync(write.fileno())
    return digest.digest()


def file_size(path: str) -> int:
    """Return the size of a file in bytes; 0 if there is none."""
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0


def _megabytes(size: int) -> str:
    return f"{-(-size // (1 << 20))} MB"


# Backups and their manifests.

BackupKind = Literal["scheduled", "hand", "before-restore", "before-migration", "damaged"]
#: Free bytes that a backup must leave, so that capture continues.
MIN_FREE_BYTES: Final = 200 << 20
_BACKUP_NAME: Final = re.compile(r"\d{8}T\d{6}Z-(scheduled|hand|before-restore|before-migration|damaged)(-\d+)?")
_LOCK: Final = ".lock"
#: Stored in the home itself, because the backup directory itself may be unwritable.
_FAILURE: Final = "backup.error"
#: Number of backups per kind that rotation keeps of those made before a change.
_MAX_PER_KIND: Final = 2
_WEEK_SECONDS: Final = 7 * 86_400.0


class Manifest(Struct, frozen=True, kw_only=True):
    """The content of a backup, and which checks it passed.

    Attributes:
        at: when the backup began.
        rows: number of rows per table.
        hash: over all rows of all tables.
        bytes: size of the database file.
        mark: progress of the memory; a later backup with the same mark would hold nothing
            new. In the files that a repair kept: `repair.REPAIRED`.
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


def manifest_from_json(document: Mapping[str, Any]) -> Manifest:
    """Return the manifest that `to_json` wrote.

    Raises:
        KeyError, TypeError: the document is not a manifest.
    """
    values: dict[str, Any] = {name: document[name] for name in Manifest.__struct_fields__}
    values["verified"] = tuple(document["verified"])
    return Manifest(**values)


def backup_directory(home: str) -> str:
    """Return the backup directory of a home."""
    return os.path.join(home, BACKUPS)


def path_of(home: str, name: str) -> str:
    """Return the path of a backup's database."""
    return os.path.join(backup_directory(home), f"{name}.db")


def is_name(word: str) -> bool:
    """Return True if the word has the form of a backup's name."""
    return _BACKUP_NAME.fullmatch(word) is not None


def list_backups(home: str) -> list[Manifest]:
    """Return every backup with a manifest, newest first."""
    manifests = [find_manifest(home, name) for name in _backup_names(home)]
    return sorted(
        (manifest for manifest in manifests if manifest),
        key=lambda manifest: (manifest.at, manifest.name),
        reverse=True,
    )


def find_manifest(home: str, name: str) -> Manifest | None:
    """Return the manifest of a backup; None if file or manifest is missing, unreadable or of another size."""
    return read_manifest(path_of(home, name))


def read_manifest(path: str) -> Manifest | None:
    """Return the manifest beside a backup file in any directory, or None."""
    try:
        with open(f"{path.removesuffix('.db')}.json", encoding="utf-8") as file:
            document: dict[str, Any] = json.load(file)
        manifest = manifest_from_json(document)
        return manifest if os.path.getsize(path) == manifest.bytes else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def newest(home: str, *, kinds: Collection[BackupKind] = ("scheduled", "hand", "before-restore")) -> Manifest | None:
    """Return the newest backup that passed all checks, or None."""
    return next(
        (manifest for manifest in list_backups(home) if manifest.kind in kinds and "journal" in manifest.verified), None
    )


def find(home: str, what: str) -> str:
    """Return the file of the backup that a user names: a backup's name, `latest`, or a path.

    Raises:
        NotFound: there is no such backup.
    """
    remedy = "See the backups in `filrouge backup --list`."
    if what == "latest":
        newest_backup = newest(home)
        if newest_backup is None:
            raise NotFound("There is no backup yet.", remedy="Make one with `filrouge backup`.")
        return path_of(home, newest_backup.name)
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
    with translate_oserror(backup_directory(home)):
        make_private(home)
        os.makedirs(backup_directory(home), mode=0o700, exist_ok=True)
        os.chmod(backup_directory(home), 0o700)
        descriptor = os.open(os.path.join(backup_directory(home), _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Busy("A backup is being made.", remedy="See `filrouge backup --list` in a moment.") from error
        _remove_interrupted(home)
        yield
    finally:
        os.close(descriptor)


def unused_name(home: str, at: datetime, kind: BackupKind) -> str:
    """Return an unused backup name that sorts by time."""
    base, number = f"{at:%Y%m%dT%H%M%SZ}-{kind}", 1
    name = base
    while os.path.exists(path_of(home, name)):
        number += 1
        name = f"{base}-{number}"
    return name


def publish(temporary: str, path: str, manifest: Manifest) -> None:
    """Rename a verified file to its path, after writing its manifest, so that a backup always has one."""
    with translate_oserror(path):
        write_manifest(path, manifest)
        os.replace(temporary, path)
        sync(os.path.dirname(path))


def write_manifest(path: str, manifest: Manifest) -> None:
    """Write the manifest of the file at `path`.

    Raises:
        CannotWrite: it cannot be written; the former manifest stays.
    """
    with translate_oserror(path):
        descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=TEMPORARY_PREFIX)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(manifest.to_json(), file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, f"{path.removesuffix('.db')}.json")
        sync(os.path.dirname(path))


def copy_out(home: str, name: str, to: str) -> None:
    """Copy a backup and its manifest to another path, and verify the copy by its hash.

    Raises:
        CannotWrite: it cannot be written there; nothing is left behind.
    """
    source, target = path_of(home, name), os.path.abspath(to)
    check_space(os.path.dirname(target), file_size(source))
    temporary = temporary_path(os.path.dirname(target))
    manifest = find_manifest(home, name)
    try:
        with translate_oserror(target):
            written_hash = private_copy(source, temporary)
            with open(temporary, "rb") as file:
                if hashlib.file_digest(file, "sha256").digest() != written_hash:
                    raise CannotWrite(f"The copy {target} differs from its source.", remedy="Check that disk.")
        if manifest is not None:
            publish(temporary, target, manifest)
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
    manifests = list_backups(home)
    scheduled = [manifest for manifest in manifests if manifest.kind == "scheduled"]
    names_to_keep = {manifest.name for manifest in scheduled[:keep]} | _weekly_backups(scheduled[keep:], weeks)
    for kind in ("before-restore", "before-migration"):
        names_to_keep |= {
            manifest.name for manifest in [manifest for manifest in manifests if manifest.kind == kind][:_MAX_PER_KIND]
        }
    removed = [
        manifest.name
        for manifest in manifests
        if manifest.kind not in ("hand", "damaged") and manifest.name not in names_to_keep
    ]
    for name in removed:
        remove_backup(home, name)
    return removed


def record_failure(home: str, at: str, error: str) -> None:
    """Record that a backup failed, until one succeeds."""
    with suppress(OSError), open(os.path.join(home, _FAILURE), "w", encoding="utf-8") as file:
        json.dump({"at": at, "error": error}, file)


def clear_failure(home: str) -> None:
    """Delete the record of a failed backup."""
    with suppress(OSError):
        os.unlink(os.path.join(home, _FAILURE))


def last_failure(home: str) -> dict[str, str] | None:
    """Return when and why the last backup failed; None if one has succeeded since."""
    try:
        with open(os.path.join(home, _FAILURE), encoding="utf-8") as file:
            return dict(json.load(file))
    except (OSError, ValueError):
        return None


def _weekly_backups(older: list[Manifest], weeks: int) -> set[str]:
    """Return the oldest backup of each of the last weeks. The oldest stays the oldest of its week in later calls."""
    by_week: dict[int, str] = {}
    for manifest in older:  # newest first, so the last one set is the oldest of its week
        by_week[int(from_text(manifest.at).timestamp() // _WEEK_SECONDS)] = manifest.name
    return {by_week[week] for week in sorted(by_week, reverse=True)[:weeks]}


def _backup_names(home: str) -> list[str]:
    try:
        found = os.listdir(backup_directory(home))
    except OSError:
        return []
    return [name.removesuffix(".db") for name in found if name.endswith(".db") and is_name(name.removesuffix(".db"))]


def _remove_interrupted(home: str) -> None:
    """Remove unfinished files, and manifests without a backup. Only for the holder of the lock."""
    for name in os.listdir(backup_directory(home)):
        is_orphan = is_name(name.removesuffix(".json")) and not os.path.exists(
            path_of(home, name.removesuffix(".json"))
        )
        if name.startswith(TEMPORARY_PREFIX) or (name.endswith(".json") and is_orphan):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(backup_directory(home), name))


# Replacing the database of a home. Only for the holder of the home's lock.

#: A complete database that is waiting to replace the present one.
NEXT_DATABASE: Final = f"{DATABASE}.next"
#: The line by which a parent process accepts a plan.
GO: Final = "go"


def new_database_path(home: str) -> str:
    """Return a path for a new database while it is made; remove what an earlier attempt left behind."""
    remove_unfinished(home)
    return temporary_path(home)


def replace_database(home: str, database: str) -> None:
    """Replace the home's database with a complete, synced one without a log.

    A log must never lie beside a database that it was not written for, and two files cannot be replaced atomically. So
    the new database is first renamed to `NEXT`, which commits the replacement; `finish` does the rest. If that is
    interrupted, even by a power cut, the next process that opens the home calls `finish`.

    Raises:
        CannotWrite: nothing was changed, or the next start finishes the replacement.
    """
    with translate_oserror(home):
        os.replace(database, inside(home, NEXT_DATABASE))
        sync(home)
    finish_replacement(home)


def finish_replacement(home: str) -> bool:
    """Finish a replacement that was begun; return False if there is none.

    Raises:
        CannotWrite: it cannot be finished now; the next start tries again.
    """
    replacement, database = inside(home, NEXT_DATABASE), inside(home, DATABASE)
    if not os.path.exists(replacement):
        return False
    with translate_oserror(home):
        for suffix in LOG_SUFFIXES:
            with suppress(FileNotFoundError):
                os.unlink(database + suffix)
        for derived in (WORD_INDEXES, BRIEFS):
            with suppress(FileNotFoundError):
                shutil.rmtree(inside(home, derived))
        sync(home)
        os.replace(replacement, database)
        sync(home)
    return True


def remove_unfinished(home: str) -> None:
    """Remove new databases that were never completed."""
    with suppress(FileNotFoundError), os.scandir(home) as entries:
        for entry in entries:
            if entry.name.startswith(TEMPORARY_PREFIX) and ".db" in entry.name:
                with suppress(FileNotFoundError):
                    os.unlink(entry.path)
