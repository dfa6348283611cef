"""Source: reminders of how the user wants work to be done, where the prompt asks for that kind of work (RULE-2)."""

from __future__ import annotations

from collections.abc import Sequence

from filrouge.app.moment import Moment
from filrouge.app.parts import Parts
from filrouge.extraction.work import WORDS, reminded
from filrouge.model.piece import Piece
from filrouge.ports import Tx


def reminders(_parts: Parts, _tx: Tx, moment: Moment) -> Sequence[Piece]:
    """Those that are switched on and that the prompt gives occasion for."""
    return [
        Piece(
            id=name,
            kind="reminder",
            section="reminders",
            text=WORDS[name][moment.language],
            said=moment.now,
            source="filrouge",
            value=0.9,
        )
        for name in reminded(moment.prompt, moment.settings.reminders)
    ]
