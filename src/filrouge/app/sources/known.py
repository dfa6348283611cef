"""Sources: what is known of the user and the project, for a session that starts.

Core facts have a name (`user_name`); they are short, and many small ones go in. Of what else is worth knowing decisions
and constraints stand under headings of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from filrouge.app.moment import Moment
from filrouge.app.parts import Parts
from filrouge.app.sources.telling import piece_of
from filrouge.model.memory import Kind, Memory
from filrouge.model.piece import Piece, Section
from filrouge.ports import Tx
from filrouge.store.doubts import DOUBTED, Doubts

MOST_CORE_FACTS = 20
MOST_CHARACTERS = 500
"""Of all core facts together."""
MOST_WORTH_KNOWING = 12
"""Of labelled sessions that start, 12 hold .63 of what a colleague would say then, 8 hold .54, 30 no more."""
_SECTIONS: Mapping[Kind, Section] = {"decision": "decisions", "constraint": "constraints"}
#: What one of the first is worth where nobody asked anything, and how much less the next.
_FIRST, _STEP = 0.6, 0.02


def core_facts(parts: Parts, tx: Tx, moment: Moment) -> Sequence[Piece]:
    """The core facts of the user and the project, as far as 500 characters go."""
    found = parts.memories(tx).core_facts(
        project=moment.project, user=moment.user, agent=moment.agent, limit=MOST_CORE_FACTS
    )
    offered, used = list[Piece](), 0
    for n, fact in enumerate(found):
        piece = piece_of(fact, "facts", value=_FIRST - n * _STEP / 2)
        too_long = used + len(piece.text) > MOST_CHARACTERS
        offered.append(piece if not too_long else piece_of(fact, "facts", value=0.0, refused="beyond the limit"))
        used += 0 if too_long else len(piece.text)
    return offered


def worth_knowing(parts: Parts, tx: Tx, moment: Moment) -> Sequence[Piece]:
    """Preferences and constraints, then decisions, facts and plans, newest first, less what is in doubt."""
    found = parts.memories(tx).worth_knowing(
        project=moment.project, user=moment.user, agent=moment.agent, limit=2 * MOST_WORTH_KNOWING
    )
    doubted = Doubts(tx).among([memory.id for memory in found])
    shown = [memory for memory in found if memory.id not in doubted][:MOST_WORTH_KNOWING]
    return [
        *(_piece(memory, value=_FIRST - n * _STEP) for n, memory in enumerate(shown)),
        *(_piece(memory, value=0.0, refused=DOUBTED) for memory in found if memory.id in doubted),
    ]


def _piece(memory: Memory, *, value: float, refused: str = "") -> Piece:
    return piece_of(memory, _SECTIONS.get(memory.kind, "facts"), value=value, refused=refused)
