"""JSON Lines are written and read a row at a time, and a file that is not whole is known."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filrouge.cli.imports import send_lines
from filrouge.core.errors import BadInput
from filrouge.transfer.exports import JsonLinesReader, json_lines, open_export

HEAD: dict[str, Any] = {"filrouge_export": 1, "version": "0", "counts": {}}
texts = st.text(st.characters(exclude_categories=["Cs"]))
NONE = {"added": 0, "present": 0, "forgotten": 0, "bad": 0}


def encoded(rows: list[tuple[str, dict[str, Any]]]) -> list[bytes]:
    return [line.encode() for line in json_lines(HEAD, rows)]


def read(lines: list[bytes]) -> tuple[list[tuple[int, str, dict[str, Any]]], JsonLinesReader]:
    found = open_export(lines[0], lines[1:], 1)
    assert found is not None
    return list(found.rows()), found


@given(st.lists(st.tuples(st.sampled_from(["messages", "memories"]), st.dictionaries(st.just("text"), texts))))
def test_what_was_written_is_read(rows: list[tuple[str, dict[str, Any]]]) -> None:
    lines = encoded(rows)
    found, about = read(lines)
    assert [(table, row) for _, table, row in found] == rows
    assert [number for number, _, _ in found] == list(range(2, len(rows) + 2))
    assert (about.is_complete, about.problems) == (True, [])


@given(st.data())
def test_a_cut_anywhere_is_noticed_and_loses_nothing_before_it(data: st.DataObject) -> None:
    rows = [("messages", {"id": str(number), "text": "é\n" * number}) for number in range(6)]
    whole = b"".join(encoded(rows))
    start = len(encoded(rows)[0])
    cut = data.draw(st.integers(start, len(whole) - 2))
    found, about = read(whole[:cut].splitlines(keepends=True))
    complete = whole[start:cut].count(b"\n")
    assert [row for _, _, row in found[:complete]] == [row for _, row in rows[:complete]]
    assert (about.is_complete, bool(about.problems)) == (False, True)
    assert about.problems[-1][0] in (complete + 1, complete + 2)


def test_a_line_that_was_taken_out_is_missed() -> None:
    lines = encoded([("messages", {"id": "1"}), ("messages", {"id": "2"})])
    _, about = read([lines[0], *lines[2:]])
    assert [problem for _, problem in about.problems] == ["1 of the rows that were written are missing"]


def test_a_broken_line_in_the_middle_is_told_once_and_the_others_go_on() -> None:
    lines = encoded([("messages", {"id": "1"}), ("messages", {"id": "2"})])
    found, about = read([lines[0], b"{oops\n", *lines[2:]])
    assert ([row for _, _, row in found], about.problems) == ([{"id": "2"}], [(2, "not a complete row")])


def test_what_a_later_version_adds_is_passed_over_and_its_own_form_refused() -> None:
    lines = encoded([("messages", {"id": "1"})])
    found, about = read([*lines[:2], b'{"table": "dreams", "id": "d"}\n', *lines[2:]])
    assert ([row for _, _, row in found], about.problems) == ([{"id": "1"}], [])
    assert open_export(b'{"filrouge_export": 1}\n', [], 1) is None
    with pytest.raises(BadInput, match="version 2"):
        open_export(b'{"filrouge_export": 2, "form": "jsonl"}\n', [], 1)


@pytest.mark.proof  # stays in `make test`: the laws of this module
def test_a_hundred_thousand_rows_pass_in_the_room_of_one_piece() -> None:
    def rows() -> Iterator[tuple[str, dict[str, Any]]]:
        yield from (("messages", {"id": str(number), "text": "x" * 200}) for number in range(100_000))

    handed = list[int]()

    def send(piece: dict[str, Any]) -> dict[str, Any]:
        handed.append(len(piece.get("messages", [])))
        return {"projects": NONE, "messages": NONE, "memories": NONE, "beside": {}, "problems": []}

    encoded_lines = (line.encode() for line in json_lines(HEAD, rows()))
    tracemalloc.start()
    found = open_export(next(encoded_lines), encoded_lines, 1)
    assert found is not None
    done = send_lines(found, send)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (sum(handed), done["problems"]) == (100_000, [])
    assert len(handed) > 5
    assert peak < 40_000_000  # all rows at once take several times as much
