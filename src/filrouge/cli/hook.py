"""The hook: what an agent runs at each of its events, and the only code that may never fail.

It reads the event on stdin, takes secrets out, hands it to the daemon or leaves it in the spool, and prints the
context to inject where the daemon gave one. Whatever happens it ends with 0, writes nothing on stderr, and prints
nothing or one whole line of JSON: anything else would block the user's prompt.

A hook that only captures waits 150 ms for the daemon, and any hook waits 600 ms at most for the first byte of an
answer. A daemon that works on a prompt's context sends that byte at once; from then on the hook waits as long as the
setting `hook_wait_ms` says. An alarm at 900 ms ends a wait, never the work between reading the event and writing it.

On a machine where processes get little time (the hook itself began late), the event goes to the spool before anything
else; a hook that only captures then leaves the daemon alone. An event that cannot be written is counted
(`capture.losses`), on a full disk too.

Importing is most of its time, so only the standard library's light modules and the hook's own are imported here.
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
from filrouge.capture import guard, inbox, losses, redact
from filrouge.capture.cutting import LARGEST_EVENT, LONGEST_TEXT, MARGIN, MOST_VALUES, Pruner
from filrouge.capture.events import BRIEFED, Event
from filrouge.core import paths
from filrouge.core.errors import DaemonUnavailable
from filrouge.daemon import client
from filrouge.hosts import Host, project
from filrouge.hosts.reading import as_list, as_object, text_field, whole_text
from filrouge.projects.folder_names import brief_keys

# From a hook's stdin to an event that may leave the process: whole, tame, and without secrets.
#
# Input is anything: empty, broken, in another encoding, a hundred megabytes of build log. Tool output is cut, because
# nothing learns from its third megabyte and the hook has no time for it; a mark tells how much is gone.

#: A keyword, a sign and a value: nothing shorter can be redacted.
SHORTEST_SECRET: Final = 7
#: After this many seconds what is left of an event is cut unread.
PATIENCE: Final = 0.25


def payload_of(raw: bytes) -> dict[str, Any]:
    """The JSON object in a hook's input, or an empty one."""
    try:
        return as_object(json.loads(raw.decode("utf-8-sig", "replace"))) if raw.strip() else {}
    except (ValueError, RecursionError):
        return {}


def cleaned(event: Event) -> Event | None:
    """The event without secrets and without our own words; None where its text was nothing else."""
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
        session=whole_text(event.session),
        key=whole_text(event.key),
        cwd=whole_text(event.cwd),
        transcript=whole_text(event.transcript),
        agent=whole_text(event.agent),
        project=tuple(map(whole_text, event.project)),
        branch=whole_text(event.branch),
    )


def _cleaned(data: dict[str, Any]) -> dict[str, Any]:
    return cast("dict[str, Any]", redact.mapped(Pruner().pruned(data), _Cleaner().clean))


def _without_output(data: dict[str, Any]) -> dict[str, Any]:
    """The calls of a tool event by their names alone."""
    calls = [as_object(call) for call in as_list(data.get("calls"))[: MOST_VALUES // 8]]
    cut = {"input": None, "output": "[filrouge: output cut]"}
    return {"calls": [{**call, **cut} for call in calls]}


class _Cleaner:
    """Cleans the texts of one event, which share what may be kept and the time there is."""

    def __init__(self) -> None:
        self._left = LARGEST_EVENT
        self._until = time.monotonic() + PATIENCE

    def clean(self, text: str) -> str:
        if len(text) < SHORTEST_SECRET:
            return whole_text(text)
        limit = min(LONGEST_TEXT, self._left) if time.monotonic() < self._until else 0
        if not limit and text:
            return f"[filrouge: {len(text)} characters cut]"
        short = text[: limit + MARGIN] if len(text) > limit else text
        safe = redact.redact(guard.strip_own(whole_text(short)))
        if len(text) > limit:
            safe = safe[: min(limit, max(0, len(safe) - MARGIN))]
            safe += f"\n[filrouge: {len(text) - limit} characters cut]"
        self._left = max(0, self._left - min(len(text), limit))
        return safe


# What a hook is told by its home, and what it prints.
#
# The daemon mirrors the settings that a hook needs into one small file, and keeps a brief beside it for each project:
# the rules and the last synthesis, for a session that starts before the daemon is up.

#: Both big hosts cut at 10,000: one counts characters, the other bytes.
LARGEST_CONTEXT: Final = 9_500
_LARGEST_FILE: Final = 1_000_000


class HookSettings(NamedTuple):
    """The settings that concern a hook."""

    auto_capture: bool = True
    auto_retrieve: bool = True
    disabled_projects: tuple[str, ...] = ()
    wait: float = 1.5
    """Seconds to wait for a context that the daemon works on."""


def settings_of(directory: str) -> HookSettings:
    """The settings in that home; the default of each that is missing or of the wrong kind."""
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
    """True where the user turned off a project of that name: the whole of it, or the part a person would write."""
    given = settings.disabled_projects
    return bool(given) and any(name in given or _short(name) in given for name in names)


def _short(name: str) -> str:
    """`shop` for `path:/home/ana/shop` and `origin:forge.example/ana/shop`, the name itself for `name:shop`."""
    kind, _, rest = name.partition(":")
    if kind == "name":
        return rest
    return rest.rstrip("/").rpartition("/")[2] if kind in ("path", "origin") else name


def brief(directory: str, names: tuple[str, ...]) -> str:
    """The brief of the first of a project's names that has one, or empty; its delimiter is this session's own.

    The brief of a name that a file chose is kept for the folders that the user agreed to, and read by them alone.
    """
    found = (_content(paths.brief_path(directory, key)).strip() for key in brief_keys(names))
    return next((text for text in found if text), "").replace(paths.UNSET_NONCE, os.urandom(8).hex())


def line(host: Host, kind: str, context: str) -> bytes:
    """The line by which that host puts `context` in front of its model at that event, or nothing to print."""
    text = context.encode("utf-8", "replace")[: LARGEST_CONTEXT - 1].decode("utf-8", "ignore")
    if not text.strip() or kind not in host.INJECTS:
        return b""
    output = host.injection(host.INJECTS[kind], text)
    return json.dumps(output, separators=(",", ":")).encode("ascii") + b"\n"


def refused_line(host: Host, directory: str, kind: str) -> bytes:
    """The line that tells the user, once, that a daemon elsewhere does not take the key; then nothing to print."""
    if not host.NOTICES or kind not in host.INJECTS:
        return b""
    try:
        os.close(os.open(paths.inside(directory, paths.REFUSED), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError:  # it was said before
        return b""
    said = (
        "Filrouge: the daemon at FILROUGE_URL does not take the key in FILROUGE_API_KEY. What is said is kept on this"
        " machine and sent once it does; `filrouge status` shows the reason."
    )
    return json.dumps({"systemMessage": said, "suppressOutput": True}, separators=(",", ":")).encode("ascii") + b"\n"


def let_in(directory: str) -> None:
    """The key was taken: the next refusal is told again."""
    try:
        os.unlink(paths.inside(directory, paths.REFUSED))
    except OSError:
        return


def _content(path: str) -> str:
    try:
        with open(paths.open_own(path, os.O_RDONLY), "rb") as file:
            return file.read(_LARGEST_FILE).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""


LARGEST_INPUT: Final = 64 * 1024 * 1024
HARD_STOP: Final = 0.9
CAPTURE_SECONDS: Final = 0.15
#: Seconds for the first byte of an answer, and for a daemon that is just starting.
LONGEST_WAIT: Final = 0.6
#: Seconds before the alarm that nothing more is begun.
RESERVE: Final = 0.1
#: Age of the process in seconds at which it spools first; an idle machine needs 0.06 to get here.
SLOW_START: Final = 0.3
#: Age at which a hook that only captures does not speak to the daemon any more.
VERY_SLOW_START: Final = 0.6
#: Seconds of processor time after which a hook gives up: its input is out of all proportion.
MOST_CPU: Final = 5.0
#: A wrong key, and a daemon that is busy: the same file may be welcome later.
NOT_THE_FILES_FAULT: Final = (401, 403, 408, 429)
ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"


class _Refused(DaemonUnavailable):
    """A daemon elsewhere does not take this key."""


class _TimeIsUp(DaemonUnavailable):
    """The alarm rang during a wait."""


class _Alarm:
    """Ends a wait for the daemon. Rung at any other time, it only keeps the next wait from beginning."""

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
        """The signal handler."""
        self.rang = True
        if self._waiting:
            self._waiting = False
            raise _TimeIsUp

    def arm(self, seconds: float) -> None:
        """Ring after that time. Called once, by the process's own main function."""
        self._armed = True
        signal.signal(signal.SIGALRM, self.ring)
        signal.setitimer(signal.ITIMER_REAL, seconds)

    def put_off(self, seconds: float) -> None:
        """Ring after that time instead, also where it rang already; without effect on one that is not armed."""
        if self._armed:
            self.rang = False
            signal.setitimer(signal.ITIMER_REAL, seconds)


class _Context(NamedTuple):
    """What the daemon answered.

    Attributes:
        text: the block to print; empty where there is none.
        recall: the id under which the daemon logged it; empty where it wants no word of its delivery.
        taken: the daemon has the events.
    """

    text: str = ""
    recall: str = ""
    taken: bool = False


_alarm = _Alarm()


def main(argv: Sequence[str]) -> None:
    """Serve one event as a process of its own; does not return."""
    _alarm.arm(HARD_STOP)
    signal.signal(signal.SIGPROF, _give_up)
    signal.setitimer(signal.ITIMER_PROF, MOST_CPU)
    try:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 2)
        run(argv, _read_stdin, _write_stdout, os.environ, age=process_age())
    finally:
        os._exit(0)  # nothing is buffered, and taking the interpreter down would cost milliseconds


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
        argv: `--host NAME` says which host is speaking, where its shape would not tell.
        read: gives all of stdin.
        write: takes the one line to print, whole.
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
        if context.taken and client.is_elsewhere(environ):
            let_in(paths.home(environ))
            _send_spooled(paths.home(environ), environ, began + HARD_STOP - RESERVE)
    except _Lost as lost:
        _count(environ, lost.reason, lost.number)
    except Exception:  # a hook that fails must not be heard: the agent would stop
        _count(environ, "failed")
    return 0


def process_age() -> float:
    """Seconds since this process was started, to 10 ms; 0 where the system does not tell."""
    try:
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0
    return age if 0 <= age < 600 else 0.0  # a clock of another namespace


class _Lost(Exception):
    """Events that could not be kept."""

    def __init__(self, reason: losses.Reason, number: int = 1) -> None:
        super().__init__(reason)
        self.reason: losses.Reason = reason
        self.number = number


def _serve(argv: Sequence[str], raw: bytes, environ: Mapping[str, str], age: float) -> tuple[bytes, _Context]:
    """What to print for that input, and what the daemon said."""
    if guard.internal(environ) or guard.disabled(environ):
        return b"", _Context()
    payload = payload_of(raw)
    directory = paths.home(environ)
    settings = settings_of(directory)
    captures = settings.auto_capture and project.captures(text_field(payload, "cwd"), environ)
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
        return refused_line(host, directory, kind), _Context()
    return line(host, kind, context.text), context


def _deliver(
    directory: str, environ: Mapping[str, str], events: Sequence[Event], wanted: bool, wait: float, age: float
) -> _Context:
    """Hand the events over, or leave them in the spool; what the daemon said.

    Raises:
        _Refused: a daemon elsewhere does not take this key; the events are in the spool.
        _Lost: nobody took them, and they could not be spooled.
    """
    began = time.monotonic()
    first = min(LONGEST_WAIT, wait) if wanted else CAPTURE_SECONDS
    spooled = _spool(directory, events) if age >= SLOW_START else None
    refused: _Refused | None = None
    if wanted or not spooled or age < VERY_SLOW_START:
        try:
            context = _told(directory, environ, events, wanted=wanted, first=first, wait=wait)
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
    if client.is_elsewhere(environ):
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
    """Start a daemon where none runs. A session's start waits for it until the deadline, and else has the brief."""
    started = client.is_absent(directory)
    if started:
        client.start(directory)
    if not wanted or events[0].kind != "session_start":
        return _Context()
    if started and client.wait_ready(directory, deadline):
        left = deadline - time.monotonic()
        with suppress(DaemonUnavailable):
            context = _told(directory, environ, events, wanted=wanted, first=left, wait=wait)
            _remove(spooled)
            return context
    words = brief(directory, events[0].project)
    if words.strip():
        _say_briefed(directory, events[0], spooled)
    return _Context(words)


def _say_briefed(directory: str, start: Event, spooled: Sequence[str]) -> None:
    """Spool a start again with the word that its session was given the brief: resumed, it needs no second block."""
    if _spool(directory, [start._replace(data=start.data | {BRIEFED: True})]):
        _remove(spooled)


def _spool(directory: str, events: Sequence[Event]) -> list[str] | None:
    """The spool files of these events, or None where they cannot be written."""
    written: list[str] = []
    try:
        for event in events:
            written.append(inbox.append(paths.inside(directory, paths.SPOOL), event.to_json()))
    except OSError:
        _remove(written)
        return None
    return written


def _remove(spooled: Sequence[str]) -> None:
    for path in spooled:
        with suppress(OSError):  # the daemon recognises an event that it reads twice
            inbox.remove(path)


def _told(
    directory: str, environ: Mapping[str, str], events: Sequence[Event], *, wanted: bool, first: float, wait: float
) -> _Context:
    """Tell the daemon. An older daemon keeps what it took and is asked to make room.

    Args:
        first: seconds for the first byte of the answer.
        wait: seconds for all of it, where a context is wanted.

    Raises:
        DaemonUnavailable: it did not take the event.
        _Refused: it does not take the key either.
    """
    began = time.monotonic()
    body: dict[str, Any] = {"events": [one.to_json() for one in events], "context": wanted}
    if wanted:
        body["wait_ms"] = int(wait * 1000)

    def answering() -> float:
        left = began + max(first, wait if wanted else 0.0) - time.monotonic()
        _alarm.put_off(max(0.0, left) + RESERVE)
        return left

    if wanted:  # a prompt waits for its context, however late the machine let this process begin
        _alarm.put_off(first + RESERVE)
    with _alarm:
        reply = client.send(directory, environ, "POST", "/hooks/events", body, first, answering=answering)
    if reply.status in (401, 403) and client.is_elsewhere(environ):
        raise _Refused
    if reply.status != 200 or not isinstance(reply.body.get("accepted"), int):
        raise DaemonUnavailable
    if not client.is_elsewhere(environ):
        _make_room(directory, reply)
    context, recall = reply.body.get("context"), reply.body.get("recall")
    if not wanted or not isinstance(context, str):
        return _Context(taken=True)
    return _Context(context, recall if isinstance(recall, str) else "", taken=True)


def _acknowledge(environ: Mapping[str, str], recall: str) -> None:
    """Tell the daemon that the host has the context of that recall."""
    body = {"recall": recall}
    with suppress(DaemonUnavailable), _alarm:
        if client.is_elsewhere(environ):
            client.send("", environ, "POST", "/hooks/delivered", body, CAPTURE_SECONDS)
        else:
            client.notify(paths.home(environ), "/hooks/delivered", body)


def _count(environ: Mapping[str, str], reason: losses.Reason, number: int = 1) -> None:
    with suppress(Exception):  # the home cannot be written either: nobody is left to tell
        losses.add(paths.home(environ), reason, number)


def _make_room(directory: str, reply: client.Reply) -> None:
    with suppress(OSError):  # the older daemon serves on
        client.succeed(directory, reply)


def _send_spooled(directory: str, environ: Mapping[str, str], deadline: float) -> None:
    """Bring a few spooled files along: a daemon elsewhere does not read this machine's spool.

    A file that nobody can take in is set aside, so that those behind it get through.
    """
    for path in inbox.waiting(paths.inside(directory, paths.SPOOL))[:5]:
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
    """All of stdin, which a host writes at once and closes.

    Raises:
        _Lost: it is too large, or did not end in time.
    """
    pieces: list[bytes] = []
    size = 0
    while True:
        # What is there is read, however late it is; after the alarm nothing is waited for.
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
    """While it is written the alarm is off: the line must come out whole."""
    left, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    rest = memoryview(line)
    while rest:
        rest = rest[os.write(1, rest) :]
    signal.setitimer(signal.ITIMER_REAL, left)


def _give_up(_number: int, _frame: FrameType | None) -> None:
    _count(os.environ, "out of time")
    os._exit(0)
