"""The count of events that a hook could neither deliver nor write to the spool.

The home holds one record of fixed length: how many events were lost, and when and why the last one was. Nothing of the
event itself is written. The daemon writes the record while the disk has room. A hook overwrites it in place, so
counting works on a full disk (if the file system overwrites in place: ext4, XFS, APFS, tmpfs). The hook imports this
module, so it uses the standard library only.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from typing import Final, Literal, NamedTuple

from filrouge.core.paths import LOST_EVENTS, inside, make_private, open_own

Reason = Literal["cannot be written", "input incomplete", "input too large", "out of time", "failed"]

MAX_COUNT: Final = 999_999
_BYTES: Final = 64
#: Seconds to wait for another hook that is counting; after that the record is written without the lock.
_LOCK_TIMEOUT: Final = 0.1


class Losses(NamedTuple):
    """How many events were lost, and when and why the last one was; 0 and empty strings if none was.

    Attributes:
        at_least: more may have been lost: the counter is at its maximum, or two hooks counted at the same moment.
    """

    events: int = 0
    last_at: str = ""
    reason: str = ""
    at_least: bool = False

    def sentence(self) -> str:
        """Return the losses as a sentence for the user."""
        number = f"at least {self.events}" if self.at_least else f"{self.events}"
        noun = "event" if self.events == 1 else "events"
        return f"hooks could not keep {number} {noun}, the last at {self.last_at}: {self.reason}"


def reserve(directory: str) -> None:
    """Write a record with a count of 0, if there is none and the disk has room."""
    with suppress(OSError):
        file = open_own(inside(directory, LOST_EVENTS), os.O_RDWR | os.O_CREAT)
        try:
            if os.fstat(file).st_size < _BYTES and _locked(file):
                _write(file, _parsed(os.pread(file, _BYTES, 0)))
                os.fsync(file)
        finally:
            os.close(file)


def add_losses(directory: str, reason: Reason, number: int = 1) -> None:
    """Count lost events.

    Raises:
        OSError: the record cannot be written.
    """
    make_private(directory)
    file = open_own(inside(directory, LOST_EVENTS), os.O_RDWR | os.O_CREAT)
    try:
        alone = _locked(file)
        before = _parsed(os.pread(file, _BYTES, 0))
        events = before.events + number
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        _write(file, Losses(min(events, MAX_COUNT), at, reason, before.at_least or events > MAX_COUNT or not alone))
    finally:
        os.close(file)


def read_losses(directory: str) -> Losses:
    """Return the losses of that home."""
    try:
        file = open_own(inside(directory, LOST_EVENTS), os.O_RDONLY)
    except OSError:
        return Losses()
    try:
        return _parsed(os.read(file, _BYTES))
    finally:
        os.close(file)


def clear(directory: str) -> None:
    """Reset the count to 0. The record stays, for the next time the disk is full."""
    with suppress(FileNotFoundError):
        file = open_own(inside(directory, LOST_EVENTS), os.O_WRONLY)
        try:
            _write(file, Losses())
        finally:
            os.close(file)


def _locked(file: int) -> bool:
    """Try for a moment to lock the record; return whether it is locked. Closing the file unlocks it."""
    deadline = time.monotonic() + _LOCK_TIMEOUT
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.002)
        else:
            return True


def _write(file: int, losses: Losses) -> None:
    line = f"{losses.events:06d}{'+' if losses.at_least else '='} {losses.last_at or '-'} {losses.reason}"
    os.pwrite(file, f"{line:<{_BYTES - 1}}\n".encode("ascii"), 0)


def _parsed(raw: bytes) -> Losses:
    """Parse a record; an empty, incomplete or damaged one counts as no losses."""
    number, _, rest = raw.decode("ascii", "replace").partition(" ")
    at, _, reason = rest.strip().partition(" ")
    if not number[:-1].isdigit() or number == f"{0:06d}=":
        return Losses()
    return Losses(int(number[:-1]), at, reason, number.endswith("+"))
