"""One JSON request to a server that may be slow, gone, or hostile.

Every request has an end in real time, which a server that sends one byte a second cannot move; that is why it runs on
an event loop of its own thread, where waiting can be cancelled. Outages (no connection, 429, 5xx) are tried again
after a growing and uneven pause, or the pause the server asks for; a refusal (400, 401, 403, 404) never is. Redirects
are not followed: they would carry the texts to somebody whom nobody chose. A reply larger than the question allows for
is not read to its end. Keys and texts are in no message: a server may repeat either in what it says.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from threading import Lock, Thread
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import httpx
import tenacity

from filrouge.address import is_loopback
from filrouge.errors import EmbedderUnavailable

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
