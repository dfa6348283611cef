"""How a verb of the SDK reaches the routes: over HTTP to the daemon or a remote server, or in this process.

Where nobody answers, `observe` leaves its messages in the home's spool.
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
from filrouge.daemon.remote import safe, shown
from filrouge.daemon.reply import Reply, is_newer

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
