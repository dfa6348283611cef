"""The timeline in front of a model: topics as quoted lines, latest first, or the word that nothing is known.

A title is the user's own text, so it goes through the same rendering as a memory. Where nothing is known the block says
so: a model that was asked what was discussed makes something up otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

from filrouge.inject.budget import fit
from filrouge.inject.context import Block, Manner
from filrouge.inject.render import Line, fresh_nonce, render
from filrouge.model.recall import RecallItem
from filrouge.model.timeline import conversations, nothing_known
from filrouge.model.topic import Topic
from filrouge.model.when import Language, ago
from filrouge.recall.asked_back import Period, spoken


def of_topics(topics: Sequence[Topic], period: Period, manner: Manner) -> Block:
    """The block of a period's topics; never empty."""
    nonce, language = fresh_nonce(), manner.language
    if not topics:
        said = nothing_known(spoken(period, language), language)
        line = Line(
            section="topics", age=ago(manner.now, manner.now, language), source="filrouge", text=said, verified=True
        )
        return Block(text=render([line], language, nonce), nonce=nonce, items=())
    lines = [_line(topic, manner, language) for topic in topics]
    taken, _ = fit(lines, manner.budget, language)
    inside = {id(line) for line in taken}
    items = tuple(
        RecallItem(
            id=topic.id,
            kind="topic",
            injected=id(line) in inside,
            reason="injected" if id(line) in inside else "over the budget",
            scores={},
        )
        for topic, line in zip(topics, lines, strict=True)
    )
    return Block(text=render(taken, language, nonce), nonce=nonce if taken else "", items=items)


def _line(topic: Topic, manner: Manner, language: Language) -> Line:
    summary = f" └─ {topic.summary}" if topic.summary else ""
    return Line(
        section="topics",
        age=ago(topic.last, manner.now, language),
        source=topic.channel,
        text=f"{topic.title} - {conversations(topic, language)}{summary}",
        verified=True,
    )
