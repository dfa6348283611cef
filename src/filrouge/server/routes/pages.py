"""Pages of a list: an opaque cursor in the query, and the address of the next page in the header `Link` (RFC 8288)."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated

from fastapi import Query, Request, Response

from filrouge.errors import BadInput

Cursor = Annotated[str | None, Query(max_length=100, description="From the `Link` of the page before.")]


def behind(cursor: str | None) -> int | None:
    """The number that a cursor stands for; None for the first page.

    Raises:
        BadInput: it is no cursor of ours.
    """
    if cursor is None:
        return None
    try:
        number = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
        if not number.isdecimal() or len(number) > _DIGITS:
            raise ValueError
    except (ValueError, binascii.Error):
        raise BadInput(f"cursor {cursor!r} is none.", remedy="Take it from the `Link` of the page before.") from None
    return int(number)


def link_next(request: Request, response: Response, number: int | None) -> None:
    """Name the next page, if there is one."""
    if number is not None:
        cursor = base64.urlsafe_b64encode(str(number).encode()).decode().rstrip("=")
        target = request.url.include_query_params(cursor=cursor)
        response.headers["Link"] = f'<{target.path}?{target.query}>; rel="next"'


#: A number of a row has 64 bits.
_DIGITS = 18
