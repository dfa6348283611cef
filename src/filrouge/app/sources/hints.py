"""Source: what is worth recalling beside the answer: a preference, a plan, a limit that bears on the prompt.

Memory was asked about the prompt already. What it found of these kinds and had no place for is offered once more, as
what it is, where it is as probable by itself as a whole block must be. What has a place among the memories is not
said twice. A plan comes also when its day has come, asked about or not; then it goes along and breaks no silence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from filrouge.app.moment import Moment
from filrouge.app.parts import Parts
from filrouge.app.sources.telling import piece_of
from filrouge.model.memory import Memory
from filrouge.model.piece import Piece
from filrouge.model.when import Language
from filrouge.ports import Tx
from filrouge.recall.times import spans

_LABELS: Final[Mapping[str, Mapping[Language, str]]] = {
    "preference": {"en": "A preference: ", "fr": "Une préférence : ", "es": "Una preferencia: "},
    "intent": {"en": "Planned, perhaps still to do: ", "fr": "Prévu, peut-être encore à faire : ", "es": "Previsto: "},
    "constraint": {"en": "A limit to respect: ", "fr": "Une contrainte à respecter : ", "es": "Un límite: "},
}
_DUE: Final[Mapping[Language, str]] = {
    "en": "Planned for now: ",
    "fr": "Prévu pour maintenant : ",
    "es": "Previsto para ahora: ",
}
#: What a plan is worth whose day has come, where nobody asked about it; days that it stays so, and plans looked at.
_DUE_VALUE: Final = 0.25
_DUE_DAYS: Final = 3
_PLANS: Final = 50
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


def due(parts: Parts, tx: Tx, moment: Moment) -> Sequence[Piece]:
    """Plans whose day has come: one that was named when they were made, and that is today or a few days past."""
    plans = parts.memories(tx).planned(project=moment.project, user=moment.user, agent=moment.agent, limit=_PLANS)
    value = min(_DUE_VALUE, moment.settings.auto_retrieve_min_score / 2)
    found = [piece_of(plan, "hints", value=value) for plan in plans if _is_due(plan, moment.now)]
    return [replace(piece, text=_DUE[moment.language] + piece.text) for piece in found]


def _is_due(plan: Memory, now: datetime) -> bool:
    said, today = plan.valid_from.date(), now.date()
    return any(
        said <= span.first <= today and (today - span.last).days <= _DUE_DAYS for span in spans(plan.timeframe, today)
    )
