"""Who opens the dashboard without a session learns how to get one; a form counts only with its token."""

from __future__ import annotations

import re
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.reliability.processes import run
from tests.security.wire import Served, served

_BROWSER = {"Accept": "text/html,application/xhtml+xml", "Sec-Fetch-Site": "none"}


@pytest.fixture(scope="module")
def door() -> Generator[Served]:
    with served() as found:
        yield found


def _signed_in(door: Served) -> str:
    link = door.ask("POST", "/api/tokens/login-links", token="admin", body={}).value["url"]
    answer = door.ask("GET", link.removeprefix(door.url))
    assert (answer.status, answer.headers["location"]) == (303, "/dashboard")
    return answer.headers["set-cookie"].partition(";")[0]


@pytest.mark.parametrize("path", ["/", "/memory", "/dashboard", "/dashboard/memory", "/dashboard/settings"])
@pytest.mark.parametrize(
    ("language", "said"),
    [("en", "This browser is not signed in"), ("fr", "Ce navigateur n’est pas connecté"), ("es", "no ha iniciado")],
)
def test_a_browser_without_a_session_is_told_how_to_get_one(door: Served, path: str, language: str, said: str) -> None:
    answer = door.ask("GET", path, headers={**_BROWSER, "Accept-Language": language})
    assert answer.status == 401
    assert said in answer.body.decode()
    assert "<code>filrouge dashboard</code>" in answer.body.decode()
    assert "script" not in answer.headers["content-security-policy"]


def test_a_program_without_a_token_still_gets_a_problem_document(door: Served) -> None:
    answer = door.ask("GET", "/dashboard", headers={"Accept": "application/json"})
    assert (answer.status, answer.headers["content-type"]) == (401, "application/problem+json")


def test_a_used_link_says_so_on_a_page(door: Served) -> None:
    link = door.ask("POST", "/api/tokens/login-links", token="admin", body={}).value["url"].removeprefix(door.url)
    assert door.ask("GET", link).status == 303
    again = door.ask("GET", link, headers=_BROWSER)
    assert again.status == 401
    assert "already used" in again.body.decode()


def test_the_start_and_the_memory_lead_to_the_dashboard(door: Served) -> None:
    visitor = {**_BROWSER, "Cookie": _signed_in(door)}
    for path, leads_to in (("/", "/dashboard"), ("/memory", "/dashboard/memory")):
        answer = door.ask("GET", path, headers=visitor)
        assert (answer.status, answer.headers["location"]) == (303, leads_to)
        assert door.ask("GET", leads_to, headers=visitor).status == 200


def test_a_form_counts_only_with_the_token_of_its_page(door: Served) -> None:
    visitor = {"Cookie": _signed_in(door), "Sec-Fetch-Site": "same-origin", "Accept": "text/html"}
    other = {"Cookie": _signed_in(door), "Sec-Fetch-Site": "same-origin", "Accept": "text/html"}
    token = _form_token(door, visitor)
    form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": door.url}

    def remember(text: str, token: str, visitor: dict[str, str] = visitor) -> int:
        return door.ask(
            "POST", "/dashboard/memories", body=f"text={text}&form_token={token}".encode(), headers={**visitor, **form}
        ).status

    assert [remember("none", ""), remember("foreign", _form_token(door, other)), remember("own", token)] == [
        403,
        403,
        303,
    ]
    assert remember("others", _form_token(door, other), other) == 303
    known = door.ask("GET", "/api/memory/memories", token="read").value
    assert sorted(memory["text"] for memory in known) == ["others", "own"]


def test_a_visitor_who_may_only_read_sees_no_form_and_changes_nothing(door: Served) -> None:
    link = door.ask("POST", "/api/tokens/login-links", token="admin", body={"scope": "read"}).value["url"]
    cookie = door.ask("GET", link.removeprefix(door.url)).headers["set-cookie"].partition(";")[0]
    page = door.ask("GET", "/dashboard/memory", headers={**_BROWSER, "Cookie": cookie}).body.decode()
    assert 'method="post"' not in page
    form = {"Content-Type": "application/x-www-form-urlencoded"}  # a token in a header needs no form's token
    assert door.ask("POST", "/dashboard/memories", token="read", body=b"text=no", headers=form).status == 403
    assert door.ask("POST", "/dashboard/memories", token="write", body=b"text=yes", headers=form).status == 303


def _form_token(door: Served, visitor: dict[str, str]) -> str:
    page = door.ask("GET", "/dashboard/memory", headers=visitor).body.decode()
    found = re.search(r'name="form_token" value="([0-9a-f]+)"', page)
    return found[1] if found else ""


def test_the_command_opens_the_users_browser_signed_in(door: Served, tmp_path: Path) -> None:
    browser, opened = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    browser.chmod(0o755)
    done = run(door.home, "dashboard", DISPLAY=":1", BROWSER=f"{browser} %s")
    assert "The dashboard opens in your browser" in done.out
    link = opened.read_text().strip()
    assert door.ask("GET", link.removeprefix(door.url)).headers["location"] == "/dashboard"


def test_the_command_prints_the_link_where_there_is_no_desktop(door: Served) -> None:
    link = run(door.home, "dashboard", DISPLAY="", WAYLAND_DISPLAY="").out.strip()
    assert door.ask("GET", link.removeprefix(door.url)).headers["location"] == "/dashboard"
