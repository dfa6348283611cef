"""A hub that keeps nothing and answers what a home asks of one, for tests that need no PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Final
from urllib.parse import urlsplit

TOKEN: Final = "frh_of-ana"
_MEMBER: Final = "01k00000000000000000000ana"
_STATUS: Final[dict[str, Any]] = {
    "tenant": "acme", "member": "Ana", "member_id": _MEMBER, "memories": 0, "members": 1, "devices": 1, "conflicts": 0,
    "forgotten": 0, "held_back_since": None, "unconfirmed": [],
}  # fmt: skip


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._answer(None)

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _answer(self, body: Any) -> None:
        known = self.headers["Authorization"] == f"Bearer {TOKEN}"
        status, value = (200, _told(urlsplit(self.path).path, body)) if known else (401, _REFUSED)
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the name of the base class)
        pass


_REFUSED: Final = {
    "type": "urn:filrouge:error:Unauthorized", "title": "Unauthorized.", "status": 401,
    "detail": "This token is not valid.", "remedy": "Ask for another.",
}  # fmt: skip


def _told(path: str, body: Any) -> Any:
    match path.removeprefix("/hub/v1"):
        case "/status":
            return _STATUS
        case "/changes":
            return {"changes": [], "cursor": "1", "complete": True}
        case "/push":
            accepted = {"outcome": "accepted", "latest": 0, "reason": ""}
            return {"answers": [{**accepted, "memory": one["memory"], "version": one["version"]} for one in
                                body["versions"]]}  # fmt: skip
        case "/forget":
            return dict.fromkeys(body["memories"], 1)
        case _:
            return None


@contextmanager
def served() -> Generator[str]:
    """Serve it on a port of its own; return its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answers) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
