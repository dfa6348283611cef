from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from filrouge.model.space import Calibration, EmbeddingSpace
from filrouge.model.thread import Thread, ThreadState
from filrouge.ports import Vector, Vectors
from filrouge.threads.ground import LEAST, Ground
from filrouge.threads.joining import join
from filrouge.threads.routing import Bands, route
from filrouge.threads.vectors import mean_vector, parts_of, prompt_vector, thread_vector
from filrouge.threads.weighing import Item, Known, Part, weighed

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SPACE = EmbeddingSpace(
    id="toy",
    model="toy",
    revision="1",
    dimension=8,
    pooling="mean",
    prefix="",
    calibration=Calibration.shipped(median=0.0, question_median=0.0, pairs=1),
)
BANDS = Bands(
    accepted={"active": 0.35, "suspended": 0.5, "archived": 0.6},
    borderline=0.15,
    fallback=0.35,
    fallback_shared=0.25,
    own=0.1,
    drift=0.05,
    joined=0.5,
)


def towards(*numbers: float) -> Vector:
    vector = np.zeros(8, dtype=np.float32)
    vector[: len(numbers)] = numbers
    return np.asarray(vector / np.linalg.norm(vector), dtype=np.float32)


BREAD, TAXES, CLIMBING = towards(1), towards(0, 1), towards(0, 0, 1)


def known(
    id_: str,
    *vectors: Vector | None,
    topics: tuple[str, ...] = (),
    state: ThreadState = "active",
    age: int = 0,
    title: str = "",
) -> Known:
    thread = Thread(
        id=id_,
        user="local",
        project="p",
        title=title or id_,
        topics=topics,
        opened_at=NOON - timedelta(days=age),
        last_active=NOON,
        state=state,
    )
    return Known(thread=thread, state=state, parts=tuple(Part(vector=one, topics=topics) for one in vectors))


def prompt(vector: Vector | None, topics: tuple[str, ...] = (), own: str | None = None) -> Item:
    return Item(text="some text", topics=topics, vector=vector, at=NOON, own=own)


def test_without_threads_a_prompt_opens_one() -> None:
    routing = route(prompt(BREAD), [], SPACE)

    assert (routing.action, routing.thread_id, routing.weighed) == ("new", None, ())


def test_a_prompt_goes_on_in_the_nearest_of_all_threads() -> None:
    threads = [known(f"t{number}", TAXES) for number in range(60)] + [known("bread", BREAD)]

    routing = route(prompt(towards(1, 0.2)), threads, SPACE, bands=BANDS)

    assert (routing.action, routing.thread_id, routing.weighed[0].thread_id) == ("continue", "bread", "bread")


def test_similarity_is_seven_parts_vector_three_parts_topics_and_more_for_the_very_same() -> None:
    near = towards(1, 1)

    [plain] = weighed([Part(vector=near, topics=())], [known("a", BREAD)], SPACE, None)
    [same] = weighed(
        [Part(vector=near, topics=("rye flour",))], [known("a", BREAD, topics=("rye flour",))], SPACE, None
    )

    assert plain.similarity == pytest.approx(0.7 * 0.5**0.5, abs=1e-6)
    assert same.similarity == pytest.approx(0.7 * 0.5**0.5 + 0.3 + 0.15, abs=1e-6)
    assert (same.exact, same.topics, plain.exact) == (True, pytest.approx(1.0), False)


def test_a_topic_that_all_threads_have_counts_less_than_a_rare_one() -> None:
    threads = [known(f"t{number}", TAXES, topics=("report",)) for number in range(9)]
    threads.append(known("rye", TAXES, topics=("rye",)))

    first, *others = weighed([Part(vector=TAXES, topics=("rye", "report"))], threads, SPACE, None)

    assert first.thread_id == "rye"
    assert all(first.topics > one.topics > 0.0 for one in others)


def test_a_thread_without_a_vector_is_known_by_title_and_topics() -> None:
    bare = Known(thread=known("a", title="Sourdough starter", topics=("rye",)).thread, state="active")

    routing = route(prompt(BREAD, ("sourdough starter", "rye")), [bare, known("b", TAXES)], SPACE, bands=BANDS)

    assert (routing.action, routing.thread_id) == ("continue", "a")
    assert routing.weighed[0].embedding is None


@pytest.mark.parametrize(
    ("state", "cosine", "action", "asked"),
    [
        ("active", 0.4 / 0.7, "continue", False),
        ("active", 0.3 / 0.7, "new", False),
        ("suspended", 0.52 / 0.7, "reactivate", False),
        ("suspended", 0.4 / 0.7, "reactivate", True),
        ("suspended", 0.2 / 0.7, "new", True),
        ("suspended", 0.1 / 0.7, "new", False),
        ("archived", 0.62 / 0.7, "reactivate", False),
    ],
)
def test_the_bands_of_each_state(state: ThreadState, cosine: float, action: str, asked: bool) -> None:
    one = known("a", towards(cosine, (1 - cosine**2) ** 0.5), state=state)

    routing = route(prompt(BREAD), [one], SPACE, bands=BANDS)

    assert (routing.action, routing.borderline) == (action, asked)


def test_a_prompt_that_says_little_stays_with_its_session() -> None:
    vague = towards(0.2, 0, 0, 1)

    alone = route(prompt(vague), [known("bread", BREAD)], SPACE, bands=BANDS)
    inside = route(prompt(vague, own="bread"), [known("bread", BREAD)], SPACE, bands=BANDS)

    assert (alone.action, inside.action, inside.thread_id) == ("new", "continue", "bread")


def test_talk_that_has_left_its_thread_is_forked_off() -> None:
    routing = route(prompt(CLIMBING, own="bread"), [known("bread", BREAD), known("tax", TAXES)], SPACE, bands=BANDS)

    assert (routing.action, routing.thread_id, routing.parent) == ("fork", None, "bread")


def test_talk_that_changes_to_another_known_thread_goes_on_there() -> None:
    routing = route(prompt(TAXES, own="bread"), [known("bread", BREAD), known("tax", TAXES)], SPACE, bands=BANDS)

    assert (routing.action, routing.thread_id) == ("continue", "tax")


def test_of_many_candidates_those_that_are_near_and_at_least_three_are_logged() -> None:
    threads = [known(f"t{number}", TAXES) for number in range(9)]

    assert len(route(prompt(BREAD), threads, SPACE).weighed) == 3
    assert len(route(prompt(TAXES), threads, SPACE).weighed) == 9


def test_a_long_thread_is_no_nearer_than_its_parts_are_in_the_mean() -> None:
    mixed = known("mixed", BREAD, TAXES, CLIMBING)

    [one] = weighed([Part(vector=BREAD, topics=())], [mixed], SPACE, None)

    assert one.similarity == pytest.approx(0.7 / 3, abs=1e-6)


def test_a_young_thread_joins_the_older_one_that_it_continues() -> None:
    routing = join(known("young", BREAD), [known("tax", TAXES, age=3), known("old", BREAD, age=2)], SPACE, bands=BANDS)

    assert routing is not None
    assert (routing.action, routing.thread_id) == ("join", "old")
    assert join(known("young", CLIMBING), [known("old", BREAD)], SPACE, bands=BANDS) is None
    assert join(known("young", BREAD), [], SPACE, bands=BANDS) is None


units = st.integers(min_value=0, max_value=99).map(lambda seed: towards(*np.random.default_rng(seed).normal(size=8)))
words = st.lists(st.sampled_from(["rye", "sourdough", "tax", "rope", "winter tyres"]), max_size=4, unique=True).map(
    tuple
)
parts = st.builds(Part, vector=units, topics=words)
threads_of = st.lists(st.lists(parts, min_size=1, max_size=3), min_size=1, max_size=5)


def threads_from(given_parts: Sequence[Sequence[Part]]) -> list[Known]:
    return [replace(known(f"t{number}"), parts=tuple(own)) for number, own in enumerate(given_parts)]


@given(threads=threads_of, part=parts)
def test_similarities_are_between_nought_and_one_and_the_best_comes_first(
    threads: list[list[Part]], part: Part
) -> None:
    found = weighed([part], threads_from(threads), SPACE, None)

    assert len(found) == len(threads)
    assert all(0.0 <= one.similarity <= 1.0 for one in found)
    assert [one.similarity for one in found] == sorted((one.similarity for one in found), reverse=True)


@given(threads=threads_of, part=parts, own=st.integers(min_value=0, max_value=4))
def test_a_routing_names_a_thread_exactly_where_one_is_gone_on_with(
    threads: list[list[Part]], part: Part, own: int
) -> None:
    item = Item(text="x", topics=part.topics, vector=part.vector, at=NOON, own=f"t{own}")

    routing = route(item, threads_from(threads), SPACE, bands=BANDS)

    assert (routing.thread_id is None) == (routing.action in {"new", "fork"})
    assert (routing.parent is not None) == (routing.action == "fork")


def many(count: int) -> Vectors:
    drawn = np.random.default_rng(1).normal(size=(count, 8)) + np.array([9, 0, 0, 0, 0, 0, 0, 0])
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True), dtype=np.float32)


def test_with_its_ground_taken_off_talk_is_unrelated_at_nought() -> None:
    vectors = many(400)
    ground = Ground.of(vectors)
    assert ground is not None

    raw, levelled = vectors @ vectors.T, ground.off(vectors) @ ground.off(vectors).T

    assert np.median(raw) > 0.85
    assert abs(float(np.median(levelled))) < 0.1
    assert np.allclose(np.diag(levelled), 1.0, atol=1e-5)


def test_a_few_vectors_are_no_ground() -> None:
    assert Ground.of(many(LEAST - 1)) is None
    assert Ground.of(many(LEAST)) is not None


def test_what_was_said_in_one_session_is_one_part() -> None:
    one, other = Part(vector=BREAD, topics=("rye",)), Part(vector=TAXES, topics=("rye", "tax"))

    first, second = parts_of([("s1", one), ("s2", other), ("s1", other)])

    assert (first.topics, second.topics) == (("rye", "tax"), ("rye", "tax"))
    assert first.vector is not None
    assert np.allclose(first.vector, towards(1, 1))


def test_vectors_are_means_of_length_one_or_missing() -> None:
    assert prompt_vector(None) is None
    assert mean_vector([None]) is None
    assert thread_vector([]) is None
    made = thread_vector([np.stack([BREAD, TAXES]), CLIMBING[None]])
    assert made is not None
    assert float(np.linalg.norm(made)) == pytest.approx(1.0)
