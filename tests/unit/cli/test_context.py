"""`filrouge context` prints what a hook prints, to the byte but for the nonce, and why each candidate is in or out."""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import pytest

from filrouge.capture import events
from filrouge.daemon import client
from tests.reliability import processes
from tests.reliability.processes import Done, daemon, eventually, hook, prompt, quiet, session_start, throw_away_home

PORT = "For the record: production listens on port 8443."
RULE = "From now on, always use uv and never pip in this repository."
QUESTION = "What port does production listen on?"


@dataclass(frozen=True, kw_only=True)
class Place:
    """A home whose daemon has learned something in the project `shop`."""

    home: str

    def filrouge(self, *words: str, **environ: str) -> Done:
        return processes.run(self.home, *words, stdin=b"", timeout=60.0, **environ)

    def hook(self, payload: dict[str, Any]) -> str:
        """What a host is given; nothing where the hook prints nothing."""
        done = hook(self.home, payload)
        assert (done.code, done.err) == (0, "")
        return json.loads(done.out)["hookSpecificOutput"]["additionalContext"] if done.out else ""

    def log(self) -> list[dict[str, Any]]:
        """The recall log, newest first."""
        return client.request(self.home, "GET", "/api/memory/retrievals?limit=50", None, 10.0).value


@pytest.fixture(scope="module")
def place() -> Generator[Place]:
    with throw_away_home() as home, daemon(home):
        for number, text in enumerate((PORT, RULE)):
            hook(home, prompt(home, "one", f"p{number}", text))
        eventually("what was said is understood", lambda: quiet(home))
        yield Place(home=home)


def unmarked(block: str) -> str:
    """A block without its nonce."""
    return re.sub(r"[0-9a-f]{16}", "NONCE", block)


@pytest.mark.parametrize(
    "text", [QUESTION, "Sur quel port est-ce que la production écoute ?", "what did we talk about today?", "port?"]
)
def test_before_a_prompt_it_prints_what_the_hook_prints(place: Place, text: str) -> None:
    before = place.log()
    printed = place.filrouge("context", text)
    assert (printed.code, printed.err) == (0, "")
    assert place.log() == before
    given = place.hook(prompt(place.home, f"a session of {text}", "p", text))
    assert unmarked(printed.out.removesuffix("\n")) == unmarked(given)
    assert bool(given) == (text != "port?")
    eventually("the prompt is understood", lambda: quiet(place.home))


@pytest.mark.parametrize("opening", ["startup", "compact"])
def test_at_a_start_it_prints_what_the_hook_prints(place: Place, opening: str) -> None:
    printed = place.filrouge("context", "--session-start", "--opening", opening)
    given = place.hook(session_start(place.home, "two") | {"source": opening})
    assert unmarked(printed.out.removesuffix("\n")) == unmarked(given)
    assert "## Rules" in given


def test_it_says_of_every_candidate_whether_it_is_in_and_why(place: Place) -> None:
    said = place.filrouge("context", QUESTION, "--explain").out.splitlines()
    rows = [line.split("\t") for line in said if line.count("\t") == 7]
    heading, *rest = rows if rows[0][0] == "" else [[], *rows]
    assert heading == []
    ins = [row for row in rest if row[0] == "in"]
    assert [(row[5], "8443" in row[7]) for row in ins if row[1] == "memories"] == [("injected", True)]
    assert {row[1] for row in ins} <= {"memories", "thread", "threads", "decisions"}  # what goes along with it
    assert all(row[0] in ("in", "out") and row[5] for row in rest)
    silent = place.filrouge("context", "écris un haïku sur la pluie de printemps", "--explain")
    assert silent.out.startswith("No context would be added.\n")
    assert "\tnothing relevant is known\t" in silent.out
    assert place.filrouge("context", "écris un haïku sur la pluie de printemps").out == ""


def test_its_json_is_the_body_of_the_route(place: Place) -> None:
    found = json.loads(place.filrouge("context", QUESTION, "--json").out)
    assert found.keys() == {
        "context", "memories", "notes", "notices", "enabled", "language", "tokens", "latency_ms", "candidates",
    }  # fmt: skip
    [memory] = [one for one in found["memories"] if one["section"] == "memories"]
    assert (memory["channel"], memory["verified"]) == ("claude-code", True)
    assert memory["id"] in [one["id"] for one in found["candidates"] if one["injected"]]


def test_where_hooks_are_switched_off_it_prints_nothing_and_says_why(place: Place) -> None:
    off = place.filrouge("context", QUESTION, "--explain", **{events.DISABLED_VARIABLE: "1"})
    assert off.out == f"Hooks do nothing: {events.DISABLED_VARIABLE} is set.\n"
    assert place.filrouge("context", QUESTION, **{events.DISABLED_VARIABLE: "1"}).out == ""
    uncaptured = place.filrouge("context", QUESTION, "--explain", FILROUGE_AUTO_CAPTURE="false")
    assert "auto_capture is off" in uncaptured.out


def test_another_project_is_another_context_and_no_prompt_is_a_mistake(place: Place) -> None:
    assert place.filrouge("context", QUESTION, "--project", "origin:forge.example/ana/blog").out == ""
    assert "8443" in place.filrouge("context", QUESTION, "--project", "shop").out
    assert place.filrouge("context").code == 2
    assert "--session-start" in place.filrouge("context").err
