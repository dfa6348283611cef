"""Events from hooks: stored, and answered with the block for the model where the hook asks for one.

Both the FastAPI routes and the front (`server.front`), which serves hooks before FastAPI is loaded, call this.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from typing import Any, Final, cast

from pydantic import Field
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from filrouge._version import __version__
from filrouge.capture.events import Event, event_from_json
from filrouge.capture.service import observe
from filrouge.context.service import log, prepare
from filrouge.core.errors import BadInput, Busy, FilrougeError, Unauthorized
from filrouge.maintenance.consolidation import MemoryProgress
from filrouge.runtime.feed import Lost, Message, Subscription
from filrouge.runtime.feed_messages import TOPICS, Topic
from filrouge.runtime.services import Parts
from filrouge.server.auth import ACCESS, Access, Keys
from filrouge.server.responses import Body, elsewhere, recalling, settled

# The live feed of one WebSocket: a bounded queue of the bus on one side, a socket on the other.
#
# The bus is fed by threads, a socket belongs to the event loop: the first message that waits wakes the loop, which
# then takes all there are. So a socket costs no thread, and a thread that publishes never waits for a socket. While a
# client does not read, its queue fills and loses the oldest, and it is told how many before the next; one that reads
# nothing at all for a time is closed. Pings are uvicorn's (`SOCKETS`), and so is the goodbye (1012) when the daemon
# leaves. Who came in with a token or a session is looked at again every few seconds: a socket ends soon after what
# opened it.
#
# What is said on both sides: docs/reference/live.md.

#: Sockets at the same time: a browser needs one, however many tabs it has.
MOST_SOCKETS: Final = 32
#: Bytes of a client's message; all that it may say is which topics it wants.
LONGEST_WORD: Final = 4_096
#: Who takes nothing for so long is closed.
_PATIENCE_SECONDS: Final = 30.0
_GOODBYE_SECONDS: Final = 1.0
#: So often it is looked whether who listens may still listen.
_LOOK_SECONDS: Final = 2.0
#: What uvicorn has to know of sockets: how much a client may send at once, and how it is found that one is gone.
#: Compressing each small message would cost a window of memory for each socket.
SOCKETS: Final[dict[str, Any]] = {
    "ws_max_size": 65_536,
    "ws_ping_interval": 20.0,
    "ws_ping_timeout": 20.0,
    "ws_per_message_deflate": False,
}
_BINARY, _MALFORMED, _TOO_SLOW, _NOT_ADMITTED, _TOO_LARGE = 1003, 1008, 1008, 1008, 1009


class NotUnderstood(Exception):
    """What a client said is not understood: the code and the reason of the goodbye."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason


class Sockets:
    """How many are open."""

    def __init__(self, most: int = MOST_SOCKETS) -> None:
        self._most = most
        self.open = 0

    @property
    def is_full(self) -> bool:
        """True where no other is admitted."""
        return self.open >= self._most

    @contextmanager
    def one_more(self) -> Generator[None]:
        """Count one for as long as the block runs."""
        self.open += 1
        try:
            yield
        finally:
            self.open -= 1


async def converse(socket: WebSocket, parts: Parts) -> None:
    """Tell an accepted socket what happens, until either side leaves."""
    woken, loop = asyncio.Event(), asyncio.get_running_loop()

    def wake() -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody is left to be told
            loop.call_soon_threadsafe(woken.set)

    with parts.bus.subscribed(wake=wake) as subscription:
        await settled(parts.readers.submit(parts.feed.join))
        try:
            await _send(socket, hello(subscription))
            talking = (_listen(socket, subscription), _tell(socket, parts, subscription, woken))
            await _both(*talking, _admitted(socket))
        except NotUnderstood as refused:
            await _goodbye(socket, refused.code, refused.reason)
        except Unauthorized as refused:
            await _goodbye(socket, _NOT_ADMITTED, refused.message)
        except TimeoutError:
            await _goodbye(socket, _TOO_SLOW, "nothing is read")
        except WebSocketDisconnect:
            pass
        finally:
            parts.feed.leave()


def hello(subscription: Subscription) -> dict[str, Any]:
    """What a socket is told first: who answers, what it will be told of, and that nothing of before is told."""
    return {"type": "ws:hello", "version": __version__, "topics": _in_order(subscription), "replay": False}


def as_told(message: Message | Lost) -> dict[str, Any]:
    """A message as it goes over the wire."""
    match message:
        case Lost(count=count):
            return {"type": "ws:lost", "count": count}
        case MemoryProgress(garden_id=garden_id):
            return {**message.to_json(), "garden_id": garden_id}
        case _:
            return message.to_json()


def chosen(said: str) -> list[Topic]:
    """The topics that a client asks for: `{"subscribe": ["progress", "events"]}`.

    Raises:
        NotUnderstood: it says something else, or names a topic that there is not.
    """
    if len(said) > LONGEST_WORD:
        raise NotUnderstood(_TOO_LARGE, f"at most {LONGEST_WORD} characters")
    try:
        body: Any = json.loads(said)
    except (ValueError, RecursionError):
        raise NotUnderstood(_MALFORMED, "no JSON") from None
    wanted: Any = cast("dict[str, Any]", body).get("subscribe") if isinstance(body, dict) and len(body) == 1 else None  # pyright: ignore[reportUnknownArgumentType]
    if not isinstance(wanted, list):
        raise NotUnderstood(_MALFORMED, 'only {"subscribe": [topics]} is understood')
    names = cast("list[Any]", wanted)
    if not all(isinstance(name, str) and name in TOPICS for name in names):
        raise NotUnderstood(_MALFORMED, f"topics are {', '.join(TOPICS)}")
    return cast("list[Topic]", names)


async def _listen(socket: WebSocket, subscription: Subscription) -> None:
    while True:
        said = await socket.receive()
        if said["type"] == "websocket.disconnect":
            return
        if said.get("text") is None:
            raise NotUnderstood(_BINARY, "text only")
        subscription.choose(chosen(said["text"]))
        await _send(socket, {"type": "ws:subscribed", "topics": _in_order(subscription)})


async def _tell(socket: WebSocket, parts: Parts, subscription: Subscription, woken: asyncio.Event) -> None:
    while True:
        await woken.wait()
        woken.clear()
        while (message := subscription.get(0)) is not None:
            if isinstance(message, Lost):
                parts.meters.live_lost(message.count)
            await _send(socket, as_told(message))


async def _admitted(socket: WebSocket) -> None:
    """As long as what opened the socket still holds; on the unix socket that is always.

    Raises:
        Unauthorized: it was revoked, or its time is over.
    """
    access, keys = cast("Access", socket.scope[ACCESS]), cast("Keys", socket.app.state.keys)
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        with suppress(Busy):  # the daemon leaves, and says so itself
            if access.who and not await keys.holds(access.who):
                raise Unauthorized("The token holds no more.")


async def _send(socket: WebSocket, body: dict[str, Any]) -> None:
    """Send within reason.

    Raises:
        TimeoutError: the other side takes nothing.
    """
    async with asyncio.timeout(_PATIENCE_SECONDS):
        await socket.send_text(json.dumps(body, ensure_ascii=False, separators=(",", ":")))


async def _goodbye(socket: WebSocket, code: int, reason: str) -> None:
    """Close, without waiting for one who reads nothing: it is cut off then."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_GOODBYE_SECONDS):
            await socket.close(code, reason)


async def _both(*works: Coroutine[Any, Any, None]) -> None:
    """Until one of them ends; the others are given up, and what the first raised is raised."""
    tasks = [asyncio.ensure_future(one) for one in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


def _in_order(subscription: Subscription) -> list[str]:
    return [topic for topic in TOPICS if topic in subscription.topics]


_LOG: Final = logging.getLogger(__name__)
_WITH_CONTEXT: Final = ("session_start", "prompt")
_JSON: Final = "application/json"


class Delivery(Body):
    """Events from a hook or a spool."""

    events: list[dict[str, Any]] = Field(min_length=1, max_length=1000)
    context: bool = False
    wait_ms: int | None = Field(
        None,
        ge=1,
        le=60_000,
        description="How long the caller waits for the context. The answer then begins at once, with a space, and the"
        " caller confirms with /hooks/delivered that it used the context.",
    )


class Confirmation(Body):
    """The id that came with a context."""

    recall: str = Field(max_length=64)


async def answer(parts: Parts, delivery: Delivery, is_gone: Callable[[], Awaitable[bool]]) -> Response:
    """Store the events, and answer once they are on disk.

    Args:
        is_gone: whether the caller has hung up.

    Raises:
        FilrougeError: an event cannot be read, or nothing can be stored.
    """
    events = [_event(raw) for raw in delivery.events]
    if not delivery.context or delivery.wait_ms is None:
        return JSONResponse(await _delivered(parts, events, delivery, is_gone))
    return StreamingResponse(_streamed(parts, events, delivery, is_gone), media_type=_JSON)


async def _streamed(
    parts: Parts, events: list[Event], delivery: Delivery, is_gone: Callable[[], Awaitable[bool]]
) -> AsyncGenerator[bytes, None]:
    """The answer, after one space that shows at once that the daemon is at work."""
    yield b" "
    try:
        said = await _delivered(parts, events, delivery, is_gone)
    except FilrougeError as error:
        _LOG.warning("events of a hook were not taken: %s", error.message)
        said = {"error": error.message}
    yield json.dumps(said, ensure_ascii=False).encode()


async def _delivered(
    parts: Parts, events: list[Event], delivery: Delivery, is_gone: Callable[[], Awaitable[bool]]
) -> dict[str, Any]:
    with parts.meters.hook(events[-1].kind):
        receipt = await settled(await elsewhere(lambda: observe(parts, events)))
        text, recall = "", ""
        project = receipt.projects[-1]
        if delivery.context and events[-1].kind in _WITH_CONTEXT and project is not None:
            seconds = None if delivery.wait_ms is None else delivery.wait_ms / 1000
            given = await recalling(parts, lambda _: prepare(parts, events[-1], project, seconds=seconds))
            text = given.block.text
            confirms = delivery.wait_ms is not None and bool(text)
            recall = log(parts, given, delivered=not confirms and not await is_gone())
            recall = recall if confirms else ""
    said = {"accepted": receipt.accepted, "duplicates": receipt.duplicates, "context": text}
    return said | ({"recall": recall} if recall else {})


def _event(raw: dict[str, Any]) -> Event:
    try:
        return event_from_json(raw)
    except ValueError as error:
        raise BadInput(f"An event cannot be read: {error}.") from error
