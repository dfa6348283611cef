"""A question in one language finds by its words what was said in another, and what others call the same thing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filrouge.extraction.vocabulary import CANON, PHRASES
from filrouge.search.analyser import TextAnalyser
from filrouge.search.ranking import Bridging

ANALYSER = TextAnalyser()
BRIDGING = Bridging(ANALYSER.terms)


def matched(question: str, text: str) -> list[str]:
    """The question's words that stand in a text."""
    tokens = set(ANALYSER.tokens(text).split())
    return [forms[0] for forms in BRIDGING.words(question).meant if not tokens.isdisjoint(forms)]


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("are the backups encrypted?", "les sauvegardes partent chaque nuit"),
        ("quel navigateur faut-il prendre en charge ?", "we support two browsers"),
        ("who is our hosting company?", "l'hébergement est chez OVH"),
        ("où est la préprod ?", "staging runs on port 7412"),
        ("why does continuous integration fail?", "CI breaks on Fridays"),
        ("pourquoi l'intégration continue échoue ?", "CI breaks on Fridays"),
        ("quel est le mot de passe du wifi ?", "the password is on the fridge"),
        ("¿cuál es el puerto del servidor?", "the server listens on port 9443"),
    ],
)
def test_a_word_meets_its_translation(question: str, text: str) -> None:
    assert matched(question, text)


def test_a_word_without_another_stays_as_it_is() -> None:
    words = BRIDGING.words("drizzle or prisma?")
    assert words.own_words == words.searched == words.meant == ANALYSER.terms("drizzle or prisma?")


@given(st.text(max_size=200))
def test_nothing_of_a_question_is_lost(question: str) -> None:
    words = BRIDGING.words(question)
    assert words.own_words == ANALYSER.terms(question)
    assert words.searched[: len(words.own_words)] == words.own_words
    assert all(set(own) <= set(meant) for own, meant in zip(words.own_words, words.meant, strict=False))


def test_no_word_has_two_meanings_and_no_meaning_is_another_ones_word() -> None:
    assert not set(CANON) & set(CANON.values())
    assert not set(PHRASES) & set(CANON)
