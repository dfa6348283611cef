"""A hook asks no model: it opens no connection but to the daemon's socket, and loads nothing that could ask.

Real hook processes run with a provider in the settings. An audit hook of the interpreter, set up before anything of
Filrouge is imported, writes down every connection and every process that they begin, and every module they load.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.mind import Mind
from tests.support.provider import Provider

from .processes import Row, hook, prompt, reply, session_start, tool

#: Runs at the start of every Python process that has its directory on the path. A hook ends without ceremony, so each
#: thing is written as it happens.
WATCH = """
import json, os, sys

if "hook" in sys.orig_argv:
    told = os.open(os.environ["WATCHED"], os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    wanted = {"import": 0, "socket.connect": 1, "subprocess.Popen": 1, "os.posix_spawn": 1, "os.exec": 1}

    def note(event, arguments):
        if event in wanted:
            os.write(told, (json.dumps([event, str(arguments[wanted[event]])]) + "\\n").encode())

    sys.addaudithook(note)
"""
ASKING = {"anthropic", "asyncio", "http.client", "httpx", "httpx2", "openai", "pydantic_ai", "ssl", "urllib.request"}


def moment(home: str, name: str) -> Row:
    match name:
        case "SessionStart":
            return session_start(home, "s")
        case "UserPromptSubmit":
            return prompt(home, "s", "p1", "The kiosk prints every ticket twice since the update.")
        case "PostToolUse":
            return tool(home, "s", "p1", "12 passed")
        case _:
            return reply(home, "s", "p1", "The printer driver was the cause; it is pinned to 4.2 now.")


@pytest.mark.parametrize("name", ["SessionStart", "UserPromptSubmit", "PostToolUse", "Stop"])
def test_a_hook_connects_to_the_daemon_alone_and_loads_nothing_that_could_ask(
    name: str, home: str, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(WATCH)
    watched = tmp_path / "watched.jsonl"
    with Provider(choosing=Mind().answer, models=["little"]) as server:
        settings = {
            "FILROUGE_EXTRACT_PROVIDER": "openai",
            "FILROUGE_EXTRACT_MODEL": "little",
            "FILROUGE_LLM_URL": server.url("openai"),
            "PYTHONPATH": str(tmp_path),
            "WATCHED": str(watched),
        }
        ended = hook(home, moment(home, name), **settings)
        assert (ended.code, ended.err) == (0, "")
        seen: list[tuple[str, str]] = [tuple(json.loads(line)) for line in watched.read_text().splitlines()]
    loaded = {what for event, what in seen if event == "import"}
    assert "filrouge.daemon.client" in loaded
    assert not loaded & ASKING
    assert not [module for module in loaded if module.startswith("filrouge.providers")]
    assert [place for event, place in seen if event == "socket.connect" and not place.endswith(".sock")] == []
    begun = [words for event, words in seen if event not in ("import", "socket.connect")]
    assert [words for words in begun if "filrouge.server" not in words] == []
