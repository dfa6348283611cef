"""Doubts: memories of which a newer one perhaps took the place, where that is not probable enough to end them.

Both stay live and are found. Where both would go in front of a model by themselves, the newer goes alone, unless the
older was said again since or is pinned.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Final

from filrouge.ports import Tx

#: Why a memory in doubt is left out.
DOUBTED: Final = "perhaps replaced"


class Doubts:
    """The doubts of one database."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def add(self, older: str, newer: str) -> None:
        """Note that a memory perhaps took the place of an older one."""
        self._tx.run("doubts.add", {"older": older, "newer": newer})

    def among(self, ids: Collection[str]) -> frozenset[str]:
        """Those of these memories of which another of them perhaps took the place."""
        return frozenset(row["id"] for row in self._tx.all("doubts.among", {"ids": json.dumps(list(ids))}))
