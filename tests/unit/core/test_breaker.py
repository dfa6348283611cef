"""The circuit breaker: who passes, who is told to come back, and when."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from filrouge.core.network import CircuitBreaker, CircuitOpen


def test_after_failures_in_a_row_one_caller_alone_tries_again() -> None:
    now = [0.0]
    breaker = CircuitBreaker(30.0, lambda: now[0], failures=3)
    for _ in range(3):
        assert breaker.enter() is None
        breaker.failed("It is away.")
    now[0] = 29.0
    assert str(breaker.enter()) == "It is away. It is tried again in 1 s."
    now[0] = 31.0
    assert breaker.enter() is None
    assert breaker.enter() == CircuitOpen(cause="It is away.", seconds=30.0)
    breaker.succeeded()
    assert breaker.enter() is None


def test_a_success_between_failures_keeps_it_closed() -> None:
    breaker = CircuitBreaker(30.0, lambda: 0.0, failures=2)
    for _ in range(5):
        breaker.failed("once")
        breaker.succeeded()
        assert breaker.enter() is None


def test_a_pause_that_is_asked_for_begins_with_the_first_failure() -> None:
    now = [0.0]
    breaker = CircuitBreaker(30.0, lambda: now[0], failures=5)
    breaker.failed("too often", pause=7.0)
    now[0] = 6.9
    assert breaker.enter() is not None
    now[0] = 7.1
    assert breaker.enter() is None


def test_an_answer_that_comes_late_does_not_shorten_a_pause_that_was_asked_for() -> None:
    now = [0.0]
    breaker = CircuitBreaker(30.0, lambda: now[0], failures=5)
    breaker.failed("too often", pause=600.0)
    breaker.failed("sent before that")
    now[0] = 599.0
    assert breaker.enter() == CircuitOpen(cause="sent before that", seconds=1.0)


@given(st.lists(st.sampled_from(["ask", "fail", "succeed", "wait"]), max_size=60), st.integers(1, 6))
def test_it_is_open_only_after_that_many_failures_since_the_last_success(steps: list[str], failures: int) -> None:
    now, row = [0.0], 0
    breaker = CircuitBreaker(10.0, lambda: now[0], failures=failures)
    for step in steps:
        match step:
            case "fail":
                breaker.failed("away")
                row += 1
            case "succeed":
                breaker.succeeded()
                row = 0
            case "wait":
                now[0] += 11.0
                assert breaker.enter() is None, "a rest that is over lets a probe through"
            case _:
                assert row >= failures or breaker.enter() is None
