"""Topics read off conversations: each has the title of its first real prompt; those that share their telling words are
one.

A word tells two conversations apart from the rest when few conversations have it and it is no everyday word. Two
conversations of one project are about the same where enough of the lighter one's telling words, weighed by how rare
they are, stand in the other.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from filrouge.extraction.vocabulary import PLAIN_WORDS
from filrouge.model.topic import Topic

#: A topic that nobody came back to for a week is half as lively.
HALF_LIFE = timedelta(days=7)
#: The share of the lighter conversation's telling words that both must have, and how many words that is at least.
_AGREEMENT, _LEAST_SHARED = 0.45, 2
#: Words of one conversation that are compared, the rarest first.
_MOST_WORDS: Final = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversation:
    """One session's real prompts.

    Attributes:
        titles: the subjects of its prompts, in their order; never empty.
        words: the words said in it that may be telling, as `telling_words` gives them.
    """

    id: str
    project: str | None
    channel: str
    titles: tuple[str, ...]
    words: frozenset[str]
    first: datetime
    last: datetime


def topics_of(conversations: Sequence[Conversation], now: datetime) -> list[Topic]:
    """The topics of these conversations, latest first."""
    weights = _rarities(conversations)
    telling = {one.id: _telling(one, weights) for one in conversations}
    groups: list[list[Conversation]] = []
    for one in sorted(conversations, key=lambda one: (one.first, one.id)):
        same = next((group for group in groups if any(_agree(one, other, telling, weights) for other in group)), None)
        if same is None:
            groups.append([one])
        else:
            same.append(one)
    topics = [_topic(group, now) for group in groups]
    return sorted(topics, key=lambda topic: (topic.last, topic.first, topic.id), reverse=True)


def telling_words(terms: Iterable[Sequence[str]]) -> frozenset[str]:
    """The stems of words that may tell a conversation from others: no everyday words, numbers or scraps.

    Args:
        terms: words with their forms, the word itself first and its stem last.
    """
    return frozenset(
        forms[-1] for forms in terms if len(forms[0]) > 2 and forms[0] not in PLAIN_WORDS and not forms[0].isdigit()
    )


def vitality(last: datetime, now: datetime) -> float:
    """How lively a topic is, in [0, 1]: halved with every `HALF_LIFE` that nobody spoke of it."""
    return 0.5 ** (max(now - last, timedelta()) / HALF_LIFE)


def _topic(group: Sequence[Conversation], now: datetime) -> Topic:
    latest = max(group, key=lambda one: (one.last, one.id))
    last = max(one.last for one in group)
    title = group[0].titles[0]
    later = next((told for told in reversed(latest.titles) if told.casefold() != title.casefold()), "")
    return Topic(
        id=group[0].id,
        title=title,
        summary=later,
        first=min(one.first for one in group),
        last=last,
        conversations=len(group),
        vitality=vitality(last, now),
        channel=latest.channel,
        project=latest.project,
    )


def _rarities(conversations: Sequence[Conversation]) -> dict[str, float]:
    """How telling each word is; those that many conversations have are left out."""
    having = Counter(word for one in conversations for word in one.words)
    total = len(conversations)
    return {word: math.log(1 + total / n) for word, n in having.items() if n <= max(3, total * 0.1)}


def _telling(one: Conversation, weights: Mapping[str, float]) -> frozenset[str]:
    known = sorted((word for word in one.words if word in weights), key=lambda word: (-weights[word], word))
    return frozenset(known[:_MOST_WORDS])


def _agree(
    one: Conversation, other: Conversation, telling: Mapping[str, frozenset[str]], weights: Mapping[str, float]
) -> bool:
    ours, theirs = telling[one.id], telling[other.id]
    shared = ours & theirs
    if one.project != other.project or len(shared) < _LEAST_SHARED:
        return False
    lighter = min(sum(weights[word] for word in words) for words in (ours, theirs))
    return sum(weights[word] for word in shared) >= _AGREEMENT * lighter
