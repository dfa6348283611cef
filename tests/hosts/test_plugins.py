"""The plugin for Claude Code and Codex, checked, installed and used by the real command lines.

No settings file names a hook here: what is captured and recalled comes through the plugin alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from filrouge.hosts import plugins

from .command_lines import Desk, Host
from .product import EXECUTABLE, eventually
from .scripted_model import Call, on

ROOT = Path(__file__).parents[2]
RULE = "Ground rule: in this repo always run the tests with `make check-reef`, never pytest."
PORT = "FYI the staging API listens on port 17611."
INSTALL: dict[Host, tuple[list[str], ...]] = {
    "claude-code": (
        ["plugin", "marketplace", "add", str(ROOT)],
        ["plugin", "install", "filrouge@filrouge"],
    ),
    "codex": (
        ["plugin", "marketplace", "add", str(ROOT)],
        ["plugin", "add", "filrouge@filrouge"],
    ),
}


def call(desk: Desk, host: Host, *words: str) -> subprocess.CompletedProcess[str]:
    """One command of an agent's program, in the desk's home."""
    command = [desk.programs[host], *words]
    return subprocess.run(
        command, env=desk.env, cwd=desk.home, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture(scope="module")
def plugged(desk: Desk) -> Desk:
    """The desk with the plugin in both agents, and no hook anywhere else; `filrouge` is on the PATH."""
    with open(os.path.join(desk.home, ".claude", "settings.json"), "w", encoding="utf-8") as file:
        json.dump({}, file)
    os.unlink(os.path.join(desk.home, ".codex", "hooks.json"))
    desk.env["PATH"] = os.pathsep.join([os.path.dirname(EXECUTABLE), desk.env["PATH"]])
    for host, commands in INSTALL.items():
        for words in commands:
            done = call(desk, host, *words)
            assert done.returncode == 0, done.stderr + done.stdout
    return desk


@pytest.mark.parametrize(
    "words",
    [
        ["--strict", "--profile", "directory", plugins.directory("claude-code")],
        ["--strict", str(ROOT)],
    ],
    ids=["plugin", "marketplace"],
)
def test_claude_code_finds_nothing_to_complain_about(desk: Desk, words: list[str]) -> None:
    done = call(desk, "claude-code", "plugin", "validate", *words)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "Validation passed" in done.stdout


def test_codex_lists_the_plugin_and_its_tools(plugged: Desk) -> None:
    assert "installed, enabled" in call(plugged, "codex", "plugin", "list").stdout
    assert "exec filrouge mcp" in call(plugged, "codex", "mcp", "list").stdout


def test_what_claude_code_hears_through_the_plugin_codex_is_told_through_it(plugged: Desk) -> None:
    plugged.model.teach(on("Ground rule", "Understood."), on("FYI the staging", "Noted."))
    project = plugged.project("reef")
    plugged.ask("claude-code", project, RULE, PORT)
    plugged.product.understood()
    assert "17611" in plugged.product.everything_known()

    [answer] = plugged.ask("codex", project, "Which port does the staging API listen on?")
    assert "17611" in answer.first.recalled
    assert "check-reef" in answer.first.recalled


def test_codex_reaches_the_daemon_by_the_plugin_s_tools(plugged: Desk) -> None:
    plugged.product.status()  # the daemon is there: Codex waits for no tool that is still starting
    add = Call("mcp__filrouge__memory_add", {"text": "The reef's buoy answers on channel 40711."})
    plugged.model.teach(on("Keep the buoy in mind", add, "Done."))
    [answer] = plugged.ask("codex", plugged.project("reef"), "Keep the buoy in mind.")

    [fact] = [row for row in plugged.product.facts() if "40711" in row["text"]]
    assert (fact["id"] in answer.requests[-1].text, fact["project_name"]) == (True, "reef")


def test_the_daemon_knows_both_agents_by_their_names(plugged: Desk) -> None:
    def heard() -> bool:
        asked = (plugged.product.run("search", "staging API port", "--json", "--channel", host) for host in INSTALL)
        return all("staging" in printed for printed in asked)

    eventually("both agents were heard", heard)


def test_the_wheel_holds_every_file_of_every_plugin_and_the_launcher_may_run(tmp_path: Path) -> None:
    source = ROOT / "src" / "filrouge" / "hosts" / "plugins"
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT)]
    subprocess.run(command, check=True, timeout=300)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        inside = {one.filename: one.external_attr >> 16 for one in packed.infolist()}
    ours = [path for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    names = [f"filrouge/hosts/plugins/{path.relative_to(source).as_posix()}" for path in ours]
    assert [name for name in names if name not in inside] == []
    assert inside["filrouge/hosts/plugins/filrouge/filrouge.sh"] & 0o111
