"""The door: what every request passes first, before anything reads its body or looks for its route.

It stands around the whole application, error handlers and mounted applications included. Whoever comes over the unix
socket is this user, because the kernel said so when the connection was made (`server.wire`), and may do everything.
Over TCP a request must be addressed to us, must not come from somebody else's page, and must carry a token or a
browser's session; only `GET /health` and a login link need none. Which of the two it is tells the address of the socket
that accepted the connection, which no header can forge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from starlette.exceptions import WebSocketException
from starlette.requests import HTTPConnection
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from filrouge._version import __version__
from filrouge.app.parts import Parts
from filrouge.config import Settings
from filrouge.errors import BadConfig, BadInput, FilrougeError, Forbidden, TooLarge, Unauthorized
from filrouge.server import scopes
from filrouge.server.keys import Keys, Pace, Rates
from filrouge.server.origin import LOOPBACK, check_cookie, check_origin, checked_host, header
from filrouge.server.problems import refuse

ACCESS: Final = "filrouge.access"
#: Of a length in bytes; Python reads no number of thousands of digits.
_DIGITS: Final = 18
VERSION_HEADER: Final = "X-Filrouge-Version"
LOGIN: Final = "/login/"
HEALTH: Final = "/health"
_SIGNED: Final = (VERSION_HEADER.lower().encode(), __version__.encode())
#: On everything that a browser may get: nothing of it is for another origin, nor to be taken for what it is not.
_GUARDS: Final = {
    b"x-content-type-options": b"nosniff",
    b"cross-origin-resource-policy": b"same-origin",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cache-control": b"no-store",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Access:
    """What the caller may do, and by what right.

    Attributes:
        who: the id of a token or session; empty on the socket and where none is needed.
    """

    scope: scopes.Scope
    by: Literal["socket", "token", "session", "nothing"]
    who: str = ""


def cookie_name(port: int) -> str:
    """The cookie of a daemon: a browser keeps those of all ports of a host together."""
    return f"filrouge_{port}"


def settings_of(parts: Parts) -> Settings:
    """The settings that hold; where they cannot be read, the defaults, which are the safe ones."""
    try:
        return parts.readers.submit(lambda tx: parts.effective(tx).settings).result()
    except BadConfig:
        return Settings()


class Door:
    """The outermost layer of the application."""

    def __init__(self, app: ASGIApp, parts: Parts, keys: Keys) -> None:
        settings = settings_of(parts)
        self._app = app
        self._keys = keys
        self._meters = parts.meters
        self._rates = Rates(settings.limit_requests)
        own = set[str]() if settings.host in (*LOOPBACK, "::1") else {settings.host}
        self._named = frozenset(own | set(settings.allowed_hosts))
        self._pace = Pace()
        self._largest = int(settings.limit_body_mb * 1_000_000)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        server = scope.get("server")
        inside = server is not None and server[1] is None
        answer = signing(self._counted(scope, send), () if inside else tuple(_GUARDS.items()))
        if inside:
            scope[ACCESS] = Access(scope="admin", by="socket")
            await self._app(scope, receive, answer)
            return
        try:
            scope[ACCESS] = await self._admitted(scope)
            self._weigh(scope)
        except FilrougeError as error:
            await refuse(scope, receive, answer, error)
            return
        if scope["type"] == "http":
            await _Weighed(self._app, self._largest, self._pace, scope, receive, answer).run()
        else:
            await self._app(scope, receive, answer)

    def _counted(self, scope: Scope, send: Send) -> Send:
        """What is answered is counted by the path as its route declares it: no label of a metric holds an id."""

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                path = str(getattr(scope.get("route"), "path", ""))
                self._meters.request(scope["method"], path, message["status"])
            await send(message)

        return counted

    async def _admitted(self, scope: Scope) -> Access:
        if scope.get("server") is None:
            raise Forbidden("Nobody knows how this request came here.")
        host = checked_host(scope, self._named)
        check_origin(scope, host, self._named)
        if _needs_no_token(scope):
            return Access(scope="read", by="nothing")
        access = await self._identified(scope)
        self._rates.take(access.who)
        return access

    async def _identified(self, scope: Scope) -> Access:
        secret = _secret(scope)
        if secret:
            token = await self._keys.verified(secret, "token")
            return Access(scope=token.scope, by="token", who=token.id)
        session = _cookie(scope, cookie_name(scope["server"][1]))
        if not session:
            raise Unauthorized
        check_cookie(scope)
        token = await self._keys.verified(session, "session")
        return Access(scope=token.scope, by="session", who=token.id)

    def _weigh(self, scope: Scope) -> None:
        """Refuse what says itself that it is too large, or says nothing one could weigh."""
        for length in header(scope, b"content-length"):
            if not length.isdecimal():
                raise BadInput("The Content-Length is no number.", remedy="Send the length of the body in bytes.")
            if len(length) > _DIGITS or int(length) > self._largest:
                raise _too_large(self._largest)


class _Weighed:
    """One request whose body is weighed as it comes; one that grows too large is answered and read no further."""

    def __init__(self, app: ASGIApp, largest: int, pace: Pace, scope: Scope, receive: Receive, send: Send) -> None:
        self._app = app
        self._scope, self._receive, self._send = scope, receive, send
        self._largest = largest
        self._pace = pace
        self._weight = 0
        self._answered: Literal["no", "by the route", "by us"] = "no"

    async def run(self) -> None:
        """Serve it."""
        await self._app(self._scope, self._take, self._say)

    async def _take(self) -> Message:
        message = await self._receive()
        size = len(message.get("body", b""))
        self._weight += size
        if self._weight <= self._largest:
            await self._pace.take(size)
            return message
        if self._answered == "no":
            self._answered = "by us"
            await refuse(self._scope, self._receive, self._send, _too_large(self._largest))
        return {"type": "http.disconnect"}

    async def _say(self, message: Message) -> None:
        if self._answered != "by us":  # whatever the route makes of a body that breaks off, the client has its answer
            self._answered = "by the route"
            await self._send(message)


def permitted(connection: HTTPConnection) -> None:
    """The dependency of every route: who came in may do this.

    Raises:
        Forbidden: their token does not reach so far.
    """
    scope = connection.scope
    need = scopes.needed(scope["endpoint"], scope.get("method", "GET"))
    if not _may(scope, need):
        if scope["type"] == "websocket":
            raise WebSocketException(1008, f"This needs the scope {need}.")
        raise _too_small(need)


def guard(routes: Sequence[BaseRoute]) -> None:
    """Set a guard before what dependencies do not reach: mounted applications, which need `write` unless they are
    marked otherwise, and bare routes.
    """
    for route in routes:
        if isinstance(route, Mount | Route | WebSocketRoute) and not isinstance(route.app, _Guarded):
            marked = route.app if isinstance(route, Mount) else route.endpoint
            route.app = _Guarded(route.app, marked, mounted=isinstance(route, Mount))


class _Guarded:
    def __init__(self, app: ASGIApp, marked: Any, *, mounted: bool) -> None:
        self._app = app
        self._marked = marked
        self._mounted = mounted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        need = scopes.needed(self._marked, "" if self._mounted else scope.get("method", "GET"))
        if _may(scope, need):
            await self._app(scope, receive, send)
        else:
            await refuse(scope, receive, send, _too_small(need))


def _may(scope: Scope, need: scopes.Scope) -> bool:
    access = scope.get(ACCESS)
    return isinstance(access, Access) and scopes.allows(access.scope, need)


def _too_small(need: scopes.Scope) -> Forbidden:
    return Forbidden(f"This needs a token with the scope {need}.")


def _too_large(largest: int) -> TooLarge:
    return TooLarge(f"A request may have {largest / 1_000_000:g} MB at the most.")


def _needs_no_token(scope: Scope) -> bool:
    """True for the question whether it is well, and for a login link, whose own secret its route looks at."""
    if scope["type"] != "http" or scope["method"] != "GET":
        return False
    path: str = scope["path"]
    return path == HEALTH or (path.startswith(LOGIN) and path.count("/") == 2 and path != LOGIN)


def _secret(scope: Scope) -> str:
    """The token that a program sent; empty for none. A key in a query is no key: it would be in logs and histories.

    Raises:
        Unauthorized: there are several, or it is no bearer token.
    """
    given = [*header(scope, b"authorization"), *header(scope, b"x-api-key")]
    if len(given) > 1:
        raise Unauthorized("Send one token, once.")
    for authorization in header(scope, b"authorization"):
        kind, _, secret = authorization.partition(" ")
        if kind.lower() != "bearer" or not secret.strip():
            raise Unauthorized("Send the token as `Authorization: Bearer TOKEN` or `X-API-Key: TOKEN`.")
        return secret.strip()
    return given[0].strip() if given else ""


def _cookie(scope: Scope, name: str) -> str:
    pairs = (pair.partition("=") for line in header(scope, b"cookie") for pair in line.split(";"))
    return next((value.strip() for key, _, value in pairs if key.strip() == name), "")


def signing(send: Send, more: Sequence[tuple[bytes, bytes]]) -> Send:
    """Every answer names the version that gave it."""

    async def signed(message: Message) -> None:
        if message["type"].endswith("response.start") or message["type"] == "websocket.accept":
            headers = list(message.get("headers", ()))
            present = {name.lower() for name, _ in headers}
            added = [_SIGNED, *more] if message["type"] != "websocket.accept" else [_SIGNED]
            headers += [(name, value) for name, value in added if name not in present]
            message = {**message, "headers": headers}
        await send(message)

    return signed
