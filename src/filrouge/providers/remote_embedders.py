"""Embedders behind an HTTP service: Ollama, OpenAI and compatible servers, Voyage.

The differences between services are data (`Service`). Requests, batches, retries, limits, checks and cost accounting
are the same for all (`JsonClient`, `RemoteEmbedder`).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from threading import Lock, Thread
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import httpx
import numpy as np
import tenacity

from filrouge.core.clock import monotonic
from filrouge.core.errors import BadConfig, EmbedderUnavailable
from filrouge.core.guard import on_failure
from filrouge.core.network import CircuitBreaker, checked_address, is_loopback
from filrouge.core.protocols import Vector, Vectors
from filrouge.providers.embedders import (
    WINDOW_TOKENS,
    EmbedderOptions,
    space_of,
    unit_vectors,
    windows,
    without_invalid_characters,
)
from filrouge.providers.models import EmbeddingSpace, EmbeddingUsage

# One JSON request to a server that may be slow, unavailable or hostile.
#
# Every request has a real-time deadline, which a server that sends one byte per second cannot extend. It therefore runs
# on an event loop in its own thread, where waiting can be cancelled. Outages (no connection, 429, 5xx) are retried
# after an exponential pause with jitter, or after the pause the server requests; refusals (400, 401, 403, 404) are
# never retried. Redirects are not followed, because they would send the texts to a server that the user did not choose.
# Reading stops at a reply larger than the request can need. Error messages contain no keys and no texts: a server may
# echo either in its error.

T = TypeVar("T")
_BACK_OFF: Final = tenacity.wait_exponential(multiplier=0.2, max=8.0) + tenacity.wait_random(0.0, 0.3)
_AGAIN: Final = frozenset({408, 425, 429})
_MOST_SAID: Final = 200
#: A run of this many characters of a text in a server's message counts as a quotation.
_QUOTED: Final = 12
_SHORTEST: Final = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeLimits:
    """The time limit of one request, and of all its attempts together."""

    each_seconds: float
    all_seconds: float
    tries: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceAddress:
    """The server to send requests to.

    Attributes:
        name: display name of the provider.
        address: full address of its embeddings endpoint.
        key: sent as a bearer token; empty = none.
    """

    name: str
    address: str
    key: str = field(default="", repr=False)

    def __str__(self) -> str:
        return f"{self.name} ({urlsplit(self.address).netloc})"


class Refused(EmbedderUnavailable):
    """The embedding server refused these texts; it may accept others."""


class _Outage(Exception):
    """A failure worth retrying; `after` is the pause that the server requested, in seconds."""

    def __init__(self, cause: str, after: float | None = None) -> None:
        super().__init__(cause)
        self.after = after


class JsonClient:
    """Sends JSON to one peer and reads JSON back. Safe for several threads; connections are kept open."""

    def __init__(self, peer: ServiceAddress) -> None:
        self.peer = peer
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: httpx.AsyncClient | None = None

    def post(self, body: Mapping[str, Any], *, texts: Sequence[str], most_bytes: int, patience: TimeLimits) -> Any:
        """Return the JSON of the reply.

        Args:
            body: the request.
            texts: texts that must not be quoted in an error message.
            most_bytes: maximum size of the reply.
            patience: time limits and number of attempts.

        Raises:
            EmbedderUnavailable: the request failed; `Refused` if the server refused these texts.
        """
        return self._run(self._within(body, texts, most_bytes, patience))

    def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        with self._lock:
            loop, client, self._loop, self._client = self._loop, self._client, None, None
        if loop is not None and client is not None:
            asyncio.run_coroutine_threadsafe(client.aclose(), loop).result()
            loop.call_soon_threadsafe(loop.stop)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                # Proxies from the environment are never used for addresses on this machine.
                outside = not is_loopback(self.peer.address)
                # Loading the CA certificates takes 50 ms, and plain HTTP on this machine does not need them.
                verify = outside or self.peer.address.startswith("https:")
                self._client = httpx.AsyncClient(trust_env=outside, verify=verify, follow_redirects=False)
                Thread(target=_turn, args=(self._loop,), name="filrouge-embedding", daemon=True).start()
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        with on_failure(future.cancel):
            return future.result()

    async def _within(
        self, body: Mapping[str, Any], texts: Sequence[str], most_bytes: int, patience: TimeLimits
    ) -> Any:
        attempts = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(_Outage),
            wait=_pause,
            stop=tenacity.stop_after_attempt(patience.tries) | tenacity.stop_before_delay(patience.all_seconds),
            reraise=True,
        )
        content = json.dumps(body).encode()
        try:
            async with asyncio.timeout(patience.all_seconds):
                return await attempts(self._once, content, texts, most_bytes, patience.each_seconds)
        except _Outage as error:
            raise EmbedderUnavailable(f"{self.peer} {error}.", remedy=_WAIT) from error.__cause__
        except TimeoutError as error:
            raise EmbedderUnavailable(
                f"{self.peer} did not answer within {patience.all_seconds:g} s.", remedy=_WAIT
            ) from error

    async def _once(self, content: bytes, texts: Sequence[str], most_bytes: int, seconds: float) -> Any:
        assert self._client is not None
        # Without compression, a small reply cannot unpack to gigabytes.
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if self.peer.key:
            headers["Authorization"] = f"Bearer {self.peer.key}"
        try:
            async with (
                asyncio.timeout(seconds),
                self._client.stream(
                    "POST", self.peer.address, content=content, headers=headers, timeout=seconds
                ) as response,
            ):
                reply = await self._read(response, most_bytes)
        except (TimeoutError, httpx.TimeoutException) as error:
            raise _Outage(f"did not answer within {seconds:g} s") from error
        except httpx.TransportError as error:
            raise _Outage(f"cannot be reached: {self._clean(str(error) or type(error).__name__, ())}") from error
        if response.status_code == 200:
            return self._json(reply)
        raise self._problem(response, self._clean(_message(reply), texts))

    async def _read(self, response: httpx.Response, most_bytes: int) -> bytes:
        found = bytearray()
        async for chunk in response.aiter_raw():
            found += chunk
            if len(found) > most_bytes:
                raise EmbedderUnavailable(f"{self.peer} sent more than {most_bytes} bytes, which no answer needs.")
        return bytes(found)

    def _json(self, reply: bytes) -> Any:
        try:
            return json.loads(reply)
        except (ValueError, RecursionError) as error:
            raise EmbedderUnavailable(
                f"{self.peer} answered with something that is not JSON.",
                remedy="Check that `embedding_url` is the address of an embedding server.",
            ) from error

    def _problem(self, response: httpx.Response, said: str) -> Exception:
        """Map a status to an error: an outage, a refusal of these texts, or a problem that the user must fix."""
        status = response.status_code
        told = f": {said}" if said else ""
        if "insufficient_quota" in said:
            return EmbedderUnavailable(
                f"{self.peer} says that the credit is used up.", remedy="See your account there."
            )
        if status in _AGAIN or status >= 500:
            return _Outage(f"answered {status}{told}", _asked_pause(response.headers.get("Retry-After", "")))
        if status in (401, 403):  # a server may echo the key, so its message is left out
            cause = "does not accept the key" if self.peer.key else "requires a key"
            return EmbedderUnavailable(f"{self.peer} {cause} ({status}).", remedy="Set the right key; see the guide.")
        if status == 404:
            return EmbedderUnavailable(
                f"{self.peer} does not know the model or the address (404){told}.",
                remedy="Check `embedding_model` and `embedding_url`; Ollama: `ollama pull MODEL`.",
            )
        if 300 <= status < 400:
            return EmbedderUnavailable(
                f"{self.peer} redirects elsewhere ({status}), which is not followed.",
                remedy="If that is meant, set `embedding_url` to the new address.",
            )
        return Refused(f"{self.peer} refused the request ({status}){told}.", remedy="Check `embedding_model`.")

    def _clean(self, said: str, texts: Sequence[str]) -> str:
        """Return a server's message on one line, without the key; empty if it quotes one of the texts."""
        said = " ".join(said.split())
        for text in texts:
            flat = " ".join(text.split())
            stretches = (flat[at : at + _QUOTED] for at in range(0, max(1, len(flat) - _QUOTED + 1), _QUOTED))
            if len(flat) >= _SHORTEST and any(stretch in said for stretch in stretches):
                return ""
        return (said.replace(self.peer.key, "***") if self.peer.key else said)[:_MOST_SAID].rstrip(".")


_WAIT: Final = "No data is lost: recall uses words only for now, and texts are embedded later."


def _turn(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:  # callers waiting for a task get a cancellation
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def _pause(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = error.after if isinstance(error, _Outage) else None
    return _BACK_OFF(state) if asked is None else asked


def _asked_pause(header: str) -> float | None:
    """Return the seconds of a Retry-After header, which is a number or a date."""
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        at = parsedate_to_datetime(header)
    except ValueError:
        return None
    return max(0.0, ((at if at.tzinfo else at.replace(tzinfo=UTC)) - datetime.now(UTC)).total_seconds())


def _message(reply: bytes) -> str:
    """Return the message in an error body: `{"error": {"message", "code"}}`, `{"error": "…"}` or `{"detail": "…"}`."""
    try:
        found: Any = json.loads(reply)
        said: Any = found.get("error") or found.get("detail") or ""
        if not isinstance(said, str):
            said = f"{said.get('message') or ''} {said.get('code') or ''}"
    except (ValueError, RecursionError, AttributeError):
        return ""
    return said.strip()


# The two reply formats: OpenAI's, which Voyage and many servers share, and Ollama's.


@dataclass(frozen=True, kw_only=True, slots=True)
class RawAnswer:
    """The raw vectors of a reply, in the order of the texts, and its token count (None: not reported)."""

    vectors: Sequence[Any]
    tokens: int | None


def parse_openai(reply: Any) -> RawAnswer:
    """Parse `{"data": [{"index", "embedding"}], "usage": {"prompt_tokens" or "total_tokens"}}`.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: it has another shape.
    """
    items = list(reply["data"])
    places = [item.get("index") for item in items]
    if any(place is not None for place in places):  # some servers return items in order of completion
        if sorted(places) != list(range(len(items))):
            raise ValueError("places are missing or double")
        items.sort(key=lambda item: item["index"])
    usage: dict[str, Any] = reply.get("usage") or {}
    return RawAnswer(
        vectors=[item["embedding"] for item in items],
        tokens=_count(usage.get("total_tokens", usage.get("prompt_tokens"))),
    )


def parse_ollama(reply: Any) -> RawAnswer:
    """Parse `{"embeddings": [[…]], "prompt_eval_count"}`.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: it has another shape.
    """
    return RawAnswer(vectors=list(reply["embeddings"]), tokens=_count(reply.get("prompt_eval_count")))


def _count(given: Any) -> int | None:
    """Return a token count; None for 0, which some servers always report."""
    return given if isinstance(given, int) and given > 0 else None


# The differences between embedding services, as data: address, model, request limits, price. Some models were trained
# with prefixes before questions or texts. If the server does not add them, they are added here; they are part of the
# space's id.


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestLimits:
    """The limits of one request.

    Attributes:
        texts: maximum number of texts. Lower than the services allow (OpenAI 2,048, Voyage 1,000), so that a reply with
            the longest vectors stays within about ten megabytes.
        tokens: maximum tokens of all texts together, as documented by the service.
        window: maximum estimated tokens of one text; a longer text is embedded in parts, and its vector is their mean.
    """

    texts: int
    tokens: int
    window: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Prefixes:
    """The prefixes of questions and texts, and their short name in a space's id."""

    name: str
    query: str = ""
    passage: str = ""


NO_PREFIXES: Final = Prefixes(name="none")
_KNOWN_PREFIXES: Final[Mapping[str, Prefixes]] = {
    "nomic-embed-text": Prefixes(name="search-query-document", query="search_query: ", passage="search_document: "),
    "mxbai-embed-large": Prefixes(
        name="represent-query", query="Represent this sentence for searching relevant passages: "
    ),
    "embeddinggemma": Prefixes(
        name="task-title", query="task: search result | query: ", passage="title: none | text: "
    ),
    "multilingual-e5": Prefixes(name="query-passage", query="query: ", passage="passage: "),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Service:
    """One embedding service with one model.

    Attributes:
        provider: its name in `embedding_model` and in the space's id.
        peer: the server.
        model: the model's name at the service.
        dimension: length of its vectors; None = found out by a request.
        fits: the limits of one request.
        prefixes: prefixes that are added here.
        input_type: the name, in the space's id, of prefixes that the server adds itself; empty = none.
        dollars: price per million tokens; None = unknown; 0 = free.
        body: builds the request for texts; the flag is True for questions.
        read: parses a reply; its exceptions for other formats are caught.
    """

    provider: str
    peer: ServiceAddress
    model: str
    dimension: int | None
    fits: RequestLimits
    prefixes: Prefixes = NO_PREFIXES
    input_type: str = ""
    dollars: float | None
    body: Callable[[Sequence[str], bool], Mapping[str, Any]]
    read: Callable[[Any], RawAnswer]


def prefixes_of(model: str) -> Prefixes:
    """Return the prefixes that a well-known open model was trained with, matched by part of its name."""
    name = model.casefold()
    return next((prefixes for part, prefixes in _KNOWN_PREFIXES.items() if part in name), NO_PREFIXES)


# An embedder behind a service: batches within the limits, checked replies, counted costs.
#
# The vector length is known for known models, or is set; otherwise one short text is embedded to find it out. From then
# on it is fixed: a server that answers with another length has another model, and its reply is rejected. A call
# succeeds completely or not at all. Lone surrogates and NUL are removed from texts, and an empty text is sent as a full
# stop, because services refuse empty texts.

_CHECK_SECONDS: Final = 5.0
_PROBE: Final = "ready?"
#: No service has longer vectors today; this bounds a reply only while the length is unknown.
_LONGEST_VECTOR: Final = 8192
#: Bytes per number in JSON, with its comma and some margin.
_BYTES_A_NUMBER: Final = 32
_ENVELOPE_BYTES: Final = 64 * 1024
#: Three questions of two seconds: a dead server delays a prompt by six seconds in total.
_FAILURES: Final = 3


class RemoteEmbedder:
    """Implements `Embedder` and `HealthChecked` over HTTP. Safe for several threads; `close` ends its connections."""

    def __init__(self, service: Service, options: EmbedderOptions, *, now: Callable[[], float] = monotonic) -> None:
        self._service = service
        self._who = str(service.peer)
        self._wire = JsonClient(service.peer)
        self._breaker = CircuitBreaker(options.rest_seconds, now, failures=_FAILURES)
        self._question = TimeLimits(each_seconds=options.query_seconds, all_seconds=options.query_seconds, tries=3)
        self._many = TimeLimits(
            each_seconds=options.passages_seconds, all_seconds=3 * options.passages_seconds, tries=5
        )
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
            EmbedderUnavailable: the vector length is neither known nor set, and the service does not answer.
        """
        service = self._service
        words = service.input_type or service.prefixes.name
        return space_of(service.provider, service.model, self._known_dimension(), pooling="service", prefix=words)

    @property
    def usage(self) -> EmbeddingUsage:
        """The cost of this embedder since it was created."""
        with self._counting:
            return self._usage

    def query(self, text: str) -> Vector:
        """Return the vector of a question, within the time limit for questions."""
        return self._embed([text], question=True)[0]

    def passages(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of passages."""
        if not texts:
            return np.empty((0, self._known_dimension()), dtype=np.float32)
        return self._embed(texts, question=False)

    def check(self) -> None:
        """Embed one short text, regardless of the circuit breaker; a success closes the breaker.

        Raises:
            EmbedderUnavailable: the request failed.
        """
        patience = TimeLimits(each_seconds=_CHECK_SECONDS, all_seconds=_CHECK_SECONDS, tries=2)
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
                str(rest), remedy="No data is lost: recall uses words only for now, and texts are embedded later."
            )

    def _embed(self, texts: Sequence[str], *, question: bool) -> Vectors:
        """Return vectors of whole texts; the vector of a long text is the mean of its parts, weighted by length."""
        dimension = self._known_dimension()
        self._enter()
        prefixes = self._service.prefixes
        prefix = prefixes.query if question else prefixes.passage
        owners: list[int] = []
        parts: list[str] = []
        for owner, text in enumerate(texts):
            for part in windows(without_invalid_characters(text), self._service.fits.window):
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
        """Yield the start and end of each batch within the limits of the service; sizes are bytes of UTF-8.

        There is no tokenizer here, so two bytes count as one token. Ordinary text has three to four bytes per token.
        Text with fewer (emoji) does not occur in hundreds of thousands of characters.
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

    def _ask(self, texts: Sequence[str], *, patience: TimeLimits, question: bool) -> Vectors:
        """Send one checked and counted request; a failure counts for the breaker unless the texts were refused."""
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
        self._count(texts, raw.tokens)  # the request was paid for, even if the vectors are rejected below
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


# Models that run in Ollama, on this machine or another one of the user. No key, no cost.
#
# The address is `embedding_url`, else OLLAMA_URL, else http://localhost:11434. Ollama truncates texts that are too long
# for a model, and some models read only 512 tokens, so long texts are sent in parts. Ollama reloads a model that was
# not used for a while. This can take longer than a question may wait; until then recall uses words only.

_OLLAMA_HOME: Final = "http://localhost:11434"
_OLLAMA_DIMENSIONS: Final[Mapping[str, int]] = {
    "nomic-embed-text": 768,
    "mxbai-embed-large": 1024,
    "all-minilm": 384,
    "bge-m3": 1024,
    "embeddinggemma": 768,
}
_OLLAMA_FITS: Final = RequestLimits(texts=32, tokens=16_000, window=WINDOW_TOKENS)


def ollama_embedder(options: EmbedderOptions) -> RemoteEmbedder:
    """Return the embedder for `ollama:MODEL`.

    Raises:
        BadConfig: no model, or no usable address.
    """
    model = options.model_of("ollama", "nomic-embed-text")
    name = model.removesuffix(":latest")
    own = _OLLAMA_DIMENSIONS.get(name)
    if options.url.strip():
        address = checked_address(options.url, setting="embedding_url")
    else:
        address = checked_address(options.environ.get("OLLAMA_URL", "").strip() or _OLLAMA_HOME, setting="OLLAMA_URL")

    def body(texts: Sequence[str], _question: bool) -> Mapping[str, Any]:
        asked: dict[str, Any] = {"model": model, "input": list(texts)}
        if options.dimensions and options.dimensions != own:
            asked["dimensions"] = options.dimensions
        return asked

    service = Service(
        provider="ollama",
        peer=ServiceAddress(name="Ollama", address=f"{address.removesuffix('/api/embed')}/api/embed"),
        model=name,
        dimension=options.dimensions or own,
        fits=_OLLAMA_FITS,
        prefixes=prefixes_of(name),
        dollars=0.0,
        body=body,
        read=parse_ollama,
    )
    return RemoteEmbedder(service, options)


# OpenAI's embeddings, and compatible servers: LM Studio, vLLM, llama.cpp, a company's gateway. Without an address the
# texts go to OpenAI, and OPENAI_API_KEY is required. With one (`embedding_url`) they go only there; the key is sent if
# it is set, but never unencrypted to another machine.

_OPENAI_HOME: Final = "https://api.openai.com/v1"
_OPENAI_KEY: Final = "OPENAI_API_KEY"
_OPENAI_DIMENSIONS: Final[Mapping[str, int]] = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}
#: Dollars per million tokens, as published by OpenAI in 2026.
_OPENAI_DOLLARS: Final[Mapping[str, float]] = {"text-embedding-3-small": 0.02, "text-embedding-3-large": 0.13}
#: OpenAI: 8,191 tokens per text, 300,000 per request. A window of 4,000 estimated tokens is well below.
_OPENAI_FITS: Final = RequestLimits(texts=256, tokens=300_000, window=4_000)
#: A self-hosted server: models with 512 tokens are common there, and memory may be limited.
_FITS_ELSEWHERE: Final = RequestLimits(texts=64, tokens=32_000, window=WINDOW_TOKENS)


def openai_embedder(options: EmbedderOptions) -> RemoteEmbedder:
    """Return the embedder for `openai:MODEL`.

    Raises:
        BadConfig: no model, no key for OpenAI itself, or no usable address.
    """
    model = options.model_of("openai", "text-embedding-3-small")
    key = options.key(_OPENAI_KEY)
    if not options.url.strip():
        if not key:
            raise BadConfig(
                f"OpenAI needs a key, and {_OPENAI_KEY} is not set.",
                remedy=f"Set {_OPENAI_KEY} in the daemon's environment, or `embedding_url` to a server of your own.",
            )
        peer = ServiceAddress(name="OpenAI", address=f"{_OPENAI_HOME}/embeddings", key=key)
        return RemoteEmbedder(_service(peer, model, options, at_home=True), options)
    address = _embeddings(checked_address(options.url, setting="embedding_url"))
    secret = is_loopback(address) or address.startswith("https:")
    peer = ServiceAddress(name="The embedding server", address=address, key=key if secret else "")
    return RemoteEmbedder(_service(peer, model, options, at_home=False), options)


def _service(peer: ServiceAddress, model: str, options: EmbedderOptions, *, at_home: bool) -> Service:
    own = _OPENAI_DIMENSIONS.get(model)

    def body(texts: Sequence[str], _question: bool) -> Mapping[str, Any]:
        asked: dict[str, Any] = {"model": model, "input": list(texts), "encoding_format": "float"}
        if options.dimensions and options.dimensions != own:
            asked["dimensions"] = options.dimensions
        return asked

    return Service(
        provider="openai",
        peer=peer,
        model=model,
        dimension=options.dimensions or own,
        fits=_OPENAI_FITS if at_home else _FITS_ELSEWHERE,
        prefixes=NO_PREFIXES if at_home else prefixes_of(model),
        dollars=_OPENAI_DOLLARS.get(model) if at_home else None,
        body=body,
        read=parse_openai,
    )


def _embeddings(address: str) -> str:
    """Return the full address; servers are given with or without `/v1`, and with or without `/embeddings`."""
    if address.endswith("/embeddings"):
        return address
    return f"{address}/embeddings" if urlsplit(address).path else f"{address}/v1/embeddings"


# Voyage AI's embeddings. Requests state whether a text is a query or a document, and Voyage adds its own prefixes.

_VOYAGE_HOME: Final = "https://api.voyageai.com/v1"
_VOYAGE_KEY: Final = "VOYAGE_API_KEY"
_VOYAGE_DIMENSIONS: Final[Mapping[str, int]] = dict.fromkeys(
    ("voyage-4-large", "voyage-4", "voyage-4-lite", "voyage-3-large", "voyage-3.5", "voyage-3.5-lite", "voyage-code-3"),
    1024,
)
#: Dollars per million tokens, as published by Voyage in 2026.
_VOYAGE_DOLLARS: Final[Mapping[str, float]] = {"voyage-3.5": 0.06, "voyage-3.5-lite": 0.02}
_LONGEST: Final = 4_000
#: Maximum tokens per request: 120,000 for the large and the specialised models, more for others.
_TOKENS: Final = 120_000
_MORE_TOKENS: Final[Mapping[str, int]] = {
    "voyage-4": 320_000,
    "voyage-3.5": 320_000,
    "voyage-4-lite": 1_000_000,
    "voyage-3.5-lite": 1_000_000,
}


def voyage_embedder(options: EmbedderOptions) -> RemoteEmbedder:
    """Return the embedder for `voyage:MODEL`.

    Raises:
        BadConfig: no model, no key, or no usable address.
    """
    model = options.model_of("voyage", "voyage-3.5-lite")
    key = options.key(_VOYAGE_KEY)
    if not key:
        raise BadConfig(
            f"Voyage needs a key, and {_VOYAGE_KEY} is not set.",
            remedy=f"Set {_VOYAGE_KEY} in the daemon's environment.",
        )
    given = options.url.strip()
    address = checked_address(given or _VOYAGE_HOME, setting="embedding_url").removesuffix("/embeddings")
    if not address.startswith("https:") and not is_loopback(address):
        raise BadConfig(
            "The key of Voyage would go unencrypted to another machine.", remedy="Give `embedding_url` with https://."
        )
    own = _VOYAGE_DIMENSIONS.get(model)

    def body(texts: Sequence[str], question: bool) -> Mapping[str, Any]:
        asked: dict[str, Any] = {
            "model": model,
            "input": list(texts),
            "input_type": "query" if question else "document",
        }
        if options.dimensions and options.dimensions != own:
            asked["output_dimension"] = options.dimensions
        return asked

    service = Service(
        provider="voyage",
        peer=ServiceAddress(name="Voyage", address=f"{address}/embeddings", key=key),
        model=model,
        dimension=options.dimensions or own,
        fits=RequestLimits(texts=256, tokens=_MORE_TOKENS.get(model, _TOKENS), window=_LONGEST),
        input_type="input-type",
        dollars=None if given else _VOYAGE_DOLLARS.get(model),
        body=body,
        read=parse_openai,
    )
    return RemoteEmbedder(service, options)
