"""The budget: what fits into a block, most valuable first."""

from __future__ import annotations

from collections.abc import Sequence

from filrouge.inject.render import HEADINGS, Line, overhead
from filrouge.model.when import Language


def fit(lines: Sequence[Line], budget: int, language: Language) -> tuple[list[Line], list[Line]]:
    """Take lines in their order while the rendered block stays within `budget` characters.

    A line that does not fit is left out and a shorter one behind it may still go in.

    Returns:
        The lines that fit and those that do not.
    """
    used = overhead(language)
    sections: set[str] = set()
    taken: list[Line] = []
    left: list[Line] = []
    for line in lines:
        cost = len(line.render()) + 1
        if line.section not in sections:
            cost += len(HEADINGS[line.section][language]) + 1
        if used + cost > budget:
            left.append(line)
            continue
        used += cost
        sections.add(line.section)
        taken.append(line)
    return taken, left
