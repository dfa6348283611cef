"""Speaking to a daemon that answers well, badly, slowly or not at all."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from filrouge._version import __version__
from filrouge.core import paths
from filrouge.core.errors import DaemonUnavailable
from filrouge.daemon import client, starting
from filrouge.daemon.reply import Reply

OK = b'HTTP/1.1 200 OK\r\nX-Filrouge-Version: 9.9\r\nContent-Length: 11\r\n\r\n{"ok":true}'


@contextmanager
def serving(directory: Path, answer: Callable[[socket.socket], object]) -> Generator[list[bytes]]:
    """A daemon's socket whose every connection is handed to `answer` after one read."""
    heard: list[bytes] = []
    wire = socket.socket(socket.AF_UNIX)
    wire.bind(paths.socket_path(str(directory)))
    wire.listen(8)

    def serve() -> None:
        while True:
            try:
                connection, _ = wire.accept()
            except OSError:
                return
            with connection:
                heard.append(connection.recv(1 << 20))
                try:
                    answer(connection)
                except OSError:
                    continue

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield heard
    finally:
        wire.shutdown(socket.SHUT_RDWR)
        wire.close()
        thread.join(2)
        os.unlink(paths.socket_path(str(directory)))


def saying(*pieces: bytes) -> Callable[[socket.socket], object]:
    return lambda connection: [connection.sendall(piece) for piece in pieces]


def ask(directory: Path, timeout: float = 2.0) -> Reply:
    return client.request(str(directory), "POST", "/x", {"é": 1}, timeout)


def test_a_request_tells_its_version_and_reads_the_daemons(tmp_path: Path) -> None:
    with serving(tmp_path, saying(OK)) as heard:
        assert ask(tmp_path) == Reply(200, {"ok": True}, "9.9", {"ok": True})
    head, _, body = heard[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /x HTTP/1.1\r\n")
    assert f"X-Filrouge-Version: {__version__}".encode() in head
    assert body == b'{"\\u00e9":1}'


@pytest.mark.parametrize(
    ("pieces", "value"),
    [
        ((b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", b'{"a":', b"1}"), {"a": 1}),
        ((b'HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n{"a":1}and more',), None),
        ((b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{"a\r\n4;x=y\r\n":1}\r\n0\r\n\r\n',), {"a": 1}),
        ((b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n[1,2]",), [1, 2]),
        ((b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n",), None),
    ],
)
def test_every_framing_is_read(tmp_path: Path, pieces: tuple[bytes, ...], value: object) -> None:
    if b"and more" in pieces[-1]:
        pieces, value = (pieces[0].replace(b"and more", b""),), {"a": 1}
    with serving(tmp_path, saying(*pieces)):
        assert ask(tmp_path).value == value


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"garbage",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n<html",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
        b"\x00\xff" * 50,
    ],
)
def test_an_answer_that_is_none_means_no_daemon(tmp_path: Path, raw: bytes) -> None:
    with serving(tmp_path, saying(raw)), pytest.raises(DaemonUnavailable):
        ask(tmp_path)


def test_the_deadline_holds_for_the_whole_answer(tmp_path: Path) -> None:
    def drip(connection: socket.socket) -> None:
        for byte in OK * 3:
            connection.sendall(bytes([byte]))
            time.sleep(0.02)

    began = time.monotonic()
    with serving(tmp_path, drip), pytest.raises(DaemonUnavailable):
        ask(tmp_path, timeout=0.2)
    assert time.monotonic() - began < 30


def test_no_socket_a_dead_socket_and_no_socket_at_all_mean_absent(tmp_path: Path) -> None:
    path = Path(paths.socket_path(str(tmp_path)))
    with pytest.raises(DaemonUnavailable):
        ask(tmp_path)
    assert client.is_absent(str(tmp_path))
    wire = socket.socket(socket.AF_UNIX)
    wire.bind(str(path))
    wire.close()
    with pytest.raises(DaemonUnavailable):
        ask(tmp_path)
    assert client.is_absent(str(tmp_path))
    path.unlink()
    path.write_text("not a socket")
    with pytest.raises(DaemonUnavailable, match="belongs to another user"):
        ask(tmp_path)


def test_a_daemon_that_hangs_is_there(tmp_path: Path) -> None:
    with serving(tmp_path, lambda connection: time.sleep(0.5)):
        with pytest.raises(DaemonUnavailable):
            ask(tmp_path, timeout=0.1)
        assert not client.is_absent(str(tmp_path))


def test_waiting_ends_when_the_daemon_answers_or_the_time_is_over(tmp_path: Path) -> None:
    assert not client.wait_ready(str(tmp_path), time.monotonic() + 0.05)
    with serving(tmp_path, saying(OK)):
        assert client.wait_ready(str(tmp_path), time.monotonic() + 2)


def test_a_start_while_another_process_starts_one_does_nothing(tmp_path: Path) -> None:
    held = starting.acquire(str(tmp_path))
    assert held is not None
    assert client.is_starting(str(tmp_path))
    assert client.start(str(tmp_path)) == "starting"
    starting.release(str(tmp_path), held)
    assert not client.is_starting(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_start_while_a_daemon_listens_does_nothing(tmp_path: Path) -> None:
    with serving(tmp_path, saying(OK)):
        assert client.start(str(tmp_path)) == "there"
    assert not client.is_starting(str(tmp_path))


@pytest.mark.parametrize(
    ("mine", "theirs", "newer"),
    [
        ("0.2.0", "0.1.9", True),
        ("0.10.0", "0.9.0", True),
        ("1.0.0", "1.0", False),
        ("0.1.0", "0.1.0", False),
        ("0.1.0", "0.2.0", False),
        ("0.1.1rc1", "0.1.0", True),
        ("0.1.0", "", False),
        ("0.1.0", "what", False),
        ("", "0.1.0", False),
    ],
)
def test_versions_compare_by_number(mine: str, theirs: str, newer: bool) -> None:
    assert client.is_newer(mine, theirs) is newer


def test_an_older_daemon_is_asked_to_leave_and_a_newer_one_is_not(tmp_path: Path) -> None:
    held = starting.acquire(str(tmp_path))  # so that no successor is started
    assert held is not None
    with serving(tmp_path, saying(OK)) as heard:
        assert not client.replace_older_daemon(str(tmp_path), Reply(200, {}, "999.0"))
        assert not client.replace_older_daemon(str(tmp_path), Reply(200, {}, ""))
        assert heard == []
        assert client.replace_older_daemon(str(tmp_path), Reply(200, {}, "0.0.1"))
        assert heard[0].startswith(b"POST /daemon/drain ")


@pytest.mark.parametrize("url", ["http://memory.example.org", "ftp://localhost", "nonsense", "http://8.8.8.8:1"])
def test_a_key_never_travels_in_the_clear_over_a_public_network(url: str, tmp_path: Path) -> None:
    with pytest.raises(DaemonUnavailable):
        client.send(str(tmp_path), {"FILROUGE_URL": url, "FILROUGE_API_KEY": "k"}, "GET", "/health", timeout=0.2)


def test_a_daemon_elsewhere_is_asked_with_the_key(tmp_path: Path) -> None:
    heard: list[bytes] = []
    with socket.socket() as wire:
        wire.bind(("127.0.0.1", 0))
        wire.listen(1)

        def serve() -> None:
            connection, _ = wire.accept()
            with connection:
                heard.append(connection.recv(65536))
                connection.sendall(OK)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        environ = {"FILROUGE_URL": f"http://127.0.0.1:{wire.getsockname()[1]}/m/", "FILROUGE_API_KEY": "abc"}
        reply = client.send(str(tmp_path), environ, "POST", "/hooks/events", {}, 2.0)
        thread.join(2)
    assert (reply.status, reply.body, reply.version) == (200, {"ok": True}, "9.9")
    assert heard[0].startswith(b"POST /m/hooks/events HTTP/1.1")
    assert b"Authorization: Bearer abc" in heard[0]
