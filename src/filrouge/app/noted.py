"""What is held of the vault in memory: the vectors of its chunks, and how the last look at it went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from filrouge.ports import EmbeddingSpace, Tx, Vector, Vectors
from filrouge.store.vault import StoredVault


@dataclass(frozen=True, kw_only=True, slots=True)
class Looked:
    """How the last look at the vault went.

    Attributes:
        folder: what was looked at; empty where no vault is named.
        at: when it ended; None before the first.
        problem: why the vault could not be read, empty where it could.
        troubles: of single notes, by path.
        waiting: notes that are still to be read.
    """

    folder: str = ""
    at: datetime | None = None
    problem: str = ""
    troubles: Mapping[str, str] = field(default_factory=dict[str, str])
    waiting: int = 0

    @property
    def is_there(self) -> bool:
        """True while the vault can be read: nothing is shown of one that cannot."""
        return bool(self.folder) and self.at is not None and not self.problem


@dataclass(frozen=True, slots=True)
class _Held:
    """Every window's vector with its chunk's number, as of one revision of the rows, in one space."""

    of: tuple[int, str]
    seqs: NDArray[np.int64]
    vectors: Vectors


class Noted:
    """The vault's vectors and its state. Safe for several threads."""

    def __init__(self) -> None:
        self.looked = Looked()
        self._revision = 0
        self._held: _Held | None = None
        self._lock = Lock()

    def changed(self) -> None:
        """Note that rows changed; whoever embeds them loads them anew, and nobody who asks waits for it."""
        with self._lock:
            self._revision += 1

    def forget(self) -> None:
        """Hold nothing any more: a forgotten vector is not left in memory."""
        with self._lock:
            self._revision += 1
            self._held = None

    def nearest(self, tx: Tx, space: EmbeddingSpace, vector: Vector, limit: int) -> dict[int, float]:
        """The chunks nearest to a vector with the cosine of their best window, best first."""
        held = self._held
        if held is None or held.of[1] != space.id:
            held = self.load(tx, space)
        cosines = np.vecdot(held.vectors, vector)  # see `index.vectors.products`
        found = dict[int, float]()
        for row in map(int, np.argsort(-cosines, kind="stable")):
            if len(found) == limit:
                break
            found.setdefault(int(held.seqs[row]), float(cosines[row]))
        return found

    def load(self, tx: Tx, space: EmbeddingSpace) -> _Held:
        """Read the vectors where they are not held as they are now."""
        wanted = (self._revision, space.id)
        held = self._held
        if held is None or held.of != wanted:
            held = _Held(wanted, *StoredVault(tx).vectors(space.id, space.dimension))
            with self._lock:
                if self._revision == wanted[0]:
                    self._held = held
        return held
