"""Recorded sessions of two agents, played through the hook's own code to a real daemon with the bundled model.

They go in the order they happened, transcripts included. What came of them is asked for in the ways a host and a
user have: the lists, explicit recall, and the block that a host would be given before a prompt.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filrouge.cli import hook, talk
from filrouge.clock import SystemClock
from filrouge.hosts.project import names as project_names

RECORDINGS = Path(__file__).parent.parent / "fixtures" / "hosts"
_TIMESTAMP = re.compile(r'("timestamp": ?")[^"]+')
EXPECTED: dict[str, Any] = json.loads((RECORDINGS / "expected.json").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Replayed:
    """A home after all sessions, or all of one host, with its daemon running."""

    home: str
    host: str = ""

    def memories(self) -> list[dict[str, Any]]:
        """Facts and rules, history included."""
        return talk.ask("GET", "/api/memory/facts", query={"history": True}) + talk.ask(
            "GET", "/api/memory/rules", query={"history": True}
        )

    def live(self) -> list[dict[str, Any]]:
        """What is believed now."""
        return [memory for memory in self.memories() if memory["state"] == "live"]

    def recall(self, query: str, cwd: str | None) -> list[dict[str, Any]]:
        """What `filrouge recall` would answer in this directory, or with `--all` where there is none, best first."""
        project = list(project_names(cwd, os.environ)) if cwd else []
        return talk.ask("POST", "/search", {"query": query, "k": 5, "threshold": 0.0, "project": project})["results"]

    def block(self, prompt: str, cwd: str) -> str:
        """What the host, or Claude Code, would be given before this prompt, in a session of its own."""
        name = f"probe-{abs(hash((prompt, cwd)))}"
        payload = {
            "session_id": name,
            "prompt_id": name,
            "transcript_path": None,
            "cwd": cwd,
            "hook_event_name": "UserPromptSubmit",
            "permission_mode": "default",
            "prompt": prompt,
        }
        return _told(run_hook(self.host or "claude-code", payload))

    def start(self, source: str, cwd: str, *, host: str, session: str = "") -> str:
        """What the host would be given where a session starts: a new one, unless it is named."""
        payload = {
            "session_id": session or f"probe-{source}-{abs(hash(cwd))}",
            "transcript_path": None,
            "cwd": cwd,
            "hook_event_name": "SessionStart",
            "permission_mode": "default",
            "source": source,
        }
        return _told(run_hook(host, payload))


def _told(answer: bytes) -> str:
    return json.loads(answer)["hookSpecificOutput"]["additionalContext"] if answer else ""


def run_hook(host: str, payload: dict[str, Any]) -> bytes:
    """One hook call, in this process; what it would have printed."""
    lines: list[bytes] = []
    hook.run(["--host", host], lambda: json.dumps(payload).encode(), lines.append, os.environ)
    return b"".join(lines)


def play_everything(only: str = "") -> None:
    """All sessions in the order they happened, or those of one host."""
    for label in EXPECTED["order"]:
        host = "claude-code" if label.startswith("c") else "codex"
        if only not in ("", host):
            continue
        sessions: list[dict[str, Any]] = json.loads((RECORDINGS / host / "sessions.json").read_text(encoding="utf-8"))
        session = next(one for one in sessions if one["label"] == label)
        transcript = _said_now(RECORDINGS / host / session["file"])
        for line in (RECORDINGS / host / "payloads.jsonl").read_text(encoding="utf-8").splitlines():
            payload = json.loads(line)
            if payload["session_id"] == session["session_id"]:
                run_hook(host, payload | {"transcript_path": str(transcript)})
    assert talk.poll(talk.idle, 60)


def _said_now(recorded: Path) -> Path:
    """The transcript as if the session happened while it is played: beside the home, and made once.

    A hook's event bears the time of playing. Were the transcript two days older, a correction that is read there first,
    as may happen on a busy machine, would be older than what it corrects.
    """
    played = Path(os.environ["FILROUGE_HOME"]).parent / "transcripts" / recorded.name
    if not played.exists():
        played.parent.mkdir(exist_ok=True)
        now = SystemClock().now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        played.write_text(_TIMESTAMP.sub(rf"\g<1>{now}", recorded.read_text(encoding="utf-8")), encoding="utf-8")
    return played
