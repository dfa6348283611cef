"""Public fakes: what a test of Filrouge, or of something built on it, puts in the place of the real parts.

They are small and honest: the clock stands still until told, the database is the real SQLite in memory, the
embedder is the real one that needs no model, the language model says what the test wrote. A whole Filrouge on a
throw-away home is `running`; what a program sees of it is `memory` and, without an event loop, `blocking_memory`.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from filrouge.core.clock import Clock, SystemClock
from filrouge.core.errors import EmbedderUnavailable, ModelUnavailable
from filrouge.core.paths import DATABASE, inside, make_private
from filrouge.core.protocols import Embedder, Vector, Vectors
from filrouge.providers.hashing import StableHash
from filrouge.providers.models import Ask, Completion, EmbeddingSpace, Failure, Usage
from filrouge.providers.service import BuildPanel, Pace
from filrouge.runtime import wiring
from filrouge.runtime.jobs import Jobs
from filrouge.runtime.services import Parts
from filrouge.runtime.sqlite import Database
from filrouge.sdk.blocking import BlockingMemory
from filrouge.sdk.client import Memory
from filrouge.search.analyser import TextAnalyser

__all__ = [
    "AnotherHash",
    "ManualClock",
    "ScriptedModel",
    "StableHash",
    "TextAnalyser",
    "blocking_memory",
    "idle",
    "memory",
    "memory_database",
    "running",
    "understood",
]

_WAIT_SECONDS = 120.0
#: Nothing of the tester's own environment: no model, no daemon elsewhere.
_ALONE = {"FILROUGE_EMBEDDING_MODEL": "hashing"}


class ManualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, at: datetime | None = None) -> None:
        self._at = at or datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        """The moment it stands at."""
        return self._at

    def move(self, **by: float) -> None:
        """Move it, as `timedelta` counts: `move(days=3)`."""
        self._at += timedelta(**by)


def memory_database(clock: Clock | None = None) -> Database:
    """The real schema in a SQLite database in memory."""
    database = Database(":memory:")
    if clock is None:
        database.bare.deserialize("main", _empty())
    else:
        database.migrate(clock)
    return database


@cache
def _empty() -> bytes:
    """The file of a database that holds nothing yet: most tests begin with one, and its schema takes 30 ms to make."""
    database = Database(":memory:")
    database.migrate(ManualClock())
    return bytes(database.bare.serialize("main"))


class AnotherHash:
    """The stable hash embedder in a space of its own, slow or failing where a test wants it.

    Attributes:
        seconds: how long every text takes.
        failing: raise `EmbedderUnavailable` from now on.
        asked: how many texts it was given.
    """

    def __init__(self, model: str, *, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.failing = False
        self.asked = 0
        self._model = model
        self._hash = StableHash()

    @property
    def space(self) -> EmbeddingSpace:
        """A space that shares nothing with another model's but its dimension."""
        return replace(self._hash.space, id=f"{self._model}/1/384/sum/none", model=self._model)

    def query(self, text: str) -> Vector:
        """The vector of a text: that of the stable hash, turned by the model's name."""
        self.asked += 1
        time.sleep(self.seconds)
        if self.failing:
            raise EmbedderUnavailable(f"{self._model} fails because a test asked for it.")
        return np.roll(self._hash.query(text), 1 + sum(self._model.encode()) % 383)

    def passages(self, texts: Sequence[str]) -> Vectors:
        """The vectors of texts, in their order."""
        return np.stack([self.query(text) for text in texts]) if texts else self._hash.passages([])


class ScriptedModel:
    """A language model that says what a test wrote, and costs a token for every four characters.

    Attributes:
        asked: every question, in the order in which they came.
        healthy: False makes `check` fail.
        closed: whether it was closed.
    """

    def __init__(
        self,
        answers: Sequence[str | ModelUnavailable] | Callable[[Ask], str | ModelUnavailable],
        *,
        provider: str = "scripted",
        model: str = "scripted",
        decides: bool = True,
    ) -> None:
        """Take the answers, the last of which stands for all that follow, or a function that writes them."""
        self.asked: list[Ask] = []
        self.healthy = True
        self.closed = False
        self.provider = provider
        self.model = model
        self._answers = answers
        self._decides = decides

    async def complete(self, ask: Ask) -> Completion:
        """The next answer, raised if it is an error."""
        self.asked.append(ask)
        answers = self._answers
        said = answers(ask) if callable(answers) else answers[min(len(self.asked), len(answers)) - 1]
        if isinstance(said, ModelUnavailable):
            raise said
        read, wrote = -(-len(ask.prompt.text + ask.text) // 4), -(-len(said) // 4)
        spent = {(self.provider, self.model): Usage(calls=1, input_tokens=read, output_tokens=wrote)}
        return Completion(text=said, provider=self.provider, model=self.model, spent=spent, decides=self._decides)

    async def check(self) -> None:
        """Answer for its health."""
        if not self.healthy:
            told = f"{self.model} fails because a test asked for it."
            failed = Failure(provider=self.provider, model=self.model, kind="connection", detail=told)
            raise ModelUnavailable(told, failures=(failed,))

    async def close(self) -> None:
        """Note that it was closed."""
        self.closed = True


@contextmanager
def running(
    home: str,
    *,
    embedding: str = "hashing",
    environ: Mapping[str, str] | None = None,
    makers: Mapping[str, Callable[[], Embedder]] | None = None,
    panel: BuildPanel | None = None,
    pace: Pace | None = None,
) -> Generator[Parts]:
    """A whole Filrouge in this process on `home`, with the embedder that needs no model; stopped at the end.

    Args:
        embedding: the name of the embedder; empty = what the home's own settings say.
        makers: embedders by name, in the place of the registered ones.
        panel: builds the models of the settings, in the place of the real ones.
        pace: when models are asked.
    """
    chosen = {"FILROUGE_EMBEDDING_MODEL": embedding} if embedding else {}
    _begin(home)
    whole = wiring.start(
        home, environ={**chosen, **(environ or {})}, clock=SystemClock(), makers=makers, panel=panel, pace=pace
    )
    try:
        yield whole.parts
    finally:
        whole.stop()


def _begin(home: str) -> None:
    """Put an empty database into a home that has none."""
    make_private(home)
    with (
        suppress(FileExistsError),
        os.fdopen(os.open(inside(home, DATABASE), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file,
    ):
        file.write(_empty())


def idle(parts: Parts, seconds: float = _WAIT_SECONDS) -> None:
    """Have what waits begun at once, and wait until everything captured is understood.

    Raises:
        TimeoutError: it takes longer than `seconds`.
    """
    deadline = time.monotonic() + seconds
    parts.work_waiting.set()
    while True:
        queue = parts.readers.here(lambda tx: Jobs(tx).count())
        if parts.resumed.is_set() and queue.waiting + queue.running == 0 and parts.resting.is_set():
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"still busy: {queue.waiting} jobs wait, {queue.running} run")
        time.sleep(0.01)


@asynccontextmanager
async def memory(home: str | None = None) -> AsyncGenerator[Memory]:
    """A real memory, embedded, with the embedder that needs no model, on a home that is thrown away.

    Args:
        home: keep it there instead.
    """
    with TemporaryDirectory(prefix="filrouge-") as thrown_away:
        async with Memory.embedded(home or thrown_away, environ=_ALONE) as opened:
            yield opened


@contextmanager
def blocking_memory(home: str | None = None) -> Generator[BlockingMemory]:
    """What `memory` is, for a test without an event loop."""
    with (
        TemporaryDirectory(prefix="filrouge-") as thrown_away,
        BlockingMemory.embedded(home or thrown_away, environ=_ALONE) as opened,
    ):
        yield opened


async def understood(memory: Memory, seconds: float = _WAIT_SECONDS) -> None:
    """Wait until everything that `memory` observed is understood.

    Raises:
        TimeoutError: it takes longer than `seconds`.
    """
    async with asyncio.timeout(seconds):
        while not _rests(await memory.status()):
            await asyncio.sleep(0.01)


def _rests(status: Mapping[str, Any]) -> bool:
    return not (status["queue"]["waiting"] + status["queue"]["running"] + status["spooled"])
