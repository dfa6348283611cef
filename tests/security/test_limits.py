"""Over TCP there is a limit to everything, and who goes beyond it hurts nobody else; the socket has none."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from filrouge.daemon import client

from .wire import Served, served, status_in

SECONDS = 1.0


@pytest.fixture(scope="module")
def narrow() -> Iterator[Served]:
    """A daemon with small limits."""
    with served(
        FILROUGE_LIMIT_BODY_MB="1",
        FILROUGE_LIMIT_REQUESTS="20",
        FILROUGE_LIMIT_CONNECTIONS="8",
        FILROUGE_LIMIT_SECONDS=str(SECONDS),
    ) as found:
        yield found


def head(door: Served, path: str, *lines: str, method: str = "POST", token: str = "write") -> bytes:
    """The head of a request; the last line is still to come."""
    first = f"{method} {path} HTTP/1.1"
    all_ = (first, f"Host: {door.host}", f"Authorization: Bearer {door.tokens[token]}", *lines)
    return "".join(f"{line}\r\n" for line in all_).encode()


def is_served(door: Served) -> bool:
    return door.ask("GET", "/health").status == 200 and inside(door)


def inside(door: Served) -> bool:
    return client.request(door.home, "GET", "/health").status == 200


def eventually_served(door: Served) -> bool:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if door.raw(f"GET /health HTTP/1.1\r\nHost: {door.host}\r\n\r\n".encode()) == 200:
            return True
        time.sleep(0.05)
    return False


def test_a_body_that_says_it_is_too_large_is_refused_before_it_comes(narrow: Served) -> None:
    with narrow.connect() as wire:
        wire.sendall(head(narrow, "/memory/supersede", "Content-Length: 1000001") + b"\r\n")
        assert status_in(wire) == 413
    assert is_served(narrow)


@pytest.mark.parametrize("path", ["/memory/supersede", "/api/memory/memories", "/nothing"])
def test_a_body_that_does_not_say_its_length_is_refused_as_it_grows(narrow: Served, path: str) -> None:
    with narrow.connect() as wire:
        wire.sendall(head(narrow, path, "Transfer-Encoding: chunked", "Content-Type: application/json") + b"\r\n")
        piece = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
        try:
            for _ in range(20):
                wire.sendall(piece)
            wire.sendall(b"0\r\n\r\n")
        except ConnectionError:
            pass  # it was answered before
        assert status_in(wire) == (413 if path != "/nothing" else 404)
    assert is_served(narrow)


def test_a_body_below_the_limit_is_taken(narrow: Served) -> None:
    body = b'{"text": "' + b" " * 990_000 + b'"}'
    assert narrow.ask("POST", "/api/memory/memories", token="write", body=body).status not in (401, 403, 413)


def test_the_socket_takes_what_tcp_refuses(narrow: Served) -> None:
    body = {"text": "x", "project": [" " * 1_500_000]}
    assert client.request(narrow.home, "POST", "/memory/supersede", body, 20).status == 400


def test_a_token_that_asks_too_often_is_told_when_to_come_again_and_others_are_served(narrow: Served) -> None:
    found = [narrow.ask("GET", "/nothing", token="read") for _ in range(200)]
    refused = [answer for answer in found if answer.status == 429]
    assert {answer.status for answer in found} == {404, 429}
    assert {answer.headers["retry-after"] for answer in refused} == {"1"}
    assert narrow.ask("GET", "/nothing", token="write").status == 404
    assert client.request(narrow.home, "GET", "/nothing").status == 404


def test_more_requests_at_once_than_there_may_be_are_turned_away_and_the_socket_serves_on(narrow: Served) -> None:
    with ExitStack() as held:
        for _ in range(8):
            wire = held.enter_context(narrow.connect())
            wire.sendall(head(narrow, "/memory/supersede", "Content-Length: 1000") + b"\r\n{")
        deadline = time.monotonic() + SECONDS / 2  # until all of them have arrived
        while narrow.raw(f"GET /health HTTP/1.1\r\nHost: {narrow.host}\r\n\r\n".encode()) == 200:
            assert time.monotonic() < deadline
        assert narrow.raw(f"GET /health HTTP/1.1\r\nHost: {narrow.host}\r\n\r\n".encode()) in (0, 503)
        assert inside(narrow)
    assert eventually_served(narrow)


@pytest.mark.parametrize("begun", [b"", b"GET /health HTTP/1.1\r\nX-Slow: "], ids=["silent", "half a head"])
def test_idle_connections_keep_nobody_out(narrow: Served, begun: bytes) -> None:
    ask = f"GET /health HTTP/1.1\r\nHost: {narrow.host}\r\nConnection: close\r\n\r\n".encode()
    with ExitStack() as held:
        answers = list[int]()
        for _ in range(40):  # five times as many as there may be
            held.enter_context(narrow.connect()).sendall(begun)
            answers.append(narrow.raw(ask))
        assert set(answers) == {200}


@pytest.mark.parametrize("part", ["nothing", "half a head", "a head that drips", "half a body", "a body that drips"])
def test_a_request_that_does_not_arrive_is_given_up_and_others_are_served_meanwhile(narrow: Served, part: str) -> None:
    whole = head(narrow, "/memory/supersede", "Content-Length: 1000")
    begun = {
        "nothing": b"",
        "half a head": whole,
        "a head that drips": whole,
        "half a body": whole + b"\r\n{",
        "a body that drips": whole + b"\r\n{",
    }[part]
    with narrow.connect() as wire:
        wire.sendall(begun)
        wire.settimeout(0.1)
        ended, deadline = False, time.monotonic() + 60
        while not ended and time.monotonic() < deadline:
            try:
                if "drips" in part:
                    wire.sendall(b"X-A: b\r\n" if "head" in part else b" ")
                ended = wire.recv(1024) == b""
            except TimeoutError:
                pass
            except ConnectionError:
                ended = True
            assert is_served(narrow)
        assert ended
