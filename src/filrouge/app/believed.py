"""The memories nearest by meaning, without what sums sessions up: that repeats what others say, and would take their
places. It has vectors, for whoever asks for it by its kind (`app.narrowing`)."""

from __future__ import annotations

import json
from typing import Final

from filrouge.ports import Tx, Vector, VectorIndex

#: Of a widened search, so many times what was asked for before.
_WIDER: Final = 4


def nearest_beliefs(
    tx: Tx, index: VectorIndex, vector: Vector, limit: int, groups: frozenset[str] | None
) -> dict[str, float]:
    """The nearest in these groups with their cosines, best first, by id; None = all groups."""
    asked = limit
    while True:
        near = index.nearest(vector, asked, groups)
        sums = {row["id"] for row in tx.all("memories.sums", {"ids": json.dumps([one.owner_id for one in near])})}
        kept = {one.owner_id: one.cosine for one in near if one.owner_id not in sums}
        if len(kept) >= limit or len(near) < asked:
            return dict(list(kept.items())[:limit])
        asked *= _WIDER
