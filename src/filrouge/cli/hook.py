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
from filrouge.capture import events as guard
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
SHORTEST_SECRET: Final = 7
#: Seconds of cleaning for one event. After that the remaining texts are replaced by a marker.
CLEANING_SECONDS: Final = 0.25


def payload_of(raw: bytes) -> dict[str, Any]:
    """Return the JSON object in a hook's input; empty if the input is not a JSON object."""
    try:
        return as_object(json.loads(raw.decode("utf-8-sig", "replace"))) if raw.strip() else {}
    except (ValueError, RecursionError):
        return {}


def cleaned(event: Event) -> Event | None:
    """Remove secrets and injected Filrouge blocks from an event; None if its text is empty after that."""
    try:
        data = _cleaned(event.data)
    except (ValueError, RecursionError):
        if event.kind != "tools":
            raise
        data = _cleaned(_without_output(event.data))
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


def _cleaned(data: dict[str, Any]) -> dict[str, Any]:
    return cast("dict[str, Any]", redact.map_texts(Pruner().prune(data), _Cleaner().clean))


def _without_output(data: dict[str, Any]) -> dict[str, Any]:
    """Return a tool event's calls without their input and output."""
    calls = [as_object(call) for call in as_list(data.get("calls"))[: MAX_VALUES // 8]]
    cut = {"input": None, "output": "[filrouge: output cut]"}
    return {"calls": [{**call, **cut} for call in calls]}


class _Cleaner:
    """Cleans the texts of one event. All texts share one size limit and one time limit."""

    def __init__(self) -> None:
        self._left = MAX_EVENT_CHARACTERS
        self._until = time.monotonic() + CLEANING_SECONDS

    def clean(self, text: str) -> str:
        if len(text) < SHORTEST_SECRET:
            return join_surrogates(text)
        limit = min(MAX_TEXT_CHARACTERS, self._left) if time.monotonic() < self._until else 0
        if not limit and text:
            return f"[filrouge: {len(text)} characters cut]"
        short = text[: limit + LOOKAHEAD] if len(text) > limit else text
        safe = redact.redact(guard.strip_injected_blocks(join_surrogates(short)))
        if len(text) > limit:
            safe = safe[: min(limit, max(0, len(safe) - LOOKAHEAD))]
            safe += f"\n[filrouge: {len(text) - limit} characters cut]"
        self._left = max(0, self._left - min(len(text), limit))
        return safe


# What a hook reads from the home, and what it prints. The daemon writes the settings for hooks to one small file, and
# one brief per project (its rules and last synthesis) for sessions that start before the daemon is up.

#: Bytes. Both large hosts cut the context at 10,000: one counts characters, the other bytes.
LARGEST_CONTEXT: Final = 9_500
_LARGEST_FILE: Final = 1_000_000


class HookSettings(NamedTuple):
    """The settings that a hook uses."""

    auto_capture: bool = True
    auto_retrieve: bool = True
    disabled_projects: tuple[str, ...] = ()
    wait: float = 1.5
    """Seconds to wait for a context that the daemon works on."""


def settings_of(directory: str) -> HookSettings:
    """Read the hook settings of a home. A setting that is missing or has the wrong type gets its default."""
    try:
        raw: dict[str, Any] = as_object(json.loads(_content(paths.inside(directory, paths.HOOK_SETTINGS)) or "{}"))
    except (ValueError, RecursionError):
        raw = {}
    given = raw.get("wait_ms")
    known = isinstance(given, int | float) and not isinstance(given, bool) and given > 0
    return HookSettings(
        auto_capture=raw.get("auto_capture") is not False,
        auto_retrieve=raw.get("auto_retrieve") is not False,
        disabled_projects=tuple(n for n in as_list(raw.get("disabled_projects")) if isinstance(n, str)),
        wait=given / 1000 if given is not None and known else HookSettings().wait,
    )


def is_disabled(settings: HookSettings, names: tuple[str, ...]) -> bool:
    """Return True if the user disabled a project under one of these names, in full or in short form."""
    given = settings.disabled_projects
    return bool(given) and any(name in given or _short(name) in given for name in names)


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
    text = context.encode("utf-8", "replace")[: LARGEST_CONTEXT - 1].decode("utf-8", "ignore")
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
    said = (
        "Filrouge: the daemon at FILROUGE_URL does not take the key in FILROUGE_API_KEY. What is said is kept on this"
        " machine and sent once it does; `filrouge status` shows the reason."
    )
    return json.dumps({"systemMessage": said, "suppressOutput": True}, separators=(",", ":")).encode("ascii") + b"\n"


def clear_refusal(directory: str) -> None:
    """Record that the daemon accepted the key, so that the next rejection is reported again."""
    try:
        os.unlink(paths.inside(directory, paths.REFUSED))
    except OSError:
        return


def _content(path: str) -> str:
    try:
        with open(paths.open_nofollow(path, os.O_RDONLY), "rb") as file:
            return file.read(_LARGEST_FILE).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""


LARGEST_INPUT: Final = 64 * 1024 * 1024
HARD_STOP: Final = 0.9
CAPTURE_SECONDS: Final = 0.15
#: Seconds to wait for the first byte of an answer, and for a daemon that is starting.
LONGEST_WAIT: Final = 0.6
#: No new work starts in the last seconds before the alarm.
RESERVE: Final = 0.1
#: Age of the process in seconds from which it spools first. On an idle machine the age here is 0.06 s.
SLOW_START: Final = 0.3
#: Age in seconds from which a hook that only captures does not contact the daemon.
VERY_SLOW_START: Final = 0.6
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

    def put_off(self, seconds: float) -> None:
        """Restart the timer, even if it has already fired. Does nothing if the alarm was not armed."""
        if self._armed:
            self.rang = False
            signal.setitimer(signal.ITIMER_REAL, seconds)


class _Context(NamedTuple):
    """The daemon's answer.

    Attributes:
        text: the block to print; may be empty.
        recall: id under which the daemon logged the block; empty if no delivery notice is wanted.
        taken: the daemon accepted the events.
    """

    text: str = ""
    recall: str = ""
    taken: bool = False


_alarm = _Alarm()


def main(argv: Sequence[str]) -> None:
    """Serve one event and exit the process; does not return."""
    _alarm.arm(HARD_STOP)
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
        if context.taken and client.is_remote(environ):
            clear_refusal(paths.home(environ))
            _send_spooled(paths.home(environ), environ, began + HARD_STOP - RESERVE)
    except _Lost as lost:
        _count(environ, lost.reason, lost.number)
    except Exception:  # a hook must not report a failure: the agent would stop
        _count(environ, "failed")
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
    if guard.is_internal(environ) or guard.is_disabled(environ):
        return b"", _Context()
    payload = payload_of(raw)
    directory = paths.home(environ)
    settings = settings_of(directory)
    captures = settings.auto_capture and project.is_capture_enabled(text_field(payload, "cwd"), environ)
    if not payload or not captures:
        return b"", _Context()
    at = time.time()
    told = hosts.parse(payload, host=_host(argv), environ=environ, at=at, new_id=lambda: _new_id(at))
    if not told or is_disabled(settings, told[0].project):
        return b"", _Context()
    events = [clean for event in told if (clean := cleaned(event)) is not None]
    if not events:
        return b"", _Context()
    host, kind = hosts.HOSTS[events[0].host], events[0].kind
    wanted = settings.auto_retrieve and len(events) == 1 and kind in host.INJECTS
    try:
        context = _deliver(directory, environ, events, wanted, settings.wait, age)
    except _Refused:
        return key_rejected_notice(host, directory, kind), _Context()
    return line(host, kind, context.text), context


def _deliver(
    directory: str, environ: Mapping[str, str], events: Sequence[Event], wanted: bool, wait: float, age: float
) -> _Context:
    """Send the events to the daemon, or write them to the spool. Returns the daemon's answer.

    Raises:
        _Refused: the remote daemon rejects this API key; the events are in the spool.
        _Lost: the events could be neither sent nor spooled.
    """
    began = time.monotonic()
    first = min(LONGEST_WAIT, wait) if wanted else CAPTURE_SECONDS
    spooled = _spool(directory, events) if age >= SLOW_START else None
    refused: _Refused | None = None
    if wanted or not spooled or age < VERY_SLOW_START:
        try:
            context = _send_events(directory, environ, events, wanted=wanted, first=first, wait=wait)
        except _Refused as error:
            refused = error
        except DaemonUnavailable:
            pass
        else:
            _remove(spooled or ())
            return context
    spooled = spooled or _spool(directory, events)
    if not spooled:
        raise _Lost("cannot be written", len(events))
    if refused is not None:
        raise refused
    if client.is_remote(environ):
        return _Context()
    return _without_daemon(directory, environ, events, wanted, wait, began + first, spooled)


def _without_daemon(
    directory: str,
    environ: Mapping[str, str],
    events: Sequence[Event],
    wanted: bool,
    wait: float,
    deadline: float,
    spooled: Sequence[str],
) -> _Context:
    """Start a daemon if none runs. A session start waits for it until the deadline, then falls back to the brief."""
    started = client.is_absent(directory)
    if started:
        client.start(directory)
    if not wanted or events[0].kind != "session_start":
        return _Context()
    if started and client.wait_ready(directory, deadline):
        left = deadline - time.monotonic()
        with suppress(DaemonUnavailable):
            context = _send_events(directory, environ, events, wanted=wanted, first=left, wait=wait)
            _remove(spooled)
            return context
    words = brief(directory, events[0].project)
    if words.strip():
        _respool_as_briefed(directory, events[0], spooled)
    return _Context(words)


def _respool_as_briefed(directory: str, start: Event, spooled: Sequence[str]) -> None:
    """Replace a spooled session start by one marked as briefed, so that a resumed session gets no second block."""
    if _spool(directory, [start._replace(data=start.data | {BRIEFED: True})]):
        _remove(spooled)


def _spool(directory: str, events: Sequence[Event]) -> list[str] | None:
    """Write events to the spool. Returns their files, or None if they cannot be written."""
    written: list[str] = []
    try:
        for event in events:
            written.append(inbox.append_event(paths.inside(directory, paths.SPOOL), event.to_json()))
    except OSError:
        _remove(written)
        return None
    return written


def _remove(spooled: Sequence[str]) -> None:
    for path in spooled:
        with suppress(OSError):  # harmless: the daemon discards an event that it reads twice
            inbox.remove_spool_file(path)


def _send_events(
    directory: str, environ: Mapping[str, str], events: Sequence[Event], *, wanted: bool, first: float, wait: float
) -> _Context:
    """Send events to the daemon. An older local daemon is then asked to hand over to this version.

    Args:
        first: seconds to wait for the first byte of the answer.
        wait: seconds to wait for the complete answer, if a context is wanted.

    Raises:
        DaemonUnavailable: the daemon did not accept the events.
        _Refused: the remote daemon rejects the API key.
    """
    began = time.monotonic()
    body: dict[str, Any] = {"events": [one.to_json() for one in events], "context": wanted}
    if wanted:
        body["wait_ms"] = int(wait * 1000)

    def answering() -> float:
        left = began + max(first, wait if wanted else 0.0) - time.monotonic()
        _alarm.put_off(max(0.0, left) + RESERVE)
        return left

    if wanted:  # a prompt gets the full wait for its context, even if this process started late
        _alarm.put_off(first + RESERVE)
    with _alarm:
        reply = client.send(directory, environ, "POST", "/hooks/events", body, first, on_answer=answering)
    if reply.status in (401, 403) and client.is_remote(environ):
        raise _Refused
    if reply.status != 200 or not isinstance(reply.body.get("accepted"), int):
        raise DaemonUnavailable
    if not client.is_remote(environ):
        _hand_over(directory, reply)
    context, recall = reply.body.get("context"), reply.body.get("recall")
    if not wanted or not isinstance(context, str):
        return _Context(taken=True)
    return _Context(context, recall if isinstance(recall, str) else "", taken=True)


def _acknowledge(environ: Mapping[str, str], recall: str) -> None:
    """Notify the daemon that the context of this recall was printed."""
    body = {"recall": recall}
    with suppress(DaemonUnavailable), _alarm:
        if client.is_remote(environ):
            client.send("", environ, "POST", "/hooks/delivered", body, CAPTURE_SECONDS)
        else:
            client.notify(paths.home(environ), "/hooks/delivered", body)


def _count(environ: Mapping[str, str], reason: inbox.Reason, number: int = 1) -> None:
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
        left = min(CAPTURE_SECONDS, deadline - time.monotonic())
        if left <= 0:
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
            status = client.send(directory, environ, "POST", "/hooks/events", body, left).status
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
        if size > LARGEST_INPUT:
            raise _Lost("input too large")


def _write_stdout(line: bytes) -> None:
    """Write the complete line. The alarm is off during the write, so the line is never cut."""
    left, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    rest = memoryview(line)
    while rest:
        rest = rest[os.write(1, rest) :]
    signal.setitimer(signal.ITIMER_REAL, left)


def _give_up(_number: int, _frame: FrameType | None) -> None:
    _count(os.environ, "out of time")
    os._exit(0)
