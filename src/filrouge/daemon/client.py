"""Client for the daemon of a home, and starting that daemon.

Requests are HTTP/1.1 over the home's unix socket, written on a bare socket, because importing `http.client` costs a
hook 19 ms. One deadline covers the whole exchange, so a daemon that sends slowly cannot block a hook. A socket of
another user is rejected. With `FILROUGE_URL` the daemon is elsewhere; `daemon.remote` is imported only then.

Any client that finds no daemon starts one, detached from the agent's session. If several try at once, the start lock
(`daemon.starting`) elects one of them and the others wait.
"""

from __future__ import annotations

import _socket
import importlib
import json
import os
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import closing, suppress
from typing import Any, Final, Literal, TypedDict, Unpack

from filrouge._version import __version__
from filrouge.core.errors import DaemonUnavailable
from filrouge.core.paths import FAILURE, is_own_socket, make_private, socket_path
from filrouge.daemon import starting
from filrouge.daemon.handover import headers_of
from filrouge.daemon.reply import MAX_ANSWER_BYTES, VERSION_HEADER, Reply, is_newer, parse_reply
from filrouge.daemon.starting import spawn

URL: Final = "FILROUGE_URL"
API_KEY: Final = "FILROUGE_API_KEY"
#: After a failed start, no client tries again for this many seconds, unless the failure file is removed.
START_PAUSE: Final = 2.0
#: Argument for a daemon that a client starts: it inherits the start lock, and exits if another daemon is listening.
STARTED_BY_CLIENT: Final = "--sent-for"
#: Argument for a daemon that replaces an older one: it waits for that one to exit.
SUCCESSOR: Final = "--successor"


class RequestOptions(TypedDict, total=False):
    """What only a few requests need."""

    headers: Mapping[str, str]
    """Additional headers, in ASCII."""
    on_answer: Callable[[], float]
    """Called when the first bytes of the answer arrive; returns the seconds to wait for the rest."""


def request(
    directory: str,
    method: str,
    path: str,
    body: dict[str, Any] | None = None,
    timeout: float = 5.0,
    **options: Unpack[RequestOptions],
) -> Reply:
    """Send a request to the home's daemon and wait for the answer, at most `timeout` seconds in total.

    Args:
        directory: the home.
        method: the HTTP method.
        path: the path of the route.
        body: sent as JSON.
        timeout: seconds.
        options: as `RequestOptions` describes.

    Raises:
        DaemonUnavailable: no daemon listens, the time is over, or the answer is not from our daemon.
    """
    deadline = time.monotonic() + timeout
    address = verified_socket(directory)
    try:
        with closing(_socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)) as connection:
            _set_timeout(connection, deadline)
            connection.connect(address)
            _set_timeout(connection, deadline)
            header_lines = "".join(f"{name}: {value}\r\n" for name, value in options.get("headers", {}).items())
            connection.sendall(encode_request(method, path, body, headers=header_lines))
            return parse_answer(_read_answer(connection, deadline, options.get("on_answer")))
    except (OSError, ValueError) as error:
        raise DaemonUnavailable from error


def send(
    directory: str,
    environ: Mapping[str, str],
    method: str,
    path: str,
    body: dict[str, Any] | None = None,
    timeout: float = 5.0,
    **options: Unpack[RequestOptions],
) -> Reply:
    """Send a request, as `request` does, to the daemon of the environment: the one at `FILROUGE_URL`, else the home's.

    Raises:
        DaemonUnavailable: as `request` does.
    """
    url = environ.get(URL, "").strip()
    if not url:
        return request(directory, method, path, body, timeout, **options)
    remote = importlib.import_module("filrouge.daemon.remote")
    return remote.request(url, environ.get(API_KEY, "").strip(), method, path, body, timeout, **options)


def streamed(directory: str, environ: Mapping[str, str], path: str, *, timeout: float = 60.0) -> Generator[bytes]:
    """Yield the answer to a GET request in pieces; `timeout` applies to each of them.

    The command must have reached the daemon through `send` before, which checks the socket's owner.

    Raises:
        DaemonUnavailable: the daemon does not answer, or the connection breaks.
        FilrougeError: the daemon refuses the request, with its reason.
    """
    remote = importlib.import_module("filrouge.daemon.remote")
    return remote.streamed(directory, environ.get(URL, "").strip(), environ.get(API_KEY, "").strip(), path, timeout)


def is_remote(environ: Mapping[str, str]) -> bool:
    """Return True if `FILROUGE_URL` names a daemon, so that none is started here."""
    return bool(environ.get(URL, "").strip())


def is_absent(directory: str) -> bool:
    """Return True if no daemon listens; a daemon that hangs counts as present."""
    try:
        with closing(_socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)) as connection:
            connection.settimeout(0.05)
            connection.connect(socket_path(directory))
    except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def start(directory: str, *arguments: str) -> Literal["started", "starting", "there"]:
    """Start a detached daemon for that home, unless one is running or starting.

    Args:
        directory: the home.
        arguments: arguments for the daemon; the default is `STARTED_BY_CLIENT`.

    Returns:
        `started`: this call started it. `starting`: another process started one that does not listen yet, or the last
            start failed less than `START_PAUSE` seconds ago. `there`: a daemon listens.

    Raises:
        OSError: the home cannot be written, or no process can be created.
    """
    make_private(directory)
    if _has_failed_just_now(directory):
        return "starting"
    lock = starting.acquire(directory)
    if lock is None:
        return "starting"
    lock = starting.move_descriptor(lock)
    if SUCCESSOR not in arguments and not is_absent(directory):
        starting.release(directory, lock)
        return "there"
    spawned = False
    try:
        spawn(directory, lock, arguments or (STARTED_BY_CLIENT,))
        spawned = True
    finally:
        if not spawned:
            starting.release(directory, lock)
    os.close(lock)  # the new process holds it
    return "started"


def is_starting(directory: str) -> bool:
    """Return True while a daemon of that home is starting: alive, and not listening yet."""
    return starting.is_held(directory)


def wait_ready(directory: str, deadline: float) -> bool:
    """Return True once the daemon answers `/health`, False if it does not before `deadline` (monotonic)."""
    while (seconds_left := deadline - time.monotonic()) > 0:
        try:
            return request(directory, "GET", "/health", timeout=seconds_left).status == 200
        except DaemonUnavailable:
            time.sleep(min(0.01, max(0.0, deadline - time.monotonic())))
    return False


def replace_older_daemon(directory: str, reply: Reply, timeout: float = 0.1) -> bool:
    """If an older daemon answered, ask it to drain and exit, and start this version's; return True if so.

    A newer daemon can serve an older client and stays.
    """
    if not is_newer(__version__, reply.version):
        return False
    with suppress(DaemonUnavailable):
        request(directory, "POST", "/daemon/drain", {}, timeout)
    start(directory, SUCCESSOR)
    return True


def verified_socket(directory: str) -> str:
    """Return the path of that home's socket after checking its owner.

    Raises:
        DaemonUnavailable: there is none, or it belongs to another user.
    """
    path = socket_path(directory)
    if not os.path.lexists(path):
        raise DaemonUnavailable
    if not is_own_socket(path):
        raise DaemonUnavailable("The daemon's socket belongs to another user.")
    return path


def _set_timeout(connection: _socket.socket, deadline: float) -> None:
    seconds_left = deadline - time.monotonic()
    if seconds_left <= 0:
        raise TimeoutError
    connection.settimeout(seconds_left)


def encode_request(
    method: str, path: str, body: Mapping[str, Any] | None, *, host: str = "filrouge", headers: str = ""
) -> bytes:
    """Return the bytes of a request; `headers` are further header lines, each with its line end."""
    content = b"" if body is None else json.dumps(body, separators=(",", ":")).encode("ascii")
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n"
        f"X-Filrouge-Version: {__version__}\r\nAccept: application/json\r\n{headers}"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return head.encode("ascii") + content


def answer_length(raw: bytes | bytearray) -> int:
    """Return the total length of an answer from its beginning, or -1 if it is unknown so far.

    Raises:
        ValueError: the answer is larger than any of ours.
    """
    if len(raw) > MAX_ANSWER_BYTES:
        raise ValueError("the answer is too long")
    end = raw.find(b"\r\n\r\n")
    length = headers_of(bytes(raw[:end])).get("content-length") if end >= 0 else None
    return end + 4 + int(length) if length is not None else -1


def _read_answer(connection: _socket.socket, deadline: float, on_answer: Callable[[], float] | None = None) -> bytes:
    """Read the whole answer: up to its content length, else to the end of the stream."""
    raw = bytearray()
    length = -1
    while length < 0 or len(raw) < length:
        _set_timeout(connection, deadline)
        chunk = connection.recv(65536)
        if not chunk:
            break
        if on_answer and not raw:
            deadline = time.monotonic() + on_answer()
        raw += chunk
        length = answer_length(raw) if length < 0 or len(raw) > MAX_ANSWER_BYTES else length
    if len(raw) < length:
        raise ValueError("the answer is incomplete")
    return bytes(raw)


def parse_answer(raw: bytes) -> Reply:
    """Parse the bytes of an answer.

    Raises:
        ValueError: it is not a complete HTTP answer.
        DaemonUnavailable: the answer is not from our daemon.
    """
    head, separator, content = raw.partition(b"\r\n\r\n")
    status_line = head.split(b"\r\n", 1)[0].split()
    if not separator or len(status_line) < 2 or not status_line[0].startswith(b"HTTP/1."):
        raise ValueError("not an HTTP answer")
    headers = headers_of(head)
    if headers.get("transfer-encoding", "").lower() == "chunked":
        content = _decode_chunks(content)
    return parse_reply(int(status_line[1]), headers.get(VERSION_HEADER, ""), content)


def _decode_chunks(content: bytes) -> bytes:
    decoded = bytearray()
    while True:
        size, found, content = content.partition(b"\r\n")
        length = int(size.split(b";")[0], 16) if found else -1
        if length < 0 or len(content) < length:
            raise ValueError("the answer is incomplete")
        if length == 0:
            return bytes(decoded)
        decoded += content[:length]
        content = content[length + 2 :]


def _has_failed_just_now(directory: str) -> bool:
    try:
        return 0 <= time.time() - os.lstat(os.path.join(directory, FAILURE)).st_mtime < START_PAUSE
    except OSError:
        return False
