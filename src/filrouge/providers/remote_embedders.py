"""Embedders behind an HTTP service: Ollama, OpenAI and compatible servers, Voyage.

The differences between services are data (`Service`). Requests, batches, retries, limits, checks and cost accounting
are the same for all (`JsonClient`, `RemoteEmbedder`).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from threading import Lock, Thread
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import httpx
import numpy as np
import tenacity
from msgspec import Struct

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
_RETRIED_STATUSES: Final = frozenset({408, 425, 429})
_MAX_MESSAGE_CHARS: Final = 200
#: This many consecutive characters of a text in a server's message count as a quotation.
_MIN_QUOTE_CHARS: Final = 12
_MIN_TEXT_CHARS: Final = 4


class TimeLimits(Struct, frozen=True, kw_only=True):
    """How long a request may take.

    Attributes:
        request_seconds: time limit of one attempt.
        total_seconds: time limit of all attempts and the pauses between them.
        max_attempts: number of attempts.
    """

    request_seconds: float
    total_seconds: float
    max_attempts: int


class ServiceAddress(Struct, frozen=True, kw_only=True):
    """The server to send requests to.

    Attributes:
        name: display name of the provider.
        address: full address of its embeddings endpoint.
        key: sent as a bearer token; empty = none.
    """

    name: str
    address: str
    key: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({urlsplit(self.address).netloc})"

    def __repr__(self) -> str:
        return f"ServiceAddress(name={self.name!r}, address={self.address!r})"  # never the key


class Refused(EmbedderUnavailable):
    """The embedding server refused these texts; it may accept others."""


class _Outage(Exception):
    """A failure worth retrying; `retry_after` is the pause that the server requested, in seconds."""

    def __init__(self, cause: str, retry_after: float | None = None) -> None:
        super().__init__(cause)
        self.retry_after = retry_after


class JsonClient:
    """Sends JSON to one peer and reads JSON back. Safe for several threads; connections are kept open."""

    def __init__(self, peer: ServiceAddress) -> None:
        self.peer = peer
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: httpx.AsyncClient | None = None

    def post(self, body: Mapping[str, Any], *, texts: Sequence[str], max_bytes: int, time_limits: TimeLimits) -> Any:
        """Return the JSON of the reply.

        Args:
            body: the request.
            texts: texts that must not be quoted in an error message.
            max_bytes: maximum size of the reply.
            time_limits: time limits and number of attempts.

        Raises:
            EmbedderUnavailable: the request failed; `Refused` if the server refused these texts.
        """
        return self._run(self._post_with_retries(body, texts, max_bytes, time_limits))

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
                is_remote = not is_loopback(self.peer.address)
                # Loading the CA certificates takes 50 ms, and plain HTTP on this machine does not need them.
                verify = is_remote or self.peer.address.startswith("https:")
                self._client = httpx.AsyncClient(trust_env=is_remote, verify=verify, follow_redirects=False)
                Thread(target=_run_loop, args=(self._loop,), name="filrouge-embedding", daemon=True).start()
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        with on_failure(future.cancel):
            return future.result()

    async def _post_with_retries(
        self, body: Mapping[str, Any], texts: Sequence[str], max_bytes: int, time_limits: TimeLimits
    ) -> Any:
        attempts = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(_Outage),
            wait=_wait_seconds,
            stop=tenacity.stop_after_attempt(time_limits.max_attempts)
            | tenacity.stop_before_delay(time_limits.total_seconds),
            reraise=True,
        )
        content = json.dumps(body).encode()
        try:
            async with asyncio.timeout(time_limits.total_seconds):
                return await attempts(self._post_once, content, texts, max_bytes, time_limits.request_seconds)
        except _Outage as error:
            raise EmbedderUnavailable(f"{self.peer} {error}.", remedy=_WAIT_REMEDY) from error.__cause__
        except TimeoutError as error:
            raise EmbedderUnavailable(
                f"{self.peer} did not answer within {time_limits.total_seconds:g} s.", remedy=_WAIT_REMEDY
            ) from error

    async def _post_once(self, content: bytes, texts: Sequence[str], max_bytes: int, seconds: float) -> Any:
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
                reply = await self._read(response, max_bytes)
        except (TimeoutError, httpx.TimeoutException) as error:
            raise _Outage(f"did not answer within {seconds:g} s") from error
        except httpx.TransportError as error:
            raise _Outage(
                f"cannot be reached: {self._clean_message(str(error) or type(error).__name__, ())}"
            ) from error
        if response.status_code == 200:
            return self._json(reply)
        raise self._error_of_status(response, self._clean_message(_error_message(reply), texts))

    async def _read(self, response: httpx.Response, max_bytes: int) -> bytes:
        content = bytearray()
        async for chunk in response.aiter_raw():
            content += chunk
            if len(content) > max_bytes:
                raise EmbedderUnavailable(f"{self.peer} sent more than {max_bytes} bytes, which no answer needs.")
        return bytes(content)

    def _json(self, reply: bytes) -> Any:
        try:
            return json.loads(reply)
        except (ValueError, RecursionError) as error:
            raise EmbedderUnavailable(
                f"{self.peer} answered with something that is not JSON.",
                remedy="Check that `embedding_url` is the address of an embedding server.",
            ) from error

    def _error_of_status(self, response: httpx.Response, message: str) -> Exception:
        """Map a status to an error: an outage, a refusal of these texts, or a problem that the user must fix."""
        status = response.status_code
        suffix = f": {message}" if message else ""
        if "insufficient_quota" in message:
            return EmbedderUnavailable(
                f"{self.peer} says that the credit is used up.", remedy="See your account there."
            )
        if status in _RETRIED_STATUSES or status >= 500:
            return _Outage(f"answered {status}{suffix}", _parse_retry_after(response.headers.get("Retry-After", "")))
        if status in (401, 403):  # a server may echo the key, so its message is left out
            cause = "does not accept the key" if self.peer.key else "requires a key"
            return EmbedderUnavailable(f"{self.peer} {cause} ({status}).", remedy="Set the right key; see the guide.")
        if status == 404:
            return EmbedderUnavailable(
                f"{self.peer} does not know the model or the address (404){suffix}.",
                remedy="Check `embedding_model` and `embedding_url`; Ollama: `ollama pull MODEL`.",
            )
        if 300 <= status < 400:
            return EmbedderUnavailable(
                f"{self.peer} redirects elsewhere ({status}), which is not followed.",
                remedy="If that is meant, set `embedding_url` to the new address.",
            )
        return Refused(f"{self.peer} refused the request ({status}){suffix}.", remedy="Check `embedding_model`.")

    def _clean_message(self, message: str, texts: Sequence[str]) -> str:
        """Return a server's message on one line, without the key; empty if it quotes one of the texts."""
        message = " ".join(message.split())
        for text in texts:
            flat_text = " ".join(text.split())
            samples = (
                flat_text[start : start + _MIN_QUOTE_CHARS]
                for start in range(0, max(1, len(flat_text) - _MIN_QUOTE_CHARS + 1), _MIN_QUOTE_CHARS)
            )
            if len(flat_text) >= _MIN_TEXT_CHARS and any(sample in message for sample in samples):
                return ""
        return (message.replace(self.peer.key, "***") if self.peer.key else message)[:_MAX_MESSAGE_CHARS].rstrip(".")


_WAIT_REMEDY: Final = "No data is lost: recall uses words only for now, and texts are embedded later."


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        tasks = asyncio.all_tasks(loop)
        for task in tasks:  # callers waiting for a task get a cancellation
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def _wait_seconds(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    requested = error.retry_after if isinstance(error, _Outage) else None
    return _BACK_OFF(state) if requested is None else requested


def _parse_retry_after(header: str) -> float | None:
    """Return the seconds of a Retry-After header, which is a number or a date."""
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        retry_at = parsedate_to_datetime(header)
    except ValueError:
        return None
    return max(
        0.0, ((retry_at if retry_at.tzinfo else retry_at.replace(tzinfo=UTC)) - datetime.now(UTC)).total_seconds()
    )


def _error_message(reply: bytes) -> str:
    """Return the message in an error body: `{"error": {"message", "code"}}`, `{"error": "…"}` or `{"detail": "…"}`."""
    try:
        body: Any = json.loads(reply)
        message: Any = body.get("error") or body.get("detail") or ""
        if not isinstance(message, str):
            message = f"{message.get('message') or ''} {message.get('code') or ''}"
    except (ValueError, RecursionError, AttributeError):
        return ""
    return message.strip()


# The two reply formats: OpenAI's, which Voyage and many servers share, and Ollama's.


class RawAnswer(Struct, frozen=True, kw_only=True):
    """The content of a reply.

    Attributes:
        vectors: unchecked vectors, in the order of the texts.
        tokens: the number of tokens; None if the server did not report it.
    """

    vectors: Sequence[Any]
    tokens: int | None


def parse_openai(reply: Any) -> RawAnswer:
    """Parse `{"data": [{"index", "embedding"}], "usage": {"prompt_tokens" or "total_tokens"}}`.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: it has another shape.
    """
    items = list(reply["data"])
    indices = [item.get("index") for item in items]
    if any(index is not None for index in indices):  # some servers return items in order of completion
        if sorted(indices) != list(range(len(items))):
            raise ValueError("an index is missing or occurs twice")
        items.sort(key=lambda item: item["index"])
    usage: dict[str, Any] = reply.get("usage") or {}
    return RawAnswer(
        vectors=[item["embedding"] for item in items],
        tokens=_count_or_none(usage.get("total_tokens", usage.get("prompt_tokens"))),
    )


def parse_ollama(reply: Any) -> RawAnswer:
    """Parse `{"embeddings": [[…]], "prompt_eval_count"}`.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: it has another shape.
    """
    return RawAnswer(vectors=list(reply["embeddings"]), tokens=_count_or_none(reply.get("prompt_eval_count")))


def _count_or_none(count: Any) -> int | None:
    """Return a token count; None for 0, which some servers always report."""
    return count if isinstance(count, int) and count > 0 else None


# The differences between embedding services, as data: address, model, request limits, price. Some models were trained
# with prefixes before questions or texts. If the server does not add them, they are added here; they are part of the
# space's id.


class RequestLimits(Struct, frozen=True, kw_only=True):
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


class Prefixes(Struct, frozen=True, kw_only=True):
    """The prefixes that a model was trained with.

    Attributes:
        name: their short name in a space's id.
        query: put before a question.
        passage: put before a text.
    """

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


class Service(Struct, frozen=True, kw_only=True):
    """One embedding service with one model.

    Attributes:
        provider: its name in `embedding_model` and in the space's id.
        peer: the server.
        model: the model's name at the service.
        dimension: length of its vectors; None = found out by a request.
        limits: the limits of one request.
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
    limits: RequestLimits
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
_MAX_DIMENSION: Final = 8192
#: Bytes per number in JSON, with its comma and some margin.
_BYTES_PER_NUMBER: Final = 32
_ENVELOPE_BYTES: Final = 64 * 1024
#: Three questions of two seconds: a dead server delays prompts by six seconds in total.
_MAX_FAILURES: Final = 3


class RemoteEmbedder:
    """Implements `Embedder` and `HealthChecked` over HTTP. Safe for several threads; `close` ends its connections."""

    def __init__(self, service: Service, options: EmbedderOptions, *, now: Callable[[], float] = monotonic) -> None:
        self._service = service
        self._sender = str(service.peer)
        self._client = JsonClient(service.peer)
        self._breaker = CircuitBreaker(options.rest_seconds, now, failures=_MAX_FAILURES)
        self._query_limits = TimeLimits(
            request_seconds=options.query_seconds, total_seconds=options.query_seconds, max_attempts=3
        )
        self._passage_limits = TimeLimits(
            request_seconds=options.passages_seconds, total_seconds=3 * options.passages_seconds, max_attempts=5
        )
        self._spent = options.spent
        self._dimension = service.dimension
        self._learning = Lock()
        self._counting = Lock()
        self._usage = EmbeddingUsage()

    def __repr__(self) -> str:
        return f"<{self._service.provider}:{self._service.model} at {self._sender}>"

    @property
    def space(self) -> EmbeddingSpace:
        """The space of these vectors.

        Raises:
            EmbedderUnavailable: the vector length is neither known nor set, and the service does not answer.
        """
        service = self._service
        prefix_name = service.input_type or service.prefixes.name
        return space_of(service.provider, service.model, self._known_dimension(), pooling="service", prefix=prefix_name)

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
        time_limits = TimeLimits(request_seconds=_CHECK_SECONDS, total_seconds=_CHECK_SECONDS, max_attempts=2)
        found = self._request([_PROBE], time_limits=time_limits, question=False)
        with self._learning:
            self._dimension = self._dimension or found.shape[1]

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        self._client.close()

    def _known_dimension(self) -> int:
        if self._dimension is None:
            self._check_breaker()
            self.check()
        assert self._dimension is not None
        return self._dimension

    def _check_breaker(self) -> None:
        if rest := self._breaker.enter():
            raise EmbedderUnavailable(
                str(rest), remedy="No data is lost: recall uses words only for now, and texts are embedded later."
            )

    def _embed(self, texts: Sequence[str], *, question: bool) -> Vectors:
        """Return vectors of whole texts; the vector of a long text is the mean of its parts, weighted by length."""
        dimension = self._known_dimension()
        self._check_breaker()
        prefixes = self._service.prefixes
        prefix = prefixes.query if question else prefixes.passage
        owners: list[int] = []
        parts: list[str] = []
        for owner, text in enumerate(texts):
            for part in windows(without_invalid_characters(text), self._service.limits.window):
                owners.append(owner)
                parts.append(part or ".")
        sums = np.zeros((len(texts), dimension), dtype=np.float32)
        time_limits = self._query_limits if question else self._passage_limits
        for start, stop in self._batches([len(prefix) + len(part.encode()) for part in parts]):
            vectors = self._request(
                [prefix + part for part in parts[start:stop]], time_limits=time_limits, question=question
            )
            for index, vector in enumerate(vectors, start):
                sums[owners[index]] += vector * len(parts[index])
        return sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), np.float32(1e-12))

    def _batches(self, sizes: Sequence[int]) -> Generator[tuple[int, int]]:
        """Yield the start and end of each batch within the limits of the service; sizes are bytes of UTF-8.

        There is no tokenizer here, so two bytes count as one token. Ordinary text has three to four bytes per token.
        Text with fewer (emoji) does not occur in hundreds of thousands of characters.
        """
        limits = self._service.limits
        start = tokens = 0
        for index, size in enumerate(sizes):
            if index > start and (index - start == limits.texts or tokens + size // 2 + 1 > limits.tokens):
                yield start, index
                start, tokens = index, 0
            tokens += size // 2 + 1
        if start < len(sizes):
            yield start, len(sizes)

    def _request(self, texts: Sequence[str], *, time_limits: TimeLimits, question: bool) -> Vectors:
        """Send one checked and counted request; a failure counts for the breaker unless the texts were refused."""
        max_bytes = _ENVELOPE_BYTES + len(texts) * (self._dimension or _MAX_DIMENSION) * _BYTES_PER_NUMBER
        try:
            reply = self._client.post(
                self._service.body(texts, question), texts=texts, max_bytes=max_bytes, time_limits=time_limits
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
                f"{self._sender} answered with something that is not a list of vectors.",
                remedy="Check that `embedding_url` is the address of an embedding server of this kind.",
            ) from error
        self._count_usage(texts, raw.tokens)  # the request was paid for, even if the vectors are rejected below
        return unit_vectors(raw.vectors, texts=len(texts), dimension=self._dimension, sender=self._sender)

    def _count_usage(self, texts: Sequence[str], reported_tokens: int | None) -> None:
        tokens = reported_tokens or sum(len(text.encode()) // 4 + 1 for text in texts)
        price = self._service.dollars
        cost = EmbeddingUsage(
            requests=1,
            texts=len(texts),
            tokens=tokens,
            estimated=reported_tokens is None,
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
_OLLAMA_LIMITS: Final = RequestLimits(texts=32, tokens=16_000, window=WINDOW_TOKENS)


def ollama_embedder(options: EmbedderOptions) -> RemoteEmbedder:
    """Return the embedder for `ollama:MODEL`.

    Raises:
        BadConfig: no model, or no usable address.
    """
    model = options.model_of("ollama", "nomic-embed-text")
    name = model.removesuffix(":latest")
    model_dimension = _OLLAMA_DIMENSIONS.get(name)
    if options.url.strip():
        address = checked_address(options.url, setting="embedding_url")
    else:
        address = checked_address(options.environ.get("OLLAMA_URL", "").strip() or _OLLAMA_HOME, setting="OLLAMA_URL")

    def body(texts: Sequence[str], _question: bool) -> Mapping[str, Any]:
        request: dict[str, Any] = {"model": model, "input": list(texts)}
        if options.dimensions and options.dimensions != model_dimension:
            request["dimensions"] = options.dimensions
        return request

    service = Service(
        provider="ollama",
        peer=ServiceAddress(name="Ollama", address=f"{address.removesuffix('/api/embed')}/api/embed"),
        model=name,
        dimension=options.dimensions or model_dimension,
        limits=_OLLAMA_LIMITS,
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
_OPENAI_LIMITS: Final = RequestLimits(texts=256, tokens=300_000, window=4_000)
#: A self-hosted server: models with 512 tokens are common there, and memory may be limited.
_OTHER_SERVER_LIMITS: Final = RequestLimits(texts=64, tokens=32_000, window=WINDOW_TOKENS)


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
        return RemoteEmbedder(_openai_service(peer, model, options, is_openai=True), options)
    address = _embeddings_address(checked_address(options.url, setting="embedding_url"))
    may_send_key = is_loopback(address) or address.startswith("https:")
    peer = ServiceAddress(name="The embedding server", address=address, key=key if may_send_key else "")
    return RemoteEmbedder(_openai_service(peer, model, options, is_openai=False), options)


def _openai_service(peer: ServiceAddress, model: str, options: EmbedderOptions, *, is_openai: bool) -> Service:
    model_dimension = _OPENAI_DIMENSIONS.get(model)

    def body(texts: Sequence[str], _question: bool) -> Mapping[str, Any]:
        request: dict[str, Any] = {"model": model, "input": list(texts), "encoding_format": "float"}
        if options.dimensions and options.dimensions != model_dimension:
            request["dimensions"] = options.dimensions
        return request

    return Service(
        provider="openai",
        peer=peer,
        model=model,
        dimension=options.dimensions or model_dimension,
        limits=_OPENAI_LIMITS if is_openai else _OTHER_SERVER_LIMITS,
        prefixes=NO_PREFIXES if is_openai else prefixes_of(model),
        dollars=_OPENAI_DOLLARS.get(model) if is_openai else None,
        body=body,
        read=parse_openai,
    )


def _embeddings_address(address: str) -> str:
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
_VOYAGE_WINDOW_TOKENS: Final = 4_000
#: Maximum tokens per request: 120,000 for the large and the specialised models, more for others.
_VOYAGE_REQUEST_TOKENS: Final = 120_000
_VOYAGE_REQUEST_TOKENS_OF_MODEL: Final[Mapping[str, int]] = {
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
    configured = options.url.strip()
    address = checked_address(configured or _VOYAGE_HOME, setting="embedding_url").removesuffix("/embeddings")
    if not address.startswith("https:") and not is_loopback(address):
        raise BadConfig(
            "The key of Voyage would go unencrypted to another machine.", remedy="Give `embedding_url` with https://."
        )
    model_dimension = _VOYAGE_DIMENSIONS.get(model)

    def body(texts: Sequence[str], question: bool) -> Mapping[str, Any]:
        request: dict[str, Any] = {
            "model": model,
            "input": list(texts),
            "input_type": "query" if question else "document",
        }
        if options.dimensions and options.dimensions != model_dimension:
            request["output_dimension"] = options.dimensions
        return request

    service = Service(
        provider="voyage",
        peer=ServiceAddress(name="Voyage", address=f"{address}/embeddings", key=key),
        model=model,
        dimension=options.dimensions or model_dimension,
        limits=RequestLimits(
            texts=256,
            tokens=_VOYAGE_REQUEST_TOKENS_OF_MODEL.get(model, _VOYAGE_REQUEST_TOKENS),
            window=_VOYAGE_WINDOW_TOKENS,
        ),
        input_type="input-type",
        dollars=None if configured else _VOYAGE_DOLLARS.get(model),
        body=body,
        read=parse_openai,
    )
    return RemoteEmbedder(service, options)
