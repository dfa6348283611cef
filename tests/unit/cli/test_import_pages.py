"""How what is read in is cut into pages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from filrouge.capture.models import (
    IMPORT_BATCH,
    MAX_IMPORT_CHARACTERS,
    ImportedMemory,
    ImportedTurn,
    ImportItem,
    ImportProblem,
)
from filrouge.cli.imports import ImportFilter, Page, Skipped, pages_of_history, pages_of_items
from filrouge.core.errors import BadInput
from filrouge.hosts.transcripts import find_transcripts
from tests.support.histories import Claude, long_history

ANY, TAKEN = ImportFilter(), 10_000_000


def turn(number: int, text: str = "x", at: float = 0.0) -> ImportedTurn:
    return ImportedTurn("s", str(number), "user", "prompt", text, at)


def cut(items: list[ImportItem], wanted: ImportFilter = ANY, passed: Skipped | None = None) -> list[Page]:
    return list(pages_of_items(items, wanted, ("shop",), passed or Skipped()))


def test_pages_hold_everything_once_in_order_and_no_more_than_a_daemon_takes() -> None:
    items: list[ImportItem] = [turn(n) for n in range(IMPORT_BATCH + 7)]
    items += [turn(1000 + n, "\u4e2d" * (MAX_IMPORT_CHARACTERS - n)) for n in range(3)]
    items += [ImportedMemory(key=str(n), text="y") for n in range(IMPORT_BATCH + 1)]
    pages = cut(items)
    assert [one.key for page in pages for one in page.turns] == [str(n) for n in [*range(507), 1000, 1001, 1002]]
    assert sum(len(page.memories) for page in pages) == IMPORT_BATCH + 1
    assert max(len(page.turns) + len(page.memories) for page in pages) == IMPORT_BATCH
    assert max(len(json.dumps(page.to_json())) for page in pages) < TAKEN
    assert sum(page.done for page in pages) == len(items)


def test_a_text_is_cut_at_a_million_characters_and_made_fit_to_travel() -> None:
    passed = Skipped()
    pages = cut([turn(1, "a" * (MAX_IMPORT_CHARACTERS + 1)), turn(2, "half \ud83d and\0 nothing")], passed=passed)
    first, second = (one.text for page in pages for one in page.turns)
    assert (len(first), passed.counts["cut"], second) == (MAX_IMPORT_CHARACTERS, 1, "half ? and nothing")


def test_what_tells_no_project_gets_the_one_that_was_named_and_what_is_older_stays_out() -> None:
    since, passed = ImportFilter(since=datetime(2025, 1, 1, tzinfo=UTC)), Skipped()
    items: list[ImportItem] = [
        turn(1, at=1.0),
        turn(2, at=1.8e9),
        turn(3),
        ImportedMemory(key="m", text="y", project=("a",)),
    ]
    [page] = cut([*items, ImportProblem("file:3", "no JSON")], since, passed)
    assert [(one.key, one.project) for one in page.turns] == [("2", ("shop",)), ("3", ("shop",))]
    assert [one.project for one in page.memories] == [("a",)]
    assert (passed.counts["older"], passed.problems) == (1, [ImportProblem("file:3", "no JSON")])


def test_what_stands_before_damage_is_handed_over_before_the_damage_is_told() -> None:
    def broken() -> Iterator[ImportItem]:
        yield from (turn(number) for number in range(3))
        raise BadInput("cut off")

    pages = pages_of_items(broken(), ANY, (), Skipped())
    assert len(next(pages).turns) == 3
    with pytest.raises(BadInput, match="cut off"):
        next(pages)


def test_only_the_last_page_of_what_was_read_says_how_far_it_is(tmp_path: Path) -> None:
    long_history(tmp_path, 1, 2 * IMPORT_BATCH + 1)
    [history] = find_transcripts("claude-code", str(tmp_path))
    pages = list(pages_of_history("claude-code", history, 0, ANY, Skipped()))
    assert [len(page.turns) for page in pages] == [IMPORT_BATCH, IMPORT_BATCH, 1]
    assert [page.mark and page.mark["offset"] for page in pages] == [None, None, history.size]
    assert list(pages_of_history("claude-code", history, history.size, ANY, Skipped())) == []
    some = pages_of_history("claude-code", history, 0, ImportFilter(project=frozenset({"blog"})), Skipped())
    assert [(page.turns, page.mark) for page in some] == [([], None)]


def test_a_file_that_became_shorter_is_read_from_its_start(tmp_path: Path) -> None:
    Claude(tmp_path).prompt("Where do the drafts live?").write()
    [history] = find_transcripts("claude-code", str(tmp_path))
    [page] = pages_of_history("claude-code", history, history.size + 100, ANY, Skipped())
    assert len(page.turns) == 1
