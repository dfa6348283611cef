"""The subjects of one prompt: at most five cleaned topics, by rules alone."""

from __future__ import annotations

from dataclasses import replace

from filrouge.extraction.summaries import clean_topics, concepts, without_label
from filrouge.model.turn import Turn


def subjects(turn: Turn) -> tuple[str, ...]:
    """The topics of a turn, the weightiest first; none where it names nothing."""
    return tuple(clean_topics(concepts([replace(turn, text=without_label(turn.text))])))
