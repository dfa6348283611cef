"""The daemon as a process: its lock, its socket, its runtime file and its memory use.

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
import os
import socket
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any, Final

from filrouge._version import __version__
from filrouge.core.errors import Busy, CannotWrite, FilrougeError
from filrouge.core.paths import FAILURE, LOCK, RUNTIME, find_symlink, inside, make_private, open_own, socket_path
from filrouge.daemon import starting

# Limits the daemon's memory under glibc. glibc may create an arena for every thread, and freed memory stays in it. Two
# arenas are enough for threads that mostly take turns at the interpreter lock, and free memory is returned to the
# system from time to time. With another C library both functions do nothing.

#: M_ARENA_MAX in malloc.h.
_ARENA_MAX: Final = -8
_ARENAS: Final = 2


def limit_arenas() -> None:
    """Limit the number of malloc arenas. Call it before starting threads."""
    if adjust := _function("mallopt"):
        adjust(_ARENA_MAX, _ARENAS)


def trim_memory() -> None:
    """Return free memory to the system; takes a few milliseconds."""
    if trim := _function("malloc_trim"):
        trim(0)


def _function(name: str) -> Any:
    try:
        return getattr(ctypes.CDLL(None), name, None)
    except OSError:
        return None


#: The kinds of lock holders, as written in the lock file.
DAEMON, PROGRAM = "daemon", "program"
_BACKLOG = 128
_LOOK_SECONDS = 0.05


@contextmanager
def home_lock(
    home: str, *, owner: str = DAEMON, patience: float = 0.0, superseded: Callable[[], bool] = lambda: False
) -> Generator[None]:
    """Hold the home's lock while the block runs.

    Args:
        home: the home.
        owner: `DAEMON`, or `PROGRAM` for a program that opens the home itself. A program does not give way, so nobody
            waits for one.
        patience: seconds to wait for a daemon that is exiting.
        superseded: called while waiting; returns True if this process is no longer needed.

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
        with suppress(OSError):  # on a full disk the lock is held anyway
            os.ftruncate(handle, 0)
            os.pwrite(handle, owner.encode(), 0)
        yield
    finally:
        os.close(handle)


@contextmanager
def start_lock(home: str) -> Generator[Callable[[], None]]:
    """Hold the start lock while a daemon starts: the lock inherited from its starter, else the home's if it is free.

    Yields a function that releases the lock, to be called when the daemon listens. The end of the block releases it
    too.
    """
    handle = starting.inherited(home)
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


def bound_socket(home: str) -> socket.socket:
    """Return a listening unix socket for this user only, replacing a stale one. Call it only with the lock held."""
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
def runtime_file(home: str, url: str | None = None) -> Generator[None]:
    """Keep the runtime file while the block runs, and remove it and the socket afterwards.

    It also removes the failure file of an earlier start.

    Args:
        home: the home.
        url: the TCP address, if the daemon listens on one.
    """
    about = {"pid": os.getpid(), "version": __version__, "socket": socket_path(home), "url": url}
    write_atomically(inside(home, RUNTIME), json.dumps(about))
    _remove(inside(home, FAILURE))
    try:
        yield
    finally:
        _remove(inside(home, RUNTIME), socket_path(home))


def refuse_links(home: str) -> None:
    """Reject a home in which a symbolic link is in place of one of Filrouge's files.

    Raises:
        CannotWrite: naming the link.
    """
    if link := find_symlink(home):
        raise CannotWrite(
            f"{link} is a symbolic link; Filrouge does not follow symbolic links in its home.",
            remedy=f"Look where it leads (`ls -l '{link}'`), then put a plain file or folder there, or remove it.",
        )


def write_failure(home: str, error: FilrougeError) -> None:
    """Write the reason why no daemon could start, for the command that waits for it."""
    about = {
        "error": type(error).__name__,
        "message": error.message,
        "remedy": error.remedy,
        "exit_code": error.exit_code,
    }
    with suppress(OSError):  # the waiting command notices an unwritable home itself
        write_atomically(inside(home, FAILURE), json.dumps(about))


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


def write_atomically(path: str, text: str) -> None:
    """Write a small file atomically, by renaming."""
    import tempfile

    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".new-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError:
        _remove(temporary)
        raise
