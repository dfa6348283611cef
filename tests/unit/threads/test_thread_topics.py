"""Threads are what topics, timelines and filters speak of; what was said before there were threads is shown as well."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from filrouge.maintenance.health import metrics
from filrouge.memories.models import Filters
from filrouge.runtime.services import Parts
from filrouge.search.retrievers import HybridQuery, hybrid_query
from filrouge.search.service import Question, recall, search_turns
from filrouge.testing import idle, running
from filrouge.threads.models import Topic
from filrouge.threads.reports import get_conversation_timeline, list_discussed_topics
from filrouge.threads.repository import ThreadErasing
from filrouge.threads.service import archive, rename
from filrouge.threads.upkeep import state_counts
from tests.support.given import SHOP
from tests.support.spoken import COUPON, POSTGRES, tell, thread_of, threads, turn_of

PORT, CHANGED = "For the record: production listens on port 8443.", "The staging port stays 7000, by the way."


@pytest.fixture
def parts(tmp_path: Path) -> Generator[Parts]:
    with running(str(tmp_path / "home")) as found:
        idle(found)
        yield found


def topics(parts: Parts, timeframe: str = "all") -> list[Topic]:
    return parts.readers.here(lambda tx: list_discussed_topics(parts.clock, parts.analyser, tx, timeframe=timeframe))  # type: ignore[arg-type]


def test_a_topic_is_a_thread_with_its_title_and_conversations(parts: Parts) -> None:
    tell(parts, "a", COUPON[0], days_ago=2)
    tell(parts, "b", COUPON[2])
    [one] = threads(parts)
    rename(parts, one["id"], "Coupons")
    [topic] = topics(parts)
    assert (topic.id, topic.title, topic.threads, topic.conversations) == (one["id"], "Coupons", (one["id"],), 2)
    assert (topic.last - topic.first).days == 2
    assert 0.99 < topic.vitality <= 1
    assert [(it.title, it.conversations) for it in topics(parts, "today")] == [("Coupons", 1)]


def test_what_is_in_no_thread_is_a_topic_all_the_same(parts: Parts) -> None:
    tell(parts, "a", COUPON[0])
    tell(parts, "b", POSTGRES[0])
    postgres = turn_of(parts, POSTGRES[0])
    parts.writer.run(lambda tx: ThreadErasing(tx).remove_turns([postgres]))
    found = topics(parts)
    assert [len(one.threads) for one in found] == [0, 1]
    assert "Postgres" in found[0].title
    timeline = parts.readers.here(lambda tx: get_conversation_timeline(parts.clock, parts.analyser, tx))
    assert [one.title for one in timeline.this_week] == [one.title for one in found]


def test_a_thread_of_mere_asking_back_is_no_topic(parts: Parts) -> None:
    tell(parts, "a", "De quoi a-t-on parlé la semaine dernière dans ce projet ?")
    assert len(threads(parts)) == 1
    assert topics(parts) == []


def test_a_thread_narrows_what_is_found_to_its_turns_and_what_rests_on_them(parts: Parts) -> None:
    tell(parts, "a", COUPON[0])
    tell(parts, "a", "For the record: the coupon service listens on port 8443.")
    tell(parts, "b", POSTGRES[0])
    tell(parts, "b", "The Postgres database of this migration runs on port 7443.")
    coupon, postgres = thread_of(parts, COUPON[0]), thread_of(parts, POSTGRES[0])

    def memories(thread: str | None) -> set[str]:
        asked = Question(text="Which port?", project=SHOP[0], filters=Filters(thread=thread), limit=9)
        ranking = parts.readers.here(lambda tx: recall(parts, tx, asked))
        return {port for hit in ranking.hits for port in ("8443", "7443") if port in hit.text}

    def turns(thread: str) -> set[str]:
        query = HybridQuery(collection="turns", text="port coupon Postgres", n_results=9, where={"thread": thread})
        return {hit.item.id for hit in parts.readers.here(lambda tx: hybrid_query(parts, tx, query)).hits}

    assert memories(None) == {"8443", "7443"}
    assert memories(coupon) == {"8443"}
    assert memories(postgres) == {"7443"}
    assert turn_of(parts, COUPON[0]) in turns(coupon)
    assert turns(coupon).isdisjoint(turns(postgres))
    assert memories("nothing") == turns("nothing") == set()
    asked = Question(text="coupon Postgres port", project=SHOP[0], filters=Filters(thread=postgres))
    found = parts.readers.here(lambda tx: search_turns(parts, tx, asked))
    assert {hit.item.id for hit in found.hits} <= turns(postgres)


def test_threads_are_counted_as_they_are_now_and_how_many_went_on(parts: Parts) -> None:
    tell(parts, "a", COUPON[0], days_ago=6)
    tell(parts, "b", POSTGRES[0])
    archive(parts, threads(parts, status="active")[0]["id"])
    assert parts.readers.here(lambda tx: state_counts(parts, tx)) == {"active": 0, "suspended": 1, "archived": 1}
    told = parts.readers.here(lambda tx: metrics(parts, tx)).decode()
    assert 'filrouge_threads{state="suspended"} 1.0' in told
    assert "filrouge_threads_could_continue 1.0" in told
    assert "filrouge_thread_continuation_rate 0.0" in told
    tell(parts, "c", COUPON[0])
    told = parts.readers.here(lambda tx: metrics(parts, tx)).decode()
    assert "filrouge_thread_continuation_rate 0.5" in told
