"""Novelty: whether a text says what no live memory says (API-5), and the memory that is nearest to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from filrouge.capture.programs import place_of
from filrouge.core.errors import BadInput
from filrouge.core.protocols import Tx, Vectors
from filrouge.core.scope import LOCAL_USER
from filrouge.extraction.understanding import vectors_at_once
from filrouge.maintenance.health import number_of
from filrouge.memories.models import Memory
from filrouge.runtime.services import Parts

#: On the calibrated scale (MEM-7): 0 = unrelated, 1 = the same text.
THRESHOLD: Final = 0.88
_LOOKED_AT: Final = 20
LONGEST: Final = 2000


@dataclass(frozen=True, kw_only=True, slots=True)
class Novelty:
    """Whether it is new, and what is nearest; None where nothing is near, or nobody can tell."""

    novel: bool
    nearest: Memory | None
    similarity: float


def is_novel(
    parts: Parts, text: str, threshold: float = THRESHOLD, *, names: Sequence[str] = (), user: str = LOCAL_USER
) -> Novelty:
    """Compare a text with the live memories of a project and of the user; without a model, by equal words alone.

    Raises:
        BadInput: there is no text, or too much of it.
    """
    said = parts.redact(text.strip())
    if not said or len(said) > LONGEST:
        raise BadInput(f"The text has {len(said)} characters; it needs 1 to {LONGEST}.")
    [vectors] = vectors_at_once(parts.meaning, [said])
    return parts.readers.here(lambda tx: _compared(parts, tx, said, vectors, threshold, names, user))


def _compared(
    parts: Parts, tx: Tx, said: str, vectors: Vectors | None, threshold: float, names: Sequence[str], user: str
) -> Novelty:
    project = place_of(tx, names)[1]
    found = _near(parts, vectors, frozenset({project or "", f"user:{user}"}))
    words = frozenset(parts.analyser.tokens(said).split())
    store = parts.memories(tx)
    for one in store.within(project=project, user=user)[:_SAME] if number_of(tx, "memories.size") else ():
        if one.scope.user == user and frozenset(parts.analyser.tokens(one.text).split()) == words:
            found[one.id] = 1.0
    known = store.some(list(found))
    live = [one for one in known.values() if one.state == "live" and one.scope.user == user]
    nearest = max(live, key=lambda one: (found[one.id], one.id), default=None)
    similarity = found[nearest.id] if nearest else 0.0
    return Novelty(novel=similarity < threshold, nearest=nearest, similarity=similarity)


def _near(parts: Parts, vectors: Vectors | None, groups: frozenset[str]) -> dict[str, float]:
    if vectors is None:
        return {}
    meaning = parts.meaning
    near = meaning.memory_index.nearest(vectors[0], _LOOKED_AT, groups)
    return {one.owner_id: meaning.space.calibrated(one.cosine) for one in near}


#: The newest memories whose words are compared.
_SAME: Final = 500
