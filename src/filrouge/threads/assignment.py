"""Thread assignment: pairwise probabilities that prompts share a thread, routing, and clustering.

- `Whitening` whitens vectors, `compare_pairs` computes a probability for every pair of prompts of a project.
- `route` decides where one new prompt goes; `regroup` clusters all prompts again when more is known.
- `split_by_thread` distributes a session's synthesis over the threads that its turns were placed in later.

The weights are learned from labelled conversations by `bench/fit_threads.py`, with the functions of this module. There
are two sets: one with vectors, and one for words alone.

Pure: no database, no file.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache, lru_cache
from importlib import resources
from typing import Final, Literal
from zlib import crc32

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from filrouge.core.clock import new_id
from filrouge.core.protocols import Vector, Vectors
from filrouge.extraction.vocabulary import content
from filrouge.threads.models import Action, Point, Routing, Synthesis, Thread, ThreadCandidate, ThreadState
from filrouge.threads.synthesis import MAX_DECISIONS, MAX_FILES

# Whitening.

#: Minimum number of vectors for a transform, and maximum number of (newest) vectors to read.
MIN_VECTORS, MAX_VECTORS = 64, 4000
#: Shrinkage of the whitening: 0 whitens fully, larger values whiten less. It is increased when there are few vectors.
_SHRINKAGE, _SHRINKAGE_COUNT = 0.5, 200.0

Square = NDArray[np.float32]


class Whitening(Struct, frozen=True, eq=False):
    """Whitening transform fitted to a set of vectors.

    All prompts of one person resemble each other: same language, same style, same phrases. With the bundled model, the
    median cosine of unrelated prompts is .83 to .91, and the centroid of a few unrelated prompts is even closer. So the
    mean of all prompts is subtracted, and the directions in which they vary are equalised (whitening with shrinkage).
    What remains is the topic: the median cosine of unrelated prompts of this person is then 0, and that of equal texts
    is 1.

    The transform is computed from stored vectors and recomputed as they grow. The bundled sample texts are used too, so
    that it works while there are few prompts.

    Attributes:
        mean: shape (dimension,).
        matrix: the whitening matrix, shape (dimension, dimension).
    """

    mean: Vector
    matrix: Square

    @classmethod
    def fit(cls, vectors: Vectors) -> Whitening | None:
        """Fit the transform; return None for fewer than `MIN_VECTORS` vectors.

        Args:
            vectors: unit vectors of one embedding space, shape (n, dimension): the user's prompts and the sample texts.
        """
        if len(vectors) < MIN_VECTORS:
            return None
        mean = vectors.mean(axis=0, dtype=np.float64)
        spread = vectors - mean
        eigenvalues, eigenvectors = np.linalg.eigh(spread.T @ spread / len(vectors))
        eigenvalues = np.maximum(eigenvalues, 0.0)
        average = float(eigenvalues.mean()) or 1.0
        scales = 1.0 / np.sqrt(eigenvalues / average + _SHRINKAGE * (1.0 + _SHRINKAGE_COUNT / len(vectors)))
        return cls(mean.astype(np.float32), ((eigenvectors * scales) @ eigenvectors.T).astype(np.float32))

    def whiten(self, vectors: Vectors) -> Vectors:
        """Whiten vectors and scale them to length 1; shape (n, dimension)."""
        whitened = (vectors - self.mean) @ self.matrix
        lengths = np.linalg.norm(whitened, axis=1, keepdims=True)
        return np.asarray(whitened / np.where(lengths > 0.0, lengths, 1.0), dtype=np.float32)


# Mean vectors: one for a prompt with several windows, one for the prompts of a thread. A thread vector is derived data:
# it can be recomputed from stored vectors, and it is specific to one embedding space. It is used to find the thread.


def prompt_vector(windows: Vectors | None) -> Vector | None:
    """Return the mean direction of a prompt's windows, of length 1; None if it has none."""
    if windows is None or not len(windows):
        return None
    return _unit(windows.mean(axis=0)) if len(windows) > 1 else windows[0]


def thread_vector(prompts: Sequence[Vectors]) -> Vector | None:
    """Return the mean direction of a thread's prompts, of length 1; None if no prompt has vectors.

    Args:
        prompts: for each routed turn, its windows: unit vectors, shape (windows, dimension).
    """
    vectors = [vector for windows in prompts if (vector := prompt_vector(windows)) is not None]
    return _unit(np.mean(vectors, axis=0)) if vectors else None


def _unit(vector: Vector) -> Vector:
    length = float(np.linalg.norm(vector))
    return np.asarray(vector / length if length else vector, dtype=np.float32)


# Pairwise probabilities.

WEIGHTS_FILE: Final = "pairs.npz"
#: Number of hash buckets for the rarity of words in general, and of columns that tell the words of one project apart.
BUCKETS, _COLUMNS = 4096, 2048
#: Number of leading letters of a word that are compared: languages inflect at the end.
_MAX_ROOT_LETTERS: Final = 6
#: The project mean is shrunk as if there were this many extra vectors with mean zero: the first few prompts say little
#: about what all prompts have in common.
_PRIOR_COUNT: Final = 8
#: Number of earlier prompts that a prompt is compared with to see whether it continues them.
_MAX_STEPS_BACK: Final = 4
#: Number of nearest prompts of other sessions; their mean similarity is the baseline for a prompt.
_NEAREST_PROMPTS: Final = 6
#: Number of rounds in which context and probabilities are recomputed.
ROUNDS: Final = 3

TableKind = Literal["vectors", "words"]
PairWeights = Mapping[str, NDArray[np.float32]]
#: 32-bit floats: one value per pair of prompts, shape (n, n); one per prompt, shape (n,); or one row per prompt.
FloatArray = NDArray[np.float32]
Indices = NDArray[np.int64]
#: Prompts to compare with all others: their positions, or all of them.
Rows = slice | Indices
_ALL_ROWS: Final = slice(None)


class Exchange(Struct, frozen=True, kw_only=True, eq=False):
    """A prompt and the reply to it.

    Attributes:
        session: the session of the prompt.
        prompt_vector: the whitened unit vector of the prompt; None if it has no vector.
        vector_with_reply: the same for prompt and reply as one text, or for the prompt alone while there is no reply.
        vector_in_session: the same for the prompt behind the end of what was said before it; of the prompt alone where
            nothing was said, or that vector is unknown.
        model_vector: the prompt's vector as the bundled model makes it, not whitened; None with any other model.
        prompt_roots: word roots of the prompt.
        reply_roots: word roots of the reply.
        prompt_chars: length of the prompt in characters.
        reply_asks: the reply ends with a question.
    """

    session: str
    prompt_vector: Vector | None = None
    vector_with_reply: Vector | None = None
    vector_in_session: Vector | None = None
    model_vector: Vector | None = None
    prompt_roots: frozenset[str]
    reply_roots: frozenset[str] = frozenset()
    prompt_chars: int = 0
    reply_asks: bool = False


class PairComparison(Struct, frozen=True, eq=False):
    """Comparison of some prompts with all n prompts of a project; each table has shape (compared prompts, n).

    Attributes:
        probabilities: probability that the two belong to one thread; 1 for a prompt and itself.
        similarities: cosine of the exchanges after subtracting the project mean; NaN if only words are used.
        word_similarities: similarity of their words, weighted by rarity, in [0, 1].
    """

    probabilities: FloatArray
    similarities: FloatArray
    word_similarities: FloatArray


class FeatureTables(Struct, frozen=True, kw_only=True, eq=False):
    """Exchanges as tables with one row each; vectors are of unit length or zero.

    Attributes:
        exchange_vectors: sum of the prompt's vector and the vector with its reply, scaled to unit length.
        prompt_vectors, vectors_with_replies: each of the two vectors separately.
        vectors_in_sessions: the vectors of the prompts in their sessions; `session_exchange_vectors`: their sums with
            those with replies, scaled to unit length.
        model_vectors: the vectors of the bundled model less what they have in common; zero with any other model. Shape
            (n, 0) if no vectors are used.
        words: words of prompt and reply, weighted by rarity; `prompt_words`: of the prompt only.
        weighted_words: the same as `words`, not scaled to unit length.
        sessions: number of the session, in order of appearance; `positions`: position within the session.
        prompt_chars, word_counts: length of the prompt in characters, and its number of distinct words.
        reply_asks: 1 if the reply ends with a question, else 0.
    """

    exchange_vectors: FloatArray
    prompt_vectors: FloatArray
    vectors_with_replies: FloatArray
    vectors_in_sessions: FloatArray
    session_exchange_vectors: FloatArray
    model_vectors: FloatArray
    words: FloatArray
    prompt_words: FloatArray
    weighted_words: FloatArray
    sessions: Indices
    positions: Indices
    prompt_chars: FloatArray
    word_counts: FloatArray
    reply_asks: FloatArray


def compare_pairs(
    exchanges: Sequence[Exchange], kind: TableKind, compared: Sequence[int] | None = None
) -> PairComparison:
    """Compare prompts of a project with all of its prompts.

    A prompt alone carries little information, so it is read together with its reply and its context. In the first
    round, the context of a prompt is the neighbouring prompts of its session, weighted by the probability that the
    topic did not change in between. In the second round, the context is every prompt that is likely to be of the same
    thread, in other sessions too. The third round repeats the second with its probabilities.

    Args:
        exchanges: in the order of their prompts.
        kind: `words` if vectors are not to be used.
        compared: positions of the prompts to compare; all of them by default. Fewer shorten the last round only, since
            the rounds before it need all pairs.
    """
    if not exchanges:
        empty = np.empty((0, 0), dtype=np.float32)
        return PairComparison(empty, empty, empty)
    weights = _load_weights()
    tables = build_tables(exchanges, weights, kind)
    probabilities = continuation_probability(tables, weights, kind)
    for step in range(ROUNDS - 1):
        probabilities = score_round(tables, probabilities, weights, f"{kind}.{step}")
    rows = _ALL_ROWS if compared is None else np.asarray(compared, dtype=np.int64)
    probabilities = score_round(tables, probabilities, weights, f"{kind}.{ROUNDS - 1}", rows)
    similarities = (
        tables.exchange_vectors[rows] @ tables.exchange_vectors.T
        if kind == "vectors"
        else np.full_like(probabilities, np.nan)
    )
    return PairComparison(
        probabilities=probabilities, similarities=similarities, word_similarities=tables.words[rows] @ tables.words.T
    )


def roots(texts: Iterable[str]) -> frozenset[str]:
    """Return the roots of the content words of texts, normalised across the supported languages."""
    return frozenset(root for text in texts for root in _roots(text))


@lru_cache(maxsize=16384)
def _roots(text: str) -> frozenset[str]:
    return frozenset(word[:_MAX_ROOT_LETTERS] if word.isalpha() else word for word in content(text) if len(word) > 2)


# --- does the topic continue from one prompt to the next


def continuation_probability(tables: FeatureTables, weights: PairWeights, kind: TableKind) -> FloatArray:
    """Return the probability that the topic never changed between two prompts of a session.

    Shape (n, n); 0 across sessions.
    """
    later, before = consecutive_pairs(tables)
    stays = np.zeros(len(tables.sessions), dtype=np.float32)
    if len(later):
        fitted = weights[f"{kind}.on"]
        stays[later] = _logistic(continuation_features(tables, later, before) @ fitted[:-1] + fitted[-1])
    log_stays = np.log(np.maximum(stays, 1e-4))
    for index, previous in zip(later.tolist(), before.tolist(), strict=True):
        log_stays[index] += log_stays[previous]
    unchanged = np.exp(-np.abs(log_stays[:, None] - log_stays[None, :]))
    return np.where(_same_session(tables, _ALL_ROWS), unchanged, np.float32(0.0))


def consecutive_pairs(tables: FeatureTables) -> tuple[Indices, Indices]:
    """Return the prompts that have a predecessor in their session, and these predecessors."""
    last: dict[int, int] = {}
    pairs = list[tuple[int, int]]()
    for index, session in enumerate(tables.sessions.tolist()):
        if session in last:
            pairs.append((index, last[session]))
        last[session] = index
    found = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def continuation_features(tables: FeatureTables, later: Indices, before: Indices) -> FloatArray:
    """Return the features for whether prompts continue the topic of their predecessors, one row per prompt.

    The last ones are the prompt's vector by the bundled model: it tells "next, the invoices" from "and the other one?".
    """
    columns = np.stack([*_continuation_columns(tables, later, before)], axis=1)
    return np.concatenate([columns, tables.model_vectors[later]], axis=1).astype(np.float32)


def _continuation_columns(tables: FeatureTables, later: Indices, before: Indices) -> Iterator[FloatArray]:
    def cosines(left: FloatArray, right: FloatArray) -> FloatArray:
        return (left[later] * right[before]).sum(axis=1)

    positions, sessions = tables.positions[later], tables.sessions[later]
    is_recent = (sessions[:, None] == tables.sessions[None, :]) & (tables.positions[None, :] < positions[:, None])
    is_recent &= tables.positions[None, :] >= positions[:, None] - _MAX_STEPS_BACK
    similarity = tables.exchange_vectors[later] @ tables.exchange_vectors.T
    yield cosines(tables.prompt_vectors, tables.exchange_vectors)
    yield cosines(tables.prompt_vectors, tables.prompt_vectors)
    yield cosines(tables.prompt_vectors, tables.vectors_with_replies)
    yield cosines(tables.exchange_vectors, tables.exchange_vectors)
    yield cosines(tables.vectors_in_sessions, tables.vectors_in_sessions)
    yield cosines(tables.vectors_in_sessions, tables.exchange_vectors)
    yield cosines(tables.exchange_vectors, tables.vectors_in_sessions)
    yield (tables.vectors_in_sessions[later] * tables.prompt_vectors[later]).sum(axis=1)
    yield np.where(is_recent, similarity, -1.0).max(axis=1)
    yield np.where(is_recent, similarity, 0.0).sum(axis=1) / is_recent.sum(axis=1)
    yield cosines(tables.words, tables.words)
    yield cosines(tables.prompt_words, tables.words)
    yield np.where(is_recent, tables.prompt_words[later] @ tables.words.T, 0.0).max(axis=1)
    yield np.log1p(tables.prompt_chars[later])
    yield np.log1p(tables.prompt_chars[before])
    yield np.log1p(tables.word_counts[later])
    yield (tables.word_counts[later] <= 2.0).astype(np.float32)
    yield tables.reply_asks[before]
    yield np.log1p(positions)
    yield (positions == 1).astype(np.float32)


# --- do two prompts belong to one thread


def score_round(
    tables: FeatureTables, probabilities: FloatArray, weights: PairWeights, name: str, rows: Rows = _ALL_ROWS
) -> FloatArray:
    """Compute one round: new probabilities from the previous ones, with the weights of this name.

    Args:
        probabilities: shape (n, n).

    Returns:
        Shape (rows, n).
    """
    within, across = weights[f"{name}.within"], weights[f"{name}.across"]
    same_session = _same_session(tables, rows)
    logits: FloatArray = np.zeros(same_session.shape, dtype=np.float32)
    for index, feature in enumerate(pair_features(tables, probabilities, rows)):
        logits = np.asarray(logits + np.where(same_session, within[index], across[index]) * feature, dtype=np.float32)
    logits = np.asarray(logits + np.where(same_session, within[-1], across[-1]), dtype=np.float32)
    updated = _logistic(logits)
    updated[np.arange(len(updated)), np.arange(len(probabilities))[rows]] = 1.0
    return updated


def pair_features(tables: FeatureTables, probabilities: FloatArray, rows: Rows = _ALL_ROWS) -> Iterator[FloatArray]:
    """Yield the features for whether two prompts are of one thread, given the current context; shape (rows, n) each.

    Args:
        probabilities: the context, shape (n, n).
    """
    same_session = _same_session(tables, rows)
    continuation = np.asarray(np.where(same_session, probabilities[rows], 0.0), dtype=np.float32)
    yield tables.exchange_vectors[rows] @ tables.exchange_vectors.T
    yield tables.prompt_vectors[rows] @ tables.prompt_vectors.T
    yield tables.words[rows] @ tables.words.T
    yield continuation
    yield np.asarray(np.log(np.maximum(continuation, 2e-3)) * same_session, dtype=np.float32)
    squared, amounts = probabilities * probabilities, np.linalg.norm(tables.weighted_words, axis=1, keepdims=True)
    for vectors in (tables.vectors_in_sessions, tables.session_exchange_vectors):
        yield vectors[rows] @ vectors.T
        contexts = _unit_rows(squared @ (vectors * amounts))
        yield contexts[rows] @ contexts.T
    present, word_weights = (tables.weighted_words > 0.0).astype(np.float32), tables.weighted_words.max(axis=0)
    for context in (probabilities, squared):
        vectors = _unit_rows(context @ tables.exchange_vectors)
        words = _unit_rows(np.minimum(context @ present, 1.0) * word_weights)
        similarities = vectors @ vectors.T
        nearest = _nearest_of_other_sessions(tables, similarities)
        yield similarities[rows]
        one_sided = vectors[rows] @ tables.exchange_vectors.T + (vectors @ tables.exchange_vectors[rows].T).T
        yield np.asarray(one_sided / 2, dtype=np.float32)
        yield words[rows] @ words.T
        yield nearest[rows, None] + nearest[None, :]
    prompt_contexts = _unit_rows(probabilities @ tables.prompt_vectors)
    yield prompt_contexts[rows] @ prompt_contexts.T
    sizes, lengths = np.log(probabilities.sum(axis=1)), np.log1p(tables.prompt_chars)
    yield np.minimum(sizes[rows, None], sizes[None, :])
    yield np.minimum(lengths[rows, None], lengths[None, :])
    distance = np.abs(tables.positions[rows, None] - tables.positions[None, :])
    for max_distance in (1, 2, 4):
        yield (same_session & (distance <= max_distance)).astype(np.float32)
    apart = np.abs(tables.sessions[rows, None] - tables.sessions[None, :])
    yield (apart == 1).astype(np.float32)
    yield np.log1p(apart).astype(np.float32)
    for power in (1.0, 0.5):  # all features are weaker when there are few prompts
        yield np.full(same_session.shape, len(probabilities) ** -power, dtype=np.float32)


def _nearest_of_other_sessions(tables: FeatureTables, similarities: FloatArray) -> FloatArray:
    """Return, for each prompt, its mean similarity to the nearest prompts of other sessions; shape (n,)."""
    others = np.where(_same_session(tables, _ALL_ROWS), np.float32(-1.0), similarities)
    others.partition(max(0, others.shape[1] - _NEAREST_PROMPTS), axis=1)
    return np.asarray(others[:, -_NEAREST_PROMPTS:].clip(0.0).mean(axis=1), dtype=np.float32)


def _same_session(tables: FeatureTables, rows: Rows) -> NDArray[np.bool_]:
    return tables.sessions[rows, None] == tables.sessions[None, :]


# --- exchanges as tables


def build_tables(exchanges: Sequence[Exchange], weights: PairWeights, kind: TableKind) -> FeatureTables:
    """Convert exchanges into tables.

    Args:
        exchanges: in the order of their prompts.
        weights: `rarity`, of the words of each bucket in general, shape (`BUCKETS`,); `usual`, the mean vector of
            prompts by the bundled model.
        kind: for `words`, all vectors are zero.
    """
    numbers: dict[str, int] = {}
    sessions = [numbers.setdefault(exchange.session, len(numbers)) for exchange in exchanges]
    session_sizes, positions = Counter[int](), list[int]()
    for session in sessions:
        positions.append(session_sizes[session])
        session_sizes[session] += 1

    def centred(vectors: Iterable[Vector | None]) -> FloatArray:
        return _subtract_mean([vector if kind == "vectors" else None for vector in vectors])

    prompt_vectors = centred(exchange.prompt_vector for exchange in exchanges)
    vectors_with_replies = centred(exchange.vector_with_reply for exchange in exchanges)
    vectors_in_sessions = centred(exchange.vector_in_session for exchange in exchanges)
    model_vectors = np.empty((len(exchanges), 0), dtype=np.float32)
    if kind == "vectors":
        usual = weights["usual"]
        vectors = [usual if exchange.model_vector is None else exchange.model_vector for exchange in exchanges]
        model_vectors = np.stack(vectors) - usual
    weighted_words, weighted_prompt_words = _weight_by_rarity(exchanges, weights["rarity"])
    return FeatureTables(
        exchange_vectors=_unit_rows(prompt_vectors + vectors_with_replies),
        prompt_vectors=prompt_vectors,
        vectors_with_replies=vectors_with_replies,
        vectors_in_sessions=vectors_in_sessions,
        session_exchange_vectors=_unit_rows(vectors_in_sessions + vectors_with_replies),
        model_vectors=model_vectors,
        words=_unit_rows(weighted_words),
        prompt_words=_unit_rows(weighted_prompt_words),
        weighted_words=weighted_words,
        sessions=np.asarray(sessions, dtype=np.int64),
        positions=np.asarray(positions, dtype=np.int64),
        prompt_chars=np.asarray([exchange.prompt_chars for exchange in exchanges], dtype=np.float32),
        word_counts=np.asarray([len(exchange.prompt_roots) for exchange in exchanges], dtype=np.float32),
        reply_asks=np.asarray([exchange.reply_asks for exchange in exchanges], dtype=np.float32),
    )


def bucket(word: str) -> int:
    """Return the hash bucket of a word. A message may contain lone surrogates, so words may too."""
    return crc32(word.encode("utf-8", "surrogatepass")) % BUCKETS


def _subtract_mean(vectors: Sequence[Vector | None]) -> FloatArray:
    """Subtract the shrunken project mean and scale to unit length; a missing vector becomes zero."""
    present = [vector for vector in vectors if vector is not None]
    if not present:
        return np.zeros((len(vectors), 1), dtype=np.float32)
    stacked = np.stack(present).astype(np.float32)
    table = np.zeros((len(vectors), stacked.shape[1]), dtype=np.float32)
    table[[vector is not None for vector in vectors]] = _unit_rows(
        stacked - stacked.sum(axis=0) / (len(present) + _PRIOR_COUNT)
    )
    return table


def _weight_by_rarity(exchanges: Sequence[Exchange], rarity: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Weight the words of exchanges, and of their prompts alone, by their rarity in the project and in general.

    Words that occur in the same exchanges, and in the same of their prompts, share a column. Its weight is the root of
    the sum of their squared weights, so lengths and products of rows are the same as with a column for each word. Most
    words occur in one exchange only, so this saves more than half of the columns.

    Returns:
        Two tables of shape (n, columns).
    """
    occurrences: defaultdict[str, list[int]] = defaultdict(list)  # 2 * row, and 1 more if it is in the prompt
    for row, exchange in enumerate(exchanges):
        for word in exchange.prompt_roots:
            occurrences[word].append(2 * row + 1)
        for word in exchange.reply_roots - exchange.prompt_roots:
            occurrences[word].append(2 * row)
    squares: defaultdict[tuple[int, ...], float] = defaultdict(float)
    for word, found in sorted(occurrences.items()):
        squares[tuple(found)] += (math.log(1.0 + len(exchanges) / len(found)) * float(rarity[bucket(word)])) ** 2
    places = np.asarray([place for found in squares for place in found], dtype=np.int64)
    sizes = [len(found) for found in squares]
    columns = np.repeat(np.arange(len(squares)) % _COLUMNS, sizes)
    weights = np.repeat(np.sqrt(np.asarray(list(squares.values()), dtype=np.float32)), sizes)
    words, prompt_words = np.zeros((2, len(exchanges), max(1, min(len(squares), _COLUMNS))), dtype=np.float32)
    np.add.at(words, (places // 2, columns), weights)
    in_prompt = places % 2 == 1
    np.add.at(prompt_words, (places[in_prompt] // 2, columns[in_prompt]), weights[in_prompt])
    return words, prompt_words


def _unit_rows(table: FloatArray) -> FloatArray:
    lengths = np.linalg.norm(table, axis=1, keepdims=True)
    return np.asarray(table / np.where(lengths > 0.0, lengths, 1.0), dtype=np.float32)


def _logistic(logits: FloatArray) -> FloatArray:
    return np.asarray(1.0 / (1.0 + np.exp(-logits)), dtype=np.float32)


@cache
def _load_weights() -> PairWeights:
    with resources.files(__package__ or "").joinpath(WEIGHTS_FILE).open("rb") as opened, np.load(opened) as file:
        return {name: file[name].astype(np.float32) for name in file.files}


# Routing of one prompt.

#: Minimum mean probability for two groups to be one thread. Chosen on the training conversations.
SAME_THREAD_THRESHOLD: Final = 0.24
#: Between these values, a model is asked about a suspended or archived thread.
MIN_BORDERLINE, MAX_BORDERLINE = 0.15, 0.31
#: Candidates to log: those above this value, and at least this many of the best.
LOGGED_ABOVE, MIN_LOGGED = 0.3, 3


class RoutedPrompt(Struct, frozen=True, kw_only=True):
    """The prompt to route.

    Attributes:
        topics: as `extract_topics` returns them.
        session_thread: the current thread of its session, if there is one.
    """

    text: str
    topics: tuple[str, ...]
    at: datetime
    session_thread: str | None = None


class ComparedThread(Struct, frozen=True, kw_only=True, eq=False):
    """A thread that a prompt was compared with.

    Attributes:
        state: its current state, which may not be written yet.
        scores: one row per compared prompt of the thread, shape (n, 3): probability that both belong to one thread,
            similarity of the exchanges (NaN if only words are used), similarity of the words.
    """

    thread: Thread
    state: ThreadState
    scores: NDArray[np.float32]


def route(prompt: RoutedPrompt, threads: Sequence[ComparedThread]) -> Routing:
    """Decide where a prompt goes, without a model.

    The prompt continues a thread, reactivates one, forks from one, or opens a new one. It is compared with the prompts
    of each thread, and the mean probability counts (average linkage, as in `regroup`), so one prompt that is similar by
    chance does not decide.

    Args:
        threads: all candidate threads of the prompt's project and, with isolation, of its agent.
    """
    found = sorted(
        (_build_candidate(prompt, thread) for thread in threads if len(thread.scores)),
        key=lambda candidate: -candidate.similarity,
    )
    session_candidate = next((candidate for candidate in found if candidate.own), None)
    best = found[0] if found else None
    chosen = best if best is not None and best.similarity >= SAME_THREAD_THRESHOLD else None
    action: Action = "fork" if session_candidate else "new"
    if chosen is not None:
        action = "continue" if chosen.state == "active" else "reactivate"
    return Routing(
        action=action,
        thread_id=chosen.thread_id if chosen else None,
        parent=session_candidate.thread_id if session_candidate and not chosen else None,
        similarity=best.similarity if best else 0.0,
        candidates=tuple(
            candidate
            for rank, candidate in enumerate(found)
            if candidate.similarity > LOGGED_ABOVE or rank < MIN_LOGGED
        ),
        borderline=best is not None and best.state != "active" and MIN_BORDERLINE <= best.similarity < MAX_BORDERLINE,
        reason=_reason(chosen, best, len(threads)),
    )


def _build_candidate(prompt: RoutedPrompt, thread: ComparedThread) -> ThreadCandidate:
    probability, similarity, words = thread.scores.mean(axis=0, dtype=np.float64).tolist()
    return ThreadCandidate(
        thread_id=thread.thread.id,
        state=thread.state,
        embedding=None if math.isnan(similarity) else similarity,
        topics=words,
        exact=not set(prompt.topics).isdisjoint(thread.thread.topics),
        own=thread.thread.id == prompt.session_thread,
        similarity=probability,
    )


def _reason(chosen: ThreadCandidate | None, best: ThreadCandidate | None, count: int) -> str:
    if best is None:
        return "There is no thread to compare it with."
    if chosen is None:
        return f"None of {count} threads is likely enough; the best has the probability {best.similarity:.2f}."
    whose = "its session's thread" if chosen.own else f"the most likely of {count} threads"
    return f"It belongs to {whose}, with probability {chosen.similarity:.2f}."


# Clustering by average linkage, and the choice between the current grouping and a new one.

#: Minimum gain of a regrouping, in summed similarity. (A bonus for pairs that are already together would preserve early
#: mistakes; this was measured.)
_MIN_GAIN: Final = 0.02
#: Similarities, or similarities minus a threshold; shape (n, n).
Similarities = NDArray[np.float32]
#: The group number of each item; shape (n,).
Labels = NDArray[np.int64]


def number_labels(names: Sequence[object]) -> Labels:
    """Return a number for each name, in order of first appearance."""
    numbers: dict[object, int] = {}
    return np.asarray([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.int64)


def improve_grouping(margins: Similarities, current: Labels, must_link: Labels) -> Labels:
    """Return the improved grouping; a second application changes nothing.

    The clusters do not depend on the current grouping. So a second application finds the same clusters, and takes or
    rejects them as before.

    Args:
        margins: similarity minus the threshold for each pair, shape (n, n).
        current: the current grouping.
        must_link: items with the same number here are never separated.
    """
    return _keep_improvements(margins, current, cluster(margins, must_link))


def cluster(margins: Similarities, must_link: Labels) -> Labels:
    """Cluster by average linkage, most similar first; items with the same number in `must_link` start together.

    Only groups with at least one pair above the threshold can merge, so each connected component is clustered
    separately.
    """
    groups = np.arange(len(must_link))
    for items in _components(margins, must_link):
        own_margins = margins[np.ix_(items, items)].astype(np.float64)
        own_labels = number_labels(must_link[items].tolist())
        groups[items] = items[_average_linkage(own_margins, own_labels)]
    return groups


def _components(margins: Similarities, must_link: Labels) -> Iterable[Indices]:
    """Yield the connected components of the pairs above the threshold, those with at least two items."""
    unvisited = np.ones(len(must_link), dtype=bool)
    for start in range(len(must_link)):
        if not unvisited[start]:
            continue
        unvisited[start] = False
        component, queue = [start], [start]
        while queue:
            item = queue.pop()
            reached = (margins[item] > 0.0) | (must_link == must_link[item])
            new = np.flatnonzero(reached & unvisited).tolist()
            unvisited[new] = False
            component += new
            queue += new
        if len(component) > 1:
            yield np.asarray(sorted(component))


def _average_linkage(margins: NDArray[np.float64], start_labels: Labels) -> Labels:
    """Return, for each item, the index of the representative of its group.

    Args:
        margins: similarity minus the threshold, shape (n, n); it is overwritten.
        start_labels: items with the same label start as one group.
    """
    groups = np.arange(len(margins))
    sizes = np.ones(len(margins))
    np.fill_diagonal(margins, -np.inf)
    best = margins.argmax(axis=1)

    def merge(target: int, source: int) -> None:
        margins[target] = (margins[target] * sizes[target] + margins[source] * sizes[source]) / (
            sizes[target] + sizes[source]
        )
        margins[:, target] = margins[target]
        margins[source] = margins[:, source] = margins[target, target] = -np.inf
        sizes[target] += sizes[source]
        groups[groups == source] = target
        stale = np.flatnonzero((best == target) | (best == source))
        best[stale] = margins[stale].argmax(axis=1)
        best[target] = margins[target].argmax()
        nearer = margins[:, target] > margins[np.arange(len(margins)), best]
        best[nearer] = target

    _, leading = np.unique(start_labels, return_index=True)
    for index, label in enumerate(start_labels):
        if leading[label] != index:
            merge(int(leading[label]), index)
    while True:
        best_margins = margins[np.arange(len(margins)), best]
        item = int(best_margins.argmax())
        if not best_margins[item] > 0.0:
            return groups
        target, source = sorted((item, int(best[item])))
        merge(target, source)


def _keep_improvements(margins: Similarities, current: Labels, proposed: Labels) -> Labels:
    """Return the current grouping with those new groups that improve it.

    The value of a grouping is the sum over its pairs of the similarity minus the threshold.
    """
    result, first_free = current.copy(), int(current.max()) + 1
    for items in _find_overlaps(current, proposed):
        old_labels, new_labels = current[items], proposed[items]
        change = (new_labels[:, None] == new_labels[None, :]).astype(np.int8) - (
            old_labels[:, None] == old_labels[None, :]
        )
        if (margins[np.ix_(items, items)] * change).sum(dtype=np.float64) > 2 * _MIN_GAIN:
            result[items] = new_labels + first_free
    return number_labels(result.tolist())


def _find_overlaps(current: Labels, proposed: Labels) -> Iterable[Indices]:
    """Return sets of items whose current and new groups overlap."""
    parents = {int(label): int(label) for label in np.unique(current)}

    def root(label: int) -> int:
        while parents[label] != label:
            label = parents[label]
        return label

    for group in np.unique(proposed):
        first, *others = (root(int(label)) for label in np.unique(current[proposed == group]))
        for other in others:
            parents[root(other)] = root(first)
    roots_of_items = np.asarray([root(int(label)) for label in current])
    return [np.flatnonzero(roots_of_items == label) for label in np.unique(roots_of_items)]


# Syntheses of a session whose turns were not in threads yet.


def cited_turns(syntheses: Sequence[Synthesis]) -> set[str]:
    """Return the turns cited by syntheses that have no thread yet."""
    return {point.turn_id for synthesis in syntheses if synthesis.thread_id is None for point in _all_points(synthesis)}


def split_by_thread(syntheses: Sequence[Synthesis], threads: Mapping[str, str]) -> list[Synthesis]:
    """Distribute the syntheses without a thread over the threads of their turns.

    A prompt is placed shortly after it is stored, and a session may be compacted in between. Then the synthesis has no
    thread. It is not made again later, since it may rest on old turns. Instead, each of its points moves to the thread
    of its turn.

    Args:
        threads: thread ids by turn; points of other turns stay without a thread.
    """
    found: dict[str | None, Synthesis] = {
        synthesis.thread_id: synthesis for synthesis in syntheses if synthesis.thread_id is not None
    }
    for synthesis in (synthesis for synthesis in syntheses if synthesis.thread_id is None):
        thread_ids = list(dict.fromkeys(threads.get(point.turn_id) for point in _all_points(synthesis))) or [None]
        for thread_id in thread_ids:
            part = _build_part(synthesis, thread_id, threads, main=thread_id == thread_ids[0])
            found[thread_id] = merge_syntheses(part, found[thread_id]) if thread_id in found else part
    return list(found.values())


def drop_turns(synthesis: Synthesis, turns: Collection[str]) -> Synthesis:
    """Return a synthesis without the points of these turns, which are about to be read again."""
    return replace(
        synthesis,
        state=_drop_points(synthesis.state, turns),
        decisions=_drop_points(synthesis.decisions, turns),
        questions=_drop_points(synthesis.questions, turns),
        error=None if synthesis.error and synthesis.error.turn_id in turns else synthesis.error,
    )


def _all_points(synthesis: Synthesis) -> list[Point]:
    return [
        *synthesis.state,
        *synthesis.decisions,
        *synthesis.questions,
        *([synthesis.error] if synthesis.error else []),
    ]


def _build_part(synthesis: Synthesis, thread_id: str | None, threads: Mapping[str, str], *, main: bool) -> Synthesis:
    """Return the part of a synthesis that belongs to a thread; the files go to the thread of the first point."""

    def of_thread(points: Sequence[Point]) -> tuple[Point, ...]:
        return tuple(point for point in points if threads.get(point.turn_id) == thread_id)

    return replace(
        synthesis,
        id=synthesis.id if main else new_id(synthesis.at),
        thread_id=thread_id,
        state=of_thread(synthesis.state),
        decisions=of_thread(synthesis.decisions),
        questions=of_thread(synthesis.questions),
        files=synthesis.files if main else (),
        error=next(iter(of_thread([synthesis.error] if synthesis.error else [])), None),
    )


def merge_syntheses(newer: Synthesis, older: Synthesis) -> Synthesis:
    """Return the synthesis of the work of two of the same session; it keeps the identity of the older one."""
    return replace(
        older,
        at=max(newer.at, older.at),
        state=newer.state or older.state,
        decisions=tuple(dict.fromkeys([*newer.decisions, *older.decisions]))[:MAX_DECISIONS],
        questions=tuple(dict.fromkeys([*newer.questions, *older.questions])),
        files=tuple(dict.fromkeys([*newer.files, *older.files]))[:MAX_FILES],
        error=newer.error or older.error,
    )


def _drop_points(points: Sequence[Point], turns: Collection[str]) -> tuple[Point, ...]:
    return tuple(point for point in points if point.turn_id not in turns)


# Regrouping: decide again which prompts of a project belong together, once more is known.

#: Maximum number of prompts (the newest); time and memory grow with the square.
MAX_REGROUPED_PROMPTS: Final = 1000
#: Margin of prompts that a user or a model keeps in two threads, so low that they are never merged.
_SEPARATED: Final = -1e6


class PlacedPrompt(Struct, frozen=True, kw_only=True):
    """A prompt that is in a thread.

    Attributes:
        id: id of the turn.
        is_moved_by_user: a user moved something into or out of its thread.
        is_confirmed: a model said that it continues this thread.
        excluded: threads that it does not belong to, according to a model.
    """

    id: str
    thread: Thread
    is_moved_by_user: bool = False
    is_confirmed: bool = False
    excluded: frozenset[str] = frozenset()

    @property
    def is_fixed(self) -> bool:
        """True if no rule may move the prompt: a user named its thread, or moved prompts into or out of it."""
        return self.is_moved_by_user or self.thread.title_by == "user"


class Regrouping(Struct, frozen=True, kw_only=True):
    """Prompts that move together.

    Attributes:
        prompt_ids: the prompts, from one thread or several.
        into: the thread to move them to, which also keeps prompts of its own; None = open a new thread.
        routing: for the log: `join`, or `fork` for a new thread. For a fork, `parent` is the thread that most of them
            came from.
    """

    prompt_ids: tuple[str, ...]
    into: str | None
    routing: Routing


def regroup(prompts: Sequence[PlacedPrompt], probabilities: Similarities) -> tuple[Regrouping, ...]:
    """Return the moves that bring related prompts together; they can be applied in any order.

    Applied to its own result, it returns no moves.

    A prompt is placed before its reply exists. Once its session is quiet, and other prompts have followed, the same
    probabilities are more reliable. So all prompts are clustered again, and a prompt may leave a thread or join one.

    Threads keep their ids: a group continues the thread that most of it was in. A new grouping is only taken if it is
    better than the current one, so repeating it changes nothing. Whatever a user named, moved, split or merged stays in
    place. A confident answer of a model holds too: the prompt stays with the first prompt of the thread, or is never
    grouped with that thread.

    Args:
        prompts: prompts of one user and project (with isolation: one agent), oldest first.
        probabilities: probability that two prompts belong to one thread, shape (n, n).
    """
    if len(prompts) < 2:
        return ()
    margins = (probabilities - np.float32(SAME_THREAD_THRESHOLD)).astype(np.float32)
    np.fill_diagonal(margins, 0.0)
    _forbid_merges(margins, prompts)
    current = number_labels([prompt.thread.id for prompt in prompts])
    return tuple(_find_moves(prompts, improve_grouping(margins, current, _must_link(prompts)), probabilities))


def _must_link(prompts: Sequence[PlacedPrompt]) -> Labels:
    """Return labels of the items to keep together.

    These are the prompts that a user placed in a thread, and prompts that a model confirmed, with the first prompt of
    their thread.
    """
    first: dict[str, int] = {}
    for index, prompt in enumerate(prompts):
        first.setdefault(prompt.thread.id, index)
    leads = [
        first[prompt.thread.id] if prompt.is_confirmed and not prompt.is_fixed else index
        for index, prompt in enumerate(prompts)
    ]
    return number_labels([prompts[index].thread.id if prompts[index].is_fixed else index for index in leads])


def _forbid_merges(margins: Similarities, prompts: Sequence[PlacedPrompt]) -> None:
    """Set the margin of pairs that a user or a model separated to `_SEPARATED`."""
    fixed = [index for index, prompt in enumerate(prompts) if prompt.is_fixed]
    threads = number_labels([prompts[index].thread.id for index in fixed])
    differs = threads[:, None] != threads[None, :]
    margins[np.ix_(fixed, fixed)] = np.where(differs, _SEPARATED, margins[np.ix_(fixed, fixed)])
    for index, prompt in enumerate(prompts):
        if excluded := prompt.excluded - {prompt.thread.id}:
            others = [
                index_of_other
                for index_of_other, other_prompt in enumerate(prompts)
                if other_prompt.thread.id in excluded
            ]
            margins[index, others] = margins[others, index] = _SEPARATED


def _find_moves(prompts: Sequence[PlacedPrompt], groups: Labels, probabilities: Similarities) -> Iterable[Regrouping]:
    """Yield the moves; each group continues the thread that most of its prompts were in (the oldest on a tie)."""
    members: defaultdict[int, list[int]] = defaultdict(list)
    for index, group in enumerate(groups.tolist()):
        members[group].append(index)
    threads = {prompt.thread.id: prompt.thread for prompt in prompts}
    claims = [
        (
            not any(prompts[index].is_fixed for index in members_of_group if prompts[index].thread.id == id_),
            -count,
            threads[id_],
            group,
        )
        for group, members_of_group in members.items()
        for id_, count in Counter(prompts[index].thread.id for index in members_of_group).items()
    ]
    continued: dict[int, str] = {}
    for _, _, thread, group in sorted(
        claims, key=lambda claim: (claim[0], claim[1], claim[2].opened_at, claim[2].id, claim[3])
    ):
        if group not in continued and thread.id not in continued.values():
            continued[group] = thread.id
    for group, members_of_group in members.items():
        into = continued.get(group)
        moving = [index for index in members_of_group if prompts[index].thread.id != into]
        if moving:
            yield _build_regrouping(prompts, moving, members_of_group, into, probabilities)


def _build_regrouping(
    prompts: Sequence[PlacedPrompt],
    moving: Sequence[int],
    group: Sequence[int],
    into: str | None,
    probabilities: Similarities,
) -> Regrouping:
    [(former, _)] = Counter(prompts[index].thread.id for index in moving).most_common(1)
    staying = [index for index in group if index not in set(moving)] or list(group)
    similarity = min(1.0, max(0.0, float(probabilities[np.ix_(moving, staying)].mean())))
    others = "the prompts of this thread" if into else "the prompts that move with it"
    return Regrouping(
        prompt_ids=tuple(prompts[index].id for index in moving),
        into=into,
        routing=Routing(
            action="join" if into else "fork",
            thread_id=into,
            parent=None if into else former,
            similarity=similarity,
            candidates=(),
            reason=f"Compared again later, it belongs with {others}, with probability {similarity:.2f}.",
        ),
    )
