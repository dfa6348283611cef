"""Starts the daemon and waits until it answers, or reports why it did not start.

Commands and programs wait like this; a hook never does. One of them starts the daemon, and all wait while that process
is alive and starting. If it dies, the next one starts another. A daemon that cannot start leaves a failure file in its
home; the waiting processes raise it as their error.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from filrouge.core.errors import CannotWrite, DaemonUnavailable, FilrougeError
from filrouge.core.paths import FAILURE, LOG, RUNTIME, inside
from filrouge.daemon import client
from filrouge.daemon.process import refuse_links
from filrouge.daemon.reply import Reply, named_error

#: The longest start time. A machine may be heavily overloaded, or a large database may need migration.
LONGEST_START_SECONDS = 180.0
#: How long to wait if no daemon is starting and none answers.
START_SECONDS = 15.0
#: The limit on starts of daemons that die without a failure file.
_MOST_STARTS = 3
_LOOK_SECONDS = 0.5
_PAUSES = (0.01, 0.02, 0.05, 0.1)


def ensure_running(directory: str, *, given_up: Callable[[], bool] = lambda: False) -> None:
    """Start the daemon and wait until it answers.

    Args:
        directory: the home.
        given_up: called at least twice a second; returns True if nobody waits any more.

    Raises:
        FilrougeError: the reason why it could not start.
        DaemonUnavailable: it does not answer and gave no reason; the message names its log.
    """
    _writable(directory)
    with suppress(FileNotFoundError):
        os.unlink(inside(directory, FAILURE))
    began = moved = time.monotonic()
    starts = looks = 0
    while not given_up():
        found = client.start(directory)
        if found == "there" and client.wait_ready(directory, time.monotonic() + _LOOK_SECONDS):
            return
        if (failure := _failure(directory)) is not None:
            raise failure
        now = time.monotonic()
        starts += found == "started"
        moved = moved if found == "there" else now
        if starts > _MOST_STARTS or now - moved > START_SECONDS or now - began > LONGEST_START_SECONDS:
            break
        if found != "there":
            time.sleep(_PAUSES[min(looks, len(_PAUSES) - 1)])
            looks += 1
    raise DaemonUnavailable(
        "The daemon did not start.",
        remedy=f"See {inside(directory, LOG)}, or run it by hand: `python -m filrouge.server`.",
    )


def wait_started(directory: str) -> None:
    """Wait while a daemon is starting, until it answers or has ended."""
    deadline = time.monotonic() + LONGEST_START_SECONDS
    while client.is_starting(directory) and time.monotonic() < deadline:
        time.sleep(_PAUSES[-1])


def upgrade_daemon(directory: str, reply: Reply) -> None:
    """If an older daemon answered, let this version's daemon take over and wait for it.

    The request that it answered is done and need not be repeated.
    """
    if client.replace_older_daemon(directory, reply):
        client.wait_ready(directory, time.monotonic() + START_SECONDS)


def not_responding_error(directory: str, seconds: float) -> DaemonUnavailable:
    """Return the error for a daemon that runs but does not answer."""
    return DaemonUnavailable(
        f"The daemon is there and did not answer within {seconds:.0f} seconds.",
        remedy=f"Try again; if it stays so, end the process named in {inside(directory, RUNTIME)}.",
    )


def unreachable_error(url: str) -> DaemonUnavailable:
    """Return the error for a remote daemon that does not answer."""
    return DaemonUnavailable(
        f"The daemon at {url} does not answer.",
        remedy=f"Check the address, or unset {client.URL} to use this machine's.",
    )


def _writable(directory: str) -> None:
    refuse_links(directory)
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        probe = os.path.join(directory, f".probe-{os.getpid()}")
        try:
            with open(probe, "wb") as file:
                file.write(b"\0" * 4096)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(probe)
    except OSError as error:
        raise CannotWrite(f"The home {directory} cannot be written: {error.strerror}.") from error


def _failure(directory: str) -> FilrougeError | None:
    """Return the error in the failure file of a daemon that could not start, or None."""
    try:
        with open(inside(directory, FAILURE), encoding="utf-8") as file:
            word: dict[str, Any] = json.load(file)
    except (OSError, ValueError):
        return None
    return named_error(str(word.get("error")), str(word.get("message")), word.get("remedy"))
