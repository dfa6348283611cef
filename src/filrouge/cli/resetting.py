"""`init --reset`: describe the existing memory of a home, ask for a typed confirmation, and put the memory away.

Importing this module loads the database code, so `init` imports it only if the home already has a memory.
"""

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

_POLL_SECONDS: Final = 0.1
_CONFIRMATION_WORD: Final = "reset"
_DRAIN_SECONDS: Final = 30.0


def describe(counts: MemoryCounts, directory: str) -> str:
    """Return a phrase with the size of a memory: memories, turns, start date, bytes, directory."""
    size = f"{output.megabytes(counts.bytes)} in {directory}"
    if counts.memories is None or counts.turns is None:
        return size
    since = f" since {output.format_time(counts.since)}" if counts.since else ""
    memories, turns = _counted(counts.memories, "memory", "memories"), _counted(counts.turns, "turn", "turns")
    return f"{memories} and {turns}{since}, {size}"


def plan(counts: MemoryCounts, directory: str) -> list[str]:
    """Return lines that describe what putting the memory away would do."""
    return [
        f"puts away the memory of this home: {describe(counts, directory)}",
        "    A verified backup is made first; it stays until you delete it, and `filrouge restore` brings it back.",
        "    Events that wait in the spool are stored in the old memory first.",
        "    Settings, tokens, project names, receipts, daily limits and tombstones stay in force.",
        "    Older backups stay.",
    ]


def is_typed() -> bool:
    """Ask the user to type the confirmation word. Returns True if it was typed."""
    typed = output.prompt(f"Type {_CONFIRMATION_WORD} to put this memory away", default="", show_default=False)
    return typed.strip() == _CONFIRMATION_WORD


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
        time.sleep(_POLL_SECONDS)


def _counted(number: int, singular: str, plural: str) -> str:
    return f"{number:,} {singular if number == 1 else plural}"
