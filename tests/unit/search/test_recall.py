"""The laws of recall: fusion stays in its bounds, relevance only grows with evidence, a ranking explains itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from filrouge.core.scope import Scope
from filrouge.extraction.vocabulary import PLAIN_WORDS
from filrouge.memories.models import Memory
from filrouge.search.ranking import (
    LogOdds,
    RelevanceFeatures,
    RetrievedMemory,
    WeightedQuestion,
    coverage,
    is_topic_word,
    known_probability,
    normalise,
    rank,
    rarity,
    relevance_probabilities,
    softmax,
)
from filrouge.search.weights import KNOWN, RELEVANCE, RELEVANCE_BY_WORDS
from filrouge.testing import ManualClock

UNIT = st.floats(0, 1)
SCORES = st.dictionaries(st.sampled_from("abcdef"), st.floats(-1e6, 1e6), max_size=6)
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
) -> RetrievedMemory:
    return RetrievedMemory(
        item=memory(id_), tokens=frozenset(tokens.split()), bm25=bm25, cosine=cosine, similarity=similarity
    )


@given(SCORES)
def test_normalised_scores_keep_their_order_between_nought_and_one(scores: dict[str, float]) -> None:
    found = normalise(scores)
    assert found.keys() == scores.keys()
    assert all(0.0 <= value <= 1.0 for value in found.values())
    assert not scores or max(found.values()) == 1.0
    assert len(set(scores.values())) < 2 or min(found.values()) == 0.0
    assert all(found[a] <= found[b] for a in scores for b in scores if scores[a] < scores[b])


@st.composite
def signs(draw: st.DrawFn) -> RelevanceFeatures:
    return RelevanceFeatures(
        similarity=draw(UNIT),
        around=draw(UNIT),
        wide=draw(UNIT),
        covered=draw(UNIT),
        telling=draw(st.booleans()),
        share=draw(st.floats(1e-6, 1)),
        words=draw(st.integers(1, 30)),
    )


@pytest.mark.parametrize("weights", [RELEVANCE, RELEVANCE_BY_WORDS], ids=["with vectors", "by words"])
@given(one=signs(), more=signs(), name=st.sampled_from(["similarity", "around", "wide", "covered", "telling", "share"]))
def test_more_evidence_never_lowers_relevance(
    weights: LogOdds, one: RelevanceFeatures, more: RelevanceFeatures, name: str
) -> None:
    low, high = sorted((getattr(one, name), getattr(more, name)))
    less, greater = relevance_probabilities([replace(one, **{name: low}), replace(one, **{name: high})], weights)
    assert 0.0 <= less <= greater <= 1.0


@given(st.lists(signs(), min_size=1, max_size=6), UNIT)
def test_what_is_known_is_a_probability_and_nothing_found_is_nothing_known(
    found: list[RelevanceFeatures], words: float
) -> None:
    assert 0.0 <= known_probability(found, relevance_probabilities(found, RELEVANCE), words, KNOWN) <= 1.0
    assert known_probability([], [], words, KNOWN) == 0.0


def test_one_thing_said_in_the_words_of_the_question_is_probably_meant_and_one_of_nothing_in_common_is_not() -> None:
    nothing = RelevanceFeatures(similarity=0.0, around=0.0, wide=0.0, covered=0.0, telling=False, share=1.0, words=4)
    all_of_it = RelevanceFeatures(similarity=0.7, around=0.7, wide=0.7, covered=1.0, telling=True, share=1.0, words=4)
    assert relevance_probabilities([nothing], RELEVANCE)[0] < 0.2
    assert relevance_probabilities([all_of_it], RELEVANCE)[0] > 0.7
    assert known_probability([nothing], relevance_probabilities([nothing], RELEVANCE), 0.0, KNOWN) < 0.2
    assert known_probability([all_of_it], relevance_probabilities([all_of_it], RELEVANCE), 1.0, KNOWN) > 0.9


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=20))
def test_shares_are_of_one_whole_and_keep_the_order(scores: list[float]) -> None:
    parts = softmax(scores)
    assert sum(parts) == pytest.approx(1.0)
    assert all(parts[a] <= parts[b] for a in range(len(scores)) for b in range(len(scores)) if scores[a] < scores[b])
    assert softmax([]) == []


@given(st.sampled_from(sorted(PLAIN_WORDS)), st.integers(0, 100), st.integers(0, 10_000))
def test_plain_words_never_count_as_telling(word: str, frequency: int, size: int) -> None:
    assert not is_topic_word(word, frequency, size)


def test_a_name_tells_and_a_word_of_every_memory_does_not() -> None:
    assert is_topic_word("drizzle", 1, 1000)
    assert is_topic_word("9443", 1, 1000)
    assert not is_topic_word("drizzle", 600, 1000)
    assert not is_topic_word("x", 1, 1000)
    assert not is_topic_word("42", 1, 1000)


@given(st.lists(st.integers(0, 1000), min_size=3, max_size=3, unique=True))
def test_a_rarer_word_weighs_more(counts: list[int]) -> None:
    few, many, size = sorted(counts)
    assert rarity(few, size) > rarity(many, size) > 0


@given(st.dictionaries(st.sampled_from("abcdef"), st.floats(0.001, 10), min_size=1), st.data())
def test_coverage_is_a_share_that_grows_with_every_word(weights: dict[str, float], data: st.DataObject) -> None:
    matched = data.draw(st.lists(st.sampled_from(sorted(weights)), unique=True))
    shares = [coverage(matched[:count], weights) for count in range(len(matched) + 1)]
    assert shares == sorted(shares)
    assert shares[0] == 0.0
    assert coverage(list(weights), weights) == pytest.approx(1.0)
    assert coverage([], {}) == 0.0


def questioned(*terms: tuple[tuple[str, ...], int], size: int = 100) -> WeightedQuestion:
    return WeightedQuestion([forms for forms, _ in terms], {forms[0]: often for forms, often in terms}, size)


def test_a_ranking_orders_by_score_and_explains_every_part() -> None:
    ranking = rank(
        "drizzle port?",
        questioned((("drizzle",), 1), (("port", "ports"), 50)),
        [
            candidate("both", "drizzle ports", bm25=9.0, cosine=0.9, similarity=0.6),
            candidate("words", "port", bm25=1.0),
            candidate("meaning", "orm", cosine=0.8, similarity=0.2),
        ],
        notices=("careful",),
    )
    assert [hit.id for hit in ranking.hits] == ["both", "meaning", "words"]
    assert ranking.notices == ("careful",)
    assert ranking.known > 0.5
    best = ranking.hits[0]
    assert (best.bm25_score, best.vector_score, best.similarity, best.coverage) == (1.0, 1.0, 0.6, 1.0)
    assert best.score == pytest.approx(0.8)
    assert best.explain().keys() == set(best.__struct_fields__) - {"item", "needed"}
    assert ranking.hits[1].explain()["coverage"] == 0.0
    assert ranking.hits[2].explain()["similarity"] is None
    assert 0 < ranking.hits[2].coverage < 0.5


def test_the_best_of_a_poor_lot_is_not_perfect() -> None:
    asked = questioned((("drizzle",), 1), (("port",), 1), (("caddy",), 1))
    (hit,) = rank("drizzle port caddy", asked, [candidate("a", "port", bm25=1.0)]).hits
    assert hit.bm25_score == 1.0
    assert hit.score == pytest.approx(1 / 3)


def test_without_vectors_the_words_decide_alone() -> None:
    asked = questioned((("port",), 2), size=2)
    ranking = rank("port", asked, [candidate("a", "port", bm25=1.0), candidate("b", "port", bm25=3.0)])
    assert [(hit.id, hit.score) for hit in ranking.hits] == [("b", 1.0), ("a", 1.0)]


@given(st.floats(0, 1))
def test_by_meaning_alone_the_words_have_no_say(similarity: float) -> None:
    asked = questioned((("port",), 1))
    found = [
        candidate("words", "port", bm25=5.0, cosine=0.8, similarity=similarity / 2),
        candidate("meaning", cosine=0.9, similarity=similarity / 2 + 0.1),
    ]
    assert [hit.id for hit in rank("port", asked, found, alpha=1.0).hits] == ["meaning", "words"]


def test_a_ranking_is_cut_again_without_searching() -> None:
    asked = questioned((("drizzle",), 1), size=9)
    ranking = rank("drizzle", asked, [candidate("a", "drizzle", bm25=2.0), candidate("b", "", bm25=1.0)])
    assert [hit.id for hit in ranking.recut(ranking.hits[0].relevance).hits] == ["a"]
    assert ranking.recut(0.0) == ranking
    assert [hit.id for hit in ranking.top(1).hits] == ["a"]
    assert ranking.top(9) == ranking
    assert ranking.recut(1.01).hits == ()


def test_nothing_found_is_an_empty_ranking_and_nothing_known() -> None:
    ranking = rank("q", questioned(size=0), [])
    assert (ranking.hits, ranking.known) == ((), 0.0)
