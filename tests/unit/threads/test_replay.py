"""Replay: what the life of a thread was at a moment follows from when its prompts came."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from filrouge.threads.models import Thread
from filrouge.threads.upkeep import replay_thread, weight_at

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
DAYS = st.floats(0, 60).map(lambda days: NOON + timedelta(days=days))
NOW = Thread(id="t", user="local", project="p", title="Coupons", opened_at=NOON, last_active=NOON, state="archived")


def days(number: float) -> datetime:
    return NOON + timedelta(days=number)


def test_a_thread_is_active_while_it_is_worked_on_then_suspended_then_archived() -> None:
    prompts = [NOON, days(1)]
    assert [replay_thread(NOW, prompts, days(later)).state for later in (1, 2, 7, 30)] == [
        "active", "active", "suspended", "archived",
    ]  # fmt: skip


def test_a_prompt_wakes_it() -> None:
    assert replay_thread(NOW, [NOON, days(40)], days(40.5)).state == "active"


@given(st.lists(DAYS, min_size=1, max_size=12), st.floats(0, 30))
def test_a_moment_knows_nothing_of_what_came_later(prompts: list[datetime], after: float) -> None:
    moment = max(prompts) + timedelta(days=after)
    then = replay_thread(NOW, prompts, moment)
    assert (then.opened_at, then.last_active, then.turns) == (min(prompts), max(prompts), len(prompts))
    assert 0.0 <= weight_at(then, moment) <= 1.0


@given(st.lists(DAYS, min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_the_order_in_which_prompts_are_named_is_nothing(prompts: list[datetime], random: object) -> None:
    mixed = list(prompts)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert replay_thread(NOW, mixed, days(61)) == replay_thread(NOW, prompts, days(61))
