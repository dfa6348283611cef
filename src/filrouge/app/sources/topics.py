"""Source: what was discussed, for a prompt that asks just that; it always says something.

A title is the user's own text. Where nothing is known the block says so: a model that was asked what was discussed
makes something up otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

from filrouge.app.moment import Moment
from filrouge.app.parts import Parts
from filrouge.app.topics import discussed
from filrouge.model.piece import Piece
from filrouge.model.timeline import conversations, nothing_known
from filrouge.model.topic import Topic
from filrouge.model.when import Language
from filrouge.ports import Tx
from filrouge.recall.asked_back import asks_back, spoken


def topics(parts: Parts, tx: Tx, moment: Moment) -> Sequence[Piece]:
    """The topics of the time that is asked about, latest first, of the current project alone."""
    period = asks_back(moment.prompt)
    if period is None:
        return []
    found = discussed(
        parts,
        tx,
        user_id=moment.user,
        period=period,
        agent_id=moment.agent,
        project=moment.project,
        everywhere=False,
    )
    if not found:
        said = nothing_known(spoken(period, moment.language), moment.language)
        return [Piece(id="", kind="nothing", section="topics", text=said, said=moment.now, source="filrouge")]
    return [_piece(topic, moment.language) for topic in found]


def _piece(topic: Topic, language: Language) -> Piece:
    summary = f" └─ {topic.summary}" if topic.summary else ""
    return Piece(
        id=topic.id,
        kind="topic",
        section="topics",
        text=f"{topic.title} - {conversations(topic, language)}{summary}",
        said=topic.last,
        source=topic.channel,
        value=topic.vitality,
    )
