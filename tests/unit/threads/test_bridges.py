"""The laws that bridges live by: how they fade, how many there are, one of a kind, and what gossip adds."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import count, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from filrouge.threads.bridges import (
    MAX_ACTIVE_DAYS,
    MAX_BRIDGES,
    MAX_DEPTH,
    MIN_SIMILARITY,
    MIN_STRENGTH,
    BridgeCandidate,
    Changes,
    Strength,
    key_of,
    merge_candidates,
    propagate,
    redirect_bridges,
    strength_at,
)
from filrouge.threads.models import BRIDGE_KINDS, Bridge, BridgeBy, BridgeKind
from tests.support.tiers import examples

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
_IDS = count()
NAMES = [f"thread-{letter}" for letter in "abcdefghijklmnopqrstuvwx"]


def new_id(_: datetime) -> str:
    return f"bridge-{next(_IDS):06}"


def bridge(
    source: str = "a",
    target: str = "b",
    kind: BridgeKind = "relates_to",
    confidence: float = 0.8,
    *,
    by: BridgeBy = "rules",
    depth: int = 0,
    days: int = 0,
) -> Bridge:
    at = NOON + timedelta(days=days)
    return Bridge(
        id=new_id(at),
        source=source,
        target=target,
        kind=kind,
        reason="",
        confidence=confidence,
        made_by=by,
        created_at=at,
        reinforced_at=at,
        depth=depth,
    )


def tie(
    source: str = "a",
    target: str = "b",
    kind: BridgeKind = "relates_to",
    confidence: float = 0.8,
    *,
    by: BridgeBy = "rules",
) -> BridgeCandidate:
    return BridgeCandidate(source=source, target=target, kind=kind, confidence=confidence, reason="a sign", made_by=by)


def day(number: int) -> str:
    return (NOON + timedelta(days=number)).date().isoformat()


def full(one: Bridge) -> float:
    return one.confidence


def settle(
    there: Sequence[Bridge], *ties: BridgeCandidate, strength: Strength = full, refused: Sequence[Bridge] = ()
) -> Changes:
    unwanted = {key_of(one) for one in refused}
    return merge_candidates(there, ties, strength=strength, at=NOON, refused=unwanted, new_id=new_id)


def after(there: Sequence[Bridge], changes: Changes) -> list[Bridge]:
    """What is stored once changes are written."""
    kept = {one.id: one for one in there if one.id not in changes.deleted} | {one.id: one for one in changes.stored}
    return list(kept.values())


@given(st.floats(0.5, 1.0), st.integers(0, 20), st.integers(0, 20))
def test_a_bridge_halves_with_every_later_day_of_work(confidence: float, earlier: int, later: int) -> None:
    days = [day(number) for number in range(-earlier, later + 1)]
    assert strength_at(bridge(confidence=confidence), days) == pytest.approx(confidence * 0.5**later)


def test_days_on_which_nothing_was_done_cost_nothing() -> None:
    assert strength_at(bridge(confidence=0.8), [day(0), day(60)]) == 0.4


@given(st.floats(0.5, 1.0))
def test_the_surest_bridge_is_gone_within_the_days_that_are_looked_at(confidence: float) -> None:
    days = [day(number) for number in range(1, MAX_ACTIVE_DAYS + 1)]
    assert strength_at(bridge(confidence=confidence), days) < MIN_STRENGTH
    assert strength_at(bridge(confidence=confidence), days[:3]) >= MIN_STRENGTH


def test_what_the_user_tied_does_not_fade() -> None:
    assert strength_at(bridge(confidence=1.0, by="user"), [day(number) for number in range(9)]) == 1.0


def test_another_sign_confirms_a_bridge_whichever_way_it_points() -> None:
    old = bridge("b", "a", confidence=0.6, days=-3)
    changes = settle([old], tie("a", "b", confidence=0.7), strength=lambda _: 0.1)
    assert changes == Changes(stored=(replace(old, confidence=0.7, reason="a sign", reinforced_at=NOON),))


def test_a_sign_that_is_older_than_the_bridge_changes_nothing() -> None:
    assert settle([bridge(days=3)], tie()) == Changes()


def test_what_has_faded_goes_and_may_be_made_again() -> None:
    old = bridge(days=-9)
    changes = settle([old], tie(), strength=lambda one: 0.01 if one.id == old.id else 1.0)
    assert (changes.deleted, [key_of(one) for one in changes.stored]) == ((old.id,), [key_of(old)])


def test_a_sign_from_long_ago_makes_nothing() -> None:
    assert settle([], tie(), strength=lambda _: 0.01) == Changes()


def test_what_the_user_removed_is_not_made_again_but_another_kind_may_be() -> None:
    changes = settle([], tie("b", "a"), tie("b", "a", "depends_on"), refused=[bridge("a", "b")])
    assert [one.kind for one in changes.stored] == ["depends_on"]


def test_signs_do_not_touch_what_the_user_made() -> None:
    assert settle([bridge(confidence=1.0, by="user", days=-3)], tie(confidence=0.9)) == Changes()


def test_the_user_makes_an_automatic_bridge_his_own() -> None:
    [mine] = settle([bridge("b", "a", depth=1, by="gossip")], tie("a", "b", confidence=1.0, by="user")).stored
    assert (mine.made_by, mine.source, mine.confidence, mine.depth) == ("user", "a", 1.0, 0)


def test_the_weakest_of_ten_gives_way_to_a_stronger_one_only() -> None:
    ten = [bridge("a", name, confidence=0.6 + number / 100) for number, name in enumerate(NAMES[:MAX_BRIDGES])]
    assert settle(ten, tie("a", "new", confidence=0.6)) == Changes()
    changes = settle(ten, tie("a", "new", confidence=0.65))
    assert (changes.deleted, [one.target for one in changes.stored]) == ((ten[0].id,), ["new"])


def test_one_bridge_may_make_room_at_both_ends() -> None:
    tens = [bridge(end, f"{end}-{name}", confidence=0.9) for end in "ab" for name in NAMES[: MAX_BRIDGES - 1]]
    between = bridge("a", "b", confidence=0.5)
    changes = settle([*tens, between], tie("b", "a", "depends_on", 0.8))
    assert (changes.deleted, [one.kind for one in changes.stored]) == ((between.id,), ["depends_on"])


def test_a_thread_with_ten_bridges_of_the_user_has_no_room() -> None:
    ten = [bridge("a", name, confidence=1.0, by="user") for name in NAMES[:MAX_BRIDGES]]
    assert settle(ten, tie("a", "new", confidence=1.0)) == settle(ten, tie("a", "new", by="user")) == Changes()


def test_the_users_tie_makes_room_among_the_automatic_ones() -> None:
    ten = [bridge("a", name, confidence=1.0) for name in NAMES[:MAX_BRIDGES]]
    changes = settle(ten, tie("a", "new", confidence=1.0, by="user"))
    assert (len(changes.deleted), [one.made_by for one in changes.stored]) == (1, ["user"])


TIES = st.lists(
    st.builds(
        tie,
        st.sampled_from(NAMES),
        st.sampled_from(NAMES),
        st.sampled_from(BRIDGE_KINDS),
        st.floats(0.0, 1.0),
        by=st.sampled_from(("rules", "gossip", "user")),
    ),
    max_size=60,
)


def assert_lawful(there: Sequence[Bridge]) -> None:
    """At most ten at a thread, one of a kind between two, none to itself, none unsure, none from far."""
    degrees = Counter(end for one in there for end in (one.source, one.target))
    assert max(degrees.values(), default=0) <= MAX_BRIDGES
    assert len({key_of(one) for one in there}) == len({one.id for one in there}) == len(there)
    assert all(one.source != one.target and 0.5 <= one.confidence <= 1.0 and one.depth <= MAX_DEPTH for one in there)


@given(st.lists(TIES, max_size=6))
@settings(max_examples=examples(60), deadline=None)
def test_whatever_signs_come_the_laws_hold(batches: list[list[BridgeCandidate]]) -> None:
    there = list[Bridge]()
    for ties in batches:
        there = after(there, settle(there, *ties))
        assert_lawful(there)


@given(TIES, st.sampled_from(NAMES), st.sampled_from(NAMES), st.data())
@settings(max_examples=examples(100), deadline=None)
def test_the_laws_hold_after_a_merge_and_the_merged_thread_has_no_bridge(
    ties: list[BridgeCandidate], merged: str, into: str, data: st.DataObject
) -> None:
    there = after([], settle([], *ties))
    refused = data.draw(st.lists(st.sampled_from(there), max_size=3)) if there else []
    unwanted = {key_of(one) for one in refused} if merged != into else set[tuple[str, str, BridgeKind]]()
    left = after(there, redirect_bridges(there, merged, into, strength=full, refused=unwanted))
    assert_lawful(left)
    if merged != into:
        assert all(merged not in (one.source, one.target) for one in left)
        assert not {key_of(one) for one in left if one.made_by != "user"} & unwanted


def test_of_two_of_a_kind_the_stronger_stays_when_threads_merge() -> None:
    weak, strong, between = bridge("a", "c", confidence=0.6), bridge("c", "b", confidence=0.9), bridge("a", "b")
    left = after([weak, strong, between], redirect_bridges([weak, strong, between], "b", "a", strength=full))
    assert left == [replace(strong, target="a")]


def test_neighbours_of_neighbours_are_tied_where_they_are_alike() -> None:
    there = [bridge("a", "b", confidence=0.9), bridge("c", "b", confidence=0.9), bridge("b", "d", confidence=0.9)]
    alike = {"c": 0.6, "d": MIN_SIMILARITY - 0.01}
    [found] = propagate("a", there, strength=full, similarity=alike.get)
    assert (found.target, found.made_by, found.depth) == ("c", "gossip", 1)
    assert found.confidence == pytest.approx(0.729)


def test_gossip_over_faded_bridges_is_not_believed() -> None:
    there = [bridge("a", "b", confidence=0.9), bridge("b", "c", confidence=0.9)]
    assert propagate("a", there, strength=lambda one: one.confidence / 2, similarity=lambda _: 1.0) == []


def test_gossip_comes_two_steps_far_and_no_further() -> None:
    there = [bridge("a", "b", confidence=1.0, depth=2, by="gossip"), bridge("b", "c", confidence=1.0)]
    assert propagate("a", there, strength=full, similarity=lambda _: 1.0) == []


@given(st.integers(0, 10**6), st.integers(3, 60), st.floats(0.0, 1.0))
@settings(max_examples=examples(3), deadline=None)
def test_gossip_cannot_explode_however_often_threads_change(seed: int, number: int, likeness: float) -> None:
    """Some thousand changes over random graphs: never more than five bridges a thread, nor ninety rumours a change."""
    draw = random.Random(seed)
    threads = [f"thread-{place:02}" for place in range(number)]
    there, days = list[Bridge](), list[str]()
    for change in range(250):
        now = NOON + timedelta(hours=change)
        days = sorted({*days, now.date().isoformat()})

        def strength(one: Bridge, seen: Sequence[str] = tuple(days)) -> float:
            return strength_at(one, seen)

        thread = draw.choice(threads)
        signs = [
            tie(thread, draw.choice(threads), draw.choice(BRIDGE_KINDS), draw.uniform(0.4, 1.0))
            for _ in range(draw.randrange(12))
        ]
        there = after(there, merge_candidates(there, signs, strength=strength, at=now, new_id=new_id))
        rumours = propagate(thread, there, strength=strength, similarity=lambda _: draw.uniform(0.0, 2 * likeness))
        assert len(rumours) <= MAX_BRIDGES * (MAX_BRIDGES - 1)
        assert all(one.confidence >= 0.5 and one.depth <= MAX_DEPTH for one in rumours)
        there = after(there, merge_candidates(there, rumours, strength=strength, at=now, new_id=new_id))
        assert_lawful(there)
        assert len(there) <= MAX_BRIDGES * number / 2


def test_gossip_alone_dies_out() -> None:
    """A chain of six alike threads that hear of each other, and no new sign: however they gossip, nothing is left."""
    six = NAMES[:6]
    there = [bridge(one, other, confidence=1.0) for one, other in pairwise(six)]
    counts = list[int]()
    for number in range(3 * MAX_ACTIVE_DAYS):
        days, now = [day(past) for past in range(number + 1)], NOON + timedelta(days=number)

        def strength(one: Bridge, seen: Sequence[str] = tuple(days)) -> float:
            return strength_at(one, seen)

        for thread in six:
            there = after(there, merge_candidates(there, [], strength=strength, at=now, new_id=new_id))
            rumours = propagate(thread, there, strength=strength, similarity=lambda _: 1.0)
            there = after(there, merge_candidates(there, rumours, strength=strength, at=now, new_id=new_id))
        counts.append(len(there))
    assert (counts[0] > len(six), counts[-1]) == (True, 0)
