"""`filrouge project`, as a person types it."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.unit.server.conftest import serving

from .test_changing import Shell

OLD, NEW = "origin:old.example/ana/shop", "origin:new.example/ana/shop"
PORT = "For the record: production listens on port 8443."


@pytest.fixture
def shell(tmp_path: Path) -> Generator[Shell]:
    with serving(str(tmp_path)) as api:
        yield Shell(api=api)


def test_projects_are_listed_with_their_names_and_what_they_hold(shell: Shell) -> None:
    assert shell("project", "list").out.startswith("There is no project yet")
    assert shell.json("project", "list") == []
    shell.api.remember(PORT, OLD, "path:/shop")
    assert shell.json("project", "list") == shell.api.get("/api/memory/projects")
    shown = shell("project", "list").out
    assert (OLD in shown, "path:/shop" in shown, "1 memories, 1 turns" in shown) == (True, True, True)


def test_another_name_is_given_as_a_person_would_write_it(shell: Shell, tmp_path: Path) -> None:
    shell.api.remember(PORT, OLD, "path:/shop")
    place = tmp_path / "elsewhere"
    place.mkdir()
    for other, name in (
        ("git@new.example:ana/shop.git", NEW),
        ("https://forge.example/ana/shop", "origin:forge.example/ana/shop"),
        ("boutique", "name:boutique"),
        ("root:0123abc", "root:0123abc"),
        (str(place), f"path:{place}"),
    ):
        assert name in shell.json("project", "alias", "shop", other)["aliases"], other
    again = shell("project", "alias", OLD, "boutique")
    assert (again.code, again.out.count("name:boutique")) == (0, 1)


def test_two_projects_are_put_together_after_the_plan_was_shown_and_a_yes(shell: Shell) -> None:
    shell.api.remember(PORT, OLD)
    shell.api.remember("We decided on Valkey for the job queue.", NEW)
    shown = shell("project", "merge", OLD, NEW, "--dry-run").out
    assert ("moves 1 memories, 1 turns" in shown, "cannot be undone" in shown) == (True, True)
    asked = shell("project", "merge", OLD, NEW)
    assert (asked.code != 0, "cannot be undone" in asked.out, "--yes" in asked.err) == (True, True, True)
    assert shell.json("project", "merge", OLD, NEW, "--dry-run")["dry_run"] is True
    assert len(shell.json("project", "list")) == 2
    done = shell.json("project", "merge", OLD, NEW, "--yes")
    assert (done["dry_run"], done["memories"], done["aliases"]) == (False, 1, [OLD])
    [left] = shell.json("project", "list")
    assert (left["id"], left["memories"], left["aliases"]) == (NEW, 2, sorted([OLD, NEW]))
    assert shell("project", "merge", OLD, NEW, "--yes").err.count("already") == 1


def test_a_short_name_of_two_projects_is_refused_and_both_are_named(shell: Shell) -> None:
    shell.api.remember(PORT, OLD)
    shell.api.remember(PORT, NEW)
    refused = shell("project", "merge", "shop", NEW, "--yes")
    assert (refused.code, OLD in refused.err, NEW in refused.err) == (2, True, True)


def test_a_folder_joins_the_project_that_its_file_names_after_the_plan_was_shown_and_a_yes(
    shell: Shell, tmp_path: Path
) -> None:
    folders = [tmp_path / name for name in ("shop", "clone")]
    for place in folders:
        place.mkdir()
        (place / ".filrouge.toml").write_text('project = "shop"\n')
        shell.api.remember(PORT, "name:shop", f"path:{place}")
    clone = str(folders[1])
    assert shell.json("status")["waiting_folders"] == [{"name": "shop", "folder": clone}]
    assert "Not joined" in shell("status").out
    shown = shell("project", "join", clone)
    assert (shown.code != 0, "belongs to other folders" in shown.out, "--yes" in shown.err) == (True, True, True)
    assert shell.json("project", "join", clone, "--dry-run")["folders"] == [f"path:{folders[0]}"]
    assert shell.json("project", "join", clone, "--yes")["agreed"] is True
    assert "Not joined" not in shell("status").out
    assert "is part of the project 'shop'" in shell("project", "join", clone).out
    assert "No .filrouge.toml" in shell("project", "join", str(tmp_path)).err
    assert "There is no folder" in shell("project", "join", "/no/such/folder").err
