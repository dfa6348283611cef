"""The HTTP client for all providers that are servers, with a limit on how much is read.

A reply is cut off at a size that no answer needs. Compression is not requested, and a compressed reply is refused,
because a small one may unpack to gigabytes. Redirects are not followed, because they would send the texts to a server
that the user did not choose. Proxies from the environment are never used for addresses on this machine. The client has
no time-out; the caller cancels the request at its own time limit.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any

import httpx2

from filrouge.core.errors import ModelUnavailable
from filrouge.core.network import is_loopback
from filrouge.providers.language_models import MAX_REPLY_BYTES, ModelIdentity

for _logger_name in ("httpx2", "httpcore2"):  # addresses and headers must not be logged at any level
    logging.getLogger(_logger_name).setLevel(logging.WARNING)


class ReplyTooLarge(httpx2.ReadError):
    """A reply that is longer than any answer, or compressed."""


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        async for chunk in self._stream:
            read += len(chunk)
            if read > MAX_REPLY_BYTES:
                raise ReplyTooLarge("the reply is too long")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _limit_reply(response: httpx2.Response) -> None:
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise ReplyTooLarge("the reply is packed")
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _Bounded(response.stream)


def client(address: str, dropped_headers: Collection[str] = ()) -> httpx2.AsyncClient:
    """Return a client for the server at `address`, to be used on one event loop.

    Args:
        address: scheme, host and port; a path is ignored.
        dropped_headers: headers that are never sent; an SDK may add headers from variables in the environment.
    """
    is_remote = not is_loopback(address)

    async def remove_headers(request: httpx2.Request) -> None:
        for name in dropped_headers:
            request.headers.pop(name, None)

    return httpx2.AsyncClient(
        headers={"Accept-Encoding": "identity"},
        event_hooks={"request": [remove_headers], "response": [_limit_reply]},
        follow_redirects=False,
        timeout=None,
        trust_env=is_remote,
        # Loading the CA certificates takes 50 ms, and plain HTTP on this machine does not need them.
        verify=is_remote or address.startswith("https:"),
    )


def status_failure(identity: ModelIdentity, status: int, retry_after: str = "") -> ModelUnavailable:
    """Return the error for a status other than 200."""
    pause = parse_retry_after(retry_after)
    if status == 429:
        return identity.failure("rate_limit", "rate limit reached (429)", retry_after=pause)
    if status in (401, 403):
        return identity.failure("configuration", f"does not accept the key ({status})")
    if status == 402:
        return identity.failure("configuration", "says that the credit is used up (402)")
    if status == 404:
        return identity.failure("configuration", "does not know the model or the address (404)")
    if 300 <= status < 400:
        return identity.failure("configuration", f"redirects elsewhere ({status}), which is not followed")
    if status >= 500 or status in (408, 425):
        return identity.failure("server", f"answered {status}", retry_after=pause)
    return identity.failure("refused", f"refused the request ({status})")


def parse_retry_after(header: str) -> float | None:
    """Return the seconds of a numeric Retry-After header; None otherwise."""
    try:
        seconds = float(header)
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


async def get(http: httpx2.AsyncClient, address: str, identity: ModelIdentity, headers: Mapping[str, str]) -> Any:
    """Return the JSON at an address.

    Raises:
        ModelUnavailable: with the cause.
    """
    return await _send(http, http.build_request("GET", address, headers=headers), identity)


async def post(http: httpx2.AsyncClient, address: str, identity: ModelIdentity, body: Mapping[str, Any]) -> Any:
    """Send JSON and return the JSON of the reply.

    Raises:
        ModelUnavailable: with the cause.
    """
    return await _send(http, http.build_request("POST", address, json=body), identity)


async def _send(http: httpx2.AsyncClient, request: httpx2.Request, identity: ModelIdentity) -> Any:
    try:
        response = await http.send(request)
        if response.status_code == 200:
            return json.loads(response.content)
        failure = status_failure(identity, response.status_code, response.headers.get("Retry-After", ""))
    except ReplyTooLarge:
        failure = identity.failure("too_long", "sent a reply that is too long")
    except httpx2.HTTPError:
        failure = identity.failure("connection", "cannot be reached, or closed the connection")
    except (ValueError, RecursionError):
        failure = identity.failure("server", "answered with something that is not JSON")
    raise failure
