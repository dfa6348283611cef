"""Cuts large request bodies while they arrive.

A request therefore never needs a multiple of its size in memory. On the routes for events and messages, a body is
passed on as it arrives, without the ends of very long strings and without values beyond the maximum for one event. A
little more is kept than an event may contain: the exact limits, and the redaction of text that crosses them, are in
`capture.cutting`. A mark replaces the dropped text and states how much was dropped. Other routes have their own limits
and refuse larger bodies.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, cast

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from filrouge.capture.cutting import LARGEST_EVENT, LONGEST_TEXT, LOOKAHEAD, MAX_VALUES, cut_mark

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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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


def _may_be_large(scope: Scope) -> bool:
    headers = dict(_headers(scope))
    length = headers.get(b"content-length", b"")
    kind = headers.get(b"content-type", b"application/json").split(b";")[0].strip()
    is_json = kind == b"application/json" or kind.endswith(b"+json")
    return is_json and not (length.isdigit() and len(length) < 10 and int(length) <= SMALL)


def _headers(scope: Scope) -> Iterator[tuple[bytes, bytes]]:
    for name, value in cast("list[tuple[bytes, bytes]]", cast("dict[str, Any]", scope).get("headers", [])):
        yield name.lower(), value
