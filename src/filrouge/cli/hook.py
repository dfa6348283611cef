"""The hook: what an agent runs at each of its events, and the only code that may never fail.

It reads the event on stdin, takes secrets out, hands it to the daemon or leaves it in the spool, and
prints the context to inject where the daemon gave one. Whatever happens it ends with 0, writes nothing on
stderr, and prints nothing or one whole line of JSON: anything else would block the user's prompt. An
alarm ends it at 900 ms.

Importing is most of its time, so only the standard library's light modules and the hook's own are
imported here.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import FrameType
from typing import Any, Final

from filrouge import home, hosts
from filrouge.capture import guard, inbox
from filrouge.cli import hook_event, hook_output
from filrouge.daemon import client
from filrouge.errors import DaemonUnavailable
from filrouge.model.event import Event

LARGEST_INPUT: Final = 64 * 1024 * 1024
HARD_STOP: Final = 0.9
CAPTURE_SECONDS: Final = 0.15
LONGEST_WAIT: Final = 0.6
ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"


def main(argv: Sequence[str]) -> None:
    """Serve one event as a process of its own; does not return."""
    signal.signal(signal.SIGALRM, _leave)
    signal.setitimer(signal.ITIMER_REAL, HARD_STOP)
    try:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 2)
        run(argv, _read_stdin, _write_stdout, os.environ)
    finally:
        os._exit(0)  # nothing is buffered, and taking the interpreter down would cost milliseconds


def run(
    argv: Sequence[str],
    read: Callable[[], bytes],
    write: Callable[[bytes], object],
    environ: Mapping[str, str],
) -> int:
    """Serve one event.

    Args:
        argv: `--host NAME` says which host is speaking, where its shape would not tell.
        read: gives all of stdin; empty where it is too large.
        write: takes the one line to print, whole.
        environ: the environment.

    Returns:
        0, always.
    """
    try:
        line = _serve(argv, read(), environ)
        if line:
            write(line)
    except Exception:  # noqa: S110 (a hook that fails must not be heard: the agent would stop)
        pass
    return 0


def _serve(argv: Sequence[str], raw: bytes, environ: Mapping[str, str]) -> bytes:
    """What to print for that input."""
    if guard.internal(environ) or guard.disabled(environ):
        return b""
    payload = hook_event.payload_of(raw)
    directory = home.home(environ)
    settings = hook_output.settings_of(directory)
    if not payload or not settings.auto_capture:
        return b""
    at = time.time()
    event = hosts.parse(payload, host=_host(argv), environ=environ, at=at, event_id=_new_id(at))
    if event is None or any(name in settings.disabled_projects for name in event.project):
        return b""
    clean = hook_event.cleaned(event)
    if clean is None:
        return b""
    wanted = settings.auto_retrieve and clean.kind in hook_output.CONTEXT_EVENTS
    return hook_output.line(clean.kind, _deliver(directory, environ, clean, wanted, settings.deadline))


def _deliver(directory: str, environ: Mapping[str, str], event: Event, wanted: bool, seconds: float) -> str:
    """Hand the event over, or leave it in the spool; the context that came back."""
    began = time.monotonic()
    patience = min(seconds, LONGEST_WAIT) if wanted else CAPTURE_SECONDS
    body = {"events": [event.to_json()], "context": wanted}
    try:
        return _told(directory, environ, body, patience)
    except DaemonUnavailable:
        pass
    spool = home.inside(directory, home.SPOOL)
    spooled = inbox.append(spool, event.to_json())
    if client.is_elsewhere(environ):
        return ""
    started = client.is_absent(directory)
    if started:
        client.start(directory)
    if not wanted or event.kind != "session_start":
        return ""
    deadline = began + patience
    if started and client.wait_ready(directory, deadline):
        try:
            context = _told(directory, environ, body, deadline - time.monotonic())
            inbox.remove(spooled)
            return context
        except DaemonUnavailable:
            pass
    return hook_output.brief(directory, event.project)


def _told(directory: str, environ: Mapping[str, str], body: dict[str, Any], seconds: float) -> str:
    """Tell the daemon; its context. An older daemon keeps what it took and is asked to make room.

    Raises:
        DaemonUnavailable: it did not take the event.
    """
    reply = client.send(directory, environ, "POST", "/hooks/events", body, seconds)
    if reply.status != 200 or not isinstance(reply.body.get("accepted"), int):
        raise DaemonUnavailable
    if client.is_elsewhere(environ):
        _send_spooled(directory, environ)
    else:
        _make_room(directory, reply)
    context = reply.body.get("context")
    return context if body["context"] and isinstance(context, str) else ""


def _make_room(directory: str, reply: client.Reply) -> None:
    with suppress(OSError):  # the older daemon serves on
        client.succeed(directory, reply)


def _send_spooled(directory: str, environ: Mapping[str, str]) -> None:
    """Bring a few spooled files along: a daemon elsewhere does not read this machine's spool."""
    for path in inbox.waiting(home.inside(directory, home.SPOOL))[:5]:
        try:
            events = inbox.read(path).events
            body = {"events": events, "context": False}
            reply = client.send(directory, environ, "POST", "/hooks/events", body, CAPTURE_SECONDS)
        except (DaemonUnavailable, OSError):
            return
        if reply.status != 200:
            return
        inbox.remove(path)


def _host(argv: Sequence[str]) -> str:
    for index, word in enumerate(argv):
        if word.startswith("--host="):
            return word.partition("=")[2]
        if word == "--host" and index + 1 < len(argv):
            return argv[index + 1]
    return ""


def _new_id(at: float) -> str:
    """A ULID, as `clock.new_id` makes it; `secrets` would cost 15 ms here."""
    number = (int(at * 1000) << 80) | int.from_bytes(os.urandom(10), "big")
    return "".join(ALPHABET[(number >> shift) & 31] for shift in range(125, -5, -5))


def _read_stdin() -> bytes:
    raw = sys.stdin.buffer.read(LARGEST_INPUT + 1)
    return raw if len(raw) <= LARGEST_INPUT else b""


def _write_stdout(line: bytes) -> None:
    """From here on the line must come out whole, so the alarm is off."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    rest = memoryview(line)
    while rest:
        rest = rest[os.write(1, rest) :]


def _leave(_number: int, _frame: FrameType | None) -> None:
    os._exit(0)
