"""The client of a hub: every verb against a hub that is served, and what it says of servers that are none."""

from __future__ import annotations

import json
import os
import socketserver
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, cast

import pytest

from filrouge.core.errors import BadInput, Busy, FilrougeError, Forbidden, HubUnavailable, NotFound, Unauthorized
from filrouge.hub.client import HubClient
from filrouge.hub.models import Device, Receipt, Scope
from tests.support.postgres import Hub

from .shared import team, ulid, version

CANARY = "The vault opens with Kingfisher-7731."


def test_what_one_member_pushes_another_reads_page_by_page(hub: Hub, url: str) -> None:
    ana, ben = (HubClient(url, secret) for secret in team(hub, "Ana", "Ben"))
    first, second = version(), version("Prices are in cents.")
    assert [answer.outcome for answer in ana.push([first, second, first])] == ["accepted", "accepted", "duplicate"]
    laptop = Device(device=ulid(), name="laptop of Ben")
    ben.join(laptop)
    page = ben.changes(after="", limit=1, device=laptop.device)
    assert ([change.content for change in page.changes], page.complete) == ([first], False)
    rest = ben.changes(after=page.cursor, device=laptop.device)
    assert ([change.content for change in rest.changes], rest.complete) == ([second], True)
    assert ben.changes(after=rest.cursor).changes == ()


def test_the_projects_are_those_that_the_team_has_live_memories_of(hub: Hub, url: str) -> None:
    ana, ben = (HubClient(url, secret) for secret in team(hub, "Ana", "Ben"))
    [other] = (HubClient(url, secret) for secret in team(hub, "Cid"))
    ended = version(project="github.com/acme/old")
    forgotten = version(project="github.com/acme/secret")
    ana.push([version(project="github.com/acme/shop"), version(project="github.com/acme/blog"), ended, forgotten])
    ana.push([ended.model_copy(update={"version": 2, "state": "ended"})])
    ana.forget([forgotten.memory])
    assert ben.projects() == ["github.com/acme/blog", "github.com/acme/shop"]
    assert other.projects() == []


def test_a_conflict_is_seen_and_settled_once(hub: Hub, url: str) -> None:
    ana, ben = (HubClient(url, secret) for secret in team(hub, "Ana", "Ben"))
    known = version()
    ana.push([known, version("It is port 7412.", supersedes=known.memory)])
    ben.push([version("It is port 7500.", supersedes=known.memory)])
    [conflict] = ana.conflicts()
    settled = ana.settle(conflict.conflict, "second")
    assert (settled.conflict, settled.keep) == (conflict.conflict, "second")
    with pytest.raises(Busy, match="settled already"):
        ana.settle(conflict.conflict, "first")
    assert ana.conflicts() == ()
    with pytest.raises(NotFound, match="no conflict"):
        ana.settle(ulid(), "first")


def test_a_forgetting_is_confirmed_by_the_device_that_applied_it(hub: Hub, url: str) -> None:
    ana, ben = (HubClient(url, secret) for secret in team(hub, "Ana", "Ben"))
    laptop, known = Device(device=ulid(), name="laptop of Ben"), version()
    ben.join(laptop)
    ana.push([known])
    assert ana.forget([known.memory]) == {known.memory: 1}
    [waiting] = ana.status()["unconfirmed"]
    assert (waiting["name"], waiting["member"], waiting["memories"]) == ("laptop of Ben", "Ben", 1)
    ben.confirm(laptop.device, [Receipt(memory=known.memory, left_over=0)])
    told = ana.status()
    assert (told["unconfirmed"], told["forgotten"], told["memories"]) == ([], 1, 0)


def test_an_admin_invites_removes_and_revokes(hub: Hub, url: str) -> None:
    ana = HubClient(url, team(hub, "Ana")[0])
    made = ana.invite("Ben", scopes=["read"], days=7)
    ben = HubClient(url, made.secret)
    assert (made.name, made.scopes, ben.status()["member"]) == ("Ben", ("read",), "Ben")
    with pytest.raises(Forbidden, match="the scope share"):
        ben.push([version()])
    ana.revoke(made.token)
    with pytest.raises(Unauthorized, match="revoked"):
        ben.status()
    again = ana.invite("Ben")
    assert again.scopes == ("read", "share", "forget")
    ana.remove("Ben")
    assert [(one["name"], one["removed_at"] is None) for one in ana.members()] == [("Ana", True), ("Ben", False)]


INVALID: tuple[tuple[Callable[[HubClient], object], str], ...] = (
    (lambda hub: hub.push([]), "versions: .* at least 1 item"),
    (lambda hub: hub.push([version(CANARY)] * 501), "versions: .* at most 500 items"),
    (lambda hub: hub.invite("Ben", scopes=[cast("Scope", "write")]), "scopes.0: .*'admin'"),
    (lambda hub: hub.changes(after="yesterday"), "cursor"),
    (lambda hub: hub.settle("a/b", "first"), "not an id"),
    (lambda hub: hub.revoke(CANARY), "not an id"),
)


@pytest.mark.parametrize(("ask", "said"), INVALID)
def test_an_invalid_value_is_named_and_not_quoted(
    hub: Hub, url: str, ask: Callable[[HubClient], object], said: str
) -> None:
    with pytest.raises(BadInput, match=said) as refused:
        ask(HubClient(url, team(hub, "Ana")[0]))
    assert CANARY not in str(refused.value) + refused.value.remedy
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


@pytest.mark.parametrize(
    "url", ["hub.example.com", "ftp://hub.example.com", "https://ana:pw@hub.example.com", "http://"]
)
def test_an_address_that_is_none_is_refused_before_anything_is_sent(url: str) -> None:
    with pytest.raises(BadInput, match="The hub's address is not a valid address"):
        HubClient(url, "frh_x")


@pytest.mark.parametrize("token", ["", "frh_ü", "frh_x\nX-Evil: 1"])
def test_a_token_that_is_none_is_refused_before_anything_is_sent(token: str) -> None:
    with pytest.raises(BadInput, match="not a token"):
        HubClient("http://127.0.0.1:1", token)


def test_a_token_is_not_sent_over_plain_http_to_a_public_host() -> None:
    with pytest.raises(HubUnavailable, match=r"http://hub.example.com is not safe for a key") as refused:
        HubClient("http://hub.example.com", "frh_x").status()
    assert "the hub's address" in refused.value.remedy


def test_a_hub_that_does_not_answer_is_named() -> None:
    with pytest.raises(HubUnavailable, match=r"^The Filrouge hub at http://127.0.0.1:1 does not answer.$") as refused:
        HubClient("http://127.0.0.1:1", "frh_x").conflicts()
    assert refused.value.remedy == "Check the address, and that the hub runs."


ASKED: tuple[Callable[[HubClient], object], ...] = (
    lambda hub: hub.push([version()]),
    lambda hub: hub.changes(after=""),
    lambda hub: hub.conflicts(),
    lambda hub: hub.settle(ulid(), "both"),
    lambda hub: hub.forget([ulid()]),
    lambda hub: hub.confirm(ulid(), [Receipt(memory=ulid(), left_over=0)]),
    lambda hub: hub.join(Device(device=ulid(), name="laptop")),
    lambda hub: hub.status(),
    lambda hub: hub.members(),
    lambda hub: hub.projects(),
    lambda hub: hub.invite("Ben"),
    lambda hub: hub.remove("Ben"),
    lambda hub: hub.revoke(ulid()),
)


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (200, {"status": "ok"}),
        (200, "hello"),
        (200, [{"status": "ok"}]),
        (200, b"<html>Please log in</html>"),
        (204, b""),
        (302, b""),
        (404, {"detail": "Not Found"}),
        (502, b"<html>Bad gateway</html>"),
        (500, {"type": "about:blank", "detail": "oops"}),
    ],
)
def test_another_server_at_the_address_is_told_from_a_hub_by_every_verb(status: int, answer: Any) -> None:
    raw = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    with foreign(status, raw) as url:
        for ask in ASKED:
            with pytest.raises(HubUnavailable, match=f"not a Filrouge hub \\(status {status}\\)"):
                ask(HubClient(url, "frh_x"))


def test_an_answer_with_what_a_newer_hub_adds_is_read() -> None:
    conflict = {
        "conflict": ulid(),
        "memory": ulid(),
        "first": ulid(),
        "second": ulid(),
        "opened_at": "2026-11-01T00:00Z",
    }
    with foreign(200, json.dumps([conflict | {"severity": "high"}]).encode()) as url:
        assert [one.first for one in HubClient(url, "frh_x").conflicts()] == [conflict["first"]]


def test_answers_that_are_not_those_of_the_pushed_versions_are_not_believed() -> None:
    other = {"answers": [{"memory": ulid(), "version": 1, "outcome": "accepted"}]}
    with foreign(200, json.dumps(other).encode()) as url, pytest.raises(HubUnavailable, match="each version"):
        HubClient(url, "frh_x").push([version()])


def test_a_problem_of_the_hub_keeps_its_class_its_message_and_its_remedy() -> None:
    problem = {"type": "urn:filrouge:error:HubUnavailable", "detail": "PostgreSQL does not answer.", "remedy": "Wait."}
    with foreign(503, json.dumps(problem).encode()) as url, pytest.raises(FilrougeError) as refused:
        HubClient(url, "frh_x").status()
    assert (type(refused.value), refused.value.message, refused.value.remedy) == (
        HubUnavailable, "PostgreSQL does not answer.", "Wait.",
    )  # fmt: skip


@pytest.mark.parametrize("begin", [b"", b"HTTP/1.1 200 OK\r\n\r\n"], ids=["head", "body"])
def test_a_server_that_answers_byte_by_byte_does_not_outlast_the_timeout(begin: bytes) -> None:
    class Slow(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            self.request.sendall(begin)
            try:
                for _ in range(100):
                    self.request.sendall(b"H")
                    time.sleep(0.05)
            except OSError:
                pass

    with serving(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Slow)) as url:
        started = time.monotonic()
        with pytest.raises(HubUnavailable, match="does not answer"):
            HubClient(url, "frh_x", timeout=0.4).status()
        assert time.monotonic() - started < 2.0


def test_a_client_needs_no_package_of_an_extra() -> None:
    script = (
        "import sys\n"
        "for name in ('psycopg', 'psycopg_pool', 'pgvector', 'httpx', 'httpx2'): sys.modules[name] = None\n"
        "from filrouge.cli.main import main\n"
        "sys.argv = ['filrouge', 'hub', 'status', '--url', 'http://127.0.0.1:1', '--token', 'frh_x']\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    assert "The Filrouge hub at http://127.0.0.1:1 does not answer." in done.stderr


@contextmanager
def foreign(status: int, answer: bytes) -> Generator[str]:
    """A server that answers every request like this."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", "0")))
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST = do_DELETE = answer  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as url:
        yield url


@contextmanager
def serving(server: socketserver.TCPServer) -> Generator[str]:
    with server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
