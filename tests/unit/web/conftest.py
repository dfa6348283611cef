"""The dashboard's pages over a real server in this process; forms are sent as a browser sends them."""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest

from filrouge.core.paths import socket_path
from tests.unit.server.conftest import Api, serving

_INVISIBLE = re.compile(r"<(script|style|noscript|head)\b.*?</\1>", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")


@dataclass(kw_only=True)
class Site:
    """A visitor of the dashboard, with all rights.

    Attributes:
        api: the server's API, to make what the pages then show.
    """

    api: Api
    http: httpx.Client

    def page(self, path: str, *, language: str = "en", status: int = 200) -> str:
        """Return the HTML of a page below `/dashboard`."""
        answer = self.http.get(f"/dashboard{path}", headers={"Accept-Language": language})
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"].startswith("text/html")
        return answer.text

    def text(self, path: str, *, language: str = "en", status: int = 200) -> str:
        """Return what a person reads on a page, with single spaces."""
        return visible(self.page(path, language=language, status=status))

    def twin(self, path: str) -> Any:
        """Return the `.json` twin of a page."""
        answer = self.http.get(f"/dashboard{path}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def send(self, path: str, *, status: int = 303, **fields: str | list[str]) -> str:
        """Send a form, and return where it leads; the text of the page if it is refused."""
        answer = self.http.post(f"/dashboard{path}", data=fields)
        assert answer.status_code == status, answer.text
        return answer.headers.get("location", visible(answer.text))

    def follow(self, location: str) -> str:
        """Return what a person reads where a form led."""
        return self.text(location.removeprefix("/dashboard"))


def visible(html: str) -> str:
    """Return the text of a page without its markup."""
    return re.sub(r"\s+", " ", unescape(_TAG.sub(" ", _INVISIBLE.sub(" ", html)))).strip()


@pytest.fixture
def site(tmp_path: Path) -> Generator[Site]:
    """A visitor of a new, empty server."""
    with serving(str(tmp_path)) as api, _client(api) as http:
        yield Site(api=api, http=http)


@pytest.fixture(scope="module")
def shared_site(tmp_path_factory: pytest.TempPathFactory) -> Generator[Site]:
    """A visitor of a server that the tests of a module share."""
    with serving(str(tmp_path_factory.mktemp("site"))) as api, _client(api) as http:
        yield Site(api=api, http=http)


def _client(api: Api) -> httpx.Client:
    transport = httpx.HTTPTransport(uds=socket_path(api.home))
    return httpx.Client(transport=transport, base_url="http://filrouge", timeout=20.0)
