"""What the doctor says of Claude Code and Codex: whether our hooks are there, run, and run once."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest
from msgspec.structs import replace

from filrouge.cli.doctor.agents import Hook, trusted_hash

from .patient import HOOK, Patient, everything, hooks, nothing, saw, written

ALL = ("SessionStart", "UserPromptSubmit", "Stop")


def test_an_agent_that_is_older_than_what_was_checked_is_noted(patient: Patient) -> None:
    assert patient.finding("Claude Code").cause == "version 2.1.330"
    patient.program("claude", "echo '1.0.12 (Claude Code)'")
    saw(patient.finding("Claude Code"), "note", "1.0.12 is older than 2.1.330", "Update Claude Code")
    patient.program("codex", "echo codex-cli 0.99.0")
    saw(patient.finding("Codex"), "note", "0.99.0 is older than 0.169.0", "Update Codex")


def test_an_agent_that_does_not_say_its_version_is_noted(patient: Patient) -> None:
    patient.program("codex", "exit 3")
    saw(patient.finding("Codex"), "note", "did not print its version", "codex --version")


def test_an_agent_that_is_not_on_the_path_is_noted_only_where_it_was_used(bare: Patient) -> None:
    assert bare.finding("Claude Code").state == "ok"
    bare.claude(*ALL)
    saw(bare.finding("Claude Code"), "note", "`claude` is not on the PATH", "PATH")


@pytest.mark.parametrize("name", ["Claude Code: hooks", "Codex: hooks"])
def test_an_agent_without_our_hooks_is_told_how_to_get_them(patient: Patient, name: str) -> None:
    assert patient.finding(name).cause == "3 events"
    patient.claude()
    patient.codex()
    saw(patient.finding(name), "warn", "no hook of Filrouge", "filrouge init")


def test_a_hook_that_is_missing_is_named(patient: Patient) -> None:
    patient.claude("SessionStart", "Stop")
    saw(patient.finding("Claude Code: hooks"), "warn", "no hook of Filrouge for UserPromptSubmit", "filrouge init")
    patient.codex("SessionStart", "UserPromptSubmit")
    saw(patient.finding("Codex: hooks"), "warn", "no hook of Filrouge for Stop", "filrouge init")


def test_other_people_s_hooks_are_not_taken_for_ours(patient: Patient) -> None:
    written(patient.user / ".claude/settings.json", json.dumps({"hooks": hooks("notify --hook", *ALL)}))
    saw(patient.finding("Claude Code: hooks"), "warn", "no hook of Filrouge", "filrouge init")


def test_settings_that_the_agent_cannot_read_are_told(patient: Patient) -> None:
    path = written(patient.user / ".claude/settings.json", "{ // mine\n}")
    saw(patient.finding("Claude Code: hooks"), "fail", f"{path} is not valid JSON", f"Mend {path}")
    toml = written(patient.user / ".codex/config.toml", "model = \n")
    saw(patient.finding("Codex: hooks"), "fail", f"{toml} is not valid TOML", f"Mend {toml}")


def test_another_directory_of_settings_is_honoured(patient: Patient) -> None:
    patient.environ["CLAUDE_CONFIG_DIR"] = str(patient.beside / "elsewhere")
    patient.environ["CODEX_HOME"] = str(patient.beside / "codex-home")
    saw(patient.finding("Claude Code: hooks"), "warn", "no hook of Filrouge", "filrouge init")
    saw(patient.finding("Codex: hooks"), "warn", "no hook of Filrouge", "filrouge init")
    patient.claude(*ALL, file="../elsewhere/settings.json")
    assert patient.finding("Claude Code: hooks").state == "ok"


@pytest.mark.parametrize("name", ["Claude Code: programs", "Codex: programs"])
def test_a_hook_whose_program_is_gone_is_named(patient: Patient, name: str) -> None:
    assert patient.finding(name).state == "ok"
    (patient.beside / "bin" / "filrouge").unlink()
    saw(patient.finding(name), "fail", "runs filrouge, which does not exist", "filrouge init")


def test_a_command_with_variables_in_front_is_understood_and_its_secrets_are_not_repeated(patient: Patient) -> None:
    patient.codex(*ALL, command="env FILROUGE_API_KEY=hunter2 /opt/gone/filrouge hook --host codex")
    found = patient.finding("Codex: programs")
    saw(found, "fail", "runs /opt/gone/filrouge", "filrouge init")
    assert "hunter2" not in str(found)


def test_hooks_that_claude_code_does_not_run_are_told(patient: Patient) -> None:
    assert patient.finding("Claude Code: switch").state == "ok"
    local = patient.claude(file="zqprojectfolder/.claude/settings.local.json", disableAllHooks=True)
    saw(patient.finding("Claude Code: switch"), "fail", f"{local} has `disableAllHooks`", f"from {local}")


@pytest.mark.parametrize("file", ["managed-settings.json", "managed-settings.d/20-hooks.json"])
@pytest.mark.parametrize("name", ["disableAllHooks", "allowManagedHooksOnly"])
def test_hooks_that_an_administrator_forbids_are_told(patient: Patient, file: str, name: str) -> None:
    folder = patient.beside / "managed"
    assert (
        patient.finding("Claude Code: managed settings", managed=str(folder)).cause == "there are no managed settings"
    )
    path = written(folder / file, json.dumps({name: True}))
    found = patient.finding("Claude Code: managed settings", managed=str(folder))
    saw(found, "fail", f"{path} has `{name}`", "the administrator of this machine")
    written(folder / "managed-settings.d/90-last.json", json.dumps({name: False}))
    assert patient.finding("Claude Code: managed settings", managed=str(folder)).cause == "they allow Filrouge's hooks"


def test_an_administrator_who_brings_our_plugin_forbids_nothing(patient: Patient) -> None:
    said = {"allowManagedHooksOnly": True, "enabledPlugins": {"filrouge@filrouge": True}}
    written(patient.beside / "managed/managed-settings.json", json.dumps(said))
    assert patient.finding("Claude Code: managed settings", managed=str(patient.beside / "managed")).state == "ok"


def test_managed_settings_that_nobody_can_read_are_noted(patient: Patient) -> None:
    path = written(patient.beside / "managed/managed-settings.json", "{")
    found = patient.finding("Claude Code: managed settings", managed=str(path.parent))
    saw(found, "note", f"{path} is not valid JSON", "the administrator")


def test_a_rule_for_administrators_in_the_user_s_own_settings_is_noted(patient: Patient) -> None:
    path = patient.claude(*ALL, allowManagedHooksOnly=True)
    saw(patient.finding("Claude Code: managed settings", managed=""), "note", "only works in managed", f"from {path}")


@pytest.mark.parametrize(
    ("limit", "cause"),
    [(1, "may take 1 seconds"), (10_000, "not milliseconds"), ("10", "is not a number"), (None, "has no `timeout`")],
)
def test_a_limit_of_time_that_is_too_short_or_absurd_is_named(patient: Patient, limit: object, cause: str) -> None:
    names = (("Claude Code: timeouts", patient.claude("SessionEnd")), ("Codex: timeouts", patient.codex("SessionEnd")))
    for name, path in names:
        assert patient.finding(name).state == "ok"
        said = json.loads(path.read_text())
        said["hooks"]["SessionEnd"][0]["hooks"][0] |= {"timeout": limit}
        path.write_text(json.dumps(said))
        saw(patient.finding(name), "warn", cause, "filrouge init --host")


def test_a_hook_without_a_limit_is_told_only_where_the_agent_is_impatient(patient: Patient) -> None:
    path = patient.claude(*ALL)
    path.write_text(path.read_text().replace(', "timeout": 5', ""))
    assert "timeout" not in path.read_text()
    assert patient.finding("Claude Code: timeouts").state == "ok"


@pytest.mark.parametrize("name", ["hooks", "codex_hooks"])
def test_hooks_that_codex_does_not_run_are_told(patient: Patient, name: str) -> None:
    assert patient.finding("Codex: switch").state == "ok"
    written(patient.user / ".codex/config.toml", f"[features]\n{name} = false\n")
    saw(patient.finding("Codex: switch"), "fail", f"features.{name} = false", "Remove that line")


def test_hooks_that_nobody_approved_in_codex_are_named(patient: Patient) -> None:
    assert patient.finding("Codex: trust").cause == "every hook is approved"
    patient.codex(*ALL, trusted=False)
    saw(patient.finding("Codex: trust"), "fail", "SessionStart, UserPromptSubmit, Stop", "type `/hooks`")


def test_a_hook_that_was_switched_off_in_codex_is_named(patient: Patient) -> None:
    path = patient.codex("Stop")
    state = f'[hooks.state."{path}:stop:0:0"]\ntrusted_hash = "sha256:00"\nenabled = false\n'
    written(patient.user / ".codex/config.toml", state)
    saw(patient.finding("Codex: trust"), "fail", "switched off in Codex: Stop", "type `/hooks`")


def test_an_event_that_is_told_twice_is_found_with_both_files(patient: Patient) -> None:
    assert patient.finding("Claude Code: double capture").state == "ok"
    second = patient.claude("Stop", file="zqprojectfolder/.claude/settings.json")
    files = f"{patient.user}/.claude/settings.json, {second}"
    saw(
        patient.finding("Claude Code: double capture"), "warn", f"more than once at Stop: {files}", "Remove all but one"
    )


def test_a_plugin_beside_hooks_is_a_second_telling(patient: Patient) -> None:
    patient.claude(*ALL, enabledPlugins={"filrouge@filrouge": True})
    found = patient.finding("Claude Code: double capture")
    saw(found, "warn", "as a plugin", "`filrouge uninstall --host claude-code`")
    assert "`claude plugin uninstall filrouge@filrouge`" in found.remedy


def test_a_plugin_of_codex_beside_hooks_is_a_second_telling(patient: Patient) -> None:
    with (patient.user / ".codex/config.toml").open("a") as config:
        config.write('[plugins."filrouge@filrouge"]\nenabled = true\n')
    found = patient.finding("Codex: double capture")
    saw(found, "warn", "every prompt gets two blocks", "`filrouge uninstall --host codex`")
    assert "`codex plugin remove filrouge@filrouge`" in found.remedy


def test_a_plugin_alone_is_no_missing_hook(patient: Patient) -> None:
    patient.claude(enabledPlugins={"filrouge@filrouge": True})
    saw(patient.finding("Claude Code: hooks"), "ok", "a plugin provides them", "")
    assert patient.finding("Claude Code: double capture").state == "ok"
    patient.claude(enabledPlugins={"filrouge@filrouge": False})
    saw(patient.finding("Claude Code: hooks"), "warn", "no hook of Filrouge", "filrouge init")


def test_hooks_of_a_codex_plugin_that_nobody_approved_are_named(patient: Patient) -> None:
    patient.codex()
    config = patient.user / ".codex/config.toml"
    config.write_text('[plugins."filrouge@filrouge"]\n')
    saw(patient.finding("Codex: trust"), "fail", "hooks of the plugin", "type `/hooks`")
    with config.open("a") as more:
        more.write('[hooks.state."filrouge@filrouge:hooks/hooks.json:stop:0:0"]\ntrusted_hash = "sha256:00"\n')
    assert patient.finding("Codex: trust").state == "ok"


def test_hooks_that_changed_since_they_were_approved_in_codex_are_named(patient: Patient) -> None:
    path = patient.user / ".codex/hooks.json"
    said = json.loads(path.read_text())
    said["hooks"]["Stop"][0]["hooks"][0]["timeout"] = 9
    path.write_text(json.dumps(said))
    found = patient.finding("Codex: trust")
    saw(found, "warn", "changed since you approved them", "type `/hooks`")
    assert "SessionStart" not in found.cause


def test_a_hash_of_codex_is_that_of_the_hook_as_it_is_rounded() -> None:
    """Of JSON that was written down by hand, so that no form of ours can agree with itself alone."""
    said = {"command": "filrouge hook", "timeout": 10, "statusMessage": "é"}
    hook = Hook(event="SessionEnd", file="", group=0, index=0, handler=said, matcher="x")
    plain = (
        '{"event_name":"session_end","hooks":[{"async":false,"command":"filrouge hook","statusMessage":"é",'
        '"timeout":3,"type":"command"}],"matcher":"x"}'
    )
    assert trusted_hash(hook) == f"sha256:{sha256(plain.encode()).hexdigest()}"
    stop = replace(hook, event="Stop", handler={"command": "filrouge hook"})
    plain = '{"event_name":"stop","hooks":[{"async":false,"command":"filrouge hook","timeout":600,"type":"command"}]}'
    assert trusted_hash(stop) == f"sha256:{sha256(plain.encode()).hexdigest()}"


def test_hooks_in_both_files_of_codex_are_told(patient: Patient) -> None:
    assert patient.finding("Codex: double capture").state == "ok"
    config = patient.user / ".codex/config.toml"
    config.write_text(f'[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = "command"\ncommand = "{HOOK} codex"\n')
    saw(patient.finding("Codex: double capture"), "warn", f"{config}, ", "Remove all but one")


def test_mcp_without_its_package_fails_where_an_agent_uses_it(patient: Patient) -> None:
    saw(patient.finding("MCP", has=nothing), "warn", "is not installed", "-m pip install 'mcp>=")
    file = written(
        patient.user / ".claude.json", json.dumps({"mcpServers": {"m": {"command": "filrouge", "args": ["mcp"]}}})
    )
    saw(patient.finding("MCP", has=nothing), "fail", f"{file} uses `filrouge mcp`", "-m pip install 'mcp>=")
    assert str(file) in patient.finding("MCP", has=everything).cause


def test_mcp_in_the_configuration_of_codex_is_seen(patient: Patient) -> None:
    written(patient.user / ".codex/config.toml", '[mcp_servers.memory]\ncommand = "/opt/filrouge"\nargs = ["mcp"]\n')
    saw(patient.finding("MCP", has=nothing), "fail", "config.toml uses `filrouge mcp`", "-m pip install 'mcp>=")
