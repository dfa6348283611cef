"""The running daemon: wiring, servers, orderly shutdown, and the outer application that answers hooks at once.

Only the process that holds the home's lock loads this module.

FastAPI and the answer models are a quarter of what the daemon imports, and hooks need none of it. This application
answers `/health` and hook events on the Unix socket itself. Any other request, and any hook request in an unusual form,
waits until FastAPI is loaded and is passed on to it unread.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import json
import logging
import os
import signal
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib import import_module
from threading import Event as Flag
from threading import Lock, Thread
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import uvicorn
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from filrouge._version import __version__
from filrouge.context.service import confirm
from filrouge.core.errors import FilrougeError
from filrouge.core.lazy_re import compile_all
from filrouge.core.paths import DATABASE, LOG, RUNTIME, inside
from filrouge.core.settings import resolve
from filrouge.daemon import handover
from filrouge.daemon.process import LogFormat, bind_socket, limit_arenas, log_to_file, runtime_file
from filrouge.runtime import wiring
from filrouge.runtime.wiring import Running, stored_settings
from filrouge.server.admission import HEALTH, SMALL_BODY_BYTES, read_and_replay, settings_of, with_version_header
from filrouge.server.listening import Listening, close_overdue, open_listener, tcp_config, unix_config
from filrouge.server.live import Confirmation, Delivery, handle_delivery, handle_input

if TYPE_CHECKING:
    from fastapi import FastAPI


# The daemon's outer application: serves hooks at once, and loads FastAPI for everything else.

_EVENTS: Final = "/hooks/events"


class Front:
    """An ASGI application that delegates to FastAPI once that is loaded."""

    def __init__(self, running: Running, stop: Callable[[], None], listening: Listening | None) -> None:
        self._running, self._stop, self._listening = running, stop, listening
        self._lock = Lock()
        self._app: FastAPI | None = None

    def load(self) -> FastAPI:
        """Return the FastAPI application; the first caller imports it, and concurrent callers wait."""
        with self._lock:
            if self._app is None:
                app: FastAPI = import_module("filrouge.server.api").create_app(
                    self._running, self._stop, self._listening
                )
                self._app = app
            return self._app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if _is_handed_over(scope):
            body, receive = await read_and_replay(receive)
            response = await self._answer_input(body, Request(scope, receive))
            self._running.parts.metrics.count_request(scope["method"], scope["path"], response.status_code)
            await response(scope, receive, send)
            return
        if _is_plain_hook_request(scope):
            body, receive = await read_and_replay(receive)
            response = await self._answer_hook(scope, body, receive)
            if response is not None:
                self._running.parts.metrics.count_request(scope["method"], scope["path"], response.status_code)
                await response(scope, receive, with_version_header(send, ()))
                return
        app: ASGIApp = self._app or await asyncio.to_thread(self.load)
        await app(scope, receive, send)

    async def _answer_input(self, body: bytes, request: Request) -> Response:
        """Return the answer to a hook that hands over its input; 409 or 503 if the hook must serve itself."""
        try:
            return await handle_input(self._running.parts, body, request.is_disconnected)
        except FilrougeError as error:
            _LOG.warning("events of a hook were not stored: %s", error.message)
            return Response(status_code=503)
        except (ValueError, KeyError):  # not the input of a hook, or not all of it
            return Response(status_code=409)

    async def _answer_hook(self, scope: Scope, body: bytes, receive: Receive) -> Response | None:
        """Return the answer to a hook's request; None if it is invalid and FastAPI has to report the error."""
        parts = self._running.parts
        try:
            if scope["path"] == HEALTH:
                return JSONResponse({"status": "healthy", "version": __version__})
            content: Any = json.loads(body)
            if scope["path"] == handover.DELIVERED_PATH:
                confirm(parts, Confirmation.model_validate(content).recall)
                return JSONResponse({"success": True})
            return await handle_delivery(
                parts, Delivery.model_validate(content), Request(scope, receive).is_disconnected
            )
        except (FilrougeError, ValidationError, ValueError):
            return None


def _is_handed_over(scope: Scope) -> bool:
    """Return whether a hook hands over its input, on the Unix socket."""
    return (
        _is_on_unix_socket(scope)
        and (scope["method"], scope["path"]) == ("POST", handover.PATH)
        and _has_small_body(dict(scope["headers"]))
    )


def _is_plain_hook_request(scope: Scope) -> bool:
    """Return whether a request on the Unix socket is the health check or has the exact form that hooks send."""
    if not _is_on_unix_socket(scope) or scope["query_string"]:
        return False
    if scope["method"] == "GET":
        return scope["path"] == HEALTH
    headers = dict(scope["headers"])
    return (
        scope["method"] == "POST"
        and scope["path"] in (_EVENTS, handover.DELIVERED_PATH)
        and headers.get(b"content-type", b"").split(b";")[0].strip().lower() == b"application/json"
        and b"idempotency-key" not in headers
        and _has_small_body(headers)
    )


def _is_on_unix_socket(scope: Scope) -> bool:
    server = scope.get("server")
    return scope["type"] == "http" and server is not None and server[1] is None


def _has_small_body(headers: Mapping[bytes, bytes]) -> bool:
    length = headers.get(b"content-length", b"")
    return length.isdigit() and len(length) < 10 and int(length) <= SMALL_BODY_BYTES


# The running daemon: logging, wiring, servers and orderly shutdown.

_LOG = logging.getLogger("filrouge.daemon")
#: Delays after the start, so that the first answer gets the CPU: first the indexes and the backlog, later imports.
_WARM_UP_SECONDS = 0.1
_PREPARE_SECONDS = 10.0
_HOME_CHECK_SECONDS = 2.0
#: How often connections are looked at: an overdue one is closed that much late at the most.
_TICK_SECONDS: Final = 1.0
#: Maximum number of requests in worker threads. They mostly wait for the disk; more threads would delay the writer.
_MAX_WORKER_THREADS = 24
#: A daemon that has not stopped this long after the request to stop is killed. Acknowledged data is on disk, and the
#: next daemon takes over unfinished jobs. The log then shows the stack of every thread.
_SHUTDOWN_TIMEOUT = 25.0


def serve(home: str, on_listening: Callable[[], None]) -> None:
    """Serve the home until asked to stop.

    Args:
        home: the home, whose lock this process holds.
        on_listening: called once the socket accepts connections.

    Raises:
        FilrougeError: the database cannot be opened, or the daemon cannot listen on an address.
        OSError: the home cannot be used.
    """
    limit_arenas()
    log_to_file(home, _log_format(home))
    _LOG.info("filrouge %s starting, pid %d", __version__, os.getpid())
    try:
        running = wiring.start(home, warm_up=False)
    except FilrougeError as error:
        _LOG.error("cannot start: %s %s", error.message, error.remedy)
        raise
    try:
        with open_listener(running.parts) as listening:
            asyncio.run(_listen(home, running, listening, on_listening))
    except FilrougeError as error:
        _LOG.error("cannot listen: %s %s", error.message, error.remedy)
        raise
    finally:
        running.stop()
        faulthandler.cancel_dump_traceback_later()
        _LOG.info("filrouge stopped")


def _log_format(home: str) -> LogFormat:
    """Return the log format from the settings; plain text if the settings or the database cannot be read."""
    path = inside(home, DATABASE)
    try:
        stored = stored_settings(path) if os.path.exists(path) else {}
        return resolve(stored, home=home, environ=os.environ).settings.log_format
    except FilrougeError:
        return "text"


class _Shutdown:
    """Stops the process when asked to."""

    def __init__(self, home: str, stopping: Flag, loop: asyncio.AbstractEventLoop) -> None:
        self._home = home
        self._stopping = stopping
        self._loop = loop
        self._begun = asyncio.Event()
        self.servers: list[_Server] = []

    def begin(self) -> None:
        """Ask the servers to stop, from any thread or a signal; the process is killed if they do not stop in time."""
        for server in self.servers:
            server.should_exit = True
        self._stopping.set()
        with suppress(RuntimeError):  # the loop is closed, because the servers have stopped
            self._loop.call_soon_threadsafe(self._begun.set)
        with suppress(OSError):  # the home may be gone
            log = os.open(inside(self._home, LOG), os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            faulthandler.dump_traceback_later(_SHUTDOWN_TIMEOUT, exit=True, file=log)

    async def begins_within(self, seconds: float) -> None:
        """Wait for `begin`, that many seconds at most."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._begun.wait(), seconds)


class _Server(uvicorn.Server):
    """A server that stops on a signal. uvicorn would raise the signal again, which would skip the clean-up."""

    def __init__(self, config: uvicorn.Config, shutdown: _Shutdown) -> None:
        super().__init__(config)
        self._shutdown = shutdown
        shutdown.servers.append(self)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        def on_signal(_number: int, _frame: FrameType | None) -> None:
            self._shutdown.begin()

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, on_signal)
        yield

    async def main_loop(self) -> None:
        """Look after connections once a second; uvicorn would wake up ten times, all day long."""
        while not await self.on_tick(0):
            close_overdue(self)
            await self._shutdown.begins_within(_TICK_SECONDS)


async def _listen(home: str, running: wiring.Running, listening: Listening, on_listening: Callable[[], None]) -> None:
    """Serve the Unix socket and TCP; each server counts its own connections."""
    worker_threads = ThreadPoolExecutor(_MAX_WORKER_THREADS, thread_name_prefix="filrouge-request")
    asyncio.get_running_loop().set_default_executor(worker_threads)
    shutdown = _Shutdown(home, running.parts.stopping, asyncio.get_running_loop())
    app = Front(running, shutdown.begin, listening)
    servers = [(_Server(unix_config(app), shutdown), bind_socket(home))]
    if listening.listener is not None:
        servers.append((_Server(tcp_config(app, settings_of(running.parts)), shutdown), listening.listener))
    with runtime_file(home, listening.url):
        on_listening()
        loop = asyncio.get_running_loop()
        loop.call_later(_WARM_UP_SECONDS, running.warm_up)
        preparing = Thread(target=_prepare, args=(app, loop), name="filrouge-preparing", daemon=True)
        loop.call_later(_PREPARE_SECONDS, preparing.start)
        watch = asyncio.create_task(_stop_when_home_is_gone(shutdown, home))
        await asyncio.gather(*(server.serve(sockets=[listener]) for server, listener in servers))
        watch.cancel()


def _prepare(front: Front, loop: asyncio.AbstractEventLoop) -> None:
    """Load what the start does not need, but the first text or request would wait for: patterns, FastAPI, routers."""
    compile_all()
    app = front.load()
    with suppress(RuntimeError):  # the loop is closed, because the daemon stopped in the meantime
        import_module("filrouge.server.deferred").import_all(app, loop)
    gc.freeze()  # a collection that looks through all of this holds every request for a tenth of a second


async def _stop_when_home_is_gone(shutdown: _Shutdown, home: str) -> None:
    """Stop the daemon when its home is deleted; it would only hold memory until the machine restarts."""
    while os.path.exists(inside(home, RUNTIME)):
        await asyncio.sleep(_HOME_CHECK_SECONDS)
    _LOG.info("the home is gone")
    shutdown.begin()
