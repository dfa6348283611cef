"""Passes: how a text gets its vectors, a few windows a job.

A long text is embedded from its last window to its first, so that one job is never a monster and being killed costs a
pass. Its owner counts as embedded, and is shown to the index, once the first window is stored.
"""

from __future__ import annotations

from dataclasses import dataclass

from filrouge.app.meaning import Meaning, in_passes
from filrouge.app.parts import Parts
from filrouge.embed.windows import windows
from filrouge.ports import Embedder, Tx, Vectors
from filrouge.store.vectors import Owner, StoredVectors

#: Some seconds of the bundled model at the most: so long may what was captured wait to be understood.
WINDOWS_PER_JOB = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Pass:
    """Some windows of an owner with their vectors.

    Attributes:
        first: the number of the first of them; 0 = the owner is complete with them.
        whole: they are all that the owner has.
    """

    owner: Owner
    first: int
    vectors: Vectors
    whole: bool

    def write(self, tx: Tx, space_id: str) -> None:
        """Store them."""
        first = None if self.whole else self.first
        StoredVectors(tx).put(self.owner.kind, self.owner.id, space_id, self.vectors, first=first)

    def show(self, parts: Parts, meaning: Meaning) -> None:
        """Let the index find the owner, if it is complete."""
        owner, space = self.owner, meaning.space.id
        if self.first:
            return
        found = self.vectors
        if not self.whole:
            stored = parts.readers.here(lambda tx: StoredVectors(tx).of(owner.kind, owner.id, space))
            found = found if stored is None else stored
        index = meaning.memory_index if owner.kind == "memory" else meaning.turn_index
        index.put(owner.id, owner.group, found)


def next_pass(parts: Parts, embedder: Embedder, space_id: str, owner: Owner) -> Pass | None:
    """Embed the owner's windows that come next; None if it has all.

    Raises:
        EmbedderUnavailable: the model cannot be used.
    """
    pieces = windows(owner.text)
    stored = parts.readers.here(lambda tx: StoredVectors(tx).first_part(owner.kind, owner.id, space_id))
    stop = len(pieces) if stored is None else min(stored, len(pieces))
    if stop == 0:
        return None
    first = max(0, stop - WINDOWS_PER_JOB)
    vectors = in_passes(embedder, pieces[first:stop])
    return Pass(owner=owner, first=first, vectors=vectors, whole=stop - first == len(pieces))


def next_passes(parts: Parts, embedder: Embedder, space_id: str, owners: list[Owner]) -> list[Pass]:
    """The same for the first of these owners, as many as make up one job; at least one."""
    passes: list[Pass] = []
    taken = 0
    for owner in owners:
        size = len(windows(owner.text))
        if passes and taken + size > WINDOWS_PER_JOB:
            break
        found = next_pass(parts, embedder, space_id, owner)
        if found is not None:
            passes.append(found)
            taken += size
    return passes
