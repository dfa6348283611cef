"""The live feed over WebSockets, and the handling of events from hooks.

`serve_feed` serves one WebSocket: it sends the messages of the bus. `handle_delivery` stores a hook's events and
returns the context block if the hook requests one; `server.serving` calls it for hooks on the Unix socket, and the
FastAPI routes for all others. `handle_input` does the same for the input of a hook as it came.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from typing import Any, Final, cast

from msgspec import Struct
from pydantic import Field
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from filrouge._version import __version__
from filrouge.capture.events import Event, event_from_json
from filrouge.capture.service import store_events
from filrouge.context.service import build_for_hook
from filrouge.context.service import log as log_recall
from filrouge.core.errors import BadInput, Busy, FilrougeError, Unauthorized
from filrouge.daemon import handover
from filrouge.hosts.hook_input import Reading, line, read_input
from filrouge.maintenance.consolidation import MemoryProgress
from filrouge.runtime.feed import Lost, Message, Subscription
from filrouge.runtime.feed_messages import TOPICS, Topic
from filrouge.runtime.metrics import Metrics
from filrouge.runtime.services import Parts
from filrouge.server.admission import ACCESS, Access, TokenCache
from filrouge.server.responses import Body, await_future, in_thread, run_recall

# The live feed of one WebSocket: a bounded queue of the bus on one side, a socket on the other.
#
# Threads publish to the bus, and a socket belongs to the event loop. The first queued message wakes the loop, which
# then sends all queued messages. A socket therefore needs no thread, and a publishing thread never waits for a socket.
# If a client reads too slowly, its queue drops the oldest messages and the client is told how many; a client that
# reads nothing for `_SEND_TIMEOUT` is closed. uvicorn sends the pings (`WEBSOCKET_SETTINGS`) and the close code 1012 at
# shutdown. The token or session that opened a socket is checked again every few seconds.
#
# The protocol is described in docs/reference/live.md.

#: Maximum number of open sockets; a browser needs one, no matter how many tabs it has.
MAX_SOCKETS: Final = 32
#: Maximum characters of a client's message; it only selects topics.
MAX_MESSAGE_CHARS: Final = 4_096
#: A client that reads nothing for this long is closed.
_SEND_TIMEOUT: Final = 30.0
_CLOSE_SECONDS: Final = 1.0
#: How often the token or session of a socket is checked again.
_ADMISSION_CHECK_SECONDS: Final = 2.0
#: WebSocket settings for uvicorn: the message size limit, and the pings that detect dead clients.
#: Compression is off because it would cost a memory window for each socket, and the messages are small.
WEBSOCKET_SETTINGS: Final[dict[str, Any]] = {
    "ws_max_size": 65_536,
    "ws_ping_interval": 20.0,
    "ws_ping_timeout": 20.0,
    "ws_per_message_deflate": False,
}
_BINARY, _MALFORMED, _TOO_SLOW, _NOT_ADMITTED, _TOO_LARGE = 1003, 1008, 1008, 1008, 1009


class InvalidMessage(Exception):
    """A client's message is invalid; holds the close code and the reason."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason


class Sockets:
    """Counts the open sockets."""

    def __init__(self, maximum: int = MAX_SOCKETS) -> None:
        self._maximum = maximum
        self.open = 0

    @property
    def is_full(self) -> bool:
        """Whether the maximum number of sockets is open."""
        return self.open >= self._maximum

    @contextmanager
    def count_one(self) -> Generator[None]:
        """Count one socket while the block runs."""
        self.open += 1
        try:
            yield
        finally:
            self.open -= 1


async def serve_feed(socket: WebSocket, parts: Parts) -> None:
    """Send the live feed to an accepted socket until either side disconnects."""
    has_messages, loop = asyncio.Event(), asyncio.get_running_loop()

    def wake() -> None:
        with suppress(RuntimeError):  # the loop is closed, so no client is left
            loop.call_soon_threadsafe(has_messages.set)

    with parts.bus.subscribed(wake=wake) as subscription:
        await await_future(parts.readers.submit(parts.feed.join))
        try:
            await _send(socket, hello(subscription))
            talking = (_listen(socket, subscription), _send_messages(socket, parts.metrics, subscription, has_messages))
            await _run_until_first_ends(*talking, _watch_admission(socket))
        except InvalidMessage as error:
            await _close_socket(socket, error.code, error.reason)
        except Unauthorized as error:
            await _close_socket(socket, _NOT_ADMITTED, error.message)
        except TimeoutError:
            await _close_socket(socket, _TOO_SLOW, "the client reads nothing")
        except WebSocketDisconnect:
            pass
        finally:
            parts.feed.leave()


def hello(subscription: Subscription) -> dict[str, Any]:
    """Return the first message: the version, the subscribed topics, and that past messages are not replayed."""
    return {"type": "ws:hello", "version": __version__, "topics": _sorted_topics(subscription), "replay": False}


def message_json(message: Message | Lost) -> dict[str, Any]:
    """Return a message as JSON for the wire."""
    match message:
        case Lost(count=count):
            return {"type": "ws:lost", "count": count}
        case MemoryProgress(garden_id=garden_id):
            return {**message.to_json(), "garden_id": garden_id}
        case _:
            return message.to_json()


def parse_topics(text: str) -> list[Topic]:
    """Return the topics that a client subscribes to: `{"subscribe": ["progress", "events"]}`.

    Raises:
        InvalidMessage: the message is malformed, or names an unknown topic.
    """
    if len(text) > MAX_MESSAGE_CHARS:
        raise InvalidMessage(_TOO_LARGE, f"at most {MAX_MESSAGE_CHARS} characters")
    try:
        body: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidMessage(_MALFORMED, "not JSON") from None
    topics: Any = cast("dict[str, Any]", body).get("subscribe") if isinstance(body, dict) and len(body) == 1 else None  # pyright: ignore[reportUnknownArgumentType]
    if not isinstance(topics, list):
        raise InvalidMessage(_MALFORMED, 'send only {"subscribe": [topics]}')
    names = cast("list[Any]", topics)
    if not all(isinstance(name, str) and name in TOPICS for name in names):
        raise InvalidMessage(_MALFORMED, f"topics are {', '.join(TOPICS)}")
    return cast("list[Topic]", names)


async def _listen(socket: WebSocket, subscription: Subscription) -> None:
    while True:
        received = await socket.receive()
        if received["type"] == "websocket.disconnect":
            return
        if received.get("text") is None:
            raise InvalidMessage(_BINARY, "text only")
        subscription.choose(parse_topics(received["text"]))
        await _send(socket, {"type": "ws:subscribed", "topics": _sorted_topics(subscription)})


async def _send_messages(
    socket: WebSocket, metrics: Metrics, subscription: Subscription, has_messages: asyncio.Event
) -> None:
    while True:
        await has_messages.wait()
        has_messages.clear()
        while (message := subscription.get(0)) is not None:
            if isinstance(message, Lost):
                metrics.count_lost_messages(message.count)
            await _send(socket, message_json(message))


async def _watch_admission(socket: WebSocket) -> None:
    """Check every few seconds whether the token or session that opened the socket is still valid; never return.

    A Unix socket is opened without either, so it is not checked.

    Raises:
        Unauthorized: it was revoked or has expired.
    """
    access, token_cache = cast("Access", socket.scope[ACCESS]), cast("TokenCache", socket.app.state.token_cache)
    while True:
        await asyncio.sleep(_ADMISSION_CHECK_SECONDS)
        with suppress(Busy):  # the daemon is stopping and closes the socket itself
            if access.who and not await token_cache.is_valid(access.who):
                raise Unauthorized("The token has expired or was revoked.")


async def _send(socket: WebSocket, body: dict[str, Any]) -> None:
    """Send a message, with a timeout.

    Raises:
        TimeoutError: the client does not read.
    """
    async with asyncio.timeout(_SEND_TIMEOUT):
        await socket.send_text(json.dumps(body, ensure_ascii=False, separators=(",", ":")))


async def _close_socket(socket: WebSocket, code: int, reason: str) -> None:
    """Close the socket; if the client does not read, drop the connection after a second."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_CLOSE_SECONDS):
            await socket.close(code, reason)


async def _run_until_first_ends(*coroutines: Coroutine[Any, Any, None]) -> None:
    """Run until one of them ends, cancel the others, and raise what the first raised."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


def _sorted_topics(subscription: Subscription) -> list[str]:
    return [topic for topic in TOPICS if topic in subscription.topics]


_LOG: Final = logging.getLogger(__name__)
_KINDS_WITH_CONTEXT: Final = ("session_start", "prompt")
_JSON: Final = "application/json"


#: Whether the caller of a route has disconnected.
IsGone = Callable[[], Awaitable[bool]]


class Delivery(Body):
    """Events from a hook or a spool."""

    events: list[dict[str, Any]] = Field(min_length=1, max_length=1000)
    context: bool = False
    wait_ms: int | None = Field(
        None,
        ge=1,
        le=60_000,
        description="How long the caller waits for the context, in milliseconds. If set, the response starts at once"
        " with a space, and the caller confirms with /hooks/delivered that it used the context.",
    )


class Confirmation(Body):
    """The recall id that came with a context."""

    recall: str = Field(max_length=64)


async def handle_delivery(parts: Parts, delivery: Delivery, is_gone: IsGone) -> Response:
    """Store the events, and answer once they are on disk.

    Args:
        is_gone: whether the caller has disconnected.

    Raises:
        FilrougeError: an event is invalid, or nothing can be stored.
    """
    events = [_event(raw) for raw in delivery.events]
    if not delivery.context or delivery.wait_ms is None:
        return JSONResponse((await _deliver(parts, events, delivery, is_gone)).as_json())
    return StreamingResponse(_stream_answer(parts, events, delivery, is_gone), media_type=_JSON)


async def handle_input(parts: Parts, body: bytes, is_gone: IsGone) -> Response:
    """Serve a hook that handed over its input: take the secrets out, store the events, and answer what it prints.

    Args:
        body: as `daemon.handover` encodes it.
        is_gone: whether the hook has disconnected.

    Returns:
        An answer as `daemon.handover` reads it; with status 409 if the hook must read its input itself.

    Raises:
        FilrougeError: nothing can be stored.
        ValueError: the body is not the input of a hook.
    """
    fields, raw = handover.decode(body)
    if fields.get("version") != __version__ or os.fsencode(fields.get("files", "")) != handover.mount_namespace():
        return Response(status_code=409)
    environ = {name.removeprefix("env:"): value for name, value in fields.items() if name.startswith("env:")}
    at, seed, host = float(fields["at"]), bytes.fromhex(fields["seed"]), fields.get("host", "")
    reading = await in_thread(
        lambda: read_input(raw, host=host, directory=parts.home, environ=environ, at=at, seed=seed)
    )
    if reading is not None and reading.wants_context:
        lines = _stream_line(parts, reading, is_gone)
        return StreamingResponse(lines, media_type=_JSON, headers={handover.WAIT_HEADER: str(reading.wait)})
    if reading is not None:
        await _store_and_build_context(parts, reading.events, is_gone, wants_context=False, seconds=None)
    return Response(handover.encode_answer(b"", ""))


async def _stream_line(parts: Parts, reading: Reading, is_gone: IsGone) -> AsyncGenerator[bytes, None]:
    """Yield a space at once, to show that the daemon is working, and then what the hook prints."""
    yield b" "
    try:
        answer = await _store_and_build_context(
            parts, reading.events, is_gone, wants_context=True, seconds=reading.wait
        )
    except FilrougeError as error:
        _LOG.warning("events of a hook were not stored: %s", error.message)
        yield handover.encode_answer(handover.FAILED, "")
        return
    yield handover.encode_answer(line(reading.host, reading.kind, answer.context), answer.recall)


async def _stream_answer(
    parts: Parts, events: list[Event], delivery: Delivery, is_gone: IsGone
) -> AsyncGenerator[bytes, None]:
    """Yield a space at once, to show that the daemon is working, and then the answer."""
    yield b" "
    try:
        answer = (await _deliver(parts, events, delivery, is_gone)).as_json()
    except FilrougeError as error:
        _LOG.warning("events of a hook were not stored: %s", error.message)
        answer = {"error": error.message}
    yield json.dumps(answer, ensure_ascii=False).encode()


class _Delivered(Struct, frozen=True, kw_only=True):
    """What became of a hook's events.

    Attributes:
        context: the block; empty if none was asked for, or nothing is relevant.
        recall: the id under which the block was logged, if the hook has to confirm it; else empty.
    """

    accepted: int
    duplicates: int
    context: str = ""
    recall: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the answer to a delivery."""
        answer = {"accepted": self.accepted, "duplicates": self.duplicates, "context": self.context}
        return answer | ({"recall": self.recall} if self.recall else {})


async def _deliver(parts: Parts, events: list[Event], delivery: Delivery, is_gone: IsGone) -> _Delivered:
    seconds = None if delivery.wait_ms is None else delivery.wait_ms / 1000
    return await _store_and_build_context(parts, events, is_gone, wants_context=delivery.context, seconds=seconds)


async def _store_and_build_context(
    parts: Parts, events: list[Event], is_gone: IsGone, *, wants_context: bool, seconds: float | None
) -> _Delivered:
    """Store events, and build the context for the last one if it is wanted.

    Args:
        is_gone: whether the caller has disconnected.
        wants_context: the caller uses a context.
        seconds: how long it waits for one, and then confirms it; None if it waits without limit and confirms nothing.
    """
    with parts.metrics.hook(events[-1].kind):
        stored = await await_future(await in_thread(lambda: store_events(parts, events)))
        text, recall_id = "", ""
        project = stored.projects[-1]
        if wants_context and events[-1].kind in _KINDS_WITH_CONTEXT and project is not None:
            result = await run_recall(
                parts.readers, lambda _: build_for_hook(parts, events[-1], project, seconds=seconds)
            )
            text = result.block.text
            confirms = seconds is not None and bool(text)
            recall_id = log_recall(parts, result, delivered=not confirms and not await is_gone())
            recall_id = recall_id if confirms else ""
    return _Delivered(accepted=stored.accepted, duplicates=stored.duplicates, context=text, recall=recall_id)


def _event(raw: dict[str, Any]) -> Event:
    try:
        return event_from_json(raw)
    except ValueError as error:
        raise BadInput(f"An event cannot be read: {error}.") from error
