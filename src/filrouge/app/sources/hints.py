"""Source: what is worth recalling beside the answer: a preference, a plan, a limit that bears on the prompt.

Memory was asked about the prompt already. What it found of these kinds and had no place for is offered once more, as
what it is, where it is as probable by itself as a whole block must be. What has a place among the memories is not
said twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from filrouge.app.moment import Moment
from filrouge.app.parts import Parts
from filrouge.model.piece import Piece
from filrouge.model.when import Language
from filrouge.ports import Tx

_LABELS: Final[Mapping[str, Mapping[Language, str]]] = {
    "preference": {"en": "A preference: ", "fr": "Une préférence : ", "es": "Una preferencia: "},
    "intent": {"en": "Planned, perhaps still to do: ", "fr": "Prévu, peut-être encore à faire : ", "es": "Previsto: "},
    "constraint": {"en": "A limit to respect: ", "fr": "Une contrainte à respecter : ", "es": "Un límite: "},
}
#: Why a memory had no place that nothing else speaks against.
_NO_PLACE: Final = frozenset({"", "beyond the limit", "over the budget"})


def hints(_parts: Parts, _tx: Tx, moment: Moment) -> Sequence[Piece]:
    """Of what was found, what reminds of a preference, a plan or a limit."""
    least = moment.settings.auto_retrieve_min_score
    return [
        replace(piece, section="hints", text=_LABELS[piece.kind][moment.language] + piece.text, refused="")
        for piece in moment.offered
        if piece.section == "memories" and piece.kind in _LABELS and piece.refused in _NO_PLACE and piece.value >= least
    ]
