"""Admission of requests: keys, scopes and origins, and large bodies that are cut or refused while they arrive.

`AdmissionMiddleware` is the outermost ASGI middleware. It wraps the whole application, including error handlers and
mounted applications, so every request passes it before anything reads its body or matches a route.

A connection on the Unix socket has full access, because the kernel identified the user when the connection was made
(`server.listening`). A TCP request must be addressed to this daemon, must not come from a foreign page, and must carry
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
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypeVar, cast

from msgspec import Struct
from starlette.exceptions import WebSocketException
from starlette.requests import HTTPConnection
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as ASGIScope
from starlette.types import Scope as HttpScope

from filrouge._version import __version__
from filrouge.capture.events import LOOKAHEAD, MAX_EVENT_CHARACTERS, MAX_TEXT_CHARACTERS, MAX_VALUES, cut_mark
from filrouge.core.errors import (
    BadConfig,
    Busy,
    FilrougeError,
    Forbidden,
    Misdirected,
    NotFound,
    TooMany,
    Unauthorized,
)
from filrouge.core.settings import Settings
from filrouge.daemon.reply import VERSION_HEADER
from filrouge.runtime.repository import Token, TokenKind, Tokens, hash_secret
from filrouge.runtime.services import Parts
from filrouge.server.body_limit import BodyLimit
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

    def set_scope(endpoint: _Endpoint) -> _Endpoint:
        setattr(endpoint, _MARK, scope)
        return endpoint

    return set_scope


def required_scope(endpoint: Callable[..., Any], method: str) -> Scope:
    """Return the scope that an endpoint requires for a method."""
    declared: Scope | None = getattr(endpoint, _MARK, None)
    return declared or ("read" if method in ("GET", "HEAD") else "write")


def includes(granted: Scope, required: Scope) -> bool:
    """Return whether the granted scope includes the required scope."""
    return SCOPES.index(granted) >= SCOPES.index(required)


# Host and origin checks: the guard against web pages, which can reach every port of this machine.
#
# A page of another site can point its own name at 127.0.0.1, and a page on another local port counts as the same site,
# so neither the address nor a SameSite cookie is enough. The browser itself writes Host, Origin and Sec-Fetch-Site.
# Only an exact match with one of the daemon's own names, in the spelling browsers use, is accepted. A browser request
# must come from the daemon's own pages or from the address bar. CORS is not supported.

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_SCHEMES = {"http": "http", "https": "https", "ws": "http", "wss": "https"}
_DEFAULT_PORTS = {"http": 80, "https": 443}


def header(scope: HttpScope, name: bytes) -> list[str]:
    """Return every value of a header."""
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def check_host(scope: HttpScope, allowed_hosts: Collection[str]) -> str:
    """Return the request's Host header after checking that it names this daemon.

    Args:
        allowed_hosts: hosts other than the loopback names, as `HOST` or `HOST:PORT`.

    Raises:
        Misdirected: the Host header is missing, repeated or names another host, or the path is not absolute.
    """
    hosts = header(scope, b"host")
    if len(hosts) != 1 or not scope["path"].startswith("/"):
        raise Misdirected
    host = hosts[0]
    if (
        host not in _own_hosts(scope, LOOPBACK)
        and host not in _own_hosts(scope, allowed_hosts)
        and host not in allowed_hosts
    ):
        raise Misdirected
    return host


def check_origin(scope: HttpScope, host: str, allowed_hosts: Collection[str]) -> None:
    """Check the Origin and Sec-Fetch-Site headers against the host that the request is addressed to.

    Raises:
        Forbidden: the request comes from a foreign page.
    """
    origins, sites = header(scope, b"origin"), header(scope, b"sec-fetch-site")
    if any(origin not in _origins(scope, host, allowed_hosts) for origin in origins) or len(origins) > 1:
        raise Forbidden("A page of another origin may not use this daemon.", remedy="It cannot be allowed.")
    if any(site not in ("same-origin", "none") for site in sites) or len(sites) > 1:
        remedy = "Open the address by hand: type or paste it into the address bar."
        raise Forbidden("A page of another site sent the browser here.", remedy=remedy)


def check_cookie(scope: HttpScope) -> None:
    """Check that a request with a session cookie comes from the daemon's own page or from its user.

    Raises:
        Unauthorized: no browser header confirms it.
    """
    sites = set(header(scope, b"sec-fetch-site"))
    is_read = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
    if not header(scope, b"origin") and not sites & ({"same-origin", "none"} if is_read else {"same-origin"}):
        raise Unauthorized(
            "A session cookie is accepted only from this daemon's pages.", remedy="Send a token instead of a cookie."
        )


def _own_hosts(scope: HttpScope, names: Collection[str]) -> set[str]:
    """Return the names with the daemon's port, and also without it where it is the scheme's default port."""
    port, scheme = scope["server"][1], _SCHEMES[scope["scheme"]]
    without_port = set(names) if port == _DEFAULT_PORTS[scheme] else set[str]()
    return without_port | {f"{name}:{port}" for name in names}


def _origins(scope: HttpScope, host: str, allowed_hosts: Collection[str]) -> set[str]:
    """Return the accepted origins. Behind a proxy with an allowed name, https is accepted for a plain-http daemon."""
    origin = f"{_SCHEMES[scope['scheme']]}://{host}"
    return (
        {origin, f"https://{host}"} if host in allowed_hosts or host in _own_hosts(scope, allowed_hosts) else {origin}
    )


# Token verification: a verified token is cached for a few seconds, so that a repeated check needs no query.
#
# Revoking a token clears the cache. The time of last use is written at most once a minute, in the background.

_CACHE_SECONDS = 5.0
_LAST_USE_INTERVAL = timedelta(minutes=1)
_MAX_CACHED_TOKENS = 1000
_MAX_SECRET_CHARS = 200


class TokenCache:
    """Verifies the tokens and sessions of one daemon, with a short-lived cache."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._cache: dict[bytes, tuple[float, Token]] = {}
        self._last_uses: dict[str, datetime] = {}
        self._revocations = 0

    async def verify(self, secret: str, kind: TokenKind) -> Token:
        """Return the token of this kind with this secret.

        Raises:
            Unauthorized: no valid token has this secret.
        """
        token = await self._find(secret) if len(secret) <= _MAX_SECRET_CHARS else None
        if token is None or token.kind != kind or not token.is_valid(self._parts.clock.now()):
            raise Unauthorized("The token is unknown, expired or revoked.")
        self._record_use(token)
        return token

    async def is_valid(self, id_: str) -> bool:
        """Return whether the token or session with this id is still valid; reads the database, not the cache."""
        try:
            token = await await_future(self._parts.readers.submit(lambda tx: Tokens(tx).get(id_)))
        except NotFound:  # sessions that ended long ago are deleted
            return False
        return token.is_valid(self._parts.clock.now())

    def clear(self) -> None:
        """Clear the cache after a revocation."""
        self._revocations += 1
        self._cache.clear()

    async def _find(self, secret: str) -> Token | None:
        key, now = hash_secret(secret), time.monotonic()
        until, cached = self._cache.get(key, (0.0, None))
        if cached is not None and now < until:
            return cached
        revocations = self._revocations
        token = await await_future(self._parts.readers.submit(lambda tx: Tokens(tx).find(key)))
        if token is not None and revocations == self._revocations:  # do not cache what was read before a revocation
            if len(self._cache) >= _MAX_CACHED_TOKENS:
                self._cache.clear()
            self._cache[key] = (now + _CACHE_SECONDS, token)
        return token

    def _record_use(self, token: Token) -> None:
        now = self._parts.clock.now()
        last = self._last_uses.get(token.id, token.last_used_at)
        if last is not None and now - last < _LAST_USE_INTERVAL:
            return
        self._last_uses[token.id] = now
        with suppress(Busy):  # the daemon is stopping
            self._parts.writer.submit(lambda tx: Tokens(tx).touch(token.id, now))


class BodyRateLimiter:
    """Limits how fast the bodies of all requests together are read, so that a large body does not block others.

    The first megabyte is not delayed.
    """

    _BYTES_A_SECOND = 2_500_000.0
    _BURST_BYTES = 1_000_000.0

    def __init__(self) -> None:
        self._available = self._BURST_BYTES
        self._updated_at = time.monotonic()

    async def take(self, size: int) -> None:
        """Wait until `size` more bytes may be read."""
        now = time.monotonic()
        refilled = self._available + (now - self._updated_at) * self._BYTES_A_SECOND
        self._available = min(self._BURST_BYTES, refilled) - size
        self._updated_at = now
        if self._available < 0:
            await asyncio.sleep(-self._available / self._BYTES_A_SECOND)


class RequestRateLimiter:
    """Limits requests per second for each token; bursts of up to one second's quota are allowed."""

    def __init__(self, per_second: int) -> None:
        self._rate = float(per_second)
        self._available: dict[str, tuple[float, float]] = {}

    def take(self, token_id: str) -> None:
        """Count one request.

        Raises:
            TooMany: the token is over its rate.
        """
        now = time.monotonic()
        available, updated_at = self._available.get(token_id, (self._rate, now))
        available = min(self._rate, available + (now - updated_at) * self._rate)
        self._available[token_id] = (max(0.0, available - 1.0), now)
        if available < 1.0:
            raise TooMany(f"More than {self._rate:.0f} requests came in one second.")


# The admission middleware.
ACCESS: Final = "filrouge.access"
#: Maximum digits of a Content-Length; Python refuses to parse a number of thousands of digits.
LOGIN: Final = "/login/"
HEALTH: Final = "/health"
_VERSION: Final = (VERSION_HEADER.encode(), __version__.encode())
#: Headers of every TCP response: no use by another origin, no framing, no MIME sniffing, no caching.
_SECURITY_HEADERS: Final = {
    b"x-content-type-options": b"nosniff",
    b"cross-origin-resource-policy": b"same-origin",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cache-control": b"no-store",
}


class Access(Struct, frozen=True, kw_only=True):
    """What the caller may do, and how they authenticated.

    Attributes:
        by: how the caller authenticated.
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
        self._metrics = parts.metrics
        self._request_rate = RequestRateLimiter(settings.limit_requests)
        listening_host = set[str]() if settings.host in (*LOOPBACK, "::1") else {settings.host}
        self._allowed_hosts = frozenset(listening_host | set(settings.allowed_hosts))
        self._limited = BodyLimit(app, int(settings.limit_body_mb * 1_000_000), on_bytes=BodyRateLimiter().take)

    async def __call__(self, scope: HttpScope, receive: Receive, send: Send) -> None:
        """Admit a request or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        server = scope.get("server")
        is_unix_socket = server is not None and server[1] is None
        counting_send = self._count_responses(scope, send)
        answer = with_version_header(counting_send, () if is_unix_socket else tuple(_SECURITY_HEADERS.items()))
        if is_unix_socket:
            scope[ACCESS] = Access(scope="admin", by="socket")
            await self._app(scope, receive, answer)
            return
        try:
            scope[ACCESS] = await self._admit(scope)
        except FilrougeError as error:
            await refuse(scope, receive, answer, error)
            return
        await self._limited(scope, receive, answer)

    def _count_responses(self, scope: HttpScope, send: Send) -> Send:
        """Count responses by the path that the route declares, so that no metric label contains an id."""

        async def send_and_count(message: Message) -> None:
            if message["type"] == "http.response.start":
                path = str(getattr(scope.get("route"), "path", ""))
                self._metrics.count_request(scope["method"], path, message["status"])
            await send(message)

        return send_and_count

    async def _admit(self, scope: HttpScope) -> Access:
        if scope.get("server") is None:
            raise Forbidden("The connection type of this request is unknown.")
        host = check_host(scope, self._allowed_hosts)
        check_origin(scope, host, self._allowed_hosts)
        if _needs_no_token(scope):
            return Access(scope="read", by="nothing")
        access = await self._identify(scope)
        self._request_rate.take(access.who)
        return access

    async def _identify(self, scope: HttpScope) -> Access:
        secret = _secret(scope)
        if secret:
            token = await self._keys.verify(secret, "token")
            return Access(scope=token.scope, by="token", who=token.id)
        session = _cookie(scope, cookie_name(scope["server"][1]))
        if not session:
            raise Unauthorized
        check_cookie(scope)
        token = await self._keys.verify(session, "session")
        return Access(scope=token.scope, by="session", who=token.id)


def check_scope(connection: HTTPConnection) -> None:
    """Check that the caller's scope is enough for the route; a dependency of every route.

    Raises:
        Forbidden: the token's scope is too small.
    """
    scope = connection.scope
    required = required_scope(scope["endpoint"], scope.get("method", "GET"))
    if not _has_scope(scope, required):
        if scope["type"] == "websocket":
            raise WebSocketException(1008, f"This needs the scope {required}.")
        raise _scope_error(required)


def guard(routes: Sequence[BaseRoute]) -> None:
    """Wrap the routes that dependencies do not reach: bare routes and mounted applications.

    A mounted application needs `write` unless it is marked otherwise.
    """
    for route in routes:
        if isinstance(route, Mount | Route | WebSocketRoute) and not isinstance(route.app, _Guarded):
            endpoint = route.app if isinstance(route, Mount) else route.endpoint
            route.app = _Guarded(route.app, endpoint, mounted=isinstance(route, Mount))


class _Guarded:
    def __init__(self, app: ASGIApp, endpoint: Any, *, mounted: bool) -> None:
        self._app = app
        self._endpoint = endpoint
        self._mounted = mounted

    async def __call__(self, scope: HttpScope, receive: Receive, send: Send) -> None:
        required = required_scope(self._endpoint, "" if self._mounted else scope.get("method", "GET"))
        if _has_scope(scope, required):
            await self._app(scope, receive, send)
        else:
            await refuse(scope, receive, send, _scope_error(required))


def _has_scope(scope: HttpScope, required: Scope) -> bool:
    access = scope.get(ACCESS)
    return isinstance(access, Access) and includes(access.scope, required)


def _scope_error(required: Scope) -> Forbidden:
    return Forbidden(f"This needs a token with the scope {required}.")


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
    credentials = [*header(scope, b"authorization"), *header(scope, b"x-api-key")]
    if len(credentials) > 1:
        raise Unauthorized("Send exactly one token.")
    for authorization in header(scope, b"authorization"):
        kind, _, secret = authorization.partition(" ")
        if kind.lower() != "bearer" or not secret.strip():
            raise Unauthorized("Send the token as `Authorization: Bearer TOKEN` or `X-API-Key: TOKEN`.")
        return secret.strip()
    return credentials[0].strip() if credentials else ""


def _cookie(scope: HttpScope, name: str) -> str:
    pairs = (pair.partition("=") for line in header(scope, b"cookie") for pair in line.split(";"))
    return next((value.strip() for key, _, value in pairs if key.strip() == name), "")


def with_version_header(send: Send, further: Sequence[tuple[bytes, bytes]]) -> Send:
    """Wrap `send` so that every response carries the version header and the further headers."""

    async def send_with_headers(message: Message) -> None:
        if message["type"].endswith("response.start") or message["type"] == "websocket.accept":
            headers = list(message.get("headers", ()))
            present = {name.lower() for name, _ in headers}
            added = [_VERSION, *further] if message["type"] != "websocket.accept" else [_VERSION]
            headers += [(name, value) for name, value in added if name not in present]
            message = {**message, "headers": headers}
        await send(message)

    return send_with_headers


# Cuts large request bodies while they arrive.

#: Limits on what is passed on: characters of one string, characters of all strings of one item, values of one item.
MAX_STRING_CHARS: Final = MAX_TEXT_CHARACTERS + 2 * LOOKAHEAD
MAX_ITEM_CHARS: Final = MAX_EVENT_CHARACTERS + 4 * LOOKAHEAD
MAX_ITEM_VALUES: Final = 2 * MAX_VALUES
#: A body of at most this many bytes is passed on unchanged.
SMALL_BODY_BYTES: Final = 500_000
#: Routes whose bodies are a list of events or messages.
_EVENT_PATHS: Final = ("/hooks/events", "/memory/turns", "/memory/extract")
#: Characters kept of a string when its item has no room left; names and numbers are shorter.
_MIN_STRING_CHARS: Final = 1_000

#: A possessive group would be equivalent, but Python 3.11.2 matches it wrongly.
_STRING_CONTENT: Final = re.compile(rb'(?:[^"\\]++|\\(?:u[0-9a-fA-F]{4}|[^u]))*', re.DOTALL)
_ESCAPE: Final = re.compile(rb"\\(?:u[0-9a-fA-F]{4}|[^u])", re.DOTALL)
_STRUCTURE: Final = re.compile(rb'[\[\]{},"]')
#: An escaped low surrogate: the second half of a character that is escaped as a pair.
_LOW_SURROGATE: Final = re.compile(rb"\\u[dD][c-fC-F]")
#: One character with all of its bytes.
_CHARACTER: Final = re.compile(
    rb'(?:\\u[0-9a-fA-F]{4}|\\[^u]|[^"\\])(?:\\u[dD][c-fC-F][0-9a-fA-F]{2}|[\x80-\xbf])*', re.DOTALL
)
_CONTINUATION: Final = bytes(range(0x80, 0xC0))
_MAX_ESCAPE_BYTES: Final = 6
#: The nesting depth of the list of events; its items are one level deeper.
_LIST_DEPTH: Final = 2
#: Fields of an object may be dropped from this depth on; above it are the event's own fields and those of a call.
_MIN_FIELD_DEPTH: Final = 7


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

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return bytes(body), replay


class JsonCutter:
    """Passes JSON on piece by piece, and drops what exceeds the limits for one item of the body's list."""

    def __init__(self) -> None:
        self._containers = bytearray()
        self._in_string = False
        self._incomplete_escape = b""
        # Characters of the current string.
        self._string_kept = 0
        self._string_dropped = 0
        # Characters and values of the current item.
        self._item_chars = 0
        self._item_values = 0
        # The depth of the container whose rest is dropped, and how many of its parts were dropped.
        self._skipping = 0
        self._skipped = 0

    def feed(self, piece: bytes, *, is_last: bool) -> bytes:
        """Return what to pass on of a piece; an incomplete escape is held back until the next piece."""
        data, self._incomplete_escape = self._incomplete_escape + piece, b""
        out = bytearray()
        position = 0
        while position < len(data):
            read = self._read_string if self._in_string else self._read_structure
            position = read(data, position, out)
            if position < 0:
                break
        if is_last:  # an incomplete escape; the parser reports it
            out += self._incomplete_escape
        return bytes(out)

    def _read_structure(self, data: bytes, position: int, out: bytearray) -> int:
        """Read up to the next string or the end; return the position reached."""
        start = position
        for found in _STRUCTURE.finditer(data, position):
            sign, index = found[0], found.start()
            if sign == b'"':
                self._in_string, self._string_kept, self._string_dropped = True, 0, 0
                self._keep(data[start : index + 1], out)
                return index + 1
            if sign in b"[{":
                self._containers += sign
                continue
            if sign == b",":
                start = self._read_comma(data, start, index, out)
                continue
            if self._skipping and self._skipping == len(self._containers):
                out += self._skip_mark()
                self._skipping, start = 0, index
            if self._containers:
                self._containers.pop()
        self._keep(data[start:], out)
        return len(data)

    def _read_comma(self, data: bytes, start: int, index: int, out: bytearray) -> int:
        """Count a part of a container, and start dropping above the limit; return where the kept text continues."""
        depth = len(self._containers)
        if self._skipping:
            self._skipped += depth == self._skipping
            return start
        self._item_values += 1
        if depth <= _LIST_DEPTH:
            self._item_chars = self._item_values = 0
            return start
        may_drop = (
            depth >= _MIN_FIELD_DEPTH
            or self._is_list()
            or (depth > _LIST_DEPTH + 1 and self._item_values > 2 * MAX_ITEM_VALUES)
        )
        if may_drop and self._item_values > MAX_ITEM_VALUES:
            self._keep(data[start:index], out)
            self._skipping, self._skipped = depth, 1
            return index
        return start

    def _read_string(self, data: bytes, position: int, out: bytearray) -> int:
        """Continue reading a string; return the position reached, or -1 if an escape is incomplete."""
        found = _STRING_CONTENT.match(data, position)
        end = found.end() if found else position
        if end > position:
            self._add_to_string(data[position:end], out)
        if end == len(data):
            return end
        if data[end : end + 1] == b'"':
            if self._string_dropped:
                self._keep(b"\\n" + cut_mark(self._string_dropped).encode(), out)
            self._keep(b'"', out)
            self._in_string = False
            return end + 1
        if len(data) - end < _MAX_ESCAPE_BYTES:
            self._incomplete_escape = data[end:]
            return -1
        self._add_to_string(data[end : end + 1], out)  # an invalid escape; the parser reports it
        return end + 1

    def _add_to_string(self, part: bytes, out: bytearray) -> None:
        """Keep or drop a part of a string."""
        if self._skipping:
            return
        if not self._string_dropped:  # the remaining bytes of a character that was kept
            remaining = len(part) - len(part.lstrip(_CONTINUATION))
            remaining = remaining or (_MAX_ESCAPE_BYTES if _LOW_SURROGATE.match(part) else 0)
            out += part[:remaining]
            part = part[remaining:]
        limit = min(MAX_STRING_CHARS, max(_MIN_STRING_CHARS, MAX_ITEM_CHARS - self._item_chars + self._string_kept))
        room = 0 if self._string_dropped else limit - self._string_kept
        size = _count_characters(part)
        if size > room:
            beginning, beginning_size = _beginning(part, room) if room else (b"", 0)
            self._string_dropped += size - beginning_size
            part, size = beginning, beginning_size
        self._string_kept += size
        self._item_chars += size
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


def _count_characters(part: bytes) -> int:
    """Return the number of characters that these bytes of a string encode."""
    if b"\\" not in part:
        return len(part.translate(None, _CONTINUATION))
    escapes = _ESCAPE.findall(part)
    plain = len(part.translate(None, _CONTINUATION)) - sum(map(len, escapes))
    return plain + len(escapes) - sum(_LOW_SURROGATE.match(escape) is not None for escape in escapes)


def _beginning(part: bytes, max_characters: int) -> tuple[bytes, int]:
    """Return the first characters of a part, at most `max_characters` and none of them split, and their number."""
    end = size = 0
    for character in _CHARACTER.finditer(part):
        if size == max_characters:
            break
        end, size = character.end(), size + 1
    return part[:end], size


class CutBodies:
    """ASGI middleware that cuts the bodies of the event and message routes."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        """Pass a request on, with a cut body where that applies."""
        if scope["type"] != "http" or scope["path"] not in _EVENT_PATHS or not _may_be_large(scope):
            await self._app(scope, receive, send)
            return
        cutter = JsonCutter()

        async def receive_cut() -> Message:
            message = await receive()
            if message["type"] != "http.request":
                return message
            body, more = message.get("body", b""), message.get("more_body", False)
            return {**message, "body": cutter.feed(body, is_last=not more)}

        await self._app(scope, receive_cut, send)


def _may_be_large(scope: ASGIScope) -> bool:
    headers = dict(_headers(scope))
    length = headers.get(b"content-length", b"")
    media_type = headers.get(b"content-type", b"application/json").split(b";")[0].strip()
    is_json = media_type == b"application/json" or media_type.endswith(b"+json")
    return is_json and not (length.isdigit() and len(length) < 10 and int(length) <= SMALL_BODY_BYTES)


def _headers(scope: ASGIScope) -> Iterator[tuple[bytes, bytes]]:
    for name, value in cast("list[tuple[bytes, bytes]]", cast("dict[str, Any]", scope).get("headers", [])):
        yield name.lower(), value
