"""What never changes, held against the newest backup: how damage is noticed in tables whose rows bear no seal.

A vector, what a decision about a turn rested on, and who said something when, are written once. Where the same row says
something else in the backup, one of the two was changed by nobody. A vector that was made again differs in many of its
numbers, if at all; damage differs in a few, and what it does to the length of a vector is seen without a backup.

A backup may be of another past: a memory that was put away, or one that an older backup took the place of. Its rows
have the same numbers and nothing else in common with those of here. So a row is the same one where at least one of the
columns by which it is known is the same.

The project of a row changes where two are put together, and with it the seal of a memory, which is looked at by itself.
So another project is damage unless the one of the backup is no more and the one of here is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import apsw
import numpy as np

from filrouge.store.sqlite import Connection, translated

_MOST_NUMBERS: Final = 4
_VECTORS: Final = (
    "select here.vector, kept.vector from main.vectors as here join kept.vectors as kept"
    " using (owner_kind, owner_id, space_id, part) where here.vector <> kept.vector"
)
#: By table: its key, the columns that nobody changes once a row is there, and what rows they are that of.
_FIXED: Final[Mapping[str, tuple[str, tuple[str, ...], str]]] = {
    "thread_decisions": ("seq", ("turn_id", "at", "action", "similarity", "reason", "weighed"), "true"),
    "events": (
        "seq",
        ("id", "tenant", "host", "session_id", "kind", "at", "received_at", "row_hash"),
        "here.state <> 'forgotten'",
    ),
    "turns": (
        "seq",
        (
            "id",
            "tenant",
            "host",
            "session_id",
            "user_id",
            "agent",
            "channel",
            "role",
            "source",
            "text_hash",
            "trust",
            "at",
            "row_key",
            "row_hash",
        ),
        "true",
    ),
    "memories": (
        "seq",
        ("id", "tenant", "user_id", "agent", "channel", "session_id", "created_at"),
        "true",
    ),
}


#: Tables whose project no seal covers, and what it is where nobody put it there.
_OF_PROJECTS: Final = ("events", "turns")
_MISPLACED: Final = (
    "here.project_id is not kept.project_id and (kept.project_id is null or here.project_id is null"
    " or kept.project_id in (select id from main.projects)"
    " or here.project_id not in (select id from main.projects))"
)
#: By table: columns of which no two rows have the same values.
_KNOWN_BY: Final[Mapping[str, tuple[str, ...]]] = {
    "thread_decisions": ("turn_id", "at"),
    "events": ("id", "row_hash"),
    "turns": ("id", "row_key", "row_hash"),
    "memories": ("id", "row_key", "row_hash"),
}


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
            found = {"vectors": sum(_is_damage(here, kept) for here, kept in pairs)}
            for table in _FIXED:
                found[table] = int(connection.execute(_query(table)).fetchone()[0])
        finally:
            connection.close()
    return {table: rows for table, rows in found.items() if rows}


def _query(table: str) -> str:
    key, columns, which = _FIXED[table]
    same = " or ".join(f"here.{column} = kept.{column}" for column in _KNOWN_BY[table])
    here, kept = (", ".join(f"{side}.{column}" for column in columns) for side in ("here", "kept"))
    misplaced = f" or {_MISPLACED}" if table in _OF_PROJECTS else ""
    return (
        f"select count(*) from main.{table} as here join kept.{table} as kept using ({key})"  # noqa: S608
        f" where {which} and ({same}) and (({here}) is not ({kept}){misplaced})"
    )


def _is_damage(here: bytes, kept: bytes) -> bool:
    if len(here) != len(kept) or len(here) % 2:
        return True
    differ = np.frombuffer(here, dtype="<u2") != np.frombuffer(kept, dtype="<u2")
    return int(differ.sum()) <= _MOST_NUMBERS
