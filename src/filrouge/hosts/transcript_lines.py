"""What transcript readers share: a line as an object, a time as a number, a text without reminders."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from filrouge.hosts.reading import as_object

_REMINDER = re.compile(r"<system-reminder>.*?(?:</system-reminder>|\Z)", re.DOTALL)


def objects(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The JSON object of each line that is one."""
    for line in lines:
        try:
            value = as_object(json.loads(line))
        except (ValueError, RecursionError):
            continue
        if value:
            yield value


def epoch(value: Any) -> float:
    """Seconds since 1970 for an ISO 8601 text (UTC where it names no zone), else 0.0."""
    try:
        at = datetime.fromisoformat(value)
        return (at.replace(tzinfo=UTC) if at.tzinfo is None else at).timestamp()
    except (TypeError, ValueError, OverflowError):
        return 0.0


def without_reminders(text: str) -> str:
    """The text without what the host slipped into it for the model's eyes only."""
    if "<system-reminder>" not in text:
        return text
    return re.sub(r"\n{3,}", "\n\n", _REMINDER.sub("", text)).strip()
