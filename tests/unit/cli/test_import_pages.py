"""How what is read in is cut into pages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from filrouge.capture.models import LONGEST, TOGETHER, ImportedMemory, ImportedTurn, Item, Trouble
from filrouge.cli.imports import Page, Passed, Wanted, pages_of_history, pages_of_items
from filrouge.core.errors import BadInput
from filrouge.hosts.transcripts import histories
from tests.support.histories import Claude, long_history

ANY, TAKEN = Wanted(), 10_000_000


def turn(number: int, text: str = "x", at: float = 0.0) -> ImportedTurn:
    return ImportedTurn("s", str(number), "user", "prompt", text, at)


def cut(items: list[Item], wanted: Wanted = ANY, passed: Passed | None = None) -> list[Page]:
    return list(pages_of_items(items, wanted, ("shop",), passed or Passed()))


def test_pages_hold_everything_once_in_order_and_no_more_than_a_daemon_takes() -> None:
    items: list[Item] = [turn(n) for n in range(TOGETHER + 7)]
    items += [turn(1000 + n, "\u4e2d" * (LONGEST - n)) for n in range(3)]
    items += [ImportedMemory(key=str(n), text="y") for n in range(TOGETHER + 1)]
    pages = cut(items)
    assert [one.key for page in pages for one in page.turns] == [str(n) for n in [*range(507), 1000, 1001, 1002]]
    assert sum(len(page.memories) for page in pages) == TOGETHER + 1
    assert max(len(page.turns) + len(page.memories) for page in pages) == TOGETHER
    assert max(len(json.dumps(page.to_json())) for page in pages) < TAKEN
    assert sum(page.done for page in pages) == len(items)


def test_a_text_is_cut_at_a_million_characters_and_made_fit_to_travel() -> None:
    passed = Passed()
    pages = cut([turn(1, "a" * (LONGEST + 1)), turn(2, "half \ud83d and\0 nothing")], passed=passed)
    first, second = (one.text for page in pages for one in page.turns)
    assert (len(first), passed.counts["cut"], second) == (LONGEST, 1, "half ? and nothing")


def test_what_tells_no_project_gets_the_one_that_was_named_and_what_is_older_stays_out() -> None:
    since, passed = Wanted(since=datetime(2025, 1, 1, tzinfo=UTC)), Passed()
    items: list[Item] = [turn(1, at=1.0), turn(2, at=1.8e9), turn(3), ImportedMemory(key="m", text="y", project=("a",))]
    [page] = cut([*items, Trouble("file:3", "no JSON")], since, passed)
    assert [(one.key, one.project) for one in page.turns] == [("2", ("shop",)), ("3", ("shop",))]
    assert [one.project for one in page.memories] == [("a",)]
    assert (passed.counts["older"], passed.problems) == (1, [Trouble("file:3", "no JSON")])


def test_what_stands_before_damage_is_handed_over_before_the_damage_is_told() -> None:
    def broken() -> Iterator[Item]:
        yield from (turn(number) for number in range(3))
        raise BadInput("cut off")

    pages = pages_of_items(broken(), ANY, (), Passed())
    assert len(next(pages).turns) == 3
    with pytest.raises(BadInput, match="cut off"):
        next(pages)


def test_only_the_last_page_of_what_was_read_says_how_far_it_is(tmp_path: Path) -> None:
    long_history(tmp_path, 1, 2 * TOGETHER + 1)
    [history] = histories("claude-code", str(tmp_path))
    pages = list(pages_of_history("claude-code", history, 0, ANY, Passed()))
    assert [len(page.turns) for page in pages] == [TOGETHER, TOGETHER, 1]
    assert [page.mark and page.mark["offset"] for page in pages] == [None, None, history.size]
    assert list(pages_of_history("claude-code", history, history.size, ANY, Passed())) == []
    some = pages_of_history("claude-code", history, 0, Wanted(project=frozenset({"blog"})), Passed())
    assert [(page.turns, page.mark) for page in some] == [([], None)]


def test_a_file_that_became_shorter_is_read_from_its_start(tmp_path: Path) -> None:
    Claude(tmp_path).prompt("Where do the drafts live?").write()
    [history] = histories("claude-code", str(tmp_path))
    [page] = pages_of_history("claude-code", history, history.size + 100, ANY, Passed())
    assert len(page.turns) == 1
