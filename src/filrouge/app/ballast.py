"""Ballast: a file that holds nothing, so that a full disk still has room for what makes room.

SQLite needs space to delete. Where the disk is full, forgetting and retention throw the ballast overboard and go on;
capture never touches it, or it would be gone by then. It is taken aboard again once there is space.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from filrouge.errors import CannotWrite
from filrouge.home import BALLAST, inside

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
