"""What never changes, held against the newest backup: how damage is noticed in tables whose rows bear no seal.

A vector, and what a decision about a turn rested on, are written once. Where the same row says something else in the
backup, one of the two was changed by nobody. A vector that was made again differs in many of its numbers, if at all;
damage differs in a few, and what it does to the length of a vector is seen without a backup.
"""

from __future__ import annotations

from typing import Final

import apsw
import numpy as np

from filrouge.store.sqlite import Connection, translated

_MOST_NUMBERS: Final = 4
_VECTORS: Final = (
    "select here.vector, kept.vector from main.vectors as here join kept.vectors as kept"
    " using (owner_kind, owner_id, space_id, part) where here.vector <> kept.vector"
)
_DECISIONS: Final = (
    "select count(*) from main.thread_decisions as here join kept.thread_decisions as kept using (seq)"
    " where (here.turn_id, here.at, here.action, here.similarity, here.reason, here.weighed)"
    " is not (kept.turn_id, kept.at, kept.action, kept.similarity, kept.reason, kept.weighed)"
)


def differing(path: str, backup: str) -> dict[str, int]:
    """How many rows that never change differ from those of a backup of the same schema, by table; none are left out.

    Raises:
        Corrupt: one of the two cannot be read.
    """
    with translated():
        connection: Connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
        try:
            connection.execute("attach ? as kept", (backup,))
            pairs = connection.execute(_VECTORS)
            found = {
                "vectors": sum(_is_damage(here, kept) for here, kept in pairs),
                "thread_decisions": int(connection.execute(_DECISIONS).fetchone()[0]),
            }
        finally:
            connection.close()
    return {table: rows for table, rows in found.items() if rows}


def _is_damage(here: bytes, kept: bytes) -> bool:
    if len(here) != len(kept) or len(here) % 2:
        return True
    differ = np.frombuffer(here, dtype="<u2") != np.frombuffer(kept, dtype="<u2")
    return int(differ.sum()) <= _MOST_NUMBERS
