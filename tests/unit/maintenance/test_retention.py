"""Retention: the policy's times hold; they are shorter only where the home is too large, and never below a day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from filrouge.maintenance.consolidation import PRESSURES, Policy, cutoffs, next_pressure

NOW = datetime(2026, 5, 1, tzinfo=UTC)
DAYS = st.integers(1, 3650)


def test_tool_output_goes_after_a_season_and_noise_after_a_month() -> None:
    found = cutoffs(Policy(), NOW)
    assert (found.tools, found.noise) == (NOW - timedelta(days=90), NOW - timedelta(days=30))


def test_what_is_to_be_kept_for_ever_has_no_moment() -> None:
    found = cutoffs(Policy(tools=0, noise=0, logs=0), NOW, pressure=2)
    assert (found.tools, found.noise, found.logs) == (None, None, None)


@given(DAYS, st.sampled_from(range(1, len(PRESSURES))))
def test_more_pressure_never_keeps_longer_and_never_less_than_a_day(days: int, pressure: int) -> None:
    before, after = (cutoffs(Policy(tools=days), NOW, one).tools for one in (pressure - 1, pressure))
    assert before is not None
    assert after is not None
    assert before <= after <= NOW - timedelta(days=1)


@given(st.integers(0, 10**12), st.integers(0, 10**12))
def test_pressure_rises_while_the_home_is_above_its_cap_and_there_is_a_step_left(size: int, cap: int) -> None:
    steps, pressure = 0, 0
    while (further := next_pressure(Policy(cap=cap), size, pressure)) is not None:
        pressure, steps = further, steps + 1
    assert steps == (len(PRESSURES) - 1 if cap and size > cap else 0)
