"""The spool: files in which a hook leaves events when no daemon answers.

One file holds one record. It is written under a temporary name and renamed once it is complete and synced, so a reader
never sees a partial file. A record is a header (magic, length, CRC-32 of the body) and the event as ASCII JSON, which
can carry any text, including lone surrogates. The checksum is zlib's CRC-32: the standard library has no CRC-32C, and
both detect a torn write equally well.

A disk may still lose data that it reported as written. An unreadable record is counted and skipped; complete records
before and after it are kept.
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
    """The content of one spool file."""

    events: list[dict[str, Any]]
    torn: bool
    """The last record is not all there."""
    bad: int
    """Records whose bytes are damaged."""


def append(spool: str, event: dict[str, Any]) -> str:
    """Write one event durably and return the path of its file.

    Raises:
        OSError: the directory cannot be written, or the disk is full; nothing of the event is left.
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
        remove_spool_file(part)
        raise
    _sync_directory(spool)
    return whole


def read_spool_file(path: str) -> SpoolFile:
    """Return the events in a spool file; none if the file is missing.

    Raises:
        OSError: the file exists but cannot be read, or is a symbolic link.
    """
    try:
        with open(open_own(path, os.O_RDONLY), "rb") as file:
            raw = file.read()
    except FileNotFoundError:
        return SpoolFile([], torn=False, bad=0)
    return decode(raw)


def decode(raw: bytes) -> SpoolFile:
    """Return the events in the bytes of a spool file; skip a damaged record up to the next magic."""
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
    """Return the spool's files, oldest first.

    Args:
        spool: the directory; it may be missing.
        abandoned_before: also return unfinished files last written before this time (seconds since 1970). Their hook
            has ended, and may have written the whole record.
    """
    found = [(_sort_key(name), os.path.join(spool, name)) for name in _names(spool, abandoned_before)]
    return [path for _, path in sorted(found)]


def remove_spool_file(path: str) -> None:
    """Delete a spool file, if it exists."""
    with suppress(FileNotFoundError):
        os.unlink(path)


def set_aside(path: str) -> None:
    """Rename a spool file that cannot be processed, so that readers skip it."""
    with suppress(OSError):
        os.replace(path, path + ASIDE)


def _write(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def _sync_directory(directory: str) -> None:
    """Sync a directory, so that a new name in it is durable."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _body(raw: bytes, place: int) -> bytes | None:
    """Return the body of the record at `place`; None if it is incomplete or its header is damaged."""
    if len(raw) - place < HEADER.size:
        return None
    magic, length, _ = HEADER.unpack_from(raw, place)
    start = place + HEADER.size
    return raw[start : start + length] if magic == MAGIC and start + length <= len(raw) else None


def _event(raw: bytes, place: int, body: bytes) -> dict[str, Any] | None:
    """Return the event in a body; None if its bytes are damaged."""
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
        if entry.name.endswith(WHOLE) or (entry.name.endswith(PART) and _is_abandoned(entry, abandoned_before)):
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
