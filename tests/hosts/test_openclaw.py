"""The real OpenClaw with what `filrouge init` wrote into its settings: the plugin is loaded, and memory comes back.

Léa's settings are JSON5 with comments and a list of allowed plugins, which shuts out whom it does not name. OpenClaw
runs with a service's PATH, on which there is no `filrouge`. Every prompt is a session of its own, so what the model
is shown of the past can only come from Filrouge.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass
from typing import Any

import pytest

from .command_lines import Desk, install, newer_node
from .scripted_model import Call, Request, on

SETTINGS = """\
// Léa's settings
{
  gateway: { mode: 'local', bind: "loopback", },  // hers
  plugins: { allow: ['memory-core',] },  // only these
  agents: { defaults: { model: { primary: 'scripted/m' } } },
  models: { providers: { scripted: {
    baseUrl: '%s', apiKey: 'not-a-real-key', api: 'anthropic-messages',
    models: [ { id: 'm', name: 'scripted', input: ['text'], contextWindow: 200000, maxTokens: 8000 } ],
  } } },
}
"""
DECISION = "We decided on Drizzle instead of Prisma for the reef API because of the edge runtime."
QUESTION = "Which ORM did we choose for the reef API, and why?"
TOOL = "echo tide-table-$((8000 + 123))"
HOOKS = {"before_prompt_build", "agent_end", "before_compaction", "session_end"}
STARTING_SECONDS = 120.0


@dataclass(frozen=True, kw_only=True)
class Claw:
    """OpenClaw at a desk."""

    desk: Desk

    @property
    def settings(self) -> str:
        return os.path.join(self.desk.home, ".openclaw", "openclaw.json")

    def run(self, *words: str) -> str:
        """What one of its commands prints."""
        done = subprocess.run(
            [install("openclaw"), *words], cwd=self.desk.home, env=self.env(), stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=STARTING_SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"openclaw {' '.join(words)}: {done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        assert [line for line in done.stderr.splitlines() if re.search(r"plugins\b.*\bfilrouge\b(?!-)", line)] == []
        return done.stdout

    def env(self) -> dict[str, str]:
        return self.desk.env | {"PATH": os.pathsep.join([newer_node(), "/usr/bin", "/bin"])}

    def ask(self, session: str, prompt: str) -> list[Request]:
        """One prompt in a session: what the model was shown."""
        before = len(self.desk.model.requests)
        words = ("--local", "--agent", "main", "--session-id", session, "--message", prompt)
        self.run("agent", *words)
        return self.desk.model.requests[before:]


@pytest.fixture(scope="module")
def claw(desk: Desk) -> Claw:
    """A desk at which Léa ran `filrouge init` and told OpenClaw a decision."""
    here = Claw(desk=desk)
    os.makedirs(os.path.dirname(here.settings))
    desk.write(os.path.dirname(here.settings), "openclaw.json", SETTINGS % desk.model.url)
    desk.product.run("init", "--host", "openclaw", "--allow-conversations", "--yes")
    desk.model.teach(on("We decided on Drizzle", Call("exec", {"command": TOOL}), "Noted, Drizzle it is."))
    here.ask("one", DECISION)
    desk.product.understood()
    return here


def inspected(claw: Claw) -> dict[str, Any]:
    """What OpenClaw says of the plugin once it is loaded."""
    return json.loads(claw.run("plugins", "inspect", "filrouge", "--runtime", "--json"))


def test_openclaw_loads_the_plugin_that_init_named_and_reaches_the_tools(claw: Claw) -> None:
    claw.run("config", "validate")
    told = inspected(claw)
    assert (told["plugin"]["status"], told["diagnostics"]) == ("loaded", [])
    assert {hook["name"] for hook in told["typedHooks"]} == HOOKS
    assert "filrouge: 6 tools" in claw.run("mcp", "probe")


def test_prompts_tools_and_answers_are_stored_as_they_were_said(claw: Claw) -> None:
    hits = json.loads(claw.desk.product.run("search", "Drizzle tide-table-8123", "--json", "--channel", "openclaw"))
    said = {(hit["role"], hit["content"]) for hit in hits if hit["type"] == "turn"}
    assert {("user", DECISION), ("assistant", "Noted, Drizzle it is.")} <= said
    assert [text for role, text in said if role == "tool" and text.startswith("exec") and "8123" in text]
    assert "Drizzle" in claw.desk.product.everything_known()


def test_what_was_decided_is_in_front_of_the_prompt_of_another_session(claw: Claw) -> None:
    # On a machine that stalls the agent goes on without what came too late: one more session may ask.
    sessions = (claw.ask(name, QUESTION) for name in ("two", "three"))
    told = next((asked for asked in sessions if any(request.recalled for request in asked)), list[Request]())
    assert told
    assert all("Drizzle" in request.recalled for request in told)
    assert DECISION not in told[0].user  # what came back is no word of the user's


def test_uninstall_gives_the_settings_back(claw: Claw) -> None:
    claw.desk.product.run("uninstall", "--host", "openclaw", "--yes")
    with open(claw.settings, encoding="utf-8") as file:
        left = file.read()
    assert "filrouge" not in left
    assert "memory-core" in left
