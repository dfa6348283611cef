"""The hub over HTTP: `/hub/v1/…`. Every request is one transaction of the member whose token it carries.

The handlers are plain functions, so Starlette runs them in threads; the pool of connections limits how many work at
once. TLS is the load balancer's or uvicorn's own.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final

from fastapi import APIRouter, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.middleware.exceptions import ExceptionMiddleware

from filrouge._version import __version__
from filrouge.core.clock import Clock
from filrouge.core.errors import FilrougeError
from filrouge.core.protocols import Embedder
from filrouge.hub import service, tokens
from filrouge.hub.database import HubDatabase
from filrouge.hub.models import (
    MAX_CHANGES,
    Accept,
    Conflict,
    Device,
    Forget,
    Id,
    Invitation,
    Member,
    NewToken,
    Page,
    Push,
    PushAnswers,
    Receipts,
    Settle,
)
from filrouge.providers.embedders import create_embedder
from filrouge.server import hub_search
from filrouge.server.application import NO_TELEMETRY, invalid_request_error
from filrouge.server.body_limit import BodyLimit
from filrouge.server.hub_session import clock_of as _clock
from filrouge.server.hub_session import run as _run
from filrouge.server.problems import problem_response

#: Maximum bytes of a request.
MAX_BODY: Final = 32_000_000
_LOG: Final = logging.getLogger(__name__)
router = APIRouter()


def create_app(database: HubDatabase, clock: Clock, embedder: Embedder | None = None) -> FastAPI:
    """Return the application; it opens the database when it starts, and closes it when it stops.

    Args:
        embedder: makes the vectors of questions; None = the bundled model, which is loaded at the first question.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        database.open()
        try:
            yield
        finally:
            database.close()

    app = FastAPI(
        title="Filrouge hub",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        telemetry=NO_TELEMETRY,
    )
    app.add_middleware(ExceptionMiddleware, handlers={Exception: _failed})
    app.add_middleware(BodyLimit, max_bytes=MAX_BODY, remedy="Send fewer versions at once.")
    app.exception_handler(FilrougeError)(_refused)
    app.exception_handler(RequestValidationError)(_invalid)
    app.state.database, app.state.clock = database, clock
    app.state.embedder = embedder or create_embedder("e5")
    app.include_router(router)
    app.include_router(hub_search.router)
    return app


@router.get("/health")
def health(request: Request) -> dict[str, str]:
    """Say whether the hub and its database answer; needs no token."""
    request.app.state.database.ping()
    return {"status": "ok", "version": __version__}


@router.post("/hub/v1/push")
def push(body: Push, request: Request) -> PushAnswers:
    """Store versions."""
    answers = _run(request, lambda hub: service.push(hub, _clock(request), body.versions))
    return PushAnswers(answers=tuple(answers))


@router.get("/hub/v1/changes")
def changes(
    request: Request,
    after: Annotated[str, Query(max_length=80)] = "",
    limit: Annotated[int, Query(ge=1, le=MAX_CHANGES)] = 500,
    device: Id | None = None,
    project: Annotated[str | None, Query(max_length=500)] = None,
) -> Page:
    """Return the changes behind a cursor."""
    return _run(request, lambda hub: service.changes(hub, after=after, limit=limit, device=device, project=project))


@router.get("/hub/v1/projects")
def projects(request: Request) -> list[str]:
    """Return the projects that have shared memories."""
    return _run(request, service.projects)


@router.get("/hub/v1/conflicts")
def conflicts(request: Request) -> list[Conflict]:
    """Return the conflicts that nobody has settled."""
    return _run(request, service.conflicts)


@router.post("/hub/v1/conflicts/{conflict}")
def settle(conflict: str, body: Settle, request: Request) -> Conflict:
    """Say which memory of a conflict holds."""
    return _run(request, lambda hub: service.settle(hub, _clock(request), conflict, body.keep))


@router.post("/hub/v1/accept")
def accept(body: Accept, request: Request) -> dict[str, bool]:
    """Accept rules for everybody; returns whether each was accepted now."""
    return _run(request, lambda hub: service.accept(hub, _clock(request), body.memories))


@router.post("/hub/v1/forget")
def forget(body: Forget, request: Request) -> dict[str, int]:
    """Erase memories; returns the number of erased versions of each."""
    return _run(request, lambda hub: service.forget(hub, _clock(request), body.memories))


@router.post("/hub/v1/receipts")
def receipts(body: Receipts, request: Request) -> None:
    """Record what a device found of forgotten memories."""
    _run(request, lambda hub: service.confirm(hub, body.device, body.receipts))


@router.post("/hub/v1/devices")
def join(body: Device, request: Request) -> None:
    """Register a device."""
    _run(request, lambda hub: service.join(hub, _clock(request), body))


@router.get("/hub/v1/status")
def status(request: Request) -> dict[str, Any]:
    """Return counts, and which devices have not confirmed a forgetting."""
    return _run(request, service.status)


@router.get("/hub/v1/members")
def members(request: Request) -> list[dict[str, Any]]:
    """Return the members of the team."""
    return _run(request, tokens.members)


@router.post("/hub/v1/members")
def invite(body: Invitation, request: Request) -> NewToken:
    """Add a member, or give one another token."""
    return _run(request, lambda hub: tokens.invite(hub, _clock(request), body.name, body.scopes, body.days))


@router.post("/hub/v1/members/remove")
def remove(body: Member, request: Request) -> None:
    """Remove a member."""
    _run(request, lambda hub: tokens.remove(hub, _clock(request), body.name))


@router.delete("/hub/v1/tokens/{token}")
def revoke(token: str, request: Request) -> None:
    """Revoke a token."""
    _run(request, lambda hub: tokens.revoke(hub, _clock(request), token))


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, FilrougeError)
    if error.http_status >= 500:
        _LOG.warning("%s: %s", type(error).__name__, error.message)
    return problem_response(error)


async def _failed(_: Request, error: Exception) -> Response:
    """Log where an unexpected error arose, but not its message: it may quote the text of a memory."""
    _LOG.error("%s at:\n%s", type(error).__name__, "".join(traceback.format_tb(error.__traceback__)))
    return problem_response(FilrougeError("The hub failed.", remedy="See the log of the hub."))


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return problem_response(invalid_request_error(error, remedy="See the hub's protocol.", quotes=False))
