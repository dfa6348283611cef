"""Pages put together are the whole: nothing twice and nothing left out, whatever is added in front meanwhile."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fastapi import Request, Response
from hypothesis import given
from hypothesis import strategies as st

from filrouge.core.errors import BadInput
from filrouge.server.queries import page_of
from tests.unit.server.conftest import Api
from tests.unit.server.test_idempotency import get

Row = dict[str, Any]


def page(rows: list[Row], limit: int | None, cursor: str | None) -> tuple[list[Row], str | None]:
    scope: Row = dict.fromkeys(("type", "method"), "http")
    scope |= {"path": "/rows", "query_string": b"a=1", "headers": list[Any](), "server": ("x", 1)}
    response = Response()
    found = page_of(Request(scope), response, rows, limit=limit, cursor=cursor, by="at")
    link = re.fullmatch(r'</rows\?a=1&cursor=([\w-]+)>; rel="next"', response.headers.get("Link", ""))
    return found, link[1] if link else None


@given(st.lists(st.integers(0, 5), max_size=30), st.integers(1, 7), st.lists(st.integers(6, 9), max_size=5))
def test_pages_put_together_are_the_whole(moments: list[int], limit: int, later: list[int]) -> None:
    rows: list[Row] = [{"id": f"{n}", "at": at} for n, at in enumerate(sorted(moments, reverse=True))]
    whole = list(rows)
    found, cursor = page(rows, limit, None)
    for n, at in enumerate(sorted(later)):
        rows.insert(0, {"id": f"later {n}", "at": at})
    while cursor:
        more, cursor = page(rows, limit, cursor)
        found += more
    assert found == whole


@given(st.lists(st.integers(0, 50), unique=True, min_size=2, max_size=30), st.data())
def test_a_page_goes_on_where_its_last_row_is_gone(moments: list[int], data: st.DataObject) -> None:
    rows: list[Row] = [{"id": f"{at}", "at": at} for at in sorted(moments, reverse=True)]
    limit = data.draw(st.integers(1, len(rows) - 1))
    first, cursor = page(rows, limit, None)
    left = [row for row in rows if row not in first[-1:]]
    assert page(left, None, cursor)[0] == rows[limit:]


@given(st.text(max_size=30))
def test_what_is_no_cursor_is_refused(cursor: str) -> None:
    if cursor:
        with pytest.raises(BadInput):
            page([{"id": "a", "at": 1}], 1, cursor)


@pytest.mark.parametrize("listing", ["/api/memory/facts", "/api/memory/memories"])
def test_a_list_is_read_page_by_page_even_if_more_comes_meanwhile(api: Api, listing: str) -> None:
    items = [{"text": f"Statement number {n}."} for n in range(5)]
    assert api.ask("POST", "/api/memory/facts", {"items": items}).status == 200
    whole, found, path = api.get(listing), list[Row](), f"{listing}?limit=2"
    for rows in (2, 2, 1):
        answer = get(api.home, path)
        assert len(answer.body) == rows
        found += answer.body
        api.remember("One more, which is no part of what is being read.")
        path = answer.headers.get("link", "<>")[1:].split(">")[0]
    assert found == whole
    assert path == ""
    assert api.ask("GET", f"{listing}?cursor=nonsense").status == 400
