"""Waking the daemon of a home for somebody who waits for an answer, and saying why it did not come.

A hook never waits like this; commands and programs do. One of them starts the daemon, all wait as long as that daemon
is alive and coming up, and where it dies the next one starts another. A daemon that cannot start leaves a word in its
home, which becomes the error of those who wait.
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

#: The longest that a daemon may take to come up: a machine may be many times overloaded, a database be migrated.
LONGEST_START_SECONDS = 180.0
#: Without a daemon that is coming up, and without an answer.
START_SECONDS = 15.0
#: Daemons that die without a word are not started more often.
_MOST_STARTS = 3
_LOOK_SECONDS = 0.5
_PAUSES = (0.01, 0.02, 0.05, 0.1)


def wake(directory: str, *, given_up: Callable[[], bool] = lambda: False) -> None:
    """Start the daemon and wait until it answers.

    Args:
        given_up: asked twice a second whether anybody still waits.

    Raises:
        FilrougeError: what kept it from starting.
        DaemonUnavailable: it does not answer and left no word; with the place of its log.
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
    """Wait while a daemon is coming up, until it answers or has ended."""
    deadline = time.monotonic() + LONGEST_START_SECONDS
    while client.is_starting(directory) and time.monotonic() < deadline:
        time.sleep(_PAUSES[-1])


def renew(directory: str, reply: Reply) -> None:
    """Where an older daemon answered, have this version's take over, and wait for it; what was answered is done."""
    if client.succeed(directory, reply):
        client.wait_ready(directory, time.monotonic() + START_SECONDS)


def hanging(directory: str, seconds: float) -> DaemonUnavailable:
    """The error about a daemon that is there and says nothing."""
    return DaemonUnavailable(
        f"The daemon is there and did not answer within {seconds:.0f} seconds.",
        remedy=f"Try again; if it stays so, end the process named in {inside(directory, RUNTIME)}.",
    )


def out_of_reach(url: str) -> DaemonUnavailable:
    """The error about a daemon elsewhere that does not answer."""
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
    """The word that a daemon left which could not start, or None."""
    try:
        with open(inside(directory, FAILURE), encoding="utf-8") as file:
            word: dict[str, Any] = json.load(file)
    except (OSError, ValueError):
        return None
    return named_error(str(word.get("error")), str(word.get("message")), word.get("remedy"))
