"""How a route reaches the parts, and waits for a lane without blocking the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar, cast

from pydantic import BaseModel, ConfigDict
from starlette.requests import Request

from filrouge.core.protocols import Tx
from filrouge.runtime.services import Parts
from filrouge.runtime.wiring import Running

# What a route says that it answers: models for the OpenAPI document, which tests hold every answer against.
#
# The routes answer plain JSON values, and nothing is filtered on the way out: a field that is missing in its model is
# a mistake that a test finds, not a field that silently disappears.

#: Where `answers` keeps the model: under FastAPI's own name it would be built at every start, for the document alone.
MODEL: Final = "x-filrouge-model"


class Answer(BaseModel):
    """The base of every model of an answer: no field is left unsaid. It is built when the document is asked for."""

    model_config = ConfigDict(extra="forbid", defer_build=True)


class Body(BaseModel):
    """The base of every body of a request: what nobody knows is refused by its name, and 0 is no `false`."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Problem(Answer):
    """What every refusal answers (RFC 9457), as `application/problem+json`."""

    type: str
    title: str
    status: int
    detail: str
    remedy: str
    exit_code: int


def answers(model: Any, *, status: int = 200, example: Any = None) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route that answers that model with that status.

    Args:
        model: a model, or a list or union of models.
        example: one answer, for the document.
    """
    said: dict[str, Any] = {MODEL: model}
    if example is not None:
        said["content"] = {"application/json": {"example": example}}
    return {status: said}


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
