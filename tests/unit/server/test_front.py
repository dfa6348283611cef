"""The front: a hook is served before FastAPI is loaded, with the answers that FastAPI gives."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from typing import Any

import pytest
import uvicorn

from filrouge.core.clock import SystemClock
from filrouge.daemon import client
from filrouge.daemon.process import bind_socket
from filrouge.runtime import wiring
from filrouge.server.listening import Listening
from filrouge.server.serving import Front
from tests.unit.server.conftest import ENVIRON


@pytest.fixture(params=["before FastAPI is loaded", "afterwards"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[str]:
    """The home of a server that has answered nothing yet."""
    home = str(tmp_path)
    running = wiring.start(home, environ=ENVIRON, clock=SystemClock())
    front = Front(running, Flag().set, Listening())
    if request.param == "afterwards":
        front.load()
    server, listener = uvicorn.Server(uvicorn.Config(front, log_config=None, lifespan="off")), bind_socket(home)
    thread = Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield home
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()
        running.stop()


def event(key: str, text: str) -> dict[str, Any]:
    common = {"id": key, "host": "codex", "session": "s", "at": 1_790_000_000.0, "key": key, "cwd": "/"}
    return common | {"kind": "prompt", "project": ["path:/w"], "data": {"text": text}}


def test_a_hook_is_answered_alike_before_and_after_fastapi_is_loaded(home: str) -> None:
    body = {"events": [event("01a", "The staging API listens on port 7301.")], "context": True}
    first = client.request(home, "POST", "/hooks/events", body, 10.0)
    assert (first.status, first.body) == (200, {"accepted": 1, "duplicates": 0, "context": ""})
    again = client.request(home, "POST", "/hooks/events", body | {"wait_ms": 5000}, 10.0)
    assert (again.status, again.body["duplicates"]) == (200, 1)
    assert client.request(home, "POST", "/hooks/delivered", {"recall": "none"}, 10.0).body == {"success": True}
    health = client.request(home, "GET", "/health", None, 10.0)
    assert health.body["status"] == "healthy"


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/hooks/events", {"events": []}, 400),
        ("POST", "/hooks/events", {"events": [{"no": "event"}]}, 400),
        ("POST", "/hooks/delivered", {"recall": 3}, 400),
        ("GET", "/hooks/events", None, 405),
        ("GET", "/nowhere", None, 404),
        ("GET", "/api/memory/stats", None, 200),
    ],
)
def test_what_a_hook_does_not_send_is_answered_by_the_whole_application(
    home: str, method: str, path: str, body: dict[str, Any] | None, status: int
) -> None:
    reply = client.request(home, method, path, body, 10.0)
    assert reply.status == status
    assert status == 200 or reply.body["detail"]


def test_serving_imports_no_fastapi() -> None:
    code = "import sys, filrouge.server.serving; print('fastapi' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert done.stdout.strip() == "False"
