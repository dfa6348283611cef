"""A newer version told in other words supersedes, a denial is a conflict, another matter is left alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filrouge.extraction.decide import decide
from filrouge.extraction.heuristics import extract
from filrouge.memories.models import Add, Conflict, Decision, Neighbour, Noop, Update

from .replay import memory_of, prompt


def after(old: str, new: str, similarity: float) -> Decision:
    """What becomes of what `new` tells, where `old` was told before, with a similarity as of a real space."""
    (known,), (statement,) = extract(prompt(old)), extract(prompt(new))
    return decide(statement, [Neighbour(memory=memory_of(known, 1), similarity=similarity)])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("By the way, I own 12 orchids.", "I now own 13 orchids, where do I put them?"),
        ("I got a 64% mark on my biology essay, any tips?", "Is a 71% mark on my biology essay better?"),
        (
            "I have a dentist appointment on May 2, what do I ask?",
            "My dentist appointment was moved to May 9, any tips?",
        ),
        ("I'm on chapter 4 of my Italian course.", "I just finished chapter 9 of my Italian course, what now?"),
        (
            "I swim twice a week at the Vauban pool, any tips?",
            "I now swim four times a week at the Vauban pool, is it ok?",
        ),
        ("J'ai 23 plantes dans mon salon, des conseils ?", "J'ai maintenant 31 plantes dans mon salon, des conseils ?"),
    ],
)
def test_another_number_of_the_same_thing_is_a_newer_version(old: str, new: str) -> None:
    decision = after(old, new, 0.55)
    assert isinstance(decision, Update), decision
    assert decision.old_ids == ("m1",)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("By the way, I own 12 orchids.", "By the way, I own 3 bicycles."),
        ("I got a 64% mark on my biology essay, any tips?", "I got an 80% discount on my train ticket, nice or not?"),
        ("I have a dentist appointment on May 2, what do I ask?", "I have a piano exam on May 9, what do I play?"),
        ("I spent 5 work hours on it, thanks.", "I spent 3 holiday hours on it, thanks."),
        ("I want to read, my goal is 40 books per year.", "I've read 12 books so far, what next?"),
    ],
)
def test_a_number_of_another_thing_is_added_beside(old: str, new: str) -> None:
    assert isinstance(after(old, new, 0.3), Add)


def test_the_same_words_with_another_number_are_no_restatement() -> None:
    old, new = (
        "I have vouchers for a single visit to the Astra sauna.",
        "I have vouchers for two visits to the Astra sauna.",
    )
    assert not isinstance(after(old, new, 0.95), Noop)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "I met Clara at the Lyon marathon in 2019, should I call her?",
            "I've never met Clara at a marathon, odd or not?",
        ),
        ("I've never attended a pottery class, is it hard?", "I attended 3 pottery classes in Nantes, what next?"),
        (
            "J'ai visité le musée Calder à Saché le 3 mai, tu connais ?",
            "Je n'ai jamais visité le musée Calder à Saché, tu connais ?",
        ),
    ],
)
def test_never_against_what_was_told_is_a_conflict_in_either_order(old: str, new: str) -> None:
    decision = after(old, new, 0.5)
    assert isinstance(decision, Conflict), decision
    assert decision.existing_id == "m1"


def test_never_about_something_else_is_added() -> None:
    old, new = (
        "I met Clara at the Lyon marathon in 2019, should I call her?",
        "I've never cooked a risotto, is it hard?",
    )
    assert isinstance(after(old, new, 0.1), Add)


@settings(deadline=None)
@given(st.integers(2, 1800), st.integers(2, 1800), st.floats(0.5, 0.85))
def test_only_a_different_number_is_a_newer_version(before: int, now: int, similarity: float) -> None:
    old, new = f"I own {before} orchids, any tips?", f"I now own {now} orchids, any tips?"
    assert isinstance(after(old, new, similarity), Update) == (before != now)
