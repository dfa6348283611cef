"""What is found through the analyser in a real full-text table, and that no text can break a search."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from filrouge.index.analyser import TextAnalyser, fold
from filrouge.index.lexical import any_of

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


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("un étudiant attentif", "etudiant"),  # accents fold
        ("un etudiant attentif", "ÉTUDIANT"),
        ("the reports are late", "report"),  # English plural
        ("le report arrive", "reports"),
        ("les étudiants attentifs", "étudiant"),  # French plural
        ("il faut manger tôt", "mangé"),  # French verb forms
        ("on a mangé", "manger"),
        ("they were running", "run"),  # English verb forms
        ("fix exportReport now", "report"),  # camelCase, in parts and whole
        ("fix exportReport now", "exportreport"),
        ("an HTTPServer there", "server"),
        ("call export_report here", "report"),  # snake_case, in parts and whole
        ("call export_report here", "exportReport"),
        ("see src/report.py first", "report.py"),  # paths
        ("see src/report.py first", "src/report.py"),
        ("see src/report.py first", "report"),
        ("runs on Python 3.11 only", "3.11"),  # versions
        ("l'école est fermée", "école"),  # elisions
        ("qu’il vienne", "vienne"),
        ("a 4K screen", "4k"),  # digits beside letters
        ("two PDFs were sent", "PDF"),  # plural of an acronym
        ("one PDF was sent", "PDFs"),
        ("東京タワーに行く", "東京"),  # two characters of Japanese, Chinese, Korean
        ("我们在北京开会", "北京"),
        ("한국어 문서를 읽다", "한국"),
        ("the ﬁle is here", "file"),  # ligatures and widths
        ("ＡＰＩ key", "api"),
        ("deploy to fly.io", "fly.io"),
    ],
)
def test_it_is_found(text: str, query: str) -> None:
    assert found(text, query)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("runs on Python 3.12 only", "311"),
        ("an étude of birds", "étudiant"),
        ("東京タワー", "京都"),
        ("한국어 문서", "중국"),
        ("the main branch", "the hand"),
        ("la main droite", "maintain"),
        ("export report", "exportreport"),
        ("we use Drizzle", "Prisma"),
    ],
)
def test_it_is_not_found(text: str, query: str) -> None:
    assert not found(text, query)


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
