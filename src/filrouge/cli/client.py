"""Talking to the daemon from a command: start it where it is away, and turn its problems into errors."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from filrouge.core.errors import DaemonUnavailable
from filrouge.core.paths import home
from filrouge.daemon import client, waking
from filrouge.daemon.reply import error_of
from filrouge.hosts.project import branch
from filrouge.hosts.project import names as project_names

TIMEOUT_SECONDS = 10.0
#: For questions that the daemon answers at once or not at all.
SHORT_SECONDS = 5.0


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
            raise waking.out_of_reach(os.environ[client.URL]) from None
        if time.monotonic() - began >= timeout:
            raise waking.hanging(directory, timeout) from None
        if not start:
            raise
        waking.wake(directory)
        reply = client.request(directory, method, target, content, timeout)
    if start and not client.is_elsewhere(os.environ):
        waking.renew(directory, reply)
    if reply.status >= 400:
        raise error_of(reply.body)
    return reply.value


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


def branch_here(project: str | None) -> str:
    """The git branch of the directory that `here` names; empty for a project that is named otherwise."""
    if project and not os.path.isdir(project):
        return ""
    return branch(os.path.abspath(project or os.getcwd()))
