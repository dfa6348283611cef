"""The daemon as a process: its lock, socket, runtime file and memory use; starting it and waiting for its answer.

There is one daemon per home. Only a `flock` on a file in the home decides who runs, because a lock dies with its
process and a PID file does not. The lock's holder may remove a stale socket. No other user can connect to the socket:
its folder is private, and it starts listening only after its mode is set. (A umask would apply to the whole process
while other threads create files.) The runtime file states pid, version and address for people and tools; it
plays no part in locking.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import logging
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from typing import Any, Final, Literal

from filrouge._version import __version__
from filrouge.core.errors import Busy, CannotWrite, DaemonUnavailable, FilrougeError, NotFound, StoreError
from filrouge.core.paths import (
    FAILURE,
    LOCK,
    LOG,
    RUNTIME,
    find_symlink,
    inside,
    make_private,
    open_nofollow,
    socket_path,
)
from filrouge.core.text import in_json, visible
from filrouge.daemon import client, starting
from filrouge.daemon.reply import Reply, named_error

# RAM use under glibc. glibc may create an arena for every thread, and freed memory stays in it. Two arenas are
# enough, because the interpreter lock lets only one thread run at a time. Free memory is returned to the system from
# time to time. With another C library both functions do nothing.

#: M_ARENA_MAX in malloc.h.
_ARENA_MAX: Final = -8
_ARENAS: Final = 2


def limit_arenas() -> None:
    """Limit the number of malloc arenas. Call it before starting threads."""
    if mallopt := _libc_function("mallopt"):
        mallopt(_ARENA_MAX, _ARENAS)


def trim_ram() -> None:
    """Return free RAM to the system; takes a few milliseconds."""
    if malloc_trim := _libc_function("malloc_trim"):
        malloc_trim(0)


def _libc_function(name: str) -> Any:
    try:
        return getattr(ctypes.CDLL(None), name, None)
    except OSError:
        return None


#: The kinds of lock holders, as written in the lock file.
DAEMON, PROGRAM = "daemon", "program"
_BACKLOG = 128
_LOCK_POLL_SECONDS = 0.05


@contextmanager
def home_lock(
    home: str, *, owner: str = DAEMON, timeout: float = 0.0, is_no_longer_needed: Callable[[], bool] = lambda: False
) -> Generator[None]:
    """Hold the home's lock while the block runs.

    Args:
        home: the home.
        owner: `DAEMON`, or `PROGRAM` for a program that opens the home itself. A program does not exit on request, so
            nobody waits for one.
        timeout: seconds to wait for a daemon that is exiting.
        is_no_longer_needed: called while waiting; returns True if this process is no longer needed.

    Raises:
        Busy: another process holds it.
        CannotWrite: the home cannot be created or written, or holds a symbolic link.
    """
    refuse_links(home)
    try:
        make_private(home)
        handle = open_nofollow(inside(home, LOCK), os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise CannotWrite(f"The home {home} cannot be written: {error.strerror}.") from error
    try:
        _lock(handle, home, time.monotonic() + timeout, is_no_longer_needed)
        with suppress(OSError):  # on a full disk the lock is held anyway
            os.ftruncate(handle, 0)
            os.pwrite(handle, owner.encode(), 0)
        yield
    finally:
        os.close(handle)


@contextmanager
def start_lock(home: str) -> Generator[Callable[[], None]]:
    """Hold the start lock while a daemon starts.

    The process that starts the daemon may hold the lock and pass it on. Otherwise the lock is acquired if it is free.

    Yields a function that releases the lock, to be called when the daemon listens. The end of the block releases it
    too.
    """
    handle = starting.inherited_lock(home)
    if handle is None:
        with suppress(OSError):  # an unwritable home is reported when its lock is taken
            handle = starting.acquire(home)

    def release() -> None:
        nonlocal handle
        if handle is not None:
            starting.release(home, handle)
            handle = None

    try:
        yield release
    finally:
        release()


def is_held(home: str) -> bool:
    """Return True while a daemon of that home runs, listening or not."""
    return starting.is_locked(inside(home, LOCK))


def owner_pid(home: str) -> int:
    """Return the daemon's pid from the runtime file; 0 if there is none."""
    try:
        with open(inside(home, RUNTIME), encoding="utf-8") as file:
            return int(json.load(file)["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def bind_socket(home: str) -> socket.socket:
    """Return a listening unix socket for this user only, replacing a stale one. Call it only with the lock held."""
    path = socket_path(home)
    make_private(os.path.dirname(path))
    _remove_files(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    os.chmod(path, 0o600)
    listener.listen(_BACKLOG)
    return listener


@contextmanager
def runtime_file(home: str, url: str | None = None) -> Generator[None]:
    """Keep the runtime file while the block runs, and remove it and the socket afterwards.

    It also removes the failure file of an earlier start.

    Args:
        home: the home.
        url: the TCP address, if the daemon listens on one.
    """
    runtime = {"pid": os.getpid(), "version": __version__, "socket": socket_path(home), "url": url}
    write_atomically(inside(home, RUNTIME), json.dumps(runtime))
    _remove_files(inside(home, FAILURE))
    try:
        yield
    finally:
        _remove_files(inside(home, RUNTIME), socket_path(home))


def refuse_links(home: str) -> None:
    """Reject a home in which a symbolic link is in place of one of Filrouge's files.

    Raises:
        CannotWrite: naming the link.
    """
    if link := find_symlink(home):
        raise CannotWrite(
            f"{link} is a symbolic link; Filrouge does not follow symbolic links in its home.",
            remedy=f"See where it leads (`ls -l '{link}'`), then replace it with a plain file or folder, or remove it.",
        )


def write_failure(home: str, error: FilrougeError) -> None:
    """Write the reason why no daemon could start, for the command that waits for it."""
    failure = {
        "error": type(error).__name__,
        "message": error.message,
        "remedy": error.remedy,
        "exit_code": error.exit_code,
    }
    with suppress(OSError):  # the waiting command notices an unwritable home itself
        write_atomically(inside(home, FAILURE), json.dumps(failure))


def _lock(handle: int, home: str, deadline: float, is_no_longer_needed: Callable[[], bool]) -> None:
    while True:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if os.pread(handle, len(PROGRAM), 0) == PROGRAM.encode():
                raise Busy(
                    f"A program has {home} open.",
                    remedy="Close Filrouge in that program, or use the memory through that program.",
                ) from error
            if is_no_longer_needed() or time.monotonic() >= deadline:
                raise Busy(f"A daemon is already running for {home}.") from error
        time.sleep(_LOCK_POLL_SECONDS)


def _remove_files(*paths: str) -> None:
    for path in paths:
        with suppress(FileNotFoundError):
            os.unlink(path)


def write_atomically(path: str, text: str) -> None:
    """Write a small file atomically, by renaming."""
    import tempfile

    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".new-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError:
        _remove_files(temporary)
        raise


# Starting the daemon, and waiting until it answers or has failed to start.
#
# Commands and programs wait like this; a hook never does. One of them starts the daemon, and all wait while that
# process is alive and starting. If it dies, the next one starts another. A daemon that cannot start leaves a failure
# file in its home; the waiting processes raise it as their error.

#: The longest start time. A machine may be heavily overloaded, or a large database may need migration.
MAX_START_SECONDS = 180.0
#: How long to wait while no daemon is starting and none answers.
NO_PROGRESS_SECONDS = 15.0
#: The limit on starts of daemons that die without a failure file.
_MAX_STARTS = 3
_ANSWER_SECONDS = 0.5
_PAUSES = (0.01, 0.02, 0.05, 0.1)


def ensure_running(home: str, *, is_abandoned: Callable[[], bool] = lambda: False) -> None:
    """Start the daemon and wait until it answers.

    Args:
        home: the home.
        is_abandoned: called at least twice a second; returns True if nobody waits any more.

    Raises:
        FilrougeError: the reason why it could not start.
        DaemonUnavailable: it does not answer and gave no reason; the message names its log.
    """
    _check_writable(home)
    _remove_files(inside(home, FAILURE))
    started_at = last_progress = time.monotonic()
    starts = pauses = 0
    while not is_abandoned():
        outcome = client.start(home)
        if outcome == "there" and client.wait_ready(home, time.monotonic() + _ANSWER_SECONDS):
            return
        if (failure := _read_failure(home)) is not None:
            raise failure
        now = time.monotonic()
        starts += outcome == "started"
        last_progress = last_progress if outcome == "there" else now
        if starts > _MAX_STARTS or now - last_progress > NO_PROGRESS_SECONDS or now - started_at > MAX_START_SECONDS:
            break
        if outcome != "there":
            time.sleep(_PAUSES[min(pauses, len(_PAUSES) - 1)])
            pauses += 1
    raise DaemonUnavailable(
        "The daemon did not start.",
        remedy=f"See {inside(home, LOG)}, or run it yourself: `python -m filrouge.server`.",
    )


def wait_started(home: str) -> None:
    """Wait while a daemon is starting, until it answers or has ended."""
    deadline = time.monotonic() + MAX_START_SECONDS
    while client.is_starting(home) and time.monotonic() < deadline:
        time.sleep(_PAUSES[-1])


def upgrade_daemon(home: str, reply: Reply) -> None:
    """If an older daemon answered, let this version's daemon take over and wait for it.

    The request that it answered is done and need not be repeated.
    """
    if client.replace_older_daemon(home, reply):
        client.wait_ready(home, time.monotonic() + NO_PROGRESS_SECONDS)


def not_responding_error(home: str, seconds: float) -> DaemonUnavailable:
    """Return the error for a daemon that runs but does not answer."""
    return DaemonUnavailable(
        f"The daemon runs but did not answer within {seconds:.0f} seconds.",
        remedy=f"Try again; if it still does not answer, end the process named in {inside(home, RUNTIME)}.",
    )


def unreachable_error(url: str) -> DaemonUnavailable:
    """Return the error for a remote daemon that does not answer."""
    return DaemonUnavailable(
        f"The daemon at {url} does not answer.",
        remedy=f"Check the address, or unset {client.URL} to use the daemon of this machine.",
    )


def _check_writable(home: str) -> None:
    refuse_links(home)
    try:
        os.makedirs(home, mode=0o700, exist_ok=True)
        probe = os.path.join(home, f".probe-{os.getpid()}")
        try:
            with open(probe, "wb") as file:
                file.write(b"\0" * 4096)
        finally:
            _remove_files(probe)
    except OSError as error:
        raise CannotWrite(f"The home {home} cannot be written: {error.strerror}.") from error


def _read_failure(home: str) -> FilrougeError | None:
    """Return the error in the failure file of a daemon that could not start, or None."""
    try:
        with open(inside(home, FAILURE), encoding="utf-8") as file:
            failure: dict[str, Any] = json.load(file)
    except (OSError, ValueError):
        return None
    return named_error(str(failure.get("error")), str(failure.get("message")), failure.get("remedy"))


# The log: one line per record, with rotation, and without anything that users or agents said.
#
# More people read a log than the memory, because logs are pasted into reports. So it holds only ids, counts and
# Filrouge's own sentences. An exception is logged by its type and its lines of code; its message may quote the
# data that caused it. Only messages of Filrouge's own errors are logged, because they are written for users.
#
# The setting `log_format` chooses between plain lines and JSON lines (docs/reference/logs.md).

LogFormat = Literal["text", "json"]
LOG_BYTES: Final = 2_000_000
LOG_FILES: Final = 3
#: The record attribute that holds a decision.
DECISION: Final = "decision"
_POLL_SECONDS: Final = 0.2
_MAX_CAUSES: Final = 5


class PlainLines(logging.Formatter):
    """Formats as `2026-05-02T10:00:00.123Z INFO filrouge.daemon: filrouge 1.0 starting, pid 4711`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        return (
            f"{_time(record)} {record.levelname} {record.name}: {_one_line(' | '.join(_message_and_exception(record)))}"
        )


class JsonLines(logging.Formatter):
    """Formats a record as a JSON object; the keys `decision` and `error` are there only if the record has one."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        message, *error = _message_and_exception(record)
        line: dict[str, Any] = {
            "time": _time(record), "level": record.levelname, "logger": record.name, "message": message,
        }  # fmt: skip
        decision = getattr(record, DECISION, None)
        line |= {DECISION: decision} if decision else {}
        return in_json(json.dumps(line | ({"error": error[0]} if error else {}), ensure_ascii=False))


class _LogFile(RotatingFileHandler):
    """A log file that is opened without following a symbolic link."""

    def _open(self) -> TextIOWrapper:
        handle = open_nofollow(self.baseFilename, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        return open(handle, "a", encoding=self.encoding, errors=self.errors)


def log_to_file(home: str, form: LogFormat = "text") -> None:
    """Write the log to the home, with rotation; a new file gets mode 0600."""
    handler = _LogFile(inside(home, LOG), maxBytes=LOG_BYTES, backupCount=LOG_FILES, encoding="utf-8")
    handler.setFormatter(JsonLines() if form == "json" else PlainLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)  # lower levels log request URLs with their queries


def describe_exception(error: BaseException) -> str:
    """Describe an exception and its causes in one line.

    Each is described by its type and its lines of code, with the message only for Filrouge's own errors.
    """
    chain, current = list[str](), error
    while len(chain) < _MAX_CAUSES:
        chain.append(f"{_name_of(current)} at {_traceback_lines(current)}")
        cause = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
        if cause is None:
            break
        current = cause
    return " <- ".join(chain)


def last_lines(home: str, number: int) -> list[str]:
    """Return the newest lines, oldest first, including rotated files.

    Raises:
        NotFound: there is no log yet.
    """
    path = inside(home, LOG)
    files = [path, *(f"{path}.{n}" for n in range(1, LOG_FILES + 1))]
    if not os.path.exists(path):
        raise NotFound(f"There is no log in {home} yet.", remedy="The daemon writes it: `filrouge daemon start`.")
    found = deque[str]()
    for name in files:
        if len(found) >= number or not os.path.exists(name):
            break
        with open(name, encoding="utf-8", errors="replace") as file:
            newest = deque((line.rstrip("\n") for line in file), maxlen=number - len(found))
        found.extendleft(reversed(newest))
    return list(found)


def new_lines(home: str) -> Generator[str | None]:
    """Yield every line written from now on, and None for each poll without a new line; follows log rotation."""
    path, pending = inside(home, LOG), ""
    file = open(path, encoding="utf-8", errors="replace")  # noqa: SIM115 (it is replaced after a rotation)
    file.seek(0, os.SEEK_END)
    try:
        while True:
            pending += file.read()
            *complete, pending = pending.split("\n")
            yield from complete or [None]
            if complete:
                continue
            if os.path.exists(path) and os.stat(path).st_ino != os.fstat(file.fileno()).st_ino:
                file.close()
                file = open(path, encoding="utf-8", errors="replace")  # noqa: SIM115
                continue
            time.sleep(_POLL_SECONDS)
    finally:
        file.close()


def parse_lines(lines: Iterable[str]) -> list[dict[str, Any]]:
    """Parse lines of either format; any other line becomes a record with only a message."""
    return [_parse_line(line) for line in lines]


def _parse_line(line: str) -> dict[str, Any]:
    if line.startswith("{"):
        try:
            return dict(json.loads(line))
        except ValueError:
            pass
    head, colon, message = line.partition(": ")
    words = head.split(" ")
    if not colon or len(words) != 3:
        return {"time": None, "level": None, "logger": None, "message": line}
    return {"time": words[0], "level": words[1], "logger": words[2], "message": message}


def _message_and_exception(record: logging.LogRecord) -> list[str]:
    """Return the message, and the exception if there is one."""
    error = record.exc_info[1] if record.exc_info else None
    return [record.getMessage(), *([describe_exception(error)] if error else [])]


def _time(record: logging.LogRecord) -> str:
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{seconds}.{int(record.msecs):03}Z"


def _one_line(text: str) -> str:
    return visible(text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r"))


def _name_of(error: BaseException) -> str:
    name = type(error).__name__
    if isinstance(error, FilrougeError) and type(error) is not StoreError:  # StoreError repeats the engine's message
        return f"{name} ({error.message})"
    if isinstance(error, OSError) and error.errno is not None:
        return f"{name} ({os.strerror(error.errno)})"
    return name


def _traceback_lines(error: BaseException) -> str:
    """Return the lines of code in the traceback, innermost first."""
    lines, frame = list[str](), error.__traceback__
    while frame is not None:
        code = frame.tb_frame.f_code
        folder, name = os.path.split(code.co_filename)
        lines.append(f"{os.path.basename(folder)}/{name}:{frame.tb_lineno} {code.co_name}")
        frame = frame.tb_next
    return ", ".join(reversed(lines)) or "an unknown line"
