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
from filrouge.capture.cutting import LARGEST_EVENT, LONGEST_TEXT, MARGIN, MOST_VALUES, Pruner
from filrouge.capture.events import Event
from filrouge.hosts.reading import as_list, as_object, whole_text

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
