"""The daemon as a process: one per home, found through its socket, gone without a trace.

`flock` on a file in the home is the only truth about who runs: a lock dies with its process, a PID file does
not. Whoever holds it may remove a stale socket. Nobody can connect to the socket before it admits this user
alone: its folder does, and it listens only afterwards. (A umask belongs to the whole process, and other threads
are making files at the same time.) The runtime file names pid, version and address for people and tools, and
decides nothing.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress

from filrouge._version import __version__
from filrouge.daemon.client import STARTING
from filrouge.errors import Busy, CannotWrite, FilrougeError
from filrouge.home import FAILURE, LOCK, RUNTIME, inside, make_private, socket_path

_BACKLOG = 128
_LOOK_SECONDS = 0.05


@contextmanager
def only_one(home: str, *, patience: float = 0.0) -> Generator[None]:
    """Hold the home's lock for as long as the block runs.

    Args:
        home: the home.
        patience: seconds to wait for a daemon that was asked to make room.

    Raises:
        Busy: another daemon holds it.
        CannotWrite: the home cannot be created or written.
    """
    try:
        make_private(home)
        handle = os.open(inside(home, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise CannotWrite(f"The home {home} cannot be written: {error.strerror}.") from error
    try:
        _lock(handle, home, time.monotonic() + patience)
        yield
    finally:
        os.close(handle)


def is_held(home: str) -> bool:
    """True while a daemon lives for that home, listening or not."""
    try:
        with only_one(home):
            return False
    except Busy:
        return True


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

    Args:
        url: where TCP is listened on.

    Whoever listens no longer stands in the way of the next start, and what kept an earlier daemon from starting
    is over.
    """
    about = {"pid": os.getpid(), "version": __version__, "socket": socket_path(home), "url": url}
    write_whole(inside(home, RUNTIME), json.dumps(about))
    _remove(inside(home, STARTING), inside(home, FAILURE))
    try:
        yield
    finally:
        _remove(inside(home, RUNTIME), socket_path(home))


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


def _lock(handle: int, home: str, deadline: float) -> None:
    while True:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() >= deadline:
                raise Busy(f"A daemon is already running for {home}.") from error
        time.sleep(_LOOK_SECONDS)


def _remove(*paths: str) -> None:
    for path in paths:
        with suppress(FileNotFoundError):
            os.unlink(path)


def write_whole(path: str, text: str) -> None:
    """Write a small file by renaming: a reader meets the old one or the new one, never half of either."""
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".new-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError:
        _remove(temporary)
        raise
