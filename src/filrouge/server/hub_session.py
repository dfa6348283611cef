"""What every route of the hub needs: the transaction of the member who asks, and the clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import Request

from filrouge.core.clock import Clock
from filrouge.core.errors import Unauthorized
from filrouge.hub.database import HubDatabase, Session


def run(request: Request, work: Callable[[Session], Any]) -> Any:
    """Return the result of a transaction, which is committed before the answer is sent."""
    database: HubDatabase = request.app.state.database
    with database.session(secret_of(request)) as session:
        return work(session)


def clock_of(request: Request) -> Clock:
    """Return the clock of the application."""
    return request.app.state.clock


def secret_of(request: Request) -> str:
    """Return the secret of the request's token.

    Raises:
        Unauthorized: it has none.
    """
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise Unauthorized("The request has no token.", remedy="Send `Authorization: Bearer TOKEN`.")
    return secret.strip()
