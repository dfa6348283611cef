"""The word index of large tables: it finds what FTS5 finds, follows a mark, and a damaged one is as good as none."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filrouge.core.protocols import WordIndex
from filrouge.search.analyser import any_of, common_times, phrases
from filrouge.search.models import NEVER, IndexPosition, Selection, WordRow
from filrouge.search.ranking import BACKEND_OKAPI, CollectionStatistics, bm25
from filrouge.search.repository import WordFiles
from filrouge.testing import TextAnalyser
from tests.support.tiers import examples

ANALYSER = TextAnalyser()
TEXTS = st.lists(
    st.sampled_from("to be or not ports port Réponse drizzle src/report.py 日本語 本 3.11 the".split()),
    min_size=1,
    max_size=8,
).map(" ".join)


def row(number: int, text: str, *labels: str, begins: int = 0, ends: int = NEVER) -> WordRow:
    return WordRow(number=number, tokens=ANALYSER.tokens(text), labels=labels, begins=begins, ends=ends)


def filled(home: Path, texts: Sequence[str]) -> WordIndex:
    index = WordFiles(str(home), ANALYSER.version).create("turn")
    index.replace((), [row(number, text) for number, text in enumerate(texts, 1)])
    index.commit(IndexPosition(row=len(texts), change=0))
    return index


def by_fts5(texts: Sequence[str], question: str) -> set[int]:
    connection: Any = apsw.Connection(":memory:")  # apsw's stubs leave the types of its bindings open
    with closing(connection):
        connection.execute(
            "create virtual table t using fts5 (a, content='', tokenize='unicode61 remove_diacritics 0')"
        )
        for number, text in enumerate(texts, 1):
            connection.execute("insert into t (rowid, a) values (?, ?)", (number, ANALYSER.tokens(text)))
        match = any_of(ANALYSER.terms(question))
        found = connection.execute("select rowid from t where t match ?", (match,)).fetchall()
        return {number for (number,) in found}


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=8), TEXTS)
def test_it_finds_the_rows_that_fts5_finds(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], question: str
) -> None:
    with closing(filled(tmp_path_factory.mktemp("words"), texts)) as index:
        found = index.view().best(ANALYSER.terms(question), Selection(), 99, None)
        assert set(found) == by_fts5(texts, question)


@pytest.mark.parametrize("question", ["port 443", "ports 443", "reports", "to be or not to be"])
def test_phrases_that_would_all_be_repeated_are_looked_up_once_for_the_same_scores(question: str) -> None:
    terms = ANALYSER.terms(question)
    repeated = " OR ".join(f'"{" ".join(one.words)}"' for one in phrases(terms) for _ in range(one.times))
    connection: Any = apsw.Connection(":memory:")
    with closing(connection):
        connection.execute("create virtual table t using fts5 (a)")
        for text in ("the port is 443", "reports of ports", "443 to be", "not a report"):
            connection.execute("insert into t (a) values (?)", (ANALYSER.tokens(text),))
        scores = [
            {row: times * score for row, score in connection.execute("select rowid, bm25(t) from t(?)", (match,))}
            for match, times in ((any_of(terms), common_times(terms)), (repeated, 1))
        ]
    assert scores[0] == pytest.approx(scores[1])  # pyright: ignore[reportUnknownMemberType]
    assert scores[0]


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=8), st.sampled_from(["drizzle ports", "Réponse", "report port 3.11"]))
def test_its_scores_are_those_that_bm25_gives_for_the_same_tokens(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], question: str
) -> None:
    terms = ANALYSER.terms(question)
    forms = [form for forms in terms for form in forms]
    with closing(filled(tmp_path_factory.mktemp("words"), texts)) as index:
        counted = index.view().counted(forms, None)
        collection = CollectionStatistics(rows=counted.rows, mean=counted.mean, frequencies=counted.having)
        tokens = {str(number): ANALYSER.tokens(text).split() for number, text in enumerate(texts, 1)}
        right = bm25(terms, tokens, collection, BACKEND_OKAPI)
        for number, score in index.view().best(terms, Selection(), 99, None).items():
            assert score == pytest.approx(right[str(number)], rel=1e-4)  # pyright: ignore[reportUnknownMemberType]


def test_a_selection_narrows_what_is_found_and_what_is_counted(tmp_path: Path) -> None:
    index = WordFiles(str(tmp_path), 1).create("memory")
    rows = [
        row(1, "port one", "of:shop", "trust:2", begins=5),
        row(2, "port two", "of:blog", "trust:2", begins=6, ends=9),
        row(3, "port three", "of:shop", "trust:0", begins=7),
    ]
    index.replace((), rows)
    index.commit(IndexPosition(row=3, change=0))
    view, terms = index.view(), ANALYSER.terms("port")
    chosen = {
        Selection(labels=(frozenset({"of:shop"}),)): [1, 3],
        Selection(labels=(frozenset({"of:shop", "of:blog"}), frozenset({"trust:2"}))): [1, 2],
        Selection(begins=(6, None)): [2, 3],
        Selection(begins=(None, 6)): [1, 2],
        Selection(lasts_beyond=9): [1, 3],
        Selection(lasts_beyond=8): [1, 2, 3],
        Selection(without=frozenset({2})): [1, 3],
        Selection(labels=(frozenset(),)): [],
    }
    for selection, numbers in chosen.items():
        assert sorted(view.best(terms, selection, 9, None)) == numbers
        assert sorted(view.numbers(selection, 9).tolist()) == numbers
        counted = view.counted(["port", "one"], selection)
        having = {"port": len(numbers), "one": int(1 in numbers)}
        assert (counted.rows, counted.having) == (len(numbers), having)
    index.close()


def test_a_row_put_in_again_stands_there_once_with_its_new_labels(tmp_path: Path) -> None:
    with closing(filled(tmp_path, ["port one", "port two"])) as index:
        index.replace([1], [row(1, "port one", "state:superseded")])
        index.commit(IndexPosition(row=2, change=1))
        gone = Selection(labels=(frozenset({"state:superseded"}),))
        assert index.view().numbers(gone, 9).tolist() == [1]
        assert sorted(index.view().numbers(Selection(), 9).tolist()) == [1, 2]


def test_what_was_not_committed_is_not_there_after_a_start(tmp_path: Path) -> None:
    with closing(filled(tmp_path, ["port one"])) as index:
        index.replace((), [row(2, "port two")])
        assert index.view().numbers(Selection(), 9).tolist() == [1]
    again = WordFiles(str(tmp_path), ANALYSER.version).open("turn")
    assert again is not None
    assert (again.view().mark, again.view().numbers(Selection(), 9).tolist()) == (IndexPosition(row=1, change=0), [1])
    again.close()


def damaged(home: Path, ending: str) -> None:
    [path] = [path for path in (home / "turn").iterdir() if path.name.endswith(ending)]
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 0xFF
    path.write_bytes(content)


def missing(home: Path, ending: str) -> None:
    for path in (home / "turn").glob(f"*{ending}"):
        path.unlink()


@pytest.mark.parametrize("ending", [".idx", ".term", ".fast", ".fieldnorm", "header.json", "meta.json"])
def test_a_damaged_or_missing_file_makes_it_as_good_as_none(tmp_path: Path, ending: str) -> None:
    for spoil in (damaged, missing):
        filled(tmp_path, ["port one", "port two"]).close()
        spoil(tmp_path, ending)
        assert WordFiles(str(tmp_path), ANALYSER.version).open("turn") is None


def test_an_index_of_another_analyser_is_none(tmp_path: Path) -> None:
    filled(tmp_path, ["port one"]).close()
    assert WordFiles(str(tmp_path), ANALYSER.version + 1).open("turn") is None


def test_a_dropped_index_leaves_no_file(tmp_path: Path) -> None:
    filled(tmp_path, ["port one"]).close()
    WordFiles(str(tmp_path), ANALYSER.version).drop("turn")
    assert list(tmp_path.iterdir()) == []
