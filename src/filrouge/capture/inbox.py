"""The spool: where a hook leaves an event when no daemon takes it.

One file holds one record, written under a name that readers pass over and renamed when it is whole and
synced, so that a reader never meets half a file. A record is a header (magic, length, CRC-32 of the body)
and the event as JSON in ASCII, which carries any text, lone surrogates included. The checksum is zlib's
CRC-32: the standard library has no CRC-32C, and against a torn write both serve alike.

A disk may still hold less than it promised: what cannot be read is counted and passed over, and every
whole record before and after it is kept.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from struct import Struct
from typing import Any, Final, NamedTuple, cast

from filrouge.core.paths import make_private, open_own

MAGIC: Final = b"FRS1"
HEADER: Final = Struct(">4sII")
WHOLE, PART, ASIDE = ".log", ".part", ".aside"


class SpoolFile(NamedTuple):
    """What one file of the spool holds."""

    events: list[dict[str, Any]]
    torn: bool
    """The last record is not all there."""
    bad: int
    """Records whose bytes are damaged."""


def append(spool: str, event: dict[str, Any]) -> str:
    """Put one event on disk for good and return its file.

    Raises:
        OSError: the directory cannot be written, or the disk is full; nothing of the event stays then.
    """
    if os.path.islink(spool):
        raise OSError("the spool is a symbolic link")
    make_private(spool)
    body = json.dumps(event, ensure_ascii=True, separators=(",", ":")).encode("ascii")
    stem = os.path.join(spool, f"{os.getpid()}-{time.time_ns()}")
    part, whole = stem + PART, stem + WHOLE
    file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        try:
            _write(file, HEADER.pack(MAGIC, len(body), zlib.crc32(body)) + body)
            os.fsync(file)
        finally:
            os.close(file)
        os.rename(part, whole)
    except OSError:
        remove(part)
        raise
    _sync_directory(spool)
    return whole


def read(path: str) -> SpoolFile:
    """The events in a spool file; a file that is not there holds none.

    Raises:
        OSError: the file is there and cannot be read, or is a symbolic link.
    """
    try:
        with open(open_own(path, os.O_RDONLY), "rb") as file:
            raw = file.read()
    except FileNotFoundError:
        return SpoolFile([], torn=False, bad=0)
    return decode(raw)


def decode(raw: bytes) -> SpoolFile:
    """The events in the bytes of a spool file. A damaged record is passed over up to the next magic."""
    events: list[dict[str, Any]] = []
    place, bad = 0, 0
    while place < len(raw):
        body = _body(raw, place)
        event = _event(raw, place, body) if body is not None else None
        if event is not None:
            events.append(event)
            place += HEADER.size + len(body or b"")
            continue
        following = raw.find(MAGIC, place + 1)
        if following < 0:
            return SpoolFile(events, torn=body is None, bad=bad + (body is not None))
        place, bad = following, bad + 1
    return SpoolFile(events, torn=False, bad=bad)


def waiting(spool: str, *, abandoned_before: float = 0.0) -> list[str]:
    """The spool's files, oldest first.

    Args:
        spool: the directory; none waits where it does not exist.
        abandoned_before: files that a hook began and never finished count too, once last written
            before this time (seconds since 1970): the hook is long gone and may have got to the end.
    """
    found = [(_age(name), os.path.join(spool, name)) for name in _names(spool, abandoned_before)]
    return [path for _, path in sorted(found)]


def remove(path: str) -> None:
    """Delete a spool file; it may be gone already."""
    with suppress(FileNotFoundError):
        os.unlink(path)


def set_aside(path: str) -> None:
    """Put a spool file that nobody can take in out of the readers' way, and keep it."""
    with suppress(OSError):
        os.replace(path, path + ASIDE)


def _write(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def _sync_directory(directory: str) -> None:
    """A new name is on disk only when its directory is."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _body(raw: bytes, place: int) -> bytes | None:
    """The record's body at `place`, or None where it is cut off or its header is damaged."""
    if len(raw) - place < HEADER.size:
        return None
    magic, length, _ = HEADER.unpack_from(raw, place)
    start = place + HEADER.size
    return raw[start : start + length] if magic == MAGIC and start + length <= len(raw) else None


def _event(raw: bytes, place: int, body: bytes) -> dict[str, Any] | None:
    """The event in a body, or None where its bytes are damaged."""
    if HEADER.unpack_from(raw, place)[2] != zlib.crc32(body):
        return None
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _names(spool: str, abandoned_before: float) -> Iterator[str]:
    try:
        entries = list(os.scandir(spool))
    except OSError:
        return
    for entry in entries:
        if entry.name.endswith(WHOLE) or (entry.name.endswith(PART) and _left(entry, abandoned_before)):
            yield entry.name


def _left(entry: os.DirEntry[str], before: float) -> bool:
    try:
        return entry.stat().st_mtime < before
    except OSError:
        return False


def _age(name: str) -> tuple[int, str]:
    """The nanosecond in a file's name; a name of another making comes last."""
    number = name.partition("-")[2].partition(".")[0]
    return (int(number) if number.isdecimal() else 1 << 63, name)
