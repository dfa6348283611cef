"""Need vectors: for each memory the vector under which a prompt that needs it finds it.

A memory is read behind what was said before it, in its own turn or in the message that this turn answers; its vector
goes with the turn that holds these words. Vectors are derived: those that are missing, or that another revision of the
encoder made, are made again.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from filrouge.ports import Tx, Vector

#: Characters that are read before a statement; `bench/fit_questions.py` trained with as many.
SETTING: Final = 120
#: The job that makes what is missing, and its dedupe key: there is one.
NEEDS: Final = "need_vectors"


@dataclass(frozen=True, kw_only=True, slots=True)
class Lacking:
    """A memory without its vector, and its place in the order of the table."""

    id: str
    seq: int


@dataclass(frozen=True, kw_only=True, slots=True)
class InSetting:
    """A memory as it is read.

    Attributes:
        before: what was said before it; empty where nothing was.
        turn_id: the turn that holds those words, or None.
    """

    memory_id: str
    text: str
    before: str = ""
    turn_id: str | None = None


class NeedVectors:
    """The table `need_vectors`."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def put(self, revision: str, made: Iterable[tuple[InSetting, Vector]]) -> None:
        """Store the vectors of memories; of what was erased meanwhile nothing is stored."""
        rows = [
            {
                "memory_id": one.memory_id,
                "turn_id": one.turn_id,
                "revision": revision,
                "vector": vector.astype("<f2").tobytes(),
            }
            for one, vector in made
        ]
        self._tx.many("need_vectors.put", rows)

    def some(self, ids: Collection[str], revision: str) -> dict[str, Vector]:
        """The vectors of these memories that this revision made."""
        rows = self._tx.all("need_vectors.some", {"ids": json.dumps(list(ids)), "revision": revision})
        return {row["id"]: np.frombuffer(row["vector"], dtype="<f2").astype(np.float32) for row in rows}

    def missing(self, revision: str, limit: int, *, after: int = 0) -> list[Lacking]:
        """The first live memories behind `after` that lack a vector of this revision, oldest first."""
        rows = self._tx.all("need_vectors.missing", {"revision": revision, "limit": limit, "after": after})
        return [Lacking(id=row["id"], seq=row["seq"]) for row in rows]

    def settings(self, ids: Collection[str]) -> list[InSetting]:
        """These memories as they are read."""
        rows = self._tx.all("need_vectors.settings", {"ids": json.dumps(list(ids)), "most": SETTING})
        return [_in_setting(row) for row in rows]


def _in_setting(row: Mapping[str, Any]) -> InSetting:
    for before, turn in ((row["before"], row["turn_id"]), (row["earlier"], row["earlier_id"])):
        if before.strip():
            return InSetting(memory_id=row["id"], text=row["text"], before=before, turn_id=turn)
    return InSetting(memory_id=row["id"], text=row["text"])
