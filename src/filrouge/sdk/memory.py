"""`Memory`: the verbs of Filrouge for a program that runs an event loop.

    async with filrouge.Memory() as memory:
        await memory.remember("Production listens on port 9443.")
        print(await memory.search("production port"))

By default it asks the daemon of this user's home and starts it where it is away, like every command does. With an
address it asks a daemon elsewhere; embedded, the program holds the home itself. The verbs are the same, and so are
their answers: each is one request to the same routes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from types import TracebackType
from typing import Self

from filrouge.daemon.client import API_KEY, URL
from filrouge.errors import BadInput
from filrouge.home import home as default_home
from filrouge.sdk.asking import Asking
from filrouge.sdk.looking import Looking
from filrouge.sdk.telling import Telling
from filrouge.sdk.ways import Elsewhere, OwnDaemon, Way


class Memory(Telling, Asking, Looking):
    """A memory, open inside its `async with` block.

    Many tasks may ask at once. A memory belongs to the event loop that opened it; `BlockingMemory` serves programs
    without one, from any thread. A verb that is cancelled stops waiting at once; what it asked for may still be done.
    Every verb takes `timeout`: seconds in the place of this memory's.

    Every verb raises `DaemonUnavailable` where there is no answer in time, and otherwise the error that it names, with
    the same message wherever the memory is.
    """

    def __init__(
        self,
        home: str | None = None,
        *,
        url: str | None = None,
        api_key: str | None = None,
        embedded: bool = False,
        start: bool = True,
        timeout: float = 30.0,
        connections: int = 8,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Say which memory; nothing is opened yet.

        Args:
            home: its directory; None = that of the daemon (`FILROUGE_HOME`).
            url: where a daemon elsewhere listens; None = `FILROUGE_URL`, else the home's own daemon.
            api_key: its key; None = `FILROUGE_API_KEY`.
            embedded: hold the home in this process, without a daemon.
            start: start the home's daemon where it is away.
            timeout: seconds that a verb waits at most; starting a daemon takes up to 15 more.
            connections: how many requests are on their way at a time; more wait for their turn.
            environ: in the place of this process's environment.

        Raises:
            BadInput: both a home to hold and an address.
        """
        if embedded and url:
            raise BadInput("A memory is embedded or at a url, not both.", remedy="Leave one of them out.")
        self._home = home or default_home(environ)
        # A home that is named is meant; FILROUGE_URL speaks of the home that nobody names.
        seen = os.environ if environ is None else environ
        self._url = url or ("" if home else seen.get(URL, "").strip())
        self._key = api_key or seen.get(API_KEY, "").strip()
        self._holds = embedded
        self._start = start
        self._timeout = timeout
        self._connections = connections
        self._environ = environ

    @classmethod
    def embedded(
        cls, home: str | None = None, *, timeout: float = 30.0, environ: Mapping[str, str] | None = None
    ) -> Self:
        """A memory whose home this process holds; no daemon can run for it meanwhile."""
        return cls(home, embedded=True, timeout=timeout, environ=environ)

    async def __aenter__(self) -> Self:
        """Open it.

        Raises:
            BadInput: it is open already.
            Busy: it is embedded, and a daemon or another program holds the home.
            StoreError: it is embedded, and the database cannot be opened.
        """
        if self._way is not None:
            raise BadInput("This memory is open already.", remedy="Make a `Memory` for each block.")
        self._way = way = self._made()
        try:
            await way.open()
        except BaseException:
            self._way = None
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it: nothing that it opened is left."""
        way, self._way = self._way, None
        if way is not None:
            await way.close()

    def _made(self) -> Way:
        if self._holds:
            return import_module("filrouge.sdk.embedded").Embedded(self._home, environ=self._environ)
        if self._url:
            return Elsewhere(self._url, self._key, connections=self._connections)
        return OwnDaemon(self._home, start=self._start, connections=self._connections)
