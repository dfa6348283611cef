"""Recorded sessions of two agents, played through the hook's own code to a real daemon with the bundled model.

They go in the order they happened, transcripts included. What came of them is asked for in the ways a host and a
user have: the lists, explicit recall, and the block that a host would be given before a prompt.
"""

from __future__ import annotations

import json
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filrouge.capture.repository import SAME_PROMPT_SECONDS
from filrouge.cli import client, hook
from filrouge.core.clock import SystemClock
from filrouge.daemon.handover import Input
from filrouge.hosts.project import find_names as project_names

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
        return client.ask("GET", "/api/memory/facts", query={"history": True}) + client.ask(
            "GET", "/api/memory/rules", query={"history": True}
        )

    def live(self) -> list[dict[str, Any]]:
        """What is believed now."""
        return [memory for memory in self.memories() if memory["state"] == "live"]

    def recall(self, query: str, cwd: str | None) -> list[dict[str, Any]]:
        """What `filrouge recall` would answer in this directory, or with `--all` where there is none, best first."""
        project = list(project_names(cwd, os.environ)) if cwd else []
        return client.ask("POST", "/search", {"query": query, "k": 5, "threshold": 0.0, "project": project})["results"]

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
    hook.run(["--host", host], Input(json.dumps(payload).encode()), lines.append, os.environ)
    return b"".join(lines)


def play_everything(only: str = "") -> None:
    """All sessions in the order they happened, or those of one host."""
    played = ""
    for label in EXPECTED["order"]:
        host = "claude-code" if label.startswith("c") else "codex"
        if only not in ("", host):
            continue
        if played not in ("", host):
            # Both recordings say the same; within these seconds the daemon takes it for one prompt with two hooks.
            time.sleep(SAME_PROMPT_SECONDS)
        played = host
        sessions: list[dict[str, Any]] = json.loads((RECORDINGS / host / "sessions.json").read_text(encoding="utf-8"))
        session = next(one for one in sessions if one["label"] == label)
        lines = (RECORDINGS / host / "payloads.jsonl").read_text(encoding="utf-8").splitlines()
        payloads = [one for one in map(json.loads, lines) if one["session_id"] == session["session_id"]]
        transcript = _Transcript(RECORDINGS / host / session["file"], [one.get("prompt") or "" for one in payloads])
        for number, payload in enumerate(payloads):
            transcript.grow(number)
            run_hook(host, payload | {"transcript_path": str(transcript.path)})
    assert client.poll(client.is_idle, 60)


class _Transcript:
    """The transcript of a session as its host writes it: a hook finds what was said until then, with today's times.

    Were it there as a whole from the beginning, a busy daemon would read a correction before the statement that it
    corrects; and of two days ago, the correction would be older.
    """

    def __init__(self, recorded: Path, prompts: list[str]) -> None:
        self.path = Path(os.environ["FILROUGE_HOME"]).parent / "transcripts" / recorded.name
        self._lines = recorded.read_text(encoding="utf-8").splitlines(keepends=True)
        self._ends = list[int]()
        place = 0
        for prompt in prompts:
            words = json.dumps(prompt, ensure_ascii=False)[1:-1]
            found = (at for at in range(place, len(self._lines)) if words in self._lines[at])
            place = next(found, place) if prompt else place
            self._ends.append(place)
        self._written = len(self._lines) if self.path.exists() else 0
        self.path.parent.mkdir(exist_ok=True)

    def grow(self, number: int) -> None:
        """Write what comes before the next prompt after a payload; after the last prompt, everything."""
        end = next((one for one in self._ends[number:] if one > self._ends[number]), len(self._lines))
        now = SystemClock().now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        with self.path.open("a", encoding="utf-8") as file:
            file.writelines(_TIMESTAMP.sub(rf"\g<1>{now}", line) for line in self._lines[self._written : end])
        self._written = max(self._written, end)
