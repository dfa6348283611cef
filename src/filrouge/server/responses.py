"""Helpers for routes: response models, access to the services, and non-blocking waits.

The models describe answers for the OpenAPI document, and tests compare every answer with its model. Routes return
plain JSON values and nothing is filtered on output: a field missing in a model fails a test instead of disappearing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar, cast

from pydantic import BaseModel, ConfigDict
from starlette.requests import Request

from filrouge.core.protocols import Tx
from filrouge.runtime.executors import ReaderPool
from filrouge.runtime.services import Parts
from filrouge.runtime.wiring import Running

#: The key under which `response_model` stores the model. Under FastAPI's own key the model would be built at every
#: start.
MODEL: Final = "x-filrouge-model"


class Answer(BaseModel):
    """The base of all response models: unknown fields are an error. A model is built when the document is requested."""

    model_config = ConfigDict(extra="forbid", defer_build=True)


class Body(BaseModel):
    """The base of all request bodies: unknown fields are refused by name, and types are strict (0 is not `false`)."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Problem(Answer):
    """The document of every error (RFC 9457), as `application/problem+json`."""

    type: str
    title: str
    status: int
    detail: str
    remedy: str
    exit_code: int


def response_model(model: Any, *, status: int = 200, example: Any = None) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` argument of a route that answers with this model and status.

    Args:
        model: a model, or a list or union of models.
        example: an example answer for the document.
    """
    response: dict[str, Any] = {MODEL: model}
    if example is not None:
        response["content"] = {"application/json": {"example": example}}
    return {status: response}


T = TypeVar("T")


def parts_of(request: Request) -> Parts:
    """Return the services of the application."""
    return cast("Running", request.app.state.running).parts


async def await_future(future: Future[T]) -> T:
    """Wait for the result of an executor."""
    return await asyncio.wrap_future(future)


async def read_in_tx(request: Request, read: Callable[[Tx], T]) -> T:
    """Run a read on the reader pool."""
    return await await_future(parts_of(request).readers.submit(read))


async def run_recall(readers: ReaderPool, read: Callable[[Tx], T]) -> T:
    """Run a recall on its own pool."""
    return await await_future(readers.submit_recall(read))


async def in_thread(work: Callable[[], T]) -> T:
    """Run a blocking function in a worker thread."""
    return await asyncio.to_thread(work)
