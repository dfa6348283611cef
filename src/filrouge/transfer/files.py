"""Files that are whole or not there: room for them, their bytes on the disk, and errors that say what to do."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final

from filrouge.errors import CannotWrite

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
