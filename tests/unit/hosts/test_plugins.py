"""The plugins' files agree with the program they belong to, and the launcher does no harm where there is none."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import filrouge
from filrouge import hosts
from filrouge.core.errors import BadInput
from filrouge.hosts import plugins

ROOT = Path(__file__).parents[3]
SHARED = Path(plugins.directory("claude-code"))
OPENCLAW = Path(plugins.directory("openclaw"))
PAYLOAD = {"session_id": "s", "cwd": "/", "prompt": "use uv", "last_assistant_message": "Yes.", "agent_type": "Plan"}
TOOL = {"tool_name": "Bash", "tool_use_id": "t", "tool_response": "ok", "compact_summary": "All of it."}


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text("utf-8"))


def launch(tmp_path: Path, *words: str, installed: bool, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the launcher as a host does, in a home of its own; where installed, `filrouge` prints its arguments."""
    place = tmp_path / ".local" / "bin"
    place.mkdir(parents=True)
    if installed:
        (place / "filrouge").write_text('#!/bin/sh\necho "$@"\ncat\n', encoding="utf-8")
        (place / "filrouge").chmod(0o755)
    return subprocess.run(
        ["/bin/sh", str(SHARED / "filrouge.sh"), *words],
        input="what the host wrote", env={"HOME": str(tmp_path), "PATH": "/nowhere:/bin"} | environ,
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_host_s_plugin_is_a_directory_of_the_package() -> None:
    assert plugins.directory("codex") == plugins.directory("claude-code")
    assert {name for name in ("codex", "openclaw", "opencode") if os.listdir(plugins.directory(name))} == {
        "codex", "openclaw", "opencode",
    }  # fmt: skip


def test_a_host_without_a_plugin_is_an_error_that_names_those_that_have_one() -> None:
    with pytest.raises(BadInput, match="cursor") as raised:
        plugins.directory("cursor")
    assert "opencode" in raised.value.remedy


@pytest.mark.parametrize(
    "manifest",
    [
        SHARED / ".claude-plugin" / "plugin.json",
        SHARED / ".codex-plugin" / "plugin.json",
        OPENCLAW / "openclaw.plugin.json",
        OPENCLAW / "package.json",
    ],
    ids=lambda path: path.name,
)
def test_a_plugin_has_the_version_of_the_program(manifest: Path) -> None:
    assert read(manifest)["version"] == filrouge.__version__


@pytest.mark.parametrize("host", ["claude-code", "codex"])
def test_every_hook_of_the_shared_file_tells_something_to_either_host_s_parser(host: str) -> None:
    hooks = read(SHARED / "hooks" / "hooks.json")["hooks"]
    told = {
        name: hosts.parse(
            PAYLOAD | TOOL | {"hook_event_name": name}, host=host, environ={}, at=1.0, new_id=lambda: "e" * 26
        )
        for name in hooks
    }
    assert [name for name, events in told.items() if not events] == []
    assert len(told) == 8
    seconds = {name: handler["timeout"] for name, [group] in hooks.items() for handler in group["hooks"]}
    assert seconds["SessionEnd"] == 3  # Codex allows no more
    assert all(2 < value <= 10 for value in seconds.values())


def test_every_path_in_the_manifests_is_there() -> None:
    codex = read(SHARED / ".codex-plugin" / "plugin.json")
    assert [name for name in ("skills", "mcpServers", "hooks") if not (SHARED / codex[name]).exists()] == []
    for market in (ROOT / ".claude-plugin" / "marketplace.json", ROOT / ".agents" / "plugins" / "marketplace.json"):
        [plugin] = read(market)["plugins"]
        source = plugin["source"]
        assert (ROOT / (source if isinstance(source, str) else source["path"])).resolve() == SHARED.resolve()
    [plugin] = read(SHARED / ".claude-plugin" / "marketplace.json")["plugins"]  # the directory is a market of its own
    assert (SHARED / plugin["source"]).resolve() == SHARED.resolve()
    [entry] = read(OPENCLAW / "package.json")["openclaw"]["extensions"]
    assert (OPENCLAW / entry).is_file()
    [skills] = read(OPENCLAW / "openclaw.plugin.json")["skills"]
    assert (OPENCLAW / skills / "filrouge-memory" / "SKILL.md").is_file()


@pytest.mark.parametrize("skills", [SHARED / "skills", OPENCLAW / "skills"], ids=["shared", "openclaw"])
def test_a_skill_is_named_like_its_directory_and_described_in_a_line(skills: Path) -> None:
    [skill] = list(skills.iterdir())
    _, head, body = (skill / "SKILL.md").read_text("utf-8").split("---\n", 2)
    fields = dict(line.split(": ", 1) for line in head.splitlines())
    assert fields["name"] == skill.name
    assert len(fields["description"]) < 160
    assert "filrouge" in body


def test_openclaw_s_skill_asks_at_the_start_of_a_task_and_tells_at_its_end() -> None:
    body = (OPENCLAW / "skills" / "filrouge-memory" / "SKILL.md").read_text("utf-8")
    start, end = body.index("filrouge context"), body.index("filrouge extract")
    assert start < end
    assert "--source openclaw/PROJECT" in body


@pytest.mark.parametrize(
    ("environ", "words"),
    [({}, "hook --host claude-code"), ({"PLUGIN_ROOT": "/p", "CLAUDE_PLUGIN_ROOT": "/p"}, "hook --host codex")],
)
def test_the_launcher_finds_the_program_and_names_the_host_that_started_it(
    tmp_path: Path, environ: dict[str, str], words: str
) -> None:
    done = launch(tmp_path, "hook", installed=True, **environ)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{words}\nwhat the host wrote", "")


def test_without_a_program_a_hook_is_silent(tmp_path: Path) -> None:
    if any(os.path.exists(f"{place}/filrouge") for place in ("/usr/local/bin", "/opt/homebrew/bin")):
        pytest.skip("a filrouge is installed for the whole machine, where the launcher looks last")
    done = launch(tmp_path, "hook", installed=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_without_a_program_the_tools_say_the_way_out(tmp_path: Path) -> None:
    if any(os.path.exists(f"{place}/filrouge") for place in ("/usr/local/bin", "/opt/homebrew/bin")):
        pytest.skip("a filrouge is installed for the whole machine, where the launcher looks last")
    done = launch(tmp_path, "mcp", installed=False)
    assert (done.returncode, done.stdout) == (127, "")
    assert "uv tool install" in done.stderr
