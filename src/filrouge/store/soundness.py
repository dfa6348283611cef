"""Whether rows are what was stored: every seal of turns, memories and events, and the journal's chain.

Rows are read a page at a time, so that a large memory is looked through in little room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from filrouge.ports import Tx
from filrouge.store import events, memory_rows, turns
from filrouge.store.journal import Journal

_ROWS_AT_ONCE = 1000


def broken_seals(tx: Tx) -> list[str]:
    """The ids of rows that are not what was stored."""
    return [id_ for ids in broken_by_table(tx).values() for id_ in ids]


def broken_by_table(tx: Tx) -> dict[str, list[str]]:
    """The same by the table in which they are."""
    return {
        "turns": [row["id"] for row in _paged(tx, "turns.sealed") if not _holds(turns.intact, row)],
        "memories": [row["id"] for row in tx.all("memories.sealed") if not _holds(memory_rows.intact, row)],
        "events": [row["id"] for row in _paged(tx, "events.sealed") if not _holds(events.intact, row)],
    }


def faults(tx: Tx) -> list[str]:
    """What is wrong with the seals and with the journal, a line for each; empty when all holds."""
    broken = broken_seals(tx)
    found = [f"{len(broken)} rows are not what was stored"] if broken else []
    verdict = Journal(tx).verify()
    return found if verdict.sound else [*found, f"entry {verdict.broken_at} of the journal: {verdict.reason}"]


def progress(tx: Tx) -> str:
    """How far the memory has come; it changes with everything that is worth a backup."""
    row = tx.one("journal.progress") or {}
    return " ".join(str(value) for value in row.values())


def _paged(tx: Tx, query: str) -> Iterator[dict[str, Any]]:
    after = 0
    while rows := tx.all(query, {"after": after, "limit": _ROWS_AT_ONCE}):
        yield from rows
        after = rows[-1]["seq"]


def _holds(intact: Callable[[dict[str, Any]], bool], row: dict[str, Any]) -> bool:
    """A row whose values cannot even be read as what they stand for is not what was stored."""
    try:
        return intact(row)
    except (ValueError, TypeError, KeyError):
        return False
