"""Source: the threads that are in hand, for a session that starts (INJ-2), and what is still open in them.

Active threads come before suspended ones, the latest first. Where the work of a thread stands is told by another
source for the last of them; those are not told again. What is open in the others is asked of what is stored of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from filrouge.app.heard import what_ended
from filrouge.app.moment import Moment
from filrouge.app.parts import Parts
from filrouge.app.sources.synthesis import pieces_of
from filrouge.app.sources.threads import is_in_reach, title_of
from filrouge.app.syntheses import state_of_thread
from filrouge.app.thread_report import threads_now
from filrouge.inject.sections import MOST_THREADS
from filrouge.model.piece import Piece
from filrouge.ports import Tx
from filrouge.store.threads import Threads

#: What the first is worth where nobody asked anything, and how much less the next; what is open in one, beside it.
_FIRST, _STEP, _OPEN = 0.3, 0.02, 0.9
_TOLD: Final = "where it stands is told"


def threads_at_start(parts: Parts, tx: Tx, moment: Moment) -> Sequence[Piece]:
    """A line for each thread in hand, and its open questions."""
    told, ended = _told(tx, moment), what_ended(tx, moment)
    found = threads_now(parts, tx, user=moment.user, project=moment.project, everywhere=False, agent=moment.agent)
    in_hand = [one for one in found if one.state != "archived" and is_in_reach(one, moment)]
    in_hand.sort(key=lambda one: one.state != "active")  # each of them the latest first, as they came
    titles, questions = list[Piece](), list[Piece]()
    others = 0
    for thread in in_hand:
        value = _FIRST - others * _STEP
        line = replace(title_of(thread, moment, value, ended), section="threads")
        titles.append(replace(line, refused=_TOLD) if thread.id in told else line)
        if thread.id in told or others >= MOST_THREADS:
            continue
        others += 1
        stood = state_of_thread(tx, thread.id)
        asked = pieces_of(stood, moment, worth=value * _OPEN) if stood else []
        questions += [piece for piece in asked if piece.section == "questions"]
    return [*titles, *questions]


def _told(tx: Tx, moment: Moment) -> set[str]:
    """The threads of which another source told where they stand."""
    turns = {
        turn for piece in moment.offered if piece.section == "synthesis" and not piece.refused for turn in piece.turns
    }
    return set(Threads(tx).of_turns(turns).values())
