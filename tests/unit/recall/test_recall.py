"""The laws of recall: fusion stays in its bounds, relevance only grows with evidence, a ranking explains itself."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from filrouge.model.memory import Memory
from filrouge.model.scope import Scope
from filrouge.recall.fusion import fuse, normalised
from filrouge.recall.pipeline import Candidate, Term, rank
from filrouge.recall.plain_words import PLAIN_WORDS
from filrouge.recall.relevance import coverage, rarity, relevance, telling
from filrouge.testing import ManualClock

UNIT = st.floats(0, 1)
SCORES = st.dictionaries(st.sampled_from("abcdef"), st.floats(-1e6, 1e6), max_size=6)
UNITS = st.dictionaries(st.sampled_from("abcdef"), UNIT, max_size=6)
COUNTS = st.integers(0, 6)
NOW = ManualClock().now()


def memory(id_: str) -> Memory:
    return Memory(
        id=id_, scope=Scope(), scope_name="user", kind="fact", text=id_, trust=2, created_at=NOW, valid_from=NOW
    )


def candidate(
    id_: str,
    tokens: str = "",
    *,
    bm25: float | None = None,
    cosine: float | None = None,
    similarity: float | None = None,
) -> Candidate:
    return Candidate(
        item=memory(id_), tokens=frozenset(tokens.split()), bm25=bm25, cosine=cosine, similarity=similarity
    )


@given(SCORES)
def test_normalised_scores_keep_their_order_between_nought_and_one(scores: dict[str, float]) -> None:
    found = normalised(scores)
    assert found.keys() == scores.keys()
    assert all(0.0 <= value <= 1.0 for value in found.values())
    assert not scores or max(found.values()) == 1.0
    assert len(set(scores.values())) < 2 or min(found.values()) == 0.0
    assert all(found[a] <= found[b] for a in scores for b in scores if scores[a] < scores[b])


@given(UNITS, UNITS, UNIT)
def test_fused_scores_lie_between_the_two(lexical: dict[str, float], vector: dict[str, float], alpha: float) -> None:
    found = fuse(lexical, vector, alpha)
    assert found.keys() == lexical.keys() | vector.keys()
    for key, score in found.items():
        both = lexical.get(key, 0.0), vector.get(key, 0.0)
        assert min(both) - 1e-9 <= score <= max(both) + 1e-9


@given(UNITS, UNITS)
def test_at_its_ends_alpha_hears_one_side_alone(lexical: dict[str, float], vector: dict[str, float]) -> None:
    keys = lexical.keys() | vector.keys()
    assert fuse(lexical, vector, 0.0) == {key: lexical.get(key, 0.0) for key in keys}
    assert fuse(lexical, vector, 1.0) == {key: vector.get(key, 0.0) for key in keys}


@given(UNIT, UNIT, UNIT, UNIT)
def test_a_better_score_never_lowers_the_fused_one(low: float, high: float, other: float, alpha: float) -> None:
    low, high = sorted((low, high))
    assert fuse({"a": low}, {"a": other}, alpha)["a"] <= fuse({"a": high}, {"a": other}, alpha)["a"] + 1e-12
    assert fuse({"a": other}, {"a": low}, alpha)["a"] <= fuse({"a": other}, {"a": high}, alpha)["a"] + 1e-12


@pytest.mark.parametrize("alpha", [-0.01, 1.01, float("nan")])
def test_an_alpha_out_of_bounds_is_refused(alpha: float) -> None:
    with pytest.raises(ValueError, match="alpha must lie in"):
        fuse({}, {}, alpha)


@given(UNIT, UNIT, COUNTS, UNIT, UNIT, COUNTS)
def test_more_evidence_never_lowers_relevance(a: float, b: float, n: int, c: float, d: float, m: int) -> None:
    (s0, s1), (c0, c1), (n0, n1) = sorted((a, c)), sorted((b, d)), sorted((n, m))
    low = relevance(similarity=s0, covered=c0, telling_words=n0)
    for more in (
        relevance(similarity=s1, covered=c0, telling_words=n0),
        relevance(similarity=s0, covered=c1, telling_words=n0),
        relevance(similarity=s0, covered=c0, telling_words=n1),
    ):
        assert 0.0 <= low <= more + 1e-12
        assert more <= 1.0


def test_nothing_shared_is_nothing_relevant_and_one_telling_word_is_half() -> None:
    assert relevance(similarity=None, covered=0.0, telling_words=0) == 0.0
    assert relevance(similarity=0.0, covered=0.0, telling_words=0) == 0.0
    assert relevance(similarity=None, covered=0.0, telling_words=1) >= 0.5
    assert relevance(similarity=1.0, covered=1.0, telling_words=0) == 1.0


@given(st.sampled_from(sorted(PLAIN_WORDS)), st.integers(0, 100), st.integers(0, 10_000))
def test_plain_words_never_count_as_telling(word: str, frequency: int, size: int) -> None:
    assert not telling(word, frequency, size)


def test_a_name_tells_and_a_word_of_every_memory_does_not() -> None:
    assert telling("drizzle", 1, 1000)
    assert telling("9443", 1, 1000)
    assert not telling("drizzle", 600, 1000)
    assert not telling("x", 1, 1000)
    assert not telling("42", 1, 1000)


@given(st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 1000))
def test_a_rarer_word_weighs_more(few: int, many: int, size: int) -> None:
    few, many = sorted((few, many))
    assume(few < many <= size)
    assert rarity(few, size) > rarity(many, size) > 0


@given(st.dictionaries(st.sampled_from("abcdef"), st.floats(0.001, 10), min_size=1), st.data())
def test_coverage_is_a_share_that_grows_with_every_word(weights: dict[str, float], data: st.DataObject) -> None:
    matched = data.draw(st.lists(st.sampled_from(sorted(weights)), unique=True))
    shares = [coverage(matched[:count], weights) for count in range(len(matched) + 1)]
    assert shares == sorted(shares)
    assert shares[0] == 0.0
    assert coverage(list(weights), weights) == pytest.approx(1.0)
    assert coverage([], {}) == 0.0


def test_a_ranking_orders_by_score_and_explains_every_part() -> None:
    terms = [Term(forms=("drizzle",), frequency=1), Term(forms=("port", "ports"), frequency=50)]
    ranking = rank(
        "drizzle port?",
        terms,
        [
            candidate("both", "drizzle ports", bm25=9.0, cosine=0.9, similarity=0.6),
            candidate("words", "port", bm25=1.0),
            candidate("meaning", "orm", cosine=0.8, similarity=0.2),
        ],
        size=100,
        notices=("careful",),
    )
    assert [hit.id for hit in ranking.hits] == ["both", "meaning", "words"]
    assert ranking.notices == ("careful",)
    best = ranking.hits[0]
    assert (best.bm25_score, best.vector_score, best.score, best.similarity, best.coverage) == (1.0, 1.0, 1.0, 0.6, 1.0)
    assert best.explain().keys() == {one.name for one in fields(best)} - {"item"}
    assert ranking.hits[2].explain()["similarity"] is None
    assert 0 < ranking.hits[2].coverage < 0.5


def test_without_vectors_the_words_decide_alone() -> None:
    ranking = rank("q", [], [candidate("a", bm25=1.0), candidate("b", bm25=3.0)], size=2)
    assert [(hit.id, hit.score) for hit in ranking.hits] == [("b", 1.0), ("a", 0.0)]


def test_a_ranking_is_cut_again_without_searching() -> None:
    terms = [Term(forms=("drizzle",), frequency=1)]
    ranking = rank("drizzle", terms, [candidate("a", "drizzle", bm25=2.0), candidate("b", "", bm25=1.0)], size=9)
    assert [hit.id for hit in ranking.recut(0.5).hits] == ["a"]
    assert ranking.recut(0.0) == ranking
    assert [hit.id for hit in ranking.top(1).hits] == ["a"]
    assert ranking.top(9) == ranking
    assert ranking.recut(1.01).hits == ()


def test_nothing_found_is_an_empty_ranking() -> None:
    assert rank("q", [], [], size=0).hits == ()
