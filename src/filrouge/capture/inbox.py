"""The spool: files in which a hook leaves events when no daemon answers, and the count of events that were lost.

One file holds one record. It is written under a temporary name and renamed once it is complete and synced, so a reader
never sees a partial file. A record is a header (magic, length, CRC-32 of the body) and the event as ASCII JSON, which
can carry any text, including lone surrogates. The checksum is zlib's CRC-32: the standard library has no CRC-32C, and
both detect a torn write equally well.

A disk may still lose data that it reported as written. An unreadable record is counted and skipped; complete records
before and after it are kept.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from struct import Struct
from typing import Any, Final, Literal, NamedTuple, cast

from filrouge.core.paths import LOST_EVENTS, inside, make_private, open_nofollow, sync

MAGIC: Final = b"FRS1"
HEADER: Final = Struct(">4sII")
COMPLETE_SUFFIX, PART_SUFFIX, ASIDE_SUFFIX = ".log", ".part", ".aside"


class SpoolFile(NamedTuple):
    """The content of one spool file."""

    events: list[dict[str, Any]]
    torn: bool
    """The last record is not all there."""
    bad: int
    """Records whose bytes are damaged."""


def append_event(spool: str, event: dict[str, Any]) -> str:
    """Write one event durably and return the path of its file.

    Raises:
        OSError: the directory cannot be written, or the disk is full; nothing of the event is left.
    """
    if os.path.islink(spool):
        raise OSError("the spool is a symbolic link")
    make_private(spool)
    body = json.dumps(event, ensure_ascii=True, separators=(",", ":")).encode("ascii")
    stem = os.path.join(spool, f"{os.getpid()}-{time.time_ns()}")
    part, complete = stem + PART_SUFFIX, stem + COMPLETE_SUFFIX
    file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        try:
            _write(file, HEADER.pack(MAGIC, len(body), zlib.crc32(body)) + body)
            os.fsync(file)
        finally:
            os.close(file)
        os.rename(part, complete)
    except OSError:
        remove_spool_file(part)
        raise
    sync(spool)
    return complete


def read_spool_file(path: str) -> SpoolFile:
    """Return the events in a spool file; none if the file is missing.

    Raises:
        OSError: the file exists but cannot be read, or is a symbolic link.
    """
    try:
        with open(open_nofollow(path, os.O_RDONLY), "rb") as file:
            raw = file.read()
    except FileNotFoundError:
        return SpoolFile([], torn=False, bad=0)
    return decode_events(raw)


def decode_events(raw: bytes) -> SpoolFile:
    """Return the events in the bytes of a spool file; skip a damaged record up to the next magic."""
    events: list[dict[str, Any]] = []
    offset, bad = 0, 0
    while offset < len(raw):
        body = _read_body(raw, offset)
        event = _parse_event(raw, offset, body) if body is not None else None
        if event is not None:
            events.append(event)
            offset += HEADER.size + len(body or b"")
            continue
        next_magic = raw.find(MAGIC, offset + 1)
        if next_magic < 0:
            return SpoolFile(events, torn=body is None, bad=bad + (body is not None))
        offset, bad = next_magic, bad + 1
    return SpoolFile(events, torn=False, bad=bad)


def waiting_files(spool: str, *, abandoned_before: float = 0.0) -> list[str]:
    """Return the spool's files, oldest first.

    Args:
        spool: the directory; it may be missing.
        abandoned_before: also return unfinished files last written before this time (seconds since 1970). Their hook
            has ended, and may have written the whole record.
    """
    found = [(_sort_key(name), os.path.join(spool, name)) for name in _file_names(spool, abandoned_before)]
    return [path for _, path in sorted(found)]


def remove_spool_file(path: str) -> None:
    """Delete a spool file, if it exists."""
    with suppress(FileNotFoundError):
        os.unlink(path)


def set_aside(path: str) -> None:
    """Rename a spool file that cannot be processed, so that readers skip it."""
    with suppress(OSError):
        os.replace(path, path + ASIDE_SUFFIX)


def _write(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def _read_body(raw: bytes, offset: int) -> bytes | None:
    """Return the body of the record at `offset`; None if it is incomplete or its header is damaged."""
    if len(raw) - offset < HEADER.size:
        return None
    magic, length, _ = HEADER.unpack_from(raw, offset)
    start = offset + HEADER.size
    return raw[start : start + length] if magic == MAGIC and start + length <= len(raw) else None


def _parse_event(raw: bytes, offset: int, body: bytes) -> dict[str, Any] | None:
    """Return the event in a body; None if its bytes are damaged."""
    if HEADER.unpack_from(raw, offset)[2] != zlib.crc32(body):
        return None
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _file_names(spool: str, abandoned_before: float) -> Iterator[str]:
    try:
        entries = list(os.scandir(spool))
    except OSError:
        return
    for entry in entries:
        if entry.name.endswith(COMPLETE_SUFFIX) or (
            entry.name.endswith(PART_SUFFIX) and _is_abandoned(entry, abandoned_before)
        ):
            yield entry.name


def _is_abandoned(entry: os.DirEntry[str], before: float) -> bool:
    try:
        return entry.stat().st_mtime < before
    except OSError:
        return False


def _sort_key(name: str) -> tuple[int, str]:
    """Return a sort key: the nanoseconds in the file's name; an unknown form of name sorts last."""
    number = name.partition("-")[2].partition(".")[0]
    return (int(number) if number.isdecimal() else 1 << 63, name)


# The count of events that a hook could neither deliver nor write to the spool.
#
# The home holds one record of fixed length: how many events were lost, and when and why the last one was. Nothing of
# the event itself is written. The daemon writes the record while the disk has room. A hook overwrites it in place, so
# counting works on a full disk (if the file system overwrites in place: ext4, XFS, APFS, tmpfs). The hook imports
# this module, so it uses the standard library only.

Reason = Literal["cannot be written", "input incomplete", "input too large", "out of time", "failed"]

MAX_COUNT: Final = 999_999
_RECORD_BYTES: Final = 64
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


def reserve_record(directory: str) -> None:
    """Write a record with a count of 0, if there is none and the disk has room."""
    with suppress(OSError):
        file = open_nofollow(inside(directory, LOST_EVENTS), os.O_RDWR | os.O_CREAT)
        try:
            if os.fstat(file).st_size < _RECORD_BYTES and _try_lock(file):
                _write_record(file, _parse_losses(os.pread(file, _RECORD_BYTES, 0)))
                os.fsync(file)
        finally:
            os.close(file)


def add_losses(directory: str, reason: Reason, number: int = 1) -> None:
    """Count lost events.

    Raises:
        OSError: the record cannot be written.
    """
    make_private(directory)
    file = open_nofollow(inside(directory, LOST_EVENTS), os.O_RDWR | os.O_CREAT)
    try:
        is_locked = _try_lock(file)
        before = _parse_losses(os.pread(file, _RECORD_BYTES, 0))
        events = before.events + number
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        _write_record(
            file, Losses(min(events, MAX_COUNT), at, reason, before.at_least or events > MAX_COUNT or not is_locked)
        )
    finally:
        os.close(file)


def read_losses(directory: str) -> Losses:
    """Return the losses of that home."""
    try:
        file = open_nofollow(inside(directory, LOST_EVENTS), os.O_RDONLY)
    except OSError:
        return Losses()
    try:
        return _parse_losses(os.read(file, _RECORD_BYTES))
    finally:
        os.close(file)


def clear_losses(directory: str) -> None:
    """Reset the count to 0. The record stays, for the next time the disk is full."""
    with suppress(FileNotFoundError):
        file = open_nofollow(inside(directory, LOST_EVENTS), os.O_WRONLY)
        try:
            _write_record(file, Losses())
        finally:
            os.close(file)


def _try_lock(file: int) -> bool:
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


def _write_record(file: int, losses: Losses) -> None:
    line = f"{losses.events:06d}{'+' if losses.at_least else '='} {losses.last_at or '-'} {losses.reason}"
    os.pwrite(file, f"{line:<{_RECORD_BYTES - 1}}\n".encode("ascii"), 0)


def _parse_losses(raw: bytes) -> Losses:
    """Parse a record; an empty, incomplete or damaged one counts as no losses."""
    number, _, rest = raw.decode("ascii", "replace").partition(" ")
    at, _, reason = rest.strip().partition(" ")
    if not number[:-1].isdigit() or number == f"{0:06d}=":
        return Losses()
    return Losses(int(number[:-1]), at, reason, number.endswith("+"))
