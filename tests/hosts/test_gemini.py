"""The real Gemini CLI with what `filrouge init` wrote into its settings: what is said is kept, and comes back.

Léa's settings have comments and a hook of her own, which notes what Gemini tells hooks. Every prompt is a session
of its own, so what the model is shown of the past can only come from Filrouge.
"""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest

from .command_lines import TURN_SECONDS, Desk, install
from .scripted_model import Request, Shell, on

SETTINGS = """\
{
  // Léa's settings
  "security": {"auth": {"selectedType": "gemini-api-key"}},
  "general": {"enableAutoUpdate": false},
  "privacy": {"usageStatisticsEnabled": false},
  "hooks": {"PreCompress": [{"hooks": [{"type": "command", "command": "(cat; echo) >>$HOME/told.jsonl"}]}]}
}
"""
DECISION = "We decided on Drizzle instead of Prisma for the reef API because of the edge runtime."
QUESTION = "Which ORM did we choose for the reef API, and why?"


def settings(desk: Desk) -> str:
    with open(os.path.join(desk.home, ".gemini", "settings.json"), encoding="utf-8") as file:
        return file.read()


def ask(desk: Desk, prompt: str) -> list[Request]:
    """One session of Gemini: what its model was shown."""
    before = len(desk.model.requests)
    command = [install("gemini"), "--model", "gemini-3.8-flash", "--skip-trust", "--yolo", "--prompt", prompt]
    done = subprocess.run(
        command, cwd=desk.project("reef"), env=desk.env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=TURN_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert [line for line in done.stderr.splitlines() if "hook" in line.lower() or "settings" in line.lower()] == []
    return desk.model.requests[before:]


def said(desk: Desk, words: str) -> set[tuple[str, str]]:
    """Who said what, of the turns that a search finds."""
    hits: list[dict[str, Any]] = json.loads(desk.product.run("search", words, "--json", "--channel", "gemini"))
    return {(hit["role"], hit["content"]) for hit in hits if hit["type"] == "turn"}


@pytest.fixture(scope="module")
def reef(desk: Desk) -> Desk:
    """A desk at which Léa ran `filrouge init` and told Gemini a decision."""
    os.makedirs(os.path.join(desk.home, ".gemini"))
    desk.write(os.path.join(desk.home, ".gemini"), "settings.json", SETTINGS)
    desk.env["GEMINI_API_KEY"] = "not-a-real-key"
    desk.env["GOOGLE_GEMINI_BASE_URL"] = desk.model.url
    desk.product.run("init", "--host", "gemini", "--yes")
    desk.model.teach(on("We decided on Drizzle", Shell("echo tide-table-8123"), "Noted, Drizzle it is."))
    ask(desk, DECISION)
    desk.product.understood()
    return desk


def test_prompts_tools_and_answers_are_stored_as_they_were_said(reef: Desk) -> None:
    found = said(reef, "Drizzle tide-table-8123")
    assert {("user", DECISION), ("assistant", "Noted, Drizzle it is.")} <= found
    assert [text for role, text in found if role == "tool" and text.startswith("run_shell_command") and "8123" in text]
    assert "Drizzle" in reef.product.everything_known()


def test_what_was_decided_is_in_front_of_the_prompt_of_another_session_and_is_no_word_of_the_user(reef: Desk) -> None:
    told = ask(reef, QUESTION)
    assert told
    assert all("Drizzle" in request.recalled for request in told)
    assert all("mcp_filrouge_memory_search" in request.tools for request in told)
    reef.product.understood()
    assert ("user", QUESTION) in said(reef, QUESTION)


def test_gemini_says_before_every_question_that_it_compresses_by_itself(reef: Desk) -> None:
    """Which is why Filrouge asks to be told of what the user compressed, and of nothing else."""
    with open(os.path.join(reef.home, "told.jsonl"), encoding="utf-8") as file:
        told = [json.loads(line)["trigger"] for line in file if line.strip()]
    assert len(told) >= 2
    assert set(told) == {"auto"}
    assert [group.get("matcher") for group in hooks(reef)["PreCompress"]] == [None, "manual"]


def hooks(desk: Desk) -> dict[str, Any]:
    """The hooks in the settings; Gemini writes comments back, all else as plain JSON."""
    text = "".join(line for line in settings(desk).splitlines(keepends=True) if not line.strip().startswith("//"))
    return json.loads(text)["hooks"]


def test_uninstall_leaves_what_is_lea_s(reef: Desk) -> None:
    reef.product.run("uninstall", "--host", "gemini", "--yes")
    assert "filrouge" not in settings(reef)
    assert "// Léa's settings" in settings(reef)
    assert list(hooks(reef)) == ["PreCompress"]
