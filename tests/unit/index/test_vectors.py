"""The exact index answers what a plain computation over everything would, after any history of changes."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from filrouge.index.vectors import ExactIndex
from filrouge.ports import Vector, Vectors

DIMENSION = 4
OWNERS, GROUPS = st.sampled_from("abcdefgh"), st.sampled_from(["shop", "blog", "user:local", ""])
PUTS = st.tuples(st.just("put"), OWNERS, GROUPS, st.integers(1, 3), st.integers(0, 10**6))
CHANGES = st.lists(PUTS | st.tuples(st.just("remove"), OWNERS), max_size=30)


def units(seed: int, count: int) -> Vectors:
    vectors = np.random.default_rng(seed).normal(size=(count, DIMENSION)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def brute(
    model: dict[str, tuple[str, Vectors]], query: Vector, groups: frozenset[str] | None, owners: frozenset[str] | None
) -> dict[str, float]:
    return {
        owner: max(float(vector @ query) for vector in vectors)
        for owner, (group, vectors) in model.items()
        if (groups is None or group in groups) and (owners is None or owner in owners)
    }


@settings(max_examples=150, deadline=None)
@given(
    CHANGES,
    st.none() | st.frozensets(GROUPS),
    st.none() | st.frozensets(OWNERS),
    st.integers(0, 9),
    st.integers(0, 10**6),
)
def test_it_equals_a_plain_computation(
    changes: list[tuple[object, ...]],
    groups: frozenset[str] | None,
    owners: frozenset[str] | None,
    limit: int,
    seed: int,
) -> None:
    index, model = ExactIndex(DIMENSION), dict[str, tuple[str, Vectors]]()
    for change in changes:
        match change:
            case ("put", str(owner), str(group), int(count), int(number)):
                vectors = units(number, count)
                index.put(owner, group, vectors)
                model[owner] = (group, vectors)
            case (_, str(owner)):
                index.remove(owner)
                model.pop(owner, None)
            case _:
                raise AssertionError(change)
    query = units(seed, 1)[0]
    wanted = brute(model, query, groups, owners)
    found = index.nearest(query, limit, groups, owners)
    assert len(index) == len(model)
    assert [one.owner_id for one in found] == [one.owner_id for one in sorted(found, key=lambda one: -one.cosine)]
    assert len({one.owner_id for one in found}) == len(found) == min(limit, len(wanted))
    np.testing.assert_allclose([one.cosine for one in found], [wanted[one.owner_id] for one in found], atol=1e-5)
    np.testing.assert_allclose([one.cosine for one in found], sorted(wanted.values(), reverse=True)[:limit], atol=1e-5)


def test_it_grows_past_its_first_room_and_uses_freed_rows_again() -> None:
    index, vectors = ExactIndex(DIMENSION), units(1, 1000)
    for number, vector in enumerate(vectors):
        index.put(str(number), "shop", vector[None])
    for number in range(0, 1000, 2):
        index.remove(str(number))
    for number in range(0, 1000, 4):
        index.put(f"new {number}", "blog", vectors[number][None])
    assert len(index) == 750
    for number in (1, 501, 999):
        assert index.nearest(vectors[number], 1, None)[0].owner_id == str(number)
    assert index.nearest(vectors[4], 1, frozenset({"blog"}))[0].owner_id == "new 4"
    assert all(one.owner_id.startswith("new") for one in index.nearest(vectors[1], 1000, frozenset({"blog"})))


def test_an_owner_is_found_by_its_best_window() -> None:
    index = ExactIndex(DIMENSION)
    index.put("long", "", np.eye(DIMENSION, dtype=np.float32)[:3])
    index.put("short", "", np.full((1, DIMENSION), 0.5, dtype=np.float32))
    found = index.nearest(np.eye(DIMENSION, dtype=np.float32)[2], 9, None)
    assert [(one.owner_id, one.cosine) for one in found] == [("long", 1.0), ("short", 0.5)]


def test_what_is_unknown_is_no_error() -> None:
    index = ExactIndex(DIMENSION)
    index.remove("nobody")
    assert index.nearest(units(1, 1)[0], 5, None) == []
    index.put("a", "shop", units(1, 1))
    assert index.nearest(units(1, 1)[0], 5, frozenset()) == []
    assert index.nearest(units(1, 1)[0], 5, frozenset({"elsewhere"})) == []
