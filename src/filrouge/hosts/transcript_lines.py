"""Lines of transcripts: the whole lines since the last look, as JSON objects, with times and without reminders.

A transcript only grows, so a byte offset is all that needs to be kept. A last line without its newline is
still being written and waits for the next look. A line can be longer than anything worth reading (a
screenshot, a pasted file): it is passed over and counted. A file that became shorter was replaced and is
read from its start.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, BinaryIO, Final, NamedTuple

from filrouge.hosts.command_hooks import as_object

_REMINDER = re.compile(r"<system-reminder>.*?(?:</system-reminder>|\Z)", re.DOTALL)


def objects(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the JSON object of each line that holds one; other lines are skipped."""
    for line in lines:
        try:
            value = as_object(json.loads(line))
        except (ValueError, RecursionError):
            continue
        if value:
            yield value


def epoch(value: Any) -> float:
    """Convert an ISO 8601 text to seconds since 1970 (UTC if it has no zone); 0.0 for anything else."""
    try:
        at = datetime.fromisoformat(value)
        return (at.replace(tzinfo=UTC) if at.tzinfo is None else at).timestamp()
    except (TypeError, ValueError, OverflowError):
        return 0.0


def without_reminders(text: str) -> str:
    """Return the text without the reminders that the host inserted for the model only."""
    if "<system-reminder>" not in text:
        return text
    return re.sub(r"\n{3,}", "\n\n", _REMINDER.sub("", text)).strip()


# The new lines of a transcript since the last look.

LONGEST_LINE: Final = 10 * 1024 * 1024
_STEP: Final = 1024 * 1024


class Chunk(NamedTuple):
    """Complete lines, the offset at which to continue, and the number of overlong lines skipped."""

    lines: list[bytes]
    offset: int
    skipped_long: int


def read_from(path: str, offset: int, max_bytes: int = 8 * 1024 * 1024, *, longest: int = LONGEST_LINE) -> Chunk:
    """Return about `max_bytes` of complete lines from `offset` on; none if the file is missing or unreadable.

    A transcript only grows, so a byte offset is enough state. A last line without a newline is still being written and
    waits for the next read. An overlong line (a screenshot, a pasted file) is skipped and counted. A file that became
    shorter was replaced and is read from its start.
    """
    try:
        facts = os.stat(path)
        if not stat.S_ISREG(facts.st_mode):
            return Chunk([], offset, 0)
        start = offset if 0 <= offset <= facts.st_size else 0
        with open(path, "rb") as file:
            file.seek(start)
            return lines_of(file, start, start + max_bytes, longest=longest)
    except (OSError, ValueError):
        return Chunk([], offset, 0)


def lines_of(file: BinaryIO, start: int, stop: int, *, longest: int = LONGEST_LINE) -> Chunk:
    """Return the complete lines of an open file positioned at `start`, until `stop` is passed."""
    lines: list[bytes] = []
    place, skipped = start, 0
    while place < stop:
        line = file.readline(longest + 1)
        if line.endswith(b"\n"):
            if line.strip():
                lines.append(line.rstrip(b"\r\n"))
        elif len(line) > longest and _finds_line_end(file):
            skipped += 1
        else:
            break
        place = file.tell()
    return Chunk(lines, place, skipped)


def _finds_line_end(file: BinaryIO) -> bool:
    while step := file.readline(_STEP):
        if step.endswith(b"\n"):
            return True
    return False
