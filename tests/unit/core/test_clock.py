"""Ids sort by birth, stored moments sort as text, and a naive moment is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filrouge.core.clock import add_seconds, from_epoch, from_text, new_id, to_text
from filrouge.testing import ManualClock

MOMENTS = st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1), timezones=st.just(UTC))


@given(MOMENTS, st.timedeltas(timedelta(milliseconds=2), timedelta(days=9000)))
def test_ids_sort_by_time(at: datetime, later: timedelta) -> None:
    assert new_id(at) < new_id(at + later)


def test_ids_of_one_moment_differ_and_look_alike() -> None:
    at = ManualClock().now()
    ids = {new_id(at) for _ in range(1000)}
    assert len(ids) == 1000
    assert {(len(id_), id_[:10]) for id_ in ids} == {(26, next(iter(ids))[:10])}
    assert set("".join(ids)) <= set("0123456789abcdefghjkmnpqrstvwxyz")


@given(MOMENTS, MOMENTS)
def test_stored_moments_sort_as_text_and_come_back(one: datetime, other: datetime) -> None:
    assert (to_text(one) < to_text(other)) == (one < other)
    assert from_text(to_text(one)) == one


def test_every_zone_is_stored_as_utc() -> None:
    east = datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=2)))
    assert to_text(east) == "2025-12-31T23:00:00.000000Z"
    assert from_text("2026-01-01T01:00:00+02:00") == east
    assert from_text("2026-01-01T01:00:00").tzinfo is UTC


def test_a_naive_moment_cannot_be_stored() -> None:
    with pytest.raises(ValueError, match="aware"):
        to_text(datetime(2026, 1, 1))


def test_seconds_are_counted_from_1970_and_onwards() -> None:
    assert add_seconds(from_epoch(0.0), 1.5) == datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)


def test_a_manual_clock_stands_still_until_it_is_moved() -> None:
    clock = ManualClock()
    before = clock.now()
    assert clock.now() == before
    clock.move(days=3)
    assert clock.now() == before + timedelta(days=3)
