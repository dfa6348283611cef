"""Topics and the timeline: what was discussed, and when.

`discussed` is the single source of topics. Every thread is a topic. Prompts that are in no thread are grouped by
session; sessions with enough rare words in common are one topic. Dates and counts cover only the requested period.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from filrouge.context.intents import Period, asked_period, period_bounds
from filrouge.core.clock import Language, from_text, to_text
from filrouge.core.errors import BadInput
from filrouge.core.protocols import Tx
from filrouge.core.scope import LOCAL_USER
from filrouge.extraction.summaries import detect_language, title_of
from filrouge.extraction.vocabulary import PLAIN_WORDS
from filrouge.runtime.services import Parts
from filrouge.threads.models import Thread, Timeframe, Timeline, Topic, format_timeline, timeline_of
from filrouge.threads.repository import Threads

# Topics of conversations that are in no thread.

#: Half-life of the vitality of a topic.
HALF_LIFE = timedelta(days=7)
#: Minimum share of the lighter conversation's distinctive words, by weight, that both must have; and their minimum
#: number.
_AGREEMENT, _LEAST_SHARED = 0.45, 2
#: Maximum number of words per conversation to compare, the rarest first.
_MOST_WORDS: Final = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversation:
    """The real prompts of one session.

    Attributes:
        titles: subjects of its prompts, in order; never empty.
        words: candidates for distinctive words, as `telling_words` returns them.
    """

    id: str
    project: str | None
    channel: str
    titles: tuple[str, ...]
    words: frozenset[str]
    first: datetime
    last: datetime


def topics_of(conversations: Sequence[Conversation], now: datetime) -> list[Topic]:
    """Return the topics of these conversations, latest first.

    Each has the title of its first real prompt. Two conversations of one project are one topic if they share enough
    distinctive words, weighted by rarity, relative to the lighter one. A word is distinctive if few conversations have
    it and it is not an everyday word.
    """
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
    """Return the stems of words that may be distinctive: no everyday words, numbers or fragments.

    Args:
        terms: words with their forms, the word itself first and its stem last.
    """
    return frozenset(
        forms[-1] for forms in terms if len(forms[0]) > 2 and forms[0] not in PLAIN_WORDS and not forms[0].isdigit()
    )


def vitality(last: datetime, now: datetime) -> float:
    """Return the vitality of a topic, in [0, 1]; it halves with every `HALF_LIFE` since it was last discussed."""
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
    """Return the rarity of each word; words that many conversations have are left out."""
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


# Topics of threads and conversations, for the API and the command line.

#: Maximum number of prompts read for one answer, newest first: some weeks of work.
_MOST_PROMPTS = 1500
#: Maximum number of characters read of a prompt.
_LONGEST_READ = 2000
_TIMEFRAMES: Mapping[str, Period] = {"today": "today", "week": "week", "month": "month", "all": "all"}


def list_discussed_topics(
    parts: Parts,
    tx: Tx,
    user_id: str = LOCAL_USER,
    timeframe: Timeframe = "week",
    limit: int = 50,
    min_mention_count: int = 1,
    agent_id: str | None = None,
) -> list[Topic]:
    """Return the topics of a period, latest first, in this machine's time zone.

    Args:
        timeframe: since midnight, in the last 7 or 30 days, or ever.
        min_mention_count: minimum number of conversations of a topic.
        agent_id: only what was said to this agent (its id, or its channel).

    Raises:
        BadInput: there is no such timeframe.
    """
    if timeframe not in _TIMEFRAMES:
        raise BadInput(f"There is no timeframe {timeframe!r}; there are: {', '.join(_TIMEFRAMES)}.")
    found = discussed(parts, tx, user_id=user_id, period=_TIMEFRAMES[timeframe], agent_id=agent_id)
    return [topic for topic in found if topic.conversations >= min_mention_count][:limit]


def get_conversation_timeline(
    parts: Parts, tx: Tx, user_id: str = LOCAL_USER, limit: int = 120, agent_id: str | None = None
) -> Timeline:
    """Return the latest topics by age (7, 14 and 30 days), in this machine's time zone."""
    found = discussed(parts, tx, user_id=user_id, period="all", agent_id=agent_id)
    return timeline_of(found[:limit], parts.clock.now())


def discussed(
    parts: Parts,
    tx: Tx,
    *,
    user_id: str,
    period: Period,
    agent_id: str | None = None,
    project: str | None = None,
    everywhere: bool = True,
) -> list[Topic]:
    """Return the topics of a period, latest first."""
    now = parts.clock.now()
    since, until = period_bounds(period, now.astimezone())
    asked = {
        "user_id": user_id,
        "agent": agent_id,
        "project_id": project,
        "everywhere": everywhere,
        "since": to_text(since) if since else "",
        "until": to_text(until) if until else "9999",
        "limit": _MOST_PROMPTS,
    }
    threads = dict[str, list[dict[str, Any]]]()
    sessions = dict[tuple[str, str], list[dict[str, Any]]]()
    for row in reversed(tx.all("turns.prompts", asked)):
        if row["thread_id"]:
            threads.setdefault(row["thread_id"], []).append(row)
        else:
            sessions.setdefault(_session(row), []).append(row)
    conversations = [one for rows in sessions.values() if (one := _conversation(parts, rows))]
    known = {thread.id: thread for thread in Threads(tx).some(list(threads))}
    found = [topic for id_, rows in threads.items() if (topic := _of_thread(known[id_], rows, now))]
    found += topics_of(conversations, now)
    found.sort(key=lambda topic: (topic.last, topic.first, topic.id), reverse=True)
    return [replace(topic, first=topic.first.astimezone(), last=topic.last.astimezone()) for topic in found]


def topic_json(topic: Topic) -> dict[str, Any]:
    """Return a topic in the form of the API; dates are in UTC."""
    return {
        "id": topic.id,
        "title": topic.title,
        "summary": topic.summary,
        "first_date": to_text(topic.first),
        "last_date": to_text(topic.last),
        "conversations": topic.conversations,
        "thread_ids": list(topic.threads),
        "vitality": round(topic.vitality, 3),
        "channel": topic.channel,
        "project": topic.project,
    }


def topics_json(topics: Sequence[Topic], timeframe: Timeframe) -> dict[str, Any]:
    """Return the response body for a list of topics."""
    return {"timeframe": timeframe, "topics": [topic_json(one) for one in topics], "nothing_known": not topics}


def timeline_json(timeline: Timeline, language: Language) -> dict[str, Any]:
    """Return the response body for a timeline, including its text."""
    windows = {name: [topic_json(topic) for topic in topics] for name, topics in timeline.windows}
    total = len(timeline.topics)
    return {**windows, "total": total, "nothing_known": not total, "text": format_timeline(timeline, language)}


def language_of(parts: Parts, tx: Tx) -> Language:
    """Return the language for output that is not related to a prompt."""
    settings = parts.settings(tx)
    if settings.language != "auto":
        return settings.language
    return detect_language([row["text"] for row in tx.all("turns.newest_prompts", {"limit": 5})])


def _session(row: Mapping[str, Any]) -> tuple[str, str]:
    """Return the session of a prompt; a prompt outside every session is its own session."""
    return row["host"], row["session_id"] or row["id"]


def _of_thread(thread: Thread, rows: Sequence[Mapping[str, Any]], now: datetime) -> Topic | None:
    """Build the topic of a thread from these prompts, oldest first; None if none of them has a subject."""
    told = [row for row in rows if _subject(row["text"])]
    if not told:
        return None
    moments = [from_text(row["at"]) for row in told]
    return Topic(
        id=thread.id,
        title=thread.title,
        summary="" if thread.summary.casefold() == thread.title.casefold() else thread.summary,
        first=min(moments),
        last=max(moments),
        conversations=len({_session(row) for row in told}),
        threads=(thread.id,),
        vitality=vitality(max(moments), now),
        channel=told[-1]["channel"],
        project=thread.project,
    )


def _conversation(parts: Parts, rows: Sequence[dict[str, Any]]) -> Conversation | None:
    """Build a conversation from the prompts of a session; None if none of them has a subject."""
    told = [(row, title) for row in rows if (title := _subject(row["text"]))]
    if not told:
        return None
    words = telling_words(forms for row, _ in told for forms in parts.analyser.terms(row["text"][:_LONGEST_READ]))
    moments = [from_text(row["at"]) for row, _ in told]
    first, latest = told[0][0], told[-1][0]
    return Conversation(
        id=f"{first['host']}/{first['session_id'] or first['id']}",
        project=latest["project_id"],
        channel=latest["channel"],
        titles=tuple(title for _, title in told),
        words=words,
        first=min(moments),
        last=max(moments),
    )


def _subject(text: str) -> str:
    """Return the subject of a prompt; empty for small talk and for questions about earlier conversations."""
    return "" if asked_period(text) else title_of(text)
