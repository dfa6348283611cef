"""How a verb of the SDK reaches the routes: over HTTP to the daemon or a remote server, or in this process.

Where nobody answers, `observe` leaves its messages in the home's spool.
"""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import Mapping, MutableMapping
from contextlib import ExitStack
from threading import Event as Flag
from typing import Any, Protocol
from urllib.parse import unquote

from fastapi import FastAPI
from pydantic import ValidationError

from filrouge._version import __version__
from filrouge.capture import inbox
from filrouge.capture.intake import cleaned
from filrouge.capture.programs import events_of
from filrouge.capture.redact_complete import redact_completely
from filrouge.core.clock import SystemClock
from filrouge.core.errors import BadInput, Busy, CannotWrite, DaemonUnavailable
from filrouge.core.paths import SPOOL, inside, socket_path
from filrouge.daemon import client, waking
from filrouge.daemon.remote import safe, shown
from filrouge.daemon.reply import VERSION_HEADER, Reply, is_newer, reply_of
from filrouge.runtime.library import owned
from filrouge.server.api import create_app
from filrouge.server.routes.turns import TurnsBody

# The way from a verb to the routes, and the remote one: HTTP to the daemon of a home, or to one elsewhere.
#
# The bytes are those of `daemon.client`, written and read by asyncio instead of a blocking socket, so that a verb
# that is cancelled closes its connection at once. A connection serves one request: on a unix socket a new one costs a
# tenth of a millisecond, and none of them can be found dead.


class Way(Protocol):
    """How requests reach the routes. It knows neither verbs nor values; who asks reads problems out of the reply.

    `OwnDaemon` and `Elsewhere` are below, `Embedded` is in a module of its own.
    """

    @property
    def home(self) -> str | None:
        """The home where what cannot be delivered may wait; None where it is not on this machine."""
        ...

    async def open(self) -> None:
        """Be ready to send."""
        ...

    async def send(self, method: str, target: str, body: Mapping[str, Any] | None, timeout: float) -> Reply:
        """Send one request and wait for its answer, `timeout` seconds at most in all.

        Raises:
            DaemonUnavailable: there is no answer.
        """
        ...

    async def close(self) -> None:
        """Let go of everything."""
        ...


class OwnDaemon:
    """The daemon of a home on this machine, by its unix socket; started where it is away."""

    def __init__(self, home: str, *, start: bool, connections: int) -> None:
        self.home: str | None = home
        self._directory = home
        self._start = start
        self._slots = asyncio.Semaphore(connections)

    async def open(self) -> None:
        """Nothing: the first request finds out whether the daemon is there."""

    async def send(self, method: str, target: str, body: Mapping[str, Any] | None, timeout: float) -> Reply:
        """Send; where nobody listens, start the daemon and send again."""
        request = client.written(method, target, body)
        try:
            reply = await self._exchanged(request, timeout)
        except TimeoutError:
            raise waking.hanging(self._directory, timeout) from None
        except (OSError, ValueError, DaemonUnavailable):
            if not self._start:
                raise DaemonUnavailable from None
            await self._woken()
            try:
                reply = await self._exchanged(request, timeout)
            except (OSError, ValueError) as error:
                raise DaemonUnavailable from error
        if self._start and is_newer(__version__, reply.version):
            await asyncio.to_thread(waking.renew, self._directory, reply)
        return reply

    async def close(self) -> None:
        """Nothing: no connection outlives its request."""

    async def _exchanged(self, request: bytes, timeout: float) -> Reply:
        async with asyncio.timeout(timeout), self._slots:
            streams = await asyncio.open_unix_connection(client.own_socket(self._directory))
            return await _exchange(*streams, request)

    async def _woken(self) -> None:
        """Start the daemon; whoever is cancelled meanwhile leaves a thread that looks once more, and ends."""
        given_up = Flag()
        try:
            await asyncio.to_thread(waking.wake, self._directory, given_up=given_up.is_set)
        finally:
            given_up.set()


class Elsewhere:
    """A daemon at an address, with its key: https, or http within this machine and private networks."""

    home = None

    def __init__(self, url: str, key: str, *, connections: int) -> None:
        self._place = safe(url)
        self._url = shown(url)
        self._key = f"Authorization: Bearer {key}\r\n" if key else ""
        if key and not (key.isascii() and key.isprintable()):
            raise DaemonUnavailable("The API key holds characters that no key has.", remedy="Give `api_key` as it was.")
        self._slots = asyncio.Semaphore(connections)
        self._tls = ssl.create_default_context() if self._place.scheme == "https" else None

    async def open(self) -> None:
        """Nothing, as long as nobody asks."""

    async def send(self, method: str, target: str, body: Mapping[str, Any] | None, timeout: float) -> Reply:
        """Send, to nobody but that address."""
        path = self._place.path.rstrip("/") + target
        netloc = self._place.netloc.rpartition("@")[2]
        request = client.written(method, path, body, host=netloc, headers=self._key)
        port = self._place.port or (443 if self._tls else 80)
        try:
            async with asyncio.timeout(timeout), self._slots:
                streams = await asyncio.open_connection(self._place.hostname, port, ssl=self._tls)
                return await _exchange(*streams, request)
        except (OSError, ValueError) as error:
            raise waking.out_of_reach(self._url) from error

    async def close(self) -> None:
        """Nothing: no connection outlives its request."""


async def _exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> Reply:
    try:
        writer.write(request)
        await writer.drain()
        raw = bytearray()
        need = -1
        while (need < 0 or len(raw) < need) and (piece := await reader.read(65536)):
            raw += piece
            need = client.whole_length(raw) if need < 0 or len(raw) > client.LARGEST_ANSWER else need
        if len(raw) < need:
            raise ValueError("the answer breaks off")
        return client.parsed(bytes(raw))
    finally:
        writer.close()


# The way to the routes without a daemon: the program opens the home itself and asks the application in-process.
#
# A request is an ASGI call, so it meets the same routes, limits and problem documents as one over a socket. The home
# has one owner: while the program holds it no daemon starts, and the program does a daemon's work. This module is
# loaded by name, for that case alone, because it brings the whole server with it.

_LOG = logging.getLogger(__name__)


class Embedded:
    """A home that this process holds."""

    def __init__(self, home: str, *, environ: Mapping[str, str] | None = None) -> None:
        self.home: str | None = home
        self._directory = home
        self._environ = environ
        self._held = ExitStack()
        self._app: FastAPI | None = None
        self._under_way = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    async def open(self) -> None:
        """Take the home and load its indexes, on another thread.

        Raises:
            Busy: a daemon or another program has it open.
            StoreError: the database cannot be opened, is damaged, or is newer than this program.
        """
        opening = asyncio.ensure_future(asyncio.to_thread(self._opened))
        try:
            self._app = await asyncio.shield(opening)
        except asyncio.CancelledError:
            await asyncio.wait([opening])  # a home that is being opened is opened, and then let go
            await self.close()
            raise

    async def send(self, method: str, target: str, body: Mapping[str, Any] | None, timeout: float) -> Reply:
        """Call the application."""
        if self._app is None:
            raise Busy("This home is closed.", remedy="Use the memory inside its `async with` block.")
        self._under_way += 1
        self._quiet.clear()
        try:
            async with asyncio.timeout(timeout):
                return await _called(self._app, self._directory, method, target, body)
        except TimeoutError:
            raise DaemonUnavailable(
                f"There was no answer within {timeout:.0f} seconds.", remedy="Give the verb more time: `timeout`."
            ) from None
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._quiet.set()

    async def close(self) -> None:
        """Wait for what is under way, finish what is being written, and let the home go."""
        self._app = None
        await self._quiet.wait()
        await asyncio.to_thread(self._held.close)

    def _opened(self) -> FastAPI:
        running = self._held.enter_context(owned(self._directory, environ=self._environ))
        return create_app(running, lambda: None)


async def _called(app: FastAPI, home: str, method: str, target: str, body: Mapping[str, Any] | None) -> Reply:
    """One request as the server makes it of what comes over the unix socket."""
    path, _, query = target.partition("?")
    content = b"" if body is None else json.dumps(body).encode("ascii")
    unread: list[MutableMapping[str, Any]] = [{"type": "http.request", "body": content, "more_body": False}]
    over = asyncio.Event()
    status, headers, answer = 0, dict[str, str](), bytearray()

    async def receive() -> MutableMapping[str, Any]:
        if unread:
            return unread.pop()
        await over.wait()
        return {"type": "http.disconnect"}

    async def send(message: Mapping[str, Any]) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status = message["status"]
            headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in message["headers"]}
        elif message["type"] == "http.response.body":
            answer.extend(message.get("body", b""))
            if not message.get("more_body"):
                over.set()

    try:
        await app(_scope(home, method, path, query, content), receive, send)
    except Exception:
        if not over.is_set():
            raise
        _LOG.exception("%s %s stumbled", method, path)  # its problem document is the answer
    return reply_of(status, headers.get(VERSION_HEADER, ""), bytes(answer))


def _scope(home: str, method: str, path: str, query: str, content: bytes) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode("ascii"),
        "query_string": query.encode("ascii"),
        "root_path": "",
        "headers": [
            (b"host", b"filrouge"),
            (b"accept", b"application/json"),
            (b"content-type", b"application/json"),
            (b"content-length", str(len(content)).encode("ascii")),
        ],
        "client": None,
        "server": (socket_path(home), None),
    }


# What `observe` does where nobody answers: the messages wait in the home's spool, like a hook's events.
#
# They become the very events that the route would have made of them, so that a message which was delivered after all,
# or is handed over again, is recognised. They are redacted before they are written: a file of the spool may wait
# long. Loaded by name, for that case alone.


def spool(home: str, body: Mapping[str, Any]) -> int:
    """Put the messages of a request on disk for good, and return how many there are.

    Raises:
        BadInput: one cannot be read.
        DaemonUnavailable: only the daemon knows which project a short name means.
        CannotWrite: the home cannot be written.
    """
    told = _read(body)
    where, messages = told.conversation(), told.said()
    if any(":" not in name for name in where.project):
        raise DaemonUnavailable(
            "The daemon does not answer, and it alone knows which project that is.",
            remedy="Hand the messages over again, or name the project by its id, so that they can wait.",
        )
    try:
        for event in events_of(where, messages, where.project, SystemClock().now()).events:
            inbox.append(inside(home, SPOOL), cleaned(event, redact_completely).to_json())
    except OSError as error:
        raise CannotWrite(f"The home {home} cannot be written: {error.strerror}.") from error
    return len(messages)


def _read(body: Mapping[str, Any]) -> TurnsBody:
    try:
        return TurnsBody.model_validate(body)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in ("body", *first["loc"]))
        raise BadInput(f"{where}: {first['msg']}.", remedy="See the API reference.") from None
