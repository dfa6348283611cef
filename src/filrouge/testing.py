"""Public fakes for tests of Filrouge and of programs built on it.

The clock moves only when the test moves it. The database is a real in-memory SQLite database. The embedder is the
real hash embedder, which needs no model. The language model returns answers that the test supplies.

`running` starts all of Filrouge in this process. `memory` opens the SDK client on a temporary home, and
`blocking_memory` does the same without an event loop.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from msgspec.structs import replace

from filrouge.core.clock import Clock, SystemClock
from filrouge.core.errors import EmbedderUnavailable, ModelUnavailable
from filrouge.core.paths import DATABASE, inside, make_private
from filrouge.core.protocols import Embedder, Vector, Vectors
from filrouge.providers.hashing import StableHash
from filrouge.providers.models import Completion, CompletionRequest, EmbeddingSpace, Failure, Usage
from filrouge.providers.service import BuildPanel, ModelTimings
from filrouge.runtime import wiring
from filrouge.runtime.jobs import Jobs
from filrouge.runtime.services import Parts
from filrouge.runtime.sqlite import Database
from filrouge.sdk.client import BlockingMemory, Memory
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
#: The only variables passed on. The tester's own environment is ignored: no model, no remote daemon.
_ALONE = {"FILROUGE_EMBEDDING_MODEL": "hashing"}


class ManualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, at: datetime | None = None) -> None:
        self._at = at or datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        """Return the current time of this clock."""
        return self._at

    def move(self, **by: float) -> None:
        """Advance the clock. The arguments are those of `timedelta`: `move(days=3)`."""
        self._at += timedelta(**by)


def memory_database(clock: Clock | None = None) -> Database:
    """Return an in-memory SQLite database with the real schema.

    Args:
        clock: dates the migrations. Without one, a cached empty database is copied, which is faster.
    """
    database = Database(":memory:")
    if clock is None:
        database.raw_connection.deserialize("main", _empty())
    else:
        database.migrate(clock)
    return database


@cache
def _empty() -> bytes:
    """Return the bytes of an empty database file. Cached, because creating the schema takes 10 ms."""
    database = Database(":memory:")
    database.migrate(ManualClock())
    return bytes(database.raw_connection.serialize("main"))


class AnotherHash:
    """The stable hash embedder in a separate embedding space. It can be made slow or made to fail.

    Attributes:
        seconds: delay for each text, in seconds.
        failing: if true, every call raises `EmbedderUnavailable`.
        asked: number of texts embedded so far.
    """

    def __init__(self, model: str, *, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.failing = False
        self.asked = 0
        self._model = model
        self._hash = StableHash()

    @property
    def space(self) -> EmbeddingSpace:
        """The embedding space of this model. Only the dimension equals that of other models."""
        return replace(self._hash.space, id=f"{self._model}/1/384/sum/none", model=self._model)

    def query(self, text: str) -> Vector:
        """Return the vector of a text: the stable hash vector, rolled by an offset derived from the model's name."""
        self.asked += 1
        time.sleep(self.seconds)
        if self.failing:
            raise EmbedderUnavailable(f"{self._model} fails because a test asked for it.")
        return np.roll(self._hash.query(text), 1 + sum(self._model.encode()) % 383)

    def passages(self, texts: Sequence[str]) -> Vectors:
        """Return one vector for each text, in the same order."""
        return np.stack([self.query(text) for text in texts]) if texts else self._hash.passages([])


class ScriptedModel:
    """A language model with scripted answers. It counts one token for every four characters.

    Attributes:
        asked: every request, in order of arrival.
        healthy: set to False to make `check` fail.
        closed: whether `close` was called.
    """

    def __init__(
        self,
        answers: Sequence[str | ModelUnavailable] | Callable[[CompletionRequest], str | ModelUnavailable],
        *,
        provider: str = "scripted",
        model: str = "scripted",
        decides: bool = True,
    ) -> None:
        """Create the model.

        Args:
            answers: answers in order, the last of which is repeated, or a function that returns the answer to a
                request. An answer that is a `ModelUnavailable` is raised.
        """
        self.asked: list[CompletionRequest] = []
        self.healthy = True
        self.closed = False
        self.provider = provider
        self.model = model
        self._answers = answers
        self._decides = decides

    async def complete(self, request: CompletionRequest) -> Completion:
        """Return the next answer, or raise it if it is an error."""
        self.asked.append(request)
        answers = self._answers
        said = answers(request) if callable(answers) else answers[min(len(self.asked), len(answers)) - 1]
        if isinstance(said, ModelUnavailable):
            raise said
        read, wrote = -(-len(request.prompt.text + request.text) // 4), -(-len(said) // 4)
        spent = {(self.provider, self.model): Usage(calls=1, input_tokens=read, output_tokens=wrote)}
        return Completion(text=said, provider=self.provider, model=self.model, spent=spent, decides=self._decides)

    async def check(self) -> None:
        """Check the model.

        Raises:
            ModelUnavailable: `healthy` is False.
        """
        if not self.healthy:
            told = f"{self.model} fails because a test asked for it."
            failed = Failure(provider=self.provider, model=self.model, kind="connection", detail=told)
            raise ModelUnavailable(told, failures=(failed,))

    async def close(self) -> None:
        """Set `closed`."""
        self.closed = True


@contextmanager
def running(
    home: str,
    *,
    embedding: str = "hashing",
    environ: Mapping[str, str] | None = None,
    makers: Mapping[str, Callable[[], Embedder]] | None = None,
    panel: BuildPanel | None = None,
    pace: ModelTimings | None = None,
) -> Generator[Parts]:
    """Run all of Filrouge in this process on `home`, and stop it at the end.

    Args:
        embedding: name of the embedder; the default needs no model. Empty = the one in the home's settings.
        environ: more environment variables.
        makers: embedder factories by name, instead of the registered ones.
        panel: builds the language models of the settings, instead of the real factory.
        pace: when language models are called.
    """
    chosen = {"FILROUGE_EMBEDDING_MODEL": embedding} if embedding else {}
    _begin(home)
    whole = wiring.start(
        home,
        environ={**chosen, **(environ or {})},
        clock=SystemClock(),
        embedder_factories=makers,
        panel=panel,
        pace=pace,
    )
    try:
        yield whole.parts
    finally:
        whole.stop()


def _begin(home: str) -> None:
    """Create the home, and an empty database in it unless it has one."""
    make_private(home)
    with (
        suppress(FileExistsError),
        os.fdopen(os.open(inside(home, DATABASE), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file,
    ):
        file.write(_empty())


def idle(parts: Parts, seconds: float = _WAIT_SECONDS) -> None:
    """Start the waiting jobs now, and wait until everything captured is processed.

    Raises:
        TimeoutError: this takes longer than `seconds`.
    """
    deadline = time.monotonic() + seconds
    parts.work_waiting.set()
    while True:
        if parts.idle.wait(deadline - time.monotonic()) or time.monotonic() > deadline:
            queue = parts.readers.here(lambda tx: Jobs(tx).count())
            if parts.resumed.is_set() and queue.waiting + queue.running == 0 and parts.idle.is_set():
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"still busy: {queue.waiting} jobs wait, {queue.running} run")
        time.sleep(0.01)  # between two jobs, or until one is due


@asynccontextmanager
async def memory(home: str | None = None) -> AsyncGenerator[Memory]:
    """Open a real embedded memory with the hash embedder on a temporary home, which is deleted at the end.

    Args:
        home: use this directory instead, and keep it.
    """
    with TemporaryDirectory(prefix="filrouge-") as thrown_away:
        async with Memory.embedded(home or thrown_away, environ=_ALONE) as opened:
            yield opened


@contextmanager
def blocking_memory(home: str | None = None) -> Generator[BlockingMemory]:
    """Like `memory`, for tests without an event loop."""
    with (
        TemporaryDirectory(prefix="filrouge-") as thrown_away,
        BlockingMemory.embedded(home or thrown_away, environ=_ALONE) as opened,
    ):
        yield opened


async def understood(memory: Memory, seconds: float = _WAIT_SECONDS) -> None:
    """Wait until everything that `memory` observed is processed.

    Raises:
        TimeoutError: this takes longer than `seconds`.
    """
    async with asyncio.timeout(seconds):
        while not _rests(await memory.status()):
            await asyncio.sleep(0.01)


def _rests(status: Mapping[str, Any]) -> bool:
    return not (status["queue"]["waiting"] + status["queue"]["running"] + status["spooled"])
