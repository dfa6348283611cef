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
from filrouge.core.paths import BRIEFS, DATABASE, DISK_RESERVE, LOG, SPOOL, WORD_INDEXES, inside, open_own
from filrouge.runtime.services import Parts

# The reserve file.

_LOG = logging.getLogger(__name__)
BYTES: Final = 8_000_000
#: With less free space than this, no reserve file is written.
LEAST_FREE: Final = 4 * BYTES
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)

T = TypeVar("T")


def ensure_reserve(home: str) -> bool:
    """Write the reserve file if it is missing and there is enough space; whether it exists afterwards."""
    path = inside(home, DISK_RESERVE)
    with suppress(FileNotFoundError):
        if os.path.getsize(path) == BYTES:
            return True
        os.unlink(path)  # a process ended while writing it
    if shutil.disk_usage(home).free < LEAST_FREE:
        return False
    with suppress(OSError):
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            if hasattr(os, "posix_fallocate"):  # a compressing file system allocates no space for zeros
                os.posix_fallocate(file.fileno(), 0, BYTES)
            file.write(bytes(BYTES))
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


def with_reserve(home: str, act: Callable[[], T]) -> T:
    """Run `act`, which frees space; if the disk is full, delete the reserve file and run it again.

    Args:
        act: must leave nothing half done when it raises.

    Raises:
        CannotWrite: there is still no space.
    """
    try:
        return _as_cannot_write(act)
    except CannotWrite:
        if not delete_reserve(home):
            raise
        return _as_cannot_write(act)


def _as_cannot_write(act: Callable[[], T]) -> T:
    try:
        return act()
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise CannotWrite(f"The disk is full: {error.strerror}.") from error


# Whether writes work.

_PROBE_BYTES: Final = 4096


def write_state(parts: Parts, *, probe: bool = False) -> dict[str, Any]:
    """`works`, and if it is False, `cause` and `next`; both are empty otherwise.

    Args:
        probe: also write a small file, to detect a full disk before the next event does.
    """
    failed = parts.writer.failure
    if (probe or failed is not None) and (cause := _write_problem(parts.home)):
        return {"works": False, "cause": cause, "next": CannotWrite.default_remedy}
    if failed is None:
        return {"works": True, "cause": "", "next": ""}
    said = failed if isinstance(failed, FilrougeError) else None
    return {
        "works": False,
        "cause": f"the last write failed: {said.message if said else type(failed).__name__}",
        "next": (said.remedy if said else "") or "See `filrouge logs` and `filrouge doctor`.",
    }


def _write_problem(home: str) -> str:
    """Why a file in the home cannot be written; empty if it can."""
    path = inside(home, f".probe-{os.getpid()}-daemon")
    try:
        handle = open_own(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            os.write(handle, bytes(_PROBE_BYTES))
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        return f"the home {home} cannot be written: {error.strerror}"
    finally:
        with suppress(OSError):
            os.unlink(path)
    return ""


# Disk usage of a home, by part.

_PARTS: Final = {
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
    found = Counter[str]()
    for directory, _, names in os.walk(home):
        for name in names:
            path = os.path.join(directory, name)
            try:
                found[_part(os.path.relpath(path, home))] += os.lstat(path).st_size
            except OSError:  # deleted meanwhile
                continue
    return dict(found)


def _part(path: str) -> str:
    head = path.split(os.sep, 1)[0]
    return next((part for name, part in _PARTS.items() if head == name or head.startswith(name)), "other")
