"""The HTTP surface: FastAPI over the verbs of `app`. No route thinks; each asks one verb and gives its answer.

In this version it listens on the unix socket only, whose mode and directory admit this user alone. Every
answer names the version that gave it, so that client and daemon can settle which of them is newer. Errors are
problem documents (RFC 9457) with the remedy.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from filrouge._version import __version__
from filrouge.app.wiring import Running
from filrouge.errors import BadInput, FilrougeError, NotFound
from filrouge.server.routes import (
    backups,
    bridges,
    changing,
    concepts,
    daemon,
    embedding,
    exporting,
    extracting,
    facts,
    forgetting,
    gardens,
    hooks,
    injecting,
    jobs,
    memory,
    metrics,
    models,
    novelty,
    rules,
    threads,
    topics,
    turns,
)

VERSION_HEADER = "X-Filrouge-Version"


def create_app(running: Running, leave: Callable[[], None]) -> FastAPI:
    """The application over a running Filrouge; `leave` asks its process to end."""
    app = FastAPI(title="Filrouge", version=__version__, docs_url=None, redoc_url=None)
    app.state.running = running
    app.state.leave = leave
    for routes in (
        hooks, memory, injecting, rules, topics, threads, bridges, embedding, models, daemon, changing, concepts,
        metrics, forgetting, gardens, backups, turns, extracting, facts, jobs,
        exporting, novelty,
    ):  # fmt: skip
        app.include_router(routes.router)
    app.middleware("http")(_sign)
    app.add_exception_handler(FilrougeError, _problem)
    app.add_exception_handler(RequestValidationError, _unreadable)
    app.add_exception_handler(HTTPException, _no_route)
    app.add_exception_handler(Exception, _stumbled)
    return app


async def _sign(request: Request, go_on: Callable[[Request], Awaitable[Response]]) -> Response:
    response = await go_on(request)
    response.headers[VERSION_HEADER] = __version__
    return response


async def _problem(_: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, FilrougeError):
        raise error
    return _document(error, error.http_status)


async def _unreadable(_: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, RequestValidationError):
        raise error
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return _document(BadInput(f"{where}: {first['msg']}.", remedy="See the API reference."), BadInput.http_status)


async def _no_route(request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, HTTPException):
        raise error
    what = f"{request.method} {request.url.path}: {error.detail}."
    return _document(NotFound(what, remedy="See the API reference."), error.status_code)


async def _stumbled(request: Request, _: Exception) -> JSONResponse:
    """Whatever nobody foresaw is in the log; the client still reads a document and knows who answered."""
    what = f"The daemon stumbled over {request.method} {request.url.path}; its log says how."
    return _document(FilrougeError(what), FilrougeError.http_status)


def _document(error: FilrougeError, status: int) -> JSONResponse:
    body = {
        "type": f"urn:filrouge:error:{type(error).__name__}",
        "title": (type(error).__doc__ or "").strip().splitlines()[0],
        "status": status,
        "detail": error.message,
        "remedy": error.remedy,
        "exit_code": error.exit_code,
    }
    return JSONResponse(body, status_code=status, media_type="application/problem+json")
