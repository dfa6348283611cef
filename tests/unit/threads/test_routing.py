from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from filrouge.core.protocols import Vector, Vectors
from filrouge.threads.assignment import (
    MAX_BORDERLINE,
    MIN_BORDERLINE,
    MIN_VECTORS,
    SAME_THREAD_THRESHOLD,
    ComparedThread,
    RoutedPrompt,
    Whitening,
    prompt_vector,
    route,
    thread_vector,
)
from filrouge.threads.models import Thread, ThreadState

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def towards(*numbers: float) -> Vector:
    vector = np.zeros(8, dtype=np.float32)
    vector[: len(numbers)] = numbers
    return np.asarray(vector / np.linalg.norm(vector), dtype=np.float32)


BREAD, TAXES, CLIMBING = towards(1), towards(0, 1), towards(0, 0, 1)


def known(id_: str, *chances: float, state: ThreadState = "active", topics: tuple[str, ...] = ()) -> ComparedThread:
    """A thread with prompts that are of one thread with the prompt with these probabilities."""
    thread = Thread(
        id=id_,
        user="local",
        project="p",
        title=id_,
        topics=topics,
        opened_at=NOON - timedelta(days=1),
        last_active=NOON,
        state=state,
    )
    near = np.asarray([(chance, 0.5, 0.25) for chance in chances], dtype=np.float32).reshape(-1, 3)
    return ComparedThread(thread=thread, state=state, scores=near)


def prompt(own: str | None = None, topics: tuple[str, ...] = ()) -> RoutedPrompt:
    return RoutedPrompt(text="some text", topics=topics, at=NOON, session_thread=own)


def test_without_threads_a_prompt_opens_one() -> None:
    routing = route(prompt(), [])

    assert (routing.action, routing.thread_id, routing.candidates) == ("new", None, ())


def test_a_prompt_goes_on_in_the_likeliest_of_all_threads() -> None:
    threads = [known(f"t{number}", 0.3) for number in range(60)] + [known("bread", 0.8, 0.6)]

    routing = route(prompt(), threads)

    assert (routing.action, routing.thread_id) == ("continue", "bread")
    assert routing.similarity == pytest.approx(0.7)


def test_one_prompt_that_is_alike_by_chance_draws_nothing_into_a_long_thread() -> None:
    routing = route(prompt(), [known("long", 0.9, *[0.02] * 9)])

    assert routing.action == "new"


def test_a_thread_none_of_whose_prompts_was_looked_at_takes_nothing() -> None:
    routing = route(prompt(), [known("old")])

    assert (routing.action, routing.candidates) == ("new", ())


@pytest.mark.parametrize(
    ("state", "chance", "action", "asked"),
    [
        ("active", SAME_THREAD_THRESHOLD + 0.01, "continue", False),
        ("active", SAME_THREAD_THRESHOLD - 0.01, "new", False),
        ("suspended", SAME_THREAD_THRESHOLD + 0.01, "reactivate", True),
        ("suspended", SAME_THREAD_THRESHOLD - 0.01, "new", True),
        ("archived", MAX_BORDERLINE + 0.01, "reactivate", False),
        ("archived", MIN_BORDERLINE - 0.01, "new", False),
    ],
)
def test_a_quiet_thread_is_woken_or_a_model_asked_about_it(
    state: ThreadState, chance: float, action: str, asked: bool
) -> None:
    routing = route(prompt(), [known("a", chance, state=state)])

    assert (routing.action, routing.borderline) == (action, asked)


def test_talk_that_has_left_its_thread_is_forked_off() -> None:
    routing = route(prompt("bread"), [known("bread", 0.1), known("tax", 0.05)])

    assert (routing.action, routing.thread_id, routing.parent) == ("fork", None, "bread")


def test_talk_that_changes_to_another_known_thread_goes_on_there() -> None:
    routing = route(prompt("bread"), [known("bread", 0.3), known("tax", 0.6)])

    assert (routing.action, routing.thread_id, routing.parent) == ("continue", "tax", None)


def test_of_many_candidates_those_that_are_likely_and_at_least_three_are_logged() -> None:
    assert len(route(prompt(), [known(f"t{number}", 0.1) for number in range(9)]).candidates) == 3
    assert len(route(prompt(), [known(f"t{number}", 0.4) for number in range(9)]).candidates) == 9


def test_what_is_logged_tells_similarity_shared_words_and_the_same_topic() -> None:
    [one] = route(prompt("bread", ("rye flour",)), [known("bread", 0.4, topics=("rye flour",))]).candidates

    assert (one.embedding, one.topics, one.exact, one.own) == (0.5, 0.25, True, True)


def test_where_words_alone_count_no_similarity_is_logged() -> None:
    near = np.asarray([(0.4, np.nan, 0.25)], dtype=np.float32)

    [one] = route(prompt(), [replace(known("bread"), scores=near)]).candidates

    assert (one.embedding, one.topics) == (None, 0.25)


threads_of = st.lists(st.lists(st.floats(0.0, 1.0, width=32), min_size=1, max_size=3), max_size=5)


@given(chances=threads_of, own=st.integers(min_value=0, max_value=4))
def test_a_routing_names_a_thread_exactly_where_one_is_gone_on_with(chances: list[list[float]], own: int) -> None:
    routing = route(prompt(f"t{own}"), [known(f"t{number}", *some) for number, some in enumerate(chances)])

    assert (routing.thread_id is None) == (routing.action in {"new", "fork"})
    assert (routing.parent is not None) == (routing.action == "fork")
    assert [one.similarity for one in routing.candidates] == sorted(one.similarity for one in routing.candidates)[::-1]


def many(count: int) -> Vectors:
    drawn = np.random.default_rng(1).normal(size=(count, 8)) + np.array([9, 0, 0, 0, 0, 0, 0, 0])
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True), dtype=np.float32)


def test_with_its_ground_taken_off_talk_is_unrelated_at_nought() -> None:
    vectors = many(400)
    ground = Whitening.fit(vectors)
    assert ground is not None

    raw, levelled = vectors @ vectors.T, ground.whiten(vectors) @ ground.whiten(vectors).T

    assert np.median(raw) > 0.85
    assert abs(float(np.median(levelled))) < 0.1
    assert np.allclose(np.diag(levelled), 1.0, atol=1e-5)


def test_a_few_vectors_are_no_ground() -> None:
    assert Whitening.fit(many(MIN_VECTORS - 1)) is None
    assert Whitening.fit(many(MIN_VECTORS)) is not None


def test_vectors_are_means_of_length_one_or_missing() -> None:
    assert prompt_vector(None) is None
    assert thread_vector([]) is None
    made = thread_vector([np.stack([BREAD, TAXES]), CLIMBING[None]])
    assert made is not None
    assert float(np.linalg.norm(made)) == pytest.approx(1.0)
