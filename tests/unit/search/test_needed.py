"""What a prompt needs: a memory is judged among those found with it."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filrouge.search.ranking import (
    MIN_NEED_PROBABILITY,
    NeedFeatures,
    WeightedQuestion,
    anything_needed,
    need_probabilities,
    rank,
)
from tests.unit.search.test_recall import candidate

FOUND = st.builds(NeedFeatures, needed=st.floats(-1, 1), covered=st.floats(0, 1), similarity=st.floats(0, 1))


@given(st.lists(FOUND, max_size=6))
def test_every_memory_has_a_probability(found: list[NeedFeatures]) -> None:
    assert len(need_probabilities(found)) == len(found)
    assert all(0.0 < chance < 1.0 for chance in need_probabilities(found))


@given(st.lists(FOUND, min_size=1, max_size=6), st.sampled_from(("needed", "covered", "similarity")), st.floats(0, 1))
def test_more_of_a_sign_never_lowers_a_memory(found: list[NeedFeatures], sign: str, more: float) -> None:
    raised = replace(found[0], **{sign: getattr(found[0], sign) + more})
    assert need_probabilities([raised, *found[1:]])[0] >= need_probabilities(found)[0] - 1e-9


@given(st.lists(FOUND, min_size=1, max_size=6), FOUND)
def test_what_is_found_beside_a_memory_never_raises_it(found: list[NeedFeatures], other: NeedFeatures) -> None:
    alone, beside = need_probabilities(found), need_probabilities([*found, other])
    assert all(one >= two - 1e-9 for one, two in zip(alone, beside, strict=False))


def test_one_that_stands_out_is_shown_and_one_of_many_alike_is_not() -> None:
    ahead = NeedFeatures(needed=0.35, covered=0.2, similarity=0.2)
    behind = NeedFeatures(needed=0.15, covered=0.1, similarity=0.1)
    first, *others = need_probabilities([ahead, *[behind] * 9])
    assert first >= MIN_NEED_PROBABILITY > max(others)
    assert max(need_probabilities([behind] * 10)) < MIN_NEED_PROBABILITY


@given(st.floats(-1, 1), st.floats(0, 1), st.floats(0, 1))
def test_something_is_needed_the_sooner_the_nearer_it_is_and_the_more_is_known(
    nearest: float, known: float, more: float
) -> None:
    assert anything_needed(nearest + more, known) >= anything_needed(nearest, known)
    assert anything_needed(nearest, min(1.0, known + more)) >= anything_needed(nearest, known)


def test_a_prompt_to_which_everything_is_much_farther_than_nothing_needs_nothing_whatever_is_known() -> None:
    assert anything_needed(-0.2, 0.9) < 0.5 < anything_needed(0.0, 0.1)
    assert anything_needed(-0.05, 0.3) == 0.3


def test_what_a_prompt_needs_goes_before_what_speaks_of_the_same() -> None:
    same = replace(candidate("same", cosine=0.9, similarity=0.4), needed=0.1)
    other = replace(candidate("other", cosine=0.8, similarity=0.1), needed=0.4)
    questioned = WeightedQuestion([("port",)], {}, 0)
    found = rank("which port?", questioned, [same, other])
    assert found.by_need
    assert [hit.id for hit in found.hits] == ["other", "same"]
    assert [hit.score for hit in found.hits] == [hit.relevance for hit in found.hits]
    assert [hit.explain()["needed"] for hit in found.hits] == [0.4, 0.1]
    assert found.hits[0].explain().keys() == {one.name for one in fields(found.hits[0])} - {"item"}
    told_of_one = rank("which port?", questioned, [same, replace(other, needed=None)])
    assert not told_of_one.by_need
    assert [hit.id for hit in told_of_one.hits] == ["same", "other"]
    assert found.known == pytest.approx(told_of_one.known)
