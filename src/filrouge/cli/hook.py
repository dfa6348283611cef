"""The hook process: an agent runs it at each of its events.

Most hooks hand their input to the daemon as it came (`daemon.handover`). This module serves the others: it takes the
secrets out of an event, sends it to the daemon or writes it to the spool, and prints the context that the daemon
returned. A hook always exits with 0, writes nothing to stderr, and prints either nothing or one complete JSON line,
because anything else would block the user's prompt.

Timeouts: 150 ms for a hook that only captures; at most 600 ms for the first byte of an answer. A daemon that builds
context sends that byte at once, and the hook then waits as long as the setting `hook_wait_ms` allows. An alarm at
900 ms ends a wait, but never interrupts the work between reading an event and storing it. If the process itself
started late, the event is spooled first. Events that cannot be stored are counted (`capture.losses`).

Imports dominate the run time, so this module imports only light standard-library modules and what the hook uses.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import FrameType
from typing import Any, Final, NamedTuple

from filrouge.capture import events as capture_events
from filrouge.capture import inbox
from filrouge.capture.events import BRIEFED, Event
from filrouge.core import paths
from filrouge.core.errors import DaemonUnavailable
from filrouge.daemon import client
from filrouge.daemon.handover import (
    CAPTURE_SECONDS,
    DELIVERED_PATH,
    HARD_STOP_SECONDS,
    MAX_FIRST_BYTE_SECONDS,
    SLOW_START_SECONDS,
    Input,
    confirm,
    host_named,
    write_stdout,
)
from filrouge.hosts import Host
from filrouge.hosts.hook_input import Reading, content_of, line, read_input
from filrouge.hosts.project import brief_keys

# What a hook prints without the daemon: a notice, and the brief of a project (its rules and last synthesis), which the
# daemon wrote for sessions that start before it is up.


def brief(directory: str, names: tuple[str, ...]) -> str:
    """Return the first brief found for a project's names, or an empty text. The delimiter gets a fresh random nonce.

    The brief of a name that was set by a file is stored per folder, for the folders that the user agreed to. Only
    those folders read it.
    """
    found = (content_of(paths.brief_path(directory, key)).strip() for key in brief_keys(names))
    return next((text for text in found if text), "").replace(paths.UNSET_NONCE, os.urandom(8).hex())


def key_rejected_notice(host: Host, directory: str, kind: str) -> bytes:
    """Return a line that says that the remote daemon rejects the API key; empty if the user was already told."""
    if not host.NOTICES or kind not in host.INJECTS:
        return b""
    try:
        os.close(os.open(paths.inside(directory, paths.REFUSED), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError:  # the user was told before
        return b""
    text = (
        "Filrouge: the daemon at FILROUGE_URL rejects the key in FILROUGE_API_KEY. Events are kept on this"
        " machine and sent once it does; `filrouge status` shows the reason."
    )
    return json.dumps({"systemMessage": text, "suppressOutput": True}, separators=(",", ":")).encode("ascii") + b"\n"


def clear_refusal(directory: str) -> None:
    """Record that the daemon accepted the key, so that the next rejection is reported again."""
    try:
        os.unlink(paths.inside(directory, paths.REFUSED))
    except OSError:
        return


#: No new work starts in the last seconds before the alarm.
RESERVE_SECONDS: Final = 0.1
#: Age in seconds from which a hook that only captures does not contact the daemon.
VERY_SLOW_START_SECONDS: Final = 0.6
#: Seconds of CPU time after which a hook gives up: its input is abnormally large.
MAX_CPU_SECONDS: Final = 5.0
#: Status codes for a rejected key or a busy daemon. The file itself is fine and is sent again later.
RETRYABLE_STATUSES: Final = (401, 403, 408, 429)


class _Refused(DaemonUnavailable):
    """The remote daemon rejects this API key."""


class _TimeIsUp(DaemonUnavailable):
    """The alarm ended a wait."""


class _Alarm:
    """Ends a wait for the daemon. If the signal arrives outside a wait, it only prevents the next wait."""

    def __init__(self) -> None:
        self.rang = False
        self._armed = False
        self._waiting = False

    def __enter__(self) -> None:
        if self.rang:
            raise _TimeIsUp
        self._waiting = True

    def __exit__(self, *_: object) -> None:
        self._waiting = False

    def ring(self, _number: int, _frame: FrameType | None) -> None:
        """Handle SIGALRM."""
        self.rang = True
        if self._waiting:
            self._waiting = False
            raise _TimeIsUp

    def arm(self, seconds: float) -> None:
        """Set the timer. Only `main` calls this, once."""
        self._armed = True
        signal.signal(signal.SIGALRM, self.ring)
        signal.setitimer(signal.ITIMER_REAL, seconds)

    def restart(self, seconds: float) -> None:
        """Restart the timer, even if it has already fired. Does nothing if the alarm was not armed."""
        if self._armed:
            self.rang = False
            signal.setitimer(signal.ITIMER_REAL, seconds)


class _Context(NamedTuple):
    """The daemon's answer.

    Attributes:
        text: the block to print; may be empty.
        recall: id under which the daemon logged the block; empty if the daemon needs no delivery notice.
        accepted: the daemon accepted the events.
    """

    text: str = ""
    recall: str = ""
    accepted: bool = False


_alarm = _Alarm()


def main(argv: Sequence[str], given: Input) -> None:
    """Serve one input that could not be handed over, and exit the process; does not return."""
    _alarm.arm(max(RESERVE_SECONDS, HARD_STOP_SECONDS - (time.time() - given.at)))
    signal.signal(signal.SIGPROF, _give_up)
    signal.setitimer(signal.ITIMER_PROF, MAX_CPU_SECONDS)
    try:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 2)
        run(argv, given, _write_stdout, os.environ)
    finally:
        os._exit(0)  # nothing is buffered, and a normal interpreter shutdown would cost milliseconds


def run(argv: Sequence[str], given: Input, write: Callable[[bytes], object], environ: Mapping[str, str]) -> int:
    """Serve one event.

    Args:
        argv: the arguments. `--host NAME` names the host if the shape of the input does not identify it.
        given: the input.
        write: receives the complete line to print.
        environ: the environment.

    Returns:
        0, always.
    """
    began = time.monotonic()
    try:
        line, context = _serve(argv, given, environ)
        if line:
            write(line)
            if context.recall:
                _acknowledge(environ, context.recall)
        if context.accepted and client.is_remote(environ):
            clear_refusal(paths.home(environ))
            _send_spooled(paths.home(environ), environ, began + HARD_STOP_SECONDS - RESERVE_SECONDS)
    except _Lost as lost:
        _count_loss(environ, lost.reason, lost.number)
    except Exception:  # a hook must not report a failure: the agent would stop
        _count_loss(environ, "failed")
    return 0


class _Lost(Exception):
    """Events could not be stored."""

    def __init__(self, reason: inbox.Reason, number: int = 1) -> None:
        super().__init__(reason)
        self.reason: inbox.Reason = reason
        self.number = number


def _serve(argv: Sequence[str], given: Input, environ: Mapping[str, str]) -> tuple[bytes, _Context]:
    """Serve one input. Returns the line to print and the daemon's answer.

    Raises:
        _Lost: the input did not come to its end, or its events could be neither sent nor spooled.
    """
    if given.lost:
        raise _Lost(given.lost)
    if capture_events.is_internal(environ) or capture_events.is_disabled(environ):
        return b"", _Context()
    directory = paths.home(environ)
    reading = read_input(
        given.raw, host=host_named(argv), directory=directory, environ=environ, at=given.at, seed=given.seed
    )
    if reading is None:
        return b"", _Context()
    try:
        context = _deliver(directory, environ, reading, given)
    except _Refused:
        return key_rejected_notice(reading.host, directory, reading.kind), _Context()
    return line(reading.host, reading.kind, context.text), context


def _deliver(directory: str, environ: Mapping[str, str], reading: Reading, given: Input) -> _Context:
    """Send the events to the daemon, or write them to the spool. Returns the daemon's answer.

    Raises:
        _Refused: the remote daemon rejects this API key; the events are in the spool.
        _Lost: the events could be neither sent nor spooled.
    """
    began, events, wants_context, wait = time.monotonic(), reading.events, reading.wants_context, reading.wait
    first_byte_seconds = min(MAX_FIRST_BYTE_SECONDS, wait) if wants_context else CAPTURE_SECONDS
    spooled = _spool(directory, events) if given.age >= SLOW_START_SECONDS else None
    refused: _Refused | None = None
    if not given.is_tried and (wants_context or not spooled or given.age < VERY_SLOW_START_SECONDS):
        try:
            context = _send_events(
                directory,
                environ,
                events,
                wants_context=wants_context,
                first_byte_seconds=first_byte_seconds,
                wait=wait,
            )
        except _Refused as error:
            refused = error
        except DaemonUnavailable:
            pass
        else:
            _remove_spooled(spooled or ())
            return context
    spooled = spooled or _spool(directory, events)
    if not spooled:
        raise _Lost("cannot be written", len(events))
    if refused is not None:
        raise refused
    if client.is_remote(environ):
        return _Context()
    return _without_daemon(directory, environ, events, wants_context, wait, began + first_byte_seconds, spooled)


def _without_daemon(
    directory: str,
    environ: Mapping[str, str],
    events: Sequence[Event],
    wants_context: bool,
    wait: float,
    deadline: float,
    spooled: Sequence[str],
) -> _Context:
    """Start a daemon if none runs. A session start waits for it until the deadline, then falls back to the brief."""
    started = client.is_absent(directory)
    if started:
        client.start(directory)
    if not wants_context or events[0].kind != "session_start":
        return _Context()
    if started and client.wait_ready(directory, deadline):
        remaining = deadline - time.monotonic()
        with suppress(DaemonUnavailable):
            context = _send_events(
                directory, environ, events, wants_context=wants_context, first_byte_seconds=remaining, wait=wait
            )
            _remove_spooled(spooled)
            return context
    text = brief(directory, events[0].project)
    if text.strip():
        _respool_as_briefed(directory, events[0], spooled)
    return _Context(text)


def _respool_as_briefed(directory: str, start: Event, spooled: Sequence[str]) -> None:
    """Replace a spooled session start by one marked as briefed, so that a resumed session gets no second block."""
    if _spool(directory, [start._replace(data=start.data | {BRIEFED: True})]):
        _remove_spooled(spooled)


def _spool(directory: str, events: Sequence[Event]) -> list[str] | None:
    """Write events to the spool. Returns their files, or None if they cannot be written."""
    written: list[str] = []
    try:
        for event in events:
            written.append(inbox.append_event(paths.inside(directory, paths.SPOOL), event.to_json()))
    except OSError:
        _remove_spooled(written)
        return None
    return written


def _remove_spooled(spooled: Sequence[str]) -> None:
    for path in spooled:
        with suppress(OSError):  # harmless: the daemon discards an event that it reads twice
            inbox.remove_spool_file(path)


def _send_events(
    directory: str,
    environ: Mapping[str, str],
    events: Sequence[Event],
    *,
    wants_context: bool,
    first_byte_seconds: float,
    wait: float,
) -> _Context:
    """Send events to the daemon. An older local daemon is then asked to hand over to this version.

    Args:
        first_byte_seconds: seconds to wait for the first byte of the answer.
        wait: seconds to wait for the complete answer, if a context is wanted.

    Raises:
        DaemonUnavailable: the daemon did not accept the events.
        _Refused: the remote daemon rejects the API key.
    """
    began = time.monotonic()
    body: dict[str, Any] = {"events": [event.to_json() for event in events], "context": wants_context}
    if wants_context:
        body["wait_ms"] = int(wait * 1000)

    def answering() -> float:
        remaining = began + max(first_byte_seconds, wait if wants_context else 0.0) - time.monotonic()
        _alarm.restart(max(0.0, remaining) + RESERVE_SECONDS)
        return remaining

    if wants_context:  # a prompt gets the full wait for its context, even if this process started late
        _alarm.restart(first_byte_seconds + RESERVE_SECONDS)
    with _alarm:
        reply = client.send(directory, environ, "POST", "/hooks/events", body, first_byte_seconds, on_answer=answering)
    if reply.status in (401, 403) and client.is_remote(environ):
        raise _Refused
    if reply.status != 200 or not isinstance(reply.body.get("accepted"), int):
        raise DaemonUnavailable
    if not client.is_remote(environ):
        _hand_over(directory, reply)
    context, recall = reply.body.get("context"), reply.body.get("recall")
    if not wants_context or not isinstance(context, str):
        return _Context(accepted=True)
    return _Context(context, recall if isinstance(recall, str) else "", accepted=True)


def _acknowledge(environ: Mapping[str, str], recall: str) -> None:
    """Notify the daemon that the context of this recall was printed."""
    with suppress(DaemonUnavailable), _alarm:
        if client.is_remote(environ):
            client.send("", environ, "POST", DELIVERED_PATH, {"recall": recall}, CAPTURE_SECONDS)
        else:
            confirm(paths.home(environ), recall.encode())


def _count_loss(environ: Mapping[str, str], reason: inbox.Reason, number: int = 1) -> None:
    with suppress(OSError):  # the home cannot be written either, so the loss cannot be recorded
        inbox.add_losses(paths.home(environ), reason, number)


def _hand_over(directory: str, reply: client.Reply) -> None:
    with suppress(OSError):  # the older daemon continues to serve
        client.replace_older_daemon(directory, reply)


def _send_spooled(directory: str, environ: Mapping[str, str], deadline: float) -> None:
    """Send up to five spooled files to a remote daemon, which cannot read this machine's spool.

    A file that is unreadable or rejected is set aside, so that it does not block the files after it.
    """
    for path in inbox.waiting_files(paths.inside(directory, paths.SPOOL))[:5]:
        remaining = min(CAPTURE_SECONDS, deadline - time.monotonic())
        if remaining <= 0:
            return
        try:
            events = inbox.read_spool_file(path).events
        except OSError:
            events = []
        if not events:
            inbox.set_aside(path)
            continue
        body = {"events": events, "context": False}
        try:
            status = client.send(directory, environ, "POST", "/hooks/events", body, remaining).status
        except DaemonUnavailable:
            return
        if 400 <= status < 500 and status not in RETRYABLE_STATUSES:
            inbox.set_aside(path)
        elif status == 200:
            inbox.remove_spool_file(path)
        else:
            return


def _write_stdout(line: bytes) -> None:
    """Write the complete line. The alarm is off during the write, so the line is never cut."""
    remaining_seconds, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    write_stdout(line)
    signal.setitimer(signal.ITIMER_REAL, remaining_seconds)


def _give_up(_number: int, _frame: FrameType | None) -> None:
    _count_loss(os.environ, "out of time")
    os._exit(0)
