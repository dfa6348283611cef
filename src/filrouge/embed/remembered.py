"""Vectors of texts that were embedded before, by the content of the text.

The same prompt comes several times an hour, the same sentence comes from the transcript and from the hook, and a
vector costs milliseconds or money. What is kept is a digest and a vector, never the text; the least recently used go
first. Questions and passages are apart, since most models treat them differently.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from threading import Lock
from typing import Final

import numpy as np

from filrouge.ports import Embedder, EmbeddingSpace, Seeking, Vector, Vectors

MOST_BYTES: Final = 8 * 1024 * 1024
#: About what an entry costs beside its numbers: the digest, the array's head, its place in the order.
_ENTRY_BYTES: Final = 300


class Remembering:
    """Implements `Embedder` and `Seeking` with another one, which sees only what is not remembered.

    Safe for several threads, of which two that ask for the same unknown text at once may both reach the model.
    """

    def __init__(self, embedder: Embedder, most_bytes: int = MOST_BYTES) -> None:
        self._embedder = embedder
        self._most = most_bytes
        self._lock = Lock()
        self._kept: OrderedDict[bytes, Vector] = OrderedDict()
        self._bytes = 0
        self._generation = 0
        self._hits = self._misses = 0

    @property
    def inner(self) -> Embedder:
        """The embedder behind, for what only it can answer (its health, its cost)."""
        return self._embedder

    @property
    def space(self) -> EmbeddingSpace:
        """The space of the embedder behind."""
        return self._embedder.space

    @property
    def hits(self) -> int:
        """Texts that were answered from memory."""
        return self._hits

    @property
    def misses(self) -> int:
        """Texts that the model had to read."""
        return self._misses

    def query(self, text: str) -> Vector:
        """The vector of a question."""
        key = _digest("query", text)
        known, generation = self._look_up([key])
        if key not in known:
            known[key] = self._embedder.query(text)
            self._keep(known, generation)
        return known[key].copy()

    @property
    def nothing(self) -> Vector | None:
        """What prompts that need nothing point at; None where the embedder behind did not learn that."""
        return self._embedder.nothing if isinstance(self._embedder, Seeking) else None

    def seek(self, text: str) -> Vector | None:
        """The vector of what a prompt needs; None where the embedder behind did not learn that."""
        if not isinstance(self._embedder, Seeking):
            return None
        key = _digest("seek", text)
        known, generation = self._look_up([key])
        if key in known:
            return known[key].copy()
        vector = self._embedder.seek(text)
        if vector is not None:
            self._keep({key: vector}, generation)
        return vector

    def passages(self, texts: Sequence[str]) -> Vectors:
        """The vectors of texts; those not remembered reach the model in one call, each once."""
        keys = [_digest("passage", text) for text in texts]
        found, generation = self._look_up(keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        if missing or not texts:
            made = dict(zip(missing, self._embedder.passages(list(missing.values())), strict=True))
            self._keep(made, generation)
            found |= made
        return np.stack([found[key] for key in keys]) if keys else self._embedder.passages([])

    def forget_all(self) -> None:
        """Keep nothing of what came before, not even of what is being embedded now: part of erasing a memory."""
        with self._lock:
            self._kept.clear()
            self._bytes = 0
            self._generation += 1

    def close(self) -> None:
        """Let the embedder behind give back what it holds, if it holds anything."""
        close = getattr(self._embedder, "close", None)
        if callable(close):
            close()

    def _look_up(self, keys: Sequence[bytes]) -> tuple[dict[bytes, Vector], int]:
        with self._lock:
            found = {key: self._kept[key] for key in keys if key in self._kept}
            for key in found:
                self._kept.move_to_end(key)
            self._hits += sum(key in found for key in keys)
            self._misses += len(set(keys) - found.keys())
            return found, self._generation

    def _keep(self, made: dict[bytes, Vector], generation: int) -> None:
        with self._lock:
            if generation != self._generation:  # forgotten while the model was at work
                return
            for key, vector in made.items():
                if key not in self._kept:
                    self._kept[key] = vector.copy()  # a row alone: a view would hold its whole batch
                    self._bytes += vector.nbytes + _ENTRY_BYTES
            while self._bytes > self._most:
                _, oldest = self._kept.popitem(last=False)
                self._bytes -= oldest.nbytes + _ENTRY_BYTES


def _digest(kind: str, text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16, person=kind.encode()).digest()
