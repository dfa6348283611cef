"""Running an ONNX network over many texts: parts that it can read, batches of like length, questions first.

Shared by the model that is built and the one that is fetched, whose networks take other inputs.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from threading import Condition
from typing import Any, Final

import numpy as np

from filrouge.embed.tokenizer import Tokenizer
from filrouge.errors import EmbedderUnavailable
from filrouge.ports import Vectors

#: More threads gain little on a model this small, and the machine has other work.
_MOST_THREADS: Final = 4
#: A batch of passages waits for the questions of so long: some five of them.
_LONGEST_WAIT_SECONDS: Final = 0.05


class QuestionsFirst:
    """Lets passages pass while no question is being embedded, or once they have waited for some: where questions come
    without an end, somebody may wait for a passage, too."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._questions = 0

    @contextmanager
    def question(self) -> Generator[None]:
        """While this is held, passages wait."""
        with self._changed:
            self._questions += 1
        try:
            yield
        finally:
            with self._changed:
                self._questions -= 1
                self._changed.notify_all()

    def wait(self) -> None:
        """Wait until no question is being embedded, or for long enough."""
        with self._changed:
            self._changed.wait_for(lambda: self._questions == 0, _LONGEST_WAIT_SECONDS)


def parts(tokenizer: Tokenizer, text: str, most_tokens: int) -> list[list[int]]:
    """The ids of a text in parts of at most `most_tokens`, each with its marks."""
    marks, size = tokenizer.marks, most_tokens - 2
    ids = tokenizer.ids(text)
    return [[marks.begin, *ids[start : start + size], marks.end] for start in range(0, len(ids), size)]


def embed_parts(
    found: Sequence[Sequence[list[int]]],
    *,
    dimension: int,
    most_tokens: int,
    run: Callable[[list[list[int]]], Vectors],
    before: Callable[[], None],
    pool: Executor | None = None,
) -> Vectors:
    """Unit vectors of texts: of each the mean of its parts', weighted by their tokens.

    Args:
        found: the parts of each text.
        dimension: of the vectors.
        most_tokens: of one batch, padding included.
        run: unit vectors of the parts of one batch.
        before: called before each batch.
        pool: runs several batches side by side; without one they run here, one after the other.
    """
    owners = [owner for owner, own in enumerate(found) for _ in own]
    flat = [part for own in found for part in own]
    sums = np.zeros((len(found), dimension), dtype=np.float32)

    def work(batch: list[int]) -> Vectors:
        before()
        return run([flat[place] for place in batch])

    batches = list(_batches([len(part) for part in flat], most_tokens))
    # A lone batch waits for nobody's many.
    done = pool.map(work, batches) if pool and len(batches) > 1 else map(work, batches)
    for batch, vectors in zip(batches, done, strict=True):
        for place, vector in zip(batch, vectors, strict=True):
            sums[owners[place]] += vector * len(flat[place])
    return units(sums)


def units(vectors: Vectors) -> Vectors:
    """The same directions with length 1."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))


def _batches(lengths: Sequence[int], most_tokens: int) -> Generator[list[int]]:
    """Places of texts of like length, as many as a batch may have tokens; longest first, so memory grows once."""
    batch: list[int] = []
    longest = 0
    for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        longest = longest if batch else lengths[place]
        if batch and longest * (len(batch) + 1) > most_tokens:
            yield batch
            batch, longest = [], lengths[place]
        batch.append(place)
    if batch:
        yield batch


def threads() -> int:
    """How many this machine has for a model."""
    return max(1, min(_MOST_THREADS, _processors()))


def session(path: str, remedy: str, *, alone: bool = True) -> Any:
    """ONNX Runtime with a network.

    Args:
        alone: one run at a time has all threads, for the least waiting; else each run has one, for the most work done.

    Raises:
        EmbedderUnavailable: it is not installed, or cannot read the file.
    """
    try:
        runtime = importlib.import_module("onnxruntime")
        runtime.disable_telemetry_events()  # the program around an embedded memory may have loaded it before us
        options = runtime.SessionOptions()
        options.intra_op_num_threads = threads() if alone else 1
        options.log_severity_level = 3
        # Tensors come from malloc, which gives them back (daemon/allocator.py); the arena keeps the most it ever held.
        options.enable_cpu_mem_arena = False
        options.enable_mem_pattern = False
        # Threads may spin within a run, which a third of a question's time depends on, and stop when it ends.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        return runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's own errors have no common class that is public
        raise EmbedderUnavailable(f"ONNX Runtime cannot load {path}: {error}.", remedy=remedy) from error


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
