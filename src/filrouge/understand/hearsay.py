"""Hearsay: what the words state that nobody vouches for, such as a prompt in a file that was read in.

A file says of itself what it likes. So nothing of it becomes a rule, a preference or any other instruction, nothing a
core fact, and nothing holds beyond its project: it is an observation, and is shown as one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from filrouge.model.memory import Statement
from filrouge.model.turn import TRUST_PROMPT, Turn
from filrouge.understand.heuristics import extract

#: What somebody may report without asking for anything.
_OBSERVATIONS: Final = frozenset({"fact", "decision"})


def stated_by(turn: Turn) -> tuple[Statement, ...]:
    """Every statement of a turn that it may make, by how far it is trusted."""
    if turn.trust >= TRUST_PROMPT or turn.role != "user":
        return extract(turn)
    read = extract(replace(turn, trust=TRUST_PROMPT))
    return tuple(
        replace(one, scope="project", key=None, value=None)
        for one in read
        if one.kind in _OBSERVATIONS and one.scope == "project"
    )
