"""A small chat bot that remembers: three requests to Filrouge, and a loop of its own.

    filrouge daemon start
    python examples/chat_bot.py --channel terminal --session monday

Before each answer it asks for what belongs in front of the prompt (`POST /memory/context`), after each it hands both
messages over (`POST /memory/turns`), and when it starts it takes the conversation up again
(`GET /api/memory/messages`).
It needs nothing but the standard library, and knows nothing else of Filrouge.

What it answers is up to `answer`. The one below has no model: it repeats what memory holds, so that one sees what a
model would be given. Put a call of yours in its place; `context` goes in front of the prompt.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode, urlsplit

Answer = Callable[[str, str], str]
"""From the context and the prompt to what the bot says."""


class Memory:
    """Filrouge, as far as a chat bot needs it: at `FILROUGE_URL` with `FILROUGE_API_KEY`, or else on this machine."""

    def __init__(self, channel: str, session: str, user: str | None = None, project: str | None = None) -> None:
        self._where = {"channel": channel, "session_id": session, "user_id": user}
        self._project = {"project": project} if project else {}

    def context(self, prompt: str) -> str:
        """What belongs in front of this prompt: from all channels, or nothing."""
        return self._ask("POST", "/memory/context", {**self._where, **self._project, "prompt": prompt})["context"]

    def tell(self, *messages: dict[str, str]) -> None:
        """Hand messages over, to be understood while the conversation goes on."""
        self._ask("POST", "/memory/turns", {**self._where, **self._project, "messages": list(messages)})

    def recent(self, limit: int = 10) -> list[dict[str, str]]:
        """What was said last in this session, newest last."""
        query = {key: value for key, value in self._where.items() if value} | {"limit": limit}
        return self._ask("GET", f"/api/memory/messages?{urlencode(query)}")

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        connection, base, headers = _way()
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, base + path, content, {"Content-Type": "application/json", **headers})
            reply = connection.getresponse()
            value = json.loads(reply.read() or b"null")
        finally:
            connection.close()
        if reply.status >= 400:
            raise RuntimeError(f"{value.get('detail')} {value.get('remedy')}")
        return value


def _way() -> tuple[http.client.HTTPConnection, str, dict[str, str]]:
    """A connection, the beginning of every path, and what is said of oneself."""
    url = os.environ.get("FILROUGE_URL", "").strip()
    if not url:
        return _Local("localhost", timeout=30), "", {}
    place = urlsplit(url)
    kind = http.client.HTTPSConnection if place.scheme == "https" else http.client.HTTPConnection
    key = os.environ.get("FILROUGE_API_KEY", "").strip()
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return kind(place.hostname or "localhost", place.port, timeout=30), place.path.rstrip("/"), headers


class _Local(http.client.HTTPConnection):
    """HTTP over the daemon's socket; `filrouge daemon status --json` says where that is."""

    def connect(self) -> None:
        data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
        home = os.environ.get("FILROUGE_HOME") or os.path.join(data, "filrouge")
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(os.environ.get("FILROUGE_SOCKET") or os.path.join(home, "filrouge.sock"))


def echo(context: str, prompt: str) -> str:
    """What memory holds about the prompt, word for word; no model is asked."""
    known = [line.strip() for line in context.splitlines() if line.strip().startswith("-")]
    if known:
        return "I remember:\n" + "\n".join(known)
    return "I know nothing about that yet." if prompt.rstrip().endswith("?") else "Noted."


def chat(memory: Memory, prompt: str, answer: Answer = echo) -> str:
    """One exchange: the context, the answer, and both messages handed over."""
    said_at = _now()
    said = answer(memory.context(prompt), prompt)
    memory.tell(
        {"role": "user", "content": prompt, "at": said_at},
        {"role": "assistant", "content": said, "at": _now()},
    )
    return said


def _now() -> str:
    """With its time, a message that is said again tomorrow is another one."""
    return datetime.now(UTC).isoformat()


def main() -> None:
    """Read prompts line by line until the end of input."""
    words = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    words.add_argument("--channel", default="terminal")
    words.add_argument("--session", default="one")
    words.add_argument("--user", help="whose memory it is, where a bot talks with several people")
    words.add_argument("--project")
    given = words.parse_args()
    memory = Memory(given.channel, given.session, given.user, given.project)
    for message in memory.recent():
        print(f"({message['role']}) {message['content']}")
    for line in sys.stdin:
        if line.strip():
            print(chat(memory, line.strip()), flush=True)


if __name__ == "__main__":
    main()
