"""The daemon's main: lock, log, wire, listen, and leave in order.

    python -m filrouge.server      (FILROUGE_HOME says for which home)

Exit codes are those of the error tree; a second daemon for the same home ends with 5 and harms nothing.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys

import uvicorn

from filrouge._version import __version__
from filrouge.app import wiring
from filrouge.daemon.process import announced, bound_socket, log_to_file, only_one
from filrouge.errors import FilrougeError
from filrouge.home import home as home_directory
from filrouge.server.api import create_app

_LOG = logging.getLogger("filrouge.daemon")
_SHUTDOWN_SECONDS = 5


def main() -> int:
    """Run until asked to leave; returns the exit code."""
    home = home_directory()
    try:
        with only_one(home):
            log_to_file(home)
            return _serve(home)
    except FilrougeError as error:
        print(f"{error.message} {error.remedy}", file=sys.stderr)  # noqa: T201 (the person who started it by hand)
        return error.exit_code


def _serve(home: str) -> int:
    _LOG.info("filrouge %s starting, pid %d", __version__, os.getpid())
    try:
        running = wiring.start(home)
    except FilrougeError as error:
        _LOG.error("cannot start: %s %s", error.message, error.remedy)
        raise
    try:
        asyncio.run(_listen(home, running))
    finally:
        running.stop()
        _LOG.info("filrouge stopped")
    return 0


async def _listen(home: str, running: wiring.Running) -> None:
    config = uvicorn.Config(
        create_app(running, lambda: _ask_to_leave(server)),
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )
    server = uvicorn.Server(config)
    listener = bound_socket(home)
    with announced(home):
        await server.serve(sockets=[listener])


def _ask_to_leave(server: uvicorn.Server) -> None:
    server.should_exit = True


if __name__ == "__main__":
    sys.exit(main())
