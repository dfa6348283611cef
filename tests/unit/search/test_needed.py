"""What a prompt needs: a memory is judged among those found with it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from filrouge.search.ranking import (
    MIN_NEED_PROBABILITY,
    MemoryForPrompt,
    NeedFeatures,
    WeightedQuestion,
    anything_needed,
    need_probabilities,
    rank_by_need,
)
from tests.unit.search.test_recall import candidate

FOUND = st.builds(NeedFeatures, needed=st.floats(-1, 1), covered=st.floats(0, 1))


@given(st.lists(FOUND, max_size=6))
def test_every_memory_has_a_probability(found: list[NeedFeatures]) -> None:
    assert len(need_probabilities(found)) == len(found)
    assert all(0.0 < chance < 1.0 for chance in need_probabilities(found))


@given(st.lists(FOUND, min_size=1, max_size=6), st.sampled_from(("needed", "covered")), st.floats(0, 1))
def test_more_of_a_sign_never_lowers_a_memory(found: list[NeedFeatures], sign: str, more: float) -> None:
    raised = replace(found[0], **{sign: getattr(found[0], sign) + more})
    assert need_probabilities([raised, *found[1:]])[0] >= need_probabilities(found)[0] - 1e-9


@given(st.lists(FOUND, min_size=1, max_size=6), FOUND)
def test_what_is_found_beside_a_memory_never_raises_it(found: list[NeedFeatures], other: NeedFeatures) -> None:
    alone, beside = need_probabilities(found), need_probabilities([*found, other])
    assert all(one >= two - 1e-9 for one, two in zip(alone, beside, strict=False))


def test_one_that_stands_out_is_shown_and_one_of_many_alike_is_not() -> None:
    ahead = NeedFeatures(needed=0.35, covered=0.0)
    behind = NeedFeatures(needed=0.15, covered=0.0)
    first, *others = need_probabilities([ahead, *[behind] * 9])
    assert first >= MIN_NEED_PROBABILITY > max(others)
    assert max(need_probabilities([behind] * 10)) < MIN_NEED_PROBABILITY


@given(st.lists(FOUND, min_size=1, max_size=6), st.floats(0, 1))
def test_something_is_needed_the_sooner_the_more_of_the_prompt_a_memory_says(
    found: list[NeedFeatures], more: float
) -> None:
    fuller = replace(found[0], covered=found[0].covered + more)
    assert anything_needed([fuller, *found[1:]]) >= anything_needed(found) - 1e-9


def test_a_prompt_to_which_everything_is_much_farther_than_nothing_needs_nothing() -> None:
    far, near = NeedFeatures(needed=-0.2, covered=0.2), NeedFeatures(needed=0.0, covered=0.0)
    assert anything_needed([far]) < 0.5 < anything_needed([far, near])
    assert anything_needed([replace(far, needed=-0.05)]) > 0.5, "it shares words with the prompt"
    assert anything_needed([replace(far, needed=-0.05, covered=0.0)]) < 0.5
    assert anything_needed([]) == 0.0


def test_what_a_prompt_needs_goes_before_what_speaks_of_the_same() -> None:
    same, other, third = (
        MemoryForPrompt(item=candidate(name).item, tokens=tokens, bm25=bm25, needed=needed)
        for name, tokens, bm25, needed in (
            ("same", frozenset({"port"}), 2.0, 0.05),
            ("other", frozenset[str](), None, 0.2),
            ("third", frozenset[str](), 1.0, 0.0),
        )
    )
    found = rank_by_need("which harbour?", WeightedQuestion([("harbour",)], {}, 0), [same, third, other])
    assert found.by_need
    assert [hit.id for hit in found.hits] == ["other", "same", "third"]
    assert [hit.score for hit in found.hits] == [hit.relevance for hit in found.hits]
    assert [hit.explain()["needed"] for hit in found.hits] == [0.2, 0.05, 0.0]
    assert [(hit.vector_score, hit.bm25_score) for hit in found.hits] == [(1.0, 0.0), (0.25, 1.0), (0.0, 0.0)]
    assert found.hits[0].explain().keys() == set(found.hits[0].__struct_fields__) - {"item"}
    assert found.known == anything_needed([NeedFeatures(needed=hit.needed or 0.0, covered=0.0) for hit in found.hits])
    told = rank_by_need("which port?", WeightedQuestion([("port",)], {}, 0), [same, third, other])
    assert [hit.coverage for hit in told.hits if hit.id == "same"] == [1.0]
    assert told.hits[0].id == "same"
