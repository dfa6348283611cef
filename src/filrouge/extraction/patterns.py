"""Which of the statements that patterns found belongs to a unit."""

from __future__ import annotations

from collections.abc import Sequence

from filrouge.extraction.units import Unit
from filrouge.model.memory import Statement


def pattern_of(unit: Unit, found: Sequence[Statement]) -> Statement | None:
    """The first statement that holds more than half of the unit, or of which the unit holds more than half."""
    for one in found:
        if unit.shared(one.span.start, one.span.end) > 0.5 * min(unit.end - unit.start, one.span.end - one.span.start):
            return one
    return None
