"""`filrouge rules`, as a person types it."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from filrouge.memories.repository import MAX_RULES
from tests.unit.server.conftest import serving

from .test_changing import Shell

SAID = "Always run the linter before a commit."


@pytest.fixture
def shell(tmp_path: Path) -> Generator[Shell]:
    with serving(str(tmp_path)) as api:
        yield Shell(api=api)


def test_a_rule_is_added_listed_switched_edited_and_removed(shell: Shell) -> None:
    assert shell("rules").out.startswith("There are no rules of this project or of you yet.")
    one = shell.json("rules", "add", SAID, "--user")
    assert (one["scope"], one["standing"]) == ("user", "standing")
    assert shell.json("rules") == shell.json("rules", "list") == shell.api.get("/api/memory/rules") == [one]
    assert shell("rules").out == f"{one['id']}\tstanding\tuser\tyou {one['created_at'][:10]}\t{SAID}\n"
    assert shell("rules", "disable", one["id"]).out == f"Disabled: {one['id']} {SAID}\n"
    assert shell.json("rules")[0]["standing"] == "disabled"
    assert shell("rules", "enable", one["id"]).out.startswith("Enabled: ")
    new = shell.json("rules", "edit", one["id"], "Never commit without the linter.")
    assert shell("rules", "remove", new["id"]).out == f"In the bin: {new['id']}\n"
    assert len(shell.json("rules", "--all")) == 2


def test_who_adds_one_too_many_is_told_which_wait_and_what_to_do(shell: Shell) -> None:
    for number in range(MAX_RULES):
        body = {"text": f"Never touch module number {number}.", "scope": "user"}
        assert shell.api.ask("POST", "/api/memory/rules", body).status == 201
    assert "waits" not in shell("rules").out
    told = shell("rules", "add", SAID, "--user").out.splitlines()
    assert told[1] == "1 rule waits: 20 of a scope are given to agents. Remove, disable or pin some to choose which."
    assert "\twaiting\t" in shell("rules").out


def test_what_is_refused_says_why_and_what_next(shell: Shell) -> None:
    refused = shell("rules", "disable", "nobody")
    assert (refused.code, refused.out) == (1, "")
    assert "There is no memory 'nobody'." in refused.err
