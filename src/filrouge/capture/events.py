"""An event: what a host reported, in Filrouge's own format, cut to size and without Filrouge's own output.

A hook's JSON becomes one `Event`, in the daemon or, where there is none to do so, in the hook process. Nothing else
crosses that boundary, so the JSON form is versioned. The hook imports this module: `Event` is a NamedTuple, because
importing `dataclasses` costs 9 ms there.

The content of `data`, by `kind`:

    session_start  source: startup | resume | clear | compact | fork; briefed?: the hook itself injected the brief
    prompt         text; source?: who typed it, when the host says so
    reply          text: the assistant's last message
    tools          calls: [{name, id, input, output, failed}]
    subagent       text, agent_type: the answer of a helper agent
    pre_compact    trigger
    summary        text: the host's own summary of a compacted conversation
    session_end    reason
    note           text, scope?: a statement the user made to Filrouge itself
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple, cast, get_args

EventKind = Literal[
    "session_start", "prompt", "reply", "tools", "subagent", "pre_compact", "summary", "session_end", "note"
]
EVENT_KINDS: Final[tuple[str, ...]] = get_args(EventKind)
VERSION: Final = 1
#: Field of a session start's `data`: no daemon ran, and the hook itself injected the project's brief.
BRIEFED: Final = "briefed"
#: Environment variable of processes that Filrouge starts; hooks inside them do nothing.
INTERNAL_VARIABLE: Final = "FILROUGE_INTERNAL"


class Event(NamedTuple):
    """One event in an agent's session."""

    id: str
    """Made by the hook: 26 characters, unique, the same when the spool is read twice."""
    host: str
    """claude-code, codex, cli, api, ..."""
    kind: EventKind
    session: str
    at: float
    """Seconds since 1970, by the hook's clock."""
    key: str
    """The host's own id for this event (`prompt:<uuid>`), or empty where it has none."""
    cwd: str
    project: tuple[str, ...]
    """How the project may be known, strongest first: `name:…`, `origin:…`, `root:…`, `clone:…`, `path:…`."""
    transcript: str
    """The host's transcript file, or empty."""
    agent: str
    """Empty for the main agent, else the helper agent's id."""
    data: dict[str, Any]
    user: str = ""
    """Whose it is, where a program says so; empty for the user whose daemon it is."""
    branch: str = ""
    """The git branch that was checked out, or the beginning of a commit; empty where there is none."""

    def to_json(self) -> dict[str, Any]:
        """Return the form that is sent and stored."""
        return {"v": VERSION, **self._asdict()}


def event_from_json(raw: dict[str, Any]) -> Event:
    """Parse what `to_json` wrote; ignore unknown fields.

    Raises:
        ValueError: names the first field that is missing or of the wrong type.
    """
    if raw.get("kind") not in EVENT_KINDS:
        raise ValueError(f"event kind {raw.get('kind')!r} is not one of {', '.join(EVENT_KINDS)}")
    for name in ("id", "host", "session", "key", "cwd", "transcript", "agent", "user", "branch"):
        if not isinstance(raw.get(name, ""), str):
            raise ValueError(f"event field {name!r} must be text")
    at, data, project = raw.get("at"), raw.get("data", {}), raw.get("project", ())
    if not isinstance(at, int | float) or isinstance(at, bool):
        raise ValueError("event field 'at' must be seconds since 1970")
    if not isinstance(data, dict):
        raise ValueError("event field 'data' must be an object")
    if not isinstance(project, list | tuple) or not all(isinstance(p, str) for p in cast("list[Any]", project)):
        raise ValueError("event field 'project' must be a list of texts")
    if not raw.get("id") or not raw.get("host"):
        raise ValueError("an event needs an id and a host")
    return Event(
        id=raw["id"],
        host=raw["host"],
        kind=raw["kind"],
        session=raw.get("session", ""),
        at=float(at),
        key=raw.get("key", ""),
        cwd=raw.get("cwd", ""),
        project=tuple(cast("list[str]", project)),
        transcript=raw.get("transcript", ""),
        agent=raw.get("agent", ""),
        data=cast("dict[str, Any]", data),
        user=raw.get("user", ""),
        branch=raw.get("branch", ""),
    )


def tool_calls(event: Event) -> list[Mapping[str, Any]]:
    """Return the tool calls in an event; anything else in their list is left out."""
    listed = event.data.get("calls")
    calls = cast("list[Any]", listed) if isinstance(listed, list) else []
    return [cast("Mapping[str, Any]", call) for call in calls if isinstance(call, dict)]


# Size limits of one event, shared by the hook and the daemon.
#
# Nothing is learnt from the third megabyte of a build log, and no writer should wait for it. Anything over a limit is
# cut and replaced by a mark with the size of what was cut. The beginning is kept exactly. The hook imports this
# module: standard library only.

MAX_TEXT_CHARACTERS: Final = 200_000
#: All texts of one event together; at this size redaction takes at most half of the hook's 900 ms.
MAX_EVENT_CHARACTERS: Final = 600_000
#: Characters read beyond a cut, so that a secret across the cut is seen whole.
LOOKAHEAD: Final = 4_096
#: Texts, numbers and containers of one event; each has a cost regardless of its length.
MAX_VALUES: Final = 3_000
MAX_DEPTH: Final = 40
MAX_NAME_CHARACTERS: Final = 200
#: Tolerance for the mark at the end of a text that was already cut.
MARK_TOLERANCE: Final = 200

_MARKED: Final = re.compile(r"\n?\[filrouge: (\d+) characters cut\]\Z")


class Pruner:
    """Cuts excess items, fields and depth of one event, and leaves marks.

    Attributes:
        values_cut: number of items and fields that were cut.
    """

    def __init__(self, max_values: int = MAX_VALUES) -> None:
        self._values_left = max_values
        self.values_cut = 0

    def prune(self, value: Any, depth: int = 0) -> Any:
        """Return the value with as many of its parts as the remaining budget allows, in order."""
        self._values_left -= 1
        if isinstance(value, (list, dict)) and depth >= MAX_DEPTH:
            self.values_cut += 1
            return "[filrouge: nested too deeply, cut]"
        if isinstance(value, list):
            return self._list(cast("list[Any]", value), depth)
        if isinstance(value, dict):
            return self._object(cast("dict[str, Any]", value), depth)
        return value

    def _list(self, items: list[Any], depth: int) -> list[Any]:
        result: list[Any] = []
        for item in items:
            if self._values_left <= 0:
                self.values_cut += len(items) - len(result)
                result.append(f"[filrouge: {len(items) - len(result)} items cut]")
                break
            result.append(self.prune(item, depth + 1))
        return result

    def _object(self, fields: dict[str, Any], depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for position, (name, item) in enumerate(fields.items()):
            if self._values_left <= 0 and depth > 2:  # a tool call keeps its few top-level fields
                self.values_cut += len(fields) - position
                result["filrouge"] = f"[filrouge: {len(fields) - position} fields cut]"
                break
            result[name[:MAX_NAME_CHARACTERS]] = self.prune(item, depth + 1)
        return result


class TextCutter:
    """Cuts the texts of one event, which share one budget.

    Attributes:
        characters_cut: number of characters that were cut.
    """

    def __init__(self) -> None:
        self._characters_left = MAX_EVENT_CHARACTERS
        self.characters_cut = 0

    def clean_and_cut(self, text: str, clean: Callable[[str], str]) -> str:
        """Return the cleaned text, cut to the limit if it is too long."""
        limit = min(MAX_TEXT_CHARACTERS, self._characters_left)
        if len(text) <= limit + MARK_TOLERANCE:
            self._characters_left = max(0, self._characters_left - len(text))
            return clean(text)
        earlier_mark = _MARKED.search(text, len(text) - MARK_TOLERANCE)
        cut_before = int(earlier_mark[1]) if earlier_mark else 0
        cut_characters = (earlier_mark.start() if earlier_mark else len(text)) - limit + cut_before
        self.characters_cut += cut_characters
        self._characters_left -= limit
        if not limit:
            return cut_mark(cut_characters)
        clean_text = clean(text[: limit + LOOKAHEAD])
        return f"{clean_text[: min(limit, max(0, len(clean_text) - LOOKAHEAD))]}\n{cut_mark(cut_characters)}"


def cut_mark(characters: int) -> str:
    """Return the mark that replaces a number of characters."""
    return f"[filrouge: {characters} characters cut]"


# Guard against capturing Filrouge's own output.
#
# Injected memory stands between `<filrouge-memory nonce="HEX">` and `</filrouge-memory HEX>`. A host may write that
# block back inside a transcript, a tool's output or a prompt: wrapped, escaped for JSON or HTML, or cut off. All of
# it is removed, because memory that captures itself turns one planted sentence into a trusted one. A child process
# that Filrouge starts has an environment variable that turns its hooks off.

TAG = "filrouge-memory"
DISABLED_VARIABLE = "FILROUGE_DISABLED"
NONCE_DIGITS = 16

_LT = r"(?:<|&lt;|&#60;|&#x3c;|\\{1,4}u003c)"
_GT = r"(?:>|&gt;|&#62;|&#x3e;|\\{1,4}u003e)"
_QUOTE = r"(?:\\{0,4}[\"']|&quot;|&#34;|&#39;|\\{1,4}u0022)?"
_MARKER = (
    rf"(?i){_LT}(?:(\\{{0,4}}/)\s{{0,4}}{TAG}\s{{0,4}}([0-9a-f]{{0,64}})\s{{0,4}}{_GT}"
    rf"|\s{{0,4}}{TAG}(?:\s{{1,4}}nonce={_QUOTE}([0-9a-f]{{0,64}}){_QUOTE})?(?:\s{{0,4}}{_GT})?)"
)


def strip_injected_blocks(text: str) -> str:
    """Return the text without any block that Filrouge injected.

    Only a closing tag with the block's own nonce closes it, so that a stored text cannot end the block early. An
    unclosed block is removed to the end of the text if its nonce has our length; otherwise only the tag is removed.
    """
    if TAG not in text:
        return text
    markers = list(re.finditer(_MARKER, text))
    closing: dict[str, list[re.Match[str]]] = {}
    for marker in reversed(markers):
        if marker[1] is not None:
            closing.setdefault(marker[2].lower(), []).append(marker)
            closing.setdefault("", []).append(marker)
    parts: list[str] = []
    start = 0
    for marker in markers:
        if marker[1] is not None or marker.start() < start:
            continue
        nonce = (marker[3] or "").lower()
        parts.append(text[start : marker.start()])
        ends = closing.get(nonce, [])
        while ends and ends[-1].start() < marker.end():
            ends.pop()
        if not ends and len(nonce) == NONCE_DIGITS:
            return "".join(parts)
        start = ends[-1].end() if ends else marker.end()
    return "".join([*parts, text[start:]])


def is_internal(environ: Mapping[str, str]) -> bool:
    """Return True inside a process that Filrouge started."""
    return bool(environ.get(INTERNAL_VARIABLE))


def is_disabled(environ: Mapping[str, str]) -> bool:
    """Return True if the user turned every hook off."""
    return environ.get(DISABLED_VARIABLE, "").strip().lower() in ("1", "true", "yes", "on")
