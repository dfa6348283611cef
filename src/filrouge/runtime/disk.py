"""Disk space: a reserve file that lets deletion work on a full disk, and whether writes work.

SQLite needs space to delete. On a full disk, forgetting and retention delete the reserve file (the ballast) and
continue. Capture never uses it; otherwise it would be gone when deletion needs it. It is written again once there is
space. `write_state` reports whether the home is writable: a daemon that can only read looks healthy otherwise.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

from filrouge.core.errors import CannotWrite, FilrougeError
from filrouge.core.paths import BRIEFS, DATABASE, DISK_RESERVE, LOG, SPOOL, WORD_INDEXES, inside, open_nofollow
from filrouge.runtime.executors import Writer

# The reserve file.

_LOG = logging.getLogger(__name__)
RESERVE_BYTES: Final = 8_000_000
#: With less free disk space than this, no reserve file is written.
MIN_FREE_BYTES: Final = 4 * RESERVE_BYTES
_DISK_FULL_ERRORS: Final = (errno.ENOSPC, errno.EDQUOT)

T = TypeVar("T")


def ensure_reserve(home: str) -> bool:
    """Write the reserve file if it is missing and there is enough space; return whether it exists afterwards."""
    path = inside(home, DISK_RESERVE)
    with suppress(FileNotFoundError):
        if os.path.getsize(path) == RESERVE_BYTES:
            return True
        os.unlink(path)  # a process ended while writing it
    if shutil.disk_usage(home).free < MIN_FREE_BYTES:
        return False
    with suppress(OSError):
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            if hasattr(os, "posix_fallocate"):  # a compressing file system allocates no space for zeros
                os.posix_fallocate(file.fileno(), 0, RESERVE_BYTES)
            file.write(bytes(RESERVE_BYTES))
        return True
    delete_reserve(home)
    return False


def delete_reserve(home: str) -> bool:
    """Delete the reserve file; False if there was none."""
    try:
        os.unlink(inside(home, DISK_RESERVE))
    except FileNotFoundError:
        return False
    _LOG.warning("the disk is full: deleted the reserve file")
    return True


def with_reserve(home: str, free_space: Callable[[], T]) -> T:
    """Run `free_space`, which frees space; if the disk is full, delete the reserve file and run it again.

    Args:
        free_space: must leave nothing half done when it raises.

    Raises:
        CannotWrite: there is still no space.
    """
    try:
        return _as_cannot_write(free_space)
    except CannotWrite:
        if not delete_reserve(home):
            raise
        return _as_cannot_write(free_space)


def _as_cannot_write(free_space: Callable[[], T]) -> T:
    try:
        return free_space()
    except OSError as error:
        if error.errno not in _DISK_FULL_ERRORS:
            raise
        raise CannotWrite(f"The disk is full: {error.strerror}.") from error


# Whether writes work.

_PROBE_BYTES: Final = 4096


def write_state(writer: Writer, home: str, *, probe: bool = False) -> dict[str, Any]:
    """Return `works`, and if it is False, `cause` and `next`; both are empty otherwise.

    Args:
        probe: also write a small file, to detect a full disk before the next event does.
    """
    failure = writer.failure
    if (probe or failure is not None) and (cause := _write_problem(home)):
        return {"works": False, "cause": cause, "next": CannotWrite.default_remedy}
    if failure is None:
        return {"works": True, "cause": "", "next": ""}
    known_error = failure if isinstance(failure, FilrougeError) else None
    return {
        "works": False,
        "cause": f"the last write failed: {known_error.message if known_error else type(failure).__name__}",
        "next": (known_error.remedy if known_error else "") or "See `filrouge logs` and `filrouge doctor`.",
    }


def _write_problem(home: str) -> str:
    """Return why a file in the home cannot be written; empty if it can."""
    path = inside(home, f".probe-{os.getpid()}-daemon")
    try:
        descriptor = open_nofollow(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            os.write(descriptor, bytes(_PROBE_BYTES))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        return f"the home {home} cannot be written: {error.strerror}"
    finally:
        with suppress(OSError):
            os.unlink(path)
    return ""


# Disk usage of a home, by part.

_PART_NAMES: Final = {
    DATABASE: "database",
    WORD_INDEXES: "words",
    SPOOL: "spool",
    BRIEFS: "briefs",
    "backups": "backups",
    LOG: "log",
    DISK_RESERVE: "ballast",
}


def sizes(home: str) -> dict[str, int]:
    """Return bytes by part: database with its log, word index, spool, briefs, backups, log, reserve, and other."""
    total = Counter[str]()
    for directory, _, names in os.walk(home):
        for name in names:
            path = os.path.join(directory, name)
            try:
                total[_part(os.path.relpath(path, home))] += os.lstat(path).st_size
            except OSError:  # deleted meanwhile
                continue
    return dict(total)


def _part(path: str) -> str:
    top_level = path.split(os.sep, 1)[0]
    return next(
        (part for name, part in _PART_NAMES.items() if top_level == name or top_level.startswith(name)), "other"
    )
