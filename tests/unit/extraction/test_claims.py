"""What a prompt states on the way to asking for something."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from filrouge.extraction.heuristics import extract
from filrouge.extraction.model_answers import is_supported
from filrouge.memories.models import Statement

from .replay import prompt


def told(text: str) -> list[Statement]:
    return list(extract(prompt(text)))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("By the way, I own 14 cookbooks, can you suggest a soup?", "I own 14 cookbooks"),
        ("I have my driving test on May 12, how should I prepare?", "I have my driving test on May 12"),
        ("Is a 71% mark on my biology essay enough to pass?", "a 71% mark on my biology essay"),
        ("How do I raise my monthly savings of $340?", "my monthly savings of $340"),
        (
            "I'm worried about the lease, can you explain how it was shortened to 9 months?",
            "the lease, can you explain how it was shortened to 9 months",
        ),
        (
            "I'm trying to cut my phone bill, which is $45 a month now. Any tips?",
            "cut my phone bill, which is $45 a month now",
        ),
        ("Au fait, j'ai 23 plantes dans mon salon, tu peux m'aider à les arroser ?", "j'ai 23 plantes dans mon salon"),
    ],
)
def test_what_is_told_beside_or_inside_a_question_is_learned(text: str, wanted: str) -> None:
    statements = told(text)
    assert [one.text for one in statements] == [wanted]
    assert 0.6 <= statements[0].confidence < 0.8


def test_never_having_done_something_is_learned() -> None:
    (one,) = told("I've never been to the opera in Lyon, is it worth it?")
    assert one.text == "I've never been to the opera in Lyon"


def test_a_plan_with_a_day_is_an_intent() -> None:
    (one,) = told("I'm planning to visit my aunt on June 3, what should I bring?")
    assert (one.kind, one.timeframe) == ("intent", "June 3")


def test_a_claim_that_says_little_is_about_the_sentence_before_it() -> None:
    (one,) = told("Do you know a good shop for bamboo flutes? I've bought five cheap ones so far.")
    assert one.text == "I've bought five cheap ones so far"
    assert {"bamboo", "flute"} <= set(one.subject.split())


@pytest.mark.parametrize(
    "text",
    [
        "What is 15% of 80?",
        "Can you write a story with three dragons?",
        "How many days does it take to walk 100 km?",
        "The build failed 3 times, can you look at my pipeline?",
        "I restarted it twice and it still crashed, any idea?",
        "Maybe I could sell my car for $4,000, what do you think?",
        "What if my score was 90%?",
        "I'm looking for the other two gloves, any idea?",
        "Give me the first 8 terms of this sequence.",
    ],
)
def test_questions_tasks_suppositions_and_troubles_of_the_moment_are_not(text: str) -> None:
    assert [one.text for one in told(text)] == []


PIECES = st.sampled_from(
    [
        "I now own 14 cookbooks",
        "which is 3 days",
        ", and",
        "so can you",
        "my 5-page essay",
        "?",
        ". ",
        "it was",
        "I've never",
    ]
)


@example("I'm worried about x, it was 3 days, which is 4 days?")
@settings(deadline=None)
@given(st.lists(PIECES, max_size=12).map(" ".join))
def test_claims_are_proved_by_their_spans_in_order(text: str) -> None:
    at = 0
    for one in told(text):
        assert is_supported(one, text)
        assert at <= one.span.start
        at = one.span.end
