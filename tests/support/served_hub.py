"""A hub on a real PostgreSQL, as fixtures: one server for all tests of a process, one database for each module."""

from __future__ import annotations

import socket
from collections.abc import Generator
from contextlib import contextmanager
from threading import Thread

import pytest
import uvicorn

from filrouge.core.clock import SystemClock
from filrouge.hub.database import HubDatabase
from filrouge.server.hub import create_app
from tests.support import postgres
from tests.support.postgres import Hub


@contextmanager
def served(hub: Hub) -> Generator[str]:
    """Serve a hub; return its address."""
    app = create_app(HubDatabase(hub.serving), SystemClock())
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="session")
def superuser() -> Generator[str]:
    postgres.required()
    with postgres.server() as url:
        yield url


@pytest.fixture(scope="module")
def hub(superuser: str) -> Generator[Hub]:
    with postgres.hub(superuser) as found:
        yield found


@pytest.fixture(scope="module")
def url(hub: Hub) -> Generator[str]:
    """The address of a hub that is served on a port of its own."""
    with served(hub) as address:
        yield address
