"""What `init` says of the memory that a home has, and how it is put away: asked at a terminal, by a word.

Reading the database loads what a daemon loads, so `init` loads this module when there is one to speak of."""

from __future__ import annotations

import os
import time
from typing import Final

from filrouge.capture import inbox
from filrouge.cli import output
from filrouge.cli.client import ask
from filrouge.cli.commands.backups import between_daemons
from filrouge.core.clock import SystemClock
from filrouge.core.errors import Busy
from filrouge.core.paths import SPOOL, inside
from filrouge.maintenance import restore
from filrouge.maintenance.restore import MemoryCounts

_LOOK_SECONDS: Final = 0.1
_WORD: Final = "reset"
_DRAIN_SECONDS: Final = 30.0


def in_words(held: MemoryCounts, directory: str) -> str:
    """Return a phrase with the size of a memory: memories, turns, start date, bytes, directory."""
    size = f"{output.megabytes(held.bytes)} in {directory}"
    if held.memories is None or held.turns is None:
        return size
    since = f" since {output.when(held.since)}" if held.since else ""
    return f"{_many(held.memories, 'memory', 'memories')} and {_many(held.turns, 'turn', 'turns')}{since}, {size}"


def plan(held: MemoryCounts, directory: str) -> list[str]:
    """Return lines that describe what putting the memory away would do."""
    return [
        f"puts away the memory of this home: {in_words(held, directory)}",
        "    A verified backup is made first; it stays until you delete it, and `filrouge restore` brings it back.",
        "    What waits in the spool is taken into the old memory before.",
        "    Settings, tokens, names of projects, receipts, limits of the day and what was forgotten stay in force.",
        "    Older backups stay.",
    ]


def is_typed() -> bool:
    """Ask the user to type the confirmation word. Returns True if it was typed."""
    said = output.prompt(f"Type {_WORD} to put this memory away", default="", show_default=False)
    return said.strip() == _WORD


def put_away(directory: str) -> str:
    """Put the memory away while no daemon runs. Returns the name of the backup that holds it.

    Raises:
        Busy: the spool is not emptied, or the daemon does not stop; nothing was changed.
        Corrupt: the memory is damaged; nothing was changed.
        CannotWrite: there is no room for the backup; nothing was changed.
    """
    _take_in_spool(directory)
    with between_daemons(directory):
        return restore.reset(directory, SystemClock())


def _take_in_spool(directory: str) -> None:
    """Wait until a daemon has read the spool. Its events are older than the reset and belong to the old memory.

    Raises:
        Busy: events still wait after 30 seconds.
    """
    deadline = time.monotonic() + _DRAIN_SECONDS
    while inbox.waiting_files(inside(directory, SPOOL)):
        if time.monotonic() > deadline:
            raise Busy(
                f"Events still wait in {os.path.join(directory, SPOOL)}; nothing was changed.",
                remedy="See `filrouge status`, and try again when none is waiting.",
            )
        ask("GET", "/daemon/status")  # starts the daemon if none runs
        time.sleep(_LOOK_SECONDS)


def _many(number: int, one: str, more: str) -> str:
    return f"{number:,} {one if number == 1 else more}"
