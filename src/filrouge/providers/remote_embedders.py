"""Embedders behind a service: Ollama, OpenAI and whatever speaks like it, Voyage.

What differs between services is data; requests, retries, limits and checks are the same for all.
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
from filrouge.core.network import CircuitBreaker, checked_address, is_loopback
from filrouge.core.protocols import Vector, Vectors
from filrouge.providers.embedders import WINDOW_TOKENS, EmbedderOptions, sendable, unit_vectors, windows
from filrouge.providers.models import EmbeddingSpace, EmbeddingUsage

# One JSON request to a server that may be slow, gone, or hostile.
#
# Every request has an end in real time, which a server that sends one byte a second cannot move; that is why it runs
# on an event loop of its own thread, where waiting can be cancelled. Outages (no connection, 429, 5xx) are tried
# again after a growing and uneven pause, or the pause the server asks for; a refusal (400, 401, 403, 404) never is.
# Redirects are not followed: they would carry the texts to somebody whom nobody chose. A reply larger than the
# question allows for is not read to its end. Keys and texts are in no message: a server may repeat either in what it
# says.

T = TypeVar("T")
_BACK_OFF: Final = tenacity.wait_exponential(multiplier=0.2, max=8.0) + tenacity.wait_random(0.0, 0.3)
_AGAIN: Final = frozenset({408, 425, 429})
_MOST_SAID: Final = 200
#: A stretch of a text this long in a server's message counts as a quotation.
_QUOTED: Final = 12
_SHORTEST: Final = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Patience:
    """How long one request may take, and how long all its tries together."""

    each_seconds: float
    all_seconds: float
    tries: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Peer:
    """Whom to ask.

    Attributes:
        name: of the provider, as a person reads it.
        address: of its embeddings, whole.
        key: sent as a bearer token; empty = none.
    """

    name: str
    address: str
    key: str = field(default="", repr=False)

    def __str__(self) -> str:
        return f"{self.name} ({urlsplit(self.address).netloc})"


class Refused(EmbedderUnavailable):
    """The embedding server refused these texts, and others may pass."""


class _Outage(Exception):
    """Worth another try; `after` is the pause that the server asked for, in seconds."""

    def __init__(self, cause: str, after: float | None = None) -> None:
        super().__init__(cause)
        self.after = after


class Wire:
    """Sends JSON to one peer and reads JSON back. Safe for several threads; connections are kept."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: httpx.AsyncClient | None = None

    def post(self, body: Mapping[str, Any], *, texts: Sequence[str], most_bytes: int, patience: Patience) -> Any:
        """The reply's JSON.

        Args:
            body: what to send.
            texts: what must not come back in a message.
            most_bytes: of the reply.
            patience: how long to wait and how often to try.

        Raises:
            EmbedderUnavailable: with the cause; `Refused` where it lies in these texts.
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
                # Proxies of the environment are for the world outside, never for this machine.
                outside = not is_loopback(self.peer.address)
                # The list of authorities takes 50 ms to read, and plain HTTP on this machine needs none.
                verify = outside or self.peer.address.startswith("https:")
                self._client = httpx.AsyncClient(trust_env=outside, verify=verify, follow_redirects=False)
                Thread(target=_turn, args=(self._loop,), name="filrouge-embedding", daemon=True).start()
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def _within(self, body: Mapping[str, Any], texts: Sequence[str], most_bytes: int, patience: Patience) -> Any:
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
        # Without compression a reply is as large as what is received, and no small one unpacks to gigabytes.
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
                remedy="Check `embedding_url`: an embedding server must stand there.",
            ) from error

    def _problem(self, response: httpx.Response, said: str) -> Exception:
        """What a status means: an outage, a refusal of these texts, or one that somebody has to mend."""
        status = response.status_code
        told = f": {said}" if said else ""
        if "insufficient_quota" in said:
            return EmbedderUnavailable(
                f"{self.peer} says that the credit is used up.", remedy="See your account there."
            )
        if status in _AGAIN or status >= 500:
            return _Outage(f"answered {status}{told}", _asked_pause(response.headers.get("Retry-After", "")))
        if status in (401, 403):  # a server may repeat the key it was given, so its words are left out
            cause = "does not accept the key" if self.peer.key else "wants a key"
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
        """A server's words on one line, without the key; nothing where they quote a text."""
        said = " ".join(said.split())
        for text in texts:
            flat = " ".join(text.split())
            stretches = (flat[at : at + _QUOTED] for at in range(0, max(1, len(flat) - _QUOTED + 1), _QUOTED))
            if len(flat) >= _SHORTEST and any(stretch in said for stretch in stretches):
                return ""
        return (said.replace(self.peer.key, "***") if self.peer.key else said)[:_MOST_SAID].rstrip(".")


_WAIT: Final = "Nothing is lost: recall goes by words meanwhile, and texts wait for their vectors."


def _turn(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:  # whoever waits for them is told
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def _pause(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = error.after if isinstance(error, _Outage) else None
    return _BACK_OFF(state) if asked is None else asked


def _asked_pause(header: str) -> float | None:
    """Seconds of a Retry-After: a number, or the date when to come back."""
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
    """What an error's body says: `{"error": {"message", "code"}}`, `{"error": "…"}` or `{"detail": "…"}`."""
    try:
        found: Any = json.loads(reply)
        said: Any = found.get("error") or found.get("detail") or ""
        if not isinstance(said, str):
            said = f"{said.get('message') or ''} {said.get('code') or ''}"
    except (ValueError, RecursionError, AttributeError):
        return ""
    return said.strip()


# The two shapes in which services answer: OpenAI's, which Voyage and many servers share, and Ollama's.


@dataclass(frozen=True, kw_only=True, slots=True)
class RawAnswer:
    """The lists of numbers in a reply, in the order of the texts, and the tokens it counted (None: it did not)."""

    vectors: Sequence[Any]
    tokens: int | None


def of_openai(reply: Any) -> RawAnswer:
    """From `{"data": [{"index", "embedding"}], "usage": {"prompt_tokens" or "total_tokens"}}`.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: it has another shape.
    """
    items = list(reply["data"])
    places = [item.get("index") for item in items]
    if any(place is not None for place in places):  # some servers answer in the order in which they finish
        if sorted(places) != list(range(len(items))):
            raise ValueError("places are missing or double")
        items.sort(key=lambda item: item["index"])
    usage: dict[str, Any] = reply.get("usage") or {}
    return RawAnswer(
        vectors=[item["embedding"] for item in items],
        tokens=_count(usage.get("total_tokens", usage.get("prompt_tokens"))),
    )


def of_ollama(reply: Any) -> RawAnswer:
    """From `{"embeddings": [[…]], "prompt_eval_count"}`.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: it has another shape.
    """
    return RawAnswer(vectors=list(reply["embeddings"]), tokens=_count(reply.get("prompt_eval_count")))


def _count(given: Any) -> int | None:
    """A number of tokens; nothing where the server says 0, which some do for everything."""
    return given if isinstance(given, int) and given > 0 else None


# What differs between embedding services, as data: where, which model, what fits into a request, what it costs.
#
# Everything else (batches, retries, checks, cost) is the same for all and stands in `embedder`. Some models were
# trained with words in front of questions or texts; where the server does not add them itself they are added here,
# and they are part of the space's id.


@dataclass(frozen=True, kw_only=True, slots=True)
class Fits:
    """What one request may hold.

    Attributes:
        texts: how many. Fewer than the services allow (OpenAI 2,048, Voyage 1,000), so that a reply of the
            longest vectors stays within some ten megabytes.
        tokens: of all texts together, as the service says it.
        window: estimated tokens of one text; a longer one is embedded in parts, whose mean is its vector.
    """

    texts: int
    tokens: int
    window: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Prefixes:
    """Words in front of what is embedded, and the short name they have in a space's id."""

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
        peer: whom to ask.
        model: its name there.
        dimension: length of its vectors; None = to be learned by asking.
        fits: what one request may hold.
        prefixes: words that are put in front here.
        input_type: the name of what the server itself puts in front, for the space's id; empty = nothing.
        dollars: per million tokens; None = not known; 0 = it costs nothing.
        body: the request for texts; the flag says that they are questions.
        read: the answer in a reply; what it raises on another shape is caught.
    """

    provider: str
    peer: Peer
    model: str
    dimension: int | None
    fits: Fits
    prefixes: Prefixes = NO_PREFIXES
    input_type: str = ""
    dollars: float | None
    body: Callable[[Sequence[str], bool], Mapping[str, Any]]
    read: Callable[[Any], RawAnswer]


def prefixes_of(model: str) -> Prefixes:
    """The words that a well-known open model was trained with, by a part of its name."""
    name = model.casefold()
    return next((prefixes for part, prefixes in _KNOWN_PREFIXES.items() if part in name), NO_PREFIXES)


# An embedder behind a service: batches that fit, answers that are checked, costs that are counted.
#
# The length of the vectors is known for known models, or set; else one short text is embedded to learn it. From then
# on it is fixed: a server that answers with another length has another model, and nothing of what it says is used. A
# call succeeds whole or not at all. Texts are made sendable (no lone surrogates, no NUL), and an empty one is sent as
# a full stop, since services refuse empty texts.

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


# Models that run in Ollama, on this machine or another of one's own. No key, no cost.
#
# The address is `embedding_url`, else OLLAMA_URL, else http://localhost:11434. Ollama cuts what a model cannot read,
# and some read no more than 512 tokens, so long texts are sent in parts. A model unused for a while is loaded again,
# which can take longer than a question may wait: recall goes by words until it is there.

_OLLAMA_HOME: Final = "http://localhost:11434"
_OLLAMA_DIMENSIONS: Final[Mapping[str, int]] = {
    "nomic-embed-text": 768,
    "mxbai-embed-large": 1024,
    "all-minilm": 384,
    "bge-m3": 1024,
    "embeddinggemma": 768,
}
_OLLAMA_FITS: Final = Fits(texts=32, tokens=16_000, window=WINDOW_TOKENS)


def ollama_embedder(options: EmbedderOptions) -> RemoteEmbedder:
    """The embedder for `ollama:MODEL`.

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
        peer=Peer(name="Ollama", address=f"{address.removesuffix('/api/embed')}/api/embed"),
        model=name,
        dimension=options.dimensions or own,
        fits=_OLLAMA_FITS,
        prefixes=prefixes_of(name),
        dollars=0.0,
        body=body,
        read=of_ollama,
    )
    return RemoteEmbedder(service, options)


# OpenAI's embeddings, and every server that speaks the same: LM Studio, vLLM, llama.cpp, a company's gateway.
#
# Without an address the texts go to OpenAI, and OPENAI_API_KEY is needed. With one (`embedding_url`) they go there
# and nowhere else; the key goes along if it is set, but never unencrypted to another machine.

_OPENAI_HOME: Final = "https://api.openai.com/v1"
_OPENAI_KEY: Final = "OPENAI_API_KEY"
_OPENAI_DIMENSIONS: Final[Mapping[str, int]] = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}
#: Dollars for a million tokens, as OpenAI published them in 2026.
_OPENAI_DOLLARS: Final[Mapping[str, float]] = {"text-embedding-3-small": 0.02, "text-embedding-3-large": 0.13}
#: OpenAI: 8,191 tokens a text, 300,000 a request. A window of 4,000 estimated ones is well below.
_OPENAI_FITS: Final = Fits(texts=256, tokens=300_000, window=4_000)
#: A server at home: models of 512 tokens are common there, and it may have little memory.
_FITS_ELSEWHERE: Final = Fits(texts=64, tokens=32_000, window=WINDOW_TOKENS)


def openai_embedder(options: EmbedderOptions) -> RemoteEmbedder:
    """The embedder for `openai:MODEL`.

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
        peer = Peer(name="OpenAI", address=f"{_OPENAI_HOME}/embeddings", key=key)
        return RemoteEmbedder(_service(peer, model, options, at_home=True), options)
    address = _embeddings(checked_address(options.url, setting="embedding_url"))
    secret = is_loopback(address) or address.startswith("https:")
    peer = Peer(name="The embedding server", address=address, key=key if secret else "")
    return RemoteEmbedder(_service(peer, model, options, at_home=False), options)


def _service(peer: Peer, model: str, options: EmbedderOptions, *, at_home: bool) -> Service:
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
        read=of_openai,
    )


def _embeddings(address: str) -> str:
    """The whole address: servers are named with or without `/v1`, and with or without what follows it."""
    if address.endswith("/embeddings"):
        return address
    return f"{address}/embeddings" if urlsplit(address).path else f"{address}/v1/embeddings"


# Voyage AI's embeddings. Voyage is told what is a question and what a document, and adds its own words in front.

_VOYAGE_HOME: Final = "https://api.voyageai.com/v1"
_VOYAGE_KEY: Final = "VOYAGE_API_KEY"
_VOYAGE_DIMENSIONS: Final[Mapping[str, int]] = dict.fromkeys(
    ("voyage-4-large", "voyage-4", "voyage-4-lite", "voyage-3-large", "voyage-3.5", "voyage-3.5-lite", "voyage-code-3"),
    1024,
)
#: Dollars for a million tokens, as Voyage published them in 2026.
_VOYAGE_DOLLARS: Final[Mapping[str, float]] = {"voyage-3.5": 0.06, "voyage-3.5-lite": 0.02}
_LONGEST: Final = 4_000
#: Tokens of one request: 120,000 for the large and the special models, more for others.
_TOKENS: Final = 120_000
_MORE_TOKENS: Final[Mapping[str, int]] = {
    "voyage-4": 320_000,
    "voyage-3.5": 320_000,
    "voyage-4-lite": 1_000_000,
    "voyage-3.5-lite": 1_000_000,
}


def voyage_embedder(options: EmbedderOptions) -> RemoteEmbedder:
    """The embedder for `voyage:MODEL`.

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
        peer=Peer(name="Voyage", address=f"{address}/embeddings", key=key),
        model=model,
        dimension=options.dimensions or own,
        fits=Fits(texts=256, tokens=_MORE_TOKENS.get(model, _TOKENS), window=_LONGEST),
        input_type="input-type",
        dollars=None if given else _VOYAGE_DOLLARS.get(model),
        body=body,
        read=of_openai,
    )
    return RemoteEmbedder(service, options)
