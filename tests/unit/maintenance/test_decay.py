"""Decay: what nobody speaks of fades, what is met again fades more slowly, and what the user keeps does not fade."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from filrouge.core.scope import Scope
from filrouge.maintenance.consolidation import FADED, HALF_LIVES, half_life, vitality
from filrouge.memories.models import Kind, Memory
from tests.support.tiers import examples

BORN = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
KINDS: tuple[Kind, ...] = tuple(HALF_LIVES)
#: What happens on a day: nothing, it is said, or it goes in front of a prompt.
HAPPENING = st.sampled_from(["", "", "", "said", "used"])


def memory(kind: Kind = "fact", *, pinned: bool = False) -> Memory:
    return Memory(
        id="m",
        scope=Scope(user="local", project="p", agent="", channel="cli", session="s"),
        scope_name="project",
        kind=kind,
        text="The port is 9443.",
        trust=2,
        created_at=BORN,
        valid_from=BORN,
        last_mention=BORN,
        pinned=pinned,
    )


def after(one: Memory, what: str, now: datetime) -> Memory:
    if what == "said":
        return replace(one, mention_count=one.mention_count + 1, last_mention=now)
    return replace(one, uses=one.uses + 1, last_used=now) if what == "used" else one


def lived(one: Memory, days: list[str]) -> list[tuple[Memory, datetime]]:
    """The memory on each day, as that day leaves it."""
    told: list[tuple[Memory, datetime]] = []
    for number, what in enumerate(days, 1):
        one = after(one, what, BORN + number * DAY)
        told.append((one, BORN + number * DAY))
    return told


@settings(max_examples=examples(20))
@given(st.sampled_from(KINDS), st.lists(HAPPENING, min_size=10_000 // 20, max_size=10_000 // 20))
def test_ten_thousand_days_keep_it_between_nought_and_one_falling_on_quiet_days_alone(
    kind: Kind, days: list[str]
) -> None:
    story = lived(memory(kind), days)
    lively = [vitality(one, now) for one, now in story]
    assert all(0.0 < value <= 1.0 for value in lively)
    for (before, now), what in zip(pairwise(lively), days[1:], strict=True):
        assert now < before if not what else now == 1.0


@given(st.sampled_from(KINDS), st.floats(0, 10_000), st.floats(0.01, 10_000))
def test_what_nobody_speaks_of_fades(kind: Kind, days: float, more: float) -> None:
    earlier, later = (vitality(memory(kind), BORN + gone * DAY) for gone in (days, days + more))
    assert later < earlier or later == earlier == 0.0


@given(st.sampled_from(KINDS), st.sampled_from(["said", "used"]), st.floats(0.5, 2_000), st.floats(0.5, 2_000))
def test_what_is_met_again_is_lively_and_fades_more_slowly(kind: Kind, how: str, days: float, more: float) -> None:
    met, left = after(memory(kind), how, BORN + days * DAY), memory(kind)
    assert half_life(met) > half_life(left)
    for gone in (0.0, more):
        assert vitality(met, BORN + (days + gone) * DAY) > vitality(left, BORN + (days + gone) * DAY)


@given(st.lists(HAPPENING, max_size=40), st.floats(0, 10_000), st.booleans())
def test_what_is_pinned_and_what_is_a_rule_never_fades(days: list[str], gone: float, pinned: bool) -> None:
    kept = memory("fact", pinned=True) if pinned else memory("rule")
    for one, now in lived(kept, [*days, ""]):
        assert vitality(one, now + gone * DAY) == 1.0


@given(st.sampled_from(KINDS), st.floats(0, 10_000))
def test_a_clock_that_was_wrong_makes_nothing_livelier_than_new(kind: Kind, days: float) -> None:
    assert vitality(memory(kind), BORN - days * DAY) == 1.0


@pytest.mark.parametrize(("kind", "days"), [("intent", 14), ("fact", 90), ("preference", 365)])
def test_each_kind_has_a_half_life_of_its_own(kind: Kind, days: int) -> None:
    assert vitality(memory(kind), BORN + days * DAY) == pytest.approx(0.5)
    assert vitality(memory(kind), BORN + 5 * days * DAY) < FADED
