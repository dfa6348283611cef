"""The compact index: coarse codes propose, the stored vectors decide; exact while small, moved without a pause."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filrouge.core.protocols import Vector, Vectors
from filrouge.search.vector_codes import Codes, SignCodes
from filrouge.search.vector_index import AdaptiveIndex, ExactIndex, fastest_codes
from tests.support.tiers import examples
from tests.unit.search.histories import Model, check, units

CODES = [SignCodes, fastest_codes]
WIDE = 256


def texts_of_one_cone(seed: int, count: int, dimension: int = WIDE) -> Vectors:
    """Vectors as an embedding model makes them: close to one direction, in clusters."""
    random = np.random.default_rng(seed)
    common, topics = random.normal(size=dimension) * 1.5, random.normal(size=(50, dimension))
    vectors = common + topics[random.integers(0, 50, count)] + 0.5 * random.normal(size=(count, dimension))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def filled(count: int, codes: Callable[[Vectors], Codes]) -> tuple[AdaptiveIndex, Model, Vectors]:
    model, vectors = Model(), texts_of_one_cone(1, count)
    index = AdaptiveIndex(WIDE, model.rows, codes=codes, max_exact=500, max_fresh=100)
    for number, vector in enumerate(vectors):
        model.put(index, str(number), f"group {number % 100}", vector[None])
    return index, model, vectors


@pytest.mark.parametrize("codes", CODES)
def test_ten_of_thousands_are_the_right_ten_with_and_without_filters(codes: Callable[[Vectors], Codes]) -> None:
    index, model, vectors = filled(5000, codes)
    assert index.is_compact
    exact, hits, asked = ExactIndex(WIDE), 0, 0
    for owner, (group, windows) in model.stored.items():
        exact.put(owner, model.number(owner), group, windows)
    for query in texts_of_one_cone(1, 5015)[5000:]:
        for groups in (None, frozenset({"group 7"}), frozenset(f"group {n}" for n in range(10))):
            for numbers in (None, model.numbers([str(n) for n in range(0, 5000, 3)])):
                found, right = (one.nearest(query, 10, groups, numbers) for one in (index, exact))
                hits += len({one.owner_id for one in found} & {one.owner_id for one in right})
                asked += 10
                cosines = [float(np.max(model.stored[one.owner_id][1] @ query)) for one in found]
                assert [one.cosine for one in found] == pytest.approx(cosines, abs=1e-5)
    assert hits / asked >= 0.99
    assert len(vectors) == len(index)


@pytest.mark.parametrize("codes", CODES)
def test_who_was_removed_or_left_the_store_is_no_answer(codes: Callable[[Vectors], Codes]) -> None:
    index, model, vectors = filled(1500, codes)
    model.remove(index, "3")
    model.stored.pop("4")  # the store forgot it; the index was not told yet
    for gone in (3, 4):
        assert str(gone) not in {one.owner_id for one in index.nearest(vectors[gone], 50, None)}
    assert len(index.nearest(vectors[4], 50, None)) == 50


def test_an_owner_that_changes_its_group_is_found_in_the_new_one_alone() -> None:
    index, model, vectors = filled(1500, SignCodes)
    model.put(index, "5", "elsewhere", vectors[5][None])
    assert index.nearest(vectors[5], 1, frozenset({"elsewhere"}))[0].owner_id == "5"
    assert "5" not in {one.owner_id for one in index.nearest(vectors[5], 50, frozenset({"group 5"}))}


@settings(max_examples=examples(40), deadline=None)
@given(st.sampled_from(CODES), st.integers(1, 90), st.lists(st.integers(0, 10**6), max_size=60), st.integers(0, 99))
def test_codes_stay_with_their_slots_through_any_removals(
    codes: Callable[[Vectors], Codes], dimension: int, removals: list[int], seed: int
) -> None:
    made, vectors = codes(units(1, 20, dimension)), units(seed, 80, dimension)
    made.add(vectors[:50])
    made.add(vectors[50:])
    slots = list(range(80))
    for number in removals:
        slot = number % len(slots)
        made.remove(slot)
        slots[slot] = slots[-1]
        slots.pop()
    assert len(made) == len(slots)
    even = np.array([number % 2 == 0 for number in slots])
    assert set(made.best(vectors[0], 90, None).tolist()) == set(range(len(slots)))
    if even.any():
        assert set(made.best(vectors[0], 90, even).tolist()) == set(np.flatnonzero(even).tolist())
    if dimension >= 32 and 0 in slots:
        assert slots.index(0) in made.best(vectors[0], 10, None)


@pytest.mark.parametrize("codes", CODES)
def test_vectors_that_are_all_the_same_are_no_difficulty(codes: Callable[[Vectors], Codes]) -> None:
    model, same = Model(), units(1, 1, WIDE)
    index = AdaptiveIndex(WIDE, model.rows, codes=codes, max_exact=50, max_fresh=10)
    for number in range(300):
        model.put(index, str(number), "", same)
    check(index.nearest(same[0], 20, None), model.cosines(same[0], None), 20)


@pytest.mark.parametrize("codes", CODES)
def test_questions_are_answered_while_others_write_and_all_moves(codes: Callable[[Vectors], Codes]) -> None:
    model, vectors = Model(), texts_of_one_cone(1, 4000)
    index = AdaptiveIndex(WIDE, model.rows, codes=codes, max_exact=700, max_fresh=100)
    for number in range(300):
        model.put(index, f"steady {number}", "", vectors[number][None])
    done, missed, asked = Event(), list[str](), list[int]()

    def ask(first: int) -> None:
        number = first
        while not done.is_set():
            number = (number + 7) % 300
            if index.nearest(vectors[number], 1, None)[0].owner_id != f"steady {number}":
                missed.append(f"steady {number}")
            asked.append(number)

    askers = [Thread(target=ask, args=(first,)) for first in range(3)]
    for asker in askers:
        asker.start()
    writers = [Thread(target=_write, args=(index, model, vectors, start)) for start in (300, 2000)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    done.set()
    for asker in askers:
        asker.join()
    assert index.is_compact
    assert (missed, len(index)) == ([], len(model.stored))
    assert len(asked) > 20


def _write(index: AdaptiveIndex, model: Model, vectors: Vectors, start: int) -> None:
    for number in range(start, start + 1700):
        model.put(index, f"new {number}", "", vectors[number][None])
        if number % 3 == 0:
            model.remove(index, f"new {number - 1}")


def test_a_small_index_is_exact_and_asks_the_store_nothing() -> None:
    def refuse(owners: object) -> dict[str, Vectors]:
        raise AssertionError(owners)

    index = AdaptiveIndex(4, refuse)
    index.put("a", 1, "", units(1, 2))
    query: Vector = units(1, 2)[1]
    assert index.nearest(query, 1, None)[0].cosine == pytest.approx(1)
    assert not index.is_compact
