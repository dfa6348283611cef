"""Command lines as models, played by a small script: how they are called, what they print, how they end."""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from filrouge.core.errors import ModelUnavailable
from filrouge.providers.language_models import ModelOptions, model
from filrouge.providers.models import Usage
from tests.unit.providers.given import KEY, SCHEMA, TEXT, TOLD, answer, ask, failure, using

CLIS = ("claude_cli", "codex_cli")
FACTS = '{"facts": ["the database listens on 5433"]}'

#: Notes how it was called, then does what the test wrote with `say(text)`: each prints an answer in its own way.
PLAYED = """#!{python}
import json, os, sys, time, subprocess
arguments = sys.argv[1:]
with open({note!r}, "w") as file:
    json.dump({{
        "arguments": arguments, "text": sys.stdin.read(), "environ": dict(os.environ), "cwd": os.getcwd(),
        "mode": os.stat(".").st_mode, "files": os.listdir("."), "pid": os.getpid(), "group": os.getpgrp(),
    }}, file)

def say(text, **more):
    if "-o" in arguments:
        with open(arguments[arguments.index("-o") + 1], "w") as file:
            file.write(text)
        usage = {{"input_tokens": 900, "cached_input_tokens": 100, "output_tokens": 50}}
        print(json.dumps({{"type": "turn.completed", "usage": usage}}))
    else:
        usage = {{"input_tokens": 800, "cache_read_input_tokens": 100, "output_tokens": 50}}
        result = {{"type": "result", "subtype": "success", "is_error": False, "result": text, "usage": usage}}
        print(json.dumps({{**result, "total_cost_usd": 0.0125, **more}}))

{script}
"""

Playing = Callable[..., ModelOptions]


@pytest.fixture
def playing(tmp_path: Path) -> Playing:
    """A command line that does what the script says; what it was called with is noted beside it."""

    def make(provider: str, script: str, **given: Any) -> ModelOptions:
        path = tmp_path / "agent"
        path.write_text(PLAYED.format(python=sys.executable, note=str(tmp_path / "note.json"), script=script))
        path.chmod(0o755)
        known: dict[str, Any] = {"cli_path": str(path), "environ": dict(os.environ), **given}
        return ModelOptions(provider=provider, **known)

    return make


@pytest.fixture
def noted(tmp_path: Path) -> Callable[[], dict[str, Any]]:
    return lambda: json.loads((tmp_path / "note.json").read_text())


@pytest.mark.parametrize("provider", CLIS)
def test_an_answer_comes_with_what_it_cost(provider: str, playing: Playing) -> None:
    found = answer(playing(provider, f"say({FACTS!r})"))
    assert (found.text, found.provider) == (FACTS, provider)
    assert found.spent[provider, found.model] == Usage(
        calls=1, input_tokens=900, output_tokens=50, dollars=0.0125 if provider == "claude_cli" else None
    )
    assert found.decides


@pytest.mark.parametrize("provider", CLIS)
def test_the_text_goes_through_standard_input_and_the_work_is_done_in_an_empty_private_directory(
    provider: str, playing: Playing, noted: Callable[[], dict[str, Any]]
) -> None:
    answer(playing(provider, f"say({FACTS!r})"))
    seen = noted()
    assert seen["text"].endswith(TEXT)
    assert TEXT not in " ".join(seen["arguments"])
    assert (seen["files"], stat.S_IMODE(seen["mode"])) == ([], 0o700)
    assert seen["group"] == seen["pid"], "a group of its own"
    assert not os.path.exists(seen["cwd"]), "nothing is left of it"


@pytest.mark.parametrize("provider", CLIS)
def test_the_guard_stands_in_the_childs_environment_alone_and_keys_do_not(
    provider: str, playing: Playing, noted: Callable[[], dict[str, Any]]
) -> None:
    keys = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "CODEX_API_KEY", "VOYAGE_API_KEY"), KEY)
    answer(playing(provider, f"say({FACTS!r})", environ={**keys, "PATH": "/usr/bin:/bin", "HOME": "/home/lea"}))
    environ = noted()["environ"]
    assert environ["FILROUGE_INTERNAL"] == "1"
    assert environ["HOME"] == "/home/lea"
    assert KEY not in environ.values()
    assert "FILROUGE_INTERNAL" not in os.environ


def test_claude_is_called_so_that_no_hook_runs(playing: Playing, noted: Callable[[], dict[str, Any]]) -> None:
    answer(playing("claude_cli", f"say({FACTS!r})", model="sonnet"))
    assert noted()["arguments"] == [
        "-p", "--model", "sonnet", "--safe-mode", "--setting-sources", "", "--settings", '{"disableAllHooks":true}',
        "--tools", "", "--strict-mcp-config", "--no-session-persistence", "--output-format", "json",
        "--json-schema", json.dumps(SCHEMA), "--system-prompt", TOLD,
    ]  # fmt: skip


def test_codex_is_called_so_that_no_hook_runs_and_no_tool_is_there(
    playing: Playing, noted: Callable[[], dict[str, Any]]
) -> None:
    answer(playing("codex_cli", f"say({FACTS!r})"))
    seen = noted()
    called = " ".join(seen["arguments"])
    assert called.startswith("exec -m gpt-6-luna --ephemeral --skip-git-repo-check -s read-only")
    for setting in ("features.hooks=false", "mcp_servers={}", "notify=[]", "features.shell_tool=false"):
        assert f"-c {setting} " in called
    assert called.endswith(" --json -")
    assert seen["text"] == f"{TOLD}\n\n{TEXT}"


def test_codex_is_given_the_schema_in_its_strict_form(playing: Playing) -> None:
    script = 'say(open(arguments[arguments.index("--output-schema") + 1]).read())'
    assert json.loads(answer(playing("codex_cli", script)).text) == SCHEMA


def test_claudes_answer_by_schema_is_the_answer(playing: Playing) -> None:
    options = playing("claude_cli", 'say("Here you are.", structured_output={"facts": ["é"]})')
    assert answer(options).text == '{"facts": ["é"]}'


PROBLEMS = [
    ("claude_cli", "sys.exit(3)", "other"),
    ("codex_cli", "sys.exit(3)", "other"),
    ("claude_cli", "print('not JSON')", "other"),
    ("claude_cli", "print('[1]')", "other"),
    ("claude_cli", "print('[' * 100_000)", "other"),
    ("codex_cli", "print('not JSON')", "other"),
    ("claude_cli", f"say({TEXT!r}, is_error=True)", "other"),
    ("claude_cli", f"say({TEXT!r}, is_error=True, api_error_status=429)", "rate_limit"),
    ("claude_cli", f"say({TEXT!r}, is_error=True, api_error_status=401)", "configuration"),
    ("claude_cli", f"say({TEXT!r}, is_error=True, api_error_status=529)", "server"),
    ("claude_cli", f"say({TEXT!r}, is_error=True, stop_reason='refusal')", "refused"),
    ("claude_cli", f"say({FACTS!r}); sys.exit(1)", "other"),
    ("codex_cli", f"say({FACTS!r}); sys.exit(1)", "other"),
    ("claude_cli", "say('')", "empty"),
    ("codex_cli", "say(' ')", "empty"),
    ("claude_cli", "say('x' * 10_000_000)", "too_long"),
    ("codex_cli", "say('x' * 10_000_000)", "too_long"),
    ("codex_cli", "print('x' * 10_000_000); say('x')", "too_long"),
    ("claude_cli", "say('x' * 1_500_000)", "too_long"),
    ("claude_cli", "print(arguments, file=sys.stderr); sys.exit(2)", "other"),
]


@pytest.mark.parametrize(("provider", "script", "kind"), PROBLEMS)
def test_every_end_that_is_no_answer_has_its_kind(provider: str, script: str, kind: str, playing: Playing) -> None:
    found, error = failure(playing(provider, script))
    assert found.kind == kind
    assert TEXT not in error.message
    assert error.__context__ is None


@pytest.mark.parametrize("provider", CLIS)
def test_a_command_line_that_is_not_logged_in_costs_nothing(provider: str, playing: Playing) -> None:
    usage = "usage={'input_tokens': 0, 'output_tokens': 0}, total_cost_usd=0"
    ends = {"claude_cli": f"say('Please log in', is_error=True, {usage}); sys.exit(1)", "codex_cli": "sys.exit(1)"}
    found, error = failure(playing(provider, ends[provider]))
    assert "logged in" in error.message
    assert error.spent[provider, found.model].input_tokens == 0


def test_a_program_that_does_not_read_its_text_still_answers(playing: Playing) -> None:
    script = f"say({FACTS!r})"
    options = playing("claude_cli", script)
    path = Path(options.cli_path)
    path.write_text(path.read_text().replace("sys.stdin.read()", "'unread'"))
    assert answer(options, ask(text="x" * 3_000_000)).text == FACTS


def test_a_program_that_vanished_is_named(playing: Playing) -> None:
    made = playing("claude_cli", "say('x')")
    built = model(made)
    os.remove(made.cli_path)
    with pytest.raises(ModelUnavailable) as caught:
        using(built, lambda one: one.complete(ask()))
    assert caught.value.failures[0].kind == "configuration"
    assert "cannot be started" in caught.value.message


CHILDREN = """
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
with open(os.environ["CHILD_NOTE"], "w") as file:
    file.write(str(child.pid))
"""


def gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody waited for has."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except FileNotFoundError:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="processes are looked up in /proc")
@pytest.mark.parametrize("provider", CLIS)
def test_when_time_is_over_the_whole_group_ends(
    provider: str, playing: Playing, tmp_path: Path, noted: Callable[[], dict[str, Any]]
) -> None:
    child = tmp_path / "child.pid"
    environ = {**os.environ, "CHILD_NOTE": str(child)}
    found, _ = failure(playing(provider, f"{CHILDREN}time.sleep(600)", seconds=3, environ=environ))
    assert found.kind == "timeout"
    assert gone(noted()["pid"])
    assert gone(int(child.read_text()))


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="processes are looked up in /proc")
def test_what_a_program_leaves_running_ends_with_it(playing: Playing, tmp_path: Path) -> None:
    child = tmp_path / "child.pid"
    environ = {**os.environ, "CHILD_NOTE": str(child)}
    script = f"{CHILDREN}\nsay({FACTS!r})"
    assert answer(playing("claude_cli", script, environ=environ)).text == FACTS
    assert gone(int(child.read_text()))


@pytest.mark.parametrize("provider", CLIS)
def test_the_health_check_asks_for_the_version_alone(
    provider: str, playing: Playing, noted: Callable[[], dict[str, Any]]
) -> None:
    using(model(playing(provider, "print('1.0')")), lambda made: made.check())
    assert noted()["arguments"] == ["--version"]
    with pytest.raises(ModelUnavailable, match="when asked for its version"):
        using(model(playing(provider, "sys.exit(1)")), lambda made: made.check())
