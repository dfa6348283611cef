"""An embedder behind a service: batches that fit, answers that are checked, costs that are counted.

The length of the vectors is known for known models, or set; else one short text is embedded to learn it. From then on
it is fixed: a server that answers with another length has another model, and nothing of what it says is used.
A call succeeds whole or not at all. Texts are made sendable (no lone surrogates, no NUL), and an empty one is sent as
a full stop, since services refuse empty texts.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from threading import Lock
from typing import Any, Final

import numpy as np

from filrouge.breaker import CircuitBreaker
from filrouge.clock import monotonic
from filrouge.embed.checked import sendable, unit_vectors
from filrouge.embed.options import EmbedderOptions
from filrouge.embed.remote.service import Service
from filrouge.embed.remote.wire import Patience, Refused, Wire
from filrouge.embed.windows import windows
from filrouge.errors import EmbedderUnavailable
from filrouge.ports import EmbeddingSpace, EmbeddingUsage, Vector, Vectors

_CHECK_SECONDS: Final = 5.0
_PROBE: Final = "ready?"
#: No service has longer vectors today; only their length before it is known is bounded by it.
_LONGEST_VECTOR: Final = 8192
#: A number as JSON, with its comma and some air.
_BYTES_A_NUMBER: Final = 32
_ENVELOPE_BYTES: Final = 64 * 1024
#: Three questions of two seconds: a prompt waits for a dead server six seconds in all.
_FAILURES: Final = 3


class RemoteEmbedder:
    """Implements `Embedder` and `HealthChecked` over HTTP. Safe for several threads; `close` ends its connections."""

    def __init__(self, service: Service, options: EmbedderOptions, *, now: Callable[[], float] = monotonic) -> None:
        self._service = service
        self._who = str(service.peer)
        self._wire = Wire(service.peer)
        self._breaker = CircuitBreaker(options.rest_seconds, now, failures=_FAILURES)
        self._question = Patience(each_seconds=options.query_seconds, all_seconds=options.query_seconds, tries=3)
        self._many = Patience(each_seconds=options.passages_seconds, all_seconds=3 * options.passages_seconds, tries=5)
        self._spent = options.spent
        self._dimension = service.dimension
        self._learning = Lock()
        self._counting = Lock()
        self._usage = EmbeddingUsage()

    def __repr__(self) -> str:
        return f"<{self._service.provider}:{self._service.model} at {self._who}>"

    @property
    def space(self) -> EmbeddingSpace:
        """The space of these vectors.

        Raises:
            EmbedderUnavailable: the length of the vectors is neither known nor set, and the service does not answer.
        """
        service, dimension = self._service, self._known_dimension()
        words = service.input_type or service.prefixes.name
        return EmbeddingSpace(
            id=f"{service.provider}/{service.model}/{dimension}/service/{words}",
            model=service.model,
            revision=service.provider,
            dimension=dimension,
            pooling="service",
            prefix=words,
        )

    @property
    def usage(self) -> EmbeddingUsage:
        """What this embedder has cost since it was made."""
        with self._counting:
            return self._usage

    def query(self, text: str) -> Vector:
        """The vector of a question, within the seconds a question may take."""
        return self._embed([text], question=True)[0]

    def passages(self, texts: Sequence[str]) -> Vectors:
        """The vectors of texts to be found."""
        if not texts:
            return np.empty((0, self._known_dimension()), dtype=np.float32)
        return self._embed(texts, question=False)

    def check(self) -> None:
        """Embed one short text, however many failures there were; a success ends the rest.

        Raises:
            EmbedderUnavailable: with the cause.
        """
        patience = Patience(each_seconds=_CHECK_SECONDS, all_seconds=_CHECK_SECONDS, tries=2)
        found = self._ask([_PROBE], patience=patience, question=False)
        with self._learning:
            self._dimension = self._dimension or found.shape[1]

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        self._wire.close()

    def _known_dimension(self) -> int:
        if self._dimension is None:
            self._enter()
            self.check()
        assert self._dimension is not None
        return self._dimension

    def _enter(self) -> None:
        if rest := self._breaker.enter():
            raise EmbedderUnavailable(
                str(rest), remedy="Nothing is lost: recall goes by words meanwhile, and texts wait for their vectors."
            )

    def _embed(self, texts: Sequence[str], *, question: bool) -> Vectors:
        """Vectors of whole texts: of a long one the mean of its parts, weighted by their length."""
        dimension = self._known_dimension()
        self._enter()
        prefixes = self._service.prefixes
        prefix = prefixes.query if question else prefixes.passage
        owners: list[int] = []
        parts: list[str] = []
        for owner, text in enumerate(texts):
            for part in windows(sendable(text), self._service.fits.window):
                owners.append(owner)
                parts.append(part or ".")
        found = np.zeros((len(texts), dimension), dtype=np.float32)
        patience = self._question if question else self._many
        for start, stop in self._batches([len(prefix) + len(part.encode()) for part in parts]):
            vectors = self._ask([prefix + part for part in parts[start:stop]], patience=patience, question=question)
            for place, vector in enumerate(vectors, start):
                found[owners[place]] += vector * len(parts[place])
        return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), np.float32(1e-12))

    def _batches(self, sizes: Sequence[int]) -> Generator[tuple[int, int]]:
        """From where to where a request goes, each within what the service takes; sizes are bytes of UTF-8.

        No tokenizer is at hand, so two bytes count as a token: ordinary text has three to four of them, and what has
        fewer (emoji) does not come in hundreds of thousands.
        """
        fits = self._service.fits
        start = tokens = 0
        for place, size in enumerate(sizes):
            if place > start and (place - start == fits.texts or tokens + size // 2 + 1 > fits.tokens):
                yield start, place
                start, tokens = place, 0
            tokens += size // 2 + 1
        if start < len(sizes):
            yield start, len(sizes)

    def _ask(self, texts: Sequence[str], *, patience: Patience, question: bool) -> Vectors:
        """One request, checked and counted; its failure counts for the breaker unless it lies in the texts."""
        most_bytes = _ENVELOPE_BYTES + len(texts) * (self._dimension or _LONGEST_VECTOR) * _BYTES_A_NUMBER
        try:
            reply = self._wire.post(
                self._service.body(texts, question), texts=texts, most_bytes=most_bytes, patience=patience
            )
            vectors = self._read(reply, texts)
        except Refused:
            raise
        except EmbedderUnavailable as error:
            self._breaker.failed(error.message)
            raise
        self._breaker.succeeded()
        return vectors

    def _read(self, reply: Any, texts: Sequence[str]) -> Vectors:
        try:
            raw = self._service.read(reply)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise EmbedderUnavailable(
                f"{self._who} answered with something that is no list of vectors.",
                remedy="Check `embedding_url`: an embedding server of this kind must stand there.",
            ) from error
        self._count(texts, raw.tokens)  # paid for, whatever it is worth
        return unit_vectors(raw.vectors, texts=len(texts), dimension=self._dimension, who=self._who)

    def _count(self, texts: Sequence[str], counted: int | None) -> None:
        tokens = counted or sum(len(text.encode()) // 4 + 1 for text in texts)
        price = self._service.dollars
        cost = EmbeddingUsage(
            requests=1,
            texts=len(texts),
            tokens=tokens,
            estimated=counted is None,
            dollars=None if price is None else tokens * price / 1e6,
        )
        with self._counting:
            self._usage += cost
        if self._spent is not None:
            self._spent(cost)
