"""What happens to a request before its route: idempotency keys and validation.

JSON permits values that the database, the index and other programs cannot hold: lone surrogates, NaN, a thousand
levels of nesting. A query string can repeat a parameter of which a route reads only one. Each of these is refused with
an error that names the place, so that nothing is stored differently from how it was sent.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Final, NoReturn, cast, get_args, get_type_hints
from urllib.parse import parse_qsl, unquote_to_bytes, urlencode

from fastapi import Request
from pydantic import BaseModel
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from filrouge.core.errors import BadInput, Busy, FilrougeError, Stale
from filrouge.core.protocols import Tx
from filrouge.runtime.repository import IdempotentRequests, RecordKind, StoredAnswer, resolve_id
from filrouge.runtime.services import Parts
from filrouge.server.admission import ACCESS, read_and_replay
from filrouge.server.deferred import methods_at
from filrouge.server.problems import refused
from filrouge.server.responses import await_future, read_in_tx

# Idempotency keys: a repeated request gets the stored answer and is not executed again.
#
# The header follows the IETF draft (draft-ietf-httpapi-idempotency-key-header), and so do the errors: 422 if the key
# was used for another request, 409 while the first request is running. An error that may differ on the next try (401,
# 403, 404, 409, 429 and every server error) is not stored, so the request can be retried with the same key. If the
# daemon stops after it executed a request but before it stored the answer, a repeated request is executed again.

HEADER: Final = "Idempotency-Key"
REPLAYED: Final = "Idempotency-Replayed"
MAX_KEY_CHARS: Final = 255
_METHODS: Final = frozenset({"POST", "PATCH", "DELETE"})
_NOT_KEPT: Final = frozenset({401, 403, 404, 409, 429})
#: Maximum bytes of a stored answer; a repetition of a longer one only reports that the request was done.
_MOST_KEPT: Final = 1 << 20


class IdempotencyMiddleware:
    """ASGI middleware for idempotency keys; it runs after authentication and all limits."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._in_hand: set[bytes] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Execute a request, or return its stored answer."""
        key = Headers(scope=scope).get(HEADER) if scope["type"] == "http" and scope["method"] in _METHODS else None
        if key is None or scope["method"] not in methods_at(scope["app"], scope["path"]):
            await self._app(scope, receive, send)
            return
        try:
            hashed, request, receive = await _fingerprint(scope, receive, key)
            if hashed in self._in_hand:
                raise _busy_error()
            self._in_hand.add(hashed)
        except FilrougeError as error:
            headers = {"Retry-After": "1"} if isinstance(error, Busy) else {}
            await refused(error, headers=headers)(scope, receive, send)
            return
        try:
            await self._carried_out(scope, receive, send, hashed, request)
        finally:
            self._in_hand.discard(hashed)

    async def _carried_out(self, scope: Scope, receive: Receive, send: Send, key: bytes, request: bytes) -> None:
        parts = _parts(scope)
        now = parts.clock.now()

        def begin(tx: Tx) -> StoredAnswer | None:
            table = IdempotentRequests(tx)
            known = table.get(key, now)
            if known is None or (known.status == 0 and known.request in (None, request)):
                table.begin(key, request, now)
                return None
            return known

        known = await await_future(parts.writer.submit(begin))
        if known is not None:
            await _again(known, request, scope, receive, send)
            return
        kept = _ResponseRecorder(send)
        try:
            await self._app(scope, receive, kept.send)
        finally:
            status = kept.status if kept.last and kept.status < 500 and kept.status not in _NOT_KEPT else 0
            body = bytes(kept.body) if len(kept.body) <= _MOST_KEPT else None

            def end(tx: Tx) -> None:
                if status:
                    IdempotentRequests(tx).end(key, status, kept.type, body)
                else:
                    IdempotentRequests(tx).drop(key)

            await await_future(parts.writer.submit(end))
        self._in_hand.discard(key)
        if kept.last is not None:
            await send(kept.last)


class _ResponseRecorder:
    """Records an answer while it is sent, and holds back its last message until the answer is on disk.

    Attributes:
        last: the final message of the answer, not yet sent.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status, self.type, self.body = 0, "", bytearray()
        self.last: Message | None = None

    async def send(self, message: Message) -> None:
        """Record a message and pass it on, unless it is the last."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.type = Headers(raw=message.get("headers", [])).get("content-type", "")
        elif message["type"] == "http.response.body":
            if len(self.body) <= _MOST_KEPT:
                self.body += message.get("body", b"")
            if not message.get("more_body", False):
                self.last = message
                return
        await self._send(message)


async def _fingerprint(scope: Scope, receive: Receive, key: str) -> tuple[bytes, bytes, Receive]:
    """Return the hash of the key, the hash of the request, and a `receive` that replays the body."""
    if not 0 < len(key) <= MAX_KEY_CHARS or not key.isascii() or not key.isprintable():
        raise BadInput(f"{HEADER} has 1 to {MAX_KEY_CHARS} visible characters.", remedy="Send a UUID.")
    body, again = await read_and_replay(receive)
    caller = getattr(scope.get(ACCESS), "who", "")
    asked = "\0".join((scope["method"], scope["path"], cast("bytes", scope["query_string"]).decode("latin-1"), ""))
    hashes = (_hash(f"{caller}\0{key}".encode()), _hash(asked.encode() + body))
    return *hashes, again


async def _again(known: StoredAnswer, request: bytes, scope: Scope, receive: Receive, send: Send) -> None:
    if known.request is None:
        error = Stale("This key was used, and its answer was erased by a later forget.", remedy="Use another key.")
        await refused(error)(scope, receive, send)
        return
    if known.request != request:
        error = BadInput(f"This {HEADER} came with another request.", remedy="Use a key for one request alone.")
        await refused(error, status=422)(scope, receive, send)
        return
    if known.body is None:
        await refused(Stale("It was done under this key; its answer was too long to be kept."))(scope, receive, send)
        return
    headers = MutableHeaders(raw=[])
    headers["content-type"], headers["content-length"] = known.type, str(len(known.body))
    headers[REPLAYED] = "true"
    await send({"type": "http.response.start", "status": known.status, "headers": headers.raw})
    await send({"type": "http.response.body", "body": known.body})


def _hash(said: bytes) -> bytes:
    return hashlib.sha256(said).digest()


def _busy_error() -> Busy:
    return Busy("The request of this key is being carried out.", remedy="Ask again in a second.")


def _parts(scope: Scope) -> Parts:
    return cast("Parts", scope["app"].state.running.parts)


# Request validation before any route runs: encoding, JSON, query, and expansion of short ids.

#: The largest integer that SQLite can store.
LARGEST: Final = 2**63 - 1
_DEEPEST: Final = 100
#: Events from a host are accepted as they are: intake repairs lone surrogates, so that no captured text is lost.
_HOST_EVENT_PATHS: Final = frozenset({"/hooks/events"})
#: Endpoints with a protocol of their own report unreadable input in that protocol.
_OWN_PROTOCOL_PATHS: Final = frozenset({"/mcp"})


async def check_request(connection: HTTPConnection) -> None:
    """Refuse a request that cannot be read exactly as it was sent.

    Raises:
        BadInput: the query or the body is invalid; the message names the place.
        HTTPException: 415 if the body is not JSON.
    """
    _check_address(connection)
    if not isinstance(connection, Request) or connection.method in ("GET", "HEAD"):
        return
    if connection.url.path in _OWN_PROTOCOL_PATHS:
        return
    try:
        body = await connection.body()
    except ClientDisconnect:  # nobody waits for an answer; a route without a body still runs
        return
    if not body:
        return
    said = connection.headers.get("content-type", "").split(";", 1)[0].strip().lower()
    if said != "application/json" and not (said.startswith("application/") and said.endswith("+json")):
        raise HTTPException(415, f"a body is application/json, not {said or 'without a type'!r}")
    _check_value(_parsed(body), whole_texts=connection.url.path not in _HOST_EVENT_PATHS)


def _check_address(connection: HTTPConnection) -> None:
    query = cast("bytes", connection.scope.get("query_string", b""))
    raw = cast("bytes", connection.scope.get("raw_path") or b"")
    for where, part in (("path", raw), ("query", query)):
        if b"%" in part or not part.isascii():
            _check_text(where, unquote_to_bytes(part))
    if b"&" in query:
        names = Counter(name for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True))
        many = _repeatable(connection)
        for name, times in names.items():
            if times > 1 and name not in many:
                raise BadInput(f"query.{name} is given {times} times.", remedy="Give it once.")


def _check_text(where: str, raw: bytes) -> None:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise BadInput(f"The {where} is not UTF-8.", remedy="Encode it as UTF-8, then with percent signs.") from None
    if "\0" in text:
        raise BadInput(f"There is a NUL in the {where}.", remedy="Leave it out.")


def _repeatable(connection: HTTPConnection) -> set[str]:
    """Return the query parameters of this route that accept several values."""
    route: Any = connection.scope.get("route")
    listed: set[str] = set()
    waiting: list[Any] = [route.dependant] if route is not None and hasattr(route, "dependant") else []
    while waiting:
        dependant = waiting.pop()
        waiting += dependant.dependencies
        listed |= {one.alias for one in dependant.query_params if "list" in str(one.field_info.annotation)}
    return listed


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body, parse_constant=_no_number)
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise BadInput(f"body is no JSON: {error}.", remedy="Send one JSON value in UTF-8.") from None


def _no_number(word: str) -> NoReturn:
    raise BadInput(f"{word} is no number in JSON.", remedy="Send a number, or null.")


def _check_value(whole: Any, *, whole_texts: bool) -> None:
    """Walk a JSON value and refuse what could not be stored as it was sent."""
    waiting: list[tuple[Any, int]] = [(whole, 1)]
    while waiting:
        value, level = waiting.pop()
        if level > _DEEPEST:
            raise _too_deep()
        match value:
            case str() if whole_texts:
                _check_surrogates(value)
            case dict():
                waiting += ((one, level + 1) for pair in cast("dict[str, Any]", value).items() for one in pair)
            case list():
                waiting += ((one, level + 1) for one in cast("list[Any]", value))
            case int() | float() if abs(value) > LARGEST:
                raise BadInput(f"body holds too large a number: {value:.6g}.", remedy=f"The largest is {LARGEST}.")
            case _:
                pass


def _check_surrogates(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadInput("body contains a lone surrogate.", remedy="Send whole characters.") from None


def _too_deep() -> BadInput:
    return BadInput("body is too deep.", remedy=f"Nest at most {_DEEPEST} levels.")


# Short ids: an id parameter is marked with its kind and expanded to the whole id before the route reads it.
#
# The mark is in the annotation, for example `MemoryId`, of a path or query parameter or of a body field.


@dataclass(frozen=True)
class IdOf:
    """Marks a value as the id of a row of one of these kinds."""

    kinds: tuple[RecordKind, ...]


MemoryId = Annotated[str, IdOf(("memory",))]
TurnId = Annotated[str, IdOf(("turn",))]
ThreadId = Annotated[str, IdOf(("thread",))]
BridgeId = Annotated[str, IdOf(("bridge",))]
GardenId = Annotated[str, IdOf(("garden",))]
ReceiptId = Annotated[str, IdOf(("receipt",))]
RecallId = Annotated[str, IdOf(("recall",))]
TokenId = Annotated[str, IdOf(("token",))]
JobId = Annotated[str, IdOf(("job",))]
#: The kinds of rows that can be forgotten by id.
RowId = Annotated[str, IdOf(("memory", "turn", "thread"))]


async def expand_short_ids(connection: HTTPConnection) -> None:
    """Replace shortened ids in a request with whole ids.

    Raises:
        BadInput: a shortened id matches several rows; the message lists them.
    """
    route: Any = connection.scope.get("route")
    if not isinstance(connection, Request) or not hasattr(route, "dependant"):
        return
    marks = _marks_of(route.dependant)
    places = _places_of(connection, marks, await _body_of(connection) if marks.fields else {})
    if not places:
        return

    def look(tx: Tx) -> list[str]:
        return [resolve_id(tx, place.given, place.mark.kinds) for place in places]

    for place, id_ in zip(places, await read_in_tx(connection, look), strict=True):
        if id_ != place.given:
            place.put(id_)


@dataclass(frozen=True)
class _Place:
    """An id in a request, and a function that replaces it."""

    given: str
    mark: IdOf
    put: Callable[[str], None]


@dataclass(frozen=True)
class _Marks:
    """The marked names of a route: path and query parameters, and body fields."""

    parameters: Mapping[str, IdOf]
    fields: Mapping[str, IdOf]


def _places_of(request: Request, marks: _Marks, body: dict[str, Any]) -> list[_Place]:
    # A request keeps its path parameters and its parsed body; the route reads the same objects.
    path: dict[str, Any] = request.path_params
    found = [_in(path, name, mark) for name, mark in marks.parameters.items() if isinstance(path.get(name), str)]
    for name, mark in marks.parameters.items():
        if name in request.query_params and name not in path:
            found.append(
                _Place(request.query_params[name], mark, lambda id_, name=name: _put_query(request, name, id_))
            )
    for name, mark in marks.fields.items():
        value: Any = body.get(name)
        if isinstance(value, str):
            found.append(_in(body, name, mark))
        elif isinstance(value, list):
            listed = cast("list[Any]", value)
            found += [_in(listed, place, mark) for place, one in enumerate(listed) if isinstance(one, str)]
    return found


def _in(holder: Any, key: str | int, mark: IdOf) -> _Place:
    return _Place(holder[key], mark, lambda id_: holder.__setitem__(key, id_))


def _put_query(request: Request, name: str, id_: str) -> None:
    pairs = parse_qsl(request.url.query, keep_blank_values=True)
    request.scope["query_string"] = urlencode([(key, id_ if key == name else value) for key, value in pairs]).encode()
    for kept in ("_query_params", "_url"):  # a request caches its parsed URL
        request.__dict__.pop(kept, None)


async def _body_of(request: Request) -> dict[str, Any]:
    """Return the object in the body; empty if there is none. The route reports a body that is invalid."""
    try:
        body: Any = await request.json()
    except ValueError:
        return {}
    return cast("dict[str, Any]", body) if isinstance(body, dict) else {}


def _marks_of(dependant: Any) -> _Marks:
    parameters, fields = dict[str, IdOf](), dict[str, IdOf]()
    waiting = [dependant]
    while waiting:
        one = waiting.pop()
        waiting += one.dependencies
        for name, hint in _hints_of(one.call).items():
            if isinstance(hint, type) and issubclass(hint, BaseModel):
                fields |= {field: mark for field, inner in _hints_of(hint).items() if (mark := _mark_in(inner))}
            elif mark := _mark_in(hint):
                parameters[name] = mark
    return _Marks(parameters, fields)


@cache
def _hints_of(what: Any) -> dict[str, Any]:
    return get_type_hints(what, include_extras=True)


def _mark_in(hint: Any) -> IdOf | None:
    """Return the mark of an annotation, which may be nested in a list or an optional type."""
    if isinstance(hint, IdOf):
        return hint
    inside = (*get_args(hint), *getattr(hint, "__metadata__", ()))
    return next((mark for one in inside if (mark := _mark_in(one))), None)
