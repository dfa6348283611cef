"""Settings files of agents with Filrouge in them, and without: real files on a real disk, in every odd form."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filrouge.core.errors import BadInput, Stale
from filrouge.hosts.setup import files
from filrouge.hosts.setup.entries import AGENTS, CLAUDE_CODE_TIMEOUTS, is_filrouge_hook, is_filrouge_server
from filrouge.hosts.setup.files import Machine, insert_entry, remove_matching
from filrouge.hosts.setup.plan import Plan, apply_change, detected_agents, plan_connecting, plan_disconnecting
from tests.support.tiers import examples

EXECUTABLE = "/opt/tools of mine/bin/filrouge"
HOOK = {"hooks": [{"type": "command", "command": EXECUTABLE, "args": ["hook"], "timeout": 10}]}


class Desk:
    """A user's home with the folders of some agents, and a Filrouge that is connected to them."""

    def __init__(self, root: Path, *, executable: str = EXECUTABLE) -> None:
        self.user = root / "user"
        self.home = str(root / "filrouge")
        self.user.mkdir(exist_ok=True)
        self.machine = Machine(environ={"HOME": str(self.user), "PATH": ""}, executable=executable)

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.user / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def init(self, *names: str) -> Plan:
        plan = plan_connecting(self.machine, self.home, names, tools=True, conversations=True)
        for change in plan.changes:
            apply_change(change, self.home)
        return plan

    def uninstall(self, *names: str) -> Plan:
        plan = plan_disconnecting(self.machine, self.home, names or list(AGENTS))
        for change in plan.changes:
            apply_change(change, self.home)
        return plan

    def files(self) -> dict[str, bytes]:
        return {str(path.relative_to(self.user)): path.read_bytes() for path in self.user.rglob("*") if path.is_file()}


def exact(path: Path) -> str:
    """What a file says, its ends of lines as they are."""
    return path.read_bytes().decode()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


# --------------------------------------------------------------------------------- odd files, and the way back

SPACE = st.text(" \t\n", max_size=4)
COMMENT = st.sampled_from(["", "", '// what is this: {"[,\n', "/* kept, \n for } later */", "/**/"])
KEY = st.text('abc"\\é{,/*', min_size=0, max_size=5)
PLAIN = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), KEY)


def gap() -> st.SearchStrategy[str]:
    return st.tuples(SPACE, COMMENT, SPACE).map("".join)


@st.composite
def written(draw: st.DrawFn, value: Any) -> str:
    """A value in some odd layout, with comments, and now and then a comma too many."""
    if not isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=draw(st.booleans()))
    parts: list[str] = []
    is_object = isinstance(value, dict)
    pairs = (
        list(cast("dict[str, Any]", value).items()) if is_object else [("", one) for one in cast("list[Any]", value)]
    )
    for key, inner in pairs:
        label = json.dumps(key) + draw(gap()) + ":" + draw(gap()) if is_object else ""
        parts.append(draw(gap()) + label + draw(written(inner)) + draw(gap()))
    opening, closing = "{}" if is_object else "[]"
    extra = "," + draw(gap()) if parts and draw(st.booleans()) else ""
    return opening + (",".join(parts) or draw(gap())) + extra + closing


HOOK_OF_OTHERS = st.fixed_dictionaries({"hooks": st.lists(st.fixed_dictionaries({"command": KEY}), max_size=2)})
SETTINGS = st.dictionaries(
    KEY, st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEY, inner, max_size=3)),
    max_size=4,
)  # fmt: skip
HOOKS = st.dictionaries(
    st.sampled_from([*CLAUDE_CODE_TIMEOUTS, "PreToolUse"]), st.lists(HOOK_OF_OTHERS, max_size=2), max_size=4
)


@st.composite
def settings_file(draw: st.DrawFn) -> str:
    value: dict[str, Any] = {k: v for k, v in draw(SETTINGS).items() if k != "hooks"}
    if draw(st.booleans()):
        value["hooks"] = draw(HOOKS)
    text = draw(gap()) + draw(written(value)) + draw(gap())
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text


@settings(max_examples=examples(25), deadline=None)
@given(text=settings_file())
def test_any_settings_file_is_byte_for_byte_what_it_was(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    desk = Desk(tmp_path_factory.mktemp("desk"))
    desk.write(".claude/settings.json", text)
    before = desk.files()
    plan = desk.init("claude-code")
    assert not plan.problems
    wanted = files.read_json(text).value
    found = files.read_json(exact(desk.user / ".claude/settings.json")).value
    for event in CLAUDE_CODE_TIMEOUTS:
        [ours] = [group for group in found["hooks"][event] if is_filrouge_hook(group)]
        assert ours["hooks"][0]["command"] == EXECUTABLE
        assert [group for group in found["hooks"][event] if group != ours] == wanted.get("hooks", {}).get(event, [])
    assert {key: value for key, value in found.items() if key != "hooks"} == {
        key: value for key, value in wanted.items() if key != "hooks"
    }
    assert not desk.init("claude-code").changes
    desk.uninstall()
    assert desk.files() == before


@settings(max_examples=examples(25), deadline=None)
@given(text=settings_file(), more=SETTINGS)
def test_of_a_file_that_its_agent_wrote_anew_only_what_is_ours_goes(
    tmp_path_factory: pytest.TempPathFactory, text: str, more: dict[str, Any]
) -> None:
    desk = Desk(tmp_path_factory.mktemp("desk"))
    path = desk.write(".claude/settings.json", text)
    wanted = files.read_json(text).value
    desk.init("claude-code")
    edited = files.read_json(exact(path)).value
    more = {key: value for key, value in more.items() if key != "hooks"}
    path.write_text(json.dumps({**edited, **more, "theirs": 1}, indent=3))
    [change] = [change for change in desk.uninstall().changes if change.path == str(path)]
    assert "edited since" in change.note
    assert files.read_json(path.read_text()).value == {**wanted, **more, "theirs": 1}


@settings(max_examples=examples(25), deadline=None)
@given(text=settings_file(), comment=st.sampled_from(["// mine\n", "/* mine */"]))
def test_a_comment_that_somebody_put_in_since_stays(
    tmp_path_factory: pytest.TempPathFactory, text: str, comment: str
) -> None:
    desk = Desk(tmp_path_factory.mktemp("desk"))
    path = desk.write(".claude/settings.json", text)
    wanted = files.read_json(text).value
    desk.init("claude-code")
    path.write_bytes((comment + exact(path)).encode())
    desk.uninstall()
    left = exact(path)
    assert left.startswith(comment)
    assert files.read_json(left).value == wanted


# --------------------------------------------------------------------------------- files that were not there


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_without_settings_gets_them_and_loses_them_again(desk: Desk, name: str) -> None:
    assert not desk.files()
    plan = desk.init(name)
    assert plan.changes
    assert not desk.init(name).changes
    for path in desk.files():
        text = (desk.user / path).read_text()
        assert EXECUTABLE in text or "plugins" in text
        _ = files.read_toml(text) if path.endswith(".toml") else json.loads(text)
    desk.uninstall(name)
    assert not desk.files()
    assert not list(desk.user.iterdir())  # nor a folder that was made for them
    assert not os.path.exists(os.path.join(desk.home, "setup.json"))


def test_every_agent_at_once_comes_and_goes(desk: Desk) -> None:
    desk.write(".codex/config.toml", 'model = "x" # mine\r\n[projects."/a"]\r\ntrust_level = "trusted"')
    desk.write(".cursor/mcp.json", '{"mcpServers":{"other":{"command":"x"}}}')
    desk.write(".openclaw/openclaw.json", "{\n  // JSON5\n  gateway: {mode: 'local', port: +18789,},\n}\n")
    before = desk.files()
    assert not desk.init(*AGENTS).problems
    desk.uninstall()
    assert desk.files() == before


def test_agents_are_found_by_their_folder(desk: Desk) -> None:
    assert detected_agents(desk.machine) == []
    desk.write(".gemini/x", "")
    assert detected_agents(desk.machine) == ["gemini"]


def test_agents_are_found_by_their_command(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "claude").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "claude").chmod(0o755)
    machine = Machine(environ={"HOME": str(tmp_path), "PATH": str(tmp_path / "bin")}, executable=EXECUTABLE)
    assert detected_agents(machine) == ["claude-code"]


def test_folders_that_the_environment_names_are_used(tmp_path: Path) -> None:
    moved = {"CLAUDE_CONFIG_DIR": str(tmp_path / "c"), "CODEX_HOME": str(tmp_path / "x"), "HOME": str(tmp_path)}
    machine = Machine(environ=moved, executable=EXECUTABLE)
    plan = plan_connecting(machine, str(tmp_path / "home"), ["claude-code", "codex"], tools=True)
    assert {os.path.relpath(change.path, tmp_path) for change in plan.changes} == {
        "c/settings.json",
        "c/.claude.json",
        "x/hooks.json",
        "x/config.toml",
    }


def test_a_home_elsewhere_goes_along_to_the_servers_of_tools(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "FILROUGE_HOME": "/memory"}
    plan = plan_connecting(Machine(environ=environ, executable=EXECUTABLE), str(tmp_path / "h"), ["codex"], tools=True)
    [table] = [change for change in plan.changes if change.path.endswith(".toml")]
    assert files.read_toml((table.planned or b"").decode())["mcp_servers"]["filrouge"]["env"] == {
        "FILROUGE_HOME": "/memory"
    }


def test_a_permission_to_read_conversations_is_written_only_with_leave(desk: Desk) -> None:
    path = desk.write(".openclaw/openclaw.json", "{}")
    for change in plan_connecting(desk.machine, desk.home, ["openclaw"], tools=True).changes:
        apply_change(change, desk.home)
    assert "plugins" not in json.loads(path.read_text())
    desk.init("openclaw")
    written = json.loads(path.read_text())["plugins"]
    assert written["entries"]["filrouge"]["hooks"] == {"allowConversationAccess": True}
    assert written["entries"]["filrouge"]["config"] == {"executable": EXECUTABLE}
    assert "allow" not in written  # a list there would shut out every other plugin
    assert os.path.isfile(os.path.join(written["load"]["paths"][0], "openclaw.plugin.json"))
    desk.uninstall("openclaw")
    assert path.read_text() == "{}"


def test_gemini_is_not_held_up_before_every_question_to_its_model(desk: Desk) -> None:
    """An older entry without the matcher is ours, and replaced."""
    line = shlex.join([EXECUTABLE, "hook", "--host", "gemini"])
    old = {"hooks": [{"type": "command", "command": line, "timeout": 10_000}]}
    path = desk.write(".gemini/settings.json", json.dumps({"hooks": {"PreCompress": [old]}}))
    desk.init("gemini")
    written = json.loads(exact(path))["hooks"]
    assert written["PreCompress"] == [{"matcher": "manual", **old}]
    assert written["BeforeAgent"] == [old]


@pytest.mark.parametrize(
    ("allowed", "then"),
    [("['telegram',]", ["telegram", "filrouge"]), ("[]", []), ("['filrouge']", ["filrouge"])],
    ids=["others", "nobody", "us"],
)
def test_a_list_of_allowed_plugins_names_ours_where_it_names_any(desk: Desk, allowed: str, then: list[str]) -> None:
    text = f"{{plugins: {{\n  // only these\n  allow: {allowed},\n}},}}\n"
    path = desk.write(".openclaw/openclaw.json", text)
    desk.init("openclaw")
    assert files.read_json(exact(path)).value["plugins"]["allow"] == then
    assert desk.init("openclaw").unchanged == ("openclaw",)
    desk.uninstall("openclaw")
    assert exact(path) == text


def test_our_name_leaves_the_allowed_plugins_of_a_file_that_openclaw_wrote_anew(desk: Desk) -> None:
    path = desk.write(".openclaw/openclaw.json", "{plugins: {allow: ['telegram']}}")
    desk.init("openclaw")
    path.write_text(json.dumps(files.read_json(exact(path)).value | {"meta": {"lastTouchedVersion": "2026.9.6"}}))
    desk.uninstall("openclaw")
    assert json.loads(exact(path)) == {"plugins": {"allow": ["telegram"]}, "meta": {"lastTouchedVersion": "2026.9.6"}}


def test_a_plugin_comes_beside_those_that_are_there(desk: Desk) -> None:
    path = desk.write(".config/opencode/opencode.json", '{"plugin": ["theirs"]}')
    desk.init("opencode")
    theirs, ours = json.loads(path.read_text())["plugin"]
    assert (theirs, os.path.isfile(ours[0]), ours[1]) == ("theirs", True, {"executable": desk.machine.executable})
    path.write_text(json.dumps({"plugin": [ours, theirs, "more"]}))
    desk.uninstall("opencode")
    assert json.loads(path.read_text()) == {"plugin": ["theirs", "more"]}


# --------------------------------------------------------------------------------- in between


def test_a_link_keeps_pointing_and_the_mode_stays(desk: Desk) -> None:
    real = desk.write("dotfiles/claude.json", '{"a": 1}')
    real.chmod(0o640)
    (desk.user / ".claude").mkdir()
    link = desk.user / ".claude/settings.json"
    link.symlink_to(real)
    desk.init("claude-code")
    assert link.is_symlink()
    assert (b"hooks" in real.read_bytes(), real.stat().st_mode & 0o777) == (True, 0o640)
    desk.uninstall()
    assert (link.is_symlink(), real.read_text(), real.stat().st_mode & 0o777) == (True, '{"a": 1}', 0o640)


def test_a_newer_filrouge_takes_the_place_of_the_one_before(desk: Desk, tmp_path: Path) -> None:
    path = desk.write(".claude/settings.json", '{"model": "opus"}\n')
    desk.init("claude-code")
    moved = Desk(tmp_path, executable="/new/filrouge")
    moved.init("claude-code")
    assert EXECUTABLE not in path.read_text()
    moved.uninstall()
    assert path.read_text() == '{"model": "opus"}\n'


def test_what_an_agent_wrote_between_two_inits_is_no_loss(desk: Desk, tmp_path: Path) -> None:
    path = desk.write(".claude/settings.json", '{"model": "opus"}\n')
    desk.init("claude-code")
    path.write_text(path.read_text().replace('"opus"', '"haiku"'))
    Desk(tmp_path, executable="/new/filrouge").init("claude-code")
    desk.uninstall()
    assert files.read_json(path.read_text()).value == {"model": "haiku"}


def test_a_hook_that_somebody_put_into_our_group_stays(desk: Desk) -> None:
    path = desk.write(".claude/settings.json", "{}")
    desk.init("claude-code")
    value = files.read_json(path.read_text()).value
    mine = {"type": "command", "command": "say done"}
    value["hooks"]["Stop"][0]["hooks"].append(mine)
    path.write_text(json.dumps(value))
    desk.uninstall()
    assert json.loads(path.read_text()) == {"hooks": {"Stop": [{"hooks": [mine]}]}}


def test_without_the_list_of_what_was_written_ours_is_found_by_what_it_runs(desk: Desk) -> None:
    desk.write(".codex/config.toml", "model = 'x'\n")
    desk.write(".claude/settings.json", '{"model": "opus"}')
    desk.init("claude-code", "codex")
    (Path(desk.home) / "setup.json").unlink()
    desk.uninstall()
    assert json.loads((desk.user / ".claude/settings.json").read_text()) == {"model": "opus"}
    assert files.read_toml((desk.user / ".codex/config.toml").read_text()) == {"model": "x"}


def test_a_file_that_is_gone_is_no_trouble(desk: Desk) -> None:
    desk.init("codex")
    (desk.user / ".codex/hooks.json").unlink()
    assert not desk.uninstall().problems
    assert not desk.files()


def test_a_file_that_changed_since_it_was_shown_is_not_written(desk: Desk) -> None:
    path = desk.write(".claude/settings.json", "{}")
    plan = plan_connecting(desk.machine, desk.home, ["claude-code"], tools=False)
    path.write_text('{"model": "opus"}')
    with pytest.raises(Stale, match=r"settings\.json"):
        apply_change(plan.changes[0], desk.home)
    assert path.read_text() == '{"model": "opus"}'


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ('{"a": 1,\n "b": }', "line 2"),
        ('{"a": "\\u12"}', "escape"),
        ('{"hooks": []}', "an object belongs"),
        ('{"hooks": {"Stop": {}}}', "a list belongs"),
        (b"\xff\xfe{}", "UTF-8"),
        ("[" * 5000, "deeply"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_and_left_alone(desk: Desk, content: str | bytes, why: str) -> None:
    path = desk.write(".claude/settings.json", content)
    desk.write(".codex/config.toml", "")
    before = path.read_bytes()
    plan = desk.init("claude-code", "codex")
    [trouble] = plan.problems.values()
    assert why in trouble.message
    assert path.read_bytes() == before
    assert (desk.user / ".codex/hooks.json").exists()  # the others are connected all the same


def test_a_server_of_somebody_else_with_our_name_stays(desk: Desk) -> None:
    path = desk.write(".cursor/mcp.json", '{"mcpServers": {"filrouge": {"command": "other"}}}')
    [trouble] = desk.init("cursor").problems.values()
    assert "starts another program" in trouble.message
    desk.uninstall()
    assert path.read_text() == '{"mcpServers": {"filrouge": {"command": "other"}}}'


# --------------------------------------------------------------------------------- single laws


@pytest.mark.parametrize(
    ("entry", "is_ours"),
    [
        ({"command": "/x/filrouge hook --host codex"}, True),
        ({"command": "'/a b/filrouge' hook"}, True),
        ({"command": "C:\\Tools\\filrouge.exe", "args": ["hook"]}, True),
        ({"command": "env A=1 filrouge hook"}, True),
        ({"command": "/p/filrouge.sh hook --host claude-code"}, True),
        ({"command": "filrouge status"}, False),
        ({"command": "echo filrouge-hook"}, False),
        ({"command": "say 'filrouge hook"}, False),
        ({"hooks": [{"command": "filrouge hook"}, {"command": "say"}]}, False),
        ("filrouge hook", False),
    ],
)
def test_ours_is_what_runs_filrouge_hook(entry: Any, is_ours: bool) -> None:
    assert is_filrouge_hook(entry) is is_ours


def test_ours_is_a_server_that_is_filrouge_mcp() -> None:
    assert is_filrouge_server({"command": ["/x/filrouge", "mcp"]})
    assert not is_filrouge_server({"command": "npx", "args": ["filrouge-viewer"]})


def test_what_stands_in_the_same_line_stays_with_its_value() -> None:
    text = '{\n    "a": 1 // one\n}\n'
    assert insert_entry(text, ("b",), 2, in_list=False) == '{\n    "a": 1, // one\n    "b": 2\n}\n'


def test_a_comma_too_many_stays_one() -> None:
    text = '{\n  "a": [\n    1, // one\n  ],\n}\n'
    after = insert_entry(text, ("a",), 2, in_list=True)
    assert after == '{\n  "a": [\n    1, // one\n    2,\n  ],\n}\n'
    assert remove_matching(after, ("a",), lambda one: one == 2, in_list=True, existed_before=lambda _: True) == text


def test_a_table_goes_with_those_below_it_and_leaves_what_is_said_about_the_next() -> None:
    ours = '[mcp_servers.filrouge]\ncommand = "/x/filrouge"\n\n[mcp_servers."filrouge".tools]\na = 1\n'
    assert (
        files.remove_table(ours + "\n# about b\n[b]\nc = 2\n", ("mcp_servers", "filrouge")) == "# about b\n[b]\nc = 2\n"
    )


@pytest.mark.parametrize("text", ["mcp_servers = {}\n", "[[mcp_servers]]\n", "a = [\n"])
def test_a_table_that_has_no_room_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        files.add_table(text, ("mcp_servers", "filrouge"), {"command": "x"})


def test_keys_of_the_top_are_written_where_they_stand() -> None:
    assert files.set_keys("# mine\nmode = 'light'\n[x]\nmode = 1\n", {"mode": "heavy", "language": "fr"}) == (
        'language = "fr"\n# mine\nmode = "heavy"\n[x]\nmode = 1\n'
    )
