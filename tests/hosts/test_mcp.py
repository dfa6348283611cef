"""Claude Code itself uses Filrouge's tools: registered by its own command, called by the scripted model, nothing else.

Léa registers the shim with `claude mcp add`, and asks for things that the model answers with tool calls. What the model
is shown afterwards came through the real client, the real shim and the real daemon.
"""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from .command_lines import Desk
from .product import EXECUTABLE
from .scripted_model import Call, Request, on

FACT = "The harbour scanner listens on port 18231."
TOOLS = {f"mcp__filrouge__memory_{verb}" for verb in ("search", "get", "add", "update", "forget", "context", "team")}


@pytest.fixture(scope="module")
def harbor(desk: Desk) -> str:
    """A project of a user who registered the shim."""
    words = ["mcp", "add", "--scope", "user", "filrouge", "--", EXECUTABLE, "mcp"]
    project = desk.project("harbor")
    subprocess.run([desk.programs["claude-code"], *words], cwd=project, env=desk.env, check=True, timeout=60)
    return project


def used(desk: Desk, project: str, prompt: str, tool: str, **arguments: str | int) -> Request:
    """The request in which the model sees what the tool answered."""
    desk.model.teach(on(re.escape(prompt), Call(f"mcp__filrouge__{tool}", dict(arguments)), "Done."))
    [answer] = desk.ask("claude-code", project, prompt)
    return answer.requests[-1]


def test_claude_code_lists_adds_searches_and_forgets(desk: Desk, harbor: str) -> None:
    added = used(desk, harbor, "Keep the scanner's port in mind.", "memory_add", text=FACT)
    assert {name for name in TOOLS if name in added.text or name in added.tools} == TOOLS  # it offers some by name
    found = re.search(r"Stored as (\w{26})|\"id\"\s*:\s*\"(\w{26})\"", added.text.replace("\\", ""))
    assert found is not None, added.text[-2000:]
    [fact] = [row for row in desk.product.facts() if row["text"] == FACT]
    assert (fact["id"], fact["trust"], fact["project_name"]) == (found[1] or found[2], 1, "harbor")

    searched = used(desk, harbor, "Look up the scanner.", "memory_search", query="scanner port", limit=3)
    assert "18231" in searched.text.partition("memory_search")[2]

    shown = used(desk, harbor, "Would you forget the scanner?", "memory_forget", topic="harbour scanner port")
    token = re.findall(r"token\W+([0-9a-f]{64})\b", shown.text)[-1]
    assert FACT in [row["text"] for row in desk.product.facts()]
    done = used(desk, harbor, "Forget it then.", "memory_forget", topic="harbour scanner port", token=token)
    assert FACT not in [row["text"] for row in desk.product.facts()], done.text[-3000:]
    [kept] = [row for row in desk.product.facts_with_history() if row["text"] == FACT]
    assert kept["state"] == "binned"


def test_what_the_tools_answered_is_not_heard_from_claude_code_again(desk: Desk, harbor: str) -> None:
    used(desk, harbor, "Which berth has the crane?", "memory_add", text="The crane stands at berth 4711.")
    used(desk, harbor, "Look up the crane.", "memory_search", query="crane berth")
    desk.product.understood()
    hits = json.loads(desk.product.run("search", "crane berth 4711", "--json"))
    assert [hit["role"] for hit in hits if "4711" in hit["content"] and hit["type"] == "turn"] == ["assistant"]


def test_codex_adds_and_searches(desk: Desk) -> None:
    project = desk.project("quay")
    words = ["mcp", "add", "filrouge", "--env", f"FILROUGE_HOME={desk.product.home}", "--", EXECUTABLE, "mcp"]
    subprocess.run([desk.programs["codex"], *words], cwd=project, env=desk.env, check=True, timeout=60)
    desk.product.run("daemon", "start")  # Codex waits for no tool that is still starting
    add = Call("mcp__filrouge__memory_add", {"text": "The quay's crane lifts 4711 kilos."})
    search = Call("mcp__filrouge__memory_search", {"query": "crane", "limit": 3})
    desk.model.teach(on("Keep the crane in mind", add, "Done."), on("Look up the load", search, "Done."))
    [answer] = desk.ask("codex", project, "Keep the crane in mind.")
    [fact] = [row for row in desk.product.facts() if "4711 kilos" in row["text"]]
    assert (fact["id"] in answer.requests[-1].text, fact["trust"], fact["project_name"]) == (True, 1, "quay")
    [answer] = desk.ask("codex", project, "Look up the load.")
    assert fact["id"] in answer.requests[-1].text
    desk.product.understood()
    hits = json.loads(desk.product.run("search", "4711 kilos", "--json"))
    assert {hit["role"] for hit in hits if "4711" in hit["content"] and hit["type"] == "turn"} <= {"assistant"}
