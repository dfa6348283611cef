"""Source: the standing rules that hold here, all of them, the pinned and the newest first."""

from __future__ import annotations

from collections.abc import Sequence

from filrouge.app.moment import Moment
from filrouge.app.parts import Parts
from filrouge.app.sources.telling import piece_of
from filrouge.model.piece import Piece
from filrouge.ports import Tx


def rules(parts: Parts, tx: Tx, moment: Moment) -> Sequence[Piece]:
    """Every rule of the project and of the user."""
    found = parts.memories(tx).rules(project=moment.project, user=moment.user, agent=moment.agent)
    return [piece_of(rule, "rules", value=1.0) for rule in found]
