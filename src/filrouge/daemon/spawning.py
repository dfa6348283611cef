"""Making the daemon's process. This module is on the hook's path: standard library only."""

from __future__ import annotations

import os
import sys
from typing import Final

from filrouge.daemon.start_lock import DESCRIPTOR

#: What an agent tells its own session's children: a daemon outlives that session and must not believe it.
_SESSION_VARIABLES: Final = (
    "CLAUDECODE", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_CHILD_NOTES_DIR",
    "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_MESSAGING_SOCKET", "CLAUDE_CODE_MESSAGING_TOKEN",
    "CLAUDE_CODE_SESSION_ATTENDED", "CLAUDE_EFFORT", "CLAUDE_ENV_FILE", "CLAUDE_PID", "CLAUDE_PROJECT_DIR",
    "CLAUDE_PLUGIN_ROOT", "CLAUDE_PLUGIN_DATA", "FILROUGE_INTERNAL",
)  # fmt: skip
#: Run with -P, which keeps the agent's directory off the import path; in / it holds no directory busy.
_LAUNCH: Final = (
    "import os, runpy; os.chdir('/'); runpy.run_module('filrouge.server', run_name='__main__', alter_sys=True)"
)


def spawn(directory: str, lock: int, words: tuple[str, ...]) -> None:
    """Start a daemon for that home, detached from the agent's session.

    Args:
        lock: a descriptor that holds the start lock; the daemon is given a copy.
        words: of its command line.

    Raises:
        OSError: no process can be made.
    """
    null = os.devnull
    os.posix_spawn(
        sys.executable,
        [sys.executable, "-P", "-c", _LAUNCH, "filrouge.server", *words],
        _daemon_environment(directory),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, null, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, null, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, null, os.O_WRONLY, 0),
            *((os.POSIX_SPAWN_CLOSE, number) for number in _inheritable()),
            (os.POSIX_SPAWN_DUP2, lock, DESCRIPTOR),
        ],
        setsid=True,
    )


def _daemon_environment(directory: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _SESSION_VARIABLES}
    return {**kept, "FILROUGE_HOME": directory}


def _inheritable() -> list[int]:
    """Descriptors that an agent left open to us: a daemon that kept one would hold the agent's pipe open."""
    found: list[int] = []
    for name in os.listdir("/dev/fd"):
        try:
            if int(name) > 2 and os.get_inheritable(int(name)):
                found.append(int(name))
        except (OSError, ValueError):
            continue
    return found
