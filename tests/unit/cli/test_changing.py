"""The commands for changing one's mind, as a person types them, against a daemon on a throw-away home."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
import pytest

from filrouge.core.paths import DATABASE
from tests.support.shell import Typed
from tests.support.shell import typed as shell_typed
from tests.unit.server.conftest import Api, serving

SHOP = "origin:forge.example/ana/shop"
PORT = "For the record: production listens on port 8443."
CHANGE = "Correction: production listens on port 9443, not 8443."


def typed(home: str, *words: str) -> Typed:
    """A command at a home."""
    return shell_typed(*words, environ={**os.environ, "FILROUGE_HOME": home})


@dataclass(frozen=True, kw_only=True)
class Shell:
    """A person at a home."""

    api: Api

    def __call__(self, *words: str) -> Typed:
        return typed(self.api.home, *words)

    def json(self, *words: str) -> Any:
        typed = self(*words, "--json")
        assert (typed.code, typed.err) == (0, ""), typed
        return json.loads(typed.out)

    def state(self, memory_id: str) -> str:
        return self.api.get(f"/api/memory/memories/{memory_id}")["state"]


@pytest.fixture
def shell(tmp_path: Path) -> Generator[Shell]:
    with serving(str(tmp_path)) as api:
        yield Shell(api=api)


def told(shell: Shell) -> str:
    [action] = shell.api.remember(PORT, SHOP)
    return action["id"]


def test_a_memory_is_pinned_superseded_binned_and_restored(shell: Shell) -> None:
    one = told(shell)
    assert shell("pin", one).out == f"Pinned: {one}\n"
    assert shell("unpin", one).out == f"No longer pinned: {one}\n"
    assert shell("bin", one).out == f"In the bin: {one}\n"
    assert shell("restore", one).out == f"Live again: {one}\n"
    replaced = shell.json("supersede", one, "Production listens on port 7000")
    assert (replaced["old_id"], shell.state(one), shell.state(replaced["new_id"])) == (one, "superseded", "live")
    refused = shell("restore", one)
    assert (refused.code, refused.out) == (2, "")
    assert f"filrouge history {replaced['new_id']}" in refused.err


def test_history_shows_versions_and_entries_and_undo_says_what_it_does(shell: Shell) -> None:
    old = told(shell)
    [change] = shell.api.remember(CHANGE, SHOP)
    shown = shell("history", old).out.splitlines()
    assert [line.split()[:2] for line in shown[:3:2]] == [[old, "(superseded)"], [change["id"], "(live)"]]
    assert all(line.startswith("  said ") for line in shown[1:4:2])
    assert [line.split("\t")[3] for line in shown[4:]] == ["add", "update"]
    entry = shown[-1].split("\t")[0]
    would = shell("undo", entry, "--dry-run")
    assert would.out.startswith(f"Takes back entry {entry}, update of {change['id']}")
    assert would.out.endswith("Nothing was changed.\n")
    assert shell.state(old) == "superseded"
    did = shell("undo", old)
    assert f"live again: {old}" in did.out
    assert shell.state(old) == "live"
    assert "update (undone)" in shell("history", old).out
    again = shell("undo", entry)
    assert (again.code, "To do it again, undo entry" in again.err) == (2, True)


def test_what_waits_is_listed_shown_and_settled(shell: Shell) -> None:
    assert shell("review").out == "Nothing waits for review.\n"
    old = told(shell)
    shell("pin", old)
    told_back = shell("remember", CHANGE, "--project", SHOP).out.splitlines()
    [waiting] = shell.json("review")
    id_ = waiting["id"]
    assert told_back == [
        f"In conflict with what is known: production listens on port 8443. (a fact of the project shop, {old})",
        f"It waits for you: filrouge review {id_}",
    ]
    assert shell("review").out.split("\t")[:3] == [id_, "conflict", "open"]
    assert f"Settle it: filrouge review {id_} --keep old|new|both" in shell("review", id_).out
    assert "1 waiting (filrouge review)" in shell("status").out
    for words in (("--keep", "new"), (id_, "--keep", "new", "--accept")):
        assert shell("review", *words).code == 2
    assert "It is one of: old, new, both." in shell("review", id_, "--accept").err
    assert shell("review", id_, "--keep", "new").out.startswith("Took the new: ")
    assert (shell.state(old), shell.state(id_)) == ("superseded", "live")
    assert shell("review", "--all").out.split("\t")[2] == "new"


def test_the_journal_is_verified_and_a_change_behind_its_back_is_6(shell: Shell) -> None:
    told(shell)
    sound = shell("audit", "verify")
    assert (sound.code, sound.out) == (0, "1 entries read, 0 of them forgotten.\nEvery entry holds.\n")
    connection: Any = apsw.Connection(str(Path(shell.api.home) / DATABASE))
    connection.execute("update journal set actor = 'somebody'")
    connection.close()
    broken = shell("audit", "verify")
    assert (broken.code, "Entry 1 does not hold: chain broken." in broken.out) == (6, True)
    told_json = shell("audit", "verify", "--json")
    assert (told_json.code, json.loads(told_json.out)["broken_at"]) == (6, 1)
