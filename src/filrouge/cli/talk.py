"""Talking to the daemon from a command: start it where it is away, and turn its problems into errors."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any, cast
from urllib.parse import urlencode

from filrouge import errors
from filrouge.daemon import client
from filrouge.errors import DaemonUnavailable, FilrougeError
from filrouge.home import home
from filrouge.hosts.project import names as project_names

TIMEOUT_SECONDS = 30.0
START_SECONDS = 15.0


def ask(
    method: str,
    path: str,
    body: Mapping[str, Any] | None = None,
    *,
    query: Mapping[str, Any] | None = None,
    start: bool = True,
) -> Any:
    """One request to the daemon, which is started first if need be.

    Raises:
        FilrougeError: what the daemon answered, as the same error it was there.
    """
    directory = home()
    target = f"{path}?{urlencode(query, doseq=True)}" if query else path
    try:
        reply = client.request(directory, method, target, dict(body) if body is not None else None, TIMEOUT_SECONDS)
    except DaemonUnavailable:
        if not start:
            raise
        wake(directory)
        reply = client.request(directory, method, target, dict(body) if body is not None else None, TIMEOUT_SECONDS)
    if reply.status >= 400:
        raise _error(reply.body)
    return reply.value


def wake(directory: str) -> None:
    """Start the daemon and wait until it answers.

    Raises:
        DaemonUnavailable: it does not, with the place of its log.
    """
    _writable(directory)
    client.start(directory)
    if not client.wait_ready(directory, time.monotonic() + START_SECONDS):
        raise DaemonUnavailable(
            "The daemon did not start.",
            remedy=f"See {os.path.join(directory, 'filrouge.log')}, or run it by hand: `python -m filrouge.server`.",
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
        with open(probe, "wb") as file:
            file.write(b"\0" * 4096)
        os.unlink(probe)
    except OSError as error:
        raise errors.CannotWrite(f"The home {directory} cannot be written: {error.strerror}.") from error


def _error(body: Any) -> FilrougeError:
    """The error that a problem document stands for."""
    problem: Mapping[str, Any] = cast("Mapping[str, Any]", body) if isinstance(body, dict) else {}
    name = str(problem.get("type", "")).rpartition(":")[2]
    kind = getattr(errors, name, FilrougeError) if name in errors.__all__ else FilrougeError
    return kind(str(problem.get("detail") or "The daemon could not answer."), remedy=problem.get("remedy"))
