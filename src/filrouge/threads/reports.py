"""Threads for display and search: a list, one thread with its turns, and why a turn is where it is.

All functions show the current state of threads, even if no sweep has written it yet. Most return a response body of the
API.

Topics and the timeline: what was discussed, and when.

`discussed` is the single source of topics. Every thread is a topic. Prompts that are in no thread are grouped by
session; sessions with enough rare words in common are one topic. Dates and counts cover only the requested period.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache, partial
from typing import Any, Final, Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from filrouge.capture.models import Turn
from filrouge.core.clock import Clock, Language, from_text, text_or_none, to_text
from filrouge.core.errors import BadInput, NotFound
from filrouge.core.protocols import Analyser, Tx
from filrouge.core.scope import LOCAL_USER
from filrouge.extraction.intents import Period, asked_period, period_bounds
from filrouge.extraction.summaries import title_of
from filrouge.extraction.vocabulary import PLAIN_WORDS, detect_language
from filrouge.memories.models import Filters
from filrouge.projects import repository
from filrouge.providers.embedders import windows
from filrouge.runtime.services import Parts, StoreContext
from filrouge.search.filters import set_filter_names
from filrouge.search.ranking import USUAL_OKAPI, CollectionStatistics, bm25_of_counts, fuse_scores
from filrouge.search.repository import FullTextIndex
from filrouge.search.retrievers import MAX_QUERY_CHARACTERS
from filrouge.search.service import Mode
from filrouge.search.vector_search import VectorSearch
from filrouge.threads import upkeep
from filrouge.threads.assignment import prompt_vector
from filrouge.threads.bridge_service import LinkedThread, linked_threads
from filrouge.threads.models import (
    Point,
    Synthesis,
    Thread,
    Timeframe,
    Timeline,
    Topic,
    build_timeline,
    format_timeline,
)
from filrouge.threads.repository import (
    LoggedDecision,
    ThreadDecisions,
    Threads,
    ThreadScope,
    ThreadVectors,
    ThreadWords,
    drift_json,
)
from filrouge.threads.synthesis_service import state_of_thread
from filrouge.threads.upkeep import ThreadSettings, current_thread, is_routed, replay_thread, weight_at

Status = Literal["active", "suspended", "archived", "all"]
#: Maximum number of turns to show of a thread (the newest).
_MAX_TURNS_SHOWN: Final = 200


def threads_now(
    parts: StoreContext,
    tx: Tx,
    *,
    user: str | None = LOCAL_USER,
    project: str | None = None,
    everywhere: bool = True,
    agent: str | None = None,
    status: Status = "all",
    limit: int = -1,
    sessions: bool = True,
) -> list[Thread]:
    """Return threads in their current state, latest first, with their counts.

    Args:
        agent: only threads that this agent (its id, or its channel) opened.
        limit: maximum number; -1 = all.
        sessions: also count the sessions.
    """
    threads, now, thread_settings = Threads(tx), parts.clock.now(), ThreadSettings.of(parts.settings(tx))
    threads_by_scope: dict[ThreadScope, list[Thread]] = {}
    list_ = partial(
        threads.list_threads, user=user, project=project, everywhere=everywhere, agent=agent, sessions=sessions
    )
    for thread in list_(states=("active", "suspended")):
        threads_by_scope.setdefault(thread_settings.scope_of_thread(thread), []).append(thread)
    found = [
        thread
        for in_scope in threads_by_scope.values()
        for thread in upkeep.in_current_state(in_scope, now, thread_settings.mode)
    ]
    if status in ("archived", "all"):
        found += list_(states=("archived",), limit=limit)
    chosen = [thread for thread in found if status in ("all", thread.state)]
    chosen.sort(key=lambda thread: (thread.last_active, thread.id), reverse=True)
    return chosen if limit < 0 else chosen[:limit]


def threads_at(
    tx: Tx, moment: datetime, *, project: str | None, everywhere: bool, agent: str | None, status: Status, limit: int
) -> list[Thread]:
    """Return threads as they were at a moment, latest first, with their current names and the counts of that moment."""
    placed = ThreadDecisions(tx).placed_before(moment)
    found = [
        replace(
            replay_thread(one, [at for at, _ in prompts], moment), sessions=len({session for _, session in prompts})
        )
        for one in Threads(tx).some(list(placed))
        if (everywhere or one.project == project) and agent in (None, one.agent or one.channel)
        for prompts in [placed[one.id]]
    ]
    chosen = [thread for thread in found if status in ("all", thread.state)]
    return sorted(chosen, key=lambda thread: (thread.last_active, thread.id), reverse=True)[:limit]


def list_threads(
    parts: StoreContext,
    tx: Tx,
    names: Sequence[str],
    *,
    status: Status,
    limit: int,
    agent: str | None = None,
    as_of: datetime | None = None,
) -> list[dict[str, Any]]:
    """Return the threads of a project, or of all if none is named, latest first; with `as_of`, as of that time."""
    project, project_names = repository.project_id(tx, names), repository.names_of(tx)
    selection: dict[str, Any] = {"project": project, "everywhere": not names, "agent": agent, "status": status}
    if as_of is not None:
        return [thread_json(thread, project_names, as_of) for thread in threads_at(tx, as_of, **selection, limit=limit)]
    found = threads_now(parts, tx, **selection, limit=limit)
    return [thread_json(thread, project_names, parts.clock.now()) for thread in found]


def get_thread_detail(parts: StoreContext, tx: Tx, name: str) -> dict[str, Any]:
    """Return a thread with its synthesis, bridges, newest turns with the decisions that placed them, and drifts.

    Args:
        name: its id, or a prefix of it.
    """
    threads = Threads(tx)
    thread = current_thread(parts, tx, threads.get_by_prefix(name))
    turns = parts.turns(tx).get(threads.turns(thread.id, limit=_MAX_TURNS_SHOWN, newest=True))
    decisions = ThreadDecisions(tx).about([turn.id for turn in turns])
    last = {decision.turn_id: decision for decision in decisions}
    children = threads.children(thread.id)
    titles = threads.titles_of([*children, *(drift.became for drift in thread.drifts), thread.parent or ""])
    synthesis = state_of_thread(tx, thread.id)
    agent = (thread.agent or thread.channel) if parts.settings(tx).isolation else None
    return thread_json(thread, repository.names_of(tx), parts.clock.now()) | {
        "parent_title": titles.get(thread.parent or ""),
        "children": [{"id": id_, "title": titles[id_]} for id_ in children],
        "drift": [drift_json(drift) | {"title": titles.get(drift.became, "")} for drift in thread.drifts],
        "state": _state_json(synthesis) if synthesis else None,
        "bridges": [
            _bridge_json(link) for link in linked_threads(parts.clock, tx, thread.id, parts.clock.now(), agent=agent)
        ],
        "turns_shown": [_turn_json(turn, last.get(turn.id)) for turn in turns],
    }


def explain_placement(parts: StoreContext, tx: Tx, turn_id: str) -> dict[str, Any]:
    """Return the thread of a turn, and all decisions about it with their candidates.

    Raises:
        NotFound: there is no such turn.
    """
    threads, turn = Threads(tx), turn_of(parts, tx, turn_id)
    decisions = ThreadDecisions(tx).about([turn.id])
    thread_id = threads.of_turns([turn.id]).get(turn.id)
    candidate_ids = {candidate.thread_id for decision in decisions for candidate in decision.routing.candidates}
    titles = threads.titles_of({*candidate_ids, *(decision.thread_id for decision in decisions), thread_id or ""})
    return {
        "turn_id": turn.id,
        "text": turn.text,
        "at": to_text(turn.at),
        "thread_id": thread_id,
        "title": titles.get(thread_id or ""),
        "follows": thread_id is not None and not is_routed(turn),
        "decisions": [_decision_json(decision, titles) for decision in decisions],
    }


def thread_json(thread: Thread, names: Mapping[str, str], now: datetime) -> dict[str, Any]:
    """Return a thread in the form of the API."""
    return {
        "id": thread.id,
        "title": thread.title,
        "title_by": thread.title_by,
        "summary": thread.summary,
        "status": thread.state,
        "weight": round(weight_at(thread, now), 3),
        "topics": list(thread.topics),
        "messages": thread.turns,
        "conversations": thread.sessions,
        "project": thread.project,
        "project_name": names.get(thread.project or "", ""),
        "agent": thread.agent,
        "channel": thread.channel,
        "origin": thread.origin,
        "opened_at": to_text(thread.opened_at),
        "last_active": to_text(thread.last_active),
        "suspended_at": text_or_none(thread.suspended_at),
        "parent": thread.parent,
        "merged_into": thread.merged_into,
    }


def turn_of(parts: StoreContext, tx: Tx, turn_id: str) -> Turn:
    """Return the turn with this id.

    Raises:
        NotFound: there is none.
    """
    found = parts.turns(tx).get([turn_id])
    if not found:
        raise NotFound(f"There is no turn {turn_id!r}.", remedy="`filrouge thread ID` lists the turns of a thread.")
    return found[0]


def _state_json(synthesis: Synthesis) -> dict[str, Any]:
    return {
        "at": to_text(synthesis.at),
        "occasion": synthesis.occasion,
        "made_by": synthesis.made_by,
        "state": [_point_json(point) for point in synthesis.state],
        "decisions": [_point_json(point) for point in synthesis.decisions],
        "questions": [_point_json(point) for point in synthesis.questions],
        "files": list(synthesis.files),
        "error": _point_json(synthesis.error) if synthesis.error else None,
    }


def _point_json(point: Point) -> dict[str, str]:
    return {"text": point.text, "turn_id": point.turn_id}


def _bridge_json(link: LinkedThread) -> dict[str, Any]:
    return {
        "type": link.kind,
        "strength": round(link.strength, 3),
        "thread_id": link.thread_id,
        "title": link.title,
        "outgoing": link.outgoing,
    }


def _turn_json(turn: Turn, decision: LoggedDecision | None) -> dict[str, Any]:
    return {
        "id": turn.id,
        "at": to_text(turn.at),
        "role": turn.role,
        "channel": turn.scope.channel,
        "session_id": turn.scope.session,
        "text": turn.text,
        "action": decision.routing.action if decision else "follow",
        "similarity": round(decision.routing.similarity, 4) if decision else None,
    }


def _decision_json(decision: LoggedDecision, titles: Mapping[str, str]) -> dict[str, Any]:
    return {
        "at": to_text(decision.at),
        "action": decision.routing.action,
        "thread_id": decision.thread_id,
        "title": titles.get(decision.thread_id, ""),
        "parent": decision.routing.parent,
        "similarity": round(decision.routing.similarity, 4),
        "reason": decision.routing.reason,
        "borderline": decision.routing.borderline,
        "model": decision.routing.model or None,
        "actor": decision.actor,
        "weighed": [
            candidate.to_json() | {"title": titles.get(candidate.thread_id, "")}
            for candidate in decision.routing.candidates
        ],
    }


# Search.

_ALPHA: Final[Mapping[Mode, float]] = {"text": 0.0, "semantic": 1.0, "hybrid": 0.5}


class ThreadHit(Struct, frozen=True, kw_only=True):
    """A thread found by a search.

    Attributes:
        score: the ranking score, in [0, 1]; only comparable within one search.
        bm25_score, vector_score: word and vector scores, each scaled over the threads of the search.
        similarity: similarity of query and thread, 0 = unrelated texts, 1 = the same text; None without vectors.
        words: the words of the query that occur in it.
        query_words: number of words of the query.
    """

    thread: Thread
    score: float
    bm25_score: float
    vector_score: float
    similarity: float | None
    words: tuple[str, ...]
    query_words: int

    @property
    def why(self) -> str:
        """Return the reason for the match, in one line."""
        has = (
            f"{len(self.words)} of {self.query_words} words: {', '.join(self.words)}"
            if self.words
            else "no word of the query"
        )
        return has if self.similarity is None else f"{has}; similarity {self.similarity:.2f}"

    def explain(self) -> dict[str, Any]:
        """Return the parts of the score."""
        return {
            "score": round(self.score, 4),
            "bm25_score": round(self.bm25_score, 4),
            "vector_score": round(self.vector_score, 4),
            "similarity": None if self.similarity is None else round(self.similarity, 4),
            "words": list(self.words),
            "why": self.why,
        }


def search_threads(
    parts: Parts,
    tx: Tx,
    text: str,
    names: Sequence[str] = (),
    *,
    mode: Mode = "hybrid",
    status: Status = "all",
    limit: int = 10,
    filters: Filters | None = None,
) -> list[ThreadHit]:
    """Return the threads that match a query, best first.

    They are matched by words (title, summary, topics and prompts) and by vector. A project has tens to thousands of
    threads, so all threads that pass the filters are scored, archived ones too, without an index. Words are scored by
    BM25 over these threads. The query is compared with the thread vectors like a prompt, whitened if there is a
    transform. Both scores are scaled to [0, 1] over the threads and mixed by alpha, as in every hybrid query. A thread
    is not found if it has no word of the query and its similarity is no higher than that of two unrelated texts.

    Args:
        names: names of the project; empty = all projects.
        status: only threads in this state.
        filters: `user`, `agent` and `channel` that opened them; `since` and `until`: something was said in them then.

    Raises:
        BadInput: a filter is given that does not apply to threads.
        NotFound: there is no such project.
    """
    with parts.metrics.thread_search():
        return _score_threads(parts, tx, text, names, mode, status, limit, filters or Filters())


def _score_threads(
    parts: Parts, tx: Tx, text: str, names: Sequence[str], mode: Mode, status: Status, limit: int, filters: Filters
) -> list[ThreadHit]:
    _check_filters(filters)
    vectors, query = parts.vectors, text[:MAX_QUERY_CHARACTERS]
    found = _filter_threads(parts, tx, names, status, filters)
    terms = parts.analyser.terms(query)
    word_counts = _count_words(parts.analyser, tx, found, [form for forms in terms for form in forms])
    lexical = dict.fromkeys(word_counts.counts, 0.0)
    if mode != "semantic":
        lexical = bm25_of_counts(terms, word_counts.counts, word_counts.lengths, word_counts.collection, USUAL_OKAPI)
    similarities = _similarities(parts, tx, vectors, query, found) if mode != "text" else {}
    alpha = _ALPHA[mode] if similarities else 0.0
    by_id = {thread.id: thread for thread in found}
    ranking = [
        ranked
        for ranked in fuse_scores(lexical, similarities, alpha=alpha)
        if lexical[ranked.id] > 0.0 or similarities.get(ranked.id, 0.0) > 0.0
    ][:limit]
    sessions = {thread.id: thread.sessions for thread in Threads(tx).some([ranked.id for ranked in ranking])}
    return [
        ThreadHit(
            thread=replace(by_id[ranked.id], sessions=sessions[ranked.id]),
            score=ranked.score,
            bm25_score=ranked.bm25_score,
            vector_score=ranked.vector_score,
            similarity=similarities.get(ranked.id),
            words=tuple(forms[0] for forms in terms if any(form in word_counts.counts[ranked.id] for form in forms)),
            query_words=len(terms),
        )
        for ranked in ranking
    ]


def search_threads_json(
    parts: Parts,
    tx: Tx,
    text: str,
    names: Sequence[str],
    *,
    mode: Mode,
    status: Status,
    limit: int,
    filters: Filters,
) -> list[dict[str, Any]]:
    """Return the matches in the form of the API: each as `threads` lists it, with its type and score."""
    project_names, now = repository.names_of(tx), parts.clock.now()
    hits = search_threads(parts, tx, text, names, mode=mode, status=status, limit=limit, filters=filters)
    return [
        {"type": "thread", "content": hit.thread.title} | thread_json(hit.thread, project_names, now) | hit.explain()
        for hit in hits
    ]


#: Thread names whose tokens are kept.
_MAX_NAMES: Final = 8192
#: The filters that apply to threads.
_THREAD_FILTERS: Final = ("user", "agent", "channel", "since", "until")


class _WordCounts(Struct, frozen=True, kw_only=True):
    """Counts of the query words in each thread, and the length of each thread in words."""

    counts: Mapping[str, Counter[str]]
    lengths: Mapping[str, float]

    @property
    def collection(self) -> CollectionStatistics:
        frequencies = Counter(form for thread_counts in self.counts.values() for form in thread_counts)
        return CollectionStatistics(
            rows=len(self.counts),
            mean=sum(self.lengths.values()) / len(self.lengths) if self.lengths else 0.0,
            frequencies=frequencies,
        )


def _check_filters(filters: Filters) -> None:
    refused = next((name for name in set_filter_names(filters) if name not in _THREAD_FILTERS), None)
    if refused is not None:
        raise BadInput(
            f"Threads have no {refused}.",
            remedy="They are narrowed by project, status, agent, channel, since and until.",
        )


def _filter_threads(
    parts: StoreContext, tx: Tx, names: Sequence[str], status: Status, filters: Filters
) -> list[Thread]:
    """Return the threads of a project that pass the filters, latest first, without their number of sessions."""
    found = threads_now(
        parts,
        tx,
        user=filters.user or LOCAL_USER,
        project=repository.project_id(tx, names),
        everywhere=not names,
        agent=filters.agent,
        status=status,
        sessions=False,
    )
    if filters.channel is not None:
        found = [thread for thread in found if thread.channel == filters.channel]
    if filters.since or filters.until:
        active_ids = Threads(tx).active_between([thread.id for thread in found], filters.since, filters.until)
        found = [thread for thread in found if thread.id in active_ids]
    return found


def _count_words(analyser: Analyser, tx: Tx, threads: Iterable[Thread], forms: Sequence[str]) -> _WordCounts:
    """Count the query words in the titles, summaries, topics and prompts of threads.

    A thread's length is that of its name, and of its turns if each had the mean length of all turns.
    """
    counts, lengths = dict[str, Counter[str]](), dict[str, float]()
    query_forms, mean = set(forms), FullTextIndex(tx, analyser, "turn").totals().mean
    for thread in threads:
        tokens = _tokens_of_name(analyser, "\n".join((thread.title, thread.summary, *thread.topics)))
        counts[thread.id] = Counter(token for token in tokens if token in query_forms)
        lengths[thread.id] = len(tokens) + thread.turns * mean
    for thread_id, prompt_counts in ThreadWords(tx).counts(list(counts), forms).items():
        counts[thread_id].update(prompt_counts)
    return _WordCounts(counts=counts, lengths=lengths)


@lru_cache(maxsize=_MAX_NAMES)
def _tokens_of_name(analyser: Analyser, name: str) -> tuple[str, ...]:
    """Return the tokens of a thread's title, summary and topics; every search reads those of all threads."""
    return tuple(analyser.tokens(name).split())


def forget_names() -> None:
    """Drop the names that searches kept; called when something is erased."""
    _tokens_of_name.cache_clear()


def _similarities(
    parts: Parts, tx: Tx, vectors: VectorSearch, text: str, threads: Sequence[Thread]
) -> dict[str, float]:
    """Return the similarity of the query to each thread that has a vector; empty if there is no embedding model."""
    thread_vectors = ThreadVectors(tx).some([thread.id for thread in threads], vectors.space.id)
    query_vector = prompt_vector(vectors.passages(windows(text))) if thread_vectors else None
    if query_vector is None:
        return {}
    whitening = parts.whitening.fit_for(tx, vectors, threads[0].user)  # all threads belong to one user
    matrix = np.stack(list(thread_vectors.values()))
    if whitening is None:
        similarities = [vectors.space.calibrated(float(cosine)) for cosine in matrix @ query_vector]
    else:
        similarities = (whitening.whiten(matrix) @ whitening.whiten(query_vector[None, :])[0]).tolist()
    return dict(zip(thread_vectors, similarities, strict=True))


# Topics and the timeline: what was discussed, and when.

# Topics of conversations that are in no thread.

#: Half-life of the vitality of a topic.
HALF_LIFE = timedelta(days=7)
#: Minimum share of the lighter conversation's distinctive words, by weight, that both must have; and their minimum
#: number.
_MIN_SHARED_WEIGHT, _MIN_SHARED_WORDS = 0.45, 2
#: Maximum number of words per conversation to compare, the rarest first.
_MAX_WORDS: Final = 40


class Conversation(Struct, frozen=True, kw_only=True):
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
    words = {conversation.id: _distinctive_words(conversation, weights) for conversation in conversations}
    groups: list[list[Conversation]] = []
    for conversation in sorted(conversations, key=lambda conversation: (conversation.first, conversation.id)):
        group_of_topic = next(
            (group for group in groups if any(_are_one_topic(conversation, other, words, weights) for other in group)),
            None,
        )
        if group_of_topic is None:
            groups.append([conversation])
        else:
            group_of_topic.append(conversation)
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
    latest = max(group, key=lambda conversation: (conversation.last, conversation.id))
    last = max(conversation.last for conversation in group)
    title = group[0].titles[0]
    summary = next((subject for subject in reversed(latest.titles) if subject.casefold() != title.casefold()), "")
    return Topic(
        id=group[0].id,
        title=title,
        summary=summary,
        first=min(conversation.first for conversation in group),
        last=last,
        conversations=len(group),
        vitality=vitality(last, now),
        channel=latest.channel,
        project=latest.project,
    )


def _rarities(conversations: Sequence[Conversation]) -> dict[str, float]:
    """Return the rarity of each word; words that many conversations have are left out."""
    counts = Counter(word for conversation in conversations for word in conversation.words)
    total = len(conversations)
    return {word: math.log(1 + total / count) for word, count in counts.items() if count <= max(3, total * 0.1)}


def _distinctive_words(conversation: Conversation, weights: Mapping[str, float]) -> frozenset[str]:
    ranked = sorted((word for word in conversation.words if word in weights), key=lambda word: (-weights[word], word))
    return frozenset(ranked[:_MAX_WORDS])


def _are_one_topic(
    first: Conversation, second: Conversation, words: Mapping[str, frozenset[str]], weights: Mapping[str, float]
) -> bool:
    first_words, second_words = words[first.id], words[second.id]
    shared = first_words & second_words
    if first.project != second.project or len(shared) < _MIN_SHARED_WORDS:
        return False
    lighter = min(sum(weights[word] for word in shared_words) for shared_words in (first_words, second_words))
    return sum(weights[word] for word in shared) >= _MIN_SHARED_WEIGHT * lighter


# Topics of threads and conversations, for the API and the command line.

#: Maximum number of prompts read for one answer, newest first: some weeks of work.
_MAX_PROMPTS = 1500
#: Maximum number of characters read of a prompt.
_MAX_PROMPT_CHARS = 2000
_TIMEFRAMES: Mapping[str, Period] = {"today": "today", "week": "week", "month": "month", "all": "all"}


def list_discussed_topics(
    clock: Clock,
    analyser: Analyser,
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
    found = discussed(clock, analyser, tx, user_id=user_id, period=_TIMEFRAMES[timeframe], agent_id=agent_id)
    return [topic for topic in found if topic.conversations >= min_mention_count][:limit]


def get_conversation_timeline(
    clock: Clock, analyser: Analyser, tx: Tx, user_id: str = LOCAL_USER, limit: int = 120, agent_id: str | None = None
) -> Timeline:
    """Return the latest topics by age (7, 14 and 30 days), in this machine's time zone."""
    found = discussed(clock, analyser, tx, user_id=user_id, period="all", agent_id=agent_id)
    return build_timeline(found[:limit], clock.now())


def discussed(
    clock: Clock,
    analyser: Analyser,
    tx: Tx,
    *,
    user_id: str,
    period: Period,
    agent_id: str | None = None,
    project: str | None = None,
    everywhere: bool = True,
) -> list[Topic]:
    """Return the topics of a period, latest first."""
    now = clock.now()
    since, until = period_bounds(period, now.astimezone())
    parameters = {
        "user_id": user_id,
        "agent": agent_id,
        "project_id": project,
        "everywhere": everywhere,
        "since": to_text(since) if since else "",
        "until": to_text(until) if until else "9999",
        "limit": _MAX_PROMPTS,
    }
    threads = dict[str, list[dict[str, Any]]]()
    sessions = dict[tuple[str, str], list[dict[str, Any]]]()
    for row in reversed(tx.all("turns.prompts", parameters)):
        if row["thread_id"]:
            threads.setdefault(row["thread_id"], []).append(row)
        else:
            sessions.setdefault(_session(row), []).append(row)
    conversations = [conversation for rows in sessions.values() if (conversation := _conversation(analyser, rows))]
    threads_by_id = {thread.id: thread for thread in Threads(tx).some(list(threads))}
    found = [topic for id_, rows in threads.items() if (topic := _topic_of_thread(threads_by_id[id_], rows, now))]
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
    return {"timeframe": timeframe, "topics": [topic_json(topic) for topic in topics], "nothing_known": not topics}


def timeline_json(timeline: Timeline, language: Language) -> dict[str, Any]:
    """Return the response body for a timeline, including its text."""
    windows = {name: [topic_json(topic) for topic in topics] for name, topics in timeline.windows}
    total = len(timeline.topics)
    return {**windows, "total": total, "nothing_known": not total, "text": format_timeline(timeline, language)}


def language_of(parts: StoreContext, tx: Tx) -> Language:
    """Return the language for output that is not related to a prompt."""
    settings = parts.settings(tx)
    if settings.language != "auto":
        return settings.language
    return detect_language([row["text"] for row in tx.all("turns.newest_prompts", {"limit": 5})])


def _session(row: Mapping[str, Any]) -> tuple[str, str]:
    """Return the session of a prompt; a prompt outside every session is its own session."""
    return row["host"], row["session_id"] or row["id"]


def _topic_of_thread(thread: Thread, rows: Sequence[Mapping[str, Any]], now: datetime) -> Topic | None:
    """Build the topic of a thread from these prompts, oldest first; None if none of them has a subject."""
    rows_with_subject = [row for row in rows if _subject(row["text"])]
    if not rows_with_subject:
        return None
    moments = [from_text(row["at"]) for row in rows_with_subject]
    return Topic(
        id=thread.id,
        title=thread.title,
        summary="" if thread.summary.casefold() == thread.title.casefold() else thread.summary,
        first=min(moments),
        last=max(moments),
        conversations=len({_session(row) for row in rows_with_subject}),
        threads=(thread.id,),
        vitality=vitality(max(moments), now),
        channel=rows_with_subject[-1]["channel"],
        project=thread.project,
    )


def _conversation(analyser: Analyser, rows: Sequence[dict[str, Any]]) -> Conversation | None:
    """Build a conversation from the prompts of a session; None if none of them has a subject."""
    prompts_with_subject = [(row, title) for row in rows if (title := _subject(row["text"]))]
    if not prompts_with_subject:
        return None
    words = telling_words(
        forms for row, _ in prompts_with_subject for forms in analyser.terms(row["text"][:_MAX_PROMPT_CHARS])
    )
    moments = [from_text(row["at"]) for row, _ in prompts_with_subject]
    first, latest = prompts_with_subject[0][0], prompts_with_subject[-1][0]
    return Conversation(
        id=f"{first['host']}/{first['session_id'] or first['id']}",
        project=latest["project_id"],
        channel=latest["channel"],
        titles=tuple(title for _, title in prompts_with_subject),
        words=words,
        first=min(moments),
        last=max(moments),
    )


def _subject(text: str) -> str:
    """Return the subject of a prompt; empty for small talk and for questions about earlier conversations."""
    return "" if asked_period(text) else title_of(text)
