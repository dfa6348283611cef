"""Reads the new complete lines of a transcript, parses their JSON and times, and removes the host's reminders."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, BinaryIO, Final, NamedTuple

from filrouge.hosts.command_hooks import as_object

_REMINDER_BLOCK = re.compile(r"<system-reminder>.*?(?:</system-reminder>|\Z)", re.DOTALL)


def objects(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the JSON object of each line that holds one; other lines are skipped."""
    for line in lines:
        try:
            value = as_object(json.loads(line))
        except (ValueError, RecursionError):
            continue
        if value:
            yield value


def epoch_seconds(value: Any) -> float:
    """Convert an ISO 8601 text to seconds since 1970 (UTC if it has no zone); 0.0 for anything else."""
    try:
        moment = datetime.fromisoformat(value)
        return (moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment).timestamp()
    except (TypeError, ValueError, OverflowError):
        return 0.0


def without_reminders(text: str) -> str:
    """Return the text without the reminders that the host inserted for the model only."""
    if "<system-reminder>" not in text:
        return text
    return re.sub(r"\n{3,}", "\n\n", _REMINDER_BLOCK.sub("", text)).strip()


# The new lines of a transcript since the last read.

MAX_LINE_BYTES: Final = 10 * 1024 * 1024
_SKIP_BYTES: Final = 1024 * 1024


class Chunk(NamedTuple):
    """Complete lines, the offset at which to continue, and the number of overlong lines skipped."""

    lines: list[bytes]
    offset: int
    skipped_long: int


def read_from(
    path: str, offset: int, max_bytes: int = 8 * 1024 * 1024, *, max_line_bytes: int = MAX_LINE_BYTES
) -> Chunk:
    """Return about `max_bytes` of complete lines from `offset` on; none if the file is missing or unreadable.

    A transcript only grows, so a byte offset is enough state. A last line without a newline is still being written and
    waits for the next read. An overlong line (a screenshot, a pasted file) is skipped and counted. A file that became
    shorter was replaced and is read from its start.
    """
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            return Chunk([], offset, 0)
        start = offset if 0 <= offset <= status.st_size else 0
        with open(path, "rb") as file:
            file.seek(start)
            return read_lines(file, start, start + max_bytes, max_line_bytes=max_line_bytes)
    except (OSError, ValueError):
        return Chunk([], offset, 0)


def read_lines(file: BinaryIO, start: int, stop: int, *, max_line_bytes: int = MAX_LINE_BYTES) -> Chunk:
    """Return the complete lines of an open file positioned at `start`, until `stop` is passed."""
    lines: list[bytes] = []
    offset, skipped = start, 0
    while offset < stop:
        line = file.readline(max_line_bytes + 1)
        if line.endswith(b"\n"):
            if line.strip():
                lines.append(line.rstrip(b"\r\n"))
        elif len(line) > max_line_bytes and _skip_to_line_end(file):
            skipped += 1
        else:
            break
        offset = file.tell()
    return Chunk(lines, offset, skipped)


def _skip_to_line_end(file: BinaryIO) -> bool:
    while part := file.readline(_SKIP_BYTES):
        if part.endswith(b"\n"):
            return True
    return False
