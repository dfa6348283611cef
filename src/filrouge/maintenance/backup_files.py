"""Backups as files: whole or not there, each with its manifest, and how one takes the place of the database."""

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
from filrouge.core.paths import BACKUPS, BRIEFS, DATABASE, WORDS, inside, make_private

# Files that are whole or not there: room for them, their bytes on the disk, and errors that say what to do.

#: What a file is called while it is being written.
NEW: Final = ".new-"
#: What SQLite keeps beside a database.
LOGS: Final = ("-wal", "-shm", "-journal")


@contextmanager
def writing(path: str) -> Generator[None]:
    """Say of a file or directory that cannot be written that it cannot."""
    try:
        yield
    except OSError as error:
        raise CannotWrite(f"{error.filename or path} cannot be written: {error.strerror}.") from error


def check_space(directory: str, wanted: int, *, left: int = 0) -> None:
    """Raise `CannotWrite` unless `wanted` bytes fit in a directory and `left` are free afterwards."""
    there = directory
    while not os.path.exists(there):
        there = os.path.dirname(there)
    free = shutil.disk_usage(there).free
    if free < wanted + left:
        raise CannotWrite(
            f"A copy of the memory takes {_megabytes(wanted)} in {directory}, and {_megabytes(free)} are free"
            + (f", of which {_megabytes(left)} are left to capture." if left else "."),
            remedy="Free some space; backups that nobody needs any more are files of the directory backups.",
        )


def bytes_of(database: str) -> int:
    """The size of a database with its log; 0 where there is none."""
    return sum(size_of(f"{database}{suffix}") for suffix in ("", "-wal"))


def remove_database(path: str) -> None:
    """Remove a database with its logs, as far as they are there."""
    for suffix in ("", *LOGS):
        with suppress(FileNotFoundError):
            os.unlink(path + suffix)


def unfinished(directory: str, suffix: str = ".db") -> str:
    """A path in a directory that no backup has; it is removed some time if nobody renames it."""
    return os.path.join(directory, f"{NEW}{secrets.token_hex(8)}{suffix}")


def private_copy(source: str, target: str) -> bytes:
    """Copy a file to one of this user alone, down to the disk; SHA-256 of what was read."""
    digest = hashlib.sha256()
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(source, "rb") as read, os.fdopen(handle, "wb") as write:
        while piece := read.read(1 << 20):
            digest.update(piece)
            write.write(piece)
        write.flush()
        os.fsync(write.fileno())
    return digest.digest()


def sync_directory(directory: str) -> None:
    """Bring the names in a directory to the disk."""
    handle = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def size_of(path: str) -> int:
    """The bytes of a file; 0 where there is none."""
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0


def _megabytes(size: int) -> str:
    return f"{-(-size // (1 << 20))} MB"


# Backups as files: `FILROUGE_HOME/backups/NAME.db`, each a whole database, with its manifest `NAME.json` beside it.
#
# A backup is written under a name that nobody looks for and gets its own once it is verified, so whatever bears the
# name of a backup is one. The manifest says what was verified: version, schema, time, counts and a hash, and no word
# of anybody. What SQLite has to do with it is `maintenance.copies`'s; this module knows files.

Kind = Literal["scheduled", "hand", "before-restore", "before-migration", "damaged"]
#: What a backup leaves free, so that capture goes on.
LEAST_LEFT: Final = 200 << 20
_NAME: Final = re.compile(r"\d{8}T\d{6}Z-(scheduled|hand|before-restore|before-migration|damaged)(-\d+)?")
_LOCK: Final = ".lock"
#: In the home itself: that the directory cannot be written is one of the failures.
_FAILURE: Final = "backup.error"
#: Backups that Filrouge made before it changed something: the newest of each kind.
_KEPT_OF_KIND: Final = 2
_WEEK_SECONDS: Final = 7 * 86_400.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """What a backup holds, and what was verified of it.

    Attributes:
        at: when it was begun.
        rows: how many rows each table has.
        hash: over all rows of all tables.
        mark: how far the memory had come; a later backup with the same mark would hold nothing new.
        verified: what holds: `equal` to its source, `sound` by SQLite's checks, every `seal`, the `journal`'s chain.
    """

    name: str
    kind: Kind
    version: str
    schema: int
    at: str
    bytes: int
    rows: Mapping[str, int]
    hash: str
    mark: str
    verified: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Everything, as the API and the file have it."""
        return asdict(self) | {"verified": list(self.verified)}


def manifest_from_json(about: Mapping[str, Any]) -> Manifest:
    """The manifest that `to_json` gave.

    Raises:
        KeyError, TypeError: it is another document.
    """
    known: dict[str, Any] = {field.name: about[field.name] for field in fields(Manifest)}
    known["verified"] = tuple(about["verified"])
    return Manifest(**known)


def folder(home: str) -> str:
    """Where the backups of a home are."""
    return os.path.join(home, BACKUPS)


def path_of(home: str, name: str) -> str:
    """The database of a backup."""
    return os.path.join(folder(home), f"{name}.db")


def is_name(word: str) -> bool:
    """True for what a backup can be called."""
    return _NAME.fullmatch(word) is not None


def listed(home: str) -> list[Manifest]:
    """Every backup with a manifest, newest first."""
    found = [manifest(home, name) for name in _names(home)]
    return sorted((one for one in found if one), key=lambda one: (one.at, one.name), reverse=True)


def manifest(home: str, name: str) -> Manifest | None:
    """What is known of a backup; None where its file or its manifest is not there or is not what was written."""
    return read_manifest(path_of(home, name))


def read_manifest(path: str) -> Manifest | None:
    """The manifest beside a backup's file, wherever that is."""
    try:
        with open(f"{path.removesuffix('.db')}.json", encoding="utf-8") as file:
            about: dict[str, Any] = json.load(file)
        found = manifest_from_json(about)
        return found if os.path.getsize(path) == found.bytes else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def newest(home: str, *, kinds: Collection[Kind] = ("scheduled", "hand", "before-restore")) -> Manifest | None:
    """The newest backup of which all was verified, or None."""
    return next((one for one in listed(home) if one.kind in kinds and "journal" in one.verified), None)


def find(home: str, what: str) -> str:
    """The file of the backup that a person calls so: a name, `latest`, or a path.

    Raises:
        NotFound: there is none.
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
def one_at_a_time(home: str) -> Generator[None]:
    """Hold the lock of the backups; what an earlier one left that was ended in the middle is removed first.

    Raises:
        Busy: a backup is being made.
        CannotWrite: the directory cannot be made or written.
    """
    with writing(folder(home)):
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


def free_name(home: str, at: datetime, kind: Kind) -> str:
    """A name that no backup has, which sorts by time."""
    plain, number = f"{at:%Y%m%dT%H%M%SZ}-{kind}", 1
    name = plain
    while os.path.exists(path_of(home, name)):
        number += 1
        name = f"{plain}-{number}"
    return name


def publish(temporary: str, path: str, about: Manifest) -> None:
    """Give a verified file its place and its manifest: the manifest first, so that a file in place always has one."""
    with writing(path):
        describe(path, about)
        os.replace(temporary, path)
        sync_directory(os.path.dirname(path))


def describe(path: str, about: Manifest) -> None:
    """Give the file at `path` this manifest.

    Raises:
        CannotWrite: it has the one that it had.
    """
    with writing(path):
        handle, new = tempfile.mkstemp(dir=os.path.dirname(path), prefix=NEW)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(about.to_json(), file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, f"{path.removesuffix('.db')}.json")
        sync_directory(os.path.dirname(path))


def copy_out(home: str, name: str, to: str) -> None:
    """Write a backup and its manifest to a file elsewhere, and hold what was written against what was read.

    Raises:
        CannotWrite: it cannot be written there; nothing of it is left.
    """
    source, target = path_of(home, name), os.path.abspath(to)
    check_space(os.path.dirname(target), size_of(source))
    temporary = unfinished(os.path.dirname(target))
    about = manifest(home, name)
    try:
        with writing(target):
            written = private_copy(source, temporary)
            with open(temporary, "rb") as file:
                if hashlib.file_digest(file, "sha256").digest() != written:
                    raise CannotWrite(f"{target} is not what was written to it.", remedy="Look at that disk.")
        if about is not None:
            publish(temporary, target, about)
    finally:
        with suppress(OSError):
            os.unlink(temporary)


def remove(home: str, name: str) -> None:
    """Remove a backup: the database first, because a manifest alone is nothing."""
    path = path_of(home, name)
    for file in (path, f"{path}-wal", f"{path}-shm", f"{path.removesuffix('.db')}.json"):
        with suppress(FileNotFoundError):
            os.unlink(file)


def rotate(home: str, *, keep: int, weeks: int) -> list[str]:
    """Remove what is too many: of the scheduled, all but the newest and one for each week before them; of those made
    before a change, all but the last two of each kind. What was made by hand stays. The names of what went.
    """
    found = listed(home)
    scheduled = [one for one in found if one.kind == "scheduled"]
    stay = {one.name for one in scheduled[:keep]} | _one_a_week(scheduled[keep:], weeks)
    for kind in ("before-restore", "before-migration"):
        stay |= {one.name for one in [one for one in found if one.kind == kind][:_KEPT_OF_KIND]}
    gone = [one.name for one in found if one.kind not in ("hand", "damaged") and one.name not in stay]
    for name in gone:
        remove(home, name)
    return gone


def note_failure(home: str, at: str, error: str) -> None:
    """Leave word that a backup failed, until one succeeds."""
    with suppress(OSError), open(os.path.join(home, _FAILURE), "w", encoding="utf-8") as file:
        json.dump({"at": at, "error": error}, file)


def forget_failure(home: str) -> None:
    """A backup succeeded."""
    with suppress(OSError):
        os.unlink(os.path.join(home, _FAILURE))


def failure(home: str) -> dict[str, str] | None:
    """When and why the last backup failed; None where none has since the last that succeeded."""
    try:
        with open(os.path.join(home, _FAILURE), encoding="utf-8") as file:
            return dict(json.load(file))
    except (OSError, ValueError):
        return None


def _one_a_week(older: list[Manifest], weeks: int) -> set[str]:
    """The oldest of each of the last weeks: it moves to the next week as time goes by, and is not lost on the way."""
    by_week: dict[int, str] = {}
    for one in older:  # newest first, so the oldest of a week is what stands at last
        by_week[int(from_text(one.at).timestamp() // _WEEK_SECONDS)] = one.name
    return {by_week[week] for week in sorted(by_week, reverse=True)[:weeks]}


def _names(home: str) -> list[str]:
    try:
        found = os.listdir(folder(home))
    except OSError:
        return []
    return [name.removesuffix(".db") for name in found if name.endswith(".db") and is_name(name.removesuffix(".db"))]


def _clear(home: str) -> None:
    """Remove what was begun and not finished, and manifests without a backup. Only for the lock's holder."""
    for name in os.listdir(folder(home)):
        alone = is_name(name.removesuffix(".json")) and not os.path.exists(path_of(home, name.removesuffix(".json")))
        if name.startswith(NEW) or (name.endswith(".json") and alone):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(folder(home), name))


# Another database takes the place of the one that a home has: all of it, or nothing.
#
# A log must never lie beside a database that it was not written for, and two files cannot be exchanged at once. So
# the new database is first made whole under a name of its own: that renaming is the moment at which it holds. From
# then on whoever opens the home, today or after a power cut, does the rest: removes the old log and everything
# derived from the old rows, and renames. Only for the holder of the home's lock.

#: A database that is to take the place of the present one, and is whole.
NEXT: Final = f"{DATABASE}.next"
#: What the process that was shown a plan for it answers, if it may be done.
GO: Final = "go"


def begun(home: str) -> str:
    """A path for the new database while it is being made; what an earlier attempt left there is removed."""
    clear(home)
    return unfinished(home)


def replace(home: str, database: str) -> None:
    """Put a database that is whole, synced and without a log in the place of the home's.

    Raises:
        CannotWrite: nothing was changed, or the next start finishes it.
    """
    with writing(home):
        os.replace(database, inside(home, NEXT))
        sync_directory(home)
    finish(home)


def finish(home: str) -> bool:
    """Do what is left of a replacement that was begun; False where there is none.

    Raises:
        CannotWrite: it cannot be done now; the next start tries again.
    """
    waiting, place = inside(home, NEXT), inside(home, DATABASE)
    if not os.path.exists(waiting):
        return False
    with writing(home):
        for suffix in LOGS:
            with suppress(FileNotFoundError):
                os.unlink(place + suffix)
        for derived in (WORDS, BRIEFS):
            with suppress(FileNotFoundError):
                shutil.rmtree(inside(home, derived))
        sync_directory(home)
        os.replace(waiting, place)
        sync_directory(home)
    return True


def clear(home: str) -> None:
    """Remove what was begun and never became whole."""
    with suppress(FileNotFoundError), os.scandir(home) as found:
        for entry in found:
            if entry.name.startswith(NEW) and ".db" in entry.name:
                with suppress(FileNotFoundError):
                    os.unlink(entry.path)
