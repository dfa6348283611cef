"""What a query of a list asks for: its filters, and its page.

A cursor names the last row of a page, not its position, so rows that are added at the front in the meantime neither
repeat nor hide a row. If the named row is gone, the page begins with the first row that follows it in the list's
order. If rows are numbered, or their source counts them, the cursor holds that number. The next page is a `Link`
header (RFC 8288, `rel="next"`); bodies stay plain lists.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from inspect import Parameter, Signature
from typing import Annotated, Any, NoReturn

from fastapi import Query, Request, Response
from pydantic import Field
from pydantic.fields import FieldInfo

from filrouge.capture.models import Role
from filrouge.core.errors import BadInput
from filrouge.memories.models import Filters
from filrouge.search.filters import parse_filters
from filrouge.server.middleware import ThreadId
from filrouge.server.responses import Body

# Filters in requests: query parameters or body fields, with the same names and meanings.

_WHEN = "A day (2026-05-01) or a moment (2026-05-01T14:30), in this machine's zone unless it names one."
_BRANCH = "Said while this git branch was checked out: its whole name."


class FilterBody(Body):
    """Filters on memories and turns."""

    user: str | None = None
    agent: str | None = Field(None, description="Who learned it: an agent's id, or its channel where it has none.")
    channel: str | None = None
    kind: list[str] = Field(default_factory=list[str], description="Kinds of memories, or `turn`.")
    since: str | None = Field(None, description=f"Said from then on. {_WHEN}")
    until: str | None = Field(None, description=f"Said before then; a day counts whole. {_WHEN}")
    as_of: str | None = Field(None, description=f"What was believed then, at the end of a day. {_WHEN}")
    trust: int = Field(0, ge=0, le=3, description="At least: 1 the agent, 2 the user's prompts, 3 the user's own hand.")
    role: Role | None = None
    thread: ThreadId | None = Field(None, description="A thread's id: its turns, and what rests on them.")
    branch: str | None = Field(None, description=_BRANCH)

    def filters(self) -> Filters:
        """Return the filters.

        Raises:
            BadInput: a time is invalid, or a kind is unknown.
        """
        given = self.model_dump(include=set(FilterBody.model_fields))
        return parse_filters({name: value for name, value in given.items() if value not in (None, "")})[0]


def filters_of(**given: Any) -> Filters:
    """Return the filters from a request's query string; its parameters are the fields of `FilterBody`."""
    return FilterBody(**{name: value for name, value in given.items() if value is not None}).filters()


def _parameter(name: str, described: FieldInfo) -> Parameter:
    """Return a field of the body as a parameter of the query string; a list may be absent."""
    query = Query(description=described.description)
    is_list = described.default_factory is not None
    kind: Any = described.annotation
    annotation: Any = Annotated[kind | None if is_list else kind, *described.metadata, query]
    default = None if is_list else described.default
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


# FastAPI reads a dependency's parameters from its signature.
vars(filters_of)["__signature__"] = Signature([_parameter(*one) for one in FilterBody.model_fields.items()])


# Pagination of lists: `limit` rows per page, and a cursor for where the next page begins.
#
# A cursor names the last row of a page, not its position, so rows that are added at the front in the meantime neither
# repeat nor hide a row. If the named row is gone, the page begins with the first row that follows it in the list's
# order. If rows are numbered, or their source counts them, the cursor holds that number. The next page is a `Link`
# header (RFC 8288, `rel="next"`); bodies stay plain lists.

Cursor = Annotated[
    str | None,
    Query(max_length=500, description="The cursor from the `Link` header (`rel=next`) of the previous page."),
]


#: Maximum digits of a row number, which has 64 bits.
_DIGITS = 18


PageLimit = Annotated[int | None, Query(ge=1, le=1000, description="Rows of a page; none = all.")]


def paged(
    request: Request, response: Response, rows: Sequence[dict[str, Any]], *, limit: int | None, cursor: str | None,
    by: str, name: str = "id",
) -> list[dict[str, Any]]:  # fmt: skip
    """Return the page that follows the cursor, and add the link to the next page to the response.

    Args:
        rows: the whole list, in descending order of `by`.
        by: the field that the list is ordered by, text or number.
        name: the field that identifies a row.

    Raises:
        BadInput: the cursor does not belong to this list.
    """
    begin = _behind(rows, cursor, by, name) if cursor else 0
    page = list(rows[begin:]) if limit is None else list(rows[begin : begin + limit])
    if page and begin + len(page) < len(rows):
        _link(request, response, [page[-1][by], page[-1][name]])
    return page


def behind(cursor: str | None) -> int | None:
    """Return the number that a cursor contains; None for the first page.

    Raises:
        BadInput: the cursor is invalid.
    """
    if cursor is None:
        return None
    number = _read(cursor)
    if type(number) is not int or not 0 <= number < 10**_DIGITS:
        _refuse()
    return number


def link_next(request: Request, response: Response, number: int | None) -> None:
    """Add the link to the next page, if there is one."""
    if number is not None:
        _link(request, response, number)


def _link(request: Request, response: Response, place: Any) -> None:
    cursor = base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")
    url = request.url.include_query_params(cursor=cursor)
    response.headers["Link"] = f'<{url.path}?{url.query}>; rel="next"'


def _read(cursor: str) -> Any:
    try:
        return json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (ValueError, TypeError, RecursionError):
        _refuse()


def _behind(rows: Sequence[dict[str, Any]], cursor: str, by: str, name: str) -> int:
    try:
        value, id_ = _read(cursor)
    except (ValueError, TypeError):
        _refuse()
    place = next((number for number, row in enumerate(rows) if row[name] == id_), None)
    if place is not None:
        return place + 1
    try:
        return next((number for number, row in enumerate(rows) if row[by] < value), len(rows))
    except TypeError:
        _refuse()


def _refuse() -> NoReturn:
    raise BadInput("query.cursor is not valid for this list.", remedy="Take it from the `Link` of the page before.")
