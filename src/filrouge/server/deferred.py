"""Routers that are imported on the first request under their paths.

Importing a router with its models takes 5 to 40 ms, and few routers are needed in the first second after the start. A
`DeferredRouter` holds a router's position in the list of routes, so that neither the matching order nor the OpenAPI
document depends on the import order. `import_all` imports the remaining routers while the daemon is idle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from importlib import import_module
from threading import Lock
from types import ModuleType
from typing import Any, cast

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from filrouge.server.admission import guard

_PACKAGE = "filrouge"


class DeferredRouter(BaseRoute):
    """The placeholder of a router whose module is not imported yet.

    Args:
        app: the application that includes the router.
        module: a module below `filrouge`, with one `router` or several `ROUTERS`.
        paths: prefixes; every path of its routers begins with one of them.
    """

    def __init__(self, app: FastAPI, module: str, paths: tuple[str, ...]) -> None:
        self.module = f"{_PACKAGE}.{module}"
        self.paths = paths
        self._app = app
        self._lock = Lock()
        self._is_loaded = False

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Load the router if the path fits, and match nothing; the loaded routes follow in the list and are tried
        next."""
        if scope["type"] in ("http", "websocket"):
            self.load_for(scope["path"])
        return Match.NONE, {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Never called, because the placeholder matches nothing."""
        raise NotImplementedError

    def load_for(self, path: str) -> None:
        """Include the router if it may have a route for this path."""
        if not self._is_loaded and path.startswith(self.paths):
            self.load()

    def load(self) -> None:
        """Include the router's routes directly after this placeholder."""
        with self._lock:
            if self._is_loaded:
                return
            routes = self._app.router.routes
            first_added = len(routes)
            for router in routers_of(import_module(self.module)):
                self._app.include_router(router)
            added = routes[first_added:]
            guard(added)
            del routes[first_added:]
            position = routes.index(self) + 1
            routes[position:position] = added
            self._is_loaded = True


def routers_of(module: ModuleType) -> tuple[APIRouter, ...]:
    """Return the routers of a module: its `ROUTERS`, or its `router`."""
    routers: tuple[APIRouter, ...] | None = getattr(module, "ROUTERS", None)
    return routers or (cast("APIRouter", module.router),)


def routes_of(routes: Iterable[object]) -> Iterator[APIRoute]:
    """Yield the routes of an application; newer FastAPI versions nest an included router."""
    for route in routes:
        if isinstance(route, APIRoute):
            yield route
        else:
            included: Any = getattr(route, "original_router", None)
            yield from routes_of(included.routes if included is not None else ())


def methods_at(app: FastAPI, path: str) -> set[str]:
    """Return the methods allowed at a path; a route with exactly this path takes precedence over a path parameter."""
    load_for(app, path)
    matching = [route for route in routes_of(app.routes) if route.path_regex.match(path)]
    exact = [route for route in matching if route.path == path]
    return {method for route in exact or matching for method in route.methods or ()}


def load_for(app: FastAPI, path: str) -> None:
    """Include every router that may have a route for this path."""
    for placeholder in _placeholders(app):
        placeholder.load_for(path)


def load_all(app: FastAPI) -> None:
    """Include every router that is still deferred."""
    for placeholder in _placeholders(app):
        placeholder.load()


def import_all(app: FastAPI, loop: asyncio.AbstractEventLoop) -> None:
    """Import the deferred modules in the calling thread; the event loop then includes each router."""
    for placeholder in _placeholders(app):
        import_module(placeholder.module)
        loop.call_soon_threadsafe(placeholder.load)


def _placeholders(app: FastAPI) -> Iterable[DeferredRouter]:
    return [route for route in app.router.routes if isinstance(route, DeferredRouter)]
