"""The hook: what an agent runs at each of its events, and the only code that may never fail.

It reads the event on stdin, takes secrets out, hands it to the daemon or leaves it in the spool, and
prints the context to inject where the daemon gave one. Whatever happens it ends with 0, writes nothing on
stderr, and prints nothing or one whole line of JSON: anything else would block the user's prompt. An
alarm ends it at 900 ms.

Importing is most of its time, so only the standard library's light modules and the hook's own are
imported here.
"""

from __future__ import annotations

import gc
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
from filrouge.hosts import project
from filrouge.hosts.reading import text_field
from filrouge.model.event import Event

LARGEST_INPUT: Final = 64 * 1024 * 1024
HARD_STOP: Final = 0.9
CAPTURE_SECONDS: Final = 0.15
#: Of any hook; and what a start waits after a compaction, where only the daemon still knows what was said.
LONGEST_WAIT: Final = 0.6
#: Seconds before the alarm that nothing more is begun.
RESERVE: Final = 0.1
#: A wrong key, and a daemon that is busy: the same file may be welcome later.
NOT_THE_FILES_FAULT: Final = (401, 403, 408, 429)
ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"


class _Refused(DaemonUnavailable):
    """A daemon elsewhere does not take this key."""


def main(argv: Sequence[str]) -> None:
    """Serve one event as a process of its own; does not return."""
    signal.signal(signal.SIGALRM, _leave)
    signal.setitimer(signal.ITIMER_REAL, HARD_STOP)
    gc.disable()  # collecting among a large input's objects would cost more than reading it
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
    began = time.monotonic()
    try:
        line, told = _serve(argv, read(), environ)
        if line:
            write(line)
        if told and client.is_elsewhere(environ):
            hook_output.let_in(home.home(environ))
            _send_spooled(home.home(environ), environ, began + HARD_STOP - RESERVE)
    except Exception:  # noqa: S110 (a hook that fails must not be heard: the agent would stop)
        pass
    return 0


def _serve(argv: Sequence[str], raw: bytes, environ: Mapping[str, str]) -> tuple[bytes, bool]:
    """What to print for that input, and whether a daemon took it."""
    if guard.internal(environ) or guard.disabled(environ):
        return b"", False
    payload = hook_event.payload_of(raw)
    directory = home.home(environ)
    settings = hook_output.settings_of(directory)
    captures = settings.auto_capture and project.captures(text_field(payload, "cwd"), environ)
    if not payload or not captures:
        return b"", False
    at = time.time()
    told = hosts.parse(payload, host=_host(argv), environ=environ, at=at, new_id=lambda: _new_id(at))
    if not told or hook_output.is_disabled(settings, told[0].project):
        return b"", False
    events = [clean for event in told if (clean := hook_event.cleaned(event)) is not None]
    if not events:
        return b"", False
    host, kind = hosts.HOSTS[events[0].host], events[0].kind
    wanted = settings.auto_retrieve and len(events) == 1 and kind in host.INJECTS
    try:
        context, taken = _deliver(directory, environ, events, wanted, settings.deadline)
    except _Refused:
        return hook_output.refused_line(host, directory, kind), False
    return hook_output.line(host, kind, context), taken


def _deliver(
    directory: str, environ: Mapping[str, str], events: Sequence[Event], wanted: bool, seconds: float
) -> tuple[str, bool]:
    """Hand the events over, or leave them in the spool; the context that came back, and whether they were taken.

    Raises:
        _Refused: a daemon elsewhere does not take this key; the events are in the spool.
    """
    began, event = time.monotonic(), events[0]
    lost = event.kind == "session_start" and event.data.get("source") == "compact"
    patience = min(LONGEST_WAIT if lost else seconds, LONGEST_WAIT) if wanted else CAPTURE_SECONDS
    body = {"events": [one.to_json() for one in events], "context": wanted}
    refused: _Refused | None = None
    try:
        return _told(directory, environ, body, patience), True
    except _Refused as error:
        refused = error
    except DaemonUnavailable:
        pass
    spool = home.inside(directory, home.SPOOL)
    spooled = [inbox.append(spool, one.to_json()) for one in events]
    if refused is not None:
        raise refused
    if client.is_elsewhere(environ):
        return "", False
    started = client.is_absent(directory)
    if started:
        client.start(directory)
    if not wanted or event.kind != "session_start":
        return "", False
    deadline = began + patience
    if started and client.wait_ready(directory, deadline):
        try:
            context = _told(directory, environ, body, deadline - time.monotonic())
            for path in spooled:
                inbox.remove(path)
            return context, True
        except DaemonUnavailable:
            pass
    return hook_output.brief(directory, event.project), False


def _told(directory: str, environ: Mapping[str, str], body: dict[str, Any], seconds: float) -> str:
    """Tell the daemon; its context. An older daemon keeps what it took and is asked to make room.

    Raises:
        DaemonUnavailable: it did not take the event.
        _Refused: it does not take the key either.
    """
    reply = client.send(directory, environ, "POST", "/hooks/events", body, seconds)
    if reply.status in (401, 403) and client.is_elsewhere(environ):
        raise _Refused
    if reply.status != 200 or not isinstance(reply.body.get("accepted"), int):
        raise DaemonUnavailable
    if not client.is_elsewhere(environ):
        _make_room(directory, reply)
    context = reply.body.get("context")
    return context if body["context"] and isinstance(context, str) else ""


def _make_room(directory: str, reply: client.Reply) -> None:
    with suppress(OSError):  # the older daemon serves on
        client.succeed(directory, reply)


def _send_spooled(directory: str, environ: Mapping[str, str], deadline: float) -> None:
    """Bring a few spooled files along: a daemon elsewhere does not read this machine's spool.

    A file that nobody can take in is set aside, so that those behind it get through.
    """
    for path in inbox.waiting(home.inside(directory, home.SPOOL))[:5]:
        left = min(CAPTURE_SECONDS, deadline - time.monotonic())
        if left <= 0:
            return
        try:
            events = inbox.read(path).events
        except OSError:
            events = []
        if not events:
            inbox.set_aside(path)
            continue
        body = {"events": events, "context": False}
        try:
            status = client.send(directory, environ, "POST", "/hooks/events", body, left).status
        except DaemonUnavailable:
            return
        if 400 <= status < 500 and status not in NOT_THE_FILES_FAULT:
            inbox.set_aside(path)
        elif status == 200:
            inbox.remove(path)
        else:
            return


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
    """While it is written the alarm is off: the line must come out whole."""
    left, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    rest = memoryview(line)
    while rest:
        rest = rest[os.write(1, rest) :]
    signal.setitimer(signal.ITIMER_REAL, left)


def _leave(_number: int, _frame: FrameType | None) -> None:
    os._exit(0)
