"""Prompts find their thread: across sessions, apart from other subjects, never across projects, and only once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from filrouge.capture.service import store_events
from filrouge.core.clock import SystemClock, from_text
from filrouge.core.protocols import Tx
from filrouge.runtime import wiring
from filrouge.runtime.jobs import ORDINARY, Handler, JobResult, Jobs, Payload, Worker
from filrouge.runtime.services import Parts, StoredSettings
from filrouge.runtime.wiring import HANDLERS, read_events
from filrouge.search.spaces import reindex
from filrouge.testing import AnotherHash, idle, running
from filrouge.threads import placing
from filrouge.threads.assignment import Whitening
from filrouge.threads.models import Routing
from filrouge.threads.placing import build_exchanges, load_batch, texts_in_sessions, vector_with_replies
from filrouge.threads.reports import explain_placement
from filrouge.threads.repository import ThreadErasing, Threads, ThreadVectors
from filrouge.threads.service import move
from filrouge.threads.upkeep import ThreadSettings
from tests.support.given import BLOG, SHOP, event
from tests.support.spoken import (
    COUPON,
    POSTGRES,
    SUBJECTS,
    SUJETS,
    as_sets,
    grouped,
    tell,
    texts,
    thread,
    threads,
    turn_of,
)
from tests.support.tiers import examples


@pytest.fixture
def parts(tmp_path: Path) -> Generator[Parts]:
    with running(str(tmp_path / "home")) as found:
        idle(found)
        yield found


@pytest.mark.slow
def test_with_the_bundled_model_two_sessions_on_one_subject_are_one_thread_and_two_subjects_two(tmp_path: Path) -> None:
    with running(str(tmp_path), embedding="e5") as parts:
        tell(parts, "monday", COUPON[0], COUPON[1])
        tell(parts, "tuesday", POSTGRES[0])
        tell(parts, "wednesday", COUPON[2], POSTGRES[1])
        assert sorted(grouped(parts), key=len) == as_sets(POSTGRES, COUPON)
        assert [one["conversations"] for one in threads(parts)] == [2, 2]


@pytest.mark.slow
@pytest.mark.parametrize("subjects", [pytest.param(SUBJECTS, id="en"), pytest.param(SUJETS, id="fr")])
def test_with_the_bundled_model_each_subject_of_one_session_is_a_thread_and_the_drift_is_noted(
    tmp_path: Path, subjects: Sequence[Sequence[str]]
) -> None:
    with running(str(tmp_path), embedding="e5") as parts:
        for subject in subjects:
            tell(parts, "s", *subject)
        assert grouped(parts)[::-1] == as_sets(*subjects)
        oldest_first = threads(parts)[::-1]
        for left, became in pairwise(oldest_first):
            [drift] = thread(parts, left["id"])["drift"]
            assert (drift["became"], drift["title"]) == (became["id"], became["title"])
            assert became["parent"] == left["id"]
        for former, subject in pairwise(subjects):
            assert decisions(parts, subject[0])[-1]["action"] == "fork"
            assert [one["action"] for one in decisions(parts, former[2])] == ["continue"]


def test_what_follows_a_prompt_goes_where_it_went(parts: Parts) -> None:
    tell(parts, "s", COUPON[0])
    tell(parts, "s", "I found it: the form sends null.", kind="reply")
    tell(parts, "s", "ok, thanks")
    [one] = threads(parts)
    assert texts(parts, one["id"]) == [COUPON[0], "I found it: the form sends null.", "ok, thanks"]
    assert [it["action"] for it in thread(parts, one["id"])["turns_shown"]] == ["new", "follow", "follow"]


def test_what_came_in_before_its_prompt_was_placed_follows_it_all_the_same(parts: Parts) -> None:
    said = [event(text=COUPON[0]), event("reply", text="I look."), event("subagent", text="The form sends null.")]
    store_events(parts, said).result(60)
    idle(parts)
    assert grouped(parts) == as_sets([COUPON[0], "I look.", "The form sends null."])


def test_what_a_session_says_before_its_first_prompt_is_in_no_thread(parts: Parts) -> None:
    tell(parts, "s", "hello", "go on")
    assert threads(parts) == []


def test_what_was_noted_outside_a_session_is_in_no_thread(parts: Parts) -> None:
    tell(parts, "", "For the record: production listens on port 8443.", kind="note")
    assert threads(parts) == []


@settings(max_examples=examples(6), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    said=st.lists(
        st.tuples(st.sampled_from([SHOP, BLOG, ()]), st.sampled_from("abc"), st.sampled_from(COUPON + POSTGRES))
    )
)
def test_no_thread_ever_holds_turns_of_two_projects(parts: Parts, said: list[tuple[tuple[str, ...], str, str]]) -> None:
    for project, session, text in said:
        store_events(parts, [event(project=project, session=session, text=text)]).result(60)
    idle(parts)

    def mixed(thread_id: str) -> set[str | None]:
        found = parts.readers.here(lambda tx: parts.turns(tx).get(Threads(tx).turns(thread_id)))
        return {turn.scope.project for turn in found}

    for one in threads(parts):
        assert mixed(one["id"]) == {one["project"]}
    assert parts.readers.here(lambda tx: Threads(tx).unplaced(0, 9)) == []


def test_the_same_subject_in_another_project_is_another_thread(parts: Parts) -> None:
    tell(parts, "a", COUPON[0])
    tell(parts, "b", COUPON[0], project=BLOG)
    assert sorted(one["project"] for one in threads(parts)) == sorted([SHOP[0], BLOG[0]])


def test_agents_share_threads_unless_they_are_isolated(parts: Parts) -> None:
    tell(parts, "a", COUPON[0])
    tell(parts, "b", COUPON[1], host="codex")
    assert len(threads(parts)) == 1
    parts.writer.run(lambda tx: StoredSettings(tx).put({"isolation": True}, parts.clock.now()))
    tell(parts, "c", COUPON[2], host="codex")
    assert [(one["channel"], one["messages"]) for one in threads(parts)] == [("codex", 1), ("claude-code", 2)]


def test_a_job_that_is_done_again_changes_nothing(parts: Parts) -> None:
    tell(parts, "s", COUPON[0], COUPON[1])
    before = threads(parts), decisions(parts, COUPON[1])
    place_all(parts)
    assert (threads(parts), decisions(parts, COUPON[1])) == before


def test_a_turn_that_was_moved_by_hand_stays(parts: Parts) -> None:
    tell(parts, "a", COUPON[0], COUPON[1])
    tell(parts, "b", POSTGRES[0])
    stray, into = turn_of(parts, COUPON[1]), thread_with(parts, POSTGRES[0])
    move(parts, [stray], into)
    place_all(parts)
    tell(parts, "a", "And where is the coupon on the checkout page stored, in the session?")
    assert COUPON[1] in texts(parts, into)


def test_a_job_that_dies_between_reading_and_the_end_of_writing_leaves_nothing_half(tmp_path: Path) -> None:
    def dying(parts: Parts, payloads: Sequence[Payload]) -> list[JobResult]:
        return [replace(one, write=partial(die_after, one.write)) for one in placing.place_prompts(parts, payloads)]

    def die_after(write: Callable[[Tx], None], tx: Tx) -> None:
        write(tx)
        assert len(Threads(tx).list_threads(user=None, project=None, everywhere=True)) == 1
        raise OSError("the process ends here")

    with stopped(tmp_path) as parts:
        store_events(parts, [event(text=COUPON[0]), event("reply", text="I look.")]).result(60)
        work(parts, {**HANDLERS, "thread": Handler(prepare=dying)})
        assert threads(parts) == []
        place_all(parts)
        assert grouped(parts) == as_sets([COUPON[0], "I look."])


def test_turns_of_a_session_are_placed_in_their_order(tmp_path: Path) -> None:
    with stopped(tmp_path) as parts:
        first, second = event(text=COUPON[0]), event(text=COUPON[1])
        store_events(parts, [first, second._replace(at=first.at + 1)]).result(60)
        work(parts, {kind: handler for kind, handler in HANDLERS.items() if kind != "thread"})
        [earlier, later] = prompts(parts)
        assert place_one(parts, later) == {"turn": later}
        assert threads(parts) == []
        assert [place_one(parts, earlier), place_one(parts, later)] == [None, None]
        assert grouped(parts) == as_sets([COUPON[0], COUPON[1]])


def test_a_prompt_waits_for_its_vector_as_long_as_one_is_to_come(tmp_path: Path) -> None:
    with stopped(tmp_path) as parts:
        told = event(text=COUPON[0])
        store_events(parts, [told]).result(60)
        [outcome] = read_events(parts, [{"event": told.id}])
        parts.writer.run(outcome.write)
        [turn] = prompts(parts)
        assert place_one(parts, turn) == {"turn": turn}
        work(parts, HANDLERS)
        assert grouped(parts) == as_sets([COUPON[0]])


def test_while_the_embedder_is_down_prompts_are_placed_by_their_topics(tmp_path: Path) -> None:
    embedder = AnotherHash("brittle")
    with running(str(tmp_path), embedding="brittle", makers={"brittle": lambda: embedder}) as parts:
        idle(parts)
        embedder.failing = True
        for session, text in (("a", COUPON[0]), ("b", POSTGRES[0]), ("c", COUPON[2])):
            store_events(parts, [event(session=session, text=text)]).result(60)
        wait_for(lambda: len(grouped(parts)) == 2)
        assert sorted(grouped(parts), key=len) == as_sets([POSTGRES[0]], [COUPON[0], COUPON[2]])
        assert vectors(parts) == set()
        embedder.failing = False
        idle(parts)
        assert vectors(parts) == {one["id"] for one in threads(parts)}


def test_threads_have_vectors_in_the_space_that_was_reindexed_to_and_the_old_ones_go(tmp_path: Path) -> None:
    makers = {"old": lambda: AnotherHash("old"), "new": lambda: AnotherHash("new")}
    with running(str(tmp_path), embedding="", makers=makers, environ={}) as parts:
        parts.writer.run(lambda tx: StoredSettings(tx).put({"embedding_model": "old"}, parts.clock.now()))
        reindex(parts, "old")
        tell(parts, "a", COUPON[0])
        former = parts.vectors.space.id
        reindex(parts, "new")
        idle(parts)
        [one] = threads(parts)
        assert parts.vectors.space.id != former
        assert vectors(parts) == {one["id"]}
        assert parts.readers.here(lambda tx: ThreadVectors(tx).some([one["id"]], former)) == {}


def test_threads_grow_quiet_with_time_and_wake_when_they_are_spoken_of(parts: Parts) -> None:
    tell(parts, "a", COUPON[0], days_ago=6)
    tell(parts, "b", POSTGRES[0], days_ago=30)
    assert {one["title"][:8]: one["status"] for one in threads(parts)} == {
        "Checkout": "suspended",
        "Postgres": "archived",
    }
    assert [len(threads(parts, status=status)) for status in ("active", "suspended", "archived", "all")] == [0, 1, 1, 2]
    tell(parts, "c", COUPON[0], POSTGRES[0])
    assert [(one["status"], one["conversations"]) for one in threads(parts)] == [("active", 2), ("active", 2)]
    assert {one["action"] for one in decisions(parts, COUPON[0])} == {"new", "reactivate"}


def test_above_the_cap_of_the_mode_the_lightest_are_suspended(parts: Parts) -> None:
    parts.writer.run(lambda tx: StoredSettings(tx).put({"mode": "light"}, parts.clock.now()))
    for number in range(18):
        tell(
            parts,
            f"s{number}",
            " ".join(f"{NOUNS[number]}{ending}" for ending in ("", "ing", "ery", "ist", "ful", "able", "less")),
        )
    assert [len(threads(parts, status=status)) for status in ("active", "suspended")] == [15, 3]


def test_a_session_that_turns_to_something_else_forks_and_the_drift_is_noted(parts: Parts) -> None:
    tell(parts, "s", COUPON[0], POSTGRES[0])
    stray, [first] = turn_of(parts, POSTGRES[0]), threads(parts)
    fork(parts, stray, first["id"])
    [later, first] = threads(parts)
    [drift] = thread(parts, first["id"])["drift"]
    assert later["parent"] == first["id"]
    assert (drift["became"], drift["turn_id"], drift["title"]) == (
        later["id"],
        turn_of(parts, POSTGRES[0]),
        later["title"],
    )
    assert [one["id"] for one in thread(parts, first["id"])["children"]] == [later["id"]]


def test_why_a_turn_is_in_its_thread_names_what_it_was_held_against(parts: Parts) -> None:
    tell(parts, "a", COUPON[0])
    tell(parts, "b", POSTGRES[0])
    tell(parts, "c", COUPON[2])
    [decision] = decisions(parts, COUPON[2])
    assert decision["action"] == "continue"
    assert {one["title"] for one in decision["weighed"]} == {one["title"] for one in threads(parts)}
    assert decision["weighed"][0]["similarity"] == decision["similarity"]


def test_prompts_of_before_there_were_threads_are_placed_when_the_daemon_starts(tmp_path: Path) -> None:
    with running(str(tmp_path)) as parts:
        tell(parts, "a", COUPON[0])
        tell(parts, "a", "I found it: the form sends null.", kind="reply")
        tell(parts, "b", COUPON[2], *(f"And the coupon {word} on the checkout page?" for word in NOUNS))
        before = [one["messages"] for one in threads(parts)]
        parts.writer.run(unplace)
        assert threads(parts) == []
    with running(str(tmp_path)) as parts:
        idle(parts)
        assert [one["messages"] for one in threads(parts)] == before


NOUNS = (
    "harvest", "orchestra", "submarine", "glacier", "carpet", "volcano", "bakery", "telescope", "lighthouse", "tunnel",
    "saxophone", "vineyard", "parachute", "elevator", "aquarium", "cathedral", "windmill", "pottery",
)  # fmt: skip


@contextmanager
def stopped(home: Path) -> Generator[Parts]:
    """A Filrouge in which nothing works yet."""
    parts = wiring.build(str(home), environ={"FILROUGE_EMBEDDING_MODEL": "hashing"}, clock=SystemClock())
    wiring.load_indexes(parts)
    try:
        yield parts
    finally:
        parts.readers.close()
        parts.writer.close()


def work(parts: Parts, handlers: Mapping[str, Handler]) -> None:
    """Work as long as something is due; what fails is left for later."""
    worker = Worker(parts, handlers)
    worker.start()
    wait_for(lambda: not is_due(parts) and parts.idle.is_set())
    worker.stop()


def is_due(parts: Parts) -> bool:
    due = parts.readers.here(lambda tx: Jobs(tx).next_due(ORDINARY))
    return due is not None and from_text(due) <= parts.clock.now()


def place_one(parts: Parts, turn_id: str) -> Payload | None:
    [outcome] = placing.place_prompts(parts, [{"turn": turn_id}])
    parts.writer.run(outcome.write)
    return outcome.again()


def place_all(parts: Parts) -> None:
    for turn_id in prompts(parts):
        assert place_one(parts, turn_id) is None


def prompts(parts: Parts) -> list[str]:
    """The ids of what the user said, oldest first."""
    return parts.readers.here(lambda tx: [row["id"] for row in tx.all("turns.prompts", _ALL_PROMPTS)])[::-1]


def vectors(parts: Parts) -> set[str]:
    """Threads that have a vector in the space that recall reads."""
    ids, space = [one["id"] for one in threads(parts)], parts.vectors.space.id
    return set(parts.readers.here(lambda tx: ThreadVectors(tx).some(ids, space)))


def decisions(parts: Parts, text: str) -> list[dict[str, Any]]:
    """Every decision about the turns that say this."""
    ids = [one["id"] for it in threads(parts) for one in thread(parts, it["id"])["turns_shown"] if one["text"] == text]
    return [
        one
        for id_ in ids
        for one in parts.readers.here(lambda tx, id_=id_: explain_placement(parts, tx, id_))["decisions"]
    ]


def thread_with(parts: Parts, text: str) -> str:
    return next(one["id"] for one in threads(parts) if text in texts(parts, one["id"]))


def unplace(tx: Tx) -> None:
    """As if there had never been threads."""
    ids = [row["id"] for row in tx.all("turns.prompts", _ALL_PROMPTS)]
    ThreadErasing(tx).remove_turns([*ids, *(row["id"] for row in tx.all("turns.recent", _ALL_RECENT))])


_ALL_PROMPTS = {
    "user_id": "local", "agent": None, "project_id": None, "everywhere": True, "since": "", "until": "9999",
    "limit": 999,
}  # fmt: skip
_ALL_RECENT = {"channel": "claude-code", "session_id": None, "user_id": None, "limit": 999}


def wait_for(done: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def fork(parts: Parts, turn_id: str, thread_id: str) -> None:
    """Carry out what is decided of a turn that leaves its session's thread."""
    caps = parts.readers.here(lambda tx: ThreadSettings.of(parts.settings(tx)))
    [one] = placing.prepare_prompts(parts, [turn_id], parts.vectors, caps)
    left = Routing(action="fork", thread_id=None, similarity=0.0, candidates=(), reason="It left.", parent=thread_id)

    def write(tx: Tx) -> None:
        tx.run("threads.displace", {"turns": json.dumps([turn_id])})
        known = {thread_id: Threads(tx).get(thread_id)}
        placing.apply_routing(parts, tx, one, left, known, parts.vectors, caps)

    parts.writer.run(write)


def test_a_prompt_is_read_behind_the_end_of_what_was_said_before_it_in_its_session() -> None:
    long = " ".join(f"w{number}" for number in range(300))
    said = [
        ("monday", "The loaf is flat.", "Is the starter old?"),
        ("tuesday", long, long),
        ("monday", "Two  weeks.", ""),
        ("tuesday", long, ""),
    ]

    first, other_first, second, other_second = texts_in_sessions(said)

    assert (first, other_first) == (None, None)
    assert second == "The loaf is flat. Is the starter old?\nTwo weeks."
    assert other_second is not None
    before, own = other_second.split("\n")
    assert long.endswith(before)
    assert 40 <= len(before.split()) <= 50
    assert long.startswith(own)
    assert 100 <= len(own.split()) <= 150


@pytest.mark.parametrize(("model", "is_bundled"), [("multilingual-e5-small", True), ("other", False)])
def test_only_the_bundled_model_reads_prompts_in_their_sessions(tmp_path: Path, model: str, is_bundled: bool) -> None:
    with running(str(tmp_path), embedding="one", makers={"one": lambda: AnotherHash(model)}) as parts:
        tell(parts, "a", COUPON[0], POSTGRES[0])
        ids = prompts(parts)
        whitening = Whitening.fit(np.random.default_rng(0).normal(size=(2000, 384)).astype(np.float32))
        batch = parts.readers.here(lambda tx: load_batch(parts, tx, parts.vectors, ids, whitening))
        (first, second), kind = build_exchanges(batch, parts.vectors)

    assert kind == "vectors"
    own = [(one.prompt_vector, one.vector_in_session) for one in (first, second)]
    assert [np.array_equal(np.array(alone), np.array(inside)) for alone, inside in own] == [True, not is_bundled]
    assert [one.model_vector is not None for one in (first, second)] == [is_bundled] * 2


def test_a_prompt_and_its_replies_weigh_by_what_is_read_of_them() -> None:
    one, other = np.eye(2, dtype=np.float32)
    assert np.allclose(vector_with_replies("a" * 30, one, [("b" * 40, other)]), [0.6, 0.8])
    assert np.allclose(vector_with_replies("a" * 30, one, [("b" * 10, other), ("b" * 30, other)]), [0.6, 0.8])
    assert np.allclose(vector_with_replies("a" * 30, one, [("b" * 40, None)]), one)
    assert np.allclose(
        vector_with_replies("a" * 9000, one, [("b" * 9000, other), ("b" * 9000, other)]), [2, 1] / np.sqrt(5)
    )


def test_a_reply_s_stored_vector_joins_that_of_its_prompt(tmp_path: Path) -> None:
    with running(str(tmp_path), embedding="other", makers={"other": lambda: AnotherHash("other")}) as parts:
        tell(parts, "a", COUPON[0])
        answered = event(
            kind="reply", session="a", text="The coupon of the summer sale was created without a currency."
        )
        store_events(parts, [answered]).result(60)
        idle(parts)
        [asked] = prompts(parts)
        identity = Whitening.fit(np.random.default_rng(0).normal(size=(2000, 384)).astype(np.float32))
        batch = parts.readers.here(lambda tx: load_batch(parts, tx, parts.vectors, [asked], identity))
        prompt, reply = parts.vectors.embedder.passages([batch.prompts[0].text, batch.replies[asked]])
        wanted = vector_with_replies(batch.prompts[0].text, prompt, [(batch.replies[asked], reply)])
        assert np.allclose(batch.vectors[asked], prompt, atol=1e-3)
        assert np.allclose(batch.vectors_with_replies[asked], wanted, atol=1e-3)
        assert not np.allclose(wanted, prompt, atol=1e-2)
