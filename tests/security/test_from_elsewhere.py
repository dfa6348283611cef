"""Hooks and commands reach a daemon elsewhere by its address and a token; who is refused loses nothing."""

from __future__ import annotations

import json

from filrouge.daemon import client
from tests.reliability.processes import eventually, hook, prompt, reply, session_start, spooled, throw_away_home

from .wire import command, served

SAID = "We decided to use Drizzle for the database layer of the shop."


def test_a_hook_delivers_over_tcp_and_a_command_recalls_it() -> None:
    with served() as door, throw_away_home() as away:
        there = {"FILROUGE_URL": door.url, "FILROUGE_API_KEY": door.tokens["write"]}
        for payload in (session_start(away, "s1"), prompt(away, "s1", "p1", SAID), reply(away, "s1", "p1", "Done.")):
            assert hook(away, payload, **there).code == 0
        assert spooled(away) == []
        eventually("it is understood", lambda: "Drizzle" in command(away, there, "facts", "--all").out)
        shown = command(away, there, "daemon", "status", "--json")
        assert (shown.code, f'"{door.url}"' in shown.out) == (0, True)


def test_a_hook_with_a_wrong_token_spools_and_brings_it_along_once_it_is_let_in() -> None:
    with served() as door, throw_away_home() as away:
        wrong = {"FILROUGE_URL": door.url, "FILROUGE_API_KEY": "frg_wrong"}
        first = hook(away, prompt(away, "s1", "p1", SAID), **wrong)
        assert (first.code, "does not take the key" in json.loads(first.out)["systemMessage"]) == (0, True)
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
