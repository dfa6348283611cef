"""Diversity: what repeats a better hit steps back, and nothing is lost or made up."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from filrouge import Hit, Scope, Turn, diverse
from filrouge.core.errors import BadInput
from filrouge.core.protocols import Vector

TURN = Turn(
    id="", key="", scope=Scope(), host="chat", role="user", source="prompt", text="", trust=2,
    at=datetime(2026, 5, 1, tzinfo=UTC),
)  # fmt: skip


def hit(id_: str, score: float) -> Hit:
    return Hit(
        item=replace(TURN, id=id_), bm25_score=0, vector_score=0, score=score, similarity=None, coverage=0, relevance=0
    )


def towards(degrees: float) -> Vector:
    return np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))], dtype=np.float32)


@st.composite
def rankings(draw: st.DrawFn) -> tuple[list[Hit], dict[str, Vector]]:
    scores = sorted(draw(st.lists(st.floats(0, 1), max_size=12)), reverse=True)
    hits = [hit(f"{number:02}", score) for number, score in enumerate(scores)]
    angles = {one.id: draw(st.none() | st.floats(0, 90)) for one in hits}
    return hits, {id_: towards(angle) for id_, angle in angles.items() if angle is not None}


@given(rankings(), st.integers(0, 14), st.floats(0, 1))
def test_hits_are_taken_once_and_the_best_comes_first(
    ranking: tuple[list[Hit], dict[str, Vector]], limit: int, trade: float
) -> None:
    hits, vectors = ranking
    taken = diverse(hits, vectors, limit, trade=trade)
    assert len(taken) == len({one.id for one in taken}) == min(limit, len(hits))
    assert set(taken) <= set(hits)
    assert taken[:1] == tuple(hits[: min(limit, 1)])


@given(rankings(), st.integers(0, 14))
def test_a_trade_of_1_keeps_the_order_of_the_scores(ranking: tuple[list[Hit], dict[str, Vector]], limit: int) -> None:
    hits, vectors = ranking
    assert diverse(hits, vectors, limit, trade=1.0) == tuple(hits[:limit])


def test_what_repeats_a_better_hit_comes_after_what_says_something_else() -> None:
    hits = [hit("first", 1.0), hit("echo", 0.95), hit("other", 0.6)]
    vectors = {"first": towards(0), "echo": towards(2), "other": towards(80)}
    assert [one.id for one in diverse(hits, vectors, 3)] == ["first", "other", "echo"]
    assert [one.id for one in diverse(hits, vectors, 2)] == ["first", "other"]


def test_cosines_are_read_as_the_space_reads_them() -> None:
    hits = [hit("first", 1.0), hit("near", 0.9), hit("far", 0.8)]
    vectors = {"first": towards(0), "near": towards(30), "far": towards(60)}
    unrelated = diverse(hits, vectors, 3, similarity=lambda cosine: max(0.0, (cosine - 0.9) / 0.1))
    assert [one.id for one in unrelated] == ["first", "near", "far"]
    assert [one.id for one in diverse(hits, vectors, 3)] == ["first", "far", "near"]


def test_a_trade_outside_its_range_is_refused() -> None:
    with pytest.raises(BadInput, match="trade"):
        diverse([], {}, 3, trade=1.5)
