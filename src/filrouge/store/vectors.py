"""Stored vectors: half-precision BLOBs, each with the id of the space it lives in.

They are the truth that a vector index is rebuilt from. Vectors of two spaces are never read together.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

import numpy as np

from filrouge.ports import Calibration, EmbeddingSpace, Tx, Vectors

OwnerKind = str


class StoredVectors:
    """The tables `spaces` and `vectors`."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def declare(self, space: EmbeddingSpace) -> None:
        """Make a space known before its first vector."""
        self._tx.run(
            "vectors.declare_space",
            {
                "id": space.id,
                "model": space.model,
                "revision": space.revision,
                "dimension": space.dimension,
                "pooling": space.pooling,
                "prefix": space.prefix,
                "calibration": _calibration_text(space.calibration),
            },
        )

    def put(self, owner_kind: OwnerKind, owner_id: str, space_id: str, vectors: Vectors) -> None:
        """Store an owner's windows, replacing those it had in this space."""
        owner = {"owner_kind": owner_kind, "owner_id": owner_id, "space_id": space_id}
        self._tx.run("vectors.drop", owner)
        rows = [owner | {"part": part, "vector": vector.astype("<f2").tobytes()} for part, vector in enumerate(vectors)]
        self._tx.many("vectors.put", rows)

    def live_memories(self, space_id: str) -> Iterator[tuple[str, str, Vectors]]:
        """Every live memory's id, group and windows."""
        return self._grouped("vectors.live_memories", space_id)

    def turns(self, space_id: str) -> Iterator[tuple[str, str, Vectors]]:
        """Every turn's id, group and windows."""
        return self._grouped("vectors.turns", space_id)

    def count(self) -> int:
        """How many owners have a vector."""
        row = self._tx.one("vectors.count")
        return int(row["n"]) if row else 0

    def missing(self, space_id: str, limit: int) -> list[str]:
        """Live memories that have no vector in this space yet."""
        rows = self._tx.all("vectors.missing_memories", {"space_id": space_id, "limit": limit})
        return [row["id"] for row in rows]

    def missing_turns(self, space_id: str, limit: int) -> list[str]:
        """Turns that have no vector in this space yet, newest first."""
        rows = self._tx.all("vectors.missing_turns", {"space_id": space_id, "limit": limit})
        return [row["id"] for row in rows]

    def _grouped(self, query: str, space_id: str) -> Iterator[tuple[str, str, Vectors]]:
        owner, group, parts = "", "", list[bytes]()
        for row in self._tx.all(query, {"space_id": space_id}):
            if row["id"] != owner and parts:
                yield owner, group, _matrix(parts)
                parts = []
            owner, group = row["id"], row["grouping"]
            parts.append(row["vector"])
        if parts:
            yield owner, group, _matrix(parts)


def _calibration_text(calibration: Calibration | None) -> str | None:
    return json.dumps(asdict(calibration)) if calibration else None


def _matrix(parts: list[bytes]) -> Vectors:
    return np.stack([np.frombuffer(part, dtype="<f2") for part in parts]).astype(np.float32)
