"""The time a question is about, in English and French; it raises and never hides."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filrouge.search.ranking import closeness, parse_times

TODAY = date(2023, 11, 1)


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        ("What did Caroline do in May 2023?", "2023-05-01", "2023-05-31"),
        ("When did she go hiking on 3 July 2023?", "2023-07-03", "2023-07-03"),
        ("what happened on July 3rd", "2023-07-03", "2023-07-03"),
        ("what did we say on 2023-05-04", "2023-05-04", "2023-05-04"),
        ("what did he plan in December?", "2022-12-01", "2022-12-31"),
        ("what changed in 2022", "2022-01-01", "2022-12-31"),
        ("what did I do yesterday", "2023-10-31", "2023-10-31"),
        ("three days ago, which port was it?", "2023-10-29", "2023-10-29"),
        ("qu'a-t-on décidé la semaine dernière ?", "2023-10-18", "2023-10-27"),
        ("où était Paul il y a deux semaines ?", "2023-10-15", "2023-10-21"),
        ("qu'avons-nous fait le 14 juillet ?", "2023-07-14", "2023-07-14"),
        ("et en août 2021 ?", "2021-08-01", "2021-08-31"),
        ("ce qu’on a dit hier", "2023-10-31", "2023-10-31"),
    ],
)
def test_a_named_time_is_a_span_of_days(question: str, first: str, last: str) -> None:
    assert [(str(span.first), str(span.last)) for span in parse_times(question, TODAY)] == [(first, last)]


@pytest.mark.parametrize(
    "question",
    [
        "may I ask you something?",
        "mars ou vénus",
        "march on",
        "which port is it?",
        "on 2023-13-45",
        "the last straw",
        "",
    ],
)
def test_words_that_only_look_like_a_time_name_none(question: str) -> None:
    assert parse_times(question, TODAY) == ()


def test_the_nearer_a_day_is_to_the_span_the_more_it_counts() -> None:
    named = parse_times("in May 2023", TODAY)
    days = [date(2023, 5, 31), date(2023, 6, 4), date(2023, 6, 20), date(2023, 8, 1)]
    near = [closeness(named, day) for day in days]
    assert near == sorted(near, reverse=True)
    assert (near[0], near[-1]) == (1.0, 0.0)
    assert closeness((), days[0]) == 0.0


@given(st.text(max_size=80), st.dates())
def test_any_text_can_be_read_on_any_day(text: str, today: date) -> None:
    for span in parse_times(text, today):
        assert span.first <= span.last
        assert 0.0 <= span.closeness(today) <= 1.0
