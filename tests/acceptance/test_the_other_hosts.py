"""The hosts that were not recorded: every sample payload goes through the hook's own code to a real daemon.

What they teach, what they never teach, and what each of them prints afterwards for its own model.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from filrouge.cli import client, hook
from filrouge.daemon import process
from filrouge.daemon.handover import Input

SAMPLES = Path(__file__).parent.parent / "fixtures" / "hosts" / "samples"
FILES = ("gemini-cli", "cursor", "vscode", "openclaw")
SHOP, ATELIER = "/home/ana/shop", "/home/ana/atelier"
WORKSPACE = "/home/ana/.openclaw/workspace"
#: What the notes beside the samples say should be learnt, each from one host.
LEARN = {
    "gemini": (r"\buv\b.*\bpip\b",),
    "cursor": ("Drizzle", "Prisma"),
    "vscode": ("8443", "Caddy"),
    "openclaw": ("B2|Backblaze", "30 days"),
}
NEVER = r"(?i)\bmerci\b|\bthanks\b|avec plaisir|heartbeat|# Changelog|src/report\.py"


def told(payload: dict[str, Any], host: str = "") -> dict[str, Any]:
    """What one hook call prints for that payload; an empty object for nothing."""
    lines: list[bytes] = []
    argv = ["--host", host] if host else []
    assert hook.run(argv, Input(json.dumps(payload).encode()), lines.append, os.environ) == 0
    return json.loads(b"".join(lines) or b"{}")


def messages(**asked: str) -> list[dict[str, Any]]:
    """The stored messages of a channel, oldest first."""
    return client.ask("GET", "/api/memory/messages", query={"limit": 100} | asked)


def memories() -> list[dict[str, Any]]:
    return client.ask("GET", "/api/memory/facts", query={"history": True}) + client.ask(
        "GET", "/api/memory/rules", query={"history": True}
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """A home in which all samples were played, in the order of their files."""
    directory = str(tmp_path_factory.mktemp("home") / "filrouge")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("FILROUGE_HOME", directory)
        for name in ("FILROUGE_DISABLED", "CLAUDECODE", "CODEX_HOME", "GEMINI_SESSION_ID"):
            environment.delenv(name, raising=False)
        process.ensure_running(directory)
        try:
            for name in FILES:
                for line in (SAMPLES / f"{name}.jsonl").read_text("utf-8").splitlines():
                    told(json.loads(line))
            assert client.poll(client.is_idle, 60)
            yield directory
        finally:
            subprocess.run([sys.executable, "-m", "filrouge.cli.main", "daemon", "stop"], check=True, timeout=60)


@pytest.mark.parametrize("host", LEARN)
def test_what_was_said_to_a_host_is_learned(home: str, host: str) -> None:
    texts = [memory["text"] for memory in memories()]

    assert [text for text in texts if all(re.search(part, text) for part in LEARN[host])], texts


def test_courtesies_heartbeats_and_tool_output_teach_nothing(home: str) -> None:
    assert [memory["text"] for memory in memories() if re.search(NEVER, memory["text"])] == []


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("gemini", ["In this repo use uv", "Understood: uv only", "merci !", "Avec plaisir"]),
        ("cursor", ["For the storefront API", "Renamed in 14 files", "thanks"]),
        ("vscode", ["Rappelle-toi que la prod"]),
        ("openclaw", ["what did we decide", "backups run every night", "Noted: nightly backups"]),
    ],
)
def test_every_message_is_kept_as_it_was_said(home: str, host: str, said: list[str]) -> None:
    kept = [one["content"] for one in messages(channel=host) if one["role"] != "tool"]

    assert [opening for opening in said if not any(text.startswith(opening) for text in kept)] == []


START: dict[str, dict[str, Any]] = {
    "gemini": {"hook_event_name": "SessionStart", "session_id": "g-9", "cwd": SHOP, "source": "startup"},
    "vscode": {"hookEventName": "SessionStart", "sessionId": "v-9", "cwd": SHOP, "source": "new", "timestamp": "t9"},
    "cursor": {"hook_event_name": "sessionStart", "conversation_id": "c-9", "workspace_roots": [SHOP]},
    "openclaw": {"hook": "session_start", "event": {}, "ctx": {"sessionId": "s-9", "workspaceDir": SHOP}},
    "opencode": {"host": "opencode", "hook_event_name": "SessionStart", "session_id": "o-9", "cwd": SHOP},
    "copilot-cli": {"sessionId": "p-9", "timestamp": 1795255200009, "cwd": SHOP, "source": "new"},
}
PROMPT: dict[str, dict[str, Any]] = {
    "gemini": {"hook_event_name": "BeforeAgent", "session_id": "g-8", "cwd": SHOP, "timestamp": "t8"},
    "vscode": {"hookEventName": "UserPromptSubmit", "sessionId": "v-8", "cwd": SHOP, "timestamp": "t8"},
    "cursor": {"hook_event_name": "beforeSubmitPrompt", "conversation_id": "c-8", "workspace_roots": [SHOP]},
    "copilot-cli": {"timestamp": 1795255200008, "cwd": SHOP},
    "opencode": {"host": "opencode", "hook_event_name": "UserPromptSubmit", "session_id": "o-8", "cwd": SHOP},
}
QUESTION = "Which ORM did we choose for the storefront API, and why?"


def shown(host: str, printed: dict[str, Any]) -> str:
    """The context in what a host reads, where that host looks for it."""
    match host:
        case "cursor":
            assert printed.keys() <= {"additional_context"}
            return printed.get("additional_context", "")
        case "openclaw" | "opencode":
            assert printed.keys() <= {"context"}
            return printed.get("context", "")
        case "copilot-cli":
            assert printed.keys() <= {"additionalContext"}
            return printed.get("additionalContext", "")
        case _:
            assert printed.keys() <= {"hookSpecificOutput", "suppressOutput"}
            return printed.get("hookSpecificOutput", {}).get("additionalContext", "")


@pytest.mark.parametrize("host", START)
def test_a_session_starts_with_the_rules_of_its_project_in_the_host_s_own_form(home: str, host: str) -> None:
    assert re.search(r"\buv\b", shown(host, told(START[host], host)))


@pytest.mark.parametrize("host", ["gemini", "opencode", "copilot-cli"])
def test_a_prompt_gets_what_another_host_was_told(home: str, host: str) -> None:
    assert "Drizzle" in shown(host, told(PROMPT[host] | {"prompt": QUESTION}, host))


def test_openclaw_s_prompt_gets_what_was_decided_in_its_workspace(home: str) -> None:
    event = {"prompt": "how long do we keep backups?", "currentUserMessage": "how long do we keep backups?"}
    ctx = {"sessionId": "s-8", "workspaceDir": WORKSPACE, "trigger": "user"}

    assert "30 days" in shown("openclaw", told({"hook": "before_prompt_build", "event": event, "ctx": ctx}))


@pytest.mark.parametrize("host", ["vscode", "cursor"])
def test_a_host_that_takes_no_context_before_a_prompt_is_printed_nothing(home: str, host: str) -> None:
    assert told(PROMPT[host] | {"prompt": QUESTION}, host) == {}


def test_a_prompt_that_vs_code_and_claude_code_s_hook_both_tell_is_stored_once(home: str) -> None:
    words = "Always name database migrations after their ticket number."
    vscode = PROMPT["vscode"] | {"prompt": words, "sessionId": "v-7", "timestamp": "t7"}
    claude = {"hook_event_name": "UserPromptSubmit", "session_id": "c", "prompt_id": "p", "cwd": SHOP, "prompt": words}
    for payload, host in ((vscode, "vscode"), (vscode, "claude-code"), (claude, "claude-code")):
        told(payload, host)
    assert client.poll(client.is_idle, 60)

    found = [one for channel in ("vscode", "claude-code") for one in messages(channel=channel)]
    assert [one["content"] for one in found].count(words) == 1
    rules = [memory["text"] for memory in memories() if "ticket number" in memory["text"]]
    assert len(rules) == 1


def test_the_same_words_in_another_project_are_another_prompt(home: str) -> None:
    words = "Please keep every response under two hundred words in here."
    for place, session in ((SHOP, "v-1"), (ATELIER, "v-2")):
        told(PROMPT["vscode"] | {"prompt": words, "cwd": place, "sessionId": session, "timestamp": session}, "vscode")
    assert client.poll(client.is_idle, 60)

    assert [one["content"] for one in messages(channel="vscode")].count(words) == 2
