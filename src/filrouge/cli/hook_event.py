"""From a hook's stdin to an event that may leave the process: whole, tame, and without secrets.

Input is anything: empty, broken, in another encoding, a hundred megabytes of build log. Tool output is
cut, because nothing learns from its third megabyte and the hook has no time for it; a mark tells how much
is gone.
"""

from __future__ import annotations

import json
import time
from typing import Any, Final, cast

from filrouge.capture import guard, redact
from filrouge.hosts.reading import as_list, as_object, whole_text
from filrouge.model.event import Event

LONGEST_TOOL_TEXT: Final = 200_000
LONGEST_TEXT: Final = 400_000
#: All texts of one event together: dense with keywords, they still leave half of the hook's 900 ms.
LARGEST_EVENT: Final = 600_000
#: Read beyond a cut, so that a secret that lies across it is still seen whole.
MARGIN: Final = 4_096
#: Texts, numbers and containers of one event: each costs its share whatever its length.
MOST_VALUES: Final = 3_000
#: A keyword, a sign and a value: nothing shorter can be redacted.
SHORTEST_SECRET: Final = 7
DEEPEST: Final = 40
LONGEST_NAME: Final = 200
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
        data = _cleaned(event.data, LONGEST_TOOL_TEXT if event.kind == "tools" else LONGEST_TEXT)
    except (ValueError, RecursionError):
        if event.kind != "tools":
            raise
        data = _cleaned(_without_output(event.data), LONGEST_TOOL_TEXT)
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


def _cleaned(data: dict[str, Any], longest: int) -> dict[str, Any]:
    return cast("dict[str, Any]", redact.mapped(_Pruner().pruned(data), _Cleaner(longest).clean))


def _without_output(data: dict[str, Any]) -> dict[str, Any]:
    """The calls of a tool event by their names alone."""
    calls = [as_object(call) for call in as_list(data.get("calls"))[: MOST_VALUES // 8]]
    cut = {"input": None, "output": "[filrouge: output cut]"}
    return {"calls": [{**call, **cut} for call in calls]}


class _Pruner:
    """Cuts what is too much or too deep out of one event, and leaves a mark in its place."""

    def __init__(self) -> None:
        self._left = MOST_VALUES

    def pruned(self, value: Any, depth: int = 0) -> Any:
        """The value with as many of its parts as are still allowed, in order."""
        self._left -= 1
        if isinstance(value, (list, dict)) and depth >= DEEPEST:
            return "[filrouge: cut, too deep]"
        if isinstance(value, list):
            return self._list(cast("list[Any]", value), depth)
        if isinstance(value, dict):
            return self._object(cast("dict[str, Any]", value), depth)
        return value

    def _list(self, items: list[Any], depth: int) -> list[Any]:
        kept: list[Any] = []
        for item in items:
            if self._left <= 0:
                kept.append(f"[filrouge: {len(items) - len(kept)} items cut]")
                break
            kept.append(self.pruned(item, depth + 1))
        return kept

    def _object(self, fields: dict[str, Any], depth: int) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for done, (name, item) in enumerate(fields.items()):
            if self._left <= 0 and depth > 2:  # a call keeps its own few fields
                kept["filrouge"] = f"[filrouge: {len(fields) - done} fields cut]"
                break
            kept[name[:LONGEST_NAME]] = self.pruned(item, depth + 1)
        return kept


class _Cleaner:
    """Cleans the texts of one event, which share what may be kept and the time there is."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._left = LARGEST_EVENT
        self._until = time.monotonic() + PATIENCE

    def clean(self, text: str) -> str:
        if len(text) < SHORTEST_SECRET:
            return whole_text(text)
        limit = min(self._longest, self._left) if time.monotonic() < self._until else 0
        if not limit and text:
            return f"[filrouge: {len(text)} characters cut]"
        short = text[: limit + MARGIN] if len(text) > limit else text
        safe = redact.redact(guard.strip_own(whole_text(short)))
        if len(text) > limit:
            safe = safe[: min(limit, max(0, len(safe) - MARGIN))]
            safe += f"\n[filrouge: {len(text) - limit} characters cut]"
        self._left = max(0, self._left - min(len(text), limit))
        return safe
