"""The subjects of one prompt: at most five cleaned topics, by rules alone."""

from __future__ import annotations

from dataclasses import replace

from filrouge.model.turn import Turn
from filrouge.understand.concepts import concepts
from filrouge.understand.topic_cleaning import clean_topics, without_label


def subjects(turn: Turn) -> tuple[str, ...]:
    """The topics of a turn, the weightiest first; none where it names nothing."""
    return tuple(clean_topics(concepts([replace(turn, text=without_label(turn.text))])))
