# ruff: noqa: E501
"""Where sentences end, and what is not the user's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filrouge.extraction.sentences import split


def texts(prompt: str) -> list[str]:
    return [sentence.text for sentence in split(prompt)]


@pytest.mark.parametrize(
    "sentence",
    [
        "We use Python 3.11 on Fly.io, e.g. for report.py.",
        "See https://example.com/a.b?c=d! for more",
        "Run `make a. b! c?` first.",
        "Le client, M. Delmas, paie le 5.",
    ],
)
def test_a_dot_inside_a_name_does_not_end_a_sentence(sentence: str) -> None:
    assert texts(sentence) == [sentence]


def test_sentences_end_at_marks_and_at_paragraphs() -> None:
    assert texts("Salut ! Bien dormi ? On attaque.\n\nAutre chose") == [
        "Salut !",
        "Bien dormi ?",
        "On attaque.",
        "Autre chose",
    ]


def test_a_wrapped_line_goes_on() -> None:
    assert texts("the production server listens on the port\nthat we chose last year") == [
        "the production server listens on the port\nthat we chose last year"
    ]


def test_code_quotes_logs_and_host_blocks_are_left_out() -> None:
    prompt = "before\n```py\nalways = 1\n```\n> quoted rule\n2026-01-01 10:00:00 INFO up\n<system-reminder>never</system-reminder>\nafter"
    assert texts(prompt) == ["before", "after"]


def test_list_items_know_their_heading() -> None:
    first, second = split("Rules for this repo:\n- never edit a\n- always test")
    assert first.heading == (0, "rules for this repo:")
    assert (first.text, second.text) == ("never edit a", "always test")
    assert first.block != second.block


@given(st.text(max_size=400))
def test_positions_are_exact(text: str) -> None:
    for sentence in split(text):
        assert text[sentence.start : sentence.end] == sentence.text
        assert len(sentence.plain) == len(sentence.text)
