"""The JavaScript plugins for OpenClaw and OpenCode, run by node with the hooks' own arguments against a real daemon."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from filrouge.cli import client
from filrouge.daemon import process
from filrouge.hosts import plugins
from filrouge.hosts.setup.files import Machine
from filrouge.hosts.setup.plan import apply_change, plan_connecting

if shutil.which("node") is None:
    pytest.skip("node, which runs the plugins of OpenClaw and OpenCode, is not on the PATH", allow_module_level=True)

DRIVER = Path(__file__).parent.parent / "support" / "plugin_driver.mjs"
OPENCLAW = os.path.join(plugins.directory("openclaw"), "index.js")
OPENCODE = os.path.join(plugins.directory("opencode"), "filrouge.js")
WORKSPACE = "/home/ana/.openclaw/workspace"
SHOP = "/home/ana/shop"
BACKUPS = "We decided that backups run every night to Backblaze B2, because it is cheap. Always keep them for 30 days."
ORM = "For the storefront API we decided on Drizzle instead of Prisma because of the edge runtime."
Step = tuple[str, dict[str, Any] | None, dict[str, Any] | None]


def play(plugin: str, steps: list[Step], path: str = "", **more: Any) -> dict[str, Any]:
    """What came of each step of a plugin, in a fresh node."""
    bin_directory = os.path.dirname(sys.executable)
    environment = os.environ | {"PATH": path or os.pathsep.join([bin_directory, os.environ["PATH"]])}
    done = subprocess.run(
        [str(shutil.which("node")), str(DRIVER)],
        input=json.dumps({"plugin": plugin, "steps": steps} | more),
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def heard(channel: str, role: str = "") -> list[str]:
    """What is stored of a host's messages."""
    assert client.poll(client.is_idle, 60)
    found = client.ask("GET", "/api/memory/messages", query={"channel": channel, "limit": 100})
    return [one["content"] for one in found if role in ("", one["role"])]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    directory = str(tmp_path_factory.mktemp("home") / "filrouge")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("FILROUGE_HOME", directory)
        environment.delenv("FILROUGE_DISABLED", raising=False)
        process.ensure_running(directory)
        try:
            yield directory
        finally:
            subprocess.run([sys.executable, "-m", "filrouge.cli.main", "daemon", "stop"], check=True, timeout=60)


# ------------------------------------------------------------------------------------------ OpenClaw


def ctx(session: str = "s-1", run: str = "r-1", **more: Any) -> dict[str, Any]:
    place = {"agentId": "main", "sessionKey": "agent:main:main", "workspaceDir": WORKSPACE, "trigger": "user"}
    return place | {"sessionId": session, "runId": run} | more


def turn(prompt: str, answer: str, **where: Any) -> list[Step]:
    """A run of OpenClaw, told as it tells it: the prompt before it, all messages after it."""
    messages = [
        {"role": "user", "content": "an earlier word that was told in its own turn"},
        {"role": "assistant", "content": [{"type": "text", "text": "An earlier answer."}]},
        {"role": "user", "content": prompt},
        {"role": "assistant", "content": [{"type": "text", "text": answer}]},
    ]
    ended = {"runId": where.get("run", "r-1"), "messages": messages, "success": True, "durationMs": 900}
    asked = {"prompt": f"[telegram] {prompt}", "currentUserMessage": prompt, "messages": messages[:2]}
    return [("before_prompt_build", asked, ctx(**where)), ("agent_end", ended, ctx(**where))]


@pytest.fixture(scope="module")
def openclaw(home: str) -> dict[str, Any]:
    """A conversation in OpenClaw, from its first prompt to its end."""
    heartbeat = turn("HEARTBEAT: check the calendar", "HEARTBEAT_OK", run="r-2", trigger="heartbeat")
    end: Step = ("session_end", {"sessionId": "s-1", "messageCount": 4, "reason": "idle"}, {"agentId": "main"})
    compaction: Step = ("before_compaction", {"messageCount": 84, "tokenCount": 151000}, ctx())
    return play(OPENCLAW, [*turn(BACKUPS, "Noted: nightly to B2."), *heartbeat, compaction, end])


@pytest.mark.slow
def test_openclaw_s_plugin_stores_each_word_of_a_run_once_and_nothing_of_a_heartbeat(
    home: str, openclaw: dict[str, Any]
) -> None:
    assert heard("openclaw") == [BACKUPS, "Noted: nightly to B2."]
    assert openclaw["hooks"] == ["before_prompt_build", "agent_end", "before_compaction", "session_end"]


def test_a_later_session_of_openclaw_gets_the_rule_at_its_start_and_the_decision_before_the_prompt(
    home: str, openclaw: dict[str, Any]
) -> None:
    assert heard("openclaw")
    question = {"prompt": "where do the backups go?", "currentUserMessage": "where do the backups go?"}
    steps: list[Step] = [("before_prompt_build", question, ctx("s-2", "r-9"))] * 2
    first, second = (
        str(step["returned"]["prependContext"] if step["returned"] else "") for step in play(OPENCLAW, steps)["results"]
    )

    assert "B2" in first
    assert "30 days" in first
    assert (first.count("<filrouge-memory"), second.count("<filrouge-memory")) == (2, 1)


def test_what_openclaw_was_given_is_not_heard_from_it_again(home: str, openclaw: dict[str, Any]) -> None:
    question = "remind me where the backups go"
    asked = {"prompt": question, "currentUserMessage": question}
    given = play(OPENCLAW, [("before_prompt_build", asked, ctx("s-3", "r-3"))])["results"][0]["returned"]
    echoed = [{"role": "user", "content": f"{given['prependContext']}\n\n{question}"}]
    play(OPENCLAW, [("agent_end", {"runId": "r-3", "messages": echoed, "success": True}, ctx("s-3", "r-3"))])

    assert not [text for text in heard("openclaw") if "filrouge-memory" in text]
    assert heard("openclaw").count(BACKUPS) == 1


NOTHING: list[tuple[dict[str, Any] | None, dict[str, Any] | None]] = [
    (None, None),
    ({"messages": 3, "prompt": {}}, {"sessionId": 7}),
    ({"messages": [None, 1]}, {}),
]
ODD: list[Step] = [
    (hook, event, where)
    for hook in ("before_prompt_build", "agent_end", "before_compaction", "session_end")
    for event, where in NOTHING
]


def test_openclaw_s_plugin_throws_at_nothing(home: str) -> None:
    assert [step["returned"] for step in play(OPENCLAW, ODD)["results"]] == [None] * len(ODD)


# ------------------------------------------------------------------------------------------ OpenCode


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words} | more


def message(role: str, name: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"info": {"id": name, "role": role}, "parts": list(parts)}


def said(words: str, session: str = "ses_1", name: str = "msg_1") -> Step:
    parts = [text(words), text("the file it names", synthetic=True)]
    return ("chat.message", {"sessionID": session}, {"message": {"id": name}, "parts": parts})


def shown(session: str) -> Step:
    return ("experimental.chat.system.transform", {"sessionID": session}, {"system": ["You are OpenCode."]})


def happened(kind: str, **properties: Any) -> Step:
    return ("event", {"event": {"type": kind, "properties": properties}}, None)


@pytest.fixture(scope="module")
def opencode(home: str) -> dict[str, Any]:
    """A session in OpenCode with a tool, a helper, and an end."""
    sessions = {
        "ses_1": {
            "messages": [
                message("user", "msg_1", text(ORM)),
                message("assistant", "msg_2", {"type": "tool"}, text("Noted, Drizzle it is.")),
            ]
        },
        "ses_help": {"parentID": "ses_1", "messages": [message("user", "m", text("look for schemas"))]},
    }
    steps: list[Step] = [
        said(ORM),
        shown("ses_1"),
        (
            "tool.execute.after",
            {"tool": "bash", "sessionID": "ses_1", "callID": "c1", "args": {"command": "ls db"}},
            {"title": "ls", "output": "schema.ts", "metadata": {}},
        ),
        said("look for schemas", "ses_help", "m"),
        happened("session.idle", sessionID="ses_help"),
        happened("session.idle", sessionID="ses_1"),
        ("experimental.session.compacting", {"sessionID": "ses_1"}, {"context": []}),
        happened("session.compacted", sessionID="ses_1"),
        ("dispose", None, None),
    ]
    return play(OPENCODE, steps, directory=SHOP, sessions=sessions)


def test_opencode_s_plugin_tells_prompts_tools_and_answers_and_nothing_of_its_helpers(
    home: str, opencode: dict[str, Any]
) -> None:
    assert heard("opencode", "user") == [ORM]
    assert heard("opencode", "assistant") == ["Noted, Drizzle it is."]
    assert [line.partition(":")[0] for line in heard("opencode", "tool")] == ["bash"]


def test_a_later_session_of_opencode_is_told_in_its_system_prompt_at_every_request_of_the_turn(
    home: str, opencode: dict[str, Any]
) -> None:
    assert heard("opencode")
    question = said("Which ORM does the storefront API use, and why?", "ses_2", "msg_9")
    results = play(OPENCODE, [question, shown("ses_2"), shown("ses_2"), shown("ses_other")], directory=SHOP)["results"]
    first, again, stranger = ("\n".join(step["second"]["system"]) for step in results[1:])

    assert "Drizzle" in first
    assert first == again
    assert stranger == "You are OpenCode."


def test_the_quotes_that_opencode_run_adds_are_not_what_was_said(home: str) -> None:
    typed = {
        '"Call it \\"harbour\\" in the docs, please."': 'Call it "harbour" in the docs, please.',
        '"harbour" is what the docs call a "port" here.': '"harbour" is what the docs call a "port" here.',
    }
    play(OPENCODE, [said(words, "ses_5", f"m{place}") for place, words in enumerate(typed)], directory=SHOP)

    assert [one for one in heard("opencode", "user") if "harbour" in one] == list(typed.values())


def test_the_model_that_makes_a_title_is_told_nothing(home: str, opencode: dict[str, Any]) -> None:
    assert heard("opencode")
    system = ["You are a title generator. You output ONLY a thread title."]
    title: Step = ("experimental.chat.system.transform", {"sessionID": "ses_6"}, {"system": list(system)})
    question = said("Which ORM does the storefront API use, and why?", "ses_6", "msg_6")
    _, made, told = play(OPENCODE, [question, title, shown("ses_6")], directory=SHOP)["results"]

    assert made["second"]["system"] == system
    assert len(told["second"]["system"]) > 1


def test_opencode_s_plugin_throws_at_nothing(home: str) -> None:
    odd: list[tuple[dict[str, Any] | None, dict[str, Any] | None]] = [
        (None, None),
        ({"sessionID": 3}, {"parts": 7}),
        ({"event": {"type": "session.idle"}}, {}),
    ]
    hooks = ("chat.message", "experimental.chat.system.transform", "tool.execute.after", "event")
    steps: list[Step] = [(hook, first, second) for hook in hooks for first, second in odd]

    assert len(play(OPENCODE, steps, directory=None)["results"]) == len(steps)


# ------------------------------------------------------------------------------------------ in trouble


@pytest.mark.parametrize(
    ("plugin", "step"),
    [(OPENCLAW, ("before_prompt_build", {"prompt": BACKUPS}, ctx())), (OPENCODE, said(ORM))],
    ids=["openclaw", "opencode"],
)
def test_a_program_that_hangs_is_left_after_the_deadline(
    plugin: str, step: Step, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "filrouge"
    program.write_text("#!/bin/sh\nexec sleep 30\n", encoding="utf-8")
    program.chmod(0o755)
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    played = play(plugin, [step], path=path, directory=SHOP, hurry=10)

    assert played["results"][0]["returned"] is None
    assert played["results"][0]["seconds"] < 10


@pytest.mark.parametrize("plugin", [OPENCLAW, OPENCODE], ids=["openclaw", "opencode"])
def test_what_a_hook_answers_after_two_seconds_and_a_half_is_used(plugin: str, tmp_path: Path) -> None:
    program = tmp_path / "filrouge"
    late = 'case "$(cat)" in *session_start*|*SessionStart*) ;; *) sleep 2.5 ;; esac'
    program.write_text(f'#!/bin/sh\n{late}\necho \'{{"context":"as told"}}\'\n', encoding="utf-8")
    program.chmod(0o755)
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    if plugin == OPENCLAW:
        asked: list[Step] = [("before_prompt_build", {"prompt": "hello"}, ctx())]
        shown_to_it = play(plugin, asked, path=path)["results"][0]["returned"]["prependContext"].split("\n\n")
    else:
        shown_to_it = play(plugin, [said(ORM), shown("ses_1")], path=path)["results"][1]["second"]["system"][1:]

    assert shown_to_it == ["as told", "as told"]


@pytest.mark.parametrize(
    ("plugin", "step"),
    [(OPENCLAW, turn(BACKUPS, "Noted: nightly.")[1]), (OPENCODE, said(ORM))],
    ids=["openclaw", "opencode"],
)
def test_a_program_that_starts_late_still_gets_to_know_what_was_said(plugin: str, step: Step, tmp_path: Path) -> None:
    program = tmp_path / "filrouge"
    heard = tmp_path / "heard"
    program.write_text(f"#!/bin/sh\nsleep 4\ncat >>'{heard}'\n", encoding="utf-8")
    program.chmod(0o755)
    play(plugin, [step], path=os.pathsep.join([str(tmp_path), os.environ["PATH"]]), directory=SHOP, hurry=4)

    words = "Noted: nightly." if plugin == OPENCLAW else ORM
    assert client.poll(lambda: heard.exists() and words in heard.read_text("utf-8"), 30)


def test_openclaw_s_plugin_uses_the_program_that_its_settings_name(tmp_path: Path) -> None:
    program = tmp_path / "another"
    program.write_text('#!/bin/sh\ncat >/dev/null\necho \'{"context":"as told"}\'\n', encoding="utf-8")
    program.chmod(0o755)
    step: Step = ("agent_end", {}, ctx(trigger="cron"))
    asked: Step = ("before_prompt_build", {"prompt": "hello"}, ctx())
    results = play(OPENCLAW, [step, asked], config={"executable": str(program)})["results"]

    assert [one["returned"] for one in results] == [None, {"prependContext": "as told\n\nas told"}]


def test_openclaw_s_plugin_looks_around_where_the_named_program_is_gone(tmp_path: Path) -> None:
    program = tmp_path / "filrouge"
    program.write_text('#!/bin/sh\ncat >/dev/null\necho \'{"context":"found"}\'\n', encoding="utf-8")
    program.chmod(0o755)
    asked: Step = ("before_prompt_build", {"prompt": "hello"}, ctx())
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    played = play(OPENCLAW, [asked], path=path, config={"executable": str(tmp_path / "gone")})

    assert played["results"][0]["returned"] == {"prependContext": "found\n\nfound"}


@pytest.mark.parametrize("plugin", [OPENCLAW, OPENCODE], ids=["openclaw", "opencode"])
def test_without_a_filrouge_a_plugin_does_nothing(plugin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    if os.path.exists("/usr/local/bin/filrouge") or os.path.exists("/opt/homebrew/bin/filrouge"):
        pytest.skip("a filrouge is installed for the whole machine, where the plugins look last")
    played = play(plugin, [], path=str(tmp_path))

    assert played["hooks"] == []


def test_opencode_s_plugin_runs_the_program_that_init_named(tmp_path: Path) -> None:
    user, program = tmp_path / "user", tmp_path / "elsewhere" / "filrouge"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\ncat >/dev/null\necho \'{"context":"as told"}\'\n', encoding="utf-8")
    program.chmod(0o755)
    machine = Machine(environ={"HOME": str(user), "PATH": ""}, executable=str(program))
    for change in plan_connecting(machine, str(tmp_path / "filrouge"), ["opencode"], tools=False).changes:
        apply_change(change, str(tmp_path / "filrouge"))
    settings = json.loads((user / ".config/opencode/opencode.json").read_text("utf-8"))
    [[plugin, options]] = settings["plugin"]
    transform: Step = ("experimental.chat.system.transform", {"sessionID": "ses_1"}, {"system": ["own"]})
    played = play(plugin, [said(ORM), transform], path="/nowhere", config=options, directory=SHOP)

    assert played["results"][1]["second"]["system"] == ["own", "as told", "as told"]
