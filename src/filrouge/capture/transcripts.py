"""The new lines of a host's transcript since the last look.

A transcript only grows, so a byte offset is all that needs to be kept. A last line without its newline is
still being written and waits for the next look. A line can be longer than anything worth reading (a
screenshot, a pasted file): it is passed over and counted. A file that became shorter was replaced and is
read from its start."""

from __future__ import annotations

import os
import stat
from typing import BinaryIO, Final, NamedTuple

# Reading transcript files.

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
