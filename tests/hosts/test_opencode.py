"""The real OpenCode with its plugin: what is said in it is remembered, and comes back in another session.

Every prompt is an `opencode run`, a session of its own, so what the model is shown of the past can only come from
Filrouge.
"""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from .command_lines import TURN_SECONDS, Desk, install
from .product import EXECUTABLE
from .scripted_model import Call, Request, on

DECISION = "We decided on Drizzle instead of Prisma for the reef API because of the edge runtime."
QUESTION = "Which ORM did we choose for the reef API, and why?"
TOOL = "echo tide-table-$((8000 + 123))"


def ask(desk: Desk, prompt: str) -> list[Request]:
    """One session of OpenCode: what its model was shown."""
    before = len(desk.model.requests)
    command = [install("opencode"), "run", prompt]
    done = subprocess.run(
        command, cwd=desk.project("reef"), env=desk.env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=TURN_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return desk.model.requests[before:]


@pytest.fixture(scope="module")
def reef(desk: Desk) -> Desk:
    """A desk at which `init` connected OpenCode, and which was told a decision."""
    place = os.path.join(desk.home, ".config", "opencode")
    os.makedirs(place)
    model = {"name": "scripted", "limit": {"context": 200_000, "output": 8000}, "tool_call": True}
    options = {"baseURL": f"{desk.model.url}/v1", "apiKey": "not-a-real-key"}
    provider = {"npm": "@ai-sdk/anthropic", "options": options, "models": {"m": model}}
    chosen = {"model": "scripted/m", "small_model": "scripted/m", "permission": "allow", "autoupdate": False}
    with open(os.path.join(place, "opencode.json"), "w", encoding="utf-8") as file:
        json.dump({**chosen, "provider": {"scripted": provider}}, file)
    subprocess.run([EXECUTABLE, "init", "--host", "opencode", "--no-tools", "--yes"], env=desk.env, check=True)
    programs = desk.env["PATH"].split(os.pathsep)
    # The plugin has to find the program by what `init` wrote.
    desk.env["PATH"] = os.pathsep.join(one for one in programs if not os.path.exists(os.path.join(one, "filrouge")))
    desk.env["OPENCODE_DISABLE_MODELS_FETCH"] = "1"
    desk.model.teach(
        on("look at the tide", Call("bash", {"command": TOOL, "description": "tide"}), "High at noon."),
        on("We decided on Drizzle", "Noted."),
    )
    ask(desk, DECISION)
    desk.product.understood()
    return desk


def test_a_decision_said_to_opencode_is_kept_and_told_in_another_session(reef: Desk) -> None:
    assert "Drizzle" in reef.product.everything_known()
    told = [request for request in ask(reef, QUESTION) if request.tools]  # the others make a title

    assert told
    assert all("Drizzle" in request.recalled for request in told)


def test_the_model_that_makes_titles_is_told_nothing(reef: Desk) -> None:
    titles = [request for request in ask(reef, QUESTION) if "title generator" in request.text]

    assert titles
    assert [request.recalled for request in titles if request.recalled] == []


def test_prompts_tools_and_answers_are_stored_as_they_were(reef: Desk) -> None:
    ask(reef, "look at the tide")
    reef.product.understood()
    hits = json.loads(reef.product.run("search", "tide-table-8123 tide noon", "--json", "--channel", "opencode"))
    said = {(hit["role"], hit["content"].partition(":")[0]) for hit in hits if hit["type"] == "turn"}

    assert {("user", "look at the tide"), ("assistant", "High at noon."), ("tool", "bash")} <= said
    assert [hit for hit in hits if "8123" in hit["content"]]
