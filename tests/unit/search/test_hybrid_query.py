"""The hybrid query over a store: the mix is what alpha says, and a filter lets nothing else through."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given as whatever
from hypothesis import settings
from hypothesis import strategies as st

from filrouge.core.errors import BadInput, EmbedderUnavailable, NotFound
from filrouge.memories.models import Filters
from filrouge.runtime.services import Parts
from filrouge.search.models import Ranking
from filrouge.search.ranking import CollectionStatistics, Fusion, bm25
from filrouge.search.retrievers import COLLECTIONS, HybridQuery, Rerank, hybrid_query, okapi_of
from filrouge.testing import AnotherHash, StableHash, idle, running
from tests.support.tiers import examples
from tests.unit.search.test_filters import BLOG, FILTERS, ITEMS, PROJECTS, SHOP, WORDS, Item, holding, passes, sides

QUERIES = st.lists(WORDS, min_size=1, max_size=3, unique=True).map(" ".join)
KINDS_OF_COLLECTION: st.SearchStrategy[Literal["turns", "memories"]] = st.sampled_from(["turns", "memories"])

FUSIONS: st.SearchStrategy[Fusion] = st.sampled_from(["convex", "rrf"])
RERANKS: st.SearchStrategy[Rerank] = st.sampled_from(["none", "mmr"])


def asked(parts: Parts, collection: str, text: str, **more: Any) -> Ranking:
    query = HybridQuery(collection=collection, text=text, **more)
    return parts.readers.here(lambda tx: hybrid_query(parts, tx, query))


def where_of(filters: Filters, project: str | None) -> dict[str, Any]:
    """The same filter as a program writes it."""
    fields = {name: getattr(filters, name) for name in ("user", "agent", "channel", "since", "until", "as_of", "role")}
    return fields | {"kind": list(filters.kinds), "trust": filters.trust, "project": project}


@settings(max_examples=examples(10), deadline=None)
@whatever(ITEMS, QUERIES, KINDS_OF_COLLECTION, st.floats(0, 3), st.floats(0, 1))
def test_alpha_0_is_the_order_of_bm25_with_the_values_given(
    items: list[Item], text: str, collection: Literal["turns", "memories"], k1: float, b: float
) -> None:
    with holding(*sides(collection, items)) as parts:
        found = asked(parts, collection, text, alpha=0.0, n_results=20, okapi=okapi_of(k1, b)).hits
        tokens = {item.text: parts.analyser.tokens(item.text).split() for item in items}
        everything = CollectionStatistics(
            rows=len(items),
            mean=sum(map(len, tokens.values())) / len(items) if items else 0,
            frequencies=Counter(form for one in tokens.values() for form in set(one)),
        )
        scores = bm25(parts.analyser.terms(text), tokens, everything, okapi_of(k1, b))
    wanted = sorted((score for score in scores.values() if score > 0), reverse=True)
    assert [scores[hit.text] for hit in found] == pytest.approx(wanted)  # pyright: ignore[reportUnknownMemberType]
    assert all(hit.vector_score == 0 and hit.similarity is None for hit in found)


@settings(max_examples=examples(10), deadline=None)
@whatever(ITEMS, QUERIES, KINDS_OF_COLLECTION)
def test_alpha_1_is_the_order_of_the_cosines(
    items: list[Item], text: str, collection: Literal["turns", "memories"]
) -> None:
    with holding(*sides(collection, items)) as parts:
        found = asked(parts, collection, text, alpha=1.0, n_results=20).hits
    question = StableHash().query(text)
    cosines = {item.text: float(StableHash().passages([item.text])[0] @ question) for item in items}
    wanted = sorted(cosines.values(), reverse=True)
    assert [cosines[hit.text] for hit in found] == pytest.approx(wanted, abs=2e-3)  # pyright: ignore[reportUnknownMemberType] (stored in half precision)


@settings(max_examples=examples(10), deadline=None)
@whatever(
    ITEMS,
    QUERIES,
    st.sampled_from(sorted(COLLECTIONS)),
    st.floats(0, 1),
    FUSIONS,
    RERANKS,
    st.integers(1, 6),
    st.floats(0, 1),
)
def test_the_number_and_the_threshold_are_kept_and_every_part_of_a_score_is_told(
    items: list[Item],
    text: str,
    collection: str,
    alpha: float,
    fusion: Fusion,
    rerank: Rerank,
    most: int,
    least: float,
) -> None:
    half = len(items) // 2
    mix: dict[str, Any] = {"alpha": alpha, "fusion": fusion}
    with holding(turns=items[:half], memories=items[half:]) as parts:
        everything = asked(parts, collection, text, n_results=20, **mix)
        found = asked(parts, collection, text, n_results=most, score_threshold=least, rerank=rerank, **mix)
    assert len(found.hits) == min(most, sum(hit.score >= least for hit in everything.hits))
    assert set(found.hits) <= {hit for hit in everything.hits if hit.score >= least}
    for hit in everything.hits:
        assert all(0 <= part <= 1 for part in (hit.score, hit.bm25_score, hit.vector_score, hit.relevance))
        assert hit.score == pytest.approx(sum(share for _, share in hit.boosts))  # pyright: ignore[reportUnknownMemberType]
    if rerank == "none":
        assert found.hits == everything.hits[: len(found.hits)]


@settings(max_examples=examples(20), deadline=None)
@whatever(ITEMS, FILTERS, st.none() | PROJECTS, QUERIES, KINDS_OF_COLLECTION, st.sampled_from([0.0, 0.5, 1.0]))
def test_a_filtered_answer_is_that_of_a_store_which_holds_only_what_passes(
    items: list[Item],
    filters: Filters,
    project: str | None,
    text: str,
    collection: Literal["turns", "memories"],
    alpha: float,
) -> None:
    passing = [item for item in items if passes(item, filters, project, collection)]
    with holding(*sides(collection, items)) as parts:
        found = asked(parts, collection, text, alpha=alpha, n_results=20, where=where_of(filters, project))
    with holding(*sides(collection, passing)) as parts:
        wanted = asked(parts, collection, text, alpha=alpha, n_results=20)
    assert sorted(hit.text for hit in found.hits) == sorted(hit.text for hit in wanted.hits)
    scores = {hit.text: hit.score for hit in wanted.hits}
    assert [hit.score for hit in found.hits] == pytest.approx([scores[hit.text] for hit in found.hits], abs=1e-5)  # pyright: ignore[reportUnknownMemberType]


def test_all_is_one_collection_of_turns_and_memories() -> None:
    one = Item(
        number=1, words=("alpha",), project=SHOP, agent="", channel="codex", kind="fact", role="user", trust=2, day=0
    )
    two = Item(
        number=2, words=("alpha", "bravo"), project=BLOG, agent="", channel="codex", kind="fact", role="user",
        trust=2, day=1,
    )  # fmt: skip
    with holding(turns=[one], memories=[two]) as parts:
        assert [hit.text for hit in asked(parts, "all", "alpha bravo").hits] == ["alpha bravo n2", "alpha n1"]
        assert [hit.text for hit in asked(parts, "all", "alpha", where={"kind": "turn"}).hits] == ["alpha n1"]
        assert [hit.text for hit in asked(parts, "all", "alpha", where={"project": BLOG}).hits] == ["alpha bravo n2"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"collection": "threads"}, "turns, memories, all"),
        ({"collection": "notes"}, "turns, memories, all"),
        ({"text": "  "}, "query_text"),
        ({"n_results": 0}, "n_results"),
        ({"alpha": -0.1}, "alpha"),
        ({"score_threshold": 1.1}, "score_threshold"),
        ({"min_relevance": 7.0}, "min_relevance"),
        ({"fusion": "sum"}, "convex, rrf"),
        ({"rerank": "cross-encoder"}, "none, mmr"),
    ],
)
def test_what_cannot_be_asked_is_named_with_what_can(wrong: dict[str, Any], said: str) -> None:
    usual: dict[str, Any] = {"collection": "turns", "text": "port"}
    with pytest.raises(BadInput) as refused:
        HybridQuery(**(usual | wrong))
    assert said in f"{refused.value.message} {refused.value.remedy}"


@pytest.mark.parametrize(
    ("where", "said"),
    [
        (
            {"colour": "red"},
            "agent, as_of, branch, channel, kind, language, project, role, since, thread, trust, until or user",
        ),
        ({"kind": "gossip"}, "fact, decision"),
        ({"trust": 4}, "0 to 3"),
        ({"since": "soon"}, "since is not a date"),
        ({"role": "king"}, "role is user, assistant or tool"),
        ({"agent": 7}, "'agent' needs a text"),
    ],
)
def test_a_filter_that_cannot_be_read_is_named_with_what_can(where: dict[str, Any], said: str) -> None:
    with holding() as parts, pytest.raises(BadInput) as refused:
        asked(parts, "turns", "port", where=where)
    assert said in f"{refused.value.message} {refused.value.remedy}"


def test_a_project_nobody_knows_is_an_error_and_not_an_empty_answer() -> None:
    with holding() as parts, pytest.raises(NotFound, match="'nowhere'"):
        asked(parts, "turns", "port", where={"project": "nowhere"})


def test_without_a_model_words_are_searched_with_a_notice_and_meaning_alone_is_an_error(tmp_path: Path) -> None:
    dead = AnotherHash("dead")
    with running(str(tmp_path), embedding="dead", makers={"dead": lambda: dead}) as parts:
        idle(parts)
        dead.failing = True
        [notice] = asked(parts, "all", "anything").notices
        assert "only words" in notice
        assert asked(parts, "all", "anything", alpha=0.0).notices == ()
        with pytest.raises(EmbedderUnavailable, match="Vector search"):
            asked(parts, "all", "anything", alpha=1.0)


def test_relevance_is_cut_apart_from_the_score() -> None:
    item = Item(
        number=1, words=("alpha",), project=SHOP, agent="", channel="codex", kind="fact", role="user", trust=2, day=0
    )
    with holding(memories=[item]) as parts:
        [best] = asked(parts, "memories", "alpha zulu yankee xray").hits
        assert (best.score, best.relevance < 1) == (1.0, True)
        assert asked(parts, "memories", "alpha zulu yankee xray", min_relevance=1.0).hits == ()
        assert asked(parts, "memories", "alpha zulu yankee xray").recut(best.relevance).hits == (best,)
