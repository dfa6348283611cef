"""Starts the daemon's process, under a lock that elects one starter.

A client that finds no daemon takes the start lock before it starts one, and passes the open descriptor to the new
process, which holds it until it listens. The lock is therefore held exactly while a daemon is starting, and the kernel
frees it if that process dies. This module is on the hook's path: standard library only.
"""

from __future__ import annotations

import fcntl
import os
import sys
from contextlib import suppress
from typing import Final

STARTING: Final = "starting"
#: The descriptor number of the lock in the new process.
DESCRIPTOR: Final = 3


def acquire(directory: str) -> int | None:
    """Return a descriptor that holds the start lock, or None while another process holds it.

    Raises:
        OSError: the file cannot be created, or is a symbolic link.
    """
    path = _path(directory)
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return None
        if _is_same_file(handle, path):
            return handle
        os.close(handle)  # the last holder removed the file between the two calls


def release(directory: str, handle: int) -> None:
    """Remove the lock file and release the lock. Only the holder may call this."""
    path = _path(directory)
    if _is_same_file(handle, path):
        with suppress(OSError):
            os.unlink(path)
    os.close(handle)


def is_held(directory: str) -> bool:
    """Return True while a daemon of that home is starting."""
    return is_locked(_path(directory))


def is_locked(path: str) -> bool:
    """Return True while a process holds the lock on that file."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def inherited_lock(directory: str) -> int | None:
    """Return the start lock's descriptor if the starter passed it to this process, else None."""
    if not _is_same_file(DESCRIPTOR, _path(directory)):
        return None
    os.set_inheritable(DESCRIPTOR, False)
    return DESCRIPTOR


def move_descriptor(handle: int) -> int:
    """Return the lock under a descriptor other than `DESCRIPTOR`, so that it can be duplicated to that number."""
    if handle != DESCRIPTOR:
        return handle
    copy = fcntl.fcntl(handle, fcntl.F_DUPFD_CLOEXEC, DESCRIPTOR + 1)
    os.close(handle)
    return copy


def _path(directory: str) -> str:
    return os.path.join(directory, STARTING)


def _is_same_file(handle: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except OSError:
        return False


#: Variables that agents set for child processes of one session. A daemon outlives the session and must not use them.
_SESSION_VARIABLES: Final = (
    "CLAUDECODE", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_CHILD_NOTES_DIR",
    "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_MESSAGING_SOCKET", "CLAUDE_CODE_MESSAGING_TOKEN",
    "CLAUDE_CODE_SESSION_ATTENDED", "CLAUDE_EFFORT", "CLAUDE_ENV_FILE", "CLAUDE_PID", "CLAUDE_PROJECT_DIR",
    "CLAUDE_PLUGIN_ROOT", "CLAUDE_PLUGIN_DATA", "FILROUGE_INTERNAL",
)  # fmt: skip
#: -P keeps the agent's directory off the import path; changing to / keeps no directory in use.
_LAUNCH: Final = (
    "import os, runpy; os.chdir('/'); runpy.run_module('filrouge.server', run_name='__main__', alter_sys=True)"
)


def spawn(directory: str, lock: int, arguments: tuple[str, ...]) -> None:
    """Start a daemon for that home, detached from the agent's session.

    Args:
        directory: the home.
        lock: a descriptor that holds the start lock; the daemon gets a copy.
        arguments: its command line arguments.

    Raises:
        OSError: no process can be created.
    """
    null = os.devnull
    os.posix_spawn(
        sys.executable,
        [sys.executable, "-P", "-c", _LAUNCH, "filrouge.server", *arguments],
        _daemon_environment(directory),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, null, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, null, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, null, os.O_WRONLY, 0),
            *((os.POSIX_SPAWN_CLOSE, number) for number in _inheritable_descriptors()),
            (os.POSIX_SPAWN_DUP2, lock, DESCRIPTOR),
        ],
        setsid=True,
    )


def _daemon_environment(directory: str) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if name not in _SESSION_VARIABLES}
    return {**environment, "FILROUGE_HOME": directory}


def _inheritable_descriptors() -> list[int]:
    """Return the descriptors that an agent left inheritable; a daemon that had one would keep the agent's pipe open."""
    found: list[int] = []
    for name in os.listdir("/dev/fd"):
        try:
            if int(name) > 2 and os.get_inheritable(int(name)):
                found.append(int(name))
        except (OSError, ValueError):
            continue
    return found
