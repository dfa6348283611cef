"""The transports of the SDK: HTTP to the daemon of a home, and HTTP to a remote daemon.

The wire format is that of `daemon.client`, but asyncio reads and writes it, so that a cancelled call closes its
connection at once. Each connection serves one request: on a Unix socket a new connection costs a tenth of a
millisecond, and a request never meets a dead one. The embedded transport is in `embedded`; `spooling` stores the
messages of `observe` when no daemon answers.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from threading import Event as Flag
from typing import Any, Protocol

from filrouge._version import __version__
from filrouge.core.errors import DaemonUnavailable
from filrouge.daemon import client, waking
from filrouge.daemon.remote import checked_url, without_credentials
from filrouge.daemon.reply import Reply, is_newer


class Way(Protocol):
    """A transport: sends requests to the routes. The caller turns problem documents in replies into errors.

    `OwnDaemon` and `Elsewhere` are below; `Embedded` is in a module of its own.
    """

    @property
    def home(self) -> str | None:
        """The home whose spool takes undelivered messages; None if the home is not on this machine."""
        ...

    async def open(self) -> None:
        """Prepare for sending."""
        ...

    async def send(self, method: str, target: str, body: Mapping[str, Any] | None, timeout: float) -> Reply:
        """Send one request and wait for the reply, `timeout` seconds at most in total.

        Raises:
            DaemonUnavailable: no reply came.
        """
        ...

    async def close(self) -> None:
        """Release all resources."""
        ...


class OwnDaemon:
    """The daemon of a home on this machine, over its Unix socket; started if it is not running."""

    def __init__(self, home: str, *, start: bool, connections: int) -> None:
        self.home: str | None = home
        self._directory = home
        self._start = start
        self._slots = asyncio.Semaphore(connections)

    async def open(self) -> None:
        """Do nothing: the first request finds out whether the daemon runs."""

    async def send(self, method: str, target: str, body: Mapping[str, Any] | None, timeout: float) -> Reply:
        """Send a request; if no daemon answers, start one and send it again."""
        request = client.encode_request(method, target, body)
        try:
            reply = await self._exchanged(request, timeout)
        except TimeoutError:
            raise waking.not_responding_error(self._directory, timeout) from None
        except (OSError, ValueError, DaemonUnavailable):
            if not self._start:
                raise DaemonUnavailable from None
            await self._woken()
            try:
                reply = await self._exchanged(request, timeout)
            except (OSError, ValueError) as error:
                raise DaemonUnavailable from error
        if self._start and is_newer(__version__, reply.version):
            await asyncio.to_thread(waking.upgrade_daemon, self._directory, reply)
        return reply

    async def close(self) -> None:
        """Do nothing: no connection outlives its request."""

    async def _exchanged(self, request: bytes, timeout: float) -> Reply:
        async with asyncio.timeout(timeout), self._slots:
            streams = await asyncio.open_unix_connection(client.own_socket(self._directory))
            return await _exchange(*streams, request)

    async def _woken(self) -> None:
        """Start the daemon; after a cancellation the thread checks once more and ends."""
        given_up = Flag()
        try:
            await asyncio.to_thread(waking.ensure_running, self._directory, given_up=given_up.is_set)
        finally:
            given_up.set()


class Elsewhere:
    """A daemon at a URL, with its key: https, or http for this machine and private networks."""

    home = None

    def __init__(self, url: str, key: str, *, connections: int) -> None:
        self._place = checked_url(url)
        self._url = without_credentials(url)
        self._key = f"Authorization: Bearer {key}\r\n" if key else ""
        if key and not (key.isascii() and key.isprintable()):
            raise DaemonUnavailable("The API key contains invalid characters.", remedy="Give `api_key` as it was.")
        self._slots = asyncio.Semaphore(connections)
        self._tls = ssl.create_default_context() if self._place.scheme == "https" else None

    async def open(self) -> None:
        """Do nothing: each request opens its own connection."""

    async def send(self, method: str, target: str, body: Mapping[str, Any] | None, timeout: float) -> Reply:
        """Send a request to that address only."""
        path = self._place.path.rstrip("/") + target
        netloc = self._place.netloc.rpartition("@")[2]
        request = client.encode_request(method, path, body, host=netloc, headers=self._key)
        port = self._place.port or (443 if self._tls else 80)
        try:
            async with asyncio.timeout(timeout), self._slots:
                streams = await asyncio.open_connection(self._place.hostname, port, ssl=self._tls)
                return await _exchange(*streams, request)
        except (OSError, ValueError) as error:
            raise waking.unreachable_error(self._url) from error

    async def close(self) -> None:
        """Do nothing: no connection outlives its request."""


async def _exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> Reply:
    try:
        writer.write(request)
        await writer.drain()
        raw = bytearray()
        need = -1
        while (need < 0 or len(raw) < need) and (piece := await reader.read(65536)):
            raw += piece
            need = client.answer_length(raw) if need < 0 or len(raw) > client.MAX_ANSWER_BYTES else need
        if len(raw) < need:
            raise ValueError("the answer breaks off")
        return client.parse_answer(bytes(raw))
    finally:
        writer.close()
