"""The analysis cache is small and fresh; concepts count the sessions that speak of them."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from filrouge.core.scope import Scope
from filrouge.extraction.models import Analysis, Entity, Point, Quote
from filrouge.extraction.repository import (
    CACHE_SECONDS,
    CACHED_AFTER_EVICTION,
    MAX_CACHED,
    Analyses,
    Session,
    analysis_from_text,
    analysis_to_text,
)
from filrouge.memories.models import Span
from filrouge.memories.repository import Memories, Origin
from filrouge.testing import ManualClock, TextAnalyser, memory_database
from tests.support.tiers import examples

SESSION = Session(host="codex", id="s")
QUOTE = Quote(text="Which port?", turn_id="t", span=Span(start=1, end=4))
FULL = Analysis(
    summary="Asked: the port.", concepts=("payment queue", "redis"), questions=(QUOTE,), decisions=(QUOTE,),
    entities=(Entity(name="Redis", type="tool", mentions=3),), preferences=(QUOTE,), intents=(QUOTE,),
    constraints=(QUOTE,), implicit_context=("cache: redis",), intent="fix", language="fr",
    points=(Point(kind="asked", text="the port", weight=0.5),), made_by="openai/small",
)  # fmt: skip


def origin(clock: ManualClock, session: Session) -> Origin:
    return Origin(scope=Scope(channel=session.host, session=session.id), trust=1, at=clock.now(), actor="digest")


def test_an_analysis_comes_back_as_it_was_stored() -> None:
    assert analysis_from_text(analysis_to_text(FULL)) == FULL
    assert analysis_from_text(analysis_to_text(Analysis())) == Analysis()


def test_a_cached_analysis_is_fresh_for_an_hour_and_for_its_history_alone() -> None:
    clock = ManualClock()
    store = Analyses(memory_database(clock).tx, TextAnalyser())
    store.cache(SESSION, "one", FULL, clock.now())
    assert store.cached(SESSION, "one", clock.now()) == FULL
    assert store.cached(SESSION, "two", clock.now()) is None
    assert store.cached(Session(host="codex", id="other"), "one", clock.now()) is None
    clock.move(seconds=CACHE_SECONDS - 1)
    assert store.cached(SESSION, "one", clock.now()) == FULL
    clock.move(seconds=1)
    assert store.cached(SESSION, "one", clock.now()) is None


def test_what_is_stale_leaves_the_cache_when_something_comes() -> None:
    clock = ManualClock()
    store = Analyses(memory_database(clock).tx, TextAnalyser())
    store.cache(SESSION, "old", FULL, clock.now())
    store.cache(SESSION, "new", FULL, clock.now() + timedelta(seconds=CACHE_SECONDS))
    assert store.cache_size() == 1


@settings(max_examples=examples(15), deadline=None)
@given(st.integers(1, 130), st.integers(0, 3))
def test_above_80_the_50_newest_stay_and_there_are_never_more(number: int, seconds: int) -> None:
    clock = ManualClock()
    store = Analyses(memory_database(clock).tx, TextAnalyser())
    for one in range(number):
        clock.move(seconds=seconds)
        store.cache(SESSION, str(one), FULL, clock.now())
        assert store.cache_size() <= MAX_CACHED
    found = [one for one in range(number) if store.cached(SESSION, str(one), clock.now())]
    assert found == list(range(number))[-len(found) :]
    assert len(found) >= min(number, CACHED_AFTER_EVICTION)


def test_a_concept_is_one_memory_whatever_its_number_and_order() -> None:
    clock = ManualClock()
    tx = memory_database(clock).tx
    store = Analyses(tx, TextAnalyser())
    for place, concept in enumerate(["payment queue", "payment queues", "queue payment"]):
        session = Session(host="codex", id=f"s{place}")
        for _ in range(2):  # once for each session
            clock.move(hours=1)
            store.keep(session, Analysis(concepts=(concept,)), 1, origin(clock, session))
    [row] = store.concepts(project=None, everywhere=True, limit=9)
    assert (row["text"], row["mention_count"], row["sessions"]) == ("payment queue", 3, ["s0", "s1", "s2"])


def test_a_concept_that_the_user_put_into_the_bin_stays_there() -> None:
    clock = ManualClock()
    tx = memory_database(clock).tx
    store = Analyses(tx, TextAnalyser())
    store.keep(SESSION, Analysis(concepts=("payment queue",)), 1, origin(clock, SESSION))
    [row] = store.concepts(project=None, everywhere=True, limit=9)
    Memories(tx, TextAnalyser()).bin(row["id"], origin(clock, SESSION), "not of interest")
    other = Session(host="codex", id="other")
    store.keep(other, Analysis(concepts=("payment queue",)), 1, origin(clock, other))
    assert store.concepts(project=None, everywhere=True, limit=9) == []


def test_an_episode_is_superseded_only_by_another_text() -> None:
    clock = ManualClock()
    tx = memory_database(clock).tx
    store = Analyses(tx, TextAnalyser())
    seen = list[str]()
    for summary in ("Asked: a.", "Asked: a.", "Asked: b."):
        store.keep(SESSION, Analysis(summary=summary), 1, origin(clock, SESSION))
        clock.move(minutes=1)
        found = store.of(SESSION)
        assert found is not None
        assert found.episode is not None
        seen.append(found.episode)
    assert seen[0] == seen[1] != seen[2]
    assert Memories(tx, TextAnalyser()).get(seen[2]).supersedes == seen[0]
