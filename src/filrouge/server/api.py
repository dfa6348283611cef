"""The FastAPI application: routes, middleware and error handlers.

Routes translate between HTTP and the services; the services make the decisions. Every request to the application
first passes `server.admission`. Every response carries the daemon's version, so that client and daemon can detect which
of them is newer. Errors are problem documents (RFC 9457) with a remedy.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from filrouge._version import __version__
from filrouge.core.errors import BadInput, FilrougeError, NotFound
from filrouge.runtime.wiring import Running
from filrouge.server.admission import AdmissionMiddleware, CutBodies, TokenCache, check_scope, guard
from filrouge.server.application import NO_TELEMETRY, invalid_request_error
from filrouge.server.deferred import DeferredRouter, methods_at
from filrouge.server.listening import Listening
from filrouge.server.live import Sockets
from filrouge.server.middleware import IdempotencyMiddleware, check_request, expand_short_ids
from filrouge.server.openapi import build_document
from filrouge.server.problems import PROBLEM, problem_document, problem_response
from filrouge.server.routes import context, daemon

_REFERENCE_REMEDY = "See the API reference, or GET /openapi.json."


#: Routers that hooks need right after a start are imported here. Every other router is imported at the first request
#: for it; it is given as the name of its module, without `filrouge.`, and its path prefixes. Where prefixes overlap,
#: the first route that matches answers.
ROUTERS: Final[tuple[APIRouter | tuple[str, tuple[str, ...]], ...]] = (
    *context.ROUTERS,
    *daemon.ROUTERS,
    ("server.routes.memories", (
        "/api/memory/facts", "/api/memory/memories", "/api/memory/search", "/search", "/api/memory/settings",
        "/api/memory/stats", "/api/memory/retrievals", "/api/memory/rules", "/memory/supersede", "/api/memory/review",
        "/api/memory/undo", "/api/memory/sessions/", "/api/audit/", "/api/memory/concepts", "/memory/tool",
        "/memory/novel",
    )),
    ("server.routes.threads", (
        "/api/memory/topics", "/api/memory/timeline", "/api/memory/threads", "/api/memory/turns/",
        "/api/memory/bridges", "/api/memory/graph",
    )),
    ("server.routes.turns", ("/memory/turns", "/api/memory/messages", "/api/memory/turns/", "/api/memory/events")),
    ("server.routes.providers", (
        "/embedding", "/extract/", "/api/memory/usage", "/api/memory/activity", "/memory/extract",
    )),
    ("server.routes.maintenance", (
        "/api/memory/gardens", "/api/memory/backups", "/api/memory/dead-letters", "/api/memory/jobs",
        "/api/memory/recalls/", "/metrics",
    )),
    ("server.routes.erasure", ("/api/memory/forget", "/api/memory/receipts")),
    ("server.routes.transfer", ("/api/memory/export", "/api/memory/import")),
    ("server.routes.projects", ("/api/memory/projects",)),
    ("server.routes.notes", ("/api/memory/notes",)),
    ("server.routes.team", ("/api/team",)),
    ("server.routes.access", ("/api/tokens", "/login/")),
    ("server.routes.hosts", ("/api/hosts",)),
    ("web.screens", ("/dashboard",)),
    ("mcp.mount", ("/mcp",)),
)  # fmt: skip


class _Application(FastAPI):
    """FastAPI with the admission middleware outside all other middleware."""

    def build_middleware_stack(self) -> ASGIApp:
        guard(self.router.routes)
        self.state.admitted = CutBodies(super().build_middleware_stack())
        return AdmissionMiddleware(self.state.admitted, self.state.running.parts, self.state.token_cache)

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document of all routes, built once."""
        self.openapi_schema = self.openapi_schema or build_document(self)
        return self.openapi_schema


def create_app(running: Running, stop: Callable[[], None], listening: Listening | None = None) -> FastAPI:
    """Return the application for a running Filrouge.

    Args:
        stop: asks the process to stop.
        listening: where the daemon listens on TCP; routes report it.
    """
    dependencies = [Depends(check_scope), Depends(check_request), Depends(expand_short_ids)]
    app = _Application(
        title="Filrouge",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        dependencies=dependencies,
        telemetry=NO_TELEMETRY,
    )
    app.state.running = running
    app.state.stop = stop
    app.state.token_cache = TokenCache(running.parts)
    app.state.listening = listening or Listening()
    app.state.sockets = Sockets()
    for router in ROUTERS:
        if isinstance(router, APIRouter):
            app.include_router(router)
        else:
            app.router.routes.append(DeferredRouter(app, *router))
    app.add_middleware(IdempotencyMiddleware)
    app.add_exception_handler(FilrougeError, _handle_filrouge_error)
    app.add_exception_handler(RequestValidationError, _handle_invalid_request)
    app.add_exception_handler(HTTPException, _handle_framework_error)
    app.add_exception_handler(Exception, _handle_unexpected_error)
    return app


async def _handle_filrouge_error(_: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, FilrougeError):
        raise error
    return problem_response(error)


async def _handle_invalid_request(_: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, RequestValidationError):
        raise error
    return problem_response(invalid_request_error(error, remedy=_REFERENCE_REMEDY, quotes=True))


async def _handle_framework_error(request: Request, error: Exception) -> JSONResponse:
    """Answer an error of the framework itself: an unknown path, a wrong method, a body that is not JSON."""
    if not isinstance(error, HTTPException):
        raise error
    status = HTTPStatus(error.status_code)
    error_type = NotFound if status == HTTPStatus.NOT_FOUND else BadInput
    document = {
        **problem_document(
            error_type(f"{request.method} {request.url.path}: {error.detail}.", remedy=_REFERENCE_REMEDY), status
        ),
        "type": f"urn:filrouge:error:{status.phrase.title().replace(' ', '')}",
        "title": f"{status.phrase}.",
    }
    headers = dict(error.headers or {})
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(sorted(methods_at(request.app, request.url.path)))
    return JSONResponse(document, status_code=status, media_type=PROBLEM, headers=headers)


async def _handle_unexpected_error(request: Request, _: Exception) -> JSONResponse:
    """Answer an unexpected error, which is in the log, with a problem document."""
    return problem_response(FilrougeError(f"The daemon failed at {request.method} {request.url.path}; see its log."))
