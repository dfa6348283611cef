"""What no route wants to read is refused here, before any of them: bytes that are no text, values that are no JSON.

JSON allows what the database, the index and other programs cannot hold: half of a surrogate pair, a number that is
none, a thousand levels. A query may name a parameter twice and only one is heard. Each gets a refusal that names it,
so that nothing is stored as something else than what was sent.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, Final, NoReturn, cast
from urllib.parse import parse_qsl, unquote_to_bytes

from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection

from filrouge.errors import BadInput

#: A whole number beyond is none that SQLite holds.
LARGEST: Final = 2**63 - 1
_DEEPEST: Final = 100
#: What a host hands over is taken as it is: intake mends halves of characters, and nothing captured is lost.
_CAPTURED: Final = frozenset({"/hooks/events"})
#: What speaks a protocol of its own says in its own words what it cannot read.
_OWN_WORDS: Final = frozenset({"/mcp"})


async def legible(connection: HTTPConnection) -> None:
    """Refuse what cannot be read as it was sent.

    Raises:
        BadInput: naming where.
        HTTPException: 415 where a body is no JSON.
    """
    _check_address(connection)
    if not isinstance(connection, Request) or connection.method in ("GET", "HEAD"):
        return
    if connection.url.path in _OWN_WORDS:
        return
    try:
        body = await connection.body()
    except ClientDisconnect:  # nobody waits for an answer; what needs no body is done all the same
        return
    if not body:
        return
    said = connection.headers.get("content-type", "").split(";", 1)[0].strip().lower()
    if said != "application/json" and not (said.startswith("application/") and said.endswith("+json")):
        raise HTTPException(415, f"a body is application/json, not {said or 'without a type'!r}")
    _check_value(_parsed(body), whole_texts=connection.url.path not in _CAPTURED)


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
    """The query parameters of this route that take several values: `project` and `kind` everywhere."""
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
    """Walk a value; nothing that would be read back otherwise than it was sent gets by."""
    waiting: list[tuple[Any, int]] = [(whole, 1)]
    while waiting:
        value, level = waiting.pop()
        if level > _DEEPEST:
            raise _too_deep()
        match value:
            case str() if whole_texts:
                _check_whole(value)
            case dict():
                waiting += ((one, level + 1) for pair in cast("dict[str, Any]", value).items() for one in pair)
            case list():
                waiting += ((one, level + 1) for one in cast("list[Any]", value))
            case int() | float() if abs(value) > LARGEST:
                raise BadInput(f"body holds too large a number: {value:.6g}.", remedy=f"The largest is {LARGEST}.")
            case _:
                pass


def _check_whole(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadInput("body holds half of a surrogate pair.", remedy="Send whole characters.") from None


def _too_deep() -> BadInput:
    return BadInput("body is too deep.", remedy=f"Nest at most {_DEEPEST} levels.")
