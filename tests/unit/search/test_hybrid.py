"""Hybrid fusion: its laws, whatever is mixed how."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filrouge import hybrid_fusion
from filrouge.core.errors import BadInput
from filrouge.search.ranking import Fused, Fusion, Okapi, fuse_scores
from filrouge.search.ranking import hybrid_fusion as over_corpus
from filrouge.testing import TextAnalyser

FUSIONS: st.SearchStrategy[Fusion] = st.sampled_from(["convex", "rrf"])
ALPHAS = st.floats(0, 1)
NAMES: st.SearchStrategy[str] = st.sampled_from("port harbour mast keel anchor sail".split())
WORDS: st.SearchStrategy[str] = st.lists(NAMES, min_size=1, max_size=8).map(" ".join)
IDS = st.text("abcdef", min_size=1, max_size=2)
CORPORA: st.SearchStrategy[dict[str, str]] = st.dictionaries(IDS, WORDS, max_size=8)
ANALYSER = TextAnalyser()


@st.composite
def mixtures(draw: st.DrawFn) -> tuple[dict[str, str], str, dict[str, float]]:
    """A corpus, a query, and vector results about some of the corpus."""
    corpus = draw(CORPORA)
    cosines = st.integers(-1000, 1000).map(lambda n: n / 1000)  # nearer ones than floats can hold apart are one
    scored = draw(st.lists(st.none() | cosines, min_size=len(corpus), max_size=len(corpus)))
    near = {id_: score for id_, score in zip(corpus, scored, strict=True) if score is not None}
    return corpus, draw(WORDS), near


def ids(found: list[Fused]) -> list[str]:
    return [one.id for one in found]


@given(mixtures(), FUSIONS)
def test_alpha_0_is_the_order_of_the_words(mixture: tuple[dict[str, str], str, dict[str, float]], how: Fusion) -> None:
    corpus, query, near = mixture
    words = over_corpus(corpus, query, {}, ANALYSER, alpha=0, fusion="convex")
    assert ids(over_corpus(corpus, query, near, ANALYSER, alpha=0, fusion=how)) == ids(words)
    asked = {forms for term in ANALYSER.terms(query) for forms in term}
    assert set(ids(words)) == {
        id_ for id_, text in corpus.items() if not asked.isdisjoint(ANALYSER.tokens(text).split())
    }


@given(mixtures(), FUSIONS)
def test_alpha_1_is_the_order_of_the_vector_results(
    mixture: tuple[dict[str, str], str, dict[str, float]], how: Fusion
) -> None:
    corpus, query, near = mixture
    found = over_corpus(corpus, query, near, ANALYSER, alpha=1, fusion=how)
    assert [near[one.id] for one in found] == sorted(near.values(), reverse=True)


@given(mixtures(), ALPHAS, FUSIONS, st.floats(0, 3), st.floats(0, 1))
def test_every_score_lies_between_0_and_1_and_is_the_sum_of_its_parts(
    mixture: tuple[dict[str, str], str, dict[str, float]], alpha: float, how: Fusion, k1: float, b: float
) -> None:
    found = over_corpus(*mixture, ANALYSER, alpha=alpha, fusion=how, okapi=Okapi(k1=k1, b=b))
    for one in found:
        assert all(0 <= score <= 1 for score in (one.score, one.bm25_score, one.vector_score))
        assert math.isclose(one.score, one.words + one.meaning, abs_tol=1e-9)
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


@given(mixtures(), ALPHAS, FUSIONS, st.floats(0, 1))
def test_a_threshold_takes_off_the_end_and_nothing_else(
    mixture: tuple[dict[str, str], str, dict[str, float]], alpha: float, how: Fusion, threshold: float
) -> None:
    everything = hybrid_fusion(*mixture, alpha=alpha, fusion=how)
    cut = hybrid_fusion(*mixture, alpha=alpha, fusion=how, score_threshold=threshold)
    assert cut == everything[: len(cut)]
    assert all(one.score < threshold for one in everything[len(cut) :])


@given(st.dictionaries(IDS, st.floats(-1, 1), min_size=1), ALPHAS)
def test_whoever_is_first_in_both_arms_scores_1(scores: dict[str, float], alpha: float) -> None:
    shifted = {id_: score + 2 for id_, score in scores.items()}
    for fusion in ("convex", "rrf"):
        assert fuse_scores(shifted, shifted, alpha=alpha, fusion=fusion)[0].score == pytest.approx(1)  # pyright: ignore[reportUnknownMemberType]


def test_rrf_is_that_of_the_paper_up_to_a_factor() -> None:
    words, meaning = {"a": 9.0, "b": 5.0, "c": 1.0}, {"c": 0.9, "d": 0.8, "a": 0.1}
    paper = {"a": 1 / 61 + 1 / 63, "b": 1 / 62, "c": 1 / 63 + 1 / 61, "d": 1 / 62}
    for one in fuse_scores(words, meaning, fusion="rrf"):
        assert math.isclose(one.score, paper[one.id] * 61 / 2)


def test_no_word_of_the_query_is_no_score_however_few_candidates_there_are() -> None:
    [one] = hybrid_fusion({"a": "the mast"}, "anchor", {"a": 0.4})
    assert (one.bm25_score, one.vector_score, one.score) == (0.0, 1.0, 0.5)


def test_free_values_of_bm25_change_the_order() -> None:
    corpus = {"short": "sail", "often": "sail sail sail sail and a mast and a keel and an anchor", "other": "harbour"}
    assert hybrid_fusion(corpus, "sail", {}, alpha=0, bm25_k1=1.5, bm25_b=1.0)[0].id == "short"
    assert hybrid_fusion(corpus, "sail", {}, alpha=0, bm25_k1=1.5, bm25_b=0.0)[0].id == "often"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"alpha": 1.1}, "alpha"),
        ({"bm25_k1": -1.0}, "k1"),
        ({"bm25_b": 2.0}, "b must"),
        ({"fusion": "borda"}, "'borda'"),
    ],
)
def test_impossible_values_are_named(wrong: dict[str, float], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        hybrid_fusion({"a": "sail"}, "sail", {"a": 0.5}, **wrong)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("near", [{"stranger": 0.5}, {"a": math.nan}])
def test_a_vector_result_that_cannot_be_used_is_named(near: dict[str, float]) -> None:
    with pytest.raises(BadInput, match=repr(next(iter(near)))):
        hybrid_fusion({"a": "sail"}, "sail", near)
