"""The hook process: an agent runs it at each of its events.

It reads the event on stdin, redacts secrets, sends the event to the daemon or writes it to the spool, and prints the
context that the daemon returned. It always exits with 0, writes nothing to stderr, and prints either nothing or one
complete JSON line, because anything else would block the user's prompt.

Timeouts: 150 ms for a hook that only captures; at most 600 ms for the first byte of an answer. A daemon that builds
context sends that byte at once, and the hook then waits as long as the setting `hook_wait_ms` allows. An alarm at
900 ms ends a wait, but never interrupts the work between reading an event and storing it. If the process itself
started late, the event is spooled first. Events that cannot be stored are counted (`capture.losses`).

Imports dominate the run time, so this module imports only light standard-library modules and what the hook uses.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import FrameType
from typing import Any, Final, NamedTuple, cast

from filrouge import hosts
from filrouge.capture import events as capture_events
from filrouge.capture import inbox, redact
from filrouge.capture.events import (
    BRIEFED,
    LOOKAHEAD,
    MAX_EVENT_CHARACTERS,
    MAX_TEXT_CHARACTERS,
    MAX_VALUES,
    Event,
    Pruner,
)
from filrouge.core import paths
from filrouge.core.errors import DaemonUnavailable
from filrouge.daemon import client
from filrouge.hosts import Host, project
from filrouge.hosts.command_hooks import as_list, as_object, join_surrogates, text_field
from filrouge.hosts.project import brief_keys

# Parsing and cleaning of the input, which may be empty, broken, in another encoding or 100 MB of build log. Long tool
# output is cut, because the hook has no time for it; a marker says how many characters were cut.

#: A secret is a keyword, a sign and a value. Shorter texts are not searched for secrets.
MIN_SECRET_CHARACTERS: Final = 7
#: Seconds of cleaning for one event. After that the remaining texts are replaced by a marker.
CLEANING_SECONDS: Final = 0.25


def payload_of(raw: bytes) -> dict[str, Any]:
    """Return the JSON object in a hook's input; empty if the input is not a JSON object."""
    try:
        return as_object(json.loads(raw.decode("utf-8-sig", "replace"))) if raw.strip() else {}
    except (ValueError, RecursionError):
        return {}


def clean_event(event: Event) -> Event | None:
    """Remove secrets and injected Filrouge blocks from an event; None if its text is empty after that."""
    try:
        data = _clean_data(event.data)
    except (ValueError, RecursionError):
        if event.kind != "tools":
            raise
        data = _clean_data(_without_output(event.data))
    if "text" in event.data and not str(data.get("text", "")).strip():
        return None
    return event._replace(
        data=data,
        session=join_surrogates(event.session),
        key=join_surrogates(event.key),
        cwd=join_surrogates(event.cwd),
        transcript=join_surrogates(event.transcript),
        agent=join_surrogates(event.agent),
        project=tuple(map(join_surrogates, event.project)),
        branch=join_surrogates(event.branch),
    )


def _clean_data(data: dict[str, Any]) -> dict[str, Any]:
    return cast("dict[str, Any]", redact.map_texts(Pruner().prune(data), _Cleaner().clean))


def _without_output(data: dict[str, Any]) -> dict[str, Any]:
    """Return a tool event's calls without their input and output."""
    calls = [as_object(call) for call in as_list(data.get("calls"))[: MAX_VALUES // 8]]
    cut = {"input": None, "output": "[filrouge: output cut]"}
    return {"calls": [{**call, **cut} for call in calls]}


class _Cleaner:
    """Cleans the texts of one event. All texts share one size limit and one time limit."""

    def __init__(self) -> None:
        self._remaining = MAX_EVENT_CHARACTERS
        self._deadline = time.monotonic() + CLEANING_SECONDS

    def clean(self, text: str) -> str:
        if len(text) < MIN_SECRET_CHARACTERS:
            return join_surrogates(text)
        limit = min(MAX_TEXT_CHARACTERS, self._remaining) if time.monotonic() < self._deadline else 0
        if not limit and text:
            return f"[filrouge: {len(text)} characters cut]"
        short = text[: limit + LOOKAHEAD] if len(text) > limit else text
        safe = redact.redact(capture_events.strip_injected_blocks(join_surrogates(short)))
        if len(text) > limit:
            safe = safe[: min(limit, max(0, len(safe) - LOOKAHEAD))]
            safe += f"\n[filrouge: {len(text) - limit} characters cut]"
        self._remaining = max(0, self._remaining - min(len(text), limit))
        return safe


# What a hook reads from the home, and what it prints. The daemon writes the settings for hooks to one small file, and
# one brief per project (its rules and last synthesis) for sessions that start before the daemon is up.

#: Bytes. Both large hosts cut the context at 10,000: one counts characters, the other bytes.
MAX_CONTEXT_BYTES: Final = 9_500
_MAX_FILE_BYTES: Final = 1_000_000


class HookSettings(NamedTuple):
    """The settings that a hook uses.

    Attributes:
        wait: seconds to wait for a context that the daemon works on.
    """

    auto_capture: bool = True
    auto_retrieve: bool = True
    disabled_projects: tuple[str, ...] = ()
    wait: float = 1.5


def settings_of(directory: str) -> HookSettings:
    """Read the hook settings of a home. A setting that is missing or has the wrong type gets its default."""
    try:
        raw: dict[str, Any] = as_object(json.loads(_content(paths.inside(directory, paths.HOOK_SETTINGS)) or "{}"))
    except (ValueError, RecursionError):
        raw = {}
    wait_ms = raw.get("wait_ms")
    is_valid = isinstance(wait_ms, int | float) and not isinstance(wait_ms, bool) and wait_ms > 0
    return HookSettings(
        auto_capture=raw.get("auto_capture") is not False,
        auto_retrieve=raw.get("auto_retrieve") is not False,
        disabled_projects=tuple(n for n in as_list(raw.get("disabled_projects")) if isinstance(n, str)),
        wait=wait_ms / 1000 if wait_ms is not None and is_valid else HookSettings().wait,
    )


def is_disabled(settings: HookSettings, names: tuple[str, ...]) -> bool:
    """Return True if the user disabled a project under one of these names, in full or in short form."""
    disabled = settings.disabled_projects
    return bool(disabled) and any(name in disabled or _short(name) in disabled for name in names)


def _short(name: str) -> str:
    """Return a name's short form: `shop` for `path:/home/ana/shop`, `origin:forge.example/ana/shop`, `name:shop`."""
    kind, _, rest = name.partition(":")
    if kind == "name":
        return rest
    return rest.rstrip("/").rpartition("/")[2] if kind in ("path", "origin") else name


def brief(directory: str, names: tuple[str, ...]) -> str:
    """Return the first brief found for a project's names, or an empty text. The delimiter gets a fresh random nonce.

    The brief of a name that was set by a file is stored per folder, for the folders that the user agreed to. Only
    those folders read it.
    """
    found = (_content(paths.brief_path(directory, key)).strip() for key in brief_keys(names))
    return next((text for text in found if text), "").replace(paths.UNSET_NONCE, os.urandom(8).hex())


def line(host: Host, kind: str, context: str) -> bytes:
    """Return the output line with which the host injects `context` at this event; empty if there is none to inject."""
    text = context.encode("utf-8", "replace")[: MAX_CONTEXT_BYTES - 1].decode("utf-8", "ignore")
    if not text.strip() or kind not in host.INJECTS:
        return b""
    output = host.injection(host.INJECTS[kind], text)
    return json.dumps(output, separators=(",", ":")).encode("ascii") + b"\n"


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


def _content(path: str) -> str:
    try:
        with open(paths.open_nofollow(path, os.O_RDONLY), "rb") as file:
            return file.read(_MAX_FILE_BYTES).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""


MAX_INPUT_BYTES: Final = 64 * 1024 * 1024
HARD_STOP_SECONDS: Final = 0.9
CAPTURE_SECONDS: Final = 0.15
#: Seconds to wait for the first byte of an answer, and for a daemon that is starting.
MAX_FIRST_BYTE_SECONDS: Final = 0.6
#: No new work starts in the last seconds before the alarm.
RESERVE_SECONDS: Final = 0.1
#: Age of the process in seconds from which it spools first. On an idle machine the age here is 0.06 s.
SLOW_START_SECONDS: Final = 0.3
#: Age in seconds from which a hook that only captures does not contact the daemon.
VERY_SLOW_START_SECONDS: Final = 0.6
#: Seconds of CPU time after which a hook gives up: its input is abnormally large.
MAX_CPU_SECONDS: Final = 5.0
#: Status codes for a rejected key or a busy daemon. The file itself is fine and is sent again later.
RETRYABLE_STATUSES: Final = (401, 403, 408, 429)
ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"


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


def main(argv: Sequence[str]) -> None:
    """Serve one event and exit the process; does not return."""
    _alarm.arm(HARD_STOP_SECONDS)
    signal.signal(signal.SIGPROF, _give_up)
    signal.setitimer(signal.ITIMER_PROF, MAX_CPU_SECONDS)
    try:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 2)
        run(argv, _read_stdin, _write_stdout, os.environ, age=process_age())
    finally:
        os._exit(0)  # nothing is buffered, and a normal interpreter shutdown would cost milliseconds


def run(
    argv: Sequence[str],
    read: Callable[[], bytes],
    write: Callable[[bytes], object],
    environ: Mapping[str, str],
    *,
    age: float = 0.0,
) -> int:
    """Serve one event.

    Args:
        argv: the arguments. `--host NAME` names the host if the shape of the input does not identify it.
        read: returns all of stdin.
        write: receives the complete line to print.
        environ: the environment.
        age: seconds since the process was started.

    Returns:
        0, always.
    """
    began = time.monotonic()
    try:
        line, context = _serve(argv, read(), environ, age)
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


def process_age() -> float:
    """Return the seconds since this process was started, to 10 ms; 0 if the system does not report it."""
    try:
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0
    return age if 0 <= age < 600 else 0.0  # implausible: the clock of another namespace


class _Lost(Exception):
    """Events could not be stored."""

    def __init__(self, reason: inbox.Reason, number: int = 1) -> None:
        super().__init__(reason)
        self.reason: inbox.Reason = reason
        self.number = number


def _serve(argv: Sequence[str], raw: bytes, environ: Mapping[str, str], age: float) -> tuple[bytes, _Context]:
    """Serve one input. Returns the line to print and the daemon's answer."""
    if capture_events.is_internal(environ) or capture_events.is_disabled(environ):
        return b"", _Context()
    payload = payload_of(raw)
    directory = paths.home(environ)
    settings = settings_of(directory)
    captures = settings.auto_capture and project.is_capture_enabled(text_field(payload, "cwd"), environ)
    if not payload or not captures:
        return b"", _Context()
    at = time.time()
    parsed = hosts.parse(payload, host=_host(argv), environ=environ, at=at, new_id=lambda: _new_id(at))
    if not parsed or is_disabled(settings, parsed[0].project):
        return b"", _Context()
    events = [cleaned for event in parsed if (cleaned := clean_event(event)) is not None]
    if not events:
        return b"", _Context()
    host, kind = hosts.HOSTS[events[0].host], events[0].kind
    wants_context = settings.auto_retrieve and len(events) == 1 and kind in host.INJECTS
    try:
        context = _deliver(directory, environ, events, wants_context, settings.wait, age)
    except _Refused:
        return key_rejected_notice(host, directory, kind), _Context()
    return line(host, kind, context.text), context


def _deliver(
    directory: str, environ: Mapping[str, str], events: Sequence[Event], wants_context: bool, wait: float, age: float
) -> _Context:
    """Send the events to the daemon, or write them to the spool. Returns the daemon's answer.

    Raises:
        _Refused: the remote daemon rejects this API key; the events are in the spool.
        _Lost: the events could be neither sent nor spooled.
    """
    began = time.monotonic()
    first_byte_seconds = min(MAX_FIRST_BYTE_SECONDS, wait) if wants_context else CAPTURE_SECONDS
    spooled = _spool(directory, events) if age >= SLOW_START_SECONDS else None
    refused: _Refused | None = None
    if wants_context or not spooled or age < VERY_SLOW_START_SECONDS:
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
    body = {"recall": recall}
    with suppress(DaemonUnavailable), _alarm:
        if client.is_remote(environ):
            client.send("", environ, "POST", "/hooks/delivered", body, CAPTURE_SECONDS)
        else:
            client.notify(paths.home(environ), "/hooks/delivered", body)


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


def _host(argv: Sequence[str]) -> str:
    for index, word in enumerate(argv):
        if word.startswith("--host="):
            return word.partition("=")[2]
        if word == "--host" and index + 1 < len(argv):
            return argv[index + 1]
    return ""


def _new_id(at: float) -> str:
    """Return a ULID, like `clock.new_id`. Importing `secrets` would cost 15 ms here."""
    number = (int(at * 1000) << 80) | int.from_bytes(os.urandom(10), "big")
    return "".join(ALPHABET[(number >> shift) & 31] for shift in range(125, -5, -5))


def _read_stdin() -> bytes:
    """Read all of stdin. A host writes it at once and closes it.

    Raises:
        _Lost: the input is too large, or does not end in time.
    """
    pieces: list[bytes] = []
    size = 0
    while True:
        # Data that is available is read even after the alarm; the loop just stops waiting for more.
        if _alarm.rang and not select.select([0], [], [], 0)[0]:
            if not size:
                return b""
            raise _Lost("input incomplete")
        if not _alarm.rang and not select.select([0], [], [], 0.05)[0]:
            continue
        piece = os.read(0, 1 << 20)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
        size += len(piece)
        if size > MAX_INPUT_BYTES:
            raise _Lost("input too large")


def _write_stdout(line: bytes) -> None:
    """Write the complete line. The alarm is off during the write, so the line is never cut."""
    remaining_seconds, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    unwritten = memoryview(line)
    while unwritten:
        unwritten = unwritten[os.write(1, unwritten) :]
    signal.setitimer(signal.ITIMER_REAL, remaining_seconds)


def _give_up(_number: int, _frame: FrameType | None) -> None:
    _count_loss(os.environ, "out of time")
    os._exit(0)
