"""What is found through the analyser in a real full-text table, and that no text can break a search."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from filrouge.core.errors import BadConfig
from filrouge.search.analyser import TextAnalyser, any_of, fold
from tests.unit.search.findings import FIRST, FOUND, NOT_FOUND

ANALYSER = TextAnalyser()
#: Every code point, with those that are hard on text doubled in weight.
ANY = st.text(st.characters() | st.sampled_from("\"'*()^:-+{}\\%\x00\ud800İßŉﬁ²㈱한국東京ｆ̈\u200d_."), max_size=60)


def table(*texts: str) -> Any:  # apsw's stubs leave the types of its bindings open
    connection: Any = apsw.Connection(":memory:")
    connection.execute("create virtual table t using fts5 (tokens, tokenize = 'unicode61 remove_diacritics 0')")
    for text in texts:
        connection.execute("insert into t values (?)", (ANALYSER.tokens(text),))
    return connection


def found(text: str, query: str) -> bool:
    match = any_of(ANALYSER.terms(query))
    return bool(list(table(text).execute("select 1 from t where t match ?", (match,)))) if match else False


@pytest.mark.parametrize(("text", "query"), [*FIRST, *FOUND])
def test_it_is_found(text: str, query: str) -> None:
    assert found(text, query)


@pytest.mark.parametrize(("text", "query"), NOT_FOUND)
def test_it_is_not_found(text: str, query: str) -> None:
    assert not found(text, query)


def best(query: str, *texts: str) -> str:
    match = any_of(ANALYSER.terms(query))
    ranked = table(*texts).execute("select rowid from t where t match ? order by bm25(t), rowid", (match,))
    return texts[int(next(ranked)[0]) - 1]


def test_small_words_alone_are_ranked_by_their_sequence() -> None:
    others = ["not to be or to be", "to do or not to do it", "be to the question or not", "is it to be seen or not"] * 3
    assert best("to be or not to be", *others, "to be or not to be") == "to be or not to be"


def test_the_word_as_it_was_asked_for_is_ranked_above_its_other_forms() -> None:
    others = ["nothing else here", "another thing here", "no such thing here"]
    assert best("reporting", "they report daily", "daily reporting now", *others) == "daily reporting now"
    assert best("report", "they reporting daily", "daily report now", *others) == "daily report now"


def test_languages_are_a_choice_and_show_in_the_version() -> None:
    german = TextAnalyser(("german",))
    assert german.tokens("Häuser") == german.tokens("hauser") == "hauser haus"
    assert german.version != ANALYSER.version == TextAnalyser().version
    with pytest.raises(BadConfig, match="no stemmer for klingon"):
        TextAnalyser(("english", "klingon"))


def test_a_word_is_stored_once_where_it_is_its_own_stem_and_small_words_always() -> None:
    assert ANALYSER.tokens("The ports, le port et les rapports") == "the ports port le port et les rapports rapport"


def test_no_token_of_a_text_is_long() -> None:
    tokens = ANALYSER.tokens("x" * 5000 + " /" + "deep/" * 500 + " 1" + "0.1" * 400).split()
    assert max(map(len, tokens)) <= 64


def test_small_words_are_left_out_unless_there_is_nothing_else() -> None:
    assert [word[0] for word in ANALYSER.terms("what is the port of the server?")] == ["port", "server"]
    assert [word[0] for word in ANALYSER.terms("est-ce que le port a changé ?")] == ["port", "change"]
    assert [word[0] for word in ANALYSER.terms("qui est-ce ?")] == ["qui", "est", "ce", "estce"]
    assert ANALYSER.terms("") == ANALYSER.terms("?! …") == ()


def test_a_word_is_asked_for_once() -> None:
    assert len(ANALYSER.terms("port Port PORT pört")) == 1


@given(ANY)
def test_every_token_is_letters_and_digits(text: str) -> None:
    tokens = ANALYSER.tokens(text).split(" ") if ANALYSER.tokens(text) else []
    assert [token for token in tokens if not token.isalnum() or fold(token) != token] == []


@given(ANY, ANY)
def test_any_punctuation_a_user_types_is_legal(text: str, query: str) -> None:
    found(text, query)


@given(st.text(st.characters(categories=["Lu", "Ll", "Nd"], codec="latin-1"), min_size=1, max_size=20))
def test_a_text_is_found_by_its_own_words(word: str) -> None:
    assert found(f"before {word} after", word)


def test_the_same_text_is_analysed_the_same_by_many_threads() -> None:
    texts = [f"les étudiants mangeaient {number} reports" for number in range(50)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ANALYSER.tokens, texts)) == [TextAnalyser().tokens(text) for text in texts]
