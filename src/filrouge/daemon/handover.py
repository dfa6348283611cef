"""The short way of a hook: hand its input to the daemon as it came, and print what comes back.

To read an event and take its secrets out, a hook has to load patterns, parsers and half of the standard library: twice
the processor time of the bare interpreter, at every tool call of an agent. The daemon has all of that in memory. So a
hook that finds this user's daemon gives it the bytes of stdin over the unix socket, and the daemon does the rest
(`server.live`) before it stores anything. Everything else goes the long way (`cli.hook`), in which the hook itself
takes out the secrets before it sends or writes anything: no daemon, one elsewhere, in another container or of another
version, a large input, a slow start, an answer that is late or broken.

Both ways give the events of one input the same ids, so a daemon that stored them before the hook gave up on it
recognises them in the spool.

Each module of the standard library costs 1 to 10 ms here, `typing` 7. A test lists those that may be loaded.
"""

from __future__ import annotations

import _socket
import os
import select
import time

from filrouge._version import __version__
from filrouge.core import paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Final

    from filrouge.capture.inbox import Reason

#: The routes for an input and for the confirmation of what was printed, and the header of an answer with the seconds to
#: wait for the rest once it began.
PATH: Final = "/hooks/input"
DELIVERED_PATH: Final = "/hooks/delivered"
WAIT_HEADER: Final = "x-filrouge-wait"
#: Ends the body of an answer that began before the daemon failed; the hook then goes the long way.
FAILED: Final = b"!"
#: A longer input is cut by the hook itself.
MAX_BYTES: Final = 128 * 1024
#: The variables of a hook's environment that are handed over: all that reading an input looks at.
VARIABLES: Final = (
    "CLAUDECODE",
    "CLAUDE_PROJECT_DIR",
    "CODEX_HOME",
    "GEMINI_SESSION_ID",
    "GEMINI_CWD",
    "GEMINI_PROJECT_DIR",
    "FILROUGE_AUTO_CAPTURE",
)
#: Where one of these is set, the hook has nothing to hand over, or the daemon is elsewhere.
LONG_WAY_VARIABLES: Final = ("FILROUGE_URL", "FILROUGE_DISABLED", "FILROUGE_INTERNAL")
#: Names in the input of hooks whose host may accept context, and a host whose inputs hold no name. Such a hook waits
#: longer for an answer to begin.
ASKING: Final = (
    b"UserPromptSubmit",
    b"SessionStart",
    b"sessionStart",
    b"session_start",
    b"BeforeAgent",
    b"before_prompt_build",
    b"agent_end",
)
ASKING_HOST: Final = "copilot-cli"
MAX_INPUT_BYTES: Final = 64 * 1024 * 1024
#: Seconds after which a hook waits for nothing but the rest of an answer that began.
HARD_STOP_SECONDS: Final = 0.9
#: Seconds to wait for an answer where nothing is printed, and for the first byte of one that is printed.
CAPTURE_SECONDS: Final = 0.15
MAX_FIRST_BYTE_SECONDS: Final = 0.6
#: Age of the process in seconds from which it spools first. On an idle machine the age here is 0.03 s.
SLOW_START_SECONDS: Final = 0.3
_MAX_ANSWER_BYTES: Final = 1024 * 1024


class Input:
    """What a hook was given.

    Attributes:
        raw: all of stdin, as far as it came.
        lost: why it cannot be read; None if it can.
        age: seconds since the process was started.
        at: when it was read, in seconds since 1970.
        seed: ten random bytes, from which the ids of its events are made.
        is_tried: the daemon was asked, and did not answer in time.
    """

    __slots__ = ("age", "at", "is_tried", "lost", "raw", "seed")

    def __init__(self, raw: bytes, *, lost: Reason | None = None, age: float = 0.0) -> None:
        self.raw = raw
        self.lost: Reason | None = lost
        self.age = age
        self.at = time.time()
        self.seed = os.urandom(10)
        self.is_tried = False


class _NoAnswer(Exception):
    """The daemon did not answer as expected; `is_late` if it is there and may have stored the events."""

    def __init__(self, *, is_late: bool = False) -> None:
        super().__init__()
        self.is_late = is_late


def hand_over(argv: Sequence[str], environ: Mapping[str, str]) -> Input | None:
    """Serve the hook by the daemon, and return None; or return the input, which is then served the long way."""
    age = process_age()
    given = read_stdin(time.monotonic() + HARD_STOP_SECONDS, age)
    host = host_named(argv)
    takes_long_way = (
        given.lost
        or not given.raw.strip()
        or len(given.raw) > MAX_BYTES
        or age >= SLOW_START_SECONDS
        or any(environ.get(name) for name in LONG_WAY_VARIABLES)
    )
    if takes_long_way:
        return given
    directory = paths.home(environ)
    try:
        line, recall = _ask(paths.socket_path(directory), host, given, environ)
    except _NoAnswer as problem:
        given.is_tried = problem.is_late
        return given
    if line and write_stdout(line + b"\n") and recall:
        confirm(directory, recall)
    return None


def _ask(path: str, host: str, given: Input, environ: Mapping[str, str]) -> tuple[bytes, bytes]:
    """Return the line to print and the id of its recall; both may be empty.

    Raises:
        _NoAnswer: there is no answer, or not a good one.
    """
    if not paths.is_own_socket(path):
        raise _NoAnswer
    is_asking = host == ASKING_HOST or any(name in given.raw for name in ASKING)
    deadline = time.monotonic() + (MAX_FIRST_BYTE_SECONDS if is_asking else CAPTURE_SECONDS)
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.settimeout(deadline - time.monotonic())
        try:
            connection.connect(path)
        except OSError as error:
            raise _NoAnswer(is_late=isinstance(error, TimeoutError)) from None
        try:
            connection.sendall(encode(host, given, environ))
            return _read_answer(connection, deadline)
        except (OSError, ValueError):
            raise _NoAnswer(is_late=True) from None
    finally:
        connection.close()


def encode(host: str, given: Input, environ: Mapping[str, str]) -> bytes:
    """Return the request: fields that each end with a NUL, one more NUL, and the bytes of stdin."""
    fields = [
        b"version=" + __version__.encode("ascii"),
        b"host=" + os.fsencode(host),
        b"at=" + repr(given.at).encode(),
        b"seed=" + given.seed.hex().encode(),
        b"files=" + mount_namespace(),
        *(os.fsencode(f"env:{name}={environ[name]}") for name in VARIABLES if name in environ),
    ]
    body = b"\0".join(fields) + b"\0\0" + given.raw
    # HTTP/1.0: the answer ends with the connection, and is never sent in chunks.
    head = (
        f"POST {PATH} HTTP/1.0\r\nHost: filrouge\r\nContent-Type: application/octet-stream\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode("ascii") + body


def decode(body: bytes) -> tuple[dict[str, str], bytes]:
    """Return the fields and the bytes of stdin of a request, as `encode` wrote them.

    Raises:
        ValueError: it is not such a request.
    """
    fields, separator, raw = body.partition(b"\0\0")
    pairs = [os.fsdecode(field).partition("=") for field in fields.split(b"\0")]
    if not separator or not all(equals for _, equals, _ in pairs):
        raise ValueError("not the input of a hook")
    return {name: value for name, _, value in pairs}, raw


def encode_answer(line: bytes, recall: str) -> bytes:
    """Return the body of an answer: the line to print, and the id of its recall; each ends with a line feed."""
    return line.rstrip(b"\n") + b"\n" + recall.encode("ascii") + b"\n"


def _read_answer(connection: _socket.socket, deadline: float) -> tuple[bytes, bytes]:
    """Read an answer to its end.

    Raises:
        OSError: it does not come in time.
        ValueError: it is incomplete, or says that the daemon failed.
        _NoAnswer: the daemon refuses to read the input.
    """
    raw, status, body = b"", 0, b""
    while True:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        connection.settimeout(remaining)
        piece = connection.recv(65536)
        if not piece:
            break
        raw += piece
        head, separator, body = raw.partition(b"\r\n\r\n")
        if separator and not status:
            status, headers = _parse_head(head)
            deadline = max(deadline, time.monotonic() + float(headers.get(WAIT_HEADER, "0")))
        if len(raw) > _MAX_ANSWER_BYTES:
            raise ValueError("the answer is too long")
    if status and status != 200:
        raise _NoAnswer
    parts = body.lstrip(b" ").split(b"\n")
    if len(parts) != 3 or parts[2] or FAILED in parts[0][:1]:
        raise ValueError("the answer is incomplete")
    return parts[0], parts[1]


def _parse_head(head: bytes) -> tuple[int, dict[str, str]]:
    return int(head.split()[1]), headers_of(head)


def headers_of(head: bytes) -> dict[str, str]:
    """Return the headers of an answer, with their names in lower case."""
    pairs = (line.partition(":") for line in head.decode("latin-1").split("\r\n")[1:])
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def confirm(directory: str, recall: bytes) -> None:
    """Tell the daemon that the context of this recall was printed; nobody waits for its answer."""
    body = b'{"recall":"' + recall + b'"}'
    head = (
        f"POST {DELIVERED_PATH} HTTP/1.1\r\nHost: filrouge\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    path = paths.socket_path(directory)
    if not paths.is_own_socket(path):
        return
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.settimeout(0.1)
        connection.connect(path)
        connection.sendall(head.encode("ascii") + body)
    except OSError:  # the recall stays logged as late
        return
    finally:
        connection.close()


def mount_namespace() -> bytes:
    """Return what names the file systems that this process sees; empty where the system has no such name.

    A project is named by what lies in its folder. In a container a path may lead to another folder.
    """
    try:
        return os.fsencode(os.readlink("/proc/self/ns/mnt"))
    except OSError:
        return b""


def process_age() -> float:
    """Return the seconds since this process was started, to 10 ms; 0 if the system does not report it."""
    try:
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0
    return age if 0 <= age < 600 else 0.0  # implausible: the clock of another namespace


def host_named(argv: Sequence[str]) -> str:
    """Return the host that the arguments name; empty if they name none."""
    for index, word in enumerate(argv):
        if word.startswith("--host="):
            return word.partition("=")[2]
        if word == "--host" and index + 1 < len(argv):
            return argv[index + 1]
    return ""


def read_stdin(deadline: float, age: float) -> Input:
    """Read all of stdin. A host writes it at once and closes it.

    Args:
        deadline: when to stop waiting for more (monotonic). What is there is read even later.
        age: seconds since the process was started.
    """
    pieces: list[bytes] = []
    size = 0
    while True:
        is_over = time.monotonic() >= deadline
        try:
            if not select.select([0], [], [], 0 if is_over else 0.05)[0]:
                if is_over:
                    return Input(b"".join(pieces), lost="input incomplete" if size else None, age=age)
                continue
            piece = os.read(0, 1 << 20)
        except OSError:
            return Input(b"", lost="failed", age=age)
        if not piece:
            return Input(b"".join(pieces), age=age)
        pieces.append(piece)
        size += len(piece)
        if size > MAX_INPUT_BYTES:
            return Input(b"".join(pieces), lost="input too large", age=age)


def write_stdout(line: bytes) -> bool:
    """Write the complete line; False if the host does not read it."""
    unwritten = memoryview(line)
    try:
        while unwritten:
            unwritten = unwritten[os.write(1, unwritten) :]
    except OSError:
        return False
    return True
