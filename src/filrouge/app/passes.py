"""Passes: how texts get their vectors, as many at a time as make up some work, and of a long one a few windows.

A long text is embedded from its last window to its first, so that one job is never a monster and being killed costs a
pass. Its owner counts as embedded, and is shown to the index, once the first window is stored. Short texts go to the
embedder together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from filrouge.app.meaning import Meaning, in_passes
from filrouge.app.parts import Parts
from filrouge.ports import Embedder, Tx, Vectors
from filrouge.providers.embedders import windows
from filrouge.store.vectors import Owner, StoredVectors

#: Some seconds of the bundled model at the most: so long may what was captured wait to be understood.
WINDOWS_PER_JOB = 16
#: The same for short texts together, in characters: about as many windows of prose.
_LETTERS_AT_ONCE = 16_000


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
        """Store them, unless the owner was erased meanwhile."""
        first = None if self.whole else self.first
        if StoredVectors(tx).number(self.owner.kind, self.owner.id) is not None:
            StoredVectors(tx).put(self.owner.kind, self.owner.id, space_id, self.vectors, first=first)

    def show(self, parts: Parts, meaning: Meaning) -> None:
        """Let the index find the owner, if it is complete."""
        owner, space = self.owner, meaning.space.id
        number = parts.readers.here(lambda tx: StoredVectors(tx).number(owner.kind, owner.id))
        if self.first or number is None:
            return
        found = self.vectors
        if not self.whole:
            stored = parts.readers.here(lambda tx: StoredVectors(tx).of(owner.kind, owner.id, space))
            found = found if stored is None else stored
        index = meaning.memory_index if owner.kind == "memory" else meaning.turn_index
        index.put(owner.id, number, owner.group, found)


def next_passes(parts: Parts, embedder: Embedder, space_id: str, owners: Sequence[Owner]) -> list[Pass | None]:
    """Embed the windows that come next of the first of these owners, as many as make up some work; at least of one.

    Returns:
        For each of those owners, in order: its pass, or None if it has all its windows.

    Raises:
        EmbedderUnavailable: the model cannot be used.
    """
    wanted = _wanted(parts, space_id, owners)
    vectors = in_passes(embedder, [piece for _, pieces, _ in wanted for piece in pieces])
    passes, begin = list[Pass | None](), 0
    for owner, (first, pieces, whole) in zip(owners, wanted, strict=False):
        own = vectors[begin : begin + len(pieces)]
        passes.append(Pass(owner=owner, first=first, vectors=own, whole=whole) if pieces else None)
        begin += len(pieces)
    return passes


def _wanted(parts: Parts, space_id: str, owners: Sequence[Owner]) -> list[tuple[int, list[str], bool]]:
    """Of the first owners, the windows that come next: the number of the first, their texts, and if they are all."""
    found, letters = list[tuple[int, list[str], bool]](), 0
    for owner in owners:
        pieces = windows(owner.text)
        stored = parts.readers.here(
            lambda tx, owner=owner: StoredVectors(tx).first_part(owner.kind, owner.id, space_id)
        )
        stop = len(pieces) if stored is None else min(stored, len(pieces))
        first = max(0, stop - WINDOWS_PER_JOB)
        letters += sum(map(len, pieces[first:stop]))
        if found and letters > _LETTERS_AT_ONCE:
            break
        found.append((first, pieces[first:stop], stop - first == len(pieces)))
    return found
