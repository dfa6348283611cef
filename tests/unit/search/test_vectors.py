"""A vector index answers what a plain computation over everything would, after any history of changes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filrouge.core.protocols import VectorIndex
from filrouge.search.vector_codes import SignCodes
from filrouge.search.vector_index import AdaptiveIndex, CompactIndex, ExactIndex
from tests.support.tiers import examples
from tests.unit.search.histories import CHANGES, DIMENSION, GROUPS, OWNERS, Change, Model, check, units

KINDS = ["exact", "compact", "adaptive"]


def an_index(kind: str, model: Model, dimension: int = DIMENSION) -> VectorIndex:
    if kind == "exact":
        return ExactIndex(dimension)
    if kind == "compact":
        return CompactIndex(SignCodes(units(9, 20, dimension)), model.rows)
    return AdaptiveIndex(dimension, model.rows, codes=SignCodes, max_exact=6, max_fresh=2)


@settings(max_examples=examples(200), deadline=None)
@given(
    st.sampled_from(KINDS),
    CHANGES,
    st.none() | st.frozensets(GROUPS),
    st.none() | st.frozensets(OWNERS | st.just("nobody")),
    st.integers(0, 9),
    st.integers(0, 10**6),
)
def test_it_equals_a_plain_computation(
    kind: str,
    changes: list[Change],
    groups: frozenset[str] | None,
    owners: frozenset[str] | None,
    limit: int,
    seed: int,
) -> None:
    model = Model()
    index = an_index(kind, model)
    model.apply(index, changes)
    query = units(seed, 1)[0]
    assert len(index) == len(model.stored)
    numbers = None if owners is None else model.numbers(owners)
    check(index.nearest(query, limit, groups, numbers), model.cosines(query, groups, owners), limit)


@pytest.mark.parametrize("kind", KINDS)
def test_it_grows_past_its_first_room_and_uses_freed_rows_again(kind: str) -> None:
    model, vectors = Model(), units(1, 3000, 64)
    index = an_index(kind, model, 64)
    for number, vector in enumerate(vectors):
        model.put(index, str(number), "shop", vector[None])
    for number in range(0, 3000, 2):
        model.remove(index, str(number))
    for number in range(0, 3000, 4):
        model.put(index, f"new {number}", "blog", vectors[number][None])
    assert len(index) == 2250
    for number in (1, 501, 2999):
        assert index.nearest(vectors[number], 1, None)[0].owner_id == str(number)
    assert index.nearest(vectors[4], 1, frozenset({"blog"}))[0].owner_id == "new 4"
    assert all(one.owner_id.startswith("new") for one in index.nearest(vectors[1], 1000, frozenset({"blog"})))


@pytest.mark.parametrize("kind", KINDS)
def test_an_owner_is_found_by_its_best_window(kind: str) -> None:
    model = Model()
    index = an_index(kind, model)
    model.put(index, "long", "", np.eye(DIMENSION, dtype=np.float32)[:3])
    model.put(index, "short", "", np.full((1, DIMENSION), 0.5, dtype=np.float32))
    found = index.nearest(np.eye(DIMENSION, dtype=np.float32)[2], 9, None)
    assert [(one.owner_id, one.cosine) for one in found] == [("long", 1.0), ("short", 0.5)]


@pytest.mark.parametrize("kind", KINDS)
def test_an_owner_with_very_many_windows_does_not_hide_the_others(kind: str) -> None:
    model, vectors = Model(), units(2, 2000)
    index, query = an_index(kind, model), units(3, 1)[0]
    near = vectors[np.argsort(-(vectors @ query))]
    model.put(index, "a book", "", near[:1500])
    for number, vector in enumerate(near[1500:]):
        model.put(index, f"note {number}", "", vector[None])
    check(index.nearest(query, 400, None), model.cosines(query, None), 400)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_unknown_is_no_error(kind: str) -> None:
    model = Model()
    index = an_index(kind, model)
    index.remove("nobody")
    assert index.nearest(units(1, 1)[0], 5, None) == []
    model.put(index, "a", "shop", units(1, 1))
    assert index.nearest(units(1, 1)[0], 5, frozenset()) == []
    assert index.nearest(units(1, 1)[0], 5, frozenset({"elsewhere"})) == []
    assert index.nearest(units(1, 1)[0], 5, None, model.numbers([])) == []
    assert index.nearest(units(1, 1)[0], 5, None, model.numbers(["nobody"])) == []
