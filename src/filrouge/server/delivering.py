"""Events from hooks: stored, and answered with the block for the model where the hook asks for one.

Both the FastAPI routes and the front (`server.front`), which serves hooks before FastAPI is loaded, call this.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final

from pydantic import Field
from starlette.responses import JSONResponse, Response, StreamingResponse

from filrouge.capture.events import Event, event_from_json
from filrouge.capture.service import observe
from filrouge.context.service import log, prepare
from filrouge.core.errors import BadInput, FilrougeError
from filrouge.runtime.services import Parts
from filrouge.server.access import elsewhere, recalling, settled
from filrouge.server.responses import Body

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
