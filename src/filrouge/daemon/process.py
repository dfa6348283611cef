"""The daemon as a process: one per home, found through its socket, gone without a trace.

`flock` on a file in the home is the only truth about who runs: a lock dies with its process, a PID file does
not. Whoever holds it may remove a stale socket. Nobody can connect to the socket before it admits this user
alone: its folder does, and it listens only afterwards. (A umask belongs to the whole process, and other threads
are making files at the same time.) The runtime file names pid, version and address for people and tools, and
decides nothing.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import socket
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any, Final

from filrouge._version import __version__
from filrouge.core.errors import Busy, CannotWrite, FilrougeError
from filrouge.core.paths import FAILURE, LOCK, RUNTIME, inside, make_private, open_own, planted_link, socket_path
from filrouge.daemon import starting

# Keeps the daemon's memory small where glibc allocates it.
#
# Every thread of the daemon may get an arena of its own from glibc, and freed memory stays in it. Two arenas are
# enough for threads that mostly take turns at the interpreter, and what is free goes back to the system now and then.
# With another C library both functions do nothing.

#: The parameter's number in malloc.h.
_ARENA_MAX: Final = -8
_ARENAS: Final = 2


def limit_arenas() -> None:
    """To be called before there are threads."""
    if adjust := _function("mallopt"):
        adjust(_ARENA_MAX, _ARENAS)


def give_back() -> None:
    """Return free memory to the system; takes a few milliseconds."""
    if trim := _function("malloc_trim"):
        trim(0)


def _function(name: str) -> Any:
    try:
        return getattr(ctypes.CDLL(None), name, None)
    except OSError:
        return None


#: Who holds the lock of a home, as its file says.
DAEMON, PROGRAM = "daemon", "program"
_BACKLOG = 128
_LOOK_SECONDS = 0.05


@contextmanager
def only_one(
    home: str, *, owner: str = DAEMON, patience: float = 0.0, superseded: Callable[[], bool] = lambda: False
) -> Generator[None]:
    """Hold the home's lock for as long as the block runs.

    Args:
        home: the home.
        owner: `DAEMON`, or `PROGRAM` for a program that opens the home itself. A program does not make room, so
            nobody waits for one.
        patience: seconds to wait for a daemon that is leaving.
        superseded: asked while waiting; True where this process is not needed any more.

    Raises:
        Busy: another process holds it.
        CannotWrite: the home cannot be created or written, or holds a symbolic link.
    """
    refuse_links(home)
    try:
        make_private(home)
        handle = open_own(inside(home, LOCK), os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise CannotWrite(f"The home {home} cannot be written: {error.strerror}.") from error
    try:
        _lock(handle, home, time.monotonic() + patience, superseded)
        with suppress(OSError):  # a full disk: the lock holds all the same
            os.ftruncate(handle, 0)
            os.pwrite(handle, owner.encode(), 0)
        yield
    finally:
        os.close(handle)


@contextmanager
def coming_up(home: str) -> Generator[Callable[[], None]]:
    """Hold the start lock while a daemon comes up: the one that its starter handed over, else the home's if it is free.

    Gives what releases it, to be called when the daemon listens; the end of the block releases it too.
    """
    handle = starting.inherited(home)
    if handle is None:
        with suppress(OSError):  # a home that cannot be written says so when its own lock is taken
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
    """True while a daemon lives for that home, listening or not."""
    return starting.is_locked(inside(home, LOCK))


def owner_pid(home: str) -> int:
    """The daemon that listens, as the runtime file says; 0 for none."""
    try:
        with open(inside(home, RUNTIME), encoding="utf-8") as file:
            return int(json.load(file)["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def bound_socket(home: str) -> socket.socket:
    """A listening unix socket that admits this user alone; a stale one is replaced. Only for the lock's holder."""
    path = socket_path(home)
    make_private(os.path.dirname(path))
    with suppress(FileNotFoundError):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    os.chmod(path, 0o600)
    listener.listen(_BACKLOG)
    return listener


@contextmanager
def announced(home: str, url: str | None = None) -> Generator[None]:
    """Keep the runtime file while the block runs, and take it and the socket away afterwards.

    What kept an earlier daemon from starting is over.

    Args:
        url: where TCP is listened on.
    """
    about = {"pid": os.getpid(), "version": __version__, "socket": socket_path(home), "url": url}
    write_whole(inside(home, RUNTIME), json.dumps(about))
    _remove(inside(home, FAILURE))
    try:
        yield
    finally:
        _remove(inside(home, RUNTIME), socket_path(home))


def refuse_links(home: str) -> None:
    """Do not work in a home where a symbolic link stands in the place of a file.

    Raises:
        CannotWrite: naming the link.
    """
    if link := planted_link(home):
        raise CannotWrite(
            f"{link} is a symbolic link, and Filrouge follows none in its home.",
            remedy=f"Look where it leads (`ls -l '{link}'`), then put a plain file or folder there, or remove it.",
        )


def leave_word(home: str, error: FilrougeError) -> None:
    """Say why no daemon could start, for the command that is waiting for one."""
    about = {
        "error": type(error).__name__,
        "message": error.message,
        "remedy": error.remedy,
        "exit_code": error.exit_code,
    }
    with suppress(OSError):  # a home that cannot be written says so by itself
        write_whole(inside(home, FAILURE), json.dumps(about))


def _lock(handle: int, home: str, deadline: float, superseded: Callable[[], bool]) -> None:
    while True:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if os.pread(handle, len(PROGRAM), 0) == PROGRAM.encode():
                raise Busy(
                    f"A program has {home} open.", remedy="Close its memory, or ask the memory in that program."
                ) from error
            if superseded() or time.monotonic() >= deadline:
                raise Busy(f"A daemon is already running for {home}.") from error
        time.sleep(_LOOK_SECONDS)


def _remove(*paths: str) -> None:
    for path in paths:
        with suppress(FileNotFoundError):
            os.unlink(path)


def write_whole(path: str, text: str) -> None:
    """Write a small file by renaming: a reader meets the old one or the new one, never half of either."""
    import tempfile

    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".new-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError:
        _remove(temporary)
        raise
