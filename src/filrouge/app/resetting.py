"""A memory is put away and begins anew: a verified backup first, then an empty database in its place.

What is no memory goes over into the new one (`store.anew`). Ended at any moment it leaves the old memory or the new
one, whole, as restoring does (`transfer.replacing`). Words and briefs, which are made of memories, go with them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from filrouge.app.backing_up import back_up
from filrouge.app.upgrading import bring_up_to_date
from filrouge.clock import Clock
from filrouge.errors import Corrupt, FilrougeError
from filrouge.home import DATABASE, inside
from filrouge.store import copying
from filrouge.store.anew import take_over
from filrouge.store.sqlite import Database
from filrouge.transfer import backup, files, replacing


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """What a home remembers, in counts.

    Attributes:
        memories: how many live ones; None where the database cannot be read, or is of another schema.
        turns: how many turns; None likewise.
        since: when something was said here for the first time; empty where nobody knows.
    """

    bytes: int
    memories: int | None = None
    turns: int | None = None
    since: str = ""

    def to_json(self) -> dict[str, Any]:
        """As the command prints it."""
        return {"bytes": self.bytes, "memories": self.memories, "turns": self.turns, "since": self.since or None}


def held(home: str) -> Held | None:
    """What the home remembers; None where it has no memory yet."""
    path = inside(home, DATABASE)
    if not os.path.exists(path):
        return None
    size = files.bytes_of(path)
    try:
        database = Database(path, readonly=True)
        try:
            known, said = database.tx.all("memories.count"), database.tx.one("turns.count")
            begun = database.tx.one("journal.begun")
        finally:
            database.close()
    except FilrougeError:
        return Held(bytes=size)
    return Held(
        bytes=size,
        memories=sum(row["n"] for row in known if row["state"] == "live"),
        turns=said["n"] if said else 0,
        since=(begun["at"] or "") if begun else "",
    )


def reset(home: str, clock: Clock) -> str:
    """Put the home's memory away. For the holder of the home's lock.

    Returns:
        The backup that holds it, which stays until somebody deletes it.

    Raises:
        NotFound: there is no memory.
        Corrupt: it is damaged, so that no backup could be proven; nothing was changed.
        CannotWrite: there is no room for the backup; nothing was changed.
    """
    bring_up_to_date(home, clock)
    kept = back_up(home, "hand", clock.now(), left=0).name
    new = replacing.begun(home)
    try:
        _begin(new, backup.path_of(home, kept), clock)
        replacing.replace(home, new)
    finally:
        files.remove_database(new)
    return kept


def _begin(path: str, before: str, clock: Clock) -> None:
    """Make an empty memory that takes over what is none from the backup of the one before."""
    old, database = Database(before, readonly=True), Database(path)
    try:
        database.migrate(clock)
        with database.transaction() as tx:
            take_over(old.tx, tx, clock.now())
    finally:
        database.close()
        old.close()
    copying.merge_log(path)
    if found := copying.complaints(path):
        raise Corrupt(f"The new memory is not sound: {found[0]}.", remedy="Nothing was changed; look at that disk.")
