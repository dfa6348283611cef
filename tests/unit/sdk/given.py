"""One memory six ways: async and blocking, embedded, at a daemon, and at its address with a key.

A scenario is written once, for `Memory`.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import filrouge
from filrouge.daemon import client
from tests.reliability import processes

T = TypeVar("T")
Way = Literal[
    "async embedded", "async remote", "async over TCP", "blocking embedded", "blocking remote", "blocking over TCP"
]
WAYS: tuple[Way, ...] = (
    "async embedded", "async remote", "async over TCP", "blocking embedded", "blocking remote", "blocking over TCP",
)  # fmt: skip
WORDS_ONLY = {"FILROUGE_EMBEDDING_MODEL": "hashing"}


class Awaited:
    """A blocking memory whose verbs can be awaited, so that the scenarios of `Memory` are its own."""

    def __init__(self, blocking: filrouge.BlockingMemory) -> None:
        self._blocking = blocking

    def __getattr__(self, verb: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def awaited(*given: Any, **named: Any) -> Any:
            return await asyncio.to_thread(getattr(self._blocking, verb), *given, **named)

        return awaited


class Asked:
    """An open memory, and the event loop that it belongs to."""

    def __init__(self, memory: filrouge.Memory, runner: asyncio.Runner) -> None:
        self.memory = memory
        self._runner = runner

    def run(self, scenario: Callable[[filrouge.Memory], Coroutine[Any, Any, T]]) -> T:
        return self._runner.run(scenario(self.memory))


@contextmanager
def asked(way: Way, home: Path) -> Generator[Asked]:
    """A memory on a home of its own, opened that way."""
    with ExitStack() as held:
        runner = held.enter_context(asyncio.Runner())
        options: dict[str, Any] = {"home": str(home), "start": False, "environ": WORDS_ONLY}
        if way.endswith("embedded"):
            options["embedded"] = True
        elif way.endswith("remote"):
            held.enter_context(daemon(str(home)))
        else:
            options = {"environ": WORDS_ONLY, **held.enter_context(listening(str(home)))}
        if way.startswith("blocking"):
            blocking = held.enter_context(filrouge.BlockingMemory(**options))
            yield Asked(cast("filrouge.Memory", Awaited(blocking)), runner)
        else:
            memory = filrouge.Memory(**options)
            runner.run(memory.__aenter__())
            held.callback(lambda: runner.run(memory.__aexit__(None, None, None)))
            yield Asked(memory, runner)


@contextmanager
def daemon(home: str, **more: str) -> Generator[None]:
    """A real daemon for that home, ready to answer; `more` is for its environment."""
    with processes.daemon(home, **{**WORDS_ONLY, **more}):
        yield


@contextmanager
def listening(home: str) -> Generator[dict[str, str]]:
    """A real daemon that listens on TCP: its address and a key, as the memory takes them."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    with daemon(home, FILROUGE_PORT=port, FILROUGE_LIMIT_REQUESTS="100000"):
        made = client.request(home, "POST", "/api/tokens", {"scope": "admin"})
        yield {"url": client.request(home, "GET", "/daemon/status").body["url"], "api_key": str(made.body["token"])}
