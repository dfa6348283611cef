"""The real Copilot command line with hooks in the repository: what is said is kept, and comes back.

It needs no login where a model of one's own answers. Every prompt is a session of its own, so what the model is shown
of the past can only come from Filrouge.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess

import pytest

from .command_lines import TURN_SECONDS, Desk, install
from .product import EXECUTABLE, eventually
from .scripted_model import Call, Request, on

DECISION = "We decided on Drizzle instead of Prisma for the reef API because of the edge runtime."
QUESTION = "Which ORM did we choose for the reef API, and why?"
EVENTS = ("sessionStart", "userPromptSubmitted", "postToolUse", "preCompact", "sessionEnd")


def ask(desk: Desk, prompt: str) -> list[Request]:
    """One session of Copilot: what its model was shown."""
    before = len(desk.model.requests)
    env = {"FILROUGE_HOME": desk.env["FILROUGE_HOME"]}
    tools = {"filrouge": {"type": "local", "command": EXECUTABLE, "args": ["mcp"], "env": env, "tools": ["*"]}}
    command = [install("copilot-cli"), "--allow-all-tools", "--trust-folder", "--prompt", prompt]
    command += ["--additional-mcp-config", json.dumps({"mcpServers": tools})]
    done = subprocess.run(
        command, cwd=desk.project("reef"), env=desk.env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=TURN_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return desk.model.requests[before:]


def said(desk: Desk) -> set[tuple[str, str]]:
    hits = json.loads(desk.product.run("search", "Drizzle tide", "--json", "--channel", "copilot-cli"))
    return {(hit["role"], hit["content"]) for hit in hits if hit["type"] == "turn"}


@pytest.fixture(scope="module")
def reef(desk: Desk) -> Desk:
    """A desk at which Copilot has the hooks of the guide and was told a decision."""
    place = os.path.join(desk.project("reef"), ".github", "hooks")
    os.makedirs(place)
    hook = {"type": "command", "bash": shlex.join([EXECUTABLE, "hook", "--host", "copilot-cli"]), "timeoutSec": 10}
    desk.write(place, "filrouge.json", json.dumps({"version": 1, "hooks": {event: [hook] for event in EVENTS}}))
    desk.env["COPILOT_OFFLINE"] = "true"
    desk.env["COPILOT_PROVIDER_BASE_URL"] = desk.model.url
    desk.env["COPILOT_PROVIDER_TYPE"] = "anthropic"
    desk.env["COPILOT_PROVIDER_API_KEY"] = "not-a-real-key"
    desk.env["COPILOT_MODEL"] = "claude-sonnet-4"
    tide = Call("bash", {"command": "echo tide-table-$((8000 + 123))", "description": "tide"})
    desk.model.teach(
        on("look at the tide", tide, Call("filrouge-memory_search", {"query": "Drizzle"}), "High at noon.")
    )
    desk.product.run("daemon", "start")  # one that the tools' server starts is gone with so short a session
    ask(desk, DECISION)
    desk.product.understood()
    return desk


def test_prompts_and_tools_are_stored_and_what_the_model_asked_filrouge_is_not(reef: Desk) -> None:
    ask(reef, "look at the tide")
    reef.product.understood()
    found = said(reef)
    assert {("user", DECISION), ("user", "look at the tide")} <= found
    tools = [text for role, text in found if role == "tool"]
    assert len(tools) == 1
    assert tools[0].startswith("bash")
    assert "8123" in tools[0]


def test_what_was_decided_is_in_front_of_the_prompt_of_another_session(reef: Desk) -> None:
    """Copilot gives the hooks their time; how long Filrouge takes is its own promise, and a busy machine breaks it."""
    assert "Drizzle" in reef.product.everything_known()
    eventually("Copilot's model is told", lambda: "Drizzle" in "".join(one.recalled for one in ask(reef, QUESTION)))
