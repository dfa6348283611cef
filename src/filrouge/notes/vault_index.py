"""What is held of the vault in memory: the vectors of its chunks, and how the last look at it went.

Notes are alike before they say anything: their languages, their forms, the words under which they are filed. In the
bundled model's space a short French question is nearer to most short French notes than to the English one that answers
it. So a question is held against notes above the ground that these stand on (`threads.assignment`), with the mean of
other questions taken off; of 300 notes twice as many are then found. Few notes have no ground, and are compared as
they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from threading import Event as Flag
from threading import Lock
from typing import Final

import numpy as np

from filrouge.core.errors import EmbedderUnavailable
from filrouge.core.protocols import Tx, Vector, Vectors
from filrouge.notes.repository import StoredVault, Windows
from filrouge.providers.calibration import bundled
from filrouge.providers.models import EmbeddingSpace
from filrouge.search.vector_search import Meaning
from filrouge.threads.assignment import Ground

#: A ground is made again when the vectors have become so many times more or fewer.
_GROWN: Final = 1.1
#: Chunks of one note that make the ground, and that may be found for a question.
_OF_ONE_NOTE: Final = 3


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


@dataclass(frozen=True, kw_only=True, slots=True)
class WroteBack:
    """How the pages stand that are written into the vault.

    Attributes:
        folder: where they are; empty where none are written.
        problem: why nothing could be written, empty where it could.
        troubles: what is left alone, with where it stands: the page, the memory (or empty), and why.
    """

    folder: str = ""
    problem: str = ""
    pages: int = 0
    memories: int = 0
    troubles: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Near:
    """How near a chunk is to a question: its cosine, and what is left of it above the ground."""

    cosine: float
    above: float


@dataclass(frozen=True, slots=True)
class _Asking:
    """What the questions of the bundled sample have in common, in one space."""

    space_id: str
    mean: Vector


@dataclass(frozen=True, slots=True)
class _Held:
    """Every window, as of one revision of the rows, in one space.

    Attributes:
        above: the same vectors above the ground; None where there is none.
        sized: how many vectors the ground was made of.
        is_whole: all of them.
    """

    of: tuple[int, str]
    windows: Windows
    ground: Ground | None
    above: Vectors | None
    sized: int
    is_whole: bool


class Noted:
    """The vault's vectors and its state. Safe for several threads; `anew` has the pages written again that are gone."""

    def __init__(self) -> None:
        self.looked = Looked()
        self.written = WroteBack()
        self.anew = Flag()
        self._revision = 0
        self._held: _Held | None = None
        self._asking: _Asking | None = None
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

    def learn(self, meaning: Meaning) -> None:
        """Learn what questions have in common in this space, where that is not known; it takes about a second."""
        space = meaning.space
        if not space.is_measured or (self._asking and self._asking.space_id == space.id):
            return
        questions = [one.question for one in bundled() if one.question]
        try:
            mean = np.mean([meaning.embedder.query(one) for one in questions], axis=0)
        except EmbedderUnavailable:
            return  # the next look tries again
        self._asking = _Asking(space.id, mean)

    def nearest(self, tx: Tx, space: EmbeddingSpace, vector: Vector, limit: int) -> dict[int, Near]:
        """The chunks nearest to a question, by the best window of each, best first; of one note a few at the most."""
        held, asking = self._now(tx, space), self._asking
        cosines = np.vecdot(held.windows.vectors, vector)  # see `search.vector_index.products`
        near = cosines
        if held.ground is not None and held.above is not None and asking is not None and asking.space_id == space.id:
            asked = (vector - asking.mean) @ held.ground.levels
            near = np.vecdot(held.above, asked / max(float(np.linalg.norm(asked)), 1e-9))
        found, taken = dict[int, Near](), Counter[int]()
        for row in map(int, np.argsort(-near, kind="stable")):
            if len(found) == limit:
                break
            seq, note = int(held.windows.seqs[row]), int(held.windows.notes[row])
            if seq not in found and taken[note] < _OF_ONE_NOTE:
                found[seq] = Near(float(cosines[row]), float(near[row]))
                taken[note] += 1
        return found

    def embedded(self, tx: Tx, space: EmbeddingSpace) -> int:
        """How many chunks are found by their meaning."""
        return len(np.unique(self._now(tx, space).windows.seqs))

    def _now(self, tx: Tx, space: EmbeddingSpace) -> _Held:
        """What is held of this space, even if it lags behind the rows."""
        held = self._held
        return held if held is not None and held.of[1] == space.id else self.load(tx, space)

    def load(self, tx: Tx, space: EmbeddingSpace, *, is_whole: bool = False) -> _Held:
        """Read the vectors where they are not held as they are now.

        Args:
            is_whole: no chunk is without its vector, so the ground is worth making to the letter.
        """
        wanted = (self._revision, space.id)
        held = self._held
        if held is None or held.of != wanted or (is_whole and not held.is_whole):
            windows = StoredVault(tx).windows(space.id, space.dimension)
            # A thick note is no more of the ground than others.
            vectors = windows.vectors[windows.parts < _OF_ONE_NOTE]
            ground, sized = _ground(None if is_whole else held, space, vectors)
            above = ground.off(windows.vectors) if ground else None
            held = _Held(wanted, windows, ground, above, sized, is_whole)
            with self._lock:
                if self._revision == wanted[0]:
                    self._held = held
        return held


def _ground(before: _Held | None, space: EmbeddingSpace, vectors: Vectors) -> tuple[Ground | None, int]:
    """The ground of these vectors, the one before where they are hardly others, with how many it is made of."""
    if not space.is_measured:
        return None, 0
    if before and before.ground and before.of[1] == space.id:
        fewer, more = sorted((before.sized, len(vectors)))
        if more <= _GROWN * fewer:
            return before.ground, before.sized
    return Ground.of(vectors), len(vectors)
