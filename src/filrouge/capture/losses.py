"""The list of events that a hook could neither hand over nor write to the spool.

Each loss is one line in a file of the home: the time and the reason. Nothing of the event itself is written. The
hook imports this module, so it uses the standard library only.
"""

from __future__ import annotations

import os
import time
from typing import Final, Literal, NamedTuple

from filrouge.home import LOSSES, inside, make_private

Reason = Literal["cannot be written", "input incomplete", "input too large", "out of time", "failed"]

_LARGEST_FILE: Final = 64 * 1024


class Losses(NamedTuple):
    """How many events were lost, and when and why the last one was; 0 and empty texts where none was."""

    events: int = 0
    last_at: str = ""
    reason: str = ""


def add(directory: str, reason: Reason, number: int = 1) -> None:
    """Count lost events. The file stops growing at 64 KiB.

    Raises:
        OSError: the home cannot be written either.
    """
    make_private(directory)
    file = os.open(inside(directory, LOSSES), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        if os.fstat(file).st_size < _LARGEST_FILE:
            at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            os.write(file, f"{at} {reason}\n".encode("ascii") * number)
    finally:
        os.close(file)


def read(directory: str) -> Losses:
    """The losses of that home."""
    try:
        with open(inside(directory, LOSSES), encoding="ascii", errors="replace") as file:
            lines = file.read(_LARGEST_FILE * 2).splitlines()
    except OSError:
        return Losses()
    at, _, reason = lines[-1].partition(" ") if lines else ("", "", "")
    return Losses(events=len(lines), last_at=at, reason=reason)


def clear(directory: str) -> None:
    """Start counting again from 0."""
    try:
        os.unlink(inside(directory, LOSSES))
    except FileNotFoundError:
        return
