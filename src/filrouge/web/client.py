"""The pages' way to the API: requests inside the process, with the visitor's own rights."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from msgspec import Struct
from starlette.requests import Request
from starlette.types import ASGIApp, Message

from filrouge.server.admission import ACCESS

Query = Mapping[str, str | int | bool | Sequence[str] | None]

#: What an inner request takes over from the outer one; the rest describes the outer request's path and body.
_KEPT: Final = ("type", "asgi", "http_version", "scheme", "client", "server", "root_path", ACCESS)


class ApiProblem(Exception):
    """The API refused a request; holds the fields of its problem document."""

    def __init__(self, status: int, detail: str, remedy: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.remedy = remedy


class Listing(Struct, frozen=True, kw_only=True):
    """A page of a list.

    Attributes:
        rows: the JSON of the answer.
        next: the cursor of the page after it; empty if this is the last.
    """

    rows: Any
    next: str


class Api:
    """Asks the HTTP API without a connection, for the visitor of one request."""

    def __init__(self, request: Request) -> None:
        self._request = request

    async def get(self, path: str, /, **query: str | int | bool | Sequence[str] | None) -> Any:
        """Return the JSON of a GET. Parameters that are None or empty are left out.

        Raises:
            ApiProblem: the API refused the request.
        """
        return (await self._ask("GET", path, query, None)).rows

    async def listing(self, path: str, /, **query: str | int | bool | Sequence[str] | None) -> Listing:
        """Return a page of a list together with the cursor of the next page.

        Raises:
            ApiProblem: the API refused the request.
        """
        return await self._ask("GET", path, query, None)

    async def send(self, method: str, path: str, body: Any = None, query: Query | None = None) -> Any:
        """Return the JSON answer to a request that may change something.

        Raises:
            ApiProblem: the API refused the request.
        """
        return (await self._ask(method, path, query or {}, body)).rows

    async def _ask(self, method: str, path: str, query: Query, body: Any) -> Listing:
        answer = _Answer()
        raw = b"" if body is None else json.dumps(body).encode()
        outer = self._request.scope
        scope: dict[str, Any] = {key: outer[key] for key in _KEPT if key in outer}
        scope |= {
            "method": method,
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": urlencode(_given(query), doseq=True).encode(),
            "headers": [
                (b"host", self._request.headers.get("host", "").encode("latin-1")),
                (b"content-type", b"application/json"),
                (b"content-length", str(len(raw)).encode()),
            ],
            "state": {},
            "app": self._request.app,
        }
        inner = cast("ASGIApp", self._request.app.state.admitted)
        await inner(scope, _Body(raw).receive, answer.send)
        return answer.listing()


def _given(query: Query) -> dict[str, Any]:
    """Return the parameters that have a value, as texts."""
    return {
        name: ("true" if value else "false") if isinstance(value, bool) else value
        for name, value in query.items()
        if value is not None and value != "" and value != []
    }


class _Body:
    """The body of an inner request: one message, then a client that stays."""

    def __init__(self, raw: bytes) -> None:
        self._raw: bytes | None = raw

    async def receive(self) -> Message:
        """Return the body once; a later call waits, because the visitor does not leave."""
        raw, self._raw = self._raw, None
        if raw is None:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": raw, "more_body": False}


class _Answer:
    """Collects the answer to an inner request."""

    def __init__(self) -> None:
        self._status = 0
        self._headers: dict[str, str] = {}
        self._body = bytearray()

    async def send(self, message: Message) -> None:
        """Take one message of the answer."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = {
                key.decode("latin-1").lower(): value.decode("latin-1") for key, value in message["headers"]
            }
        elif message["type"] == "http.response.body":
            self._body += message.get("body", b"")

    def listing(self) -> Listing:
        """Return what was answered.

        Raises:
            ApiProblem: the answer is a problem document.
        """
        value: Any = json.loads(bytes(self._body)) if self._body else None
        if self._status >= 400:
            raise ApiProblem(self._status, value.get("detail", ""), value.get("remedy", ""))
        return Listing(rows=value, next=_next_cursor(self._headers.get("link", "")))


def _next_cursor(link: str) -> str:
    """Return the cursor in a `Link` header with `rel="next"`; empty if there is none."""
    address = link.partition("<")[2].partition(">")[0] if 'rel="next"' in link else ""
    return dict(parse_qsl(urlsplit(address).query)).get("cursor", "")
