"""Who may ask: scopes, tokens, where a request comes from, and the door that every request passes first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypeVar

from starlette.exceptions import WebSocketException
from starlette.requests import HTTPConnection
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as HttpScope

from filrouge._version import __version__
from filrouge.core.errors import (
    BadConfig,
    BadInput,
    Busy,
    FilrougeError,
    Forbidden,
    Misdirected,
    NotFound,
    TooLarge,
    TooMany,
    Unauthorized,
)
from filrouge.core.settings import Settings
from filrouge.runtime.repository import Token, TokenKind, Tokens, hashed
from filrouge.runtime.services import Parts
from filrouge.server.problems import refuse
from filrouge.server.responses import settled

# What a caller must be allowed to do to reach a route: read, write or admin, each holding the one before.
#
# A GET reads and everything else writes, unless the route says otherwise: a question that is asked by POST only
# reads, and what decides about the daemon, its settings, its keys or its bytes is for the administrator.

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


# Where a request says it goes and comes from: the guard against web pages, which reach every port of this machine.
#
# A page of another site can point its own name at 127.0.0.1, and a page on another local port is of the same site as
# we are, so neither an address nor a SameSite cookie tells them from us. Their headers do: a browser writes Host,
# Origin and Sec-Fetch-Site itself. Whatever is not literally one of our own names, in the one spelling that browsers
# use, is refused; and a browser's request is taken only from our own pages or from the address bar. There is no CORS.

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_SCHEMES = {"http": "http", "https": "https", "ws": "http", "wss": "https"}
_USUAL = {"http": 80, "https": 443}


def header(scope: HttpScope, name: bytes) -> list[str]:
    """Every value of a header."""
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def checked_host(scope: HttpScope, named: Collection[str]) -> str:
    """The host that a request is addressed to, which is ours.

    Args:
        named: hosts beside those of the loopback, as `HOST` or `HOST:PORT`.

    Raises:
        Misdirected: there is none, or several, or it is another's.
    """
    given = header(scope, b"host")
    if len(given) != 1 or not scope["path"].startswith("/"):
        raise Misdirected
    if given[0] not in _ours(scope, LOOPBACK) and given[0] not in _ours(scope, named) and given[0] not in named:
        raise Misdirected
    return given[0]


def check_origin(scope: HttpScope, host: str, named: Collection[str]) -> None:
    """Hold what a browser says of where a request comes from against the host it goes to.

    Raises:
        Forbidden: it comes from a page that is not ours.
    """
    origins, sites = header(scope, b"origin"), header(scope, b"sec-fetch-site")
    if any(origin not in _origins(scope, host, named) for origin in origins) or len(origins) > 1:
        raise Forbidden("A page of another origin may not use this daemon.", remedy="There is no way to allow it.")
    if any(site not in ("same-origin", "none") for site in sites) or len(sites) > 1:
        remedy = "Open the address by hand: type or paste it into the address bar."
        raise Forbidden("A page of another site sent the browser here.", remedy=remedy)


def check_cookie(scope: HttpScope) -> None:
    """A cookie counts only where the browser vouches that the request is from our own page, or from its user.

    Raises:
        Unauthorized: nothing says so.
    """
    said = set(header(scope, b"sec-fetch-site"))
    looks = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
    if not header(scope, b"origin") and not said & ({"same-origin", "none"} if looks else {"same-origin"}):
        raise Unauthorized("A browser's session is for its own pages.", remedy="Send a token instead of a cookie.")


def _ours(scope: HttpScope, names: Collection[str]) -> set[str]:
    """Those names with our port, and without where it is the scheme's own."""
    port, scheme = scope["server"][1], _SCHEMES[scope["scheme"]]
    bare = set(names) if port == _USUAL[scheme] else set[str]()
    return bare | {f"{name}:{port}" for name in names}


def _origins(scope: HttpScope, host: str, named: Collection[str]) -> set[str]:
    """The origins of our own pages. Behind a proxy with a name of ours they are https, whatever we speak."""
    own = f"{_SCHEMES[scope['scheme']]}://{host}"
    return {own, f"https://{host}"} if host in named or host in _ours(scope, named) else {own}


# Who holds what: secrets checked against the store, and remembered for some seconds so that a check costs nothing.
#
# Revoking forgets them at once. When a token was used last is noted once a minute, behind the answer.

_REMEMBERED_SECONDS = 5.0
_NOTED_EVERY = timedelta(minutes=1)
_MOST_REMEMBERED = 1000
_LONGEST_SECRET = 200


class Keys:
    """The tokens of one daemon, as its door knows them."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._known: dict[bytes, tuple[float, Token]] = {}
        self._noted: dict[str, datetime] = {}
        self._revoked = 0

    async def verified(self, secret: str, kind: TokenKind) -> Token:
        """The token of that kind with that secret.

        Raises:
            Unauthorized: there is none that holds.
        """
        token = await self._found(secret) if len(secret) <= _LONGEST_SECRET else None
        if token is None or token.kind != kind or not token.holds(self._parts.clock.now()):
            raise Unauthorized("The token is not known here, or holds no more.")
        self._note(token)
        return token

    async def holds(self, id_: str) -> bool:
        """Whether the token or session with that id still lets its holder in; what ends later asks again."""
        try:
            token = await settled(self._parts.readers.submit(lambda tx: Tokens(tx).get(id_)))
        except NotFound:  # a session that ended long ago is dropped
            return False
        return token.holds(self._parts.clock.now())

    def forget(self) -> None:
        """Look everything up again: something was revoked."""
        self._revoked += 1
        self._known.clear()

    async def _found(self, secret: str) -> Token | None:
        key, now = hashed(secret), time.monotonic()
        until, known = self._known.get(key, (0.0, None))
        if known is not None and now < until:
            return known
        revoked = self._revoked
        token = await settled(self._parts.readers.submit(lambda tx: Tokens(tx).find(key)))
        if token is not None and revoked == self._revoked:  # what was read before a revocation is not remembered
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            self._known[key] = (now + _REMEMBERED_SECONDS, token)
        return token

    def _note(self, token: Token) -> None:
        now = self._parts.clock.now()
        last = self._noted.get(token.id, token.last_used_at)
        if last is not None and now - last < _NOTED_EVERY:
            return
        self._noted[token.id] = now
        with suppress(Busy):  # it is stopping
            self._parts.writer.submit(lambda tx: Tokens(tx).touch(token.id, now))


class Pace:
    """How fast large bodies are read, those of all requests together: what is busy with one must answer others, too.

    The first megabyte comes at once.
    """

    _BYTES_A_SECOND = 2_500_000.0
    _AT_ONCE = 1_000_000.0

    def __init__(self) -> None:
        self._left = self._AT_ONCE
        self._at = time.monotonic()

    async def take(self, size: int) -> None:
        """Wait until so many bytes may be read."""
        now = time.monotonic()
        self._left = min(self._AT_ONCE, self._left + (now - self._at) * self._BYTES_A_SECOND) - size
        self._at = now
        if self._left < 0:
            await asyncio.sleep(-self._left / self._BYTES_A_SECOND)


class Rates:
    """So many requests a second for each token; a second's worth may come at once."""

    def __init__(self, per_second: int) -> None:
        self._rate = float(per_second)
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, who: str) -> None:
        """Count one request.

        Raises:
            TooMany: there were too many.
        """
        now = time.monotonic()
        left, at = self._left.get(who, (self._rate, now))
        left = min(self._rate, left + (now - at) * self._rate)
        self._left[who] = (max(0.0, left - 1.0), now)
        if left < 1.0:
            raise TooMany(f"More than {self._rate:.0f} requests came in a second.")


# The door: what every request passes first, before anything reads its body or looks for its route.
#
# It stands around the whole application, error handlers and mounted applications included. Whoever comes over the
# unix socket is this user, because the kernel said so when the connection was made (`server.protocols`), and may do
# everything. Over TCP a request must be addressed to us, must not come from somebody else's page, and must carry a
# token or a browser's session; only `GET /health` and a login link need none. Which of the two it is tells the
# address of the socket that accepted the connection, which no header can forge.

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

    scope: Scope
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

    async def __call__(self, scope: HttpScope, receive: Receive, send: Send) -> None:
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

    def _counted(self, scope: HttpScope, send: Send) -> Send:
        """What is answered is counted by the path as its route declares it: no label of a metric holds an id."""

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                path = str(getattr(scope.get("route"), "path", ""))
                self._meters.request(scope["method"], path, message["status"])
            await send(message)

        return counted

    async def _admitted(self, scope: HttpScope) -> Access:
        if scope.get("server") is None:
            raise Forbidden("Nobody knows how this request came here.")
        host = checked_host(scope, self._named)
        check_origin(scope, host, self._named)
        if _needs_no_token(scope):
            return Access(scope="read", by="nothing")
        access = await self._identified(scope)
        self._rates.take(access.who)
        return access

    async def _identified(self, scope: HttpScope) -> Access:
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

    def _weigh(self, scope: HttpScope) -> None:
        """Refuse what says itself that it is too large, or says nothing one could weigh."""
        for length in header(scope, b"content-length"):
            if not length.isdecimal():
                raise BadInput("The Content-Length is no number.", remedy="Send the length of the body in bytes.")
            if len(length) > _DIGITS or int(length) > self._largest:
                raise _too_large(self._largest)


class _Weighed:
    """One request whose body is weighed as it comes; one that grows too large is answered and read no further."""

    def __init__(self, app: ASGIApp, largest: int, pace: Pace, scope: HttpScope, receive: Receive, send: Send) -> None:
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
    need = needed(scope["endpoint"], scope.get("method", "GET"))
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

    async def __call__(self, scope: HttpScope, receive: Receive, send: Send) -> None:
        need = needed(self._marked, "" if self._mounted else scope.get("method", "GET"))
        if _may(scope, need):
            await self._app(scope, receive, send)
        else:
            await refuse(scope, receive, send, _too_small(need))


def _may(scope: HttpScope, need: Scope) -> bool:
    access = scope.get(ACCESS)
    return isinstance(access, Access) and allows(access.scope, need)


def _too_small(need: Scope) -> Forbidden:
    return Forbidden(f"This needs a token with the scope {need}.")


def _too_large(largest: int) -> TooLarge:
    return TooLarge(f"A request may have {largest / 1_000_000:g} MB at the most.")


def _needs_no_token(scope: HttpScope) -> bool:
    """True for the question whether it is well, and for a login link, whose own secret its route looks at."""
    if scope["type"] != "http" or scope["method"] != "GET":
        return False
    path: str = scope["path"]
    return path == HEALTH or (path.startswith(LOGIN) and path.count("/") == 2 and path != LOGIN)


def _secret(scope: HttpScope) -> str:
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


def _cookie(scope: HttpScope, name: str) -> str:
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
