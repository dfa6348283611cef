"""Two memories are one where each says what the other says; everything else is left alone, or put before the user."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from filrouge.core.scope import Scope
from filrouge.extraction.decide import decide, statement_of
from filrouge.maintenance.consolidation import (
    concept_key,
    contradiction,
    is_mergeable,
    is_same,
    is_same_concept,
    merge_order,
)
from filrouge.memories.models import Evidence, Kind, Memory, Neighbour, Noop, Span
from tests.support.rows import NOON

LIKE = 0.99


def memory(text: str, *, id_: str = "", kind: Kind = "fact", project: str | None = "shop", **more: Any) -> Memory:
    """A live memory, said at noon."""
    scope = more.pop("scope", Scope(project=project, channel="codex"))
    told: dict[str, Any] = {"trust": 2, "created_at": NOON, "valid_from": NOON, "scope_name": "project"} | more
    return Memory(id=id_ or text, scope=scope, kind=kind, text=text, **told)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The cache lives on host alpha.", "the cache lives on host alpha"),
        ("La cache est dans Redis", "la caché est dans redis."),
        ("The staging database runs on PostgreSQL 16", "The staging database runs on PostgreSQL 16, by the way"),
    ],
)
def test_what_says_the_same_is_one(one: str, other: str) -> None:
    assert is_same(memory(one), memory(other), LIKE)
    assert is_same(memory(other), memory(one), LIKE)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The server listens on port 8080", "The server listens on port 8081"),
        ("The API is deployed on Fly", "The API is deployed on Heroku"),
        ("Ana owns the billing service", "Bruno owns the billing service"),
        ("We cache the catalogue", "We do not cache the catalogue"),
        ("Backups run at 02:00", "Backups run at 03:00"),
        ("The retry limit is 3", "The retry limit is 3 for webhooks and 5 for mail"),
        ("Deploys happen on Monday", "Deploys happen on Tuesday"),
    ],
)
def test_another_number_name_or_denial_is_never_one_however_alike_the_words(one: str, other: str) -> None:
    assert not is_same(memory(one), memory(other), 1.0)
    assert not is_same(memory(other), memory(one), 1.0)


def test_likeness_alone_is_not_enough_and_neither_are_values_alone() -> None:
    one, other = memory("The invoices are exported nightly"), memory("Invoice exports run each night")
    assert not is_same(one, other, 0.80)


@pytest.mark.parametrize(
    "apart",
    [
        {"project": "blog"},
        {"scope": Scope(user="bruno", project="shop")},
        {"scope_name": "user"},
        {"kind": "decision"},
        {"state": "superseded"},
        {"state": "quarantined"},
        {"disabled": True},
        {"timeframe": "2026-05-02"},
    ],
    ids=lambda apart: next(iter(apart)),
)
def test_nothing_crosses_a_project_a_user_a_scope_or_a_kind(apart: dict[str, Any]) -> None:
    one = memory("The cache lives on host alpha.", id_="a")
    assert is_same(one, memory("The cache lives on host alpha.", id_="b"), 1.0)
    assert not is_same(one, memory("The cache lives on host alpha.", id_="b", **apart), 1.0)


def test_rules_and_two_that_are_pinned_are_left_alone() -> None:
    assert not is_same(memory("Always use tabs", id_="a", kind="rule"), memory("Always use tabs", kind="rule"), 1.0)
    assert not is_same(memory("Always use tabs", id_="a", pinned=True), memory("Always use tabs", pinned=True), 1.0)


def test_who_stays_is_pinned_then_a_core_fact_then_trusted_then_said_more_often_then_older() -> None:
    plain = memory("x", id_="b")
    for better in (
        replace(plain, id="z", pinned=True),
        replace(plain, id="z", key="user_name"),
        replace(plain, id="z", trust=3),
        replace(plain, id="z", mention_count=2),
        replace(plain, id="a"),
    ):
        assert merge_order(plain, better) == merge_order(better, plain) == (better, plain)
    assert merge_order(replace(plain, pinned=True), replace(plain, id="a", trust=3))[0].pinned


@given(
    st.lists(
        st.builds(
            memory,
            st.sampled_from(("port is 1", "Port is 1", "port is 2", "no port is 1")),
            id_=st.uuids().map(str),
            project=st.sampled_from(("shop", "blog", None)),
            trust=st.integers(0, 3),
            pinned=st.booleans(),
            mention_count=st.integers(1, 5),
        ),
        min_size=2,
        max_size=2,
    ),
    st.floats(0, 1),
)
def test_being_one_is_mutual_and_never_costs_a_pin_or_trust(pair: list[Memory], similarity: float) -> None:
    one, other = pair
    assert is_same(one, other, similarity) == is_same(other, one, similarity)
    if is_same(one, other, similarity):
        kept, gone = merge_order(one, other)
        assert is_mergeable(one, other)
        assert not gone.pinned
        assert kept.pinned or kept.trust >= gone.trust
        assert isinstance(decide(statement_of(gone), [Neighbour(memory=kept, similarity=similarity)]), Noop)


def test_another_value_of_the_same_thing_is_a_contradiction_and_the_newer_asks() -> None:
    old = memory("The production port is 8080", id_="a")
    new = memory("The production port is 9443", id_="b", valid_from=NOON + timedelta(days=1))
    for pair in ((old, new), (new, old)):
        found = contradiction(*pair, 0.9)
        assert found is not None
        assert (found[0].id, found[1].id) == ("b", "a")


def test_what_was_said_in_one_breath_or_elsewhere_or_is_a_rule_is_no_contradiction() -> None:
    old = memory("The production port is 8080", id_="a")
    new = memory("The production port is 9443", id_="b", valid_from=NOON + timedelta(days=1))
    breath = (Evidence(turn_id="t", span=Span(start=0, end=1)),)
    assert contradiction(replace(old, evidence=breath), replace(new, evidence=breath), 0.9) is None
    assert contradiction(old, memory(new.text, id_="b", project="blog"), 0.9) is None
    assert contradiction(old, replace(new, kind="rule"), 0.9) is None
    assert contradiction(old, memory("The staging port is 9443", id_="b"), 0.9) is None
    almanac, export = "The almanac of customer 29 listens on port 9701", "The export of customer 28 listens on port 96"
    assert contradiction(memory(almanac, id_="a"), memory(export, id_="b"), 0.9) is None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("pdf export", "exports of pdf", True),
        ("base de données", "database", True),
        ("invoice export", "invoice import", False),
        ("python 3.11", "python 3.12", False),
    ],
)
def test_concepts_are_one_by_their_words_whatever_their_order_number_or_language(
    one: str, other: str, same: bool
) -> None:
    assert (concept_key(one) == concept_key(other)) is same
    assert is_same_concept(memory(one, kind="concept"), memory(other, kind="concept")) is same
    assert not is_same_concept(memory(one, kind="concept"), memory(other, kind="concept", project="blog"))
