"""Pages of a list: `limit` rows, and behind which row the next page begins.

A cursor names the last row of a page and not its place, so what is added in front meanwhile neither repeats a row nor
hides one; where that row is gone, the page begins with the first one that comes behind it in the order of the list.
The next page is a link (RFC 8288, `rel="next"`); bodies stay plain lists.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

from fastapi import Query, Request, Response

from filrouge.errors import BadInput

Cursor = Annotated[
    str | None, Query(max_length=500, description="Where the page begins: that of a `Link` with `rel=next`.")
]
PageLimit = Annotated[int | None, Query(ge=1, le=1000, description="Rows of a page; none = all.")]


def paged(
    request: Request, response: Response, rows: Sequence[dict[str, Any]], *, limit: int | None, cursor: str | None,
    by: str, name: str = "id",
) -> list[dict[str, Any]]:  # fmt: skip
    """The page of a list that begins behind the cursor, with its link to the next one.

    Args:
        rows: the whole list, falling in `by`.
        by: the field that the list is ordered by, text or number.
        name: the field that tells a row from all others.

    Raises:
        BadInput: the cursor is none of this list.
    """
    begin = _behind(rows, cursor, by, name) if cursor else 0
    page = list(rows[begin:]) if limit is None else list(rows[begin : begin + limit])
    if page and begin + len(page) < len(rows):
        url = request.url.include_query_params(cursor=_written(page[-1][by], page[-1][name]))
        response.headers["Link"] = f'<{url.path}?{url.query}>; rel="next"'
    return page


def _written(value: Any, id_: str) -> str:
    return base64.urlsafe_b64encode(json.dumps([value, id_]).encode()).decode().rstrip("=")


def _behind(rows: Sequence[dict[str, Any]], cursor: str, by: str, name: str) -> int:
    try:
        value, id_ = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (ValueError, TypeError, RecursionError):
        _refuse()
    place = next((number for number, row in enumerate(rows) if row[name] == id_), None)
    if place is not None:
        return place + 1
    try:
        return next((number for number, row in enumerate(rows) if row[by] < value), len(rows))
    except TypeError:
        _refuse()


def _refuse() -> NoReturn:
    raise BadInput("query.cursor is no cursor of this list.", remedy="Take it from the `Link` of the page before.")
