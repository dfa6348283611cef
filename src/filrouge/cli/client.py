"""Requests from commands to the daemon.

The daemon is started if it does not run, and its error answers are raised as exceptions.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from filrouge.core.errors import DaemonUnavailable
from filrouge.core.paths import home
from filrouge.daemon import client, process
from filrouge.daemon.reply import parse_error
from filrouge.hosts.project import find_branch
from filrouge.hosts.project import find_names as project_names

TIMEOUT_SECONDS = 10.0
#: For requests that a healthy daemon answers immediately.
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
    """Send one request to the daemon and return the answer. The local daemon is started if it does not run.

    Args:
        start: start the daemon if needed, and replace an older version.

    Raises:
        DaemonUnavailable: the daemon does not answer within `timeout` seconds, cannot be started, or is remote and
            unreachable.
        FilrougeError: the error that the daemon returned, as the same class.
    """
    directory = home()
    target = f"{path}?{urlencode(query, doseq=True)}" if query else path
    content = dict(body) if body is not None else None
    started = time.monotonic()
    try:
        reply = client.send(directory, os.environ, method, target, content, timeout)
    except DaemonUnavailable:
        if client.is_remote(os.environ):
            raise process.unreachable_error(os.environ[client.URL]) from None
        if time.monotonic() - started >= timeout:
            raise process.not_responding_error(directory, timeout) from None
        if not start:
            raise
        process.ensure_running(directory)
        reply = client.request(directory, method, target, content, timeout)
    if start and not client.is_remote(os.environ):
        process.upgrade_daemon(directory, reply)
    if reply.status >= 400:
        raise parse_error(reply.body)
    return reply.value


def ask_if_running(method: str, path: str) -> dict[str, Any] | None:
    """Send one request to a running daemon and return the answer; None if no daemon listens.

    Raises:
        DaemonUnavailable: a daemon runs and does not answer.
        FilrougeError: the error that the daemon returned, as the same class.
    """
    try:
        return ask(method, path, start=False, timeout=SHORT_SECONDS)
    except DaemonUnavailable:
        if not client.is_absent(home()):
            raise
        return None


def poll(done: Callable[[], bool], seconds: float) -> bool:
    """Call `done` every 50 ms until it returns True. Returns False if `seconds` pass first."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def is_idle() -> bool:
    """Return True if everything captured is processed: no job waits or runs, and the spool is empty."""
    found = ask("GET", "/daemon/status")
    return found["queue"]["waiting"] + found["queue"]["running"] + found["spooled"] == 0


def names_of_project(project: str | None) -> list[str]:
    """Return the names of a command's project: the given name or directory, otherwise the current directory."""
    if project and os.path.isdir(project):
        return list(project_names(os.path.abspath(project), os.environ))
    return [project] if project else list(project_names(os.getcwd(), os.environ))


def current_branch(project: str | None) -> str:
    """Return the git branch of the project's directory; empty if the project is not given as a directory."""
    if project and not os.path.isdir(project):
        return ""
    return find_branch(os.path.abspath(project or os.getcwd()))
