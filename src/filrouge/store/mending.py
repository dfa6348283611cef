"""Mending what a salvaged database says of itself: a chain with a gap is closed, and says so; wrong vectors go.

A journal that lost an entry would never verify again, and no later damage could be told from this one. So the chain is
linked anew over what is left, and its next entry records that, with counts: whoever reads the history sees where it
was mended, and that it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import numpy as np

from filrouge.ports import Tx
from filrouge.store.journal import Journal, relinked

_ROWS_AT_ONCE: Final = 2000
#: Half precision moves the length of a unit vector by less than a hundredth of this.
_TOLERANCE: Final = 0.002


def relink(tx: Tx, *, at: datetime, lost: int) -> int:
    """Close the journal's chain over what is left of it, unless it holds; how many entries lost their payload."""
    if Journal(tx).verify().sound:
        return 0
    rows = relinked(tx.all("journal.everything"))
    tx.many("journal.relink", rows)
    redacted = sum(bool(row["redact"]) for row in rows)
    payload = {"reason": "repaired after damage", "entries": len(rows), "lost": lost, "redacted": redacted}
    Journal(tx).append(at=at, actor="repair", action="repaired", subject_id="journal", payload=payload)
    return redacted


def wrong_vectors(tx: Tx) -> list[dict[str, Any]]:
    """The keys of stored vectors that are no unit vector of their space's dimension, or of nothing that is there."""
    return tx.all("vectors.ownerless") + [row for rows in _vectors(tx) for row in _wrong(rows)]


def drop_vectors(tx: Tx, keys: list[dict[str, Any]]) -> None:
    """Take out every window of the owners of these, so that all of them are made again."""
    tx.many("vectors.drop", [key | {"first": 0, "last": 1 << 31} for key in keys])


def _vectors(tx: Tx) -> Iterator[list[dict[str, Any]]]:
    after: dict[str, Any] = {"owner_kind": "", "owner_id": "", "space_id": "", "part": -1}
    while rows := tx.all("vectors.behind", after | {"limit": _ROWS_AT_ONCE}):
        yield rows
        after = _key(rows[-1])


def _wrong(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    whole = [row for row in rows if len(row["vector"]) == 2 * row["dimension"]]
    found = [_key(row) for row in rows if len(row["vector"]) != 2 * row["dimension"]]
    for row in whole:
        vector = np.frombuffer(row["vector"], dtype="<f2").astype(np.float64)
        length = float(np.linalg.norm(vector)) if np.isfinite(vector).all() else np.inf
        if abs(length - 1.0) > _TOLERANCE and length != 0.0:
            found.append(_key(row))
    return found


def _key(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("owner_kind", "owner_id", "space_id", "part")}
