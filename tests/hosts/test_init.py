"""Clean settings, `filrouge init`, real sessions that remember and recall, `filrouge uninstall`: nothing of it is left.

Léa's settings have hooks, a layout and (in Codex's TOML) comments of her own. The hooks of Filrouge are those that
`init` wrote, not the tests' own; what the model is shown of the past came through them alone.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

import pytest

from .command_lines import Desk

SETTINGS = """{
    "includeCoAuthoredBy": false,
    "hooks": {
        "Stop": [ { "hooks": [ { "type": "command", "command": "touch \\"$HOME/stopped\\"", "timeout": 5 } ] } ]
    }  }
"""
OWN_HOOKS = '{"hooks":{"SessionStart":[{"hooks":[{"type":"command","command":"touch \\"$HOME/began\\""}]}]}}'
RULE = "Ground rule before we start: in this repo always run the tests with `make check-tide`, never pytest."
PORT = "FYI the staging API listens on port 17300."
QUESTION = "Which port does the staging API listen on?"


@dataclass(frozen=True, kw_only=True)
class Connected:
    """A desk whose agents were connected by `init`, with the bytes of the settings as they were before."""

    desk: Desk
    before: dict[str, bytes]
    printed: dict[str, Any]

    def path(self, name: str) -> str:
        return os.path.join(self.desk.home, name)

    def read(self, name: str) -> bytes | None:
        if not os.path.exists(self.path(name)):
            return None
        with open(self.path(name), "rb") as file:
            return file.read()


NAMES = (".claude/settings.json", ".codex/hooks.json", ".codex/config.toml")


@pytest.fixture(scope="module")
def connected(desk: Desk) -> Connected:
    """Léa runs `filrouge init`."""
    for name, text in ((NAMES[0], SETTINGS), (NAMES[1], OWN_HOOKS)):
        desk.write(desk.home, name, text)
    with open(os.path.join(desk.home, NAMES[2]), "a", encoding="utf-8") as file:
        file.write("# the last line is a comment without an end")
    here = Connected(desk=desk, before={}, printed={})
    here.before.update({name: here.read(name) or b"" for name in NAMES})
    hosts = ("--host", "claude-code", "--host", "codex")
    here.printed.update(json.loads(desk.product.run("init", *hosts, "--yes", "--json")))
    return here


def test_init_says_which_files_it_wrote_and_that_codex_asks_for_trust(connected: Connected) -> None:
    paths = {os.path.relpath(one["path"], connected.desk.home) for one in connected.printed["files"]}
    assert paths == {*NAMES, ".claude.json"}
    assert "/hooks" in connected.printed["then"]["codex"]
    again = json.loads(connected.desk.product.run("init", "--yes", "--json", "--host", "codex"))
    assert (again["files"], again["settled"]) == ([], ["codex"])


def test_what_is_said_in_one_agent_comes_back_in_the_other(connected: Connected) -> None:
    desk = connected.desk
    project = desk.project("harbor")
    desk.ask("claude-code", project, RULE, PORT)
    desk.product.understood()
    [answer] = desk.ask("codex", project, QUESTION)
    assert "17300" in answer.first.text
    assert "check-tide" in answer.first.text
    [answer] = desk.ask("claude-code", project, QUESTION)
    assert "17300" in answer.first.text
    assert any(name.startswith("mcp__filrouge__") for name in answer.first.tools) or "filrouge" in answer.first.text
    # Her own hooks run as before.
    assert os.path.exists(connected.path("stopped"))
    assert os.path.exists(connected.path("began"))


def test_uninstall_leaves_what_was_there(connected: Connected) -> None:
    connected.desk.product.run("uninstall", "--yes")
    after = {name: connected.read(name) for name in NAMES}
    config = after.pop(NAMES[2]) or b""
    assert after == {name: content for name, content in connected.before.items() if name in after}
    # Codex may write into its own file in between; then only what is ours is gone.
    assert config == connected.before[NAMES[2]] or (
        b"filrouge" not in config and connected.before[NAMES[2]].splitlines()[0] in config
    )
    own = json.loads(connected.read(".claude.json") or b"{}")
    assert "filrouge" not in own.get("mcpServers", {})
    assert own  # Claude Code keeps its own things there


def test_afterwards_nothing_runs_and_nothing_is_shown(connected: Connected) -> None:
    desk = connected.desk
    desk.product.run("daemon", "start")  # uninstall stopped it
    before = desk.product.status()["events"]
    [answer] = desk.ask("claude-code", desk.project("harbor"), QUESTION)
    assert "17300" not in answer.first.text
    assert desk.product.status()["events"] == before
    # What is known stays.
    assert "17300" in desk.product.everything_known()
