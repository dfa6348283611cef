"""A statement may say no more than its words."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from filrouge.extraction.model_answers import is_supported, locate
from filrouge.memories.models import Span, Statement

TEXT = "Bonjour. La prod est sur le port 8443,\nderrière  Caddy."


def stating(text: str, span: Span) -> Statement:
    return Statement(kind="fact", text=text, span=span)


def test_a_quote_is_found_exactly() -> None:
    assert locate("La prod", TEXT) == Span(start=9, end=16)


def test_a_quote_is_found_whatever_its_case_accents_and_spaces() -> None:
    span = locate("sur le PORT 8443, derriere Caddy", TEXT)
    assert span is not None
    assert TEXT[span.start : span.end] == "sur le port 8443,\nderrière  Caddy"


def test_decomposed_accents_are_found() -> None:
    assert locate("derrière", "c'est derrie\u0300re toi") == Span(start=6, end=15)


def test_words_that_were_not_said_are_not_found() -> None:
    assert locate("port 9443", TEXT) is None
    assert locate("   ", TEXT) is None


def test_another_number_is_not_supported() -> None:
    span = Span(start=9, end=len(TEXT))
    assert is_supported(stating("la prod est sur le port 8443", span), TEXT)
    assert not is_supported(stating("la prod est sur le port 9443", span), TEXT)


def test_a_span_outside_the_text_supports_nothing() -> None:
    assert not is_supported(stating("prod", Span(start=9, end=999)), TEXT)
    assert not is_supported(stating("prod", Span(start=5, end=5)), TEXT)


@given(st.text(), st.text())
def test_what_is_located_lies_inside_the_text(quote: str, text: str) -> None:
    span = locate(quote, text)
    assert span is None or 0 <= span.start < span.end <= len(text)


@given(st.text(min_size=1), st.integers(0, 50), st.integers(1, 50))
def test_any_slice_of_a_text_is_located(text: str, start: int, size: int) -> None:
    quote = text[start : start + size]
    assert not quote.strip() or locate(quote, text) is not None
