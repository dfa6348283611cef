"""Hooks and commands reach a daemon elsewhere by its address and a token; who is refused loses nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from filrouge.daemon import client
from tests.reliability.processes import (
    environment,
    eventually,
    hook,
    prompt,
    reply,
    session_start,
    spooled,
    throw_away_home,
)

from .wire import command, served

BOT = Path(__file__).parents[2] / "examples" / "chat_bot.py"
SAID = "We decided to use Drizzle for the database layer of the shop."


def test_a_hook_delivers_over_tcp_and_a_command_recalls_it() -> None:
    with served() as door, throw_away_home() as away:
        there = {"FILROUGE_URL": door.url, "FILROUGE_API_KEY": door.tokens["write"]}
        for payload in (session_start(away, "s1"), prompt(away, "s1", "p1", SAID), reply(away, "s1", "p1", "Done.")):
            assert hook(away, payload, **there).code == 0

        def nothing_waits() -> bool:  # a hook that had no time, on a machine with too much to do, left it to the next
            assert hook(away, session_start(away, "s2"), **there).code == 0
            return spooled(away) == []

        eventually("all of it is delivered", nothing_waits)
        eventually("it is understood", lambda: "Drizzle" in command(away, there, "facts", "--all").out)
        shown = command(away, there, "daemon", "status", "--json")
        assert (shown.code, f'"{door.url}"' in shown.out) == (0, True)


def test_a_hook_with_a_wrong_token_spools_and_brings_it_along_once_it_is_let_in() -> None:
    with served() as door, throw_away_home() as away:
        wrong = {"FILROUGE_URL": door.url, "FILROUGE_API_KEY": "frg_wrong"}
        first = hook(away, prompt(away, "s1", "p1", SAID), **wrong)
        assert (first.code, "rejects the key" in json.loads(first.out)["systemMessage"]) == (0, True)
        too_small = wrong | {"FILROUGE_API_KEY": door.tokens["read"]}
        second = hook(away, prompt(away, "s1", "p2", "And Postgres under it, please."), **too_small)
        assert (second.code, second.out) == (0, "")  # it is told once
        assert len(spooled(away)) == 2
        assert command(away, wrong, "facts").code == 4
        right = wrong | {"FILROUGE_API_KEY": door.tokens["write"]}
        assert hook(away, reply(away, "s1", "p2", "Done."), **right).code == 0
        assert hook(away, session_start(away, "s2"), **right).code == 0  # brings along what the first had no time for
        assert spooled(away) == []
        eventually("all is there", lambda: client.request(door.home, "GET", "/daemon/status").body["turns"] == 3)


def test_a_program_with_an_address_and_a_key_talks_and_takes_its_memory_along(tmp_path: Path) -> None:
    with served(FILROUGE_EMBEDDING_MODEL="hashing") as door, throw_away_home() as away:
        there = {"FILROUGE_URL": door.url, "FILROUGE_API_KEY": door.tokens["write"]}
        assert chat(away, there, "For the record: the staging server listens on port 9443.", "terminal").returncode == 0
        eventually("it is understood", lambda: "9443" in command(away, there, "facts", "--all").out)
        assert "9443" in chat(away, there, "Which port does the staging server listen on?", "web").stdout
        file = tmp_path / "mine.json"
        assert command(away, there, "export", "--out", str(file)).code == 0
        assert [one for one in json.loads(file.read_text("utf-8"))["memories"] if "9443" in one["text"]]
        refused = command(away, there, "import", str(file))
        assert (refused.code, "scope admin" in refused.err) == (4, True)
        wrong = there | {"FILROUGE_API_KEY": "frg_wrong"}
        assert chat(away, wrong, "hello", "web").returncode != 0
        assert command(away, wrong, "export").code == 4


def chat(home: str, environ: Mapping[str, str], said: str, channel: str) -> subprocess.CompletedProcess[str]:
    """The example chat bot, told one thing."""
    words = [sys.executable, str(BOT), "--channel", channel, "--session", channel]
    return subprocess.run(
        words, env={**environment(home), **environ}, input=said, capture_output=True, text=True, timeout=60, check=False
    )
