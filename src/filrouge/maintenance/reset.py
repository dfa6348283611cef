"""Beginning anew: a verified backup first, then an empty database in its place."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from filrouge.core.clock import Clock
from filrouge.core.errors import Corrupt, FilrougeError
from filrouge.core.paths import DATABASE, inside
from filrouge.core.protocols import Tx
from filrouge.erasure.tombstone_repository import Tombstones
from filrouge.maintenance import backup_files, copies
from filrouge.maintenance.backup_service import back_up
from filrouge.runtime.settings_repository import StoredSettings
from filrouge.runtime.sqlite import Database
from filrouge.runtime.upgrade import bring_up_to_date

# What a memory that begins anew takes over from the one before it: everything that is no memory.
#
# Settings and access are the user's. Tombstones keep what was forgotten from coming back, and receipts prove that it
# was. How far each transcript was read keeps a session that goes on from being read in again from its beginning. What
# models cost counts against the limits of the day, whichever memory it was spent for. The names of projects go over,
# because capture is switched off by any of them, and because the user said which of them are one.

_EVERY: Final = 1 << 40
#: Rows as they are: what gives them, and what takes them.
_AS_THEY_ARE: Final = (
    ("receipts.all", "receipts.put"),
    ("transcripts.all", "transcripts.put"),
    ("tokens.living", "tokens.put"),
    ("usage.all", "usage.add"),
    ("projects.all", "projects.add"),
    ("projects.names", "projects.alias"),
)


def take_over(before: Tx, anew: Tx, at: datetime) -> None:
    """Take what is no memory from one database into another that is empty and has the same schema."""
    StoredSettings(anew).put(StoredSettings(before).all(), at)
    Tombstones(anew).add(Tombstones(before).all())
    for given, taken in _AS_THEY_ARE:
        anew.many(taken, before.all(given, {"limit": _EVERY} if given == "receipts.all" else None))


# A memory is put away and begins anew: a verified backup first, then an empty database in its place.
#
# What is no memory goes over into the new one (`maintenance.reset`). Ended at any moment it leaves the old memory or
# the new one, whole, as restoring does (`maintenance.backup_files`). Words and briefs, which are made of memories, go
# with them.


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
    size = backup_files.bytes_of(path)
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
    new = backup_files.begun(home)
    try:
        _begin(new, backup_files.path_of(home, kept), clock)
        backup_files.replace(home, new)
    finally:
        backup_files.remove_database(new)
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
    copies.merge_log(path)
    if found := copies.complaints(path):
        raise Corrupt(f"The new memory is not sound: {found[0]}.", remedy="Nothing was changed; look at that disk.")
