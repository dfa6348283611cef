"""Room on the disk: a reserve for what makes room, and whether what is told can be stored."""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

from filrouge.core.errors import CannotWrite, FilrougeError
from filrouge.core.paths import BALLAST, inside, open_own
from filrouge.runtime.services import Parts

# Ballast: a file that holds nothing, so that a full disk still has room for what makes room.
#
# SQLite needs space to delete. Where the disk is full, forgetting and retention throw the ballast overboard and go
# on; capture never touches it, or it would be gone by then. It is taken aboard again once there is space.

_LOG = logging.getLogger(__name__)
BYTES: Final = 8_000_000
#: On a disk with less space than this, ballast would be the burden.
LEAST_FREE: Final = 4 * BYTES
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)

T = TypeVar("T")


def keep(home: str) -> bool:
    """Take ballast aboard if there is none and enough space; whether there is some afterwards."""
    path = inside(home, BALLAST)
    with suppress(FileNotFoundError):
        if os.path.getsize(path) == BYTES:
            return True
        os.unlink(path)  # a process ended while it wrote it
    if shutil.disk_usage(home).free < LEAST_FREE:
        return False
    with suppress(OSError):
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            if hasattr(os, "posix_fallocate"):  # else a file system that compresses gives noughts no room
                os.posix_fallocate(file.fileno(), 0, BYTES)
            file.write(bytes(BYTES))
        return True
    release(home)
    return False


def release(home: str) -> bool:
    """Throw the ballast overboard; False where there was none."""
    try:
        os.unlink(inside(home, BALLAST))
    except FileNotFoundError:
        return False
    _LOG.warning("the disk is full: the ballast went overboard")
    return True


def with_room(home: str, act: Callable[[], T]) -> T:
    """Do what makes room; where the disk is too full even for that, release the ballast and do it again.

    Args:
        act: leaves nothing half done where it raises.

    Raises:
        CannotWrite: there is no room all the same.
    """
    try:
        return _told(act)
    except CannotWrite:
        if not release(home):
            raise
        return _told(act)


def _told(act: Callable[[], T]) -> T:
    try:
        return act()
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise CannotWrite(f"The disk is full: {error.strerror}.") from error


# Whether what is told can be stored: a daemon that only reads looks well until somebody asks for what it lost.

_PROBE_BYTES: Final = 4096


def write_state(parts: Parts, *, probe: bool = False) -> dict[str, Any]:
    """`works`, and where it does not, `cause` and `next`, each empty otherwise.

    Args:
        probe: write a small file too, so that a full disk is seen before the next event meets it.
    """
    failed = parts.writer.failure
    if (probe or failed is not None) and (cause := _refused(parts.home)):
        return {"works": False, "cause": cause, "next": CannotWrite.default_remedy}
    if failed is None:
        return {"works": True, "cause": "", "next": ""}
    said = failed if isinstance(failed, FilrougeError) else None
    return {
        "works": False,
        "cause": f"the last write failed: {said.message if said else type(failed).__name__}",
        "next": (said.remedy if said else "") or "See `filrouge logs` and `filrouge doctor`.",
    }


def _refused(home: str) -> str:
    """Why a file of the home cannot be written; empty where it can."""
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
