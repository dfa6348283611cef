"""BM25 over candidates: its laws, whatever its two values are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filrouge.search.ranking import CollectionStatistics, Okapi, bm25

OKAPI = st.builds(Okapi, k1=st.floats(0, 3), b=st.floats(0, 1))
WORDS = st.lists(st.sampled_from("abcde"), min_size=1, max_size=12)
COLLECTION = CollectionStatistics(rows=100, mean=6.0, frequencies={"a": 2, "b": 40, "c": 99})


@given(st.dictionaries(st.text(max_size=3), WORDS, max_size=5), OKAPI)
def test_a_score_is_never_negative_and_zero_only_without_a_shared_word(
    items: dict[str, list[str]], okapi: Okapi
) -> None:
    scores = bm25([("a",), ("b", "c")], items, COLLECTION, okapi)
    assert scores.keys() == items.keys()
    for id_, words in items.items():
        assert (scores[id_] > 0) == (not {"a", "b", "c"}.isdisjoint(words))
        assert scores[id_] >= 0


@given(WORDS, OKAPI)
def test_another_occurrence_in_the_place_of_a_stranger_never_lowers_the_score(words: list[str], okapi: Okapi) -> None:
    found = bm25([("a",)], {"without": [*words, "x"], "with": [*words, "a"]}, COLLECTION, okapi)
    assert found["with"] >= found["without"] - 1e-9


@given(WORDS, OKAPI)
def test_a_longer_text_never_scores_more_for_the_same_words(words: list[str], okapi: Okapi) -> None:
    found = bm25([("a",), ("b",)], {"short": words, "long": [*words, "x", "x"]}, COLLECTION, okapi)
    assert found["long"] <= found["short"] + 1e-9


def test_a_rare_word_weighs_more_than_a_frequent_one() -> None:
    found = bm25([("a",), ("b",)], {"rare": ["a", "x"], "frequent": ["b", "x"]}, COLLECTION)
    assert found["rare"] > found["frequent"]


def test_the_word_itself_scores_above_another_form_of_it() -> None:
    collection = CollectionStatistics(rows=100, mean=3.0, frequencies={"reports": 3, "report": 5})
    found = bm25([("reports", "report")], {"same": ["reports", "report"], "other": ["report", "x"]}, collection)
    assert found["same"] > found["other"] > 0


def test_every_word_of_a_question_weighs_the_same_whether_or_not_it_is_its_own_stem() -> None:
    collection = CollectionStatistics(rows=100, mean=2.0, frequencies={"ports": 3, "port": 3, "drizzle": 3})
    found = bm25([("ports", "port"), ("drizzle",)], {"two": ["ports", "port"], "one": ["drizzle", "x"]}, collection)
    assert found["two"] == pytest.approx(found["one"])  # pyright: ignore[reportUnknownMemberType] (pytest's own stub)


def test_without_length_and_repetition_only_presence_counts() -> None:
    presence = Okapi(k1=0.0, b=0.0)
    found = bm25([("a",)], {"once": ["a"], "often": ["a"] * 9 + ["x"] * 90}, COLLECTION, presence)
    assert found["once"] == found["often"]


@pytest.mark.parametrize("values", [{"k1": -0.1}, {"b": -0.1}, {"b": 1.1}])
def test_impossible_values_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="k1 must not be negative"):
        Okapi(**values)


def test_an_empty_collection_is_no_error() -> None:
    assert bm25([("a",)], {"one": []}, CollectionStatistics(rows=0, mean=0.0, frequencies={})) == {"one": 0.0}
