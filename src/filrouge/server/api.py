"""The HTTP surface: FastAPI over the verbs of `app`. No route thinks; each asks one verb and gives its answer.

In this version it listens on the unix socket only, whose mode and directory admit this user alone. Every
answer names the version that gave it, so that client and daemon can settle which of them is newer. Errors are
problem documents (RFC 9457) with the remedy.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from filrouge._version import __version__
from filrouge.app.wiring import Running
from filrouge.errors import BadInput, FilrougeError, NotFound
from filrouge.server.access import methods_at
from filrouge.server.legible import legible
from filrouge.server.once import Once
from filrouge.server.openapi import described
from filrouge.server.problems import PROBLEM, refused, told
from filrouge.server.routes import (
    backups,
    bridges,
    changing,
    concepts,
    daemon,
    embedding,
    forgetting,
    gardens,
    hooks,
    injecting,
    memory,
    metrics,
    models,
    rules,
    threads,
    topics,
)

VERSION_HEADER = "X-Filrouge-Version"
_REMEDY = "See the API reference, or GET /openapi.json."


def create_app(running: Running, leave: Callable[[], None]) -> FastAPI:
    """The application over a running Filrouge; `leave` asks its process to end."""
    app = FastAPI(title="Filrouge", version=__version__, docs_url=None, redoc_url=None, dependencies=[Depends(legible)])
    app.state.running = running
    app.state.leave = leave
    for routes in (
        hooks, memory, injecting, rules, topics, threads, bridges, embedding, models, daemon, changing, concepts,
        metrics, forgetting, gardens, backups,
    ):  # fmt: skip
        app.include_router(routes.router)
    app.openapi = lambda: app.openapi_schema or _kept(app)
    app.add_middleware(Once)  # first, so inside of whatever refuses a caller
    app.middleware("http")(_sign)
    app.add_exception_handler(FilrougeError, _problem)
    app.add_exception_handler(RequestValidationError, _unreadable)
    app.add_exception_handler(HTTPException, _no_route)
    app.add_exception_handler(Exception, _stumbled)
    return app


def _kept(app: FastAPI) -> dict[str, Any]:
    app.openapi_schema = described(app)
    return app.openapi_schema


async def _sign(request: Request, go_on: Callable[[Request], Awaitable[Response]]) -> Response:
    response = await go_on(request)
    response.headers[VERSION_HEADER] = __version__
    return response


async def _problem(_: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, FilrougeError):
        raise error
    return refused(error)


async def _unreadable(_: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, RequestValidationError):
        raise error
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return refused(BadInput(f"{where}: {first['msg']}.", remedy=_REMEDY))


async def _no_route(request: Request, error: Exception) -> JSONResponse:
    """A refusal of the framework itself: no such path or method, a body that is no JSON."""
    if not isinstance(error, HTTPException):
        raise error
    status = HTTPStatus(error.status_code)
    kind = NotFound if status == HTTPStatus.NOT_FOUND else BadInput
    document = {
        **told(kind(f"{request.method} {request.url.path}: {error.detail}.", remedy=_REMEDY), status),
        "type": f"urn:filrouge:error:{status.phrase.title().replace(' ', '')}",
        "title": f"{status.phrase}.",
    }
    headers = dict(error.headers or {})
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(sorted(methods_at(request.app, request.url.path)))
    return JSONResponse(document, status_code=status, media_type=PROBLEM, headers=headers)


async def _stumbled(request: Request, _: Exception) -> JSONResponse:
    """Whatever nobody foresaw is in the log; the client still reads a document and knows who answered."""
    what = f"The daemon stumbled over {request.method} {request.url.path}; its log says how."
    return refused(FilrougeError(what))
