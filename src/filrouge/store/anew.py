"""What a memory that begins anew takes over from the one before it: everything that is no memory.

Settings and access are the user's. Tombstones keep what was forgotten from coming back, and receipts prove that it was.
How far each transcript was read keeps a session that goes on from being read in again from its beginning. What models
cost counts against the limits of the day, whichever memory it was spent for. The names of projects go over, because
capture is switched off by any of them, and because the user said which of them are one.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from filrouge.ports import Tx
from filrouge.store.settings import StoredSettings
from filrouge.store.tombstones import Tombstones

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
