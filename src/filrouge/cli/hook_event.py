"""From a hook's stdin to an event that may leave the process: whole, tame, and without secrets.

Input is anything: empty, broken, in another encoding, a hundred megabytes of build log. Tool output is
cut, because nothing learns from its third megabyte and the hook has no time for it; a mark tells how much
is gone.
"""

from __future__ import annotations

import json
from typing import Any, Final, cast

from filrouge.capture import guard, redact
from filrouge.hosts.reading import as_object
from filrouge.model.event import Event

LONGEST_TOOL_TEXT: Final = 200_000
LONGEST_TEXT: Final = 400_000
#: All texts of one event together: dense with keywords, they still leave half of the hook's 900 ms.
LARGEST_EVENT: Final = 600_000
#: Read beyond a cut, so that a secret that lies across it is still seen whole.
MARGIN: Final = 4_096


def payload_of(raw: bytes) -> dict[str, Any]:
    """The JSON object in a hook's input, or an empty one."""
    try:
        return as_object(json.loads(raw.decode("utf-8-sig", "replace"))) if raw.strip() else {}
    except (ValueError, RecursionError):
        return {}


def cleaned(event: Event) -> Event | None:
    """The event without secrets and without our own words; None where its text was nothing else."""
    cleaner = _Cleaner(LONGEST_TOOL_TEXT if event.kind == "tools" else LONGEST_TEXT)
    data = cast("dict[str, Any]", redact.mapped(event.data, cleaner.clean))
    if "text" in event.data and not str(data.get("text", "")).strip():
        return None
    return event._replace(
        data=data,
        session=_tame(event.session),
        key=_tame(event.key),
        cwd=_tame(event.cwd),
        transcript=_tame(event.transcript),
        agent=_tame(event.agent),
        project=tuple(map(_tame, event.project)),
    )


class _Cleaner:
    """Cleans the texts of one event, which share what may be kept."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._left = LARGEST_EVENT

    def clean(self, text: str) -> str:
        limit = min(self._longest, self._left)
        short = text[: limit + MARGIN] if len(text) > limit else text
        safe = redact.redact(guard.strip_own(_tame(short)))
        if len(text) > limit:
            safe = safe[: min(limit, max(0, len(safe) - MARGIN))]
            safe += f"\n[filrouge: {len(text) - limit} characters cut]"
        self._left = max(0, self._left - min(len(text), limit))
        return safe


def _tame(text: str) -> str:
    """The text with halves of surrogate pairs joined, or replaced where the other half is missing."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
