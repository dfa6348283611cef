"""Vector search: an embedder together with the indexes of its vectors, as one value (`VectorSearch`).

Code that compares vectors reads `parts.vectors` once and uses only that value. A new space is put in place by
replacing the whole value, so a question embedded in one space is never compared with vectors of another. `Embedders`
looks up in the registry which embedder produces a space. An unavailable embedder is represented by
`UnavailableEmbedder`, which raises `EmbedderUnavailable` on every use.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event as Flag
from threading import Lock
from typing import TypeVar

import numpy as np
from msgspec import Struct, field
from msgspec.structs import force_setattr, replace

from filrouge.core.clock import monotonic
from filrouge.core.errors import EmbedderUnavailable, FilrougeError
from filrouge.core.protocols import Embedder, PartEmbedder, PromptEmbedder, Tx, Vector, VectorIndex, Vectors
from filrouge.providers.models import Calibration, EmbeddingSpace, PassageParts
from filrouge.search.repository import OwnerKind, StoredVectors

_LOG = logging.getLogger(__name__)

NOTICE_NO_EMBEDDER = "The embedding model is not available, so only words were searched."
NOTICE_EMBEDDER_LATE = "The embedding model was not ready in time, so only words were searched."
NOTICE_INDEX_LOADING = "The vector index is still being loaded, so only words were searched."

#: Batches are short, so that another caller of the embedder (`remember`) waits for a few windows of prose at most.
_CHARACTERS_PER_BATCH, _TEXTS_PER_BATCH = 8_000, 64

#: Threads on which questions with a deadline are embedded.
_QUESTIONS = ThreadPoolExecutor(2, thread_name_prefix="filrouge-question")

_Result = TypeVar("_Result")
NewIndex = Callable[[OwnerKind, EmbeddingSpace], VectorIndex]
"""Makes the empty index of the vectors of one kind in one space."""


class Need(Struct, frozen=True, kw_only=True):
    """What a prompt needs, as predicted by the embedder.

    Attributes:
        vector: compared with the need vectors of memories.
        nothing: its cosine with the vector that stands for "needs nothing"; a memory with a larger cosine is needed.
    """

    vector: Vector
    nothing: float


class VectorSearch(Struct, frozen=True, kw_only=True):
    """An embedder, its space, and the indexes of its vectors.

    Attributes:
        name: the registered name of the embedder.
        space: the space of all these vectors, with the calibration in effect.
        memory_index, turn_index: the vectors of live memories, and of turns.
        for_prompts: the embedder, if it has a model for what prompts need; set from `embedder`.
        ready: set once the indexes hold all stored vectors.
        until: deadline for a question's vector, on the monotonic clock; None = wait without limit.
    """

    name: str
    embedder: Embedder
    space: EmbeddingSpace
    memory_index: VectorIndex
    turn_index: VectorIndex
    ready: Flag = field(default_factory=Flag)
    until: float | None = None
    for_prompts: PromptEmbedder | None = None

    def __post_init__(self) -> None:
        # Looked up once: `isinstance` reads every member of the protocol.
        force_setattr(self, "for_prompts", self.embedder if isinstance(self.embedder, PromptEmbedder) else None)

    @property
    def is_lost(self) -> bool:
        """True if the embedder of this space is unavailable, so that nothing can be added to the space."""
        return isinstance(self.embedder, UnavailableEmbedder)

    def question(self, text: str) -> tuple[Vector | None, tuple[str, ...]]:
        """Return the vector of a question, or None with the notice to show."""
        if not self.ready.is_set():
            return None, (NOTICE_INDEX_LOADING,)
        try:
            return self._in_time(self.embedder.query, text), ()
        except TimeoutError:
            return None, (NOTICE_EMBEDDER_LATE,)
        except EmbedderUnavailable:
            _LOG.warning("embedder unavailable; lexical recall only")
            return None, (NOTICE_NO_EMBEDDER,)

    def need(self, text: str) -> Need | None:
        """Return what a prompt needs; None if the embedder has no model for that, or does not answer in time."""
        if not self.ready.is_set() or self.for_prompts is None:
            return None
        try:
            vector = self._in_time(self.for_prompts.need_of_prompt, text)
        except (TimeoutError, EmbedderUnavailable):
            return None
        nothing = self.for_prompts.no_need_vector
        return None if vector is None or nothing is None else Need(vector=vector, nothing=float(nothing @ vector))

    def _in_time(self, make: Callable[[str], _Result], text: str) -> _Result:
        """Return `make(text)` if it is done by `until`; a model that is loading or busy is not waited for.

        Raises:
            TimeoutError: it is not done in time.
            EmbedderUnavailable: the model cannot be used.
        """
        if self.until is None:
            return make(text)
        future = _QUESTIONS.submit(make, text)
        try:
            return future.result(max(0.0, self.until - monotonic()))
        except TimeoutError:
            future.cancel()
            raise

    def passages(self, texts: Sequence[str]) -> Vectors | None:
        """Return the vectors of texts, or None if the embedder is unavailable."""
        try:
            return embed_in_batches(self.embedder, texts)
        except EmbedderUnavailable:
            _LOG.warning("embedder unavailable; %d texts have no vectors for now", len(texts))
            return None

    def parts(self, passages: Sequence[PassageParts]) -> list[Vectors] | None:
        """Return the vectors of parts of passages; None if the embedder has none, or is unavailable.

        See `PartEmbedder`.
        """
        if not isinstance(self.embedder, PartEmbedder):
            return None
        try:
            return self.embedder.part_vectors(passages)
        except EmbedderUnavailable:
            _LOG.warning("embedder unavailable; %d texts are read without vectors", len(passages))
            return None

    def fill(self, tx: Tx, stopping: Flag) -> None:
        """Load the indexes from the stored rows; if `stopping` is set meanwhile, stop without setting `ready`."""
        stored = StoredVectors(tx)
        for index, rows in (
            (self.memory_index, stored.live_memories(self.space.id)),
            (self.turn_index, stored.turns(self.space.id)),
        ):
            for owner, number, group, vectors in rows:
                if stopping.is_set():
                    return
                index.put(owner, number, group, vectors)
        self.ready.set()

    def with_calibration(self, calibration: Calibration) -> VectorSearch:
        """Return a copy with another calibration."""
        return replace(self, space=replace(self.space, calibration=calibration))


def new_vector_search(
    name: str, embedder: Embedder, calibration: Calibration | None, new_index: NewIndex
) -> VectorSearch:
    """Return an embedder with empty indexes; a measured calibration takes precedence over the shipped one."""
    space = embedder.space
    return VectorSearch(
        name=name,
        embedder=embedder,
        space=replace(space, calibration=calibration or space.calibration),
        memory_index=new_index("memory", space),
        turn_index=new_index("turn", space),
    )


def embed_in_batches(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    """Return the vectors of texts, embedded in batches and rounded to the stored precision.

    An index that is filled from stored vectors therefore gives the same results.

    Raises:
        EmbedderUnavailable: the model cannot be used.
    """
    found = [embedder.passages(batch) for batch in _batches(texts)]
    vectors = np.concatenate(found) if found else embedder.passages([])
    return vectors.astype(np.float16).astype(np.float32)


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    """Yield the texts in order, in batches."""
    batch, characters = list[str](), 0
    for text in texts:
        if batch and (characters + len(text) > _CHARACTERS_PER_BATCH or len(batch) == _TEXTS_PER_BATCH):
            yield batch
            batch, characters = [], 0
        batch.append(text)
        characters += len(text)
    if batch:
        yield batch


class UnavailableEmbedder:
    """Stands in for an unavailable embedder."""

    def __init__(self, space: EmbeddingSpace, why: str) -> None:
        self._space = space
        self._why = why

    @property
    def space(self) -> EmbeddingSpace:
        """The space of the unavailable embedder."""
        return self._space

    def query(self, text: str) -> Vector:
        """Always raise `EmbedderUnavailable`."""
        del text
        raise EmbedderUnavailable(self._why)

    def passages(self, texts: Sequence[str]) -> Vectors:
        """Always raise `EmbedderUnavailable`."""
        del texts
        raise EmbedderUnavailable(self._why)


#: The space of an `UnavailableEmbedder` whose space is unknown; it never holds a vector.
UNKNOWN_SPACE = EmbeddingSpace(id="none", model="none", revision="", dimension=1, pooling="", prefix="")


class Embedders:
    """The embedders of the registry, each created once. Safe for several threads.

    Args:
        make: creates the embedder with a given name.
        names: returns every name that needs no further configuration, to find out which embedder produces a space.
    """

    def __init__(self, make: Callable[[str], Embedder], names: Callable[[], Iterable[str]]) -> None:
        self._make = make
        self._names = names
        self._made: dict[str, Embedder] = {}
        self._lock = Lock()

    def named(self, name: str) -> Embedder:
        """Return the embedder with this name.

        Raises:
            BadConfig: there is none.
            EmbedderUnavailable: it cannot be used.
        """
        with self._lock:
            if name not in self._made:
                self._made[name] = self._make(name)
            return self._made[name]

    def for_space(self, space_id: str, name: str) -> tuple[str, Embedder] | None:
        """Return an embedder that produces this space, with its name; prefer the embedder of the given name."""
        for candidate in self._candidates(name):
            try:
                embedder = self.named(candidate)
                if embedder.space.id == space_id:
                    return candidate, embedder
            except FilrougeError as error:
                _LOG.info("embedder %s is not available: %s", candidate, error.message)
        return None

    def _candidates(self, name: str) -> Iterator[str]:
        """Yield the name, then all others; listing the others loads all embedders and their dependencies."""
        if name:
            yield name
        yield from (other for other in self._names() if other != name)

    def close_others(self, current: Embedder) -> None:
        """Keep one embedder; close and drop the others."""
        with self._lock:
            others = [embedder for embedder in self._made.values() if embedder is not current]
            self._made = {name: embedder for name, embedder in self._made.items() if embedder is current}
        _close_all(others)

    def forget_texts(self) -> None:
        """Clear the text caches of the embedders; part of erasing a memory."""
        with self._lock:
            embedders = list(self._made.values())
        for embedder in embedders:
            forget = getattr(embedder, "forget_all", None)
            if callable(forget):
                forget()

    def close(self) -> None:
        """Release all resources of the embedders, such as sockets and threads."""
        with self._lock:
            embedders, self._made = list(self._made.values()), {}
        _close_all(embedders)


def _close_all(embedders: Iterable[Embedder]) -> None:
    for embedder in embedders:
        close = getattr(embedder, "close", None)
        if callable(close):
            close()
