"""The whole server on the unix socket of a throw-away home, asked by the client that every hook uses."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from typing import Any

import pytest
import uvicorn

from filrouge.core.clock import SystemClock
from filrouge.daemon import client
from filrouge.daemon.process import bind_socket
from filrouge.daemon.reply import Reply
from filrouge.runtime import wiring
from filrouge.runtime.services import Parts
from filrouge.server.listening import Listening
from filrouge.server.serving import Front
from filrouge.testing import idle
from tests.support.contract import Contract

ENVIRON = {"FILROUGE_EMBEDDING_MODEL": "hashing", "FILROUGE_NOTES_TAG": "mine"}


@dataclass(kw_only=True)
class Api:
    """A running server, and the way to it."""

    home: str
    parts: Parts
    contract: Contract
    asked_to_leave: Flag = field(default_factory=Flag)

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Reply:
        """Ask, and hold the answer against what the API's document says of it."""
        reply = client.request(self.home, method, path, body, 10.0)
        self.contract.check(method, path, reply.status, reply.value)
        return reply

    def get(self, path: str) -> Any:
        reply = self.ask("GET", path)
        assert reply.status == 200, reply
        return reply.value

    def remember(self, text: str, *project: str) -> list[dict[str, Any]]:
        reply = self.ask("POST", "/api/memory/memories", {"text": text, "project": list(project)})
        assert reply.status == 201, reply
        return reply.body["actions"]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Reading the document's every boundary takes ten seconds in each worker, so only where the slow tests run."""
    return True if collection_path.name == "test_conformance.py" and "not slow" in config.option.markexpr else None


@pytest.fixture
def api(tmp_path: Path) -> Generator[Api]:
    """A server of its own for a test that tells it something."""
    with serving(str(tmp_path)) as found:
        yield found


@pytest.fixture(scope="module")
def silent(tmp_path_factory: pytest.TempPathFactory) -> Generator[Api]:
    """One server for all questions that change nothing."""
    with serving(str(tmp_path_factory.mktemp("silent"))) as found:
        yield found


@contextmanager
def serving(home: str, listening: Listening | None = None) -> Generator[Api]:
    """Run a server on `home` while the block runs; `listening` is where it says that it listens over TCP, too."""
    running = wiring.start(home, environ=ENVIRON, clock=SystemClock())
    idle(running.parts)
    leaving = Flag()
    front = Front(running, leaving.set, listening)
    found = Api(home=home, parts=running.parts, contract=Contract(front.load()), asked_to_leave=leaving)
    config = uvicorn.Config(front, log_config=None, lifespan="off")
    server, listener = uvicorn.Server(config), bind_socket(home)
    thread = Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield found
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()
        running.stop()
    assert not thread.is_alive()
