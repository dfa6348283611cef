"""The log of a real daemon tells every decision by its ids, and has no word of what was said to it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

import pytest

from filrouge.core import paths as places
from filrouge.daemon import client
from filrouge.runtime.feed_messages import LiveMessage

from .processes import PATIENCE, daemon, eventually, hook, prompt, run, status

CANARIES = ("marzipanotter", "quincebadger", "saffronlemur", "juniperstoat")
SECRET = "AKIAIOSFODNN7QQQQQQQ"
PAGE = Path(__file__).parents[2] / "docs/reference/logs.md"


def log(home: str) -> str:
    return Path(places.inside(home, places.LOG)).read_text(encoding="utf-8")


def understood(home: str) -> bool:
    queue = status(home)["queue"]
    return queue["waiting"] + queue["running"] == 0 and status(home)["memories"] > 0


@pytest.mark.parametrize("form", ["text", "json"])
def test_decisions_are_logged_by_id_and_no_word_of_a_conversation_is(home: str, form: str) -> None:
    first, second, third, fourth = CANARIES
    with daemon(home, FILROUGE_LOG_FORMAT=form):
        said = f"We decided that the {first} service listens on port 19031. The key is {SECRET}."
        assert hook(home, prompt(home, "s", "p1", said)).code == 0
        eventually("it is understood", lambda: understood(home))
        for method, path, body in (
            ("POST", "/api/memory/memories", {"text": f"The {second} team prefers tabs."}),
            ("POST", "/api/memory/memories", {"text": f"The {second} team prefers spaces, no longer tabs."}),
            ("GET", f"/api/memory/search?q={third}%20AND%20(%20{third}", None),
            ("POST", "/memory/context", {"prompt": f"What does the {first} service listen on?"}),
            ("POST", "/search", {"query": fourth, "what": fourth}),
            ("GET", f"/api/memory/memories/{fourth}", None),
            ("GET", f"/{fourth}?q={fourth}", None),
            ("POST", "/hooks/events", {"events": [{"id": fourth}]}),
        ):
            client.request(home, method, path, body, PATIENCE)
        forgotten = client.request(home, "POST", "/api/memory/forget", {"text": second, "at_once": True}, PATIENCE)
        assert forgotten.body["ok"]
        eventually("it is written down", lambda: "forgotten receipt_id=" in log(home))
        records = json.loads(run(home, "logs", "-n", "1000", "--json").out)
    written = log(home)
    for word in (*CANARIES, SECRET, "19031", "prefers"):
        assert word not in written
    assert {one["level"] for one in records} <= {"INFO", "WARNING", "ERROR"}
    decided = [one for one in records if one["logger"] == "filrouge.decisions"]
    assert {"memory_decided", "thread_placed", "recall_injected", "forgotten"} <= {
        one["message"].split(" ")[0] for one in decided
    }
    if form == "json":
        made = [one["decision"] for one in decided if one["decision"]["kind"] == "memory_decided"]
        assert {"entry", "memory_id", "actor", "made_by", "prompt_version"} <= made[0].keys()
        assert all(json.loads(line) for line in written.splitlines())


def test_the_page_lists_the_fields_of_a_record_and_the_kinds_of_decisions() -> None:
    page = PAGE.read_text(encoding="utf-8")
    fields, kinds = page.split("## Decision records")
    described = re.findall(r"^\| `(\w+)` \|", fields, re.MULTILINE)
    assert described == ["time", "level", "logger", "message", "decision", "error"]
    told = {name for row in re.findall(r"^\| (`.*?`) \|", kinds, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
    silent = {"event_captured", "backup_made"}
    assert told == {one.type.removeprefix("ws:") for one in get_args(LiveMessage)} - silent
