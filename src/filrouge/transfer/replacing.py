"""Another database takes the place of the one that a home has: all of it, or nothing.

A log must never lie beside a database that it was not written for, and two files cannot be exchanged at once. So the
new database is first made whole under a name of its own: that renaming is the moment at which it holds. From then on
whoever opens the home, today or after a power cut, does the rest: removes the old log and everything derived from the
old rows, and renames. Only for the holder of the home's lock.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from typing import Final

from filrouge.home import BRIEFS, DATABASE, WORDS, inside
from filrouge.transfer.files import LOGS, NEW, sync_directory, unfinished, writing

#: A database that is to take the place of the present one, and is whole.
NEXT: Final = f"{DATABASE}.next"
#: What the process that was shown a plan for it answers, if it may be done.
GO: Final = "go"


def begun(home: str) -> str:
    """A path for the new database while it is being made; what an earlier attempt left there is removed."""
    clear(home)
    return unfinished(home)


def replace(home: str, database: str) -> None:
    """Put a database that is whole, synced and without a log in the place of the home's.

    Raises:
        CannotWrite: nothing was changed, or the next start finishes it.
    """
    with writing(home):
        os.replace(database, inside(home, NEXT))
        sync_directory(home)
    finish(home)


def finish(home: str) -> bool:
    """Do what is left of a replacement that was begun; False where there is none.

    Raises:
        CannotWrite: it cannot be done now; the next start tries again.
    """
    waiting, place = inside(home, NEXT), inside(home, DATABASE)
    if not os.path.exists(waiting):
        return False
    with writing(home):
        for suffix in LOGS:
            with suppress(FileNotFoundError):
                os.unlink(place + suffix)
        for derived in (WORDS, BRIEFS):
            with suppress(FileNotFoundError):
                shutil.rmtree(inside(home, derived))
        sync_directory(home)
        os.replace(waiting, place)
        sync_directory(home)
    return True


def clear(home: str) -> None:
    """Remove what was begun and never became whole."""
    with suppress(FileNotFoundError), os.scandir(home) as found:
        for entry in found:
            if entry.name.startswith(NEW) and ".db" in entry.name:
                with suppress(FileNotFoundError):
                    os.unlink(entry.path)
