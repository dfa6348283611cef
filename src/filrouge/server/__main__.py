"""The daemon's main: lock, log, wire, listen, and leave in order.

    python -m filrouge.server      (FILROUGE_HOME says for which home)

Exit codes are those of the error tree; a second daemon for the same home ends with 5 and harms nothing.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import signal
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from threading import Event as Flag
from types import FrameType

import uvicorn

from filrouge._version import __version__
from filrouge.app import wiring
from filrouge.app.wiring import stored_settings
from filrouge.config import resolve
from filrouge.control_characters import one_line
from filrouge.daemon.client import SENT_FOR, STARTING, SUCCESSOR
from filrouge.daemon.logs import Form, log_to_file
from filrouge.daemon.process import announced, bound_socket, leave_word, only_one
from filrouge.errors import Busy, CannotWrite, FilrougeError
from filrouge.home import DATABASE, LOG, RUNTIME, inside
from filrouge.home import home as home_directory
from filrouge.server.api import create_app
from filrouge.server.door import settings_of
from filrouge.server.listening import Listening, listening, outside
from filrouge.server.listening import inside as inside_config
from filrouge.server.wire import end_overdue

_LOG = logging.getLogger("filrouge.daemon")
#: An older daemon finishes what it began, and then some.
_TAKE_OVER_SECONDS = 15.0
_LOOK_AT_HOME_SECONDS = 2.0
#: A thread that computes lets others go on so often: an answer passes through several, and would wait 5 ms at each.
_SWITCH_SECONDS = 0.0005
#: Requests that may wait for the disk at once. They wait more than they compute: few threads keep a write from its turn
#: in the lane that writes.
_MOST_WAITING = 24
#: Who was asked to leave and has not left by then is ended: what is acknowledged is on disk, and what was in hand is
#: taken over by the next daemon. The log says where every thread stood.
_LONGEST_FAREWELL_SECONDS = 25.0


def main() -> int:
    """Run until asked to leave; returns the exit code."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    os.umask(0o077)  # whoever started it: a log that is rotated in a month is for this user alone, too
    home = home_directory()
    try:
        with only_one(home, patience=_TAKE_OVER_SECONDS if SUCCESSOR in sys.argv else 0.0):
            if SENT_FOR in sys.argv and not os.path.exists(inside(home, STARTING)):
                return 0  # another came meanwhile and took the sign away; it may have left again since
            log_to_file(home, _log_format(home))
            return _serve(home)
    except FilrougeError as error:
        return _refused(home, error)
    except OSError as error:
        return _refused(home, CannotWrite(f"The home {home} cannot be used: {error.strerror}."))


def _log_format(home: str) -> Form:
    """What the settings say; whatever is wrong with them, or with the database, is logged as plain lines."""
    path = inside(home, DATABASE)
    try:
        stored = stored_settings(path) if os.path.exists(path) else {}
        return resolve(stored, home=home, environ=os.environ).settings.log_format
    except FilrougeError:
        return "text"


def _refused(home: str, error: FilrougeError) -> int:
    if not isinstance(error, Busy):
        leave_word(home, error)
    print(one_line(f"{error.message} {error.remedy}"), file=sys.stderr)  # noqa: T201 (the person who started it by hand)
    return error.exit_code


def _serve(home: str) -> int:
    _LOG.info("filrouge %s starting, pid %d", __version__, os.getpid())
    try:
        running = wiring.start(home)
    except FilrougeError as error:
        _LOG.error("cannot start: %s %s", error.message, error.remedy)
        raise
    try:
        with listening(running.parts) as found:
            asyncio.run(_listen(home, running, found))
    except FilrougeError as error:
        _LOG.error("cannot listen: %s %s", error.message, error.remedy)
        raise
    finally:
        running.stop()
        faulthandler.cancel_dump_traceback_later()
        _LOG.info("filrouge stopped")
    return 0


class _Leaving:
    """How the process leaves when it is asked to."""

    def __init__(self, home: str, leaving: Flag) -> None:
        self._home = home
        self._leaving = leaving
        self.servers: list[_Server] = []

    def leave(self) -> None:
        """Leave soon; who cannot is ended."""
        for server in self.servers:
            server.should_exit = True
        self._leaving.set()
        with suppress(OSError):  # the home may be gone
            log = os.open(inside(self._home, LOG), os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            faulthandler.dump_traceback_later(_LONGEST_FAREWELL_SECONDS, exit=True, file=log)


class _Server(uvicorn.Server):
    """Leaves when a signal asks it to. uvicorn would raise the signal again and so skip what is left to tidy up."""

    def __init__(self, config: uvicorn.Config, leaving: _Leaving) -> None:
        super().__init__(config)
        self._leaving = leaving
        leaving.servers.append(self)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        def leave(_number: int, _frame: FrameType | None) -> None:
            self._leaving.leave()

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, leave)
        yield

    async def on_tick(self, counter: int) -> bool:
        end_overdue(self)
        return await super().on_tick(counter)


async def _listen(home: str, running: wiring.Running, found: Listening) -> None:
    """Serve the unix socket, and TCP beside it; each counts its own connections."""
    blocking = ThreadPoolExecutor(_MOST_WAITING, thread_name_prefix="filrouge-request")
    asyncio.get_running_loop().set_default_executor(blocking)
    leaving = _Leaving(home, running.parts.leaving)
    app = create_app(running, leaving.leave, found)
    served = [(_Server(inside_config(app), leaving), bound_socket(home))]
    if found.listener is not None:
        served.append((_Server(outside(app, settings_of(running.parts)), leaving), found.listener))
    with announced(home, found.url):
        watch = asyncio.create_task(_leave_with_the_home(leaving, home))
        await asyncio.gather(*(server.serve(sockets=[listener]) for server, listener in served))
        watch.cancel()


async def _leave_with_the_home(leaving: _Leaving, home: str) -> None:
    """A daemon whose home was deleted serves nobody: it would only hold memory until the machine restarts."""
    while os.path.exists(inside(home, RUNTIME)):
        await asyncio.sleep(_LOOK_AT_HOME_SECONDS)
    _LOG.info("the home is gone")
    leaving.leave()


if __name__ == "__main__":
    sys.exit(main())
