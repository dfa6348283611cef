"""Threads in the store: what is written is read back, a turn is in one thread, and counts follow from the turns."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from filrouge.capture.models import Role, Turn
from filrouge.capture.repository import Turns
from filrouge.core.errors import NotFound
from filrouge.core.protocols import Tx
from filrouge.search.analyser import TextAnalyser
from filrouge.search.repository import Spaces
from filrouge.testing import StableHash, memory_database
from filrouge.threads.models import Drift, Routing, Thread, ThreadCandidate, ThreadState
from filrouge.threads.repository import ThreadDecisions, ThreadErasing, Threads, ThreadScope, ThreadVectors
from tests.support.rows import turn

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
HERE = ThreadScope(user="local", project=None)


def thread(id_: str, *, title: str = "", state: ThreadState = "active", hours: float = 0.0) -> Thread:
    at = NOON + timedelta(hours=hours)
    return Thread(
        id=id_, user="local", project=None, title=title or id_, state=state, opened_at=at, last_active=at,
        channel="codex",
    )  # fmt: skip


def said(
    tx: Tx, text: str, *, session: str = "s", role: Role = "user", seconds: float = 0.0, skipped: str = ""
) -> Turn:
    made = replace(turn(text, session=session, role=role, seconds=seconds), skipped=skipped)
    assert Turns(tx, TextAnalyser()).add(made)
    return made


def put(tx: Tx, thread_id: str, *turns: Turn) -> None:
    for one in turns:
        assert Threads(tx).place(one.id, thread_id, one.at)


TEXTS = st.text(max_size=20)
WHEN = st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)).map(lambda at: at.replace(tzinfo=UTC))


@given(
    title=TEXTS,
    summary=TEXTS,
    topics=st.lists(TEXTS, max_size=5).map(tuple),
    weight=st.floats(0, 1),
    at=WHEN,
    state=st.sampled_from(["active", "suspended", "archived"]),
    similarity=st.integers(0, 100).map(lambda n: n / 100),
)
def test_a_thread_is_read_back_as_it_was_written(
    title: str,
    summary: str,
    topics: tuple[str, ...],
    weight: float,
    at: datetime,
    state: ThreadState,
    similarity: float,
) -> None:
    threads = Threads(memory_database().tx)
    threads.add(thread("other"))
    threads.add(thread("one"))
    whole = Thread(
        id="one", user="local", project=None, title=title, title_by="user", summary=summary, topics=topics, state=state,
        weight=weight, opened_at=NOON, last_active=at, suspended_at=at if state == "suspended" else None,
        channel="codex",
        parent="other", drifts=(Drift(turn_id="t", at=at, similarity=similarity, became="other"),),
    )  # fmt: skip
    threads.update(whole)
    assert threads.get("one") == whole


def test_a_thread_that_is_not_there_is_named() -> None:
    with pytest.raises(NotFound, match="no thread 'nothing'"):
        Threads(memory_database().tx).get("nothing")


def test_a_turn_is_in_one_thread_and_stays_there_until_it_is_moved() -> None:
    tx = memory_database().tx
    threads = Threads(tx)
    threads.add(thread("a"))
    threads.add(thread("b"))
    one = said(tx, "Which port does production listen on?")
    assert threads.place(one.id, "a", one.at)
    assert not threads.place(one.id, "b", one.at)
    assert threads.of_turns([one.id, "nothing"]) == {one.id: "a"}
    threads.move([one.id], "b")
    assert (threads.turns("a"), threads.turns("b")) == ([], [one.id])
    assert not threads.place("gone", "a", one.at)


def test_turns_and_sessions_are_counted_and_sessions_by_their_prompts() -> None:
    tx = memory_database().tx
    Threads(tx).add(thread("a"))
    turns = [said(tx, "Which port?", session="s"), said(tx, "8443.", session="s", role="assistant")]
    turns += [said(tx, "And now?", session="t"), said(tx, "ok", session="u", skipped="small talk")]
    put(tx, "a", *turns)
    found = Threads(tx).get("a")
    assert (found.turns, found.sessions) == (4, 2)


def test_what_follows_a_prompt_ends_with_the_next_one() -> None:
    tx = memory_database().tx
    threads = Threads(tx)
    threads.add(thread("a"))
    first = said(tx, "Which port?", seconds=0)
    reply, aside = said(tx, "8443.", role="assistant", seconds=1), said(tx, "ok", seconds=2, skipped="small talk")
    elsewhere = said(tx, "Hello.", session="other", role="assistant", seconds=1)
    second, last = said(tx, "And the schema?", seconds=3), said(tx, "It is fine.", role="assistant", seconds=4)
    put(tx, "a", first)
    assert threads.place_following_turns(first) == 2
    assert threads.turns("a") == [first.id, reply.id, aside.id]
    assert threads.of_preceding_prompt(aside) == "a"
    assert threads.of_preceding_prompt(last) is None
    assert threads.of_session(second) == threads.of_session(last) == "a"
    assert threads.of_preceding_prompt(elsewhere) is None
    assert threads.with_following_turns([first.id]) == sorted([first.id, reply.id, aside.id])
    assert threads.with_following_turns([aside.id]) == [aside.id]


def test_of_more_turns_than_are_wanted_the_first_or_the_last_are_given() -> None:
    tx = memory_database().tx
    Threads(tx).add(thread("a"))
    turns = [said(tx, f"Which port, {number}?", seconds=number) for number in range(5)]
    put(tx, "a", *turns)
    ids = [one.id for one in turns]
    assert Threads(tx).turns("a", limit=2) == ids[:2]
    assert Threads(tx).turns("a", routed=True, limit=2, newest=True) == ids[-2:]


def test_threads_whose_state_may_change_are_the_active_and_those_suspended_long_ago_of_user_project_and_agent() -> None:
    threads = Threads(memory_database().tx)
    for one in (
        thread("mine"),
        replace(thread("archived"), state="archived"),
        replace(thread("merged"), merged_into="mine"),
        replace(thread("suspended"), state="suspended", suspended_at=NOON + timedelta(hours=1)),
        replace(thread("long ago"), state="suspended", suspended_at=NOON),
        replace(thread("unused"), state="suspended", last_active=NOON - timedelta(hours=1)),
        replace(thread("theirs"), user="somebody"),
        replace(thread("helper"), agent="helper"),
        replace(thread("claude"), channel="claude-code", last_active=NOON + timedelta(hours=1)),
    ):
        threads.add(one)
    found = threads.unsettled(HERE, NOON)
    assert {one.id for one in found} == {"mine", "long ago", "unused", "helper", "claude"}
    assert (found[0].id, found[-1].id) == ("claude", "unused")
    for agent, own in (("helper", "helper"), ("claude-code", "claude"), ("codex", "mine")):
        isolated = ThreadScope(user="local", project=None, agent=agent)
        assert [one.id for one in threads.unsettled(isolated, NOON - timedelta(days=1))] == [own]


def test_continuation_counts_those_that_went_on_among_those_that_could() -> None:
    tx = memory_database().tx
    threads = Threads(tx)
    assert threads.continuation_counts() == (0, 0)
    for id_, hours in (("a", 0), ("b", 1), ("c", 2)):
        threads.add(thread(id_, hours=hours))
    put(tx, "a", said(tx, "Which port?", session="1", seconds=0))
    put(tx, "b", said(tx, "Which schema?", session="2", seconds=3600))
    assert threads.continuation_counts() == (0, 1)
    put(tx, "a", said(tx, "The port again?", session="3", seconds=7200))
    put(tx, "c", said(tx, "Which colour?", session="3", seconds=7200))
    assert threads.continuation_counts() == (1, 2)


def test_a_decision_is_read_back_with_what_was_weighed() -> None:
    tx = memory_database().tx
    Threads(tx).add(thread("a"))
    one = said(tx, "Which port?")
    weighed = ThreadCandidate(
        thread_id="a", state="suspended", embedding=None, topics=0.5, exact=True, own=False, similarity=0.4
    )  # fmt: skip
    routing = Routing(
        action="reactivate", thread_id="a", similarity=0.4, candidates=(weighed,), reason="Near.", borderline=True
    )  # fmt: skip
    ThreadDecisions(tx).log(one.id, "a", routing, at=NOON)
    [found] = ThreadDecisions(tx).about([one.id])
    assert (found.routing, found.thread_id, found.actor, found.at) == (routing, "a", "rules", NOON)


def test_vectors_of_archived_threads_are_given_together_and_go_with_a_retired_space() -> None:
    tx = memory_database().tx
    space = StableHash().space
    Spaces(tx).declare(space, "hashing")
    Spaces(tx).make_current(space.id)
    vectors = ThreadVectors(tx)
    assert vectors.archived(HERE, space.id, 10)[0] == []
    for id_, state in (("a", "archived"), ("b", "active")):
        Threads(tx).add(replace(thread(id_), state=state))
        vector = np.eye(384, dtype=np.float32)[ord(id_)]
        vectors.put(id_, space.id, vector)
    ids, matrix = vectors.archived(HERE, space.id, 10)
    assert (ids, matrix.shape, int(matrix.argmax())) == (["a"], (1, 384), ord("a"))
    Threads(tx).add(replace(thread("later"), state="archived", last_active=NOON + timedelta(days=1)))
    vectors.put("later", space.id, np.eye(384, dtype=np.float32)[0])
    assert vectors.archived(HERE, space.id, 1)[0] == ["later"]
    assert set(vectors.some(["a", "b", "c"], space.id)) == {"a", "b"}
    vectors.clear_retired()
    assert set(vectors.some(["a", "b"], space.id)) == {"a", "b"}
    Spaces(tx).retire(space.id)
    vectors.clear_retired()
    assert vectors.some(["a", "b"], space.id) == {}


def test_erasing_takes_places_decisions_drifts_and_empty_threads_along() -> None:
    tx = memory_database().tx
    threads = Threads(tx)
    one, other = said(tx, "Which port?"), said(tx, "Which schema?", session="t")
    drift = Drift(turn_id=other.id, at=NOON, similarity=0.1, became="b")
    threads.add(replace(thread("a"), drifts=(drift,)))
    threads.add(replace(thread("b"), parent="a"))
    threads.add(replace(thread("c"), state="archived", merged_into="b"))
    put(tx, "a", one)
    put(tx, "b", other)
    routing = Routing(action="fork", thread_id=None, similarity=0.1, candidates=(), reason="Far.", parent="a")
    ThreadDecisions(tx).log(other.id, "b", routing, at=NOON)
    assert ThreadErasing(tx).threads_of([other.id]) == ["b", "c"]
    ThreadErasing(tx).remove_turns([other.id])
    assert [it.id for it in threads.some(["a", "b", "c"])] == ["a"]
    assert threads.get("a").drifts == ()
    assert ThreadDecisions(tx).about([other.id]) == []
    assert threads.of_turns([one.id, other.id]) == {one.id: "a"}
