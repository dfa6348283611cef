"""One memory four ways: async and blocking, embedded and at a daemon; a scenario is written once, for `Memory`."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import filrouge
from filrouge.daemon import client

T = TypeVar("T")
Way = Literal["async embedded", "async remote", "blocking embedded", "blocking remote"]
WAYS: tuple[Way, ...] = ("async embedded", "async remote", "blocking embedded", "blocking remote")
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
        embedded = way.endswith("embedded")
        if not embedded:
            held.enter_context(daemon(str(home)))
        options: dict[str, Any] = {"embedded": embedded, "start": False, "environ": WORDS_ONLY}
        if way.startswith("blocking"):
            blocking = held.enter_context(filrouge.BlockingMemory(str(home), **options))
            yield Asked(cast("filrouge.Memory", Awaited(blocking)), runner)
        else:
            memory = filrouge.Memory(str(home), **options)
            runner.run(memory.__aenter__())
            held.callback(lambda: runner.run(memory.__aexit__(None, None, None)))
            yield Asked(memory, runner)


@contextmanager
def daemon(home: str) -> Generator[None]:
    """A real daemon for that home, ready to answer."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FILROUGE_")}
    with subprocess.Popen(
        [sys.executable, "-m", "filrouge.server"], env={**kept, **WORDS_ONLY, "FILROUGE_HOME": home}
    ) as process:
        try:
            assert client.wait_ready(home, time.monotonic() + 30)
            yield
        finally:
            process.terminate()
