"""A hub that is served on a port of its own, on a real PostgreSQL."""

from __future__ import annotations

import socket
from collections.abc import Generator
from contextlib import contextmanager
from threading import Thread

import uvicorn

from filrouge.core.clock import SystemClock
from filrouge.hub.database import HubDatabase
from filrouge.server.hub import create_app
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
