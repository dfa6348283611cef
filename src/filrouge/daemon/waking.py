"""Waking the daemon of a home for somebody who waits for an answer, and saying why it did not come.

A hook never waits like this; commands and programs do. A daemon that cannot start leaves a word in its home, which
becomes the error of whoever sent for it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from filrouge.daemon import client
from filrouge.daemon.problems import named_error
from filrouge.daemon.reply import Reply
from filrouge.errors import CannotWrite, DaemonUnavailable, FilrougeError
from filrouge.home import FAILURE, LOG, RUNTIME, inside

START_SECONDS = 15.0
_LOOK_SECONDS = 0.5


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
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and not given_up():
        client.start(directory)  # does nothing where somebody started one a moment ago
        if client.wait_ready(directory, min(deadline, time.monotonic() + _LOOK_SECONDS)):
            return
        if (failure := _failure(directory)) is not None:
            raise failure
    raise DaemonUnavailable(
        "The daemon did not start.",
        remedy=f"See {inside(directory, LOG)}, or run it by hand: `python -m filrouge.server`.",
    )


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
