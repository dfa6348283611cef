"""Idempotency keys: a repeated request gets the stored answer and is not executed again.

The header follows the IETF draft (draft-ietf-httpapi-idempotency-key-header), and so do the errors: 422 if the key was
used for another request, 409 while the first request is running. An error that may differ on the next try (401, 403,
404, 409, 429 and every server error) is not stored, so the request can be retried with the same key. If the daemon
stops after it executed a request but before it stored the answer, a repeated request is executed again.
"""

from __future__ import annotations

import hashlib
from typing import Final, cast

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from filrouge.core.errors import BadInput, Busy, FilrougeError, Stale
from filrouge.core.protocols import Tx
from filrouge.runtime.repository import IdempotentRequests, StoredAnswer
from filrouge.runtime.services import Parts
from filrouge.server.auth import ACCESS
from filrouge.server.body_limits import read_and_replay
from filrouge.server.deferred import methods_at
from filrouge.server.problems import refused
from filrouge.server.responses import await_future

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
