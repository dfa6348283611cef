"""How a route reaches the parts, and waits for a lane without blocking the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar, cast

from starlette.requests import Request

from filrouge.core.protocols import Tx
from filrouge.runtime.services import Parts
from filrouge.runtime.wiring import Running

# How a route reaches the parts, and waits for a lane without blocking the event loop.

T = TypeVar("T")


def parts_of(request: Request) -> Parts:
    """The parts behind this application."""
    return cast("Running", request.app.state.running).parts


async def settled(future: Future[T]) -> T:
    """Wait for a lane."""
    return await asyncio.wrap_future(future)


async def reading(request: Request, read: Callable[[Tx], T]) -> T:
    """Read on the pool."""
    return await settled(parts_of(request).readers.submit(read))


async def recalling(parts: Parts, read: Callable[[Tx], T]) -> T:
    """Bring something to mind, on the pool for that."""
    return await settled(parts.readers.submit_recall(read))


async def elsewhere(work: Callable[[], T]) -> T:
    """Do something that blocks on a thread of its own."""
    return await asyncio.to_thread(work)
