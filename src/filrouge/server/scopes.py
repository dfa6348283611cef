"""What a caller must be allowed to do to reach a route: read, write or admin, each holding the one before.

A GET reads and everything else writes, unless the route says otherwise: a question that is asked by POST only reads,
and what decides about the daemon, its settings, its keys or its bytes is for the administrator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

Scope = Literal["read", "write", "admin"]
SCOPES: tuple[Scope, ...] = ("read", "write", "admin")

_MARK = "__filrouge_scope__"
_Endpoint = TypeVar("_Endpoint", bound=Callable[..., Any])


def needs(scope: Scope) -> Callable[[_Endpoint], _Endpoint]:
    """Mark an endpoint with what its callers must be allowed; written below the route's own decorator."""

    def marked(endpoint: _Endpoint) -> _Endpoint:
        setattr(endpoint, _MARK, scope)
        return endpoint

    return marked


def needed(endpoint: Callable[..., Any], method: str) -> Scope:
    """What the callers of an endpoint must be allowed."""
    found: Scope | None = getattr(endpoint, _MARK, None)
    return found or ("read" if method in ("GET", "HEAD") else "write")


def allows(held: Scope, scope: Scope) -> bool:
    """Whether who holds one scope may do what needs another."""
    return SCOPES.index(held) >= SCOPES.index(scope)
