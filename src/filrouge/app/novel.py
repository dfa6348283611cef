"""Whether a text says anything new: is there a memory that means the same?

Texts are compared as what they are, statement with statement; a search compares a question with its answers, which
lie further apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from filrouge.app.arms import arm
from filrouge.app.parts import Parts
from filrouge.app.report import project_id
from filrouge.errors import BadInput, EmbedderUnavailable
from filrouge.model.filters import EVERYTHING
from filrouge.model.memory import Memory
from filrouge.model.scope import LOCAL_USER
from filrouge.ports import Tx
from filrouge.store.shares import Place

#: The nearest may be no longer live; one of these is.
_LOOKED_AT: Final = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Novelty:
    """Whether a text is new, and the memory that comes nearest, with its calibrated similarity."""

    novel: bool
    nearest: Memory | None = None
    similarity: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """The body of the route."""
        one = self.nearest
        near = {"id": one.id, "content": one.text, "similarity": round(self.similarity, 4)} if one else None
        return {"novel": self.novel, "nearest": near}


def novelty(parts: Parts, text: str, *, threshold: float, names: Sequence[str]) -> Novelty:
    """Compare a text with the live memories of a project and its user; of all where no name is given.

    Args:
        threshold: the calibrated similarity, from 0 to 1, from which on two texts mean the same.

    Raises:
        BadInput: there is no text.
        NotFound: there is no such project.
        EmbedderUnavailable: nothing can be compared.
    """
    if not text.strip():
        raise BadInput("There is nothing to compare: the text is empty.")
    meaning = parts.meaning
    vectors = meaning.passages([text]) if meaning.ready.is_set() else None
    if vectors is None:
        raise EmbedderUnavailable("Whether a text is new cannot be said: its meaning cannot be compared now.")

    def nearest(tx: Tx) -> Novelty:
        place = Place(project=project_id(tx, names), user=LOCAL_USER, everywhere=not names)
        cosines = arm(parts, tx, "memory", place, EVERYTHING, ()).by_meaning(meaning, vectors[0], _LOOKED_AT)
        known = parts.memories(tx).some(list(cosines))
        for id_, cosine in cosines.items():
            if id_ in known and known[id_].state == "live":
                similarity = meaning.space.calibrated(cosine)
                return Novelty(novel=similarity < threshold, nearest=known[id_], similarity=similarity)
        return Novelty(novel=True)

    return parts.readers.here(nearest)
