"""What a hook is given, as events without secrets, and what it prints.

In: the bytes on a hook's stdin, its environment, and the settings for hooks in the home. Out: a `Reading` with the
events to store, and later the line that injects context into the host. The daemon reads what a hook hands over as it
came (`daemon.handover`), and the hook itself reads it where there is no daemon to do so (`cli.hook`).

This module is on the hook's path, so it imports only light standard-library modules.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, cast

from filrouge import hosts
from filrouge.capture import events as capture_events
from filrouge.capture import redact
from filrouge.capture.events import LOOKAHEAD, MAX_EVENT_CHARACTERS, MAX_TEXT_CHARACTERS, MAX_VALUES, Event, Pruner
from filrouge.core import paths
from filrouge.hosts import Host, project
from filrouge.hosts.command_hooks import as_list, as_object, join_surrogates, text_field

# Parsing and cleaning of the input, which may be empty, broken, in another encoding or 100 MB of build log. Long tool
# output is cut, because a hook has no time for it; a marker says how many characters were cut.

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


# What a hook reads from the home, where the daemon writes the settings for hooks to one small file, and what it prints.

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
        raw: dict[str, Any] = as_object(json.loads(content_of(paths.inside(directory, paths.HOOK_SETTINGS)) or "{}"))
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


def line(host: Host, kind: str, context: str) -> bytes:
    """Return the output line with which the host injects `context` at this event; empty if there is none to inject."""
    text = context.encode("utf-8", "replace")[: MAX_CONTEXT_BYTES - 1].decode("utf-8", "ignore")
    if not text.strip() or kind not in host.INJECTS:
        return b""
    output = host.injection(host.INJECTS[kind], text)
    return json.dumps(output, separators=(",", ":")).encode("ascii") + b"\n"


def content_of(path: str) -> str:
    """Return the beginning of one of the home's files as text; empty if it cannot be read, or is a symbolic link."""
    try:
        with open(paths.open_nofollow(path, os.O_RDONLY), "rb") as file:
            return file.read(_MAX_FILE_BYTES).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""


# Reading one input.

_ID_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"


class Reading(NamedTuple):
    """The events in a hook's input.

    Attributes:
        wants_context: the host accepts context at this event, and the settings allow it.
        wait: seconds to wait for a context that the daemon works on.
    """

    host: Host
    events: list[Event]
    wants_context: bool
    wait: float

    @property
    def kind(self) -> str:
        """The kind of the first event."""
        return self.events[0].kind


def read_input(
    raw: bytes, *, host: str, directory: str, environ: Mapping[str, str], at: float, seed: bytes
) -> Reading | None:
    """Read a hook's input; None if there is nothing to capture.

    Args:
        raw: all of stdin.
        host: the host's name; empty = the shape of the input identifies it.
        directory: the home, whose settings for hooks are obeyed.
        environ: the hook's environment.
        at: when the hook began, in seconds since 1970.
        seed: ten random bytes. Whoever reads the same input with the same seed gives its events the same ids.
    """
    payload = payload_of(raw)
    settings = settings_of(directory)
    captures = settings.auto_capture and project.is_capture_enabled(text_field(payload, "cwd"), environ)
    if not payload or not captures:
        return None
    parsed = hosts.parse(payload, host=host, environ=environ, at=at, new_id=_ids(at, seed))
    if not parsed or is_disabled(settings, parsed[0].project):
        return None
    events = [cleaned for event in parsed if (cleaned := clean_event(event)) is not None]
    if not events:
        return None
    sender = hosts.HOSTS[events[0].host]
    wants_context = settings.auto_retrieve and len(events) == 1 and events[0].kind in sender.INJECTS
    return Reading(host=sender, events=events, wants_context=wants_context, wait=settings.wait)


def _ids(at: float, seed: bytes) -> Callable[[], str]:
    """Return a function that makes one ULID after the other, like `clock.new_id`."""
    first = int.from_bytes(seed, "big")
    made = 0

    def new_id() -> str:
        nonlocal made
        number = (int(at * 1000) << 80) | (first + made) % (1 << 80)
        made += 1
        return "".join(_ID_ALPHABET[(number >> shift) & 31] for shift in range(125, -5, -5))

    return new_id
