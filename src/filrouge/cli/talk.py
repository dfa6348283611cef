"""Talking to the daemon from a command: start it where it is away, and turn its problems into errors."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, cast
from urllib.parse import urlencode

from filrouge import errors
from filrouge.daemon import client
from filrouge.errors import DaemonUnavailable, FilrougeError
from filrouge.home import FAILURE, LOG, RUNTIME, home, inside
from filrouge.hosts.project import names as project_names

TIMEOUT_SECONDS = 10.0
#: For questions that the daemon answers at once or not at all.
SHORT_SECONDS = 5.0
START_SECONDS = 15.0
_LOOK_SECONDS = 0.5


def ask(
    method: str,
    path: str,
    body: Mapping[str, Any] | None = None,
    *,
    query: Mapping[str, Any] | None = None,
    start: bool = True,
    timeout: float = TIMEOUT_SECONDS,
) -> Any:
    """One request to the daemon, which is started first if need be.

    Raises:
        DaemonUnavailable: it is there and does not answer within `timeout` seconds, or cannot be started.
        FilrougeError: what the daemon answered, as the same error it was there.
    """
    directory = home()
    target = f"{path}?{urlencode(query, doseq=True)}" if query else path
    content = dict(body) if body is not None else None
    began = time.monotonic()
    try:
        reply = client.send(directory, os.environ, method, target, content, timeout)
    except DaemonUnavailable:
        if client.is_elsewhere(os.environ):
            raise _out_of_reach() from None
        if time.monotonic() - began >= timeout:
            raise _hanging(directory, timeout) from None
        if not start:
            raise
        wake(directory)
        reply = client.request(directory, method, target, content, timeout)
    if start and not client.is_elsewhere(os.environ) and client.succeed(directory, reply):
        # An older daemon was asked to make room: what it answered is done, and this version serves from here on.
        client.wait_ready(directory, time.monotonic() + START_SECONDS)
    if reply.status >= 400:
        raise _error(reply.body)
    return reply.value


def _out_of_reach() -> DaemonUnavailable:
    url = os.environ[client.URL]
    return DaemonUnavailable(
        f"The daemon at {url} does not answer.",
        remedy=f"Check the address, or unset {client.URL} to use this machine's.",
    )


def wake(directory: str) -> None:
    """Start the daemon and wait until it answers.

    Raises:
        FilrougeError: what kept it from starting.
        DaemonUnavailable: it does not answer and left no word; with the place of its log.
    """
    _writable(directory)
    with suppress(FileNotFoundError):
        os.unlink(inside(directory, FAILURE))
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        client.start(directory)  # does nothing where somebody started one a moment ago
        if client.wait_ready(directory, min(deadline, time.monotonic() + _LOOK_SECONDS)):
            return
        if (failure := _failure(directory)) is not None:
            raise failure
    raise DaemonUnavailable(
        "The daemon did not start.",
        remedy=f"See {inside(directory, LOG)}, or run it by hand: `python -m filrouge.server`.",
    )


def poll(done: Callable[[], bool], seconds: float) -> bool:
    """Ask again every 50 ms until `done`; False if it is not within `seconds`."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def idle() -> bool:
    """True if everything captured is understood."""
    found = ask("GET", "/daemon/status")
    return found["queue"]["waiting"] + found["queue"]["running"] + found["spooled"] == 0


def here(project: str | None) -> list[str]:
    """The names of the project a command is about: the one given, else the one it is run in."""
    if project and os.path.isdir(project):
        return list(project_names(os.path.abspath(project), os.environ))
    return [project] if project else list(project_names(os.getcwd(), os.environ))


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
        raise errors.CannotWrite(f"The home {directory} cannot be written: {error.strerror}.") from error


def _hanging(directory: str, seconds: float) -> DaemonUnavailable:
    return DaemonUnavailable(
        f"The daemon is there and did not answer within {seconds:.0f} seconds.",
        remedy=f"Try again; if it stays so, end the process named in {inside(directory, RUNTIME)}.",
    )


def _failure(directory: str) -> FilrougeError | None:
    """The word that a daemon left which could not start, or None."""
    try:
        with open(inside(directory, FAILURE), encoding="utf-8") as file:
            word: dict[str, Any] = json.load(file)
    except (OSError, ValueError):
        return None
    return named_error(str(word.get("error")), str(word.get("message")), word.get("remedy"))


def _error(body: Any) -> FilrougeError:
    """The error that a problem document stands for."""
    problem: Mapping[str, Any] = cast("Mapping[str, Any]", body) if isinstance(body, dict) else {}
    name = str(problem.get("type", "")).rpartition(":")[2]
    return named_error(name, str(problem.get("detail") or "The daemon could not answer."), problem.get("remedy"))


def named_error(name: str, message: str, remedy: str | None) -> FilrougeError:
    """The error of that name."""
    kind = getattr(errors, name, FilrougeError) if name in errors.__all__ else FilrougeError
    return kind(message, remedy=remedy)
