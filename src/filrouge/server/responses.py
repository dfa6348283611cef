"""Answers: problem documents (RFC 9457), pages of lists, models for OpenAPI, and how a route reaches the services."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Annotated, Any, Final, NoReturn, TypeVar, cast

from fastapi import Query, Request, Response
from pydantic import BaseModel, ConfigDict
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from filrouge.core.errors import BadInput, FilrougeError, TooMany, Unauthorized
from filrouge.core.protocols import Tx
from filrouge.runtime.services import Parts
from filrouge.runtime.wiring import Running

# Refusals as the wire sees them: problem documents (RFC 9457) with the remedy, wherever in the stack they are made.

PROBLEM: Final = "application/problem+json"


def problem(error: FilrougeError, status: int) -> dict[str, Any]:
    """The document of an error."""
    return {
        "type": f"urn:filrouge:error:{type(error).__name__}",
        "title": (type(error).__doc__ or "").strip().splitlines()[0],
        "status": status,
        "detail": error.message,
        "remedy": error.remedy,
        "exit_code": error.exit_code,
    }


def refused(error: FilrougeError, *, status: int = 0, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """The answer that refuses; with the status of the error, unless another says it better."""
    code = status or error.http_status
    return JSONResponse(
        problem(error, code), status_code=code, media_type=PROBLEM, headers={**_headers_of(error), **(headers or {})}
    )


def _headers_of(error: FilrougeError) -> dict[str, str]:
    """What HTTP wants beside the document."""
    if isinstance(error, Unauthorized):
        return {"WWW-Authenticate": 'Bearer realm="filrouge"'}
    return {"Retry-After": "1"} if isinstance(error, TooMany) else {}


async def refuse(scope: Scope, receive: Receive, send: Send, error: FilrougeError) -> None:
    """Answer a request, or the opening of a WebSocket, with an error, and read nothing of it."""
    body = json.dumps(problem(error, error.http_status)).encode()
    head = {"Content-Type": PROBLEM, "Content-Length": str(len(body)), **_headers_of(error)}
    headers = [(name.lower().encode(), value.encode()) for name, value in head.items()]
    kind = "http.response"
    if scope["type"] == "websocket":
        await receive()  # its wish to connect
        kind = "websocket.http.response"
        if kind not in scope.get("extensions", {}):
            await send({"type": "websocket.close", "code": 1008})
            return
    await send({"type": f"{kind}.start", "status": error.http_status, "headers": headers})
    await send({"type": f"{kind}.body", "body": body, "more_body": False})


# Pages of a list: `limit` rows, and behind which row the next page begins.
#
# A cursor names the last row of a page and not its place, so what is added in front meanwhile neither repeats a row
# nor hides one; where that row is gone, the page begins with the first one that comes behind it in the order of the
# list. Where rows are numbered, or counted by what lists them, the cursor holds that number. The next page is a link
# (RFC 8288, `rel="next"`); bodies stay plain lists.

Cursor = Annotated[
    str | None, Query(max_length=500, description="Where the page begins: that of a `Link` with `rel=next`.")
]
#: A number of a row has 64 bits.
_DIGITS = 18
PageLimit = Annotated[int | None, Query(ge=1, le=1000, description="Rows of a page; none = all.")]


def paged(
    request: Request, response: Response, rows: Sequence[dict[str, Any]], *, limit: int | None, cursor: str | None,
    by: str, name: str = "id",
) -> list[dict[str, Any]]:  # fmt: skip
    """The page of a list that begins behind the cursor, with its link to the next one.

    Args:
        rows: the whole list, falling in `by`.
        by: the field that the list is ordered by, text or number.
        name: the field that tells a row from all others.

    Raises:
        BadInput: the cursor is none of this list.
    """
    begin = _behind(rows, cursor, by, name) if cursor else 0
    page = list(rows[begin:]) if limit is None else list(rows[begin : begin + limit])
    if page and begin + len(page) < len(rows):
        _link(request, response, [page[-1][by], page[-1][name]])
    return page


def behind(cursor: str | None) -> int | None:
    """The number that a cursor stands for; None for the first page.

    Raises:
        BadInput: it is no cursor of ours.
    """
    if cursor is None:
        return None
    number = _read(cursor)
    if type(number) is not int or not 0 <= number < 10**_DIGITS:
        _refuse()
    return number


def link_next(request: Request, response: Response, number: int | None) -> None:
    """Name the next page, if there is one."""
    if number is not None:
        _link(request, response, number)


def _link(request: Request, response: Response, place: Any) -> None:
    cursor = base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")
    url = request.url.include_query_params(cursor=cursor)
    response.headers["Link"] = f'<{url.path}?{url.query}>; rel="next"'


def _read(cursor: str) -> Any:
    try:
        return json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (ValueError, TypeError, RecursionError):
        _refuse()


def _behind(rows: Sequence[dict[str, Any]], cursor: str, by: str, name: str) -> int:
    try:
        value, id_ = _read(cursor)
    except (ValueError, TypeError):
        _refuse()
    place = next((number for number, row in enumerate(rows) if row[name] == id_), None)
    if place is not None:
        return place + 1
    try:
        return next((number for number, row in enumerate(rows) if row[by] < value), len(rows))
    except TypeError:
        _refuse()


def _refuse() -> NoReturn:
    raise BadInput("query.cursor is no cursor of this list.", remedy="Take it from the `Link` of the page before.")


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
