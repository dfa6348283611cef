"""What is held against the newest backup is the same row: whole memories are not called damaged for being others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import apsw
import pytest

from filrouge.core.clock import SystemClock
from filrouge.core.paths import DATABASE
from filrouge.maintenance import backup_files
from filrouge.maintenance.backup_service import back_up
from filrouge.maintenance.repair import diagnose
from filrouge.maintenance.restore import reset, restore
from filrouge.projects import service
from filrouge.testing import idle, running
from tests.support.given import BLOG, SHOP, say

CLOCK = SystemClock()


@pytest.fixture
def home(tmp_path: Path) -> str:
    return str(tmp_path / "home")


def said(home: str, *texts: str, project: tuple[str, ...] = SHOP) -> None:
    """A daemon hears this and leaves."""
    with running(home) as parts:
        for text in texts:
            say(parts, text, project)


def numbers(path: str) -> dict[int, str]:
    """The ids of the turns by their numbers."""
    connection: Any = apsw.Connection(path)
    try:
        return dict(connection.execute("select seq, id from turns"))
    finally:
        connection.close()


def test_a_memory_that_began_anew_is_not_held_against_the_one_before(home: str) -> None:
    said(home, "We deploy with ansible", "The shop listens on port 8080")
    kept = reset(home, CLOCK)
    said(home, "We deploy with terraform", "The shop listens on port 9090")
    before, now = numbers(backup_files.path_of(home, kept)), numbers(os.path.join(home, DATABASE))
    assert before.keys() & now.keys()
    assert not set(before.values()) & set(now.values())
    assert diagnose(home) == []


def test_a_memory_that_went_on_from_an_older_backup_is_not_held_against_what_it_left(home: str) -> None:
    said(home, "We deploy with ansible")
    older = back_up(home, "hand", CLOCK.now())
    said(home, "The shop listens on port 8080")
    restore(home, older.name, CLOCK)
    said(home, "The almanac listens on port 9090")
    assert diagnose(home) == []


def test_two_projects_that_were_put_together_are_no_damage(home: str) -> None:
    said(home, "We deploy the shop with ansible")
    said(home, "We deploy the blog with terraform", project=BLOG)
    back_up(home, "hand", CLOCK.now())
    with running(home) as parts:
        service.merge_projects(parts, SHOP, BLOG)
        idle(parts)
    assert diagnose(home) == []


@pytest.mark.parametrize("table", ["events", "turns", "memories"])
def test_the_same_row_that_says_something_else_is_still_noticed(home: str, table: str) -> None:
    said(home, "We deploy with ansible")
    back_up(home, "hand", CLOCK.now())
    connection: Any = apsw.Connection(os.path.join(home, DATABASE))
    connection.execute(f"update {table} set session_id = 'another' where seq = 1")
    connection.close()
    assert f"1 rows of {table} differ from the newest backup" in diagnose(home)


@pytest.mark.parametrize("table", ["events", "turns"])
def test_a_row_in_a_project_into_which_nobody_put_it_is_noticed(home: str, table: str) -> None:
    said(home, "We deploy the shop with ansible")
    said(home, "We deploy the blog with terraform", project=BLOG)
    back_up(home, "hand", CLOCK.now())
    connection: Any = apsw.Connection(os.path.join(home, DATABASE))
    for there in ("'origin:forge.example/ana/sh0p'", "(select id from projects where name = 'blog')", "null"):
        connection.execute(f"update {table} set project_id = {there} where seq = 1")
        assert f"1 rows of {table} differ from the newest backup" in diagnose(home)
    connection.close()
