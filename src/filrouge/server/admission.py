"""Admission of requests: keys, scopes and origins, and large bodies that are cut or refused while they arrive.

`AdmissionMiddleware` is the outermost ASGI middleware. It wraps the whole application, including error handlers and
mounted applications, so every request passes it before anything reads its body or matches a route.

A connection on the Unix socket has full access, because the kernel identified the user when the connection was made
(`server.protocols`). A TCP request must be addressed to this daemon, must not come from a foreign page, and must carry
a token or a browser session; only `GET /health` and login links need neither. The address of the accepting socket
decides which case applies; a header cannot forge it.

A request therefore never needs a multiple of its size in memory. On the routes for events and messages, a body is
passed on as it arrives, without the ends of very long strings and without values beyond the maximum for one event. A
little more is kept than an event may contain: the exact limits, and the redaction of text that crosses them, are in
`capture.events`. A mark replaces the dropped text and states how much was dropped. Other routes have their own limits
and refuse larger bodies.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypeVar, cast

from starlette.exceptions import WebSocketException
from starlette.requests import HTTPConnection
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as ASGIScope
from starlette.types import Scope as HttpScope

from filrouge._version import __version__
from filrouge.capture.events import LARGEST_EVENT, LONGEST_TEXT, LOOKAHEAD, MAX_VALUES, cut_mark
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
from filrouge.daemon.reply import VERSION_HEADER
from filrouge.runtime.repository import Token, TokenKind, Tokens, hashed
from filrouge.runtime.services import Parts
from filrouge.server.problems import refuse
from filrouge.server.responses import await_future

# Scopes: read, write and admin. Each scope includes the one before it.
#
# By default a GET needs `read` and every other method needs `write`. A route can declare another scope: a POST that
# only queries needs `read`; routes that control the daemon, its settings, its keys or its files need `admin`.

Scope = Literal["read", "write", "admin"]
SCOPES: tuple[Scope, ...] = ("read", "write", "admin")

_MARK = "__filrouge_scope__"
_Endpoint = TypeVar("_Endpoint", bound=Callable[..., Any])


def requires(scope: Scope) -> Callable[[_Endpoint], _Endpoint]:
    """Return a decorator that sets the scope an endpoint requires; put it below the route decorator."""

    def marked(endpoint: _Endpoint) -> _Endpoint:
        setattr(endpoint, _MARK, scope)
        return endpoint

    return marked


def required_scope(endpoint: Callable[..., Any], method: str) -> Scope:
    """Return the scope that an endpoint requires for a method."""
    found: Scope | None = getattr(endpoint, _MARK, None)
    return found or ("read" if method in ("GET", "HEAD") else "write")


def includes(held: Scope, scope: Scope) -> bool:
    """Return whether the held scope includes the required scope."""
    return SCOPES.index(held) >= SCOPES.index(scope)


# Host and origin checks: the guard against web pages, which can reach every port of this machine.
#
# A page of another site can point its own name at 127.0.0.1, and a page on another local port counts as the same site,
# so neither the address nor a SameSite cookie is enough. The browser itself writes Host, Origin and Sec-Fetch-Site.
# Only an exact match with one of the daemon's own names, in the spelling browsers use, is accepted. A browser request
# must come from the daemon's own pages or from the address bar. CORS is not supported.

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_SCHEMES = {"http": "http", "https": "https", "ws": "http", "wss": "https"}
_USUAL = {"http": 80, "https": 443}


def header(scope: HttpScope, name: bytes) -> list[str]:
    """Return every value of a header."""
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def checked_host(scope: HttpScope, named: Collection[str]) -> str:
    """Return the request's Host header after checking that it names this daemon.

    Args:
        named: hosts other than the loopback names, as `HOST` or `HOST:PORT`.

    Raises:
        Misdirected: the Host header is missing, repeated or names another host, or the path is not absolute.
    """
    given = header(scope, b"host")
    if len(given) != 1 or not scope["path"].startswith("/"):
        raise Misdirected
    if (
        given[0] not in _own_hosts(scope, LOOPBACK)
        and given[0] not in _own_hosts(scope, named)
        and given[0] not in named
    ):
        raise Misdirected
    return given[0]


def check_origin(scope: HttpScope, host: str, named: Collection[str]) -> None:
    """Check the Origin and Sec-Fetch-Site headers against the host that the request is addressed to.

    Raises:
        Forbidden: the request comes from a foreign page.
    """
    origins, sites = header(scope, b"origin"), header(scope, b"sec-fetch-site")
    if any(origin not in _origins(scope, host, named) for origin in origins) or len(origins) > 1:
        raise Forbidden("A page of another origin may not use this daemon.", remedy="There is no way to allow it.")
    if any(site not in ("same-origin", "none") for site in sites) or len(sites) > 1:
        remedy = "Open the address by hand: type or paste it into the address bar."
        raise Forbidden("A page of another site sent the browser here.", remedy=remedy)


def check_cookie(scope: HttpScope) -> None:
    """Check that a request with a session cookie comes from the daemon's own page or from its user.

    Raises:
        Unauthorized: no browser header confirms it.
    """
    said = set(header(scope, b"sec-fetch-site"))
    looks = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
    if not header(scope, b"origin") and not said & ({"same-origin", "none"} if looks else {"same-origin"}):
        raise Unauthorized(
            "A session cookie is accepted only from this daemon's pages.", remedy="Send a token instead of a cookie."
        )


def _own_hosts(scope: HttpScope, names: Collection[str]) -> set[str]:
    """Return the names with the daemon's port, and also without it where it is the scheme's default port."""
    port, scheme = scope["server"][1], _SCHEMES[scope["scheme"]]
    bare = set(names) if port == _USUAL[scheme] else set[str]()
    return bare | {f"{name}:{port}" for name in names}


def _origins(scope: HttpScope, host: str, named: Collection[str]) -> set[str]:
    """Return the accepted origins. Behind a proxy with an allowed name, https is accepted for a plain-http daemon."""
    own = f"{_SCHEMES[scope['scheme']]}://{host}"
    return {own, f"https://{host}"} if host in named or host in _own_hosts(scope, named) else {own}


# Token verification: a verified token is cached for a few seconds, so that a repeated check needs no query.
#
# Revoking a token clears the cache. The time of last use is written at most once a minute, in the background.

_REMEMBERED_SECONDS = 5.0
_NOTED_EVERY = timedelta(minutes=1)
_MOST_REMEMBERED = 1000
_LONGEST_SECRET = 200


class TokenCache:
    """Verifies the tokens and sessions of one daemon, with a short-lived cache."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._known: dict[bytes, tuple[float, Token]] = {}
        self._noted: dict[str, datetime] = {}
        self._revoked = 0

    async def verified(self, secret: str, kind: TokenKind) -> Token:
        """Return the token of this kind with this secret.

        Raises:
            Unauthorized: no valid token has this secret.
        """
        token = await self._found(secret) if len(secret) <= _LONGEST_SECRET else None
        if token is None or token.kind != kind or not token.holds(self._parts.clock.now()):
            raise Unauthorized("The token is unknown, expired or revoked.")
        self._note(token)
        return token

    async def holds(self, id_: str) -> bool:
        """Return whether the token or session with this id is still valid; reads the database, not the cache."""
        try:
            token = await await_future(self._parts.readers.submit(lambda tx: Tokens(tx).get(id_)))
        except NotFound:  # sessions that ended long ago are deleted
            return False
        return token.holds(self._parts.clock.now())

    def forget(self) -> None:
        """Clear the cache after a revocation."""
        self._revoked += 1
        self._known.clear()

    async def _found(self, secret: str) -> Token | None:
        key, now = hashed(secret), time.monotonic()
        until, known = self._known.get(key, (0.0, None))
        if known is not None and now < until:
            return known
        revoked = self._revoked
        token = await await_future(self._parts.readers.submit(lambda tx: Tokens(tx).find(key)))
        if token is not None and revoked == self._revoked:  # do not cache what was read before a revocation
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
        with suppress(Busy):  # the daemon is stopping
            self._parts.writer.submit(lambda tx: Tokens(tx).touch(token.id, now))


class BodyRateLimiter:
    """Limits how fast the bodies of all requests together are read, so that a large body does not block others.

    The first megabyte is not delayed.
    """

    _BYTES_A_SECOND = 2_500_000.0
    _AT_ONCE = 1_000_000.0

    def __init__(self) -> None:
        self._left = self._AT_ONCE
        self._at = time.monotonic()

    async def take(self, size: int) -> None:
        """Wait until `size` more bytes may be read."""
        now = time.monotonic()
        self._left = min(self._AT_ONCE, self._left + (now - self._at) * self._BYTES_A_SECOND) - size
        self._at = now
        if self._left < 0:
            await asyncio.sleep(-self._left / self._BYTES_A_SECOND)


class RequestRateLimiter:
    """Limits requests per second for each token; bursts of up to one second's quota are allowed."""

    def __init__(self, per_second: int) -> None:
        self._rate = float(per_second)
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, who: str) -> None:
        """Count one request.

        Raises:
            TooMany: the token is over its rate.
        """
        now = time.monotonic()
        left, at = self._left.get(who, (self._rate, now))
        left = min(self._rate, left + (now - at) * self._rate)
        self._left[who] = (max(0.0, left - 1.0), now)
        if left < 1.0:
            raise TooMany(f"More than {self._rate:.0f} requests came in a second.")


# The admission middleware.
ACCESS: Final = "filrouge.access"
#: Maximum digits of a Content-Length; Python refuses to parse a number of thousands of digits.
_DIGITS: Final = 18
LOGIN: Final = "/login/"
HEALTH: Final = "/health"
_SIGNED: Final = (VERSION_HEADER.encode(), __version__.encode())
#: Headers of every TCP response: no use by another origin, no framing, no MIME sniffing, no caching.
_GUARDS: Final = {
    b"x-content-type-options": b"nosniff",
    b"cross-origin-resource-policy": b"same-origin",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cache-control": b"no-store",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Access:
    """What the caller may do, and how they authenticated.

    Attributes:
        who: the id of the token or session; empty on the Unix socket and where no token is needed.
    """

    scope: Scope
    by: Literal["socket", "token", "session", "nothing"]
    who: str = ""


def cookie_name(port: int) -> str:
    """Return the cookie name of a daemon; a browser shares cookies between all ports of a host."""
    return f"filrouge_{port}"


def settings_of(parts: Parts) -> Settings:
    """Return the effective settings; if they cannot be read, the defaults, which are the safe ones."""
    try:
        return parts.readers.submit(lambda tx: parts.effective(tx).settings).result()
    except BadConfig:
        return Settings()


class AdmissionMiddleware:
    """The outermost ASGI middleware: authenticates each request, then limits its rate and its body size."""

    def __init__(self, app: ASGIApp, parts: Parts, keys: TokenCache) -> None:
        settings = settings_of(parts)
        self._app = app
        self._keys = keys
        self._meters = parts.metrics
        self._rates = RequestRateLimiter(settings.limit_requests)
        own = set[str]() if settings.host in (*LOOPBACK, "::1") else {settings.host}
        self._named = frozenset(own | set(settings.allowed_hosts))
        self._pace = BodyRateLimiter()
        self._largest = int(settings.limit_body_mb * 1_000_000)

    async def __call__(self, scope: HttpScope, receive: Receive, send: Send) -> None:
        """Admit a request or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        server = scope.get("server")
        inside = server is not None and server[1] is None
        answer = with_version_header(self._counted(scope, send), () if inside else tuple(_GUARDS.items()))
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
            await _SizeLimited(self._app, self._largest, self._pace, scope, receive, answer).run()
        else:
            await self._app(scope, receive, answer)

    def _counted(self, scope: HttpScope, send: Send) -> Send:
        """Count responses by the path that the route declares, so that no metric label contains an id."""

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                path = str(getattr(scope.get("route"), "path", ""))
                self._meters.request(scope["method"], path, message["status"])
            await send(message)

        return counted

    async def _admitted(self, scope: HttpScope) -> Access:
        if scope.get("server") is None:
            raise Forbidden("The connection type of this request is unknown.")
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
        """Refuse a request whose Content-Length is too large or is not a number."""
        for length in header(scope, b"content-length"):
            if not length.isdecimal():
                raise BadInput("The Content-Length is no number.", remedy="Send the length of the body in bytes.")
            if len(length) > _DIGITS or int(length) > self._largest:
                raise _too_large(self._largest)


class _SizeLimited:
    """One request whose body size is counted as it arrives; a body over the limit is refused and read no further."""

    def __init__(
        self, app: ASGIApp, largest: int, pace: BodyRateLimiter, scope: HttpScope, receive: Receive, send: Send
    ) -> None:
        self._app = app
        self._scope, self._receive, self._send = scope, receive, send
        self._largest = largest
        self._pace = pace
        self._weight = 0
        self._answered: Literal["no", "by the route", "by us"] = "no"

    async def run(self) -> None:
        """Run the application for this request."""
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
        if self._answered != "by us":  # the client already has the refusal; drop what the route still sends
            self._answered = "by the route"
            await self._send(message)


def check_scope(connection: HTTPConnection) -> None:
    """Check that the caller's scope is enough for the route; a dependency of every route.

    Raises:
        Forbidden: the token's scope is too small.
    """
    scope = connection.scope
    need = required_scope(scope["endpoint"], scope.get("method", "GET"))
    if not _may(scope, need):
        if scope["type"] == "websocket":
            raise WebSocketException(1008, f"This needs the scope {need}.")
        raise _too_small(need)


def guard(routes: Sequence[BaseRoute]) -> None:
    """Wrap the routes that dependencies do not reach: bare routes and mounted applications.

    A mounted application needs `write` unless it is marked otherwise.
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
        need = required_scope(self._marked, "" if self._mounted else scope.get("method", "GET"))
        if _may(scope, need):
            await self._app(scope, receive, send)
        else:
            await refuse(scope, receive, send, _too_small(need))


def _may(scope: HttpScope, need: Scope) -> bool:
    access = scope.get(ACCESS)
    return isinstance(access, Access) and includes(access.scope, need)


def _too_small(need: Scope) -> Forbidden:
    return Forbidden(f"This needs a token with the scope {need}.")


def _too_large(largest: int) -> TooLarge:
    return TooLarge(f"A request may have {largest / 1_000_000:g} MB at the most.")


def _needs_no_token(scope: HttpScope) -> bool:
    """Return whether the request is the health check or a login link, whose route checks its own secret."""
    if scope["type"] != "http" or scope["method"] != "GET":
        return False
    path: str = scope["path"]
    return path == HEALTH or (path.startswith(LOGIN) and path.count("/") == 2 and path != LOGIN)


def _secret(scope: HttpScope) -> str:
    """Return the token that a program sent; empty if none.

    A key in the query string is ignored, because it would end up in logs and browser histories.

    Raises:
        Unauthorized: there is more than one token, or it is not a bearer token.
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


def with_version_header(send: Send, more: Sequence[tuple[bytes, bytes]]) -> Send:
    """Wrap `send` so that every response carries the version header and the given headers."""

    async def signed(message: Message) -> None:
        if message["type"].endswith("response.start") or message["type"] == "websocket.accept":
            headers = list(message.get("headers", ()))
            present = {name.lower() for name, _ in headers}
            added = [_SIGNED, *more] if message["type"] != "websocket.accept" else [_SIGNED]
            headers += [(name, value) for name, value in added if name not in present]
            message = {**message, "headers": headers}
        await send(message)

    return signed


# Cuts large request bodies while they arrive.

#: Characters kept of one string and of all strings of one item; and values kept of one item.
KEPT: Final = LONGEST_TEXT + 2 * LOOKAHEAD
KEPT_OF_ITEM: Final = LARGEST_EVENT + 4 * LOOKAHEAD
KEPT_VALUES: Final = 2 * MAX_VALUES
#: A body of at most this many bytes is passed on unchanged.
SMALL: Final = 500_000
#: Routes whose bodies are a list of events or messages.
_EVENTS: Final = ("/hooks/events", "/memory/turns", "/memory/extract")
#: Characters kept of a string when its item has no room left; names and numbers are shorter.
_SHORT: Final = 1_000

#: A possessive group would be equivalent, but Python 3.11.2 matches it wrongly.
_INSIDE: Final = re.compile(rb'(?:[^"\\]++|\\(?:u[0-9a-fA-F]{4}|[^u]))*', re.DOTALL)
_ESCAPE: Final = re.compile(rb"\\(?:u[0-9a-fA-F]{4}|[^u])", re.DOTALL)
_STRUCTURE: Final = re.compile(rb'[\[\]{},"]')
#: An escaped low surrogate: the second half of a character that is escaped as a pair.
_LOW: Final = re.compile(rb"\\u[dD][c-fC-F]")
#: One character with all of its bytes.
_CHARACTER: Final = re.compile(
    rb'(?:\\u[0-9a-fA-F]{4}|\\[^u]|[^"\\])(?:\\u[dD][c-fC-F][0-9a-fA-F]{2}|[\x80-\xbf])*', re.DOTALL
)
_CONTINUATION: Final = bytes(range(0x80, 0xC0))
_LONGEST_ESCAPE: Final = 6
#: The nesting depth of the list of events; its items are one level deeper.
_LIST_DEPTH: Final = 2
#: Fields of an object may be dropped from this depth on; above it are the event's own fields and those of a call.
_DEEP: Final = 7


async def read_and_replay(receive: Receive) -> tuple[bytes, Receive]:
    """Read the whole body; return it with a `receive` that replays the request from its start."""
    body, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            break
        body += message.get("body", b"")
        more = message.get("more_body", False)
    waiting: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return bytes(body), again


class JsonCutter:
    """Passes JSON on piece by piece, and drops what exceeds the limits for one item of the body's list."""

    def __init__(self) -> None:
        self._containers = bytearray()
        self._in_string = False
        self._carried = b""
        # State of the current string.
        self._kept = 0
        self._dropped = 0
        # State of the current item.
        self._text = 0
        self._values = 0
        # The depth of the container whose rest is dropped, and how many of its parts were dropped.
        self._skipping = 0
        self._skipped = 0

    def fed(self, piece: bytes, *, is_last: bool) -> bytes:
        """Return what to pass on of a piece; an incomplete escape is held back until the next piece."""
        data, self._carried = self._carried + piece, b""
        out = bytearray()
        place = 0
        while place < len(data):
            place = self._string(data, place, out) if self._in_string else self._outside(data, place, out)
            if place < 0:
                break
        if is_last:  # an incomplete escape; the parser reports it
            out += self._carried
        return bytes(out)

    def _outside(self, data: bytes, place: int, out: bytearray) -> int:
        """Read up to the next string or the end; return the position reached."""
        begin = place
        for found in _STRUCTURE.finditer(data, place):
            sign, at = found[0], found.start()
            if sign == b'"':
                self._in_string, self._kept, self._dropped = True, 0, 0
                self._keep(data[begin : at + 1], out)
                return at + 1
            if sign in b"[{":
                self._containers += sign
                continue
            if sign == b",":
                begin = self._comma(data, begin, at, out)
                continue
            if self._skipping and self._skipping == len(self._containers):
                out += self._skip_mark()
                self._skipping, begin = 0, at
            if self._containers:
                self._containers.pop()
        self._keep(data[begin:], out)
        return len(data)

    def _comma(self, data: bytes, begin: int, at: int, out: bytearray) -> int:
        """Count a part of a container, and start dropping above the limit; return where the kept text continues."""
        depth = len(self._containers)
        if self._skipping:
            self._skipped += depth == self._skipping
            return begin
        self._values += 1
        if depth <= _LIST_DEPTH:
            self._text = self._values = 0
            return begin
        may_go = depth >= _DEEP or self._is_list() or (depth > _LIST_DEPTH + 1 and self._values > 2 * KEPT_VALUES)
        if may_go and self._values > KEPT_VALUES:
            self._keep(data[begin:at], out)
            self._skipping, self._skipped = depth, 1
            return at
        return begin

    def _string(self, data: bytes, place: int, out: bytearray) -> int:
        """Continue reading a string; return the position reached, or -1 if an escape is incomplete."""
        found = _INSIDE.match(data, place)
        end = found.end() if found else place
        if end > place:
            self._part(data[place:end], out)
        if end == len(data):
            return end
        if data[end : end + 1] == b'"':
            if self._dropped:
                self._keep(b"\\n" + cut_mark(self._dropped).encode(), out)
            self._keep(b'"', out)
            self._in_string = False
            return end + 1
        if len(data) - end < _LONGEST_ESCAPE:
            self._carried = data[end:]
            return -1
        self._part(data[end : end + 1], out)  # an invalid escape; the parser reports it
        return end + 1

    def _part(self, part: bytes, out: bytearray) -> None:
        """Keep or drop a part of a string."""
        if self._skipping:
            return
        if not self._dropped:  # the remaining bytes of a character that was kept
            rest = len(part) - len(part.lstrip(_CONTINUATION))
            rest = rest or (_LONGEST_ESCAPE if _LOW.match(part) else 0)
            out += part[:rest]
            part = part[rest:]
        limit = min(KEPT, max(_SHORT, KEPT_OF_ITEM - self._text + self._kept))
        room = 0 if self._dropped else limit - self._kept
        size = _characters(part)
        if size > room:
            kept, taken = _beginning(part, room) if room else (b"", 0)
            self._dropped += size - taken
            part, size = kept, taken
        self._kept += size
        self._text += size
        out += part

    def _is_list(self) -> bool:
        return self._containers.endswith(b"[")

    def _keep(self, part: bytes, out: bytearray) -> None:
        if not self._skipping:
            out += part

    def _skip_mark(self) -> bytes:
        if self._is_list():
            return f',"[filrouge: {self._skipped} items cut]"'.encode()
        return f',"filrouge":"[filrouge: {self._skipped} fields cut]"'.encode()


def _characters(part: bytes) -> int:
    """Return the number of characters that these bytes of a string encode."""
    if b"\\" not in part:
        return len(part.translate(None, _CONTINUATION))
    escapes = _ESCAPE.findall(part)
    plain = len(part.translate(None, _CONTINUATION)) - sum(map(len, escapes))
    return plain + len(escapes) - sum(_LOW.match(one) is not None for one in escapes)


def _beginning(part: bytes, most: int) -> tuple[bytes, int]:
    """Return the first `most` characters of a part, none of them split, and their number."""
    end = taken = 0
    for unit in _CHARACTER.finditer(part):
        if taken == most:
            break
        end, taken = unit.end(), taken + 1
    return part[:end], taken


class CutBodies:
    """ASGI middleware that cuts the bodies of the event and message routes."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        """Pass a request on, with a cut body where that applies."""
        if scope["type"] != "http" or scope["path"] not in _EVENTS or not _may_be_large(scope):
            await self._app(scope, receive, send)
            return
        cutter = JsonCutter()

        async def cut() -> Message:
            message = await receive()
            if message["type"] != "http.request":
                return message
            body, more = message.get("body", b""), message.get("more_body", False)
            return {**message, "body": cutter.fed(body, is_last=not more)}

        await self._app(scope, cut, send)


def _may_be_large(scope: ASGIScope) -> bool:
    headers = dict(_headers(scope))
    length = headers.get(b"content-length", b"")
    kind = headers.get(b"content-type", b"application/json").split(b";")[0].strip()
    is_json = kind == b"application/json" or kind.endswith(b"+json")
    return is_json and not (length.isdigit() and len(length) < 10 and int(length) <= SMALL)


def _headers(scope: ASGIScope) -> Iterator[tuple[bytes, bytes]]:
    for name, value in cast("list[tuple[bytes, bytes]]", cast("dict[str, Any]", scope).get("headers", [])):
        yield name.lower(), value
