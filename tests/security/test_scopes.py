"""What a token may do, by the API's own document: reading, writing and administering are three things, on every way in:
routes, keys of repetition, the live feed, and the tools of agents.
"""

from __future__ import annotations

import json
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from filrouge.mcp.offered import TOOLS
from tests.reliability.processes import run
from tests.support.mcp import call, request

from .wire import Served, filled, served

SECONDS = 20
TOLD: dict[str, Any] = {"text": "Production listens on port 8443.", "project": []}
#: What decides about the daemon, its settings, its keys or its bytes, and what leaves the machine.
FOR_ADMINISTRATORS = {
    ("PATCH", "/api/memory/settings"),
    ("GET", "/api/tokens"),
    ("POST", "/api/tokens"),
    ("DELETE", "/api/tokens/x"),
    ("POST", "/api/tokens/login-links"),
    ("POST", "/daemon/stop"),
    ("POST", "/daemon/drain"),
    ("POST", "/api/memory/forget"),
    ("POST", "/api/memory/import"),
    ("POST", "/api/team/join"),
    ("POST", "/api/team/leave"),
    ("PUT", "/api/team/policy"),
    ("POST", "/api/team/share"),
    ("POST", "/api/team/unshare"),
}
SETTINGS: dict[str, Any] = {
    "host": "0.0.0.0",
    "port": 1,
    "allowed_hosts": ["attacker.example"],
    "tls_cert": "/cert",
    "tls_key": "/key",
    "limit_requests": 100_000,
    "limit_body_mb": 31,
}


@pytest.fixture(scope="module")
def scope_of(open_door: Served) -> dict[tuple[str, str], str]:
    """The scope of every operation, as the document says it."""
    paths = open_door.ask("GET", "/openapi.json", token="read").value["paths"]
    return {
        (method.upper(), filled(path)): operation["x-filrouge-scope"]
        for path, methods in paths.items()
        for method, operation in methods.items()
        if "x-filrouge-scope" in operation
    }


@pytest.mark.parametrize("held", ["read", "write"])
def test_what_the_document_says_is_needed_is_needed(
    open_door: Served, scope_of: dict[tuple[str, str], str], held: str
) -> None:
    beyond = [one for one, scope in scope_of.items() if scope == "admin" or (scope, held) == ("write", "read")]
    assert len(beyond) >= len(FOR_ADMINISTRATORS)
    reached: list[tuple[str, str, int]] = []
    for number, (method, path) in enumerate(beyond):
        if number % 40 == 39:
            time.sleep(0.6)  # no more in a second than one token may ask
        status = open_door.ask(method, path, token=held, body=b"{}").status
        if status != 403:
            reached.append((method, path, status))
    assert reached == []


def test_the_daemon_its_settings_its_keys_and_its_bytes_are_for_administrators(
    scope_of: dict[tuple[str, str], str],
) -> None:
    admin = {one for one, scope in scope_of.items() if scope == "admin"}
    assert admin >= FOR_ADMINISTRATORS
    for word in ("backup", "reindex"):
        changing = [one for one in scope_of if word in one[1] and one[0] != "GET"]
        assert changing
        assert set(changing) <= admin, word


def test_no_setting_is_changed_by_less_than_an_administrator(open_door: Served) -> None:
    known = open_door.ask("GET", "/api/memory/settings", token="read").value
    assert SETTINGS.keys() <= known.keys()
    for held in ("read", "write"):
        for name, value in SETTINGS.items():
            assert open_door.ask("PATCH", "/api/memory/settings", token=held, body={name: value}).status == 403
    assert open_door.ask("GET", "/api/memory/settings", token="read").value == known


def test_a_key_of_repetition_is_its_callers_alone() -> None:
    with served() as door:
        path, key = "/api/memory/memories", {"Idempotency-Key": "one"}
        other = door.ask("POST", "/api/tokens", token="admin", body={"scope": "write"}).value["token"]
        first = door.ask("POST", path, token="write", body=TOLD, headers=key)
        again = door.ask("POST", path, token="write", body=TOLD, headers=key)
        assert (first.status, again.headers.get("idempotency-replayed"), again.value) == (201, "true", first.value)
        theirs = door.ask("POST", path, token=other, body=TOLD, headers=key)
        assert (theirs.status, "idempotency-replayed" in theirs.headers) == (201, False)
        assert [action["action"] for action in theirs.value["actions"]] == ["noop"]
        assert door.ask("POST", path, token=other, body={**TOLD, "text": "x"}, headers=key).status == 422
        refused = door.ask("POST", path, token="read", body=TOLD, headers=key)
        assert (refused.status, "idempotency-replayed" in refused.headers) == (403, False)
        assert door.ask("POST", path, body=TOLD, headers=key).status == 401


def test_a_key_of_repetition_is_worth_nothing_once_its_token_is_revoked() -> None:
    with served() as door:
        path, key = "/api/memory/memories", {"Idempotency-Key": "one"}
        made = door.ask("POST", "/api/tokens", token="admin", body={"scope": "write"}).value
        assert door.ask("POST", path, token=made["token"], body=TOLD, headers=key).status == 201
        assert door.ask("DELETE", f"/api/tokens/{made['id']}", token="admin").status == 200
        assert door.ask("POST", path, token=made["token"], body=TOLD, headers=key).status == 401


@contextmanager
def listening(door: Served, **headers: str) -> Generator[ClientConnection]:
    """The live feed over TCP, greeted."""
    said = {name.replace("_", "-"): value for name, value in headers.items()}
    with connect(f"ws://{door.host}/ws", additional_headers=said, proxy=None) as live:
        assert json.loads(live.recv(SECONDS))["type"] == "ws:hello"
        yield live


def goodbye(live: ClientConnection) -> tuple[int, str]:
    """How a feed ends, after whatever else it tells."""
    with suppress(ConnectionClosed):
        while True:
            live.recv(SECONDS)
    return live.close_code or 0, live.close_reason or ""


def signed_in(door: Served) -> tuple[str, str]:
    """The cookie of a browser that came by a login link, and the id of its session."""
    path = run(door.home, "token", "login", "--scope", "read").out.strip().removeprefix(door.url)
    cookie = door.ask("GET", path).headers["set-cookie"].partition(";")[0]
    found = door.ask("GET", "/api/tokens", token="admin").value["tokens"]
    return cookie, next(one["id"] for one in found if one["kind"] == "session")


def refusal(door: Served, **headers: str) -> int:
    """The status that refuses the live feed."""
    with pytest.raises(InvalidStatus) as refused, listening(door, **headers):
        pass
    return refused.value.response.status_code


def test_the_live_feed_is_for_tokens_and_for_the_daemons_own_pages() -> None:
    with served() as door:
        bearer = f"Bearer {door.tokens['read']}"
        with listening(door, Authorization=bearer):
            pass
        cookie, _ = signed_in(door)
        with listening(door, Cookie=cookie, Origin=door.url):
            pass
        assert refusal(door) == 401
        assert refusal(door, Authorization=f"{bearer}x") == 401
        assert refusal(door, Cookie=cookie) == 401  # nobody says which page it comes from
        for foreign in ("http://attacker.example", "http://127.0.0.1:1", "null"):
            assert refusal(door, Cookie=cookie, Origin=foreign) == 403
            assert refusal(door, Authorization=bearer, Origin=foreign) == 403


def test_the_live_feed_ends_when_what_opened_it_is_revoked_and_goes_on_for_the_others() -> None:
    with served() as door:
        made = door.ask("POST", "/api/tokens", token="admin", body={"scope": "read"}).value
        cookie, session = signed_in(door)
        with (
            listening(door, Authorization=f"Bearer {made['token']}") as by_token,
            listening(door, Cookie=cookie, Origin=door.url) as by_cookie,
            listening(door, Authorization=f"Bearer {door.tokens['read']}") as another,
        ):
            for id_, live in ((made["id"], by_token), (session, by_cookie)):
                assert door.ask("DELETE", f"/api/tokens/{id_}", token="admin").status == 200
                assert goodbye(live) == (1008, "The token has expired or was revoked.")
            another.send('{"subscribe": []}')
            said = {json.loads(another.recv(SECONDS))["type"]}
            while "ws:subscribed" not in said:
                said.add(json.loads(another.recv(SECONDS))["type"])


def tool(door: Served, held: str, name: str, **arguments: Any) -> Any:
    """What a tool answers to the token of that scope."""
    headers = {"MCP-Protocol-Version": "2025-11-25", "Accept": "application/json, text/event-stream"}
    answer = door.ask("POST", "/mcp", token=held, body=call(name, arguments), headers=headers)
    assert answer.status == 200, answer
    return answer.value["result"]


def test_who_may_only_read_can_search_with_the_tools_and_change_nothing() -> None:
    with served() as door:
        headers = {"MCP-Protocol-Version": "2025-11-25", "Accept": "application/json, text/event-stream"}
        listed = door.ask("POST", "/mcp", token="read", body=request("tools/list"), headers=headers)
        assert len(listed.value["result"]["tools"]) == len(TOOLS)
        assert not tool(door, "write", "memory_add", text="The ferry leaves at nine.")["isError"]
        [fact] = door.ask("GET", "/api/memory/facts", token="read").value
        assert not tool(door, "read", "memory_search", query="ferry")["isError"]
        assert not tool(door, "read", "memory_get", id=fact["id"])["isError"]
        assert not tool(door, "read", "memory_context", prompt="When does the ferry leave?")["isError"]
        writing: dict[str, dict[str, Any]] = {
            "memory_add": {"text": "The ferry leaves at ten."},
            "memory_update": {"id": fact["id"], "text": "The ferry leaves at ten."},
            "memory_forget": {"topic": "ferry"},
            "memory_team": {"propose": [fact["id"]]},
        }
        assert writing.keys() == {one["name"] for one in TOOLS if not one["annotations"]["readOnlyHint"]}
        for name, arguments in writing.items():
            refused = tool(door, "read", name, **arguments)
            assert refused["isError"], name
            assert "scope write" in refused["content"][0]["text"]
        [kept] = door.ask("GET", "/api/memory/facts", token="read").value
        assert (kept["id"], kept["text"], kept["state"]) == (fact["id"], fact["text"], "live")
