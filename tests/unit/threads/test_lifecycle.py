from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from filrouge.core.errors import BadInput
from filrouge.threads.models import Thread, ThreadState
from filrouge.threads.upkeep import (
    ARCHIVED_AFTER,
    HALF_LIFE,
    MAX_ACTIVE_THREADS,
    MIN_REACTIVATED_WEIGHT,
    SUSPENDED_BELOW,
    TRANSITIONS,
    Act,
    apply_act,
    due_transitions,
    weight_at,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
STATES: tuple[ThreadState, ...] = ("active", "suspended", "archived")
ACTS: tuple[Act, ...] = ("use", "reactivate", "reopen", "suspend", "archive", "merge")
weights = st.floats(min_value=0.0, max_value=1.0)
ages = st.timedeltas(min_value=timedelta(), max_value=timedelta(days=400))


def thread(id_: str = "a", *, state: ThreadState = "active", weight: float = 1.0) -> Thread:
    return Thread(
        id=id_,
        user="local",
        project="p",
        title="Sourdough",
        opened_at=NOON,
        last_active=NOON,
        state=state,
        weight=weight,
    )


def test_weight_is_halved_every_day_and_a_half() -> None:
    assert weight_at(thread(), NOON + HALF_LIFE) == pytest.approx(0.5)
    assert weight_at(thread(weight=0.8), NOON + 2 * HALF_LIFE) == pytest.approx(0.2)


def test_a_use_adds_a_tenth_to_what_is_left() -> None:
    used = apply_act(thread(), "use", NOON + HALF_LIFE)

    assert (used.weight, used.last_active, used.state) == (pytest.approx(0.6), NOON + HALF_LIFE, "active")


def test_a_thread_that_was_woken_is_not_suspended_again_the_next_day() -> None:
    woken = apply_act(thread(state="archived", weight=0.1), "reactivate", NOON + timedelta(days=30))

    assert (woken.state, woken.weight) == ("active", MIN_REACTIVATED_WEIGHT)
    assert due_transitions([woken], NOON + timedelta(days=31)) == ()


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("act", ACTS)
def test_a_move_that_is_not_in_the_table_names_state_and_act(state: ThreadState, act: Act) -> None:
    if (state, act) in TRANSITIONS:
        assert apply_act(thread(state=state), act, NOON).state == TRANSITIONS[state, act]
    else:
        with pytest.raises(BadInput, match=f"{state}.*{act}"):
            apply_act(thread(state=state), act, NOON)


def test_a_thread_that_another_took_in_makes_no_more_moves() -> None:
    gone = replace(thread(state="archived"), merged_into="b")

    with pytest.raises(BadInput, match="merged") as raised:
        apply_act(gone, "reopen", NOON)
    assert "b" in raised.value.remedy
    assert due_transitions([gone], NOON + timedelta(days=99)) == ()


def test_a_machine_that_was_off_for_weeks_catches_up_in_one_sweep() -> None:
    suspend, archive = due_transitions([thread()], NOON + timedelta(days=30))

    assert (suspend.act, archive.act) == ("suspend", "archive")
    assert weight_at(thread(), suspend.at) == pytest.approx(SUSPENDED_BELOW)
    assert archive.at - suspend.at == ARCHIVED_AFTER


def test_over_the_cap_the_lightest_are_suspended() -> None:
    threads = [thread(f"{number:02}", weight=0.2 + number / 100) for number in range(MAX_ACTIVE_THREADS["light"] + 2)]

    assert [(move.thread_id, move.act) for move in due_transitions(threads, NOON, "light")] == [
        ("00", "suspend"),
        ("01", "suspend"),
    ]


@given(weight=weights, age=ages)
def test_weight_stays_between_nought_and_one_and_never_rises_by_itself(weight: float, age: timedelta) -> None:
    one = thread(weight=weight)

    assert 0.0 <= weight_at(one, NOON + age) <= one.weight
    assert 0.0 <= apply_act(one, "use", NOON + age).weight <= 1.0


@given(
    threads=st.lists(st.tuples(st.sampled_from(STATES), weights), max_size=70),
    age=ages,
    mode=st.sampled_from(sorted(MAX_ACTIVE_THREADS)),
)
def test_after_a_sweep_nothing_more_is_due(threads: list[tuple[ThreadState, float]], age: timedelta, mode: str) -> None:
    now = NOON + age
    known = {
        str(number): replace(
            thread(str(number), state=state, weight=weight), suspended_at=NOON if state == "suspended" else None
        )
        for number, (state, weight) in enumerate(threads)
    }
    for move in due_transitions(known.values(), now, mode):
        assert move.at <= now
        known[move.thread_id] = apply_act(known[move.thread_id], move.act, move.at)

    assert due_transitions(known.values(), now, mode) == ()
    assert sum(one.state == "active" for one in known.values()) <= MAX_ACTIVE_THREADS[mode]
