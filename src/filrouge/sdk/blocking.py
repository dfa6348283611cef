"""`BlockingMemory`: the client for programs without an event loop.

Each method runs the method of `Memory` with the same name on an event loop in a background thread. Parameters,
defaults and docstrings are therefore those of `Memory`, also for editors and type checkers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import ExitStack
from functools import wraps
from threading import Lock, Thread
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from filrouge.core.errors import BadInput
from filrouge.core.guard import on_failure
from filrouge.sdk.client import Memory

P = ParamSpec("P")
T = TypeVar("T")


def _waited(
    verb: Callable[Concatenate[Memory, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[BlockingMemory, P], T]:
    """Return the blocking version of an async method."""

    @wraps(verb)
    def waited(self: BlockingMemory, *given: P.args, **named: P.kwargs) -> T:
        return self._wait(verb(self._memory, *given, **named))  # pyright: ignore[reportPrivateUsage]

    return waited


class BlockingMemory:
    """A memory, open inside its `with` block; safe for several threads.

    It takes the same arguments as `Memory`.
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
        """Configure the memory, as `Memory` does; nothing is opened yet."""
        self._memory = Memory(
            home,
            url=url,
            api_key=api_key,
            embedded=embedded,
            start=start,
            timeout=timeout,
            connections=connections,
            environ=environ,
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._door = Lock()  # no coroutine is submitted to a loop that is being stopped
        self._held = ExitStack()

    @classmethod
    def embedded(
        cls, home: str | None = None, *, timeout: float = 30.0, environ: Mapping[str, str] | None = None
    ) -> Self:
        """Return a memory that opens the home in this process; no daemon can run for that home meanwhile."""
        return cls(home, embedded=True, timeout=timeout, environ=environ)

    remember = _waited(Memory.remember)
    observe = _waited(Memory.observe)
    extract = _waited(Memory.extract)
    supersede = _waited(Memory.supersede)
    forget = _waited(Memory.forget)
    pin = _waited(Memory.pin)
    bin = _waited(Memory.bin)
    restore = _waited(Memory.restore)
    undo = _waited(Memory.undo)
    set_fact = _waited(Memory.set_fact)
    change_fact = _waited(Memory.change_fact)
    remove_fact = _waited(Memory.remove_fact)
    add_rule = _waited(Memory.add_rule)
    change_rule = _waited(Memory.change_rule)
    remove_rule = _waited(Memory.remove_rule)
    search = _waited(Memory.search)
    recall = _waited(Memory.recall)
    context = _waited(Memory.context)
    recent = _waited(Memory.recent)
    is_novel = _waited(Memory.is_novel)
    facts = _waited(Memory.facts)
    rules = _waited(Memory.rules)
    history = _waited(Memory.history)
    threads = _waited(Memory.threads)
    thread = _waited(Memory.thread)
    topics = _waited(Memory.topics)
    timeline = _waited(Memory.timeline)
    settings = _waited(Memory.settings)
    status = _waited(Memory.status)
    health = _waited(Memory.health)

    def __enter__(self) -> Self:
        """Open the memory as `Memory` does, and start its thread."""
        if self._loop is not None:
            raise BadInput("This memory is open already.", remedy="Make a `BlockingMemory` for each block.")
        self._loop = asyncio.new_event_loop()
        thread = Thread(target=_turned, args=(self._loop,), name="filrouge-memory", daemon=True)
        thread.start()
        self._held.callback(self._stopped, self._loop, thread)
        with on_failure(self._held.close):
            self._wait(self._memory.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the memory; calls of other threads that still wait are cancelled."""
        try:
            self._wait(self._memory.__aexit__(kind, error, trace))
        finally:
            self._held.close()

    def _wait(self, verb: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the memory's loop and wait for it; an interrupt cancels it."""
        with self._door:
            if self._loop is None:
                verb.close()
                raise BadInput("This memory is not open.", remedy="Use it inside `with filrouge.BlockingMemory(…)`.")
            running = asyncio.run_coroutine_threadsafe(verb, self._loop)
        with on_failure(running.cancel):
            return running.result()

    def _stopped(self, loop: asyncio.AbstractEventLoop, thread: Thread) -> None:
        with self._door:
            self._loop = None
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def _turned(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped, then cancel the tasks left on it."""
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.get_loop().run_forever()
