"""A hub that keeps nothing and answers what a home asks of one, for tests that need no PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Final
from urllib.parse import urlsplit

from filrouge.hub.models import SCOPES

TOKEN: Final = "frh_of-ana"
_REFUSED: Final = {
    "type": "urn:filrouge:error:Unauthorized", "title": "Unauthorized.", "status": 401,
    "detail": "This token is not valid.", "remedy": "Ask for another.",
}  # fmt: skip


class _Hub(ThreadingHTTPServer):
    """What it says: the name of its team and of everybody in it, and the statements that a colleague shares."""

    name: str
    shared: tuple[str, ...]

    def told(self, path: str, body: Any) -> Any:
        match path.removeprefix("/hub/v1"):
            case "/status":
                counted = ("memories", "members", "devices", "lost", "waiting", "conflicts", "forgotten")
                named = {"tenant": self.name, "member": self.name, "member_id": f"{'0' * 25}a"}
                told: dict[str, Any] = {"scopes": SCOPES, "held_back_since": None, "unconfirmed": [], "journal": None}
                return {**named, **dict.fromkeys(counted, 0), **told}
            case "/changes":
                changes = [self._change(number, text) for number, text in enumerate(self.shared)]
                return {"changes": changes, "cursor": "1", "complete": True}
            case "/push":
                return {"answers": [_accepted(version) for version in body["versions"]]}
            case "/accept":
                return dict.fromkeys(body["memories"], True)
            case "/forget":
                return dict.fromkeys(body["memories"], 1)
            case "/conflicts" | "/projects":
                return []
            case _:
                return None

    def _change(self, number: int, text: str) -> dict[str, Any]:
        id_ = f"{number:026}"
        content = {
            "memory": id_, "version": 1, "project": "forge.example/ana/shop", "kind": "fact", "text": text,
            "valid_from": "2026-11-01T00:00:00Z",
        }  # fmt: skip
        author = {"author": f"{'0' * 25}b", "author_name": self.name}
        return {"type": "version", "memory": id_, "version": 1, **author, "content": content}


def _accepted(version: Any) -> dict[str, Any]:
    return {"memory": version["memory"], "version": version["version"], "outcome": "accepted"}


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._answer(None)

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _answer(self, body: Any) -> None:
        assert isinstance(self.server, _Hub)
        is_known = self.headers["Authorization"] == f"Bearer {TOKEN}"
        value = self.server.told(urlsplit(self.path).path, body) if is_known else _REFUSED
        content = json.dumps(value).encode()
        self.send_response(200 if is_known else 401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the name of the base class)
        pass


@contextmanager
def served(name: str = "acme", shared: tuple[str, ...] = ()) -> Generator[str]:
    """Serve it on a port of its own; return its address.

    Args:
        name: of the team, and of everybody in it.
        shared: what a colleague shares about the project of `tests.support.given.SHOP`.
    """
    with _Hub(("127.0.0.1", 0), _Answers) as server:
        server.name, server.shared = name, shared
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
