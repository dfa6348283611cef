"""What the doctor says and does about entries of ours that are not as `init` writes them today."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from filrouge.hosts import plugins
from filrouge.hosts.setup.files import Machine, this_machine
from filrouge.hosts.setup.plan import apply_change, plan_connecting, plan_disconnecting

from .patient import Patient, saw, written

SETTINGS = ".claude/settings.json"


def init(patient: Patient, *names: str, executable: str = "", tools: bool = True) -> None:
    """Connect agents as `init` does, perhaps with a program that lay elsewhere."""
    machine = this_machine(patient.environ)
    machine = Machine(environ=machine.environ, executable=executable or machine.executable)
    for change in plan_connecting(machine, patient.home, names, tools=tools).changes:
        apply_change(change, patient.home)


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def command(hooks: Mapping[str, Any], event: str) -> str:
    [group] = hooks[event]
    return str(group["hooks"][0]["command"])


def test_what_init_wrote_is_as_it_should_be(bare: Patient) -> None:
    assert bare.finding("What init wrote").cause == "`init` wrote nothing"
    init(bare, "claude-code", "codex", "gemini", "cursor", "vscode", "opencode", "openclaw")
    found = bare.finding("What init wrote")
    saw(found, "ok", "Claude Code, Codex, Gemini CLI, Cursor, VS Code, OpenCode, OpenClaw", "")


def test_entries_that_run_what_is_gone_are_named_and_mended(bare: Patient) -> None:
    path = written(bare.user / SETTINGS, '{\n  // mine\n  "model": "opus"\n}\n')
    init(bare, "claude-code", "codex", executable="/opt/gone/filrouge")
    saw(
        bare.finding("What init wrote"),
        "warn",
        f"Claude Code, Codex: entries differ from what `init` writes now: {path}",
        "filrouge doctor --fix",
    )
    done = bare.mended("What init wrote")
    assert (done.before.state, done.after.state) == ("warn", "ok")
    assert f"{path}: Filrouge's entries are as `init` writes them now" in done.did
    assert any("type /hooks" in deed for deed in done.did)
    assert "// mine" in path.read_text()
    assert "/opt/gone" not in path.read_text() + (bare.user / ".codex/config.toml").read_text()


def test_an_event_that_is_missing_and_an_old_limit_are_mended(bare: Patient) -> None:
    init(bare, "claude-code")
    path = bare.user / SETTINGS
    said = read(path)
    whole = said["hooks"]
    del said["hooks"]["PreCompact"]
    said["hooks"]["Stop"][0]["hooks"][0]["timeout"] = 1
    written(path, json.dumps(said))
    assert bare.finding("What init wrote").state == "warn"
    bare.mended("What init wrote")
    hooks = read(path)["hooks"]
    assert set(hooks) == {*whole, "PreCompact"}
    assert hooks["Stop"][0]["hooks"][0]["timeout"] == 10


def test_another_filrouge_of_this_machine_is_noted_only(bare: Patient) -> None:
    other = bare.program("filrouge", "true")
    init(bare, "claude-code", "codex", executable=str(other))
    saw(
        bare.finding("What init wrote"),
        "note",
        "connected to another Filrouge than this one",
        "filrouge init --host claude-code",
    )
    other.unlink()
    assert bare.finding("What init wrote").state == "warn"


def test_mending_leaves_hooks_of_others_where_they_are(bare: Patient) -> None:
    init(bare, "claude-code", executable="/opt/gone/filrouge")
    path = bare.user / SETTINGS
    said = read(path)
    theirs = {"hooks": [{"type": "command", "command": "notify --hook"}]}
    said["hooks"]["Stop"].insert(0, theirs)
    written(path, json.dumps(said))
    bare.mended("What init wrote")
    first, ours = read(path)["hooks"]["Stop"]
    assert first == theirs
    assert ours["hooks"][0]["command"] == this_machine(bare.environ).executable


@pytest.mark.parametrize("content", ['{"hooks": {', "\udcff"])
def test_a_file_that_is_broken_is_named_and_left_alone(bare: Patient, content: str) -> None:
    init(bare, "claude-code", executable="/opt/gone/filrouge")
    path = bare.user / SETTINGS
    broken = content.encode("utf-8", "surrogateescape")
    path.write_bytes(broken)
    saw(
        bare.finding("What init wrote"),
        "fail",
        f"Claude Code: {path}:",
        f"Mend {path}; until then `--fix` does not change it",
    )
    bare.mended("What init wrote")
    assert path.read_bytes() == broken


def test_an_agent_that_nobody_connected_stays_so(bare: Patient) -> None:
    init(bare, "codex", executable="/opt/gone/filrouge")
    theirs = bare.claude("Stop")  # by hand, so it is nothing that init wrote
    before = theirs.read_bytes()
    bare.mended("What init wrote")
    assert theirs.read_bytes() == before
    assert not (bare.user / ".claude.json").exists()


def test_hooks_that_came_without_tools_get_none(bare: Patient) -> None:
    init(bare, "claude-code", executable="/opt/gone/filrouge", tools=False)
    bare.mended("What init wrote")
    assert command(read(bare.user / SETTINGS)["hooks"], "Stop") == this_machine(bare.environ).executable
    assert not (bare.user / ".claude.json").exists()


def test_a_leave_to_read_conversations_is_not_given_by_mending(bare: Patient) -> None:
    init(bare, "openclaw", executable="/opt/gone/filrouge")
    bare.mended("What init wrote")
    said = read(bare.user / ".openclaw/openclaw.json")
    assert "plugins" not in said
    assert said["mcp"]["servers"]["filrouge"]["command"] == this_machine(bare.environ).executable


def test_what_was_taken_out_by_hand_is_not_written_again(bare: Patient) -> None:
    init(bare, "claude-code")
    written(bare.user / SETTINGS, "{}")
    written(bare.user / ".claude.json", "{}")
    assert bare.finding("What init wrote").cause == "`init` wrote nothing"


def test_a_plugin_in_the_folder_of_opencode_beside_its_settings_is_a_second_telling(bare: Patient) -> None:
    assert bare.finding("OpenCode: double capture").state == "ok"
    folder = bare.user / ".config/opencode/plugin"
    folder.mkdir(parents=True)
    copy = shutil.copy(Path(plugins.directory("opencode"), "filrouge.js"), folder)
    assert bare.finding("OpenCode: double capture").state == "ok"
    init(bare, "opencode")
    found = bare.finding("OpenCode: double capture")
    saw(found, "warn", f"{copy}) and in {folder.parent}/opencode.json", "`filrouge uninstall --host opencode`")
    assert f"remove {copy}" in found.remedy


def test_every_agent_s_program_is_looked_for_and_started(bare: Patient) -> None:
    saw(bare.finding("Agents: programs"), "ok", "no agent is connected", "")
    agents = ("claude-code", "codex", "gemini", "cursor", "vscode", "opencode", "openclaw")
    program = bare.program("filrouge", 'echo "filrouge 0.1.0"')
    for agent in agents:
        init(bare, agent, executable=str(program))
        saw(bare.finding("Agents: programs"), "ok", f"they run {program}", "")
        program.rename(program.with_suffix(".gone"))
        saw(bare.finding("Agents: programs"), "fail", f"{program}, which does not exist", f"init --host {agent}")
        program.with_suffix(".gone").rename(program)
        for change in plan_disconnecting(this_machine(bare.environ), bare.home, [agent]).changes:
            apply_change(change, bare.home)
    init(bare, "cursor", executable=str(program))
    program.write_text("#!/opt/gone/python\n")
    saw(bare.finding("Agents: programs"), "fail", f"{program}, which does not start", "init --host cursor")


def test_a_plugin_that_is_gone_or_knows_no_program_is_named(bare: Patient) -> None:
    place = ".config/opencode/opencode.json"
    gone = "/opt/gone/filrouge/hosts/plugins/opencode/filrouge.js"
    written(bare.user / place, json.dumps({"plugin": [[gone, {"executable": "/bin/true"}]]}))
    saw(bare.finding("Agents: programs"), "fail", f"{gone}, which does not exist", "init --host opencode")
    plugin = f"{plugins.directory('opencode')}/filrouge.js"
    written(bare.user / place, json.dumps({"plugin": [plugin]}))
    saw(bare.finding("Agents: programs"), "warn", "is not told where `filrouge` is", "init --host opencode")
