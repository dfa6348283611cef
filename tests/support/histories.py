"""Transcript files of agents, written by hand in the shape of HOSTS 2.7 and 3.3, for what reads histories."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SPACE = uuid.UUID("5b0f6f0e-8f2c-4a45-9d3a-0d9a3f7a2b11")


def stamp(number: int) -> str:
    """A time of its own for each message, in the spring of 2025."""
    return f"2025-03-{1 + number // 1440 % 28:02}T{number // 60 % 24:02}:{number % 60:02}:00.000Z"


def session(number: int) -> str:
    """A session's id."""
    return str(uuid.uuid5(SPACE, f"session {number}"))


@dataclass
class Claude:
    """One session of Claude Code below `root`."""

    root: Path
    number: int = 0
    cwd: str = "/home/ana/shop"
    lines: list[str] = field(default_factory=list[str])

    @property
    def path(self) -> Path:
        return self.root / "projects" / "-home-ana-shop" / f"{session(self.number)}.jsonl"

    def prompt(self, text: str, **more: Any) -> Claude:
        return self._add("user", {"role": "user", "content": text}, promptId=f"p{len(self.lines)}", **more)

    def reply(self, text: str, **more: Any) -> Claude:
        message = {"id": f"m{self.number}-{len(self.lines)}", "role": "assistant", "model": "claude-x"}
        return self._add("assistant", message | {"content": [{"type": "text", "text": text}]}, **more)

    def _add(self, kind: str, message: dict[str, Any], **more: Any) -> Claude:
        at = len(self.lines)
        name = str(uuid.uuid5(SPACE, f"{self.number} {at}"))
        record = {"type": kind, "uuid": name, "timestamp": stamp(at), "sessionId": session(self.number)}
        self.lines.append(json.dumps(record | {"cwd": self.cwd, "message": message} | more))
        return self

    def write(self, *, end: str = "\n") -> Path:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text("\n".join(self.lines) + end, "utf-8")
        os.utime(self.path, (1_740_000_000 + self.number, 1_740_000_000 + self.number))
        return self.path


def long_history(root: Path, sessions: int, messages: int) -> int:
    """Sessions of so many messages each, no two alike; how many messages there are."""
    for number in range(sessions):
        one = Claude(root, number)
        for place, text in enumerate(_said(number, messages)):
            (one.prompt if place % 2 == 0 else one.reply)(text)
        one.write()
    return sessions * messages


def _said(number: int, messages: int) -> Iterator[str]:
    for place in range(messages):
        thing = ("ledger", "kiosk", "ferry", "almanac", "harbour", "lantern")[(number + place) % 6]
        yield f"The {thing} of day {number}-{place} came up: how does its export handle case {number * 7919 + place}?"
