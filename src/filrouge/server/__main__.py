"""The daemon's entry point: acquires the home's lock, then imports the rest of the daemon.

    python -m filrouge.server      (FILROUGE_HOME names the home)

Exit codes are those of the error classes; a second daemon for the same home exits with 5 and has no side effects. Only
small modules are imported before the lock is held, so that a redundant process costs almost nothing.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
from types import ModuleType

from filrouge._version import __version__
from filrouge.core.errors import Busy, CannotWrite, FilrougeError
from filrouge.core.paths import RUNTIME, inside
from filrouge.core.paths import home as home_directory
from filrouge.core.text import one_line
from filrouge.daemon import starting
from filrouge.daemon.client import STARTED_BY_CLIENT, SUCCESSOR, is_absent
from filrouge.daemon.process import home_lock, start_lock, write_failure
from filrouge.daemon.reply import is_newer

#: Wait this long for the lock, because a process that only checks it holds it for an instant.
_LOCK_CHECK_SECONDS = 0.2
#: Wait this long for a daemon that is stopping; it ends itself after 25 seconds at the latest.
_TAKE_OVER_SECONDS = 30.0
#: Thread switch interval. An answer passes through several threads and would wait 5 ms at each with the default.
_SWITCH_SECONDS = 0.0005
#: Python looks for garbage after 700 new objects; the daemon reads as many for one prompt, and next to none are garbage
#: that only a search finds.
_COLLECT_AFTER_OBJECTS = 10_000
#: Numpy's matrix libraries read these once. With several threads they wait for each other in busy loops, which costs
#: twice the processor time, and twenty times as much on a busy machine.
_MATRIX_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def main() -> int:
    """Run until asked to stop, and return the exit code."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.set_threshold(_COLLECT_AFTER_OBJECTS)
    for name in _MATRIX_THREADS:
        os.environ.setdefault(name, "1")
    os.umask(0o077)  # for every way of starting: a log file that is rotated later must stay private, too
    home = home_directory()
    started_by_client, successor = STARTED_BY_CLIENT in sys.argv, SUCCESSOR in sys.argv
    if started_by_client and starting.inherited_lock(home) is None:
        return 0  # no process was elected to start this daemon
    is_no_longer_needed = _is_replaced if successor else _is_served
    timeout = _TAKE_OVER_SECONDS if started_by_client or successor else _LOCK_CHECK_SECONDS
    try:
        with (
            start_lock(home) as on_listening,
            home_lock(home, timeout=timeout, is_no_longer_needed=lambda: is_no_longer_needed(home)),
        ):
            _import_serving().serve(home, on_listening)
    except Busy as error:
        if not (started_by_client or successor):
            return _print_error(error)
        if is_no_longer_needed(home):
            return 0
        write_failure(home, error)
        return error.exit_code
    except FilrougeError as error:
        write_failure(home, error)
        return _print_error(error)
    except OSError as error:
        unusable = CannotWrite(f"The home {home} cannot be used: {error.strerror}.")
        write_failure(home, unusable)
        return _print_error(unusable)
    return 0


def _import_serving() -> ModuleType:
    """Import and return the large part of the daemon.

    Raises:
        FilrougeError: it cannot be imported.
    """
    gc.disable()  # imported objects stay alive; collecting garbage meanwhile takes a sixth of the import time
    try:
        return importlib.import_module("filrouge.server.serving")
    except ImportError as error:
        from filrouge.core.installation import reinstall_command  # slow: it scans installed packages

        raise FilrougeError(
            f"The daemon cannot be loaded: {error}.", remedy=f"Reinstall it: `{reinstall_command('filrouge')}`."
        ) from error
    finally:
        gc.freeze()
        gc.enable()


def _is_served(home: str) -> bool:
    return not is_absent(home)


def _is_replaced(home: str) -> bool:
    """Return whether the running daemon has this version or a newer one."""
    try:
        with open(inside(home, RUNTIME), encoding="utf-8") as file:
            version = str(json.load(file)["version"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return not is_newer(__version__, version)


def _print_error(error: FilrougeError) -> int:
    print(one_line(f"{error.message} {error.remedy}"), file=sys.stderr)  # noqa: T201 (a person started it)
    return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
