"""What happens to a request before its route: idempotency keys and validation.

JSON permits values that the database, the index and other programs cannot hold: lone surrogates, NaN, a thousand
levels of nesting. A query string can repeat a parameter of which a route reads only one. Each of these is refused with
an error that names the value, so that nothing is stored differently from how it was sent.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from inspect import isfunction
from typing import Annotated, Any, Final, NoReturn, cast, get_args, get_type_hints
from urllib.parse import parse_qsl, unquote_to_bytes, urlencode

from fastapi import Request
from msgspec import Struct
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
from filrouge.server.problems import problem_response
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
_UNSTORED_STATUSES: Final = frozenset({401, 403, 404, 409, 429})
#: Maximum bytes of a stored answer; a repetition of a longer one only reports that the request was done.
_MAX_STORED_BYTES: Final = 1 << 20


class IdempotencyMiddleware:
    """ASGI middleware for idempotency keys; it runs after authentication and all limits."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._running_keys: set[bytes] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Execute a request, or return its stored answer."""
        key = Headers(scope=scope).get(HEADER) if scope["type"] == "http" and scope["method"] in _METHODS else None
        if key is None or scope["method"] not in methods_at(scope["app"], scope["path"]):
            await self._app(scope, receive, send)
            return
        try:
            hashed, request, receive = await _fingerprint(scope, receive, key)
            if hashed in self._running_keys:
                raise _busy_error()
            self._running_keys.add(hashed)
        except FilrougeError as error:
            headers = {"Retry-After": "1"} if isinstance(error, Busy) else {}
            await problem_response(error, headers=headers)(scope, receive, send)
            return
        try:
            await self._execute_once(scope, receive, send, hashed, request)
        finally:
            self._running_keys.discard(hashed)

    async def _execute_once(self, scope: Scope, receive: Receive, send: Send, key: bytes, request: bytes) -> None:
        parts = _parts(scope)
        now = parts.clock.now()

        def begin(tx: Tx) -> StoredAnswer | None:
            table = IdempotentRequests(tx)
            stored = table.get(key, now)
            if stored is None or (stored.status == 0 and stored.request in (None, request)):
                table.begin(key, request, now)
                return None
            return stored

        stored = await await_future(parts.writer.submit(begin))
        if stored is not None:
            await _send_stored(stored, request, scope, receive, send)
            return
        recorder = _ResponseRecorder(send)
        try:
            await self._app(scope, receive, recorder.send)
        finally:
            status = (
                recorder.status
                if recorder.last and recorder.status < 500 and recorder.status not in _UNSTORED_STATUSES
                else 0
            )
            body = bytes(recorder.body) if len(recorder.body) <= _MAX_STORED_BYTES else None

            def end(tx: Tx) -> None:
                if status:
                    IdempotentRequests(tx).end(key, status, recorder.type, body)
                else:
                    IdempotentRequests(tx).drop(key)

            await await_future(parts.writer.submit(end))
        self._running_keys.discard(key)
        if recorder.last is not None:
            await send(recorder.last)


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
            if len(self.body) <= _MAX_STORED_BYTES:
                self.body += message.get("body", b"")
            if not message.get("more_body", False):
                self.last = message
                return
        await self._send(message)


async def _fingerprint(scope: Scope, receive: Receive, key: str) -> tuple[bytes, bytes, Receive]:
    """Return the hash of the key, the hash of the request, and a `receive` that replays the request."""
    if not 0 < len(key) <= MAX_KEY_CHARS or not key.isascii() or not key.isprintable():
        raise BadInput(f"{HEADER} has 1 to {MAX_KEY_CHARS} visible characters.", remedy="Send a UUID.")
    body, replay = await read_and_replay(receive)
    caller = getattr(scope.get(ACCESS), "who", "")
    request_line = "\0".join(
        (scope["method"], scope["path"], cast("bytes", scope["query_string"]).decode("latin-1"), "")
    )
    hashes = (_hash(f"{caller}\0{key}".encode()), _hash(request_line.encode() + body))
    return *hashes, replay


async def _send_stored(stored: StoredAnswer, request: bytes, scope: Scope, receive: Receive, send: Send) -> None:
    if stored.request is None:
        error = Stale("This key was used before, and a later forgetting erased its answer.", remedy="Use another key.")
        await problem_response(error)(scope, receive, send)
        return
    if stored.request != request:
        error = BadInput(f"This {HEADER} was used for another request.", remedy="Use a new key for each request.")
        await problem_response(error, status=422)(scope, receive, send)
        return
    if stored.body is None:
        await problem_response(Stale("The request with this key was executed; its answer was too long to store."))(
            scope, receive, send
        )
        return
    headers = MutableHeaders(raw=[])
    headers["content-type"], headers["content-length"] = stored.type, str(len(stored.body))
    headers[REPLAYED] = "true"
    await send({"type": "http.response.start", "status": stored.status, "headers": headers.raw})
    await send({"type": "http.response.body", "body": stored.body})


def _hash(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _busy_error() -> Busy:
    return Busy("The request with this key is still running.", remedy="Try again in a second.")


def _parts(scope: Scope) -> Parts:
    return cast("Parts", scope["app"].state.running.parts)


# Request validation before any route runs: encoding, JSON, query, and expansion of short ids.

#: The largest integer that SQLite can store.
MAX_INTEGER: Final = 2**63 - 1
_MAX_DEPTH: Final = 100
#: Events from a host are accepted as they are: intake repairs lone surrogates, so that no captured text is lost.
_HOST_EVENT_PATHS: Final = frozenset({"/hooks/events"})
#: Endpoints with a protocol of their own report unreadable input in that protocol.
_OWN_PROTOCOL_PATHS: Final = frozenset({"/mcp"})
#: The dashboard's forms; what they ask of the API is checked there.
_FORM_PATHS: Final = "/dashboard/"


async def check_request(connection: HTTPConnection) -> None:
    """Refuse a request that cannot be read exactly as it was sent.

    Raises:
        BadInput: the query or the body is invalid; the message names the invalid part.
        HTTPException: 415 if the body is not JSON.
    """
    _check_address(connection)
    if not isinstance(connection, Request) or connection.method in ("GET", "HEAD"):
        return
    path = connection.url.path
    if path in _OWN_PROTOCOL_PATHS or path.startswith(_FORM_PATHS):
        return
    try:
        body = await connection.body()
    except ClientDisconnect:  # nobody waits for an answer; a route without a body still runs
        return
    if not body:
        return
    media_type = connection.headers.get("content-type", "").split(";", 1)[0].strip().lower()
    if media_type != "application/json" and not (
        media_type.startswith("application/") and media_type.endswith("+json")
    ):
        raise HTTPException(415, f"a body is application/json, not {media_type or 'without a type'!r}")
    _check_value(_parse_json(body), refuse_surrogates=connection.url.path not in _HOST_EVENT_PATHS)


def _check_address(connection: HTTPConnection) -> None:
    query = cast("bytes", connection.scope.get("query_string", b""))
    raw = cast("bytes", connection.scope.get("raw_path") or b"")
    for where, part in (("path", raw), ("query", query)):
        if b"%" in part or not part.isascii():
            _check_text(where, unquote_to_bytes(part))
    if b"&" in query:
        names = Counter(name for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True))
        repeatable = _repeatable_parameters(connection)
        for name, times in names.items():
            if times > 1 and name not in repeatable:
                raise BadInput(f"query.{name} is given {times} times.", remedy="Give it once.")


def _check_text(where: str, raw: bytes) -> None:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise BadInput(f"The {where} is not UTF-8.", remedy="Encode it as UTF-8, then with percent signs.") from None
    if "\0" in text:
        raise BadInput(f"The {where} contains a NUL character.", remedy="Remove it.")


def _repeatable_parameters(connection: HTTPConnection) -> set[str]:
    """Return the query parameters of this route that accept several values."""
    route: Any = connection.scope.get("route")
    names: set[str] = set()
    waiting: list[Any] = [route.dependant] if route is not None and hasattr(route, "dependant") else []
    while waiting:
        dependant = waiting.pop()
        waiting += dependant.dependencies
        names |= {
            parameter.alias for parameter in dependant.query_params if "list" in str(parameter.field_info.annotation)
        }
    return names


def _parse_json(body: bytes) -> Any:
    try:
        return json.loads(body, parse_constant=_refuse_constant)
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise BadInput(f"body is not JSON: {error}.", remedy="Send one JSON value in UTF-8.") from None


def _refuse_constant(word: str) -> NoReturn:
    raise BadInput(f"{word} is not a number in JSON.", remedy="Send a number, or null.")


def _check_value(document: Any, *, refuse_surrogates: bool) -> None:
    """Walk a JSON value and refuse what could not be stored as it was sent."""
    waiting: list[tuple[Any, int]] = [(document, 1)]
    while waiting:
        value, level = waiting.pop()
        if level > _MAX_DEPTH:
            raise _too_deep()
        match value:
            case str() if refuse_surrogates:
                _check_surrogates(value)
            case dict():
                waiting += ((part, level + 1) for pair in cast("dict[str, Any]", value).items() for part in pair)
            case list():
                waiting += ((item, level + 1) for item in cast("list[Any]", value))
            case int() | float() if abs(value) > MAX_INTEGER:
                raise BadInput(
                    f"body contains a number that is too large: {value:.6g}.", remedy=f"The largest is {MAX_INTEGER}."
                )
            case _:
                pass


def _check_surrogates(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadInput("body contains a lone surrogate.", remedy="Send complete characters.") from None


def _too_deep() -> BadInput:
    return BadInput("body is nested too deeply.", remedy=f"Nest at most {_MAX_DEPTH} levels.")


# Short ids: an id parameter is marked with its kind and expanded to the full id before the route reads it.
#
# The mark is in the annotation, for example `MemoryId`, of a path or query parameter or of a body field.


class IdOf(Struct, frozen=True):
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
    """Replace shortened ids in a request with full ids.

    Raises:
        BadInput: a shortened id matches several rows; the message lists them.
    """
    route: Any = connection.scope.get("route")
    if not isinstance(connection, Request) or not hasattr(route, "dependant"):
        return
    marks = _marks_of(route.dependant)
    short_ids = _short_ids_in(connection, marks, await _body_of(connection) if marks.fields else {})
    if not short_ids:
        return

    def resolve(tx: Tx) -> list[str]:
        return [resolve_id(tx, short.id, short.mark.kinds) for short in short_ids]

    for short, full_id in zip(short_ids, await read_in_tx(connection, resolve), strict=True):
        if full_id != short.id:
            short.replace(full_id)


class _ShortId(Struct, frozen=True):
    """An id in a request, perhaps shortened.

    Attributes:
        mark: the kinds of rows that it may name.
        replace: writes another id in its place.
    """

    id: str
    mark: IdOf
    replace: Callable[[str], None]


class _Marks(Struct, frozen=True):
    """The marked names of a route: path and query parameters, and body fields."""

    parameters: Mapping[str, IdOf]
    fields: Mapping[str, IdOf]


def _short_ids_in(request: Request, marks: _Marks, body: dict[str, Any]) -> list[_ShortId]:
    # A request keeps its path parameters and its parsed body; the route reads the same objects.
    path: dict[str, Any] = request.path_params
    found = [_item_of(path, name, mark) for name, mark in marks.parameters.items() if isinstance(path.get(name), str)]
    for name, mark in marks.parameters.items():
        if name in request.query_params and name not in path:
            found.append(
                _ShortId(request.query_params[name], mark, lambda id_, name=name: _put_query(request, name, id_))
            )
    for name, mark in marks.fields.items():
        value: Any = body.get(name)
        if isinstance(value, str):
            found.append(_item_of(body, name, mark))
        elif isinstance(value, list):
            ids = cast("list[Any]", value)
            found += [_item_of(ids, index, mark) for index, id_ in enumerate(ids) if isinstance(id_, str)]
    return found


def _item_of(container: Any, key: str | int, mark: IdOf) -> _ShortId:
    return _ShortId(container[key], mark, lambda id_: container.__setitem__(key, id_))


def _put_query(request: Request, name: str, id_: str) -> None:
    pairs = parse_qsl(request.url.query, keep_blank_values=True)
    request.scope["query_string"] = urlencode([(key, id_ if key == name else value) for key, value in pairs]).encode()
    for cached in ("_query_params", "_url"):  # a request caches its parsed URL
        request.__dict__.pop(cached, None)


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
        current = waiting.pop()
        waiting += current.dependencies
        for name, hint in _hints_of(current.call).items():
            if isinstance(hint, type) and issubclass(hint, BaseModel):
                fields |= {field: mark for field, inner in _hints_of(hint).items() if (mark := _mark_in(inner))}
            elif mark := _mark_in(hint):
                parameters[name] = mark
    return _Marks(parameters, fields)


@cache
def _hints_of(function_or_model: Any) -> dict[str, Any]:
    """Return the type hints by name. A signature set on a function comes before its own, as in FastAPI."""
    signature = getattr(function_or_model, "__signature__", None) if isfunction(function_or_model) else None
    if signature is not None:
        return {name: parameter.annotation for name, parameter in signature.parameters.items()}
    return get_type_hints(function_or_model, include_extras=True)


def _mark_in(hint: Any) -> IdOf | None:
    """Return the mark of an annotation, which may be nested in a list or an optional type."""
    if isinstance(hint, IdOf):
        return hint
    inner_hints = (*get_args(hint), *getattr(hint, "__metadata__", ()))
    return next((mark for inner in inner_hints if (mark := _mark_in(inner))), None)
