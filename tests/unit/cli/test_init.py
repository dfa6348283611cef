"""`filrouge init` and `uninstall`, as a person and a script type them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from filrouge.core import installation
from filrouge.core.paths import CONFIG
from tests.reliability.terminals import at_a_terminal
from tests.support import shell
from tests.support.shell import Typed

Type = Callable[..., Typed]


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """The home of a user with Claude Code and Codex."""
    for name in (".claude", ".codex"):
        (tmp_path / "user" / name).mkdir(parents=True)
    return tmp_path / "user"


@pytest.fixture
def typed(user: Path) -> Type:
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(user), "FILROUGE_HOME": str(user.parent / "memory")}

    def run(*words: str, limit: str = "", **more: str) -> Typed:
        if not limit:
            return shell.typed(*words, environ={**environ, **more})
        ended = subprocess.run(
            ["/bin/sh", "-c", f'{limit}; exec "$@"', "sh", sys.executable, "-m", "filrouge.cli.main", *words],
            env={**environ, **more},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return Typed(code=ended.returncode, out=ended.stdout, err=ended.stderr)

    return run


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_agents_that_are_there_are_connected_and_taken_back(user: Path, typed: Type) -> None:
    (user / ".claude/settings.json").write_text('{ "model":"opus" }')
    before = files(user)
    done = typed("init", "--yes")
    assert (done.code, done.err) == (0, "")
    assert "Claude Code, Codex" in done.out
    assert "type /hooks" in done.out
    assert "`filrouge` is not on your PATH: type /" in done.out
    assert set(files(user)) == {".claude/settings.json", ".claude.json", ".codex/hooks.json", ".codex/config.toml"}
    group = json.loads((user / ".claude/settings.json").read_text())["hooks"]["Stop"][0]["hooks"][0]
    assert os.path.isabs(group["command"])
    assert group["args"] == ["hook", "--host", "claude-code"]
    assert typed("init", "--yes").out.startswith("Agents: Claude Code, Codex\nNothing to do")
    assert typed("uninstall", "--yes").code == 0
    assert files(user) == before
    assert "contain no Filrouge entries" in typed("uninstall", "--yes").out


def test_the_doctor_sees_what_init_wrote(typed: Type) -> None:
    def about(name: str) -> dict[str, str]:
        [found] = [one for one in typed("doctor", "--json").json if one["check"] == name]
        return found

    assert "no hook" in about("Claude Code: hooks")["cause"]
    typed("init", "--yes")
    assert about("Claude Code: hooks")["state"] == "ok"
    assert about("Codex: hooks")["state"] == "ok"
    assert (about("Codex: trust")["state"], "/hooks" in about("Codex: trust")["remedy"]) == ("fail", True)


def test_a_dry_run_shows_every_line_and_writes_none(user: Path, typed: Type) -> None:
    (user / ".claude/settings.json").write_text('{\n  "apiKey": "sk-not-to-be-shown"\n}\n')
    before = files(user.parent)
    done = typed("init", "--dry-run", "--mode", "light")
    assert done.code == 0
    assert f"changes {user}/.claude/settings.json" in done.out
    assert '+    "UserPromptSubmit"' in done.out
    assert "+mode = light" in done.out
    assert files(user.parent) == before
    shown = typed("init", "--dry-run", "--json").json
    assert (shown["changed"], shown["agents"]) == (False, ["claude-code", "codex"])
    assert {one["deed"] for one in shown["files"]} == {"changes", "creates"}
    assert files(user.parent) == before


def test_without_a_terminal_nothing_is_written_unasked(user: Path, typed: Type) -> None:
    before = files(user.parent)
    for words in (("init",), ("init", "--json")):
        done = typed(*words)
        assert (done.code, "--yes" in done.err) == (2, True)
    assert files(user.parent) == before


def test_one_agent_alone_is_connected_where_it_is_named(user: Path, typed: Type) -> None:
    assert typed("init", "--host", "gemini", "--no-tools", "--yes").code == 0
    assert list(files(user)) == [".gemini/settings.json"]
    assert "mcpServers" not in json.loads((user / ".gemini/settings.json").read_text())
    assert typed("init", "--undo", "--host", "gemini", "--yes").code == 0
    assert files(user) == {}


def test_an_agent_that_nobody_knows_is_an_error_with_the_names(typed: Type) -> None:
    done = typed("init", "--host", "claud", "--yes")
    assert (done.code, "claude-code" in done.err) == (2, True)


def test_where_no_agent_is_found_the_way_out_is_said(user: Path, typed: Type) -> None:
    for name in (".claude", ".codex"):
        (user / name).rmdir()
    done = typed("init", "--yes")
    assert (done.code, "--host" in done.err, "filrouge mcp" in done.err) == (2, True, True)


def test_a_file_that_cannot_be_read_is_named_and_the_others_are_written(user: Path, typed: Type) -> None:
    (user / ".claude/settings.json").write_text("{")
    done = typed("init", "--yes")
    assert done.code == 1
    assert f"left alone: {user}/.claude/settings.json" in done.out
    assert (user / ".claude/settings.json").read_text() == "{"
    assert (user / ".codex/hooks.json").exists()


def test_a_file_that_refuses_to_be_written_stays_and_is_named_once(user: Path, typed: Type) -> None:
    typed("init", "--yes")
    settings = user / ".codex/config.toml"
    settings.write_bytes(b"a = 1\n" + settings.read_bytes())
    before = settings.read_bytes()
    # No file may grow: a full disk, as far as a program sees it.
    done = typed("uninstall", "--yes", limit="ulimit -f 0")
    assert (done.code, done.out.count(f"left alone: {settings}:")) == (1, 1)
    assert settings.read_bytes() == before
    assert typed("uninstall", "--yes").code == 0
    assert {name: content for name, content in files(user).items() if name.endswith(".toml")} == {
        ".codex/config.toml": b"a = 1\n"
    }


def test_settings_are_written_to_the_file_in_the_home(user: Path, typed: Type) -> None:
    home = user.parent / "memory"
    home.mkdir()
    (home / CONFIG).write_text("# mine\nbudget = 900\n")
    words = ("--language", "fr", "--mode", "heavy", "--provider", "heuristic")
    assert typed("init", "--host", "codex", "--yes", *words).code == 0
    text = (home / CONFIG).read_text()
    assert all(line in text for line in ("# mine", "budget = 900", 'language = "fr"', 'mode = "heavy"'))
    assert typed("init", "--host", "codex", "--yes", "--language", "klingon").code == 2


def test_a_provider_that_does_not_answer_is_a_warning(typed: Type) -> None:
    done = typed("init", "--host", "codex", "--yes", "--json", "--provider", "ollama", OLLAMA_HOST="127.0.0.1:9")
    assert done.code == 0, done.err
    [warning] = done.json["warnings"]
    assert "ollama" in warning.lower()
    done = typed("init", "--host", "codex", "--yes", "--json", "--provider", "anthropic")
    assert "ANTHROPIC_API_KEY" in done.json["warnings"][0]


def test_a_home_in_a_repository_is_ignored_there(user: Path, typed: Type) -> None:
    (user / "code/.git").mkdir(parents=True)
    (user / "code/.gitignore").write_text("build")
    (user / "code/.claudeignore").write_text("")
    inside = {"FILROUGE_HOME": str(user / "code/.memory")}
    assert typed("init", "--host", "codex", "--yes", **inside).code == 0
    assert (user / "code/.gitignore").read_text() == "build\n/.memory/\n"
    assert (user / "code/.claudeignore").read_text() == "/.memory/\n"
    shown = typed("uninstall", "--dry-run", **inside).out
    assert f"changes {user}/code/.gitignore" in shown
    assert typed("uninstall", "--yes", **inside).code == 0
    assert (user / "code/.gitignore").read_bytes() == b"build"
    assert (user / "code/.claudeignore").read_bytes() == b""
    # The memory is still there, and is not committed all the same.
    assert (user / "code/.memory/.gitignore").read_text() == "*\n"


def test_an_ignore_file_of_our_own_goes_and_an_edited_one_keeps_what_is_not_ours(user: Path, typed: Type) -> None:
    (user / "code/.git").mkdir(parents=True)
    inside = {"FILROUGE_HOME": str(user / "code/.memory")}
    shown = typed("init", "--host", "codex", "--dry-run", **inside).out
    assert f"creates {user}/code/.gitignore\n    +/.memory/\n" in shown
    assert not (user / "code/.gitignore").exists()
    typed("init", "--host", "codex", "--yes", **inside)
    assert (user / "code/.gitignore").read_text() == "/.memory/\n"
    typed("uninstall", "--yes", **inside)
    assert not (user / "code/.gitignore").exists()
    typed("init", "--host", "codex", "--yes", **inside)
    (user / "code/.gitignore").write_text("/.memory/\ndist\n")
    typed("uninstall", "--yes", **inside)
    assert (user / "code/.gitignore").read_text() == "dist\n"


def test_what_init_makes_is_for_its_user_alone_and_a_home_that_was_open_is_closed(user: Path, typed: Type) -> None:
    home = user.parent / "memory"
    assert typed("init", "--host", "codex", "--host", "vscode", "--yes", limit="umask 000").code == 0
    made = [home, home / "setup", user / ".config/Code", user / ".config/Code/User"]
    assert [path.stat().st_mode & 0o777 for path in made if path.exists()] == [0o700] * sum(map(Path.exists, made))
    home.chmod(0o755)
    assert f"changes the mode of {home} from 755 to 700" in typed("init", "--dry-run", "--host", "codex").out
    assert home.stat().st_mode & 0o777 == 0o755
    assert f"changes the mode of {home} from 755 to 700" in typed("init", "--yes", "--host", "codex").out
    assert home.stat().st_mode & 0o777 == 0o700


def test_a_home_that_holds_more_than_a_memory_is_left_open_and_said_so(user: Path, typed: Type) -> None:
    (user / "documents/letters").mkdir(parents=True)
    (user / "documents").chmod(0o755)
    done = typed("init", "--yes", "--host", "codex", FILROUGE_HOME=str(user / "documents"))
    assert f"left alone: {user}/documents contains more" in done.out
    assert (user / "documents").stat().st_mode & 0o777 == 0o755
    refused = typed("uninstall", "--purge", "--yes", FILROUGE_HOME=str(user / "documents"))
    assert (refused.code, (user / "documents/letters").exists()) == (2, True)


def test_the_command_lines_of_models_are_found_and_written_down(user: Path, typed: Type) -> None:
    programs = user / "programs"
    programs.mkdir()
    for name in ("claude", "codex"):
        (programs / name).write_text("#!/bin/sh\necho 9.9.9\n")
        (programs / name).chmod(0o755)
    path = {"PATH": f"{programs}:/usr/bin:/bin"}
    config = user.parent / "memory" / CONFIG
    assert f"+claude_cli_path = {programs}/claude" in typed("init", "--dry-run", **path).out
    assert typed("init", "--yes", **path).code == 0
    assert f'claude_cli_path = "{programs}/claude"' in config.read_text()
    assert f'codex_cli_path = "{programs}/codex"' in config.read_text()
    before = config.read_bytes()
    (user / "other").mkdir()
    (programs / "claude").rename(user / "other/claude")
    config.write_bytes(before.replace(b"programs/claude", b"other/claude"))  # the user's own choice
    before = config.read_bytes()
    assert "Nothing to do" in typed("init", "--yes", PATH=f"{programs}:{user}/other:/usr/bin:/bin").out
    assert config.read_bytes() == before
    (user / "other/claude").rename(programs / "claude")  # and now it is gone there
    [found] = [one for one in typed("doctor", "--json", **path).json if one["check"] == "Command lines of models"]
    assert (found["state"], "cannot be run" in found["cause"]) == ("fail", True)
    assert typed("init", "--yes", **path).code == 0
    assert f'claude_cli_path = "{programs}/claude"' in config.read_text()


@pytest.mark.parametrize(("answer", "written"), [("y", "claude_cli"), ("n", "heuristic")])
def test_the_users_own_agent_is_recommended_with_its_price_and_taken_only_on_a_yes(
    user: Path, answer: str, written: str
) -> None:
    program = user / "programs" / "claude"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 9.9.9\n")
    program.chmod(0o755)
    home = str(user.parent / "memory")
    done = at_a_terminal(
        home, "init", "--host", "claude-code", typed=f"{answer}\n\n\n\ny\n",
        HOME=str(user), PATH=f"{program.parent}:/usr/bin:/bin",
    )  # fmt: skip
    assert done.code == 0, done.err
    [line] = [one for one in done.out.splitlines() if one.startswith("Recommended: Claude Code")]
    assert all(word in line for word in ("subscription", "200,000 tokens a day", "and nowhere else")), line
    assert f'extract_provider = "{written}"' in Path(home, CONFIG).read_text()


def test_uninstall_stops_the_daemon_and_purges_only_when_that_is_asked_for(user: Path, typed: Type) -> None:
    home, models = user.parent / "memory", user / ".cache/filrouge/models"
    environ = {"FILROUGE_EMBEDDING_MODEL": "hashing"}
    typed("init", "--host", "codex", "--yes", **environ)
    try:
        assert typed("remember", "The staging API listens on port 17300.", **environ).code == 0
        models.mkdir(parents=True, exist_ok=True)
        (models / "model").write_bytes(b"0" * 1_500_000)
        assert typed("uninstall", "--purge", "--host", "codex", "--yes", **environ).code == 2
        shown = typed("uninstall", "--purge", "--dry-run", **environ).out
        assert "stops the daemon" in shown
        assert all(f"removes {path} for good" in shown for path in (home, models))
        assert typed("daemon", "status", "--json", **environ).code == 0
        done = typed("uninstall", "--yes", "--json", **environ)
        assert (done.json["stopped"], done.json["purged"], (home / "filrouge.db").exists()) == (True, [], True)
        assert typed("daemon", "status", **environ).code == 3
        assert f"The model that was built stays: 1.5 MB in {models}" in typed("uninstall", "--yes", **environ).out
        done = typed("uninstall", "--purge", "--yes", **environ)
        assert (done.code, home.exists(), models.exists()) == (0, False, False), done.err
    finally:
        typed("daemon", "stop", **environ)


def test_memories_that_are_there_stay_and_are_named(user: Path, typed: Type) -> None:
    home = user.parent / "memory"
    home.mkdir()
    (home / "filrouge.db").write_bytes(b"0" * 2_000_000)
    done = typed("init", "--host", "codex", "--yes")
    assert "2.0 MB" in done.out
    assert (home / "filrouge.db").stat().st_size == 2_000_000


def test_uninstall_says_what_it_leaves_and_how_that_goes(user: Path, typed: Type) -> None:
    assert "stays" not in typed("uninstall", "--dry-run").out  # there is no home
    assert not (user.parent / "memory").exists()
    typed("init", "--host", "codex", "--yes")
    home = user.parent / "memory"
    (home / "filrouge.db").write_bytes(b"0" * 2_000_000)
    for words in (("--dry-run",), ("--yes",), ("--yes",)):  # shown, done, and when nothing is left to be done
        done = typed("uninstall", *words)
        assert (done.code, done.out.count(f"The memory stays: 2.0 MB in {home}.")) == (0, 1)
        assert "`filrouge uninstall --purge`" in done.out
        assert f"The program is in {sys.prefix}; `{installation.this_installation().uninstall_command()}`" in done.out
    assert (home / "filrouge.db").stat().st_size == 2_000_000
    assert typed("uninstall", "--yes", "--json").json["memory"] == str(home)


def test_what_was_said_before_is_offered_and_read_in_only_when_asked_for(user: Path, typed: Type) -> None:
    write_transcript(user / ".claude/projects/-home-lea-shop/591203f2-b3a2-4f34-a08e-8b05a7af2b3d.jsonl")
    done = typed("init", "--yes")
    assert "claude-code has an existing history (1 file," in done.out
    assert not (user.parent / "memory/filrouge.db").exists()  # --yes is no leave to read it
    done = typed("init", "--yes", "--backfill")
    try:
        assert done.code == 0, done.err
        hits = typed("search", "staging API port", "--mode", "text", "--json").json
        assert ["17300" in hit["content"] for hit in hits] == [True]
    finally:
        typed("daemon", "stop")


def write_transcript(path: Path) -> None:
    path.parent.mkdir(parents=True)
    said = {
        "type": "user",
        "uuid": "u-1",
        "sessionId": "591203f2-b3a2-4f34-a08e-8b05a7af2b3d",
        "timestamp": "2026-10-01T10:00:00.000Z",
        "cwd": "/home/lea/shop",
        "message": {"role": "user", "content": "FYI the staging API of the shop listens on port 17300."},
    }
    path.write_text(json.dumps(said) + "\n")


def test_an_agent_that_has_the_plugin_gets_no_hooks_besides_unless_it_is_named(user: Path, typed: Type) -> None:
    settings, config = user / ".claude/settings.json", user / ".codex/config.toml"
    settings.write_text('{"enabledPlugins": {"filrouge@filrouge": true}}')
    config.write_text('[plugins."filrouge@filrouge"]\nenabled = true\n')
    before = files(user)
    done = typed("init", "--yes")
    assert (done.code, done.err) == (0, "")
    assert f"Claude Code has Filrouge as a plugin ({settings})" in done.out
    assert f"Codex has Filrouge as a plugin ({config})" in done.out
    assert "`filrouge init --host codex` writes them anyway" in done.out
    assert files(user) == before
    assert typed("init", "--dry-run", "--json").json["plugged"] == {"claude-code": str(settings), "codex": str(config)}
    assert typed("init", "--host", "claude-code", "--yes").code == 0
    assert "UserPromptSubmit" in json.loads(settings.read_text())["hooks"]


def test_a_plugin_that_is_off_or_somebody_else_s_keeps_nothing_back(user: Path, typed: Type) -> None:
    settings, config = user / ".claude/settings.json", user / ".codex/config.toml"
    settings.write_text('{"enabledPlugins": {"filrouge@filrouge": false, "filrouge-like@x": true}}')
    config.write_text('[plugins."filrouge@filrouge"]\nenabled = false\n')
    assert typed("init", "--yes").code == 0
    assert "hooks" in json.loads(settings.read_text())
    assert (user / ".codex/hooks.json").exists()


def test_the_plugin_of_opencode_brings_no_tools_so_those_are_written(user: Path, typed: Type) -> None:
    folder = user / ".config/opencode"
    (folder / "plugin").mkdir(parents=True)
    (folder / "plugin/filrouge.js").write_text("")
    assert typed("init", "--yes").code == 0
    said = json.loads((folder / "opencode.json").read_text())
    assert "filrouge" in said["mcp"]
    assert "plugin" not in said


def test_the_doctor_writes_anew_what_runs_a_filrouge_that_is_gone(user: Path, typed: Type) -> None:
    assert typed("init", "--host", "claude-code", "--yes").code == 0
    settings = user / ".claude/settings.json"
    whole = settings.read_bytes()
    [program] = {
        one["command"] for groups in json.loads(whole)["hooks"].values() for group in groups for one in group["hooks"]
    }
    settings.write_bytes(whole.replace(program.encode(), b"/opt/gone/filrouge"))
    [found] = [one for one in typed("doctor", "--json").json if one["check"] == "What init wrote"]
    assert (found["state"], str(settings) in found["cause"]) == ("warn", True)
    assert settings.read_bytes() != whole
    [found] = [one for one in typed("doctor", "--fix", "--json").json if one["check"] == "What init wrote"]
    assert (found["state"], found["before"]["state"]) == ("ok", "warn")
    assert f"{settings}: Filrouge's entries are as `init` writes them now" in found["did"]
    assert json.loads(settings.read_text()) == json.loads(whole)
    assert typed("uninstall", "--yes").code == 0
    assert not settings.exists()
