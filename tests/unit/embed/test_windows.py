"""Windows cut no word, lose none, and are never longer than what the model reads."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from filrouge.embed.windows import WINDOW_CHARACTERS, windows

TEXTS = st.text(st.sampled_from("abé .!?…\n\t東\u00a0"), max_size=400)


@given(TEXTS, st.integers(1, 60))
def test_no_character_is_lost_and_no_window_too_long(text: str, size: int) -> None:
    pieces = windows(text, size)
    assert all(len(piece) <= size for piece in pieces)
    assert "".join("".join(pieces).split()) == "".join(text.split())


@given(TEXTS, st.integers(1, 60))
def test_a_word_that_fits_is_never_cut(text: str, size: int) -> None:
    words = text.split()
    if all(len(word) <= size for word in words):
        assert " ".join(windows(text, size)).split() == words


@given(st.text(st.sampled_from("ab .\n"), max_size=WINDOW_CHARACTERS))
def test_a_short_text_is_one_window(text: str) -> None:
    assert len(windows(text)) == 1


def test_a_window_ends_where_a_sentence_ends() -> None:
    assert windows("One two. Three four! Five?", 12) == ["One two.", "Three four!", "Five?"]
    assert windows("a b. c d. e f.", 9) == ["a b. c d.", "e f."]


def test_no_text_is_one_empty_window() -> None:
    assert windows("") == windows(" \n ") == [""]


def test_the_last_sentence_of_a_long_text_is_in_a_window() -> None:
    text = "The quick brown fox jumps over the lazy dog. " * 2300 + "The port is 9443."
    assert len(text) > 100_000
    pieces = windows(text)
    assert pieces[-1].endswith("The port is 9443.")
    assert max(map(len, pieces)) <= WINDOW_CHARACTERS


def test_one_word_longer_than_a_window_is_cut() -> None:
    assert windows("ab" * 10 + " c", 8) == ["abababab", "abababab", "abab c"]
