"""Pages of lists: `limit` rows per page, and a cursor for where the next page begins.

A cursor names the last row of a page, not its position, so rows that are added at the front in the meantime neither
repeat nor hide a row. If the named row is gone, the page begins with the first row that follows it in the list's
order. If rows are numbered, or their source counts them, the cursor holds that number. The next page is a `Link`
header (RFC 8288, `rel="next"`); bodies stay plain lists.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

from fastapi import Query, Request, Response

from filrouge.core.errors import BadInput

Cursor = Annotated[
    str | None,
    Query(max_length=500, description="The cursor from the `Link` header (`rel=next`) of the previous page."),
]


#: Maximum digits of the number in a cursor, which has 64 bits.
_MAX_DIGITS = 18
WithTexts = Annotated[
    bool, Query(description="Add the beginning of each item's text as it is now; empty if it was forgotten.")
]
PageLimit = Annotated[int | None, Query(ge=1, le=1000, description="Rows of a page; none = all.")]


def page_of(
    request: Request, response: Response, rows: Sequence[dict[str, Any]], *, limit: int | None, cursor: str | None,
    by: str, name: str = "id",
) -> list[dict[str, Any]]:  # fmt: skip
    """Return the page that follows the cursor, and add the link to the next page to the response.

    Args:
        rows: the complete list, in descending order of `by`.
        by: the field that the list is ordered by, text or number.
        name: the field that identifies a row.

    Raises:
        BadInput: the cursor does not belong to this list.
    """
    start = _start_of_page(rows, cursor, by, name) if cursor else 0
    page = list(rows[start:]) if limit is None else list(rows[start : start + limit])
    if page and start + len(page) < len(rows):
        _add_link(request, response, [page[-1][by], page[-1][name]])
    return page


def number_in(cursor: str | None) -> int | None:
    """Return the number that a cursor contains; None for the first page.

    Raises:
        BadInput: the cursor is invalid.
    """
    if cursor is None:
        return None
    number = _decode(cursor)
    if type(number) is not int or not 0 <= number < 10**_MAX_DIGITS:
        _refuse_cursor()
    return number


def id_in(cursor: str | None) -> str:
    """Return the id that a cursor contains; empty for the first page.

    Raises:
        BadInput: the cursor is invalid.
    """
    if cursor is None:
        return ""
    id_ = _decode(cursor)
    if not isinstance(id_, str):
        _refuse_cursor()
    return id_


def link_next(request: Request, response: Response, last: int | str | None) -> None:
    """Add the link to the next page, if there is one.

    Args:
        last: the number or id of the last row of this page; None if there is no next page.
    """
    if last is not None:
        _add_link(request, response, last)


def _add_link(request: Request, response: Response, content: Any) -> None:
    cursor = base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")
    url = request.url.include_query_params(cursor=cursor)
    response.headers["Link"] = f'<{url.path}?{url.query}>; rel="next"'


def _decode(cursor: str) -> Any:
    try:
        return json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (ValueError, TypeError, RecursionError):
        _refuse_cursor()


def _start_of_page(rows: Sequence[dict[str, Any]], cursor: str, by: str, name: str) -> int:
    """Return the index of the row that follows the one which the cursor names."""
    try:
        value, id_ = _decode(cursor)
    except (ValueError, TypeError):
        _refuse_cursor()
    last_seen = next((index for index, row in enumerate(rows) if row[name] == id_), None)
    if last_seen is not None:
        return last_seen + 1
    try:
        return next((index for index, row in enumerate(rows) if row[by] < value), len(rows))
    except TypeError:
        _refuse_cursor()


def _refuse_cursor() -> NoReturn:
    raise BadInput(
        "query.cursor is not valid for this list.", remedy="Take it from the `Link` header of the previous page."
    )
