"""Measures: one form for a number however it is written, and what it counts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filrouge.extraction.reading import measures


def read(text: str) -> list[tuple[str, str]]:
    return [(one.kind, one.value) for one in measures(text)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("my essay got 81%", [("percent", "81")]),
        ("a budget of $1,400", [("money", "1400")]),
        ("un budget de 900 euros", [("money", "900")]),
        ("the exam is on April 9", [("date", "4-9")]),
        ("l'examen est le 9 avril", [("date", "4-9")]),
        ("we meet at 4:15 PM", [("time", "16:15")]),
        ("the backup runs at 12 am", [("time", "0:00")]),
        ("the backup runs at 12:30 pm", [("time", "12:30")]),
        ("rendez-vous à 16h15", [("time", "16:15")]),
        ("I got 7 out of 9", [("ratio", "7/9")]),
        ("I swim three times a week", [("frequency", "3 week")]),
        ("je nage 3 fois par semaine", [("frequency", "3 week")]),
        ("the wait is 4-6 weeks", [("duration", "4-6 week")]),
        ("the image takes 300 MB", [("size", "300 mb")]),
    ],
)
def test_a_number_is_read_with_its_kind(text: str, wanted: list[tuple[str, str]]) -> None:
    assert read(text) == wanted


@pytest.mark.parametrize("text", ["I own 3 violins", "I own three violins", "this is my 3rd violin", "my third violin"])
def test_a_count_is_the_same_in_digits_words_and_ordinals(text: str) -> None:
    (one,) = measures(text)
    assert (one.kind, one.value, one.of) == ("count", "3", ("violin",))


@pytest.mark.parametrize(
    "text",
    ["the first chapter", "the other two violins", "music from the 80s", "my loved ones", "Python 3.11 on port 8443"],
)
def test_names_parts_and_decades_are_no_measures(text: str) -> None:
    assert read(text) == []


@settings(deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["violins", "pages", "stamps"]))
def test_thousands_may_be_written_with_a_comma(number: int, noun: str) -> None:
    assert [one.value for one in measures(f"I own {number:,} {noun}")] == [
        one.value for one in measures(f"I own {number} {noun}")
    ] or 1900 <= number <= 2100


@settings(deadline=None)
@given(st.text(max_size=300))
def test_measures_lie_inside_the_text_in_order_and_do_not_overlap(text: str) -> None:
    at = 0
    for one in measures(text):
        assert at <= one.start < one.end <= len(text)
        at = one.end
